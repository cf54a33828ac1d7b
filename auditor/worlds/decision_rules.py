"""Decision rules, which guess from which of two neighbouring inputs (worlds) an output comes.

A rule computes a number from the output (a statistic) and guesses by the interval that contains
this number. The functions here propose rules from outputs set aside for this purpose, the selection
split. They also predict the lower bound on epsilon that each rule will give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedrec_auditor.auditor.worlds import statistics
from fedrec_auditor.auditor.worlds.guesses import approximate_epsilon, limit_revealed_draws
from fedrec_auditor.auditor.worlds.statistics import Statistic, count_in_intervals, make_cuts

Floats = NDArray[np.float64]

# Type of the rule in a ``CandidateRule``.
Rule = TypeVar("Rule", covariant=True)
# Guesses of a rule: the first world, neither world (the rule abstains), or the second world.
FIRST, NEITHER, SECOND = 1, 0, -1
# Number of wrong guesses that is added to the counts: an event that is absent from the selection
# split may still occur.
_UNSEEN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """A rule that guesses from which of two neighbouring inputs (worlds) an output comes.

    statistic: function that maps an output to a number. The interval of this number determines the
        guess.
    statistic_cuts: increasing cuts (m,), which form m + 1 intervals; interval i is [cuts[i-1],
        cuts[i]).
    guesses: the guess in each interval (m + 1,): FIRST (1), SECOND (-1), or NEITHER (0; the rule
        abstains).
    """

    statistic: Statistic
    statistic_cuts: Floats
    guesses: NDArray[np.int8]

    def count_guesses(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """Returns how many ``outputs`` (n, *shape) are guessed to come from each of two inputs,
        (2,).
        """
        parts = count_in_intervals(self.statistic.evaluate(outputs), self.statistic_cuts)
        return np.array([parts[self.guesses == FIRST].sum(), parts[self.guesses == SECOND].sum()])

    @property
    def guessed_worlds(self) -> frozenset[int]:
        """The inputs (worlds) that the rule may guess: FIRST (1), SECOND (-1), or both."""
        return frozenset(self.guesses.tolist()) - {NEITHER}

    def describe(self, world: int) -> str:
        """Describes in words the outputs for which the rule guesses one input (world).

        ``world``: the guessed input, FIRST (1) or SECOND (-1).
        """
        ends = np.concatenate([[-np.inf], self.statistic_cuts, [np.inf]])
        inside = np.concatenate([[False], self.guesses == world, [False]])
        starts = np.flatnonzero(inside[1:] & ~inside[:-1])
        stops = np.flatnonzero(~inside[1:] & inside[:-1])
        spoken = [
            self.statistic.describe(float(ends[i]), float(ends[j]))
            for i, j in zip(starts[:3], stops[:3], strict=True)
        ]
        more = f", or {len(starts) - 3} more intervals" if len(starts) > 3 else ""
        return " or ".join(spoken) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTestPlan:
    """Settings of the later test of a decision rule on fresh draws.

    The test gives a lower bound on epsilon, which ``predict_bound`` predicts.

    n_draws: number of draws in the test.
    delta: delta of the lower bound on epsilon.
    alpha: error probability of the bound, 1 minus its confidence.
    margin: number of standard errors by which a predicted bound is reduced.
    """

    n_draws: int
    delta: float
    alpha: float
    # The margin avoids that an event with few counts is selected by chance. The standard errors are
    # estimated from the counts from which the bound is predicted.
    margin: float = 2.0

    def predict_bound(
        self,
        right: ArrayLike,
        wrong: ArrayLike,
        n_draws: float,
        *,
        both: bool,
        unseen: float = _UNSEEN,
    ) -> Floats:
        """Predicts the lower bound on epsilon that a rule will give in its later test.

        right, wrong: numbers of right and of wrong guesses in draws before the test (arrays
            broadcast).
        n_draws: number of these draws.
        both: whether the rule guesses both worlds (inputs), or only one.
        unseen: number added to ``wrong``, for wrong guesses that are possible but did not occur.
        """
        delta, alpha = self.delta, self.alpha
        revealed, alpha = limit_revealed_draws(self.n_draws, both=both, delta=delta, alpha=alpha)
        scale = self.n_draws / n_draws
        z = float(special.ndtri(1 - alpha)) + self.margin * math.sqrt(scale)
        right, wrong = np.asarray(right, np.float64), np.asarray(wrong, np.float64)
        return approximate_epsilon(right * scale, (wrong + unseen) * scale, revealed, z)


# The model is rejected if the counts of a tail deviate from it by this many standard deviations.
_DEVIATIONS = 3.3
_MIN_PARTS = 8


def smooth_counts(counts: WorldCounts, middles: Floats) -> WorldCounts | None:
    """Smooths counts of outputs of two worlds (inputs) by a model of their log-ratio, (2, m).

    counts: counts of equally many outputs of each world in m intervals, (2, m).
    middles: mean value of the outputs in each interval (m,); NaN for an empty interval.

    The result is None if too few intervals have outputs, or if the counts of a tail contradict the
    model. Smoothed counts serve only to choose a rule.
    """
    first, second = counts
    known = (first + second > 0) & np.isfinite(middles)
    if np.count_nonzero(known) < _MIN_PARTS:
        return None
    x = _make_basis(first, second, np.where(known, middles, 0.0), known)
    total = first[known].sum() + second[known].sum()
    best, log_odds = -np.inf, np.zeros(len(first))
    # Models of the log-ratio of the two counts: linear in the value (column 1), as for Gaussian
    # noise; linear between the medians of the two worlds and constant beyond (2), as for Laplace
    # noise; quadratic (3), as for noise whose size differs between the worlds; and sums of these.
    # The Bayesian information criterion selects one of them.
    for columns in ([0, 2], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3]):
        weights = statistics.fit_logistic(x[known][:, columns], first[known], second[known])
        odds = x[:, columns] @ weights
        log_first, log_second = special.log_expit(odds[known]), special.log_expit(-odds[known])
        score = float(first[known] @ log_first + second[known] @ log_second)
        score -= len(columns) * np.log(total) / 2
        if score > best:
            best, log_odds = score, odds
    probability = special.expit(log_odds)
    both = first + second
    miss, room = first - both * probability, both * probability * (1 - probability)
    for order in (slice(None), slice(None, None, -1)):
        off = np.abs(np.cumsum(miss[order])) - 1.0
        if np.any(off > _DEVIATIONS * np.sqrt(np.cumsum(room[order]))):
            return None
    # The outputs of each interval are divided between the worlds in the modelled ratio.
    return np.stack([both * probability, both * (1 - probability)])


def _make_basis(first: Floats, second: Floats, middles: Floats, known: NDArray[np.bool_]) -> Floats:
    centres = [_weighted_median(counts[known], middles[known]) for counts in (first, second)]
    low, high = min(centres), max(centres)
    spread = max(float(np.std(middles[known])), 1e-300)
    z = (middles - (low + high) / 2) / spread
    clipped = (np.clip(middles, low, high) - low) / max(high - low, 1e-300)
    return np.stack([np.ones(len(z)), z, clipped, z * z], axis=1)


def _weighted_median(counts: Floats, middles: Floats) -> float:
    return float(middles[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])


# Counts of outputs of two worlds in m intervals, (2, m), or in two halves of a split (2, 2, m).
WorldCounts = Floats
# Guess of a rule in each of m intervals, (m,): FIRST, NEITHER or SECOND.
GuessTable = NDArray[np.int8]
# Number of cuts that are tried in all pairs, and number of tried thresholds of the log-ratio.
_TAILS = 64
_LEVELS = 64
# Numbers of intervals, and numbers of standard errors subtracted from the log-ratios, for rules on
# the few intervals with the largest log-ratios. They find a frequent value among thousands of
# intervals with few counts.
_TOP, _SURE = (1, 2, 4, 8, 16), (2.0, 3.0)
_SMOOTHING = 1.0
_CAUTION_BY_MODEL = 0.3
# A less simple rule is preferred only if its bound is larger by this share.
MIN_BOUND_GAIN = 0.01
# Expected bounds that differ by less count as equal, because the last bits of logarithms depend on
# the processor.
_TIED = 1e-9


class CandidateRule(NamedTuple, Generic[Rule]):
    """A candidate rule that guesses between two worlds (inputs), with its expected bound.

    first_world_index, second_world_index: indices of the first and of the second world.
    expected_bound: predicted lower bound on epsilon.
    rule: the rule, which maps an output to a guess.
    """

    first_world_index: int
    second_world_index: int
    expected_bound: float
    rule: Rule


def choose_best_rule(candidates: Iterable[CandidateRule[Rule]]) -> CandidateRule[Rule] | None:
    """Returns the candidate rule with the largest predicted lower bound on epsilon.

    An earlier candidate is kept unless the bound of a later one is larger by more than 1%
    (``MIN_BOUND_GAIN``). The result is None if there are no candidates.
    """
    best: CandidateRule[Rule] | None = None
    for each in candidates:
        bound = -math.inf if best is None else best.expected_bound
        if best is None or each.expected_bound > bound + MIN_BOUND_GAIN * max(bound, 0.0):
            best = each
    return best


class RatedGuesses(NamedTuple):
    """Guesses of a rule by interval of its statistic, with two predicted lower bounds on epsilon.

    The predictions serve only to select a rule.

    cautious_epsilon_bound: prediction for comparing rules on different statistics, reduced by
        ``RuleTestPlan.margin`` standard errors.
    bold_epsilon_bound: prediction for comparing rules on one statistic. For rules of
        ``find_guesses_by_model``, it is reduced by 0.3 standard errors. For all other rules, it
        equals ``cautious_epsilon_bound``.
    guess_table: the guess in each interval (m,): FIRST (1), NEITHER (0) or SECOND (-1).
    """

    cautious_epsilon_bound: float
    bold_epsilon_bound: float
    guess_table: GuessTable


def propose_rules(
    statistic: Statistic, first: Floats, second: Floats, plan: RuleTestPlan
) -> list[tuple[float, DecisionRule]]:
    """Returns rules on ``statistic`` with their predicted lower bounds on epsilon, the most
    promising rule first.

    statistic: function that maps an output to a number.
    first, second: values of the statistic on equally many outputs of the two worlds (inputs), in
        the order of the draws.
    plan: settings of the later test, from which bounds are predicted.

    Rules of these kinds are proposed:

    - guesses in the tails: above one cut, and below another;
    - guesses in the intervals with a large log-ratio of the two worlds' counts;
    - guesses only in the few intervals with the largest log-ratios, if there are many values and
      some repeat.
    """
    prescribed = statistic.cuts
    cuts = make_cuts(np.concatenate([first, second])) if prescribed is None else prescribed
    if len(cuts) == 0:
        return []
    # One half is earlier than the other: a rule on a drifting value, such as a clock, fails on it.
    parts = zip(np.array_split(first, 2), np.array_split(second, 2), strict=True)
    counts = [[count_in_intervals(each, cuts) for each in half] for half in parts]
    halves = np.array(counts, np.float64)
    # The counts choose the cuts of a first rule; a model of the counts chooses those of a second
    # rule.
    chosen = find_guesses_by_cuts(halves, plan)
    options = [chosen]
    if len(cuts) > 1:
        options.append(find_guesses_by_ratio(halves, plan))
    if prescribed is None:
        modelled = find_guesses_by_model(halves, _compute_means(first, second, cuts), plan)
        options += [modelled] if modelled else []
    for option in options:
        if option.bold_epsilon_bound > chosen.bold_epsilon_bound * (1 + MIN_BOUND_GAIN):
            chosen = option
    ranked = [chosen, *(option for option in options if option is not chosen)]
    if len(cuts) > _LEVELS and statistics.has_frequent_value(np.concatenate([first, second])):
        ranked += find_top_ratio_guesses(halves, plan)
    if prescribed is not None:
        for option in ranked:
            option.guess_table[0] = NEITHER
    return [
        (bound, DecisionRule(statistic=statistic, statistic_cuts=cuts, guesses=guesses))
        for bound, _, guesses in ranked
        if guesses.any()
    ]


def find_guesses_by_cuts(halves: WorldCounts, plan: RuleTestPlan) -> RatedGuesses:
    """Returns the best rule that guesses a world (input) above one cut, and a world below another
    cut.

    halves: counts of the outputs that select a rule, by half of these outputs, world and interval,
        (2, 2, m).
    plan: settings of the later test, from which the bound is predicted.

    The rule abstains between the cuts. It may omit one of the two guesses.
    """
    right, wrong, both = 0.0, 0.0, False
    for train, test in (halves, halves[::-1]):
        # Cross-validation: cuts that are chosen on one half of the outputs are evaluated on the
        # other half.
        table = _pick_tails([train], plan)
        right += _count_hits(test, table)
        wrong += _count_hits(test[::-1], table)
        both |= FIRST in table and SECOND in table
    expected = plan.predict_bound(np.array(right), np.array(wrong), halves.sum(), both=both)
    return RatedGuesses(float(expected), float(expected), _pick_tails([halves.sum(axis=0)], plan))


def find_guesses_by_model(
    halves: WorldCounts, means: Floats, plan: RuleTestPlan
) -> RatedGuesses | None:
    """Returns the best rule like those of ``find_guesses_by_cuts``, rated also by a fitted model.

    halves: counts of the outputs that select a rule, by half of these outputs, world (input) and
        interval, (2, 2, m).
    means: mean value of the outputs in each interval (m,).
    plan: settings of the later test, from which the bound is predicted.

    Each pair of cuts is rated by the observed or by the modelled counts (``smooth_counts``),
    whichever are less favourable. The result is None if no model fits.
    """
    counts_of_both = halves.sum(axis=0)
    modelled = smooth_counts(counts_of_both, means)
    if modelled is None:
        return None
    bold = replace(plan, margin=_CAUTION_BY_MODEL)
    table = _pick_tails([counts_of_both, modelled], bold)
    right = np.array(min(_count_hits(counts, table) for counts in (counts_of_both, modelled)))
    wrong = np.array(max(_count_hits(counts[::-1], table) for counts in (counts_of_both, modelled)))
    both, n_draws = FIRST in table and SECOND in table, halves.sum()
    cautious, likely = (s.predict_bound(right, wrong, n_draws, both=both) for s in (plan, bold))
    return RatedGuesses(float(cautious), float(likely), table)


def _count_hits(counts: WorldCounts, table: GuessTable) -> float:
    """Returns the number of right guesses, in both worlds (inputs) together.

    ``counts``: counts of outputs by world and interval, (2, m).
    ``table``: the guess per interval.
    """
    return float(counts[0][table == FIRST].sum() + counts[1][table == SECOND].sum())


def _pick_tails(views: list[WorldCounts], plan: RuleTestPlan) -> GuessTable:
    """Returns the guess in each interval of the best rule that guesses above and below two cuts.

    ``views``: alternative counts of outputs by world and interval, (2, m) each. The least
    favourable of them rates a rule.
    """
    total = views[0].sum(axis=0)
    n_outputs, cuts = float(total.sum()), len(total) - 1
    rising = np.cumsum(total)
    lows = np.append(-1, _thin(rising[:-1]))  # -1: no guess below
    highs = np.append(cuts - 1 - _thin(n_outputs - rising[-2::-1]), cuts)  # cuts: no guess above
    nothing = np.zeros((2, 1))
    apart = np.flatnonzero(highs[:, None] >= lows)
    rights = []  # right guesses in each view, per guess above and below: (4, pairs of cuts)
    for view in views:
        sums = np.cumsum(view, axis=1)
        below, above = sums[:, :-1], sums[:, -1:] - sums[:, :-1]
        high = np.concatenate([above, nothing], axis=1)[:, highs]
        low = np.concatenate([below, nothing], axis=1)[:, lows]
        rights.append((high[:, None, :, None] + low[:, None]).reshape(4, -1)[:, apart])
    right = np.min(rights, axis=0)
    wrong = np.max(rights, axis=0)[::-1]  # wrong guesses are right for the opposite rule
    best, table = 0.0, np.full(cuts + 1, NEITHER, dtype=np.int8)
    for kind, (up, down) in enumerate(itertools.product((FIRST, SECOND), repeat=2)):
        better = np.flatnonzero(right[kind] > wrong[kind])  # all others have no bound
        if len(better) == 0:
            continue
        counts = right[kind, better], wrong[kind, better]
        expected = plan.predict_bound(*counts, n_outputs, both=up != down)
        place = _find_best(expected)
        if expected[place] > best:
            best = float(expected[place])
            i, j = divmod(apart[better[place]], len(lows))
            table = np.full(cuts + 1, NEITHER, dtype=np.int8)
            table[highs[i] + 1 :] = up
            table[: lows[j] + 1] = down
    return table


def find_guesses_by_ratio(halves: WorldCounts, plan: RuleTestPlan) -> RatedGuesses:
    """Returns the best rule that guesses the more likely input (world) in intervals with a large
    log-ratio.

    The log-ratio of an interval compares the counts of the two worlds. The rule abstains in
    intervals with a log-ratio below a threshold, which cross-validation selects.

    halves: counts of the outputs that select a rule, by half of these outputs, world (input) and
        interval, (2, 2, m).
    plan: settings of the later test, from which the bound is predicted.
    """
    strength = _rate_intervals(halves.mean(axis=0), 1.0)[0]
    levels = np.unique(np.quantile(strength, np.linspace(0, 1, _LEVELS), method="lower"))
    options = _threshold(np.append(levels[0], (levels[1:] + levels[:-1]) / 2), halves, plan, 1.0)
    return options[_find_best(np.array([option.bold_epsilon_bound for option in options]))]


def find_top_ratio_guesses(halves: WorldCounts, plan: RuleTestPlan) -> list[RatedGuesses]:
    """Returns rules that guess only in the few intervals with the largest log-ratios of counts.

    A log-ratio compares the counts of two worlds (inputs) in one interval. The largest ones may be
    large by chance, so the caller compares these rules on fresh draws.

    halves: counts of the outputs that select a rule, by half of these outputs, world (input) and
        interval, (2, 2, m).
    plan: settings of the later test, from which bounds are predicted.
    """
    options = []
    for errors in _SURE:
        ordered = np.sort(_rate_intervals(halves.mean(axis=0), errors)[0])
        options += _threshold(ordered[[-k for k in _TOP]], halves, plan, errors)
    return options


def _threshold(
    levels: Floats, halves: WorldCounts, plan: RuleTestPlan, errors: float
) -> list[RatedGuesses]:
    """Returns one rule per threshold in ``levels``, which guesses where the log-ratio reaches this
    threshold.

    The log-ratio of an interval compares the counts of two worlds (inputs). It is reduced by
    ``errors`` standard errors. The rule guesses the more likely world of an interval.
    """
    guesses = np.zeros((2, len(levels)))  # right and wrong guesses
    for train, test in (halves, halves[::-1]):
        # Cross-validation: one half of the outputs orders the intervals, the other half counts
        # guesses.
        strength, side = _rate_intervals(train, errors)
        order = np.argsort(strength, kind="stable")
        parts = np.where(side == FIRST, test, test[::-1])[:, order]
        from_top = np.append(np.cumsum(parts[:, ::-1], axis=1)[:, ::-1], np.zeros((2, 1)), axis=1)
        guesses += from_top[:, np.searchsorted(strength[order], levels)]
    expected = plan.predict_bound(guesses[0], guesses[1], halves.sum(), both=True)
    strength, whole = _rate_intervals(halves.mean(axis=0), errors)
    return [
        RatedGuesses(bound, bound, np.where(strength >= level, whole, NEITHER).astype(np.int8))
        for bound, level in zip(expected.tolist(), levels, strict=True)
    ]


def estimate_epsilon(counts: WorldCounts, plan: RuleTestPlan) -> float:
    """Estimates roughly the lower bound on epsilon of the best rule that guesses by a log-ratio.

    counts: counts of outputs of two worlds (inputs) in m intervals, (2, m).
    plan: settings of the later test, from which the bound is predicted.

    The estimate is optimistic, because the same counts select the rule and evaluate it.
    """
    strength, side = _rate_intervals(counts)
    order = np.argsort(-strength)
    right, wrong = np.cumsum(np.where(side == FIRST, counts, counts[::-1])[:, order], axis=1)
    return float(plan.predict_bound(right, wrong, counts.sum(), both=True).max())


def _find_best(expected: Floats) -> int:
    """Returns the index of the largest number, the first one among nearly equal numbers."""
    flat = expected.ravel()
    return int(np.argmax(flat >= flat.max() - _TIED * max(1.0, abs(float(flat.max())))))


def _rate_intervals(counts: WorldCounts, errors: float = 1.0) -> tuple[Floats, GuessTable]:
    """Returns the size of the log-ratio in each interval (m,), and the more likely world (m,).

    ``counts``: counts of outputs of two worlds (inputs), (2, m). The absolute log-ratio is reduced
    by ``errors`` standard errors.
    """
    a, b = counts + _SMOOTHING
    ratio = np.log(a / b)
    side = np.where(ratio >= 0, FIRST, SECOND).astype(np.int8)
    return np.round(np.abs(ratio) - errors * np.sqrt(1 / a + 1 / b), 9), side


def _compute_means(first: Floats, second: Floats, cuts: Floats) -> Floats:
    """Returns the mean of all values in each of the m + 1 intervals between ``cuts`` (m,).

    The mean is NaN for an empty interval. ``first``, ``second``: values in two worlds (inputs).
    """
    values = np.sort(statistics.as_floats(np.concatenate([first, second])).ravel())
    starts = np.append(0, np.searchsorted(values, cuts))
    counts = np.diff(starts, append=len(values))
    means = np.full(len(counts), np.nan)
    some = counts > 0
    means[some] = np.add.reduceat(values, starts[some]) / counts[some]
    return means


def _thin(tails: Floats) -> NDArray[np.int64]:
    """Returns about 64 positions in the increasing counts ``tails``, evenly spread.

    Half of them are evenly spaced in the count, half in its logarithm.
    """
    if len(tails) <= _TAILS:
        return np.arange(len(tails))
    wanted = _ranks(max(1.0, float(tails[-1])))  # the last value may be 0 in a half of the draws
    return np.unique(np.minimum(np.searchsorted(tails, wanted), len(tails) - 1))


@lru_cache(maxsize=64)
def _ranks(n: float) -> Floats:
    """Returns about 64 numbers from 1 to ``n``: half evenly spaced, half so in the logarithm."""
    return np.concatenate([np.geomspace(1, n, _TAILS // 2), np.linspace(1, n, _TAILS // 2)])
