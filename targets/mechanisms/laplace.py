"""Laplace noise on every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import Laplacian, check_range
from fedrec_auditor.targets.mechanisms.parts.entries import BoundedEntry
from fedrec_auditor.targets.settings import AboveZero, Finite, check


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(BoundedEntry, Laplacian):
    """Noise of scale b on an entry in [low, high]: epsilon = (high - low)/b, and exactly so.

    Elementwise over arrays of any shape: every entry is an input of its own. The range counts, not
    its half: a scale of delta/eps for entries clipped to [-delta, delta] is the trap, and 2 eps.
    Source: Dwork, McSherry, Nissim and Smith 2006.
    """

    scale: AboveZero
    low: Finite
    high: Finite

    def __post_init__(self) -> None:
        check(self)
        check_range(self.low, self.high)

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one entry."""
        return (self.high - self.low) / self.scale

    @property
    def noise_scale(self) -> float:
        """The scale b of the noise."""
        return self.scale

    def worst_case(self) -> WorstCase:
        """The two ends, as inputs and as outputs: beyond them the ratio stays the same."""
        ends = np.array([self.low, self.high])
        return WorstCase(inputs=ends, outputs=ends)

    def delta(self, epsilon: float) -> float:
        """1 - e^((eps - epsilon of the entry)/2), for the two ends and exactly so."""
        return -math.expm1(min(epsilon - self.epsilon, 0.0) / 2.0)

    def event(self) -> dp.DpEvent:
        """Laplace noise at sensitivity high - low."""
        return dp.LaplaceDpEvent(self.scale / (self.high - self.low))
