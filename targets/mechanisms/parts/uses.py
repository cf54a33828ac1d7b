"""Independent uses of one mechanism: what a product and a repetition share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve
from fedrec_auditor.targets.settings import Checked, Whole


@dataclass(frozen=True, slots=True)
class Uses(Checked, ABC):
    """``count`` independent uses of ``mechanism``; outputs are (*size, count, *inner output).

    ``kinds`` are a member's class, and its class where ``mechanism`` has normal noise.
    """

    mechanism: Mechanism
    count: Whole

    kinds: ClassVar[tuple[type[Uses], type[Uses]]]

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """One that knows its curve if ``mechanism`` has normal noise."""
        kind = cls.kinds[isinstance(mechanism, NormalCurve)]
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, count)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Uses], tuple[Mechanism, int]]:
        return self.kinds[0], (self.mechanism, self.count)

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Inputs of all uses."""

    @abstractmethod
    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        """Inputs with an axis of uses, of length ``count`` or 1, behind the batch."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One output of the inner mechanism a use, (count, ...)."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw outputs, every use by itself."""
        values = self.domain.spread(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._lift(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Sum of the uses' log-probabilities."""
        each = self.mechanism.log_prob(output, self._lift(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """The sets of one use, with ``count`` times its copies."""
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(one, copies=one.copies * self.count, part=one.part or self.mechanism)

    def event(self) -> dp.DpEvent:
        """The event of one use, composed ``count`` times."""
        return dp.SelfComposedDpEvent(self.mechanism.event(), self.count)


class NormalUses(Uses, NormalCurve):
    """Uses with normal noise, which adds up in squares."""

    __slots__ = ()

    @property
    def mu(self) -> float:
        """sqrt(count) times that of one use."""
        assert isinstance(self.mechanism, NormalCurve)
        return self.mechanism.mu * math.sqrt(self.count)
