"""Lower bounds on epsilon from counts of right and wrong guesses of the input, and from scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.estimators.base import PERFECT_GUESS_RATES, EventRates
from fedrec_auditor.auditor.worlds.worlds import Worlds

Floats = NDArray[np.float64]


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> Floats:
    """Returns the exact lower confidence limit of a proportion, at confidence 1 - ``alpha``.

    The proportion was observed as ``successes`` of ``trials``; arrays broadcast.
    """
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), np.asarray(trials) - k + 1, alpha)
    return np.where(k > 0, limit, 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> Floats:
    """Returns the exact upper confidence limit of a proportion, at confidence 1 - ``alpha``.

    The proportion was observed as ``successes`` of ``trials``; arrays broadcast.
    """
    k = np.asarray(successes, dtype=np.float64)
    rest = np.asarray(trials) - k
    return np.where(rest > 0, special.betaincinv(k + 1, np.maximum(rest, 1), 1 - alpha), 1.0)


def bound_by_event(
    hits: ArrayLike,
    trials: ArrayLike,
    other_hits: ArrayLike,
    other_trials: ArrayLike,
    *,
    delta: float,
    alpha: float,
) -> Floats:
    """Returns a lower bound on epsilon from the counts of an event under two neighbouring inputs.

    The bound is ln((P - delta) / Q), and at least 0. P is a lower confidence limit of the event's
    probability under the first input, and Q an upper limit under the second input. Each limit has
    the error alpha / 2.

    hits, trials: occurrences of the event, and number of samples, under the first input; arrays
        have one entry per event.
    other_hits, other_trials: these counts under the second input.
    delta: delta of the bound.
    alpha: error of the bound, 1 minus its confidence.
    """
    low = clopper_pearson_lower(hits, trials, alpha / 2) - delta
    high = clopper_pearson_upper(other_hits, other_trials, alpha / 2)
    ratio = np.divide(low, high, out=np.ones_like(low), where=low > high)
    return np.asarray(np.log(ratio))


# Share of the error for outputs that reveal their input, which delta permits.
_DELTA_SHARE = 0.1
_MAX_EPSILON = 700.0  # upper end of the search for epsilon, whose exponential is still a double
# A binomial count differs from its mean by more than these standard deviations plus these events
# with probability below 1e-30.
_DEVIATIONS, _RARE = 12.0, 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessCounts:
    """Counts of the guesses of a decision rule on outputs whose input (world) was chosen by a coin.

    A guess is right if it names the input that the coin chose.

    n_draws: number of outputs; the rule may abstain on some of them.
    first_world_counts: numbers of right and wrong guesses of the first world.
    second_world_counts: numbers of right and wrong guesses of the second world.
    is_two_sided: whether the rule guesses the second world too.
    first_world_prob: probability with which the coin chooses the first world; 1/2 for a fair coin.
    """

    n_draws: int
    first_world_counts: tuple[int, int]
    second_world_counts: tuple[int, int] = (0, 0)
    is_two_sided: bool = False
    first_world_prob: float = 0.5

    @property
    def n_right(self) -> int:
        """Number of right guesses, added over the two inputs (worlds)."""
        return self.first_world_counts[0] + self.second_world_counts[0]

    @property
    def n_wrong(self) -> int:
        """Number of wrong guesses, of the first and of the second input (world) together."""
        return self.first_world_counts[1] + self.second_world_counts[1]

    @classmethod
    def build(cls, table: NDArray[np.int64], draws: int, first_prob: float, *, both: bool) -> Self:
        """Builds the counts from a ``table`` (2, 2) of guesses, by true world and guessed world
        (input).

        draws: number of outputs.
        first_prob: probability with which a coin chose the first world as the input of an output.
        both: whether the rule guesses the second world too.
        """
        (right, others), (wrong, rights) = table.tolist()
        return cls(
            n_draws=draws,
            first_world_counts=(right, wrong),
            second_world_counts=(rights, others),
            is_two_sided=both,
            first_world_prob=first_prob,
        )

    @classmethod
    def make_perfect(cls, draws: int, first_prob: float = 0.5) -> GuessCounts:
        """Returns the counts of a rule that guesses the right input (world) for every output.

        draws: number of outputs.
        first_prob: probability with which a coin chose the first world as the input of an output.
        """
        first = round(draws * first_prob)
        return cls(
            n_draws=draws,
            first_world_counts=(first, 0),
            second_world_counts=(draws - first, 0),
            is_two_sided=True,
            first_world_prob=first_prob,
        )

    def bound_epsilon(self, *, delta: float, alpha: float) -> float:
        """Returns the lower bound on epsilon at ``delta`` and confidence 1 - ``alpha``, by these
        counts.
        """
        share, both = self.first_world_prob, self.is_two_sided
        revealed, error = limit_revealed_draws(
            self.n_draws, both=both, delta=delta, alpha=alpha, share=share
        )
        if share == 0.5:
            return float(bound_epsilon_by_guesses(self.n_right, self.n_wrong, revealed, error))

        def excess(epsilon: float) -> float:
            """Returns the bound of the probability of these counts at ``epsilon``, minus error."""
            return self._bound_chance(epsilon, revealed) - error

        return 0.0 if excess(0.0) >= 0 else float(scipy.optimize.brentq(excess, 0.0, _MAX_EPSILON))

    def _bound_chance(self, epsilon: float, revealed: int) -> float:
        """Returns an upper bound of the probability of at least this many right guesses.

        The mechanism is assumed to be ``epsilon``-DP, except that ``revealed`` outputs may reveal
        their input.
        """
        # By Bayes' rule, if an output does not reveal its input, a guess of a world that the coin
        # chooses with probability p is right with odds of at most e^epsilon p / (1 - p).
        prior = float(special.logit(self.first_world_prob))
        sides = [(*self.first_world_counts, prior), (*self.second_world_counts, -prior)]
        (right, wrong, odds), (others, errors, other_odds) = sorted(sides, key=lambda side: side[2])
        # The revealed outputs are subtracted from the right guesses of the rarer world first, which
        # makes the remaining counts most probable.
        taken = min(revealed, right)
        right, others = right - taken, max(others - revealed + taken, 0)
        guesses, p = right + wrong, float(special.expit(odds + epsilon))
        spread = _DEVIATIONS * math.sqrt(guesses * p * (1 - p)) + _RARE
        ends = max(0.0, guesses * p - spread), min(guesses * p + spread, guesses)
        hits = np.arange(int(ends[0]), int(ends[1]) + 1)
        chances = scipy.stats.binom.pmf(hits, guesses, p)
        beyond = scipy.stats.binom.sf(
            right + others - hits - 1, others + errors, special.expit(other_odds + epsilon)
        )
        return float(chances @ beyond)


def plan_draws_and_first_prob(worlds: Worlds, n_left: Sequence[int]) -> tuple[int, float]:
    """Returns the number of outputs that a test uses, and the probability with which each comes
    from the first input.

    A coin chooses the input (world) of each used output. New draws are all used, with a fair coin.
    For stored outputs, ``plan_coin_tosses`` gives both numbers.

    worlds: the inputs, whose outputs are newly drawn or stored.
    n_left: numbers of outputs of the two worlds that remain after the rule was selected.
    """
    return (sum(n_left), 0.5) if worlds.stored_outputs is None else plan_coin_tosses(*n_left)


def plan_coin_tosses(*available: int) -> tuple[int, float]:
    """Returns how many stored outputs a test may use, and the probability with which each comes
    from the first input.

    A coin chooses the input (world) of each used output. The returned probability is the first
    world's share of the stored outputs. The stored outputs of each world suffice, except with
    probability 3 in 100,000 (four standard deviations).

    available: numbers of stored outputs of the two worlds.
    """
    shares = np.array(available) / max(1, sum(available))
    spread = np.sqrt(4 * shares * (1 - shares))
    roots = (np.sqrt(spread**2 + shares * available) - spread) / np.maximum(shares, 1e-300)
    return int(roots.min() ** 2), float(shares[0])


@lru_cache(maxsize=256)
def limit_revealed_draws(
    draws: int, *, both: bool, delta: float, alpha: float, share: float = 0.5
) -> tuple[int, float]:
    """Returns the maximum number of outputs that reveal which of two inputs they come from, and the
    remaining error.

    An output may reveal its input with probability ``delta``. A lower bound on epsilon at ``delta``
    discounts these outputs.

    draws: number of outputs.
    both: whether the rule guesses either input; if false, it guesses one input or abstains.
    delta: delta of the lower bound on epsilon.
    alpha: error of the lower bound, 1 minus its confidence. The maximum is exceeded with
        probability alpha / 10 at most, and nine tenths of alpha remain.
    share: probability with which an output comes from the guessed input, if only one is guessed.

    If ``delta`` is 0, the maximum is 0 and all of alpha remains. Source: Kairouz, Oh and Viswanath
    2015, Theorem 3.3.
    """
    # Two distributions that are (epsilon, delta)-close in both directions are each a mixture: with
    # probability delta the output reveals its input, and otherwise the output is from one of two
    # distributions that are epsilon-close. A rule that guesses only one input gains only by the
    # revealed outputs of that input.
    if delta == 0:
        return 0, alpha
    spent = _DELTA_SHARE * alpha
    return int(scipy.stats.binom.isf(spent, draws, delta if both else delta * share)), alpha - spent


def bound_epsilon_by_guesses(
    right: ArrayLike, wrong: ArrayLike, revealed: int, alpha: float
) -> Floats:
    """Returns a lower bound on epsilon from counts of right and wrong guesses of the input.

    The rule that guesses must be fixed before the outputs are drawn, and a fair coin must choose
    the input of each output.

    right, wrong: numbers of right and of wrong guesses (arrays broadcast).
    revealed: maximum number of outputs that reveal their input, which delta permits
        (``limit_revealed_draws``). They are subtracted from ``right``.
    alpha: error of the bound, 1 minus its confidence.

    The bound is ln(s / (1 - s)), and at least 0. Here s is the Clopper-Pearson lower limit of the
    probability of a right guess.
    """
    # If an output does not reveal its input, its guess is right with probability at most s = e^eps
    # / (1 + e^eps). So given the number of guesses, the number of right guesses is at most a
    # binomial variable with success probability s, plus ``revealed``. Wrong guesses on revealed
    # outputs are not removed, which only lowers the bound.
    sure = np.maximum(np.asarray(right, dtype=np.float64) - revealed, 0.0)
    least = clopper_pearson_lower(sure, sure + np.asarray(wrong, dtype=np.float64), alpha)
    return np.asarray(np.where(least > 0.5, special.logit(np.maximum(least, 0.5)), 0.0))


def predict_best_bound(draws: int, rates: EventRates, delta: float, alpha: float) -> float:
    """Predicts the lower bound on epsilon (``bound_epsilon_by_guesses``) of the best of k rules.

    draws: number of outputs.
    rates: expected shares of right and of wrong guesses of each rule, two arrays (k,).
    delta: delta of the bound.
    alpha: error of the bound, 1 minus its confidence.
    """
    revealed, left = limit_revealed_draws(draws, both=True, delta=delta, alpha=alpha)
    right, wrong = rates
    return float(bound_epsilon_by_guesses(draws * right, draws * wrong, revealed, left).max())


def approximate_epsilon(right: Floats, wrong: Floats, revealed: int, z: float) -> Floats:
    """Approximates ``bound_epsilon_by_guesses`` in closed form, also for fractional counts.

    right, wrong: numbers of right and of wrong guesses.
    revealed: maximum number of outputs that reveal their input (``limit_revealed_draws``).
    z: normal quantile at the confidence of the bound.

    The result serves to choose a rule, and is not a bound. It is -inf where the approximation fails
    (fewer than about three right guesses). Source: Paulson 1942.
    """
    # The Clopper-Pearson limit is a quantile of an F distribution, which is computed by the
    # cube-root approximation of Paulson 1942.
    sure = np.maximum(right - revealed, 1e-9)
    a, b = 1 / (9 * (wrong + 1)), 1 / (9 * sure)
    scale = (1 - b) ** 2 - z * z * b
    spread = np.maximum((1 - b) ** 2 * a + (1 - a) ** 2 * b - z * z * a * b, 0.0)
    root = ((1 - a) * (1 - b) + z * np.sqrt(spread)) / np.where(scale > 0, scale, 1.0)
    known = (b < 1) & (scale > 0) & (root > 0)
    quantile = 3 * np.log(np.where(known, root, 1.0))
    return np.asarray(np.where(known, np.log(sure / (wrong + 1)) - quantile, -np.inf))


_RATIO = 1.2  # ratio of successive ranks
_MAX_RANK = 1 << 50
_FAMILIES = 4  # events above or below a threshold, with P of the first or of the second world


def _list_ranks() -> NDArray[np.int64]:
    ranks = [1]
    while ranks[-1] < _MAX_RANK:
        ranks.append(max(ranks[-1] + 1, int(ranks[-1] * _RATIO)))
    return np.array(ranks, dtype=np.int64)


_RANKS = _list_ranks()
# Share of the error per rank; rare events have larger shares, because their limits matter most.
_SHARES = 1 / np.arange(1, len(_RANKS) + 1) / np.sum(1 / np.arange(1, len(_RANKS) + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLimits:
    """Simultaneous confidence limits of the probabilities that scores lie beyond each of k
    thresholds.

    The scores come from two worlds (inputs). An event is "a score is above (or below) a threshold".
    It has the probability P in one world, and Q in the other world. All limits of P and Q hold
    together at confidence 1 - ``alpha``. So do all bounds that are computed from them.

    p_lower: lower limit of P of each event (k,).
    q_upper: upper limit of Q of each event (k,).
    thresholds: threshold of each event (k,).
    is_score_above: True for the event "above the threshold", False for "below" (k,).
    is_p_in_first_world: whether P is the probability in the first world, and Q in the second (k,).
    alpha: total error, 1 minus the confidence of all limits together.
    """

    # The thresholds are scores of the world of Q, at ranks fixed in advance that share the error
    # (Bonferroni). The probability Q of scores strictly beyond the score of rank r, of n scores, is
    # at most a variable with the distribution Beta(r, n - r + 1). Given the threshold, the number
    # of scores beyond it in the world of P is binomial.
    #
    # Scores of zeros and ones have a single threshold, 1/2. Then four limits share the error: a
    # lower and an upper limit of the probability of a 1 in each world.
    p_lower: Floats
    q_upper: Floats
    thresholds: Floats
    is_score_above: NDArray[np.bool_]
    is_p_in_first_world: NDArray[np.bool_]
    alpha: float

    @classmethod
    def fit(cls, first_scores: Floats, second_scores: Floats, alpha: float) -> ThresholdLimits:
        """Computes limits of the probabilities that scores of two worlds lie beyond thresholds.

        first_scores, second_scores: scores of the two worlds, (n,) and (m,), in any order.
        alpha: total error, 1 minus the confidence of all limits together.
        """
        ordered = np.sort(first_scores), np.sort(second_scores)
        binary = _is_binary(first_scores, second_scores)
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
                    high = clopper_pearson_upper(_count_beyond(q, cuts, above), len(q), error)
                low = clopper_pearson_lower(_count_beyond(p, cuts, above), len(p), error)
                sides = np.full(len(cuts), above), np.full(len(cuts), first)
                parts.append((low, high, cuts, *sides))
        low, high, cuts, above_all, first_all = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        return cls(
            p_lower=low,
            q_upper=np.asarray(high, dtype=np.float64),
            thresholds=cuts,
            is_score_above=above_all,
            is_p_in_first_world=first_all,
            alpha=alpha,
        )

    def find_best_event_index(self, delta: float) -> int:
        """Returns the index of the event with the largest lower bound on epsilon at ``delta``."""
        return int(np.argmax((self.p_lower - delta) / self.q_upper))

    def bound_epsilon(self, delta: float) -> float:
        """Returns a lower bound on epsilon at ``delta``, with confidence 1 - ``alpha``."""
        k = self.find_best_event_index(delta)
        sure = self.p_lower[k] - delta
        return float(np.log(sure / self.q_upper[k])) if sure > self.q_upper[k] else 0.0

    def bound_delta(self, epsilon: ArrayLike) -> Floats:
        """Returns a lower bound on delta at each ``epsilon``.

        With confidence 1 - ``alpha``, none of the bounds exceeds the true delta.
        """
        ratio = np.exp(np.asarray(epsilon, dtype=np.float64))[..., None]
        return np.asarray(np.maximum((self.p_lower - ratio * self.q_upper).max(axis=-1), 0.0))

    def bound_renyi(self, order: float) -> float:
        """Returns a lower bound on the larger of two Renyi divergences of the given ``order``.

        The two divergences compare the distributions of scores under the two inputs, in either
        order of the inputs. Raises InputError unless ``order`` is finite and above 1.
        """
        if not 1 < order < math.inf:
            raise InputError(f"Expected a finite Renyi order > 1, got {order=:g}. Give 2, say.")
        # The divergence of two distributions is at least that of any event (data processing
        # inequality). If P is above Q, the divergence of an event grows with P and falls with Q.
        above = self.p_lower > self.q_upper
        if not above.any():
            return 0.0
        p, q = self.p_lower[above], self.q_upper[above]
        of_event = order * np.log(p) + (1 - order) * np.log(q)
        of_rest = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
        total = special.logsumexp(np.stack([of_event, of_rest]), axis=0)
        return float(total.max() / (order - 1))

    def describe_event(self, k: int) -> str:
        """Describes the event with index ``k`` in words, such as "output > 3"."""
        return f"output {'>' if self.is_score_above[k] else '<'} {self.thresholds[k]:.6g}"


def _is_binary(one: Floats, other: Floats) -> bool:
    return all(np.isin(side, (0, 1)).all() for side in (one, other))


def _count_beyond(ordered: Floats, cuts: Floats, above: bool) -> NDArray[np.intp]:
    """Counts ``ordered`` scores (n,) strictly above, or below, each of ``cuts`` (k,)."""
    if above:
        return np.asarray(len(ordered) - np.searchsorted(ordered, cuts, side="right"))
    return np.asarray(np.searchsorted(ordered, cuts, side="left"))


def find_attainable_epsilon(first: Floats, second: Floats, *, delta: float, alpha: float) -> float:
    """Returns the largest lower bound on epsilon that n and m scores could give.

    first, second: scores under one input, (n,), and under the other input, (m,). Only n, m and
        whether all scores are 0 or 1 matter.

    This bound would follow if all scores under one input exceeded all scores under the other input.
    """
    expected = predict_binary_bound if _is_binary(first, second) else predict_rank_bound
    return max(
        expected(len(p), len(q), PERFECT_GUESS_RATES, delta=delta, alpha=alpha)
        for p, q in ((first, second), (second, first))
    )


def predict_rank_bound(n: int, m: int, rates: EventRates, *, delta: float, alpha: float) -> float:
    """Predicts the lower bound on epsilon by ``ThresholdLimits`` for n and m scores.

    Numbers of scores beyond each threshold are assumed to equal their expectation.

    n, m: numbers of scores under the first and under the second input.
    rates: P (first input) and Q (second input), the probabilities of each of k events "a score is
        beyond a threshold", two arrays (k,). The event with the largest bound counts.
    alpha: total error, 1 minus the confidence of all limits together.
    """
    p, q = rates
    # A threshold is the score at one of several fixed ranks, and at most r - 1 scores are strictly
    # beyond the score of rank r. So with m Q scores beyond the threshold, the smallest fixed rank
    # of at least m Q + 1 gives the upper limit of Q.
    k = np.minimum(np.searchsorted(_RANKS, m * q + 1), np.searchsorted(_RANKS, m, "right") - 1)
    error = alpha * _SHARES[k] / _FAMILIES / 2
    high = special.betaincinv(_RANKS[k], m - _RANKS[k] + 1, 1 - error)
    return _max_log_ratio(clopper_pearson_lower(n * p, n, error) - delta, high)


def predict_binary_bound(n: int, m: int, rates: EventRates, *, delta: float, alpha: float) -> float:
    """Predicts the lower bound on epsilon by ``ThresholdLimits`` for scores of 0 and 1.

    Counts are assumed to equal their expectation.

    n, m: numbers of scores under the first and under the second input.
    rates: probabilities P (first input) and Q (second input) of each of k events "the score is 1"
        or "the score is 0", two arrays (k,). The largest bound is returned.
    alpha: total error, 1 minus the confidence of all limits together.
    """
    p, q = rates
    error = alpha / _FAMILIES
    high = clopper_pearson_upper(m * q, m, error)
    return _max_log_ratio(clopper_pearson_lower(n * p, n, error) - delta, high)


def _max_log_ratio(sure: NDArray[Any], high: NDArray[Any]) -> float:
    return float(np.log(np.maximum(sure / high, 1.0)).max())
