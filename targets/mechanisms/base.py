"""Protocol of a mechanism: domain, sampling, exact log-probabilities and accounting event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp

# Batch shape of the outputs to draw; None means the batch shape of the input values.
Size = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Set of inputs that a mechanism accepts: arrays whose entries lie in a range.

    ``low``, ``high``: ends of the range of an entry; both are infinite if the mechanism clips its
        input.
    ``shape``: shape of one input, which is the last axes of a batch of inputs.
    ``values``: all allowed entries if they are finitely many; None if all finite numbers in [low,
        high] are allowed.
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()
    values: tuple[float, ...] | None = None

    def check(self, value: ArrayLike) -> NDArray[Any]:
        """Returns ``value`` as an array; raises InputError if an entry lies outside the domain."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise InputError(f"Expected a numeric input, got {value!r}. Encode it as numbers.")
        if array.shape[array.ndim - len(self.shape) :] != self.shape:
            raise InputError(
                f"Expected an input of shape (..., *{self.shape}), got shape {array.shape}."
            )
        if self.values is not None:
            inside = np.isin(array, self.values)
        else:
            inside = (array >= self.low) & (array <= self.high) & np.isfinite(array)
        if not np.all(inside):
            bad = array[~inside].flat[0].item()
            raise InputError(f"Expected inputs in {self}, got {bad!r}. Clip or round them first.")
        return array

    def expand_batch(self, value: ArrayLike, size: Size) -> NDArray[Any]:
        """Checks ``value`` and broadcasts it to shape (*size, *shape); ``size`` defaults to the
        value's batch shape.

        Raises InputError if the batch of ``value`` does not broadcast to ``size``.
        """
        array = self.check(value)
        batch = array.shape[: array.ndim - len(self.shape)]
        try:
            return np.broadcast_to(array, (batch if size is None else size) + self.shape)
        except ValueError:
            raise InputError(
                f"Expected inputs that broadcast to size={size}, got a batch of shape {batch}."
            ) from None

    def __str__(self) -> str:
        if self.values is not None:
            entries = "{" + ", ".join(f"{v:g}" for v in self.values) + "}"
        else:
            entries = f"[{self.low:g}, {self.high:g}]"
        return f"{entries}^{'x'.join(map(str, self.shape))}" if self.shape else entries


def value_text(value: Any) -> str:
    """Returns an input or output as text, for mechanisms that have no wording of their own."""
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
    """Inputs and outputs among which a mechanism attains its largest log-ratio of probabilities.

    ``inputs``: inputs of one copy, shape (a, *domain shape).
    ``outputs``: outputs of one copy, shape (b, *output shape).
    ``copies``: number of independent randomizations by ``one_copy``. All copies may have the worst
        pair of inputs together, so that their log-ratios add up.
    ``groups``: number of groups of equal size into which the copies are divided. Copies in one
        group have the same pair of inputs. Different groups may have different pairs, or the same
        pair in exchanged order. The exchanged order is worse at delta > 0 if the two directions of
        the pair are not equally distinguishable.
    ``one_copy``: the mechanism of one copy; None if the mechanism has a single copy, itself.
    ``exhaustive``: whether ``outputs`` lists all outputs of positive probability, and every ordered
        pair of inputs of one copy is, at every epsilon, at most as distinguishable as some ordered
        pair among ``inputs``.
    ``name_input``, ``name_output``: functions that describe an input or an output as text, for the
        description of a distinguishing event.
    """

    inputs: NDArray[Any]
    outputs: NDArray[Any]
    copies: int = 1
    groups: int = 1
    one_copy: Mechanism | None = None
    exhaustive: bool = False
    name_input: Callable[[Any], str] = value_text
    name_output: Callable[[Any], str] = value_text


class Mechanism(Protocol):
    """A local randomizer: a probability distribution over outputs for every input of its domain.

    Shapes follow numpy's generators. An input ``value`` has shape (*batch, *domain.shape). An
    output has shape (*size, *output_shape); ``size`` defaults to the batch, which must broadcast to
    ``size``.
    """

    @property
    def domain(self) -> Domain:
        """Set of inputs that the mechanism accepts."""
        ...

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output, without batch axes."""
        ...

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws an output for every input; raises InputError if ``value`` is outside the domain."""
        ...

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the exact log-probability or log-density of ``output`` given ``value``; arguments
        broadcast.
        """
        ...

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs that attain the largest log-ratio; None if the log-ratio is
        unbounded.
        """
        ...

    def event(self) -> dp.DpEvent:
        """Returns the accounting event from which accountants compute the epsilon of one use; it
        covers every pair of inputs.
        """
        ...


@runtime_checkable
class PrivacyCurve(Protocol):
    """A mechanism with an exact privacy curve, delta as a function of epsilon, though its outputs
    are infinitely many.
    """

    def delta(self, epsilon: float) -> float:
        """Returns the smallest delta that holds at ``epsilon`` for all ordered pairs of inputs,
        exactly.

        This is the largest hockey-stick divergence over the pairs. It never rises with epsilon.
        """
        ...
