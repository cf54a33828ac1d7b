"""Fresh reports on the same input: what an upload in every round amounts to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountants.errors import InputError
from targets.mechanisms.base import Critical, Domain, Mechanism

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, slots=True)
class Repeated:
    """``count`` fresh uses on one input: epsilon adds up, and exactly so.

    The same output may come ``count`` times. Inputs are (*batch, *inner domain), outputs
    (*size, count, *inner output).
    """

    mechanism: Mechanism
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(
                f"Expected count >= 1, got count={self.count!r}. Give the number of reports."
            )

    @property
    def domain(self) -> Domain:
        """The inner domain."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(count, *inner output)."""
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

    def critical(self) -> Critical | None:
        """The sets of one report, with ``count`` times its copies."""
        one = self.mechanism.critical()
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
