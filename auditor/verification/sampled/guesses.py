"""Guesses of which of two inputs an output came from, and the epsilon that their success shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.estimators.clopper_pearson import clopper_pearson_lower

LARGEST_PILOT = 200_000
"""Most outputs kept of each input to choose a rule."""
_SMALLEST_PILOT = 2_000
_SHARE = 10
MOST_SAMPLES = 10**12
"""More draws an input than this are not asked for."""
# Share of the error that pays for outputs which delta permits to tell all.
_REVEALED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What came of ``draws`` outputs, each of an input that a fair coin chose.

    The guesser abstains on some outputs. ``first`` holds (right, wrong) where it guessed the first
    input, ``second`` where it guessed the second. ``both`` says whether its rule ever guesses the
    second.
    """

    draws: int
    first: tuple[int, int]
    second: tuple[int, int] = (0, 0)
    both: bool = False

    @property
    def right(self) -> int:
        """How many guesses were right."""
        return self.first[0] + self.second[0]

    @property
    def wrong(self) -> int:
        """How many guesses were wrong."""
        return self.first[1] + self.second[1]

    @classmethod
    def all_right(cls, draws: int) -> Guesses:
        """The most that ``draws`` outputs can show: every guess made, and right."""
        return cls(draws=draws, first=(draws, 0), both=True)

    def epsilon(self, *, delta: float, alpha: float) -> float:
        """See ``guess_epsilon``."""
        revealed, left = revealable(self.draws, both=self.both, delta=delta, alpha=alpha)
        return float(guess_epsilon(self.right, self.wrong, revealed, left))


def pilot_size(samples: int) -> int:
    """How many of ``samples`` outputs an input choose the rule: they are not counted."""
    return min(samples // 2, max(_SMALLEST_PILOT, samples // _SHARE), LARGEST_PILOT)


def largest(samples: int, delta: float, confidence: float) -> float:
    """The largest epsilon that ``samples`` outputs an input can show: every guess is right."""
    draws = 2 * (samples - pilot_size(samples))
    return Guesses.all_right(draws).epsilon(delta=delta, alpha=1 - confidence)


def needed(epsilon: float, delta: float, confidence: float) -> int | None:
    """The fewest outputs an input that can show more than ``epsilon``; None above 10^12."""
    low, high = 1, 2
    while not exceeds(largest(high, delta, confidence), epsilon):
        if high > MOST_SAMPLES:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if exceeds(largest(middle, delta, confidence), epsilon):
            high = middle
        else:
            low = middle
    return high


def revealable(draws: int, *, both: bool, delta: float, alpha: float) -> tuple[int, float]:
    """How many of the right guesses delta excuses, and the error left for the rest.

    Law: if two outputs' laws are (epsilon, delta)-close in both directions, each is a mixture that
    with probability delta reveals its input and otherwise is of a pair that is epsilon-close
    (Kairouz, Oh and Viswanath 2015, Theorem 3.3). A guesser of one input only gains by the
    revealed outputs of that one, half of them.
    """
    if delta == 0:
        return 0, alpha
    spent = _REVEALED * alpha
    share = delta if both else delta / 2
    return int(stats.binom.isf(spent, draws, share)), alpha - spent


def guess_epsilon(
    right: ArrayLike, wrong: ArrayLike, revealed: int, alpha: float
) -> NDArray[np.float64]:
    """Least epsilon that explains how often guesses were right, at least 0; vectorised.

    Law: let a fair coin choose each output's input. Given an output that reveals nothing, the
    input guessed is the true one with probability at most s = e^eps / (1 + e^eps). So given the
    number of guesses, the right ones are at most binomial with success s (and ``revealed`` more,
    see ``revealable``). The bound is ln(s / (1 - s)) at the Clopper-Pearson lower limit of s, at
    level 1 - ``alpha``, for a rule fixed before these outputs were drawn. Both inputs are guessed
    by one rule and one limit, so nothing is split between directions or between limits. Revealed
    outputs that were guessed wrongly are left among the wrong ones, which only lowers the bound.
    """
    sure = np.maximum(np.asarray(right, dtype=np.float64) - revealed, 0.0)
    least = clopper_pearson_lower(sure, sure + np.asarray(wrong, dtype=np.float64), alpha)
    return np.asarray(np.where(least > 0.5, special.logit(np.maximum(least, 0.5)), 0.0))


def foreseen_epsilon(
    right: NDArray[np.float64], wrong: NDArray[np.float64], revealed: int, z: float
) -> NDArray[np.float64]:
    """``guess_epsilon`` in closed form, for counts that need not be whole: to choose by, no bound.

    ``z`` is the normal quantile of the level. The Clopper-Pearson limit is a quantile of an F
    distribution, here by the cube-root approximation of Paulson 1942; -inf where that does not
    reach (fewer than about three right).
    """
    sure = np.maximum(right - revealed, 1e-9)
    a, b = 1 / (9 * (wrong + 1)), 1 / (9 * sure)
    scale = (1 - b) ** 2 - z * z * b
    spread = np.maximum((1 - b) ** 2 * a + (1 - a) ** 2 * b - z * z * a * b, 0.0)
    root = ((1 - a) * (1 - b) + z * np.sqrt(spread)) / np.where(scale > 0, scale, 1.0)
    known = (b < 1) & (scale > 0) & (root > 0)
    quantile = 3 * np.log(np.where(known, root, 1.0))
    return np.asarray(np.where(known, np.log(sure / (wrong + 1)) - quantile, -np.inf))
