"""A mechanism that a system follows but for a known probability: its curve from below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Size, WorstCase
from fedrec_auditor.targets.settings import Checked, Probability, check


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast(Checked):
    """``mechanism`` in a share of the runs that the adversary knows, and up to rare accidents.

    The system follows ``mechanism`` in a part of its runs, of probability ``share`` whatever the
    value, which the adversary can tell from the others. Of these runs, those with the value differ
    from it with probability ``given_away`` at most, those without with ``mistaken``. So where
    P(S) - e^eps Q(S) is the divergence of the mechanism, the system has at least

        share (P(S) - e^eps Q(S)) - given_away - e^eps mistaken.

    Everything else is the mechanism's own. Its curve must be that of the value's presence against
    its absence.
    """

    mechanism: Mechanism
    share: Probability = 1.0
    given_away: Probability = 0.0
    mistaken: Probability = 0.0

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.mechanism, PrivacyCurve):
            raise InputError(
                f"Expected a mechanism that knows its curve, got {self.mechanism}. Ask for delta 0."
            )

    @property
    def domain(self) -> Domain:
        """Values that ``mechanism`` accepts."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of ``mechanism``."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw outputs of ``mechanism``, (*size, *output_shape)."""
        return self.mechanism.randomize(value, rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``mechanism``, which ignores the accidents."""
        return self.mechanism.log_prob(output, value)

    def worst_case(self) -> WorstCase | None:
        """None: at delta 0 accidents may be all that there is."""
        return None

    def delta(self, epsilon: float) -> float:
        """A lower bound on the system's delta at ``epsilon``, at least 0."""
        assert isinstance(self.mechanism, PrivacyCurve)
        accidents = self.given_away
        if self.mistaken > 0.0:
            accidents += self.mistaken * math.exp(min(epsilon, 700.0))
        return max(0.0, self.share * self.mechanism.delta(epsilon) - accidents)

    def event(self) -> dp.DpEvent:
        """The event of ``mechanism``, without the accidents."""
        return self.mechanism.event()
