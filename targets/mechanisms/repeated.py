"""Fresh reports on the same input: what an upload in every round amounts to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, slots=True)
class Repeated:
    """``count`` fresh uses on one input: epsilon adds up, and exactly so.

    The same output may come ``count`` times. Normal noise adds up in squares, and the repetition
    knows its curve: mu is sqrt(count) times that of one report.

    Inputs are (*batch, *inner domain), outputs (*size, count, *inner output).
    """

    mechanism: Mechanism
    count: int

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """One that knows its curve if ``mechanism`` has normal noise."""
        kind = _NormalRepeated if isinstance(mechanism, NormalCurve) else Repeated
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, count)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Repeated], tuple[Mechanism, int]]:
        return Repeated, (self.mechanism, self.count)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(
                f"Expected count >= 1, got count={self.count!r}. Give the number of reports."
            )

    @property
    def domain(self) -> Domain:
        """Inputs of the inner mechanism."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One output of the inner mechanism a use, (count, ...)."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw ``count`` fresh outputs for every input."""
        values = self.domain.spread(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._lift(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Sum of the reports' log-probabilities."""
        each = self.mechanism.log_prob(output, self._lift(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """The sets of one report, with ``count`` times its copies."""
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(one, copies=one.copies * self.count, part=one.part or self.mechanism)

    def event(self) -> DpEvent:
        """The event of one report, composed ``count`` times."""
        from dp_accounting import SelfComposedDpEvent

        return SelfComposedDpEvent(self.mechanism.event(), self.count)

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        """An axis of length 1 between batch and domain, over which the reports are spread."""
        return np.expand_dims(values, values.ndim - len(self.domain.shape))


class _NormalRepeated(Repeated, NormalCurve):
    """Reports with normal noise."""

    __slots__ = ()
    __qualname__ = "Repeated"

    @property
    def mu(self) -> float:
        """sqrt(count) times that of one report."""
        assert isinstance(self.mechanism, NormalCurve)
        return self.mechanism.mu * math.sqrt(self.count)
