"""A lower bound on epsilon from all thresholds of a score at once, and the whole privacy curve."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import check_confidence
from fedrec_auditor.auditor.worlds.estimators.base import (
    Asked,
    Limit,
    Rates,
    RuleAndLimit,
    Seen,
    check_samples,
)
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.parts.sample import drawn_scores
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import selected
from fedrec_auditor.auditor.worlds.estimators.parts.threshold_band import (
    ThresholdBand,
    foreseen_epsilon,
    largest_epsilon,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True)
class AllThresholds(RuleAndLimit):
    """Holds at the stated confidence for every threshold, epsilon and delta together.

    For worlds whose outputs are one number each, or stored rows of numbers. No draws are set aside
    to choose a threshold: some two hundred ranks, fixed in advance, share the error
    (``ThresholdBand``). That suits few scores, and the same limits bound the whole curve of delta
    over epsilon (``curve``). All scores are kept, 8 bytes each.

    Of rows of numbers some, as for ``joint-binomial``, choose a rule that guesses the world. The
    score of another row is then 1 where it guesses the world of which there are fewer, else 0.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = AllThresholds().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.3, and in truth 1.6
    """

    reference = "order statistics and Clopper and Pearson 1934, Bonferroni over ranks"
    source = "Clopper-Pearson at all thresholds"

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """All scores, in no order; an output is one number, which may be infinite."""
        sizes, delta, event = worlds.sizes(asked.samples), asked.delta, None
        if worlds.stored is not None and worlds.stored[0].ndim > 1:
            scores, event = _guesses(worlds, asked, rng)
        else:
            scores = drawn_scores(worlds, sizes, rng)
        pairs = list(itertools.combinations(range(len(scores)), 2))

        def limit(alpha: float) -> Limit:
            error = alpha / comb(len(scores), 2)
            bands = {(a, b): ThresholdBand.of(scores[a], scores[b], error) for a, b in pairs}
            pair, band = max(bands.items(), key=lambda found: found[1].epsilon(delta))
            k = band.best(delta)
            words = band.words(k)
            if event is not None:
                words = event if band.above[k] else f"not: {event}"
            return Limit(
                epsilon=band.epsilon(delta),
                largest=max(
                    largest_epsilon(scores[a], scores[b], delta=delta, alpha=error)
                    for a, b in pairs
                ),
                witness=worlds.witness(
                    pair if band.first[k] else pair[::-1],
                    worlds.said(words),
                    (band.low[k], band.high[k]),
                    "the probabilities are limits that hold at all thresholds together",
                ),
            )

        return Seen(sum(sizes), limit)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``."""
        return foreseen_epsilon(samples, samples, rates, delta=delta, alpha=alpha)

    def curve(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdBand:
        """The band over all epsilon and delta of two worlds, see ``ThresholdBand``."""
        one, other = drawn_scores(worlds, worlds.sizes(check_samples(samples)), rng)
        return ThresholdBand.of(one, other, 1 - check_confidence(confidence))


def _guesses(
    worlds: Worlds, asked: Asked, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], str]:
    """Whether a rule that other stored rows chose guesses the rarer world; and the guess in words.

    Scores (n,) and (m,) of zeros and ones, one for each row that chose nothing.
    """
    selecting, counting = rng.spawn(2)
    chosen = selected(worlds, asked, selecting)
    left = chosen.left(worlds, asked.samples)
    table = chosen.counted(worlds, left, counting.spawn(2)).sum(axis=0)
    world = int(np.argmin(left))
    hits = table[:, world].tolist()
    words = [rule.words((FIRST, SECOND)[world]) for rule, _ in chosen.rules]
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, left, strict=True)]
    return scores, "".join(words)
