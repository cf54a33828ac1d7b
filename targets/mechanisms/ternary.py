"""One number, reported as one of three: a size with either sign, or 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import OneNumber
from fedrec_auditor.targets.settings import Positive, Probability, check


@dataclass(frozen=True, slots=True)
class Ternary(OneNumber):
    """+r with max(x, 0)/r, -r with max(-x, 0)/r, else 0, for x in [-B, B]: unbiased.

    No epsilon is finite: +r is impossible for x <= 0, so that a report other than 0 proves a sign.
    That happens with probability B/r at most, which is the least delta, at every epsilon.

    With a ``share`` above B/r all three are always possible: the report is +r or -r with that
    probability whatever x is, +r with share/2 + x/(2r), and epsilon is
    ln((share + B/r)/(share - B/r)). Unbiased as well.
    Source: ternary quantization, Wen et al., TernGrad, 2017; as a mechanism, with r a constant, in
    the released code of VerticalGNN (entry 37 of the catalogue). The second form is ours.

    Elementwise over arrays of any shape; outputs are float64.
    """

    bound: Positive
    size: Positive
    share: Probability = 0.0

    def __post_init__(self) -> None:
        check(self)
        if self.size < self.bound:
            raise InputError(
                f"Expected size of at least bound={self.bound:g}, got size={self.size:g}. "
                "Probabilities are at most 1."
            )
        if 0.0 < self.share <= self.delta_least:
            raise InputError(
                f"Expected share 0, or above bound/size = {self.delta_least:g}, got "
                f"share={self.share:g}. Raise it, so that every report is possible."
            )

    @property
    def delta_least(self) -> float:
        """B/r: what the chances of either sign differ by at most."""
        return self.bound / self.size

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one number; infinite without a ``share``."""
        if not self.share:
            return math.inf
        return math.log((self.share + self.delta_least) / (self.share - self.delta_least))

    @property
    def domain(self) -> Domain:
        """The interval [-B, B]."""
        return Domain(low=-self.bound, high=self.bound)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw reports, float64 of shape ``size``."""
        values = self.domain.spread(value, size)
        return self.drawn(values, rng.random(values.shape))

    def drawn(self, values: NDArray[Any], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """The reports of ``values`` in the domain by numbers that are uniform in (0, 1)."""
        plus, told = self._chances(values)
        return np.where(uniform < plus, self.size, np.where(uniform < told, -self.size, 0.0))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(output | value), broadcast; -inf for what is none of the three."""
        out = np.asarray(output, dtype=np.float64)
        plus, told = self._chances(self.domain.check(value))
        zero = np.where(out == 0.0, 1.0 - told, 0.0)
        chance = np.where(out == self.size, plus, np.where(out == -self.size, told - plus, zero))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(chance))

    def worst_case(self) -> WorstCase:
        """The two ends, all three outputs."""
        return WorstCase(
            inputs=np.array([self.bound, -self.bound]),
            outputs=np.array([self.size, 0.0, -self.size]),
            exhaustive=True,
        )

    def event(self) -> dp.DpEvent:
        """A sign is told, as it is or at random, with a probability, and else nothing.

        Between the ends that is what happens. Without a ``share`` other pairs differ by B/r in
        total variation at most, which is what the ends have at every epsilon.
        """
        told, noise = self.share or self.delta_least, 0.0
        if self.share:
            noise = 1.0 - self.delta_least / self.share
        return dp.RevealedSamplingDpEvent(told, dp.RandomizedResponseDpEvent(noise, 2))

    def _chances(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of +r, and of +r or -r."""
        shift = np.asarray(values, dtype=np.float64) / self.size
        if self.share:
            return (self.share + shift) / 2.0, np.full_like(shift, self.share)
        return np.maximum(shift, 0.0), np.abs(shift)
