"""Gaussian noise on every entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.targets.mechanisms.parts.additive import Normal, check_mu, check_range
from fedrec_auditor.targets.mechanisms.parts.entries import BoundedEntry
from fedrec_auditor.targets.settings import AboveZero, Finite, check


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(BoundedEntry, Normal):
    """Noise N(0, sigma^2) on an entry in [low, high]: no epsilon holds at delta 0.

    Far out the log-ratio grows without bound; at delta > 0 the exact curve is that of
    mu = (high - low)/sigma (Balle and Wang 2018, Theorem 8). Elementwise over arrays of any
    shape: every entry is an input of its own.
    """

    sigma: AboveZero
    low: Finite
    high: Finite

    def __post_init__(self) -> None:
        check(self)
        check_range(self.low, self.high)
        check_mu(self.mu, "sigma")

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, low: float, high: float) -> Self:
        """The least noise that is (epsilon, delta)-private an entry, at any epsilon."""
        check_range(low, high)
        return cls(sigma=(high - low) / gaussian_mu(epsilon, delta), low=low, high=high)

    @property
    def mu(self) -> float:
        """The sensitivity in standard deviations, (high - low)/sigma."""
        return (self.high - self.low) / self.sigma
