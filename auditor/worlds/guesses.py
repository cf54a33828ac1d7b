"""Guesses of the world that an output came from, counted, and the epsilon that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from fedrec_auditor.auditor.worlds.estimators.base import Rates
from fedrec_auditor.auditor.worlds.worlds import Worlds


def clopper_pearson_lower(
    successes: ArrayLike, trials: ArrayLike, alpha: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Exact lower confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), np.asarray(trials) - k + 1, alpha)
    return np.where(k > 0, limit, 0.0)


def clopper_pearson_upper(
    successes: ArrayLike, trials: ArrayLike, alpha: float | NDArray[np.float64]
) -> NDArray[np.float64]:
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
) -> NDArray[np.float64]:
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
) -> NDArray[np.float64]:
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


def expected_epsilon(
    right: NDArray[np.float64], wrong: NDArray[np.float64], revealed: int, z: float
) -> NDArray[np.float64]:
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
