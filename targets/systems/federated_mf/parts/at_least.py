"""A law that a system follows but for a known probability: its curve from below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, WorstCase

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """``law`` with probability ``share`` that the adversary knows of, and up to rare accidents.

    The system follows ``law`` in a part of its runs, of probability ``share`` whatever the value,
    which the adversary can tell from the others. Of these runs, those with the value differ from
    the law with probability ``given_away`` at most, those without with ``mistaken``. So where
    P(S) - e^eps Q(S) is the divergence of the law, the system has at least

        share (P(S) - e^eps Q(S)) - given_away - e^eps mistaken.

    Everything else is the law's own. The law's curve must be that of the value's presence against
    its absence.
    """

    law: Mechanism
    share: float = 1.0
    given_away: float = 0.0
    mistaken: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.law, PrivacyCurve):
            raise InputError(
                f"Expected a law that knows its curve, got {self.law}. Ask for delta 0."
            )
        for name in ("share", "given_away", "mistaken"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(
                    f"Expected {name} in [0, 1], got {getattr(self, name)!r}. Give a probability."
                )

    @property
    def domain(self) -> Domain:
        """Values that ``law`` accepts."""
        return self.law.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of ``law``."""
        return self.law.output_shape

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw outputs of ``law``, (*size, *output_shape)."""
        return self.law.randomize(value, rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``law``, which ignores the accidents."""
        return self.law.log_prob(output, value)

    def worst_case(self) -> WorstCase | None:
        """None: at delta 0 accidents may be all that there is."""
        return None

    def delta(self, epsilon: float) -> float:
        """A lower bound on the system's delta at ``epsilon``, at least 0."""
        assert isinstance(self.law, PrivacyCurve)
        accidents = self.given_away
        if self.mistaken > 0.0:
            accidents += self.mistaken * math.exp(min(epsilon, 700.0))
        return max(0.0, self.share * self.law.delta(epsilon) - accidents)

    def event(self) -> DpEvent:
        """The event of ``law``, without the accidents."""
        return self.law.event()
