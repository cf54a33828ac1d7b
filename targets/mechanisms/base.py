"""Interface of a mechanism (local randomizer): inputs, sampling, log-probabilities, accounting
event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp

# Batch shape of the outputs that a mechanism draws; None means the batch shape of its inputs.
Shape = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Set of inputs that a mechanism accepts: arrays of one shape, with entries in one range.

    ``low``, ``high``: ends of the range of an entry; both are infinite if the mechanism clips its
        input.
    ``shape``: shape of one input, without batch axes. The last axes of a batch have this shape.
    ``values``: all allowed entries, if there are finitely many; None if all finite numbers in [low,
        high] are allowed.
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()
    values: tuple[float, ...] | None = None

    def check(self, value: ArrayLike) -> NDArray[Any]:
        """Returns the inputs ``value`` as an array, if they are in the domain.

        Raises InputError if an input is not numeric, has another shape or an entry out of range.
        """
        if (array := np.asarray(value)).dtype.kind not in "biuf":
            raise InputError(f"Expected numeric inputs, got {value!r:.60}. Encode them as numbers.")
        if array.shape[array.ndim - len(self.shape) :] != self.shape:
            raise InputError(
                f"Expected inputs with last axes {self.shape}, got {array.shape}. Reshape inputs."
            )
        if self.values is not None:
            inside = np.isin(array, self.values)
        else:
            inside = (array >= self.low) & (array <= self.high) & np.isfinite(array)
        if not np.all(inside):
            bad = array[~inside].flat[0].item()
            raise InputError(f"Expected inputs in {self}, got {bad!r}. Give inputs in this set.")
        return array

    def expand_batch(self, value: ArrayLike, size: Shape) -> NDArray[Any]:
        """Checks inputs as ``check`` does, and broadcasts their batch axes to ``size``.

        value: the inputs, shape (*batch, *shape) for inputs of shape ``shape``.
        size: batch shape of the result; None means the batch shape of ``value``.

        Returns an array of shape (*size, *shape). Raises InputError if the batch does not broadcast
        to ``size``.
        """
        array = self.check(value)
        batch = array.shape[: array.ndim - len(self.shape)]
        try:
            return np.broadcast_to(array, (batch if size is None else size) + self.shape)
        except ValueError:
            raise InputError(
                f"Expected inputs that broadcast to {size=}, got shape {batch}. Give size={batch}."
            ) from None

    def __str__(self) -> str:
        if self.values is not None:
            entries = "{" + ", ".join(f"{v:g}" for v in self.values) + "}"
        else:
            entries = f"[{self.low:g}, {self.high:g}]"
        return f"{entries}^{'x'.join(map(str, self.shape))}" if self.shape else entries


def format_value(value: Any) -> str:
    """Formats an input or an output of a mechanism as text for reports.

    A mechanism may replace this text by the functions ``WorstCase.name_input`` and ``name_output``.
    """
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
    """Inputs and outputs of a mechanism that attain its largest privacy loss.

    The privacy loss of an output y is ln(P(y | x) / P(y | x')) for two inputs x and x'. A mechanism
    may use a simpler mechanism several times independently. Each such use is called a copy.

    ``inputs``: inputs of one copy, shape (a, *domain shape).
    ``outputs``: outputs of one copy, shape (b, *output shape).
    ``n_copies``: number of copies. Their privacy losses add up: all can have the worst pair of
        inputs at once.
    ``n_groups``: number of groups of equal size into which the copies are divided. Copies in one
        group have the same pair of inputs. Groups may differ in the pair, or in its order.
    ``inner_mechanism``: the simpler mechanism; None if the mechanism is itself the only copy.
    ``exhaustive``: whether ``inputs`` and ``outputs`` determine the exact privacy curve.
        ``outputs`` must then have every output whose probability, as a double, is above 0. At every
        epsilon, ``inputs`` must have an ordered pair that is easiest to distinguish.
    ``name_input``, ``name_output``: functions that describe an input or an output in reports.
    """

    inputs: NDArray[Any]
    outputs: NDArray[Any]
    n_copies: int = 1
    # The order of a pair matters at delta > 0 if its two orders are not equally distinguishable.
    n_groups: int = 1
    inner_mechanism: Mechanism | None = None
    exhaustive: bool = False
    name_input: Callable[[Any], str] = format_value
    name_output: Callable[[Any], str] = format_value


class Mechanism(Protocol):
    """A local randomizer: a probability distribution over outputs for every input of its domain.

    An input ``value`` has shape (*batch, *domain.shape), and an output (*size, *output_shape). The
    batch must broadcast to ``size``, which is the batch by default.
    """

    @property
    def domain(self) -> Domain:
        """Set of inputs that the mechanism accepts."""
        ...

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output, without batch axes."""
        ...

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws one random output per input, shape (*size, *output_shape).

        Raises InputError if ``value`` is outside the domain.
        """
        ...

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(``output`` | ``value``), the exact log-probability or log-density.

        The leading (batch) axes of ``output`` and ``value`` broadcast to the shape of the result.
        """
        ...

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs that attain the largest privacy loss ln(P(y | x) / P(y | x')).

        None if the privacy loss is unbounded.
        """
        ...

    def event(self) -> dp.DpEvent:
        """Returns the dp-accounting event of one use, from which accountants compute epsilon.

        The epsilon holds for every pair of inputs.
        """
        ...


@runtime_checkable
class PrivacyCurve(Protocol):
    """Interface of mechanisms that compute their privacy curve: delta as a function of epsilon.

    The curve is exact or a lower bound.
    """

    # The interface is for mechanisms whose outputs cannot all be listed, such as those with
    # infinitely many outputs.
    def delta(self, epsilon: float) -> float:
        """Returns the smallest delta at which (epsilon, delta)-DP holds, or a lower bound of it.

        The smallest delta is the largest hockey-stick divergence over all ordered pairs of inputs.
        Classes state if they return a lower bound.
        """
        # A larger epsilon never has a larger delta.
        ...
