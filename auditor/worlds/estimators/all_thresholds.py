"""A lower bound on epsilon from all thresholds of a score at once, and the whole privacy curve."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_confidence
from fedrec_auditor.auditor.worlds.decision_rules import FIRST, SECOND
from fedrec_auditor.auditor.worlds.estimators.base import (
    NOISELESS,
    Limit,
    Observation,
    Rates,
    Request,
    RuleAndLimit,
    check_samples,
)
from fedrec_auditor.auditor.worlds.guesses import clopper_pearson_lower, clopper_pearson_upper
from fedrec_auditor.auditor.worlds.selection import draw_scores, select_rules
from fedrec_auditor.auditor.worlds.worlds import Worlds

Array = NDArray[np.float64]
_RATIO = 1.2  # of one rank to the next
_MOST = 1 << 50
_FAMILIES = 4  # above and below a threshold, with either world in the numerator


def _all_ranks() -> NDArray[np.int64]:
    ranks = [1]
    while ranks[-1] < _MOST:
        ranks.append(max(ranks[-1] + 1, int(ranks[-1] * _RATIO)))
    return np.array(ranks, dtype=np.int64)


_RANKS = _all_ranks()
_SHARES = 1 / np.arange(1, len(_RANKS) + 1) / np.sum(1 / np.arange(1, len(_RANKS) + 1))
"""Of the error: rare events get more of it, for there a limit matters most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdBand:
    """Limits of P and Q of many events, (k,), which all hold together at level 1 - ``alpha``.

    An event is a score beyond ``thresholds`` (k,), ``above`` them or below (k,); ``first`` says
    that P is of the first world and Q of the other. So whatever is read off the band holds at that
    level: epsilon at any delta, delta at any epsilon, a Renyi divergence of any order.

    The thresholds are order statistics of the world that Q is of, at ranks fixed in advance. Q of
    scores strictly beyond the one of rank k is at most a Beta(k, n - k + 1) variable; given those
    scores the threshold is fixed and the count of the other world binomial. The error is shared
    among the ranks (Bonferroni), so no scores are set aside to choose a threshold.

    Scores of zeros and ones have one threshold, 1/2, known beforehand: no ranks share the error,
    but the four limits of two chances do.
    """

    low: Array
    high: Array
    thresholds: Array
    above: NDArray[np.bool_]
    first: NDArray[np.bool_]
    alpha: float

    @classmethod
    def of(cls, one: Array, other: Array, alpha: float) -> ThresholdBand:
        """From scores of two worlds, (n,) and (m,), in any order; they are sorted, copies are."""
        ordered = np.sort(one), np.sort(other)
        binary = _binary(one, other)
        parts = []
        for first in (True, False):
            p, q = ordered if first else ordered[::-1]
            ranks = _RANKS[: np.searchsorted(_RANKS, len(q), side="right")]
            error = alpha * _SHARES[: len(ranks)] / _FAMILIES / 2
            high = special.betaincinv(ranks, len(q) - ranks + 1, 1 - error)
            for above in (True, False):
                cuts = q[len(q) - ranks] if above else q[ranks - 1]
                if binary:
                    cuts, error = np.array([0.5]), np.array([alpha / _FAMILIES])
                    high = clopper_pearson_upper(_beyond(q, cuts, above), len(q), error)
                low = clopper_pearson_lower(_beyond(p, cuts, above), len(p), error)
                parts.append(
                    (low, high, cuts, np.full(len(cuts), above), np.full(len(cuts), first))
                )
        low, high, cuts, above_all, first_all = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        return cls(
            low=low,
            high=np.asarray(high, dtype=np.float64),
            thresholds=cuts,
            above=above_all,
            first=first_all,
            alpha=alpha,
        )

    def best(self, delta: float) -> int:
        """The event that shows the largest epsilon at ``delta``."""
        return int(np.argmax((self.low - delta) / self.high))

    def epsilon(self, delta: float) -> float:
        """Epsilon is at least this at ``delta``."""
        k = self.best(delta)
        sure = self.low[k] - delta
        return float(np.log(sure / self.high[k])) if sure > self.high[k] else 0.0

    def delta(self, epsilon: ArrayLike) -> Array:
        """Delta is at least this at each ``epsilon``; holds for all of them at once."""
        ratio = np.exp(np.asarray(epsilon, dtype=np.float64))[..., None]
        return np.asarray(np.maximum((self.low - ratio * self.high).max(axis=-1), 0.0))

    def renyi(self, order: float) -> float:
        """The Renyi divergence of this ``order``, above 1, is at least this in one direction.

        That of two distributions is at least that of any event (data processing), which grows with
        P and falls with Q where P is above Q. InputError for an ``order`` that is not above 1.
        """
        if not 1 < order < math.inf:
            raise InputError(f"Expected a Renyi order above 1, got {order:g}. Give 2, or 8.")
        above = self.low > self.high
        if not above.any():
            return 0.0
        p, q = self.low[above], self.high[above]
        terms = np.stack(
            [
                order * np.log(p) + (1 - order) * np.log(q),
                order * np.log1p(-p) + (1 - order) * np.log1p(-q),
            ]
        )
        return float(special.logsumexp(terms, axis=0).max() / (order - 1))

    def words(self, k: int) -> str:
        """An event in words."""
        return f"score {'>' if self.above[k] else '<'} {self.thresholds[k]:.6g}"


def _binary(one: Array, other: Array) -> bool:
    return all(np.isin(side, (0, 1)).all() for side in (one, other))


def _beyond(ordered: Array, cuts: Array, above: bool) -> NDArray[np.intp]:
    """The number of ``ordered`` scores (n,) strictly above each of the cuts (k,), or below it."""
    if above:
        return np.asarray(len(ordered) - np.searchsorted(ordered, cuts, side="right"))
    return np.asarray(np.searchsorted(ordered, cuts, side="left"))


def largest_epsilon(one: Array, other: Array, *, delta: float, alpha: float) -> float:
    """The epsilon that as many scores of this kind show where their worlds do not overlap.

    ``one`` (n,) and ``other`` (m,) are scores of two worlds.
    """
    if _binary(one, other):
        return ThresholdBand.of(np.ones(len(one)), np.zeros(len(other)), alpha).epsilon(delta)
    return max(
        foreseen_epsilon(len(p), len(q), NOISELESS, delta=delta, alpha=alpha)
        for p, q in ((one, other), (other, one))
    )


def foreseen_epsilon(n: int, m: int, rates: Rates, *, delta: float, alpha: float) -> float:
    """What the band shows if counts of ``n`` and ``m`` scores of two worlds are as expected.

    Q of an event is limited at the next rank above its count, for scores may be tied.
    """
    p, q = rates
    k = np.minimum(np.searchsorted(_RANKS, m * q + 1), np.searchsorted(_RANKS, m, "right") - 1)
    error = alpha * _SHARES[k] / _FAMILIES / 2
    high = special.betaincinv(_RANKS[k], m - _RANKS[k] + 1, 1 - error)
    sure = clopper_pearson_lower(n * p, n, error) - delta
    return float(np.log(np.maximum(sure / high, 1.0)).max())


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

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """All scores, in no order; an output is one number, which may be infinite."""
        sizes, delta, event = worlds.sizes(asked.samples), asked.delta, None
        if worlds.stored is not None and worlds.stored[0].ndim > 1:
            scores, event = _guesses(worlds, asked, rng)
        else:
            scores = draw_scores(worlds, sizes, rng)
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

        return Observation(sum(sizes), limit)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``."""
        return foreseen_epsilon(samples, samples, rates, delta=delta, alpha=alpha)

    def curve(
        self, worlds: Worlds, *, confidence: float, samples: int, rng: np.random.Generator
    ) -> ThresholdBand:
        """The band over all epsilon and delta of two worlds, see ``ThresholdBand``."""
        one, other = draw_scores(worlds, worlds.sizes(check_samples(samples)), rng)
        return ThresholdBand.of(one, other, 1 - check_confidence(confidence))


def _guesses(
    worlds: Worlds, asked: Request, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], str]:
    """Whether a rule that other stored rows chose guesses the rarer world; and the guess in words.

    Scores (n,) and (m,) of zeros and ones, one for each row that chose nothing.
    """
    selecting, counting = rng.spawn(2)
    chosen = select_rules(worlds, asked, selecting)
    left = chosen.left(worlds, asked.samples)
    table = chosen.count(worlds, left, counting.spawn(2)).sum(axis=0)
    world = int(np.argmin(left))
    hits = table[:, world].tolist()
    words = [rule.words((FIRST, SECOND)[world]) for rule, _ in chosen.rules]
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(hits, left, strict=True)]
    return scores, "".join(words)
