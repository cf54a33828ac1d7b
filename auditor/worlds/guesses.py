"""Events by a guess or a threshold: how often each came, and the epsilon that this shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.estimators.base import NOISELESS, Rates
from fedrec_auditor.auditor.worlds.worlds import Worlds

Floats = NDArray[np.float64]


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> Floats:
    """Exact lower confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), np.asarray(trials) - k + 1, alpha)
    return np.where(k > 0, limit, 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> Floats:
    """Exact upper confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    rest = np.asarray(trials) - k
    return np.where(rest > 0, special.betaincinv(k + 1, np.maximum(rest, 1), 1 - alpha), 1.0)


def event_epsilon(
    hits: ArrayLike,
    trials: ArrayLike,
    misses: ArrayLike,
    others: ArrayLike,
    *,
    delta: float,
    alpha: float,
) -> Floats:
    """Least epsilon that explains an event: ln((P_low - delta) / Q_high), at least 0.

    ``hits`` of ``trials`` samples of one world and ``misses`` of ``others`` of the other fell into
    the event; each limit takes half of alpha, so the bound holds at level 1 - alpha. Vectorised
    over events.
    """
    low = clopper_pearson_lower(hits, trials, alpha / 2) - delta
    high = clopper_pearson_upper(misses, others, alpha / 2)
    ratio = np.divide(low, high, out=np.ones_like(low), where=low > high)
    return np.asarray(np.log(ratio))


# Share of the error that pays for outputs which delta permits to tell all.
_REVEALED = 0.1
_FAR = 700.0  # no epsilon is larger: e to it is the largest double
# Deviations, and events beside, beyond which a binomial count has a chance below 1e-30.
_DEVIATIONS, _RARE = 12.0, 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessCounts:
    """What came of ``draws`` outputs, each of a world that a coin chose.

    The decision rule abstains on some outputs. ``first`` holds (right, wrong) where it guessed the
    first world, ``second`` where it guessed the second. ``both`` says whether it ever guesses the
    second. The coin is fair, or shows the first world with chance ``share``.
    """

    draws: int
    first: tuple[int, int]
    second: tuple[int, int] = (0, 0)
    both: bool = False
    share: float = 0.5

    @property
    def right(self) -> int:
        """How many guesses were right."""
        return self.first[0] + self.second[0]

    @property
    def wrong(self) -> int:
        """How many guesses were wrong."""
        return self.first[1] + self.second[1]

    @classmethod
    def of(cls, table: NDArray[np.int64], draws: int, share: float, *, both: bool) -> GuessCounts:
        """Of a ``table`` (2, 2) of worlds and the worlds guessed."""
        (right, others), (wrong, rights) = table.tolist()
        return cls(
            draws=draws, first=(right, wrong), second=(rights, others), both=both, share=share
        )

    @classmethod
    def all_right(cls, draws: int, share: float = 0.5) -> GuessCounts:
        """The most that ``draws`` outputs can show: every guess made, and right."""
        first = round(draws * share)
        return cls(draws=draws, first=(first, 0), second=(draws - first, 0), both=True, share=share)

    def epsilon(self, *, delta: float, alpha: float) -> float:
        """See ``joint_binomial_epsilon``, and ``_chance`` for a coin that is not fair."""
        revealed, left = failure_mass(
            self.draws, both=self.both, delta=delta, alpha=alpha, share=self.share
        )
        if self.share == 0.5:
            return float(joint_binomial_epsilon(self.right, self.wrong, revealed, left))

        def excess(epsilon: float) -> float:
            return self._chance(epsilon, revealed) - left

        return 0.0 if excess(0.0) >= 0 else float(optimize.brentq(excess, 0.0, _FAR))

    def _chance(self, epsilon: float, revealed: int) -> float:
        """Of so many right guesses, at most, if no output but ``revealed`` tells more than epsilon.

        By Bayes, a guess of a world that the coin shows with chance p is right with odds of at most
        e^epsilon p / (1 - p). The revealed ones are taken from the guesses of the rarer world: what
        is left is then explained most easily.
        """
        prior = float(special.logit(self.share))
        sides = [(*self.first, prior), (*self.second, -prior)]
        (right, wrong, odds), (others, errors, other_odds) = sorted(sides, key=lambda side: side[2])
        taken = min(revealed, right)
        right, others = right - taken, max(others - revealed + taken, 0)
        guesses, p = right + wrong, float(special.expit(odds + epsilon))
        spread = _DEVIATIONS * math.sqrt(guesses * p * (1 - p)) + _RARE
        ends = max(0.0, guesses * p - spread), min(guesses * p + spread, guesses)
        hits = np.arange(int(ends[0]), int(ends[1]) + 1)
        chances = stats.binom.pmf(hits, guesses, p)
        beyond = stats.binom.sf(
            right + others - hits - 1, others + errors, special.expit(other_odds + epsilon)
        )
        return float(chances @ beyond)


def coin_tosses(worlds: Worlds, left: Sequence[int]) -> tuple[int, float]:
    """How often a coin chooses between two worlds of which so many outputs are left, and how.

    A fair one for as many as are asked for; of stored outputs see ``tosses``.
    """
    return (sum(left), 0.5) if worlds.stored is None else tosses(*left)


def tosses(*available: int) -> tuple[int, float]:
    """How often a coin may be tossed so that no side comes up more often than is ``available``.

    And the chance of the first side: its share of what is available. A side comes up too often
    with probability 3 in 100,000: four deviations.
    """
    shares = np.array(available) / max(1, sum(available))
    spread = np.sqrt(4 * shares * (1 - shares))
    roots = (np.sqrt(spread**2 + shares * available) - spread) / np.maximum(shares, 1e-300)
    return int(roots.min() ** 2), float(shares[0])


@lru_cache(maxsize=256)
def failure_mass(
    draws: int, *, both: bool, delta: float, alpha: float, share: float = 0.5
) -> tuple[int, float]:
    """How many of the right guesses delta excuses, and the error left for the rest.

    Two distributions that are (epsilon, delta)-close in both directions are each a mixture that
    with probability delta reveals its input and otherwise is of a pair that is epsilon-close
    (Kairouz, Oh and Viswanath 2015, Theorem 3.3). A guesser of one input only gains by the
    revealed outputs of that one, the ``share`` of them that the coin gives it.
    """
    if delta == 0:
        return 0, alpha
    spent = _REVEALED * alpha
    return int(stats.binom.isf(spent, draws, delta if both else delta * share)), alpha - spent


def joint_binomial_epsilon(
    right: ArrayLike, wrong: ArrayLike, revealed: int, alpha: float
) -> Floats:
    """Least epsilon that explains how often guesses were right, at least 0; vectorised.

    Let a fair coin choose each output's input. Given an output that reveals nothing, the
    input guessed is the true one with probability at most s = e^eps / (1 + e^eps). So given the
    number of guesses, the right ones are at most binomial with success s (and ``revealed`` more,
    see ``failure_mass``). The bound is ln(s / (1 - s)) at the Clopper-Pearson lower limit of s, at
    level 1 - ``alpha``, for a rule fixed before these outputs were drawn. Both inputs are guessed
    by one rule and one limit, so nothing is split between directions or between limits. Revealed
    outputs that were guessed wrongly are left among the wrong ones, which only lowers the bound.
    """
    sure = np.maximum(np.asarray(right, dtype=np.float64) - revealed, 0.0)
    least = clopper_pearson_lower(sure, sure + np.asarray(wrong, dtype=np.float64), alpha)
    return np.asarray(np.where(least > 0.5, special.logit(np.maximum(least, 0.5)), 0.0))


def expected_guesses(draws: int, rates: Rates, delta: float, alpha: float) -> float:
    """The bound of the best of some rules if so many draws show what is to be expected of them."""
    revealed, left = failure_mass(draws, both=True, delta=delta, alpha=alpha)
    right, wrong = rates
    return float(joint_binomial_epsilon(draws * right, draws * wrong, revealed, left).max())


def expected_epsilon(right: Floats, wrong: Floats, revealed: int, z: float) -> Floats:
    """``joint_binomial_epsilon`` in closed form, for counts that need not be whole; no bound.

    It serves to choose a rule. ``z`` is the normal quantile of the level. The Clopper-Pearson limit
    is a quantile of an F distribution, here by the cube-root approximation of Paulson 1942; -inf
    where that does not reach (fewer than about three right).
    """
    sure = np.maximum(right - revealed, 1e-9)
    a, b = 1 / (9 * (wrong + 1)), 1 / (9 * sure)
    scale = (1 - b) ** 2 - z * z * b
    spread = np.maximum((1 - b) ** 2 * a + (1 - a) ** 2 * b - z * z * a * b, 0.0)
    root = ((1 - a) * (1 - b) + z * np.sqrt(spread)) / np.where(scale > 0, scale, 1.0)
    known = (b < 1) & (scale > 0) & (root > 0)
    quantile = 3 * np.log(np.where(known, root, 1.0))
    return np.asarray(np.where(known, np.log(sure / (wrong + 1)) - quantile, -np.inf))


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

    low: Floats
    high: Floats
    thresholds: Floats
    above: NDArray[np.bool_]
    first: NDArray[np.bool_]
    alpha: float

    @classmethod
    def of(cls, one: Floats, other: Floats, alpha: float) -> ThresholdBand:
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

    def delta(self, epsilon: ArrayLike) -> Floats:
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


def _binary(one: Floats, other: Floats) -> bool:
    return all(np.isin(side, (0, 1)).all() for side in (one, other))


def _beyond(ordered: Floats, cuts: Floats, above: bool) -> NDArray[np.intp]:
    """The number of ``ordered`` scores (n,) strictly above each of the cuts (k,), or below it."""
    if above:
        return np.asarray(len(ordered) - np.searchsorted(ordered, cuts, side="right"))
    return np.asarray(np.searchsorted(ordered, cuts, side="left"))


def largest_epsilon(one: Floats, other: Floats, *, delta: float, alpha: float) -> float:
    """The epsilon that as many scores of this kind show where their worlds do not overlap.

    ``one`` (n,) and ``other`` (m,) are scores of two worlds.
    """
    expected = epsilon_of_answers if _binary(one, other) else epsilon_by_ranks
    return max(
        expected(len(p), len(q), NOISELESS, delta=delta, alpha=alpha)
        for p, q in ((one, other), (other, one))
    )


def epsilon_by_ranks(n: int, m: int, rates: Rates, *, delta: float, alpha: float) -> float:
    """The band's epsilon if counts of ``n`` and ``m`` scores of two worlds are as expected.

    Q of an event is limited at the next rank above its count, for scores may be tied.
    """
    p, q = rates
    k = np.minimum(np.searchsorted(_RANKS, m * q + 1), np.searchsorted(_RANKS, m, "right") - 1)
    error = alpha * _SHARES[k] / _FAMILIES / 2
    high = special.betaincinv(_RANKS[k], m - _RANKS[k] + 1, 1 - error)
    return _best_epsilon(clopper_pearson_lower(n * p, n, error) - delta, high)


def epsilon_of_answers(n: int, m: int, rates: Rates, *, delta: float, alpha: float) -> float:
    """As ``epsilon_by_ranks``, for scores of zeros and ones, whose threshold is known."""
    p, q = rates
    error = alpha / _FAMILIES
    high = clopper_pearson_upper(m * q, m, error)
    return _best_epsilon(clopper_pearson_lower(n * p, n, error) - delta, high)


def _best_epsilon(sure: NDArray[Any], high: NDArray[Any]) -> float:
    return float(np.log(np.maximum(sure / high, 1.0)).max())
