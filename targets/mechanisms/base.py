"""Protocol of every randomizer: sampling, exact log-probability, domain and accounting event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp

Size = tuple[int, ...] | None
"""Shape of a batch of outputs; by default the batch shape of the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Inputs that a mechanism accepts: arrays with entries in a range.

    ``low``, ``high``: range of the entries; an infinite end if the mechanism clips its input.
    ``shape``: last axes of an input.
    ``values``: all allowed entries if they are finitely many; None for all finite numbers in [low,
    high].
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()
    values: tuple[float, ...] | None = None

    def check(self, value: ArrayLike) -> NDArray[Any]:
        """Returns ``value`` as an array if it lies in the domain; InputError otherwise."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise InputError(f"Expected numbers as an input, got {value!r}. Encode it first.")
        if array.shape[array.ndim - len(self.shape) :] != self.shape:
            raise InputError(
                f"Expected an input whose last axes are {self.shape}, got shape {array.shape}."
            )
        if self.values is not None:
            inside = np.isin(array, self.values)
        else:
            inside = (array >= self.low) & (array <= self.high) & np.isfinite(array)
        if not np.all(inside):
            bad = array[~inside].flat[0].item()
            raise InputError(f"Expected an input in {self}, got {bad!r}. Project it first.")
        return array

    def spread(self, value: ArrayLike, size: Size) -> NDArray[Any]:
        """The checked ``value`` as a view of shape (*size, *shape); ``size`` defaults to its batch.

        InputError if the batch does not broadcast to ``size``.
        """
        array = self.check(value)
        batch = array.shape[: array.ndim - len(self.shape)]
        try:
            return np.broadcast_to(array, (batch if size is None else size) + self.shape)
        except ValueError:
            raise InputError(
                f"Expected a batch that broadcasts to size={size}, got a batch of shape {batch}."
            ) from None

    def __str__(self) -> str:
        if self.values is not None:
            entries = "{" + ", ".join(f"{v:g}" for v in self.values) + "}"
        else:
            entries = f"[{self.low:g}, {self.high:g}]"
        return f"{entries}^{'x'.join(map(str, self.shape))}" if self.shape else entries


def describe(value: Any) -> str:
    """An input or output in words, for a mechanism without words of its own."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return str(array.tolist())
    if array.ndim == 0:
        return f"{array.item():g}"
    if array.size > 8 and (array == array.flat[0]).all():
        return f"{array.flat[0]:g} in all {array.size} entries"
    return np.array2string(array, threshold=8, separator=", ")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """Inputs and outputs among which the largest log-ratio of a mechanism is attained.

    ``inputs``: (a, *domain shape).
    ``outputs``: (b, *output shape).
    ``copies``: number of independent randomizations by ``part``. All of them may have the worst
    pair together, so that the log-ratio adds up; inputs and outputs are those of one part.
    ``groups``: number of groups of equal size into which the copies fall. Copies of one group see
    the same pair. Another group may see another pair, or the same pair with its inputs exchanged,
    which is worse at delta > 0 for a pair that distinguishes one way better than the other way.
    ``part``: the mechanism of one copy; None if the mechanism is its own only part.
    ``exhaustive``: whether ``outputs`` are all outputs of positive probability, and every ordered
    pair of inputs of the part is, at every epsilon, no easier to distinguish than some ordered pair
    among ``inputs``.
    ``name_input``, ``name_output``: put an input or an output in words, for a distinguishing event.
    """

    inputs: NDArray[Any]
    outputs: NDArray[Any]
    copies: int = 1
    groups: int = 1
    part: Mechanism | None = None
    exhaustive: bool = False
    name_input: Callable[[Any], str] = describe
    name_output: Callable[[Any], str] = describe


class Mechanism(Protocol):
    """A local randomizer: a distribution over outputs for every input of its domain.

    Shapes follow numpy's generators. ``value`` has shape (*batch, *domain.shape). An output has
    shape (*size, *output_shape), where ``size`` defaults to the batch, which must broadcast to it.
    """

    @property
    def domain(self) -> Domain:
        """Inputs for which the distribution is defined."""
        ...

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        ...

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws outputs; InputError if ``value`` is outside the domain."""
        ...

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Exact log-probability (or log-density) of ``output`` given ``value``, broadcast."""
        ...

    def worst_case(self) -> WorstCase | None:
        """Inputs and outputs that attain the largest log-ratio; None if it is unbounded."""
        ...

    def event(self) -> dp.DpEvent:
        """Event that an accountant charges for one use; it dominates every pair of inputs."""
        ...


@runtime_checkable
class PrivacyCurve(Protocol):
    """A mechanism that knows its whole privacy curve, though its outputs are infinitely many."""

    def delta(self, epsilon: float) -> float:
        """The smallest delta at ``epsilon`` over all ordered pairs of inputs, exactly.

        This is the largest hockey-stick divergence, which never rises with epsilon.
        """
        ...
