"""A lower bound on epsilon from one event, chosen on some samples and certified on others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.estimators.base import Asked, Limit, Rates, RuleAndLimit, Seen
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import event_epsilon
from fedrec_auditor.auditor.worlds.estimators.parts.counting import (
    EventCounts,
    counted,
    event_witness,
)
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import FIRST
from fedrec_auditor.auditor.worlds.estimators.parts.sample import drawn_scores, split_size
from fedrec_auditor.auditor.worlds.worlds import Worlds

_MANY = 4_096  # thresholds that are tried
_SHARES = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.005)  # of the error, for the lower limit


@dataclass(frozen=True, slots=True)
class ThresholdEvent:
    """Scores at or beyond a threshold, on either side, on which one of two worlds is guessed.

    ``worlds`` are the one in which it is likelier and the other; ``expected`` is the bound to
    expect of it, ``share`` that of the error which the lower limit takes.
    """

    threshold: float
    above: bool
    worlds: tuple[int, int]
    expected: float
    share: float

    sides = frozenset({FIRST})

    def count(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """How many of the scores are in the event, and of how many the other world is guessed."""
        inside = outputs >= self.threshold if self.above else outputs <= self.threshold
        return np.array([np.count_nonzero(inside), 0])

    def words(self, side: int) -> str:
        """The event in words."""
        return f"score {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True)
class ClopperPearson(RuleAndLimit):
    """Holds at the stated confidence: the event is chosen on samples it is not scored on.

    For worlds whose outputs are one number each. A tenth of the draws of each world (2,000 if that
    is more, half of them at most, 200,000 at most) chooses two worlds, the threshold, the side and
    the direction (which world is in the numerator) with the largest bound, and how the two limits
    share the error; the others certify that one event with two Clopper-Pearson limits.

    Simulated at 95% with 2,000 samples a world, 5,000 runs each, the bound is above the truth in
    0.04% of runs without a leak, 0.02%, 0.60% and 2.64% for randomized response at epsilon 0.1, 1
    and 4, and 0.30% for Laplace at 1.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.9])
    >>> bound = ClopperPearson().bound(
    ...     worlds, delta=0.0, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth {np.log(0.5 / 0.1):.1f}")
    at least 1.3, and in truth 1.6
    """

    reference = "Clopper and Pearson 1934, event chosen on other samples"
    source: ClassVar[str] = "Clopper-Pearson on held-out samples"
    assumptions: ClassVar[tuple[str, ...]] = ()

    def merit(
        self, counts: EventCounts, *, delta: float, alpha: float, share: float = 0.5
    ) -> NDArray[np.float64]:
        """What the event to choose has most of, at counts to expect: see ``event_epsilon``."""
        return event_epsilon(*counts, delta=delta, alpha=alpha, share=share)

    def epsilon(self, counts: EventCounts, *, delta: float, alpha: float, share: float) -> float:
        """The bound at level 1 - ``alpha``.

        The limit of the event's chance in the first world takes ``share`` of the error.
        """
        return float(self.merit(counts, delta=delta, alpha=alpha, share=share))

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """An output is one number, which may be infinite."""
        selecting, counting = rng.spawn(2)
        sizes, delta = worlds.sizes(asked.samples), asked.delta
        scores = drawn_scores(worlds, [*map(split_size, sizes)], selecting)
        left = [size - len(chosen) for size, chosen in zip(sizes, scores, strict=True)]
        event = max(
            (
                self.choose(scores, pair, left, delta=delta, alpha=asked.alpha)
                for pair in itertools.combinations(range(len(scores)), 2)
            ),
            key=lambda event: event.expected,
        )
        pair, share = event.worlds, event.share
        n, m = (left[world] for world in pair)
        fresh = dict(zip(pair, (n, m), strict=True))
        (table,) = counted(worlds, [(*pair, event)], fresh, counting.spawn(2), ())
        counts = EventCounts(int(table[0, 0]), n, int(table[1, 0]), m)

        def limit(alpha: float) -> Limit:
            return Limit(
                epsilon=self.epsilon(counts, delta=delta, alpha=alpha, share=share),
                largest=self.epsilon(
                    EventCounts(n, n, 0, m), delta=delta, alpha=alpha, share=share
                ),
                witness=event_witness(
                    worlds, pair, worlds.said(event.words(FIRST)), counts, alpha, share
                ),
            )

        return Seen(sum(map(len, scores)) + n + m, limit)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``."""
        n = samples - split_size(samples)
        hits, misses = (n * rate for rate in rates)
        k = int(np.argmax(self.merit(EventCounts(hits, n, misses, n), delta=delta, alpha=alpha)))
        counts = EventCounts(hits[k], n, misses[k], n)
        share = self._share(counts, delta=delta, alpha=alpha)[1]
        return self.epsilon(counts, delta=delta, alpha=alpha, share=share)

    def choose(
        self,
        scores: Sequence[NDArray[np.float64]],
        pair: tuple[int, int],
        trials: Sequence[int],
        *,
        delta: float,
        alpha: float,
    ) -> ThresholdEvent:
        """The event with the largest merit on the scores of two worlds, of all thresholds at once.

        Of many thresholds, some thousands are tried: their ranks from either end grow
        geometrically. Then the split of alpha with the largest bound at the counts to expect of
        ``trials`` others, a number for each world.
        """
        ordered = {world: np.sort(scores[world]) for world in pair}
        thresholds = _thinned(np.unique(np.concatenate(list(ordered.values()))))
        above = {w: len(s) - np.searchsorted(s, thresholds) for w, s in ordered.items()}
        below = {w: np.searchsorted(s, thresholds, side="right") for w, s in ordered.items()}
        tried = []
        for is_above, inside in ((True, above), (False, below)):
            for one, other in (pair, pair[::-1]):
                n, m = len(scores[one]), len(scores[other])
                counts = EventCounts(inside[one], n, inside[other], m)
                merits = self.merit(counts, delta=delta, alpha=alpha)
                k = int(np.argmax(merits))
                p, q = inside[one][k] / n, inside[other][k] / m
                counts = EventCounts(p * trials[one], trials[one], q * trials[other], trials[other])
                tried.append(
                    (float(merits[k]), float(thresholds[k]), is_above, (one, other), counts)
                )
        _, threshold, is_above, worlds, counts = max(tried, key=lambda found: found[0])
        expected, share = self._share(counts, delta=delta, alpha=alpha)
        return ThresholdEvent(
            threshold=threshold, above=is_above, worlds=worlds, share=share, expected=expected
        )

    def _share(self, counts: EventCounts, *, delta: float, alpha: float) -> tuple[float, float]:
        """The largest merit of counts, and the share of the error that the lower limit takes."""
        return max(
            (float(self.merit(counts, delta=delta, alpha=alpha, share=share)), share)
            for share in _SHARES
        )


def _thinned(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most ``_MANY`` of these, the closer together the rarer what lies beyond them."""
    count = len(thresholds)
    if count <= _MANY:
        return thresholds
    ranks = np.geomspace(1, count, _MANY // 2).astype(np.int64) - 1
    return np.asarray(thresholds[np.unique(np.concatenate([ranks, count - 1 - ranks]))])
