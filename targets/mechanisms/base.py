"""What every randomizer offers: sampling, exact log-probability, domain and accounting event."""

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
"""Shape of a batch of outputs; by default that of the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The inputs a mechanism accepts: arrays whose last axes are ``shape``, entries in a range.

    ``values`` lists the entries allowed where they are finitely many; otherwise every finite
    number in [low, high] is. An end is infinite where the mechanism clips by itself.
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()
    values: tuple[float, ...] | None = None

    def check(self, value: ArrayLike) -> NDArray[Any]:
        """Return ``value`` as an array if it lies in the domain; InputError otherwise."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise InputError(f"Expected numbers for an input, got {value!r}. Encode it first.")
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
        """``value``, checked, as a view of shape (*size, *shape); ``size`` defaults to its batch.

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


def plainly(value: Any) -> str:
    """An input or output in words where a mechanism has none of its own."""
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

    ``inputs`` has shape (a, *domain shape) and ``outputs`` (b, *output shape). A mechanism made of
    ``copies`` independent randomizations by one ``part``, all of which may see the worst pair at
    once, gives the sets of that part: the log-ratio adds up. They fall into ``groups`` of one size:
    copies of one group see the same pair, those of another may see another one, or the same with
    its inputs exchanged, which is worse at delta > 0 where a pair tells one way more than the other
    way. ``part`` is None where the mechanism is its own only part. ``exhaustive`` says that
    ``outputs`` are all outputs that have positive probability, and that no ordered pair of inputs
    of the part is easier to tell apart, at any epsilon, than some ordered pair among ``inputs``.
    ``name_input`` and ``name_output`` put one of either in words, for a witness.
    """

    inputs: NDArray[Any]
    outputs: NDArray[Any]
    copies: int = 1
    groups: int = 1
    part: Mechanism | None = None
    exhaustive: bool = False
    name_input: Callable[[Any], str] = plainly
    name_output: Callable[[Any], str] = plainly


class Mechanism(Protocol):
    """A local randomizer: a distribution over outputs for every input of its domain.

    Shapes follow numpy's generators. ``value`` has shape (*batch, *domain.shape); an output has
    shape (*size, *output_shape), where ``size`` defaults to the batch and the batch must broadcast
    to it.
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
        """Draw outputs; InputError if ``value`` is outside the domain."""
        ...

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Exact log-probability (or log-density) of ``output`` given ``value``, broadcast."""
        ...

    def worst_case(self) -> WorstCase | None:
        """Where the largest log-ratio is attained; None if it is attained nowhere (unbounded)."""
        ...

    def event(self) -> dp.DpEvent:
        """The event an accountant charges for one use, dominating every pair of inputs."""
        ...


@runtime_checkable
class PrivacyCurve(Protocol):
    """A mechanism that knows its whole privacy curve, though it has infinitely many outputs."""

    def delta(self, epsilon: float) -> float:
        """The least delta at ``epsilon`` over every ordered pair of inputs, exactly.

        The largest hockey-stick divergence; it never rises with epsilon.
        """
        ...
