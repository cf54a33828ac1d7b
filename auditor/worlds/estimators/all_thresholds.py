"""A lower bound on epsilon from all thresholds of a score at once, and the whole privacy curve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import (
    Bound,
    Side,
    Witness,
    check_confidence,
    check_delta,
)
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, check_samples
from fedrec_auditor.auditor.worlds.estimators.parts.scores import drawn_scores
from fedrec_auditor.auditor.worlds.estimators.parts.threshold_band import (
    ThresholdBand,
    largest_epsilon,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class AllThresholds(Estimator):
    """Holds at the stated confidence for every threshold, epsilon and delta together.

    For worlds whose outputs are one number each. No draws are set aside to choose a threshold: some
    two hundred ranks, fixed in advance, share the error (``ThresholdBand``). That suits few scores,
    and the same limits bound the whole curve of delta over epsilon (``curve``). All scores are
    kept, 8 bytes each.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = AllThresholds().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.0, and in truth 1.6
    """

    reference = "order statistics and Clopper and Pearson 1934, Bonferroni over ranks"

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """See ``Estimator``; an output is one number, which may be infinite."""
        check_delta(delta)
        levels = [check_confidence(confidence) for confidence in confidences]
        scores = drawn_scores(worlds, worlds.sizes(check_samples(samples)), rng)
        return tuple(self._bound(worlds, scores, delta=delta, confidence=level) for level in levels)

    def curve(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdBand:
        """The band over all epsilon and delta of two worlds, see ``ThresholdBand``."""
        one, other = drawn_scores(worlds, worlds.sizes(check_samples(samples)), rng)
        return ThresholdBand.of(one, other, 1 - check_confidence(confidence))

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The bound if all scores of one world are above all of the other, of two worlds."""
        check_samples(samples)
        alpha = 1 - check_confidence(confidence)
        return largest_epsilon(samples, samples, delta=check_delta(delta), alpha=alpha)

    def _bound(
        self,
        worlds: Worlds,
        scores: Sequence[NDArray[np.float64]],
        *,
        delta: float,
        confidence: float,
    ) -> Bound:
        alpha = (1 - confidence) / comb(len(scores), 2)
        bands = {
            pair: ThresholdBand.of(scores[pair[0]], scores[pair[1]], alpha)
            for pair in itertools.combinations(range(len(scores)), 2)
        }
        pair, band = max(bands.items(), key=lambda found: found[1].epsilon(delta))
        k = band.best(delta)
        one, other = pair if band.first[k] else pair[::-1]
        return Bound(
            epsilon=band.epsilon(delta),
            delta=delta,
            side=Side.LOWER,
            scope=worlds.scope,
            source="Clopper-Pearson at all thresholds",
            confidence=confidence,
            samples=sum(map(len, scores)),
            largest=max(
                largest_epsilon(len(scores[a]), len(scores[b]), delta=delta, alpha=alpha)
                for a, b in bands
            ),
            witness=Witness(
                input_a=worlds.names[one],
                input_b=worlds.names[other],
                output=f"{worlds.statistic}: {band.words(k)}"
                if worlds.statistic
                else band.words(k),
                probability_a=float(band.low[k]),
                probability_b=float(band.high[k]),
                note="the probabilities are limits that hold at all thresholds together",
            ),
        )
