"""Rules that guess the world from the output: cuts of a statistic, a guess in each part."""

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

from fedrec_auditor.auditor.worlds.guesses import expected_epsilon, failure_mass
from fedrec_auditor.auditor.worlds.statistics import (
    Statistic,
    as_floats,
    cuts_between,
    fitted,
    has_atoms,
    histogram,
)

Floats = NDArray[np.float64]

Rule = TypeVar("Rule", covariant=True)
FIRST, NEITHER, SECOND = 1, 0, -1
# Taken as seen once more than it was, so that what the split never saw is not thought impossible.
_UNSEEN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """Guesses by ``table`` (FIRST, NEITHER or SECOND) in the parts into which ``cuts`` divide.

    ``cuts`` (m,) increase; part i of m + 1 is [cuts[i-1], cuts[i]).
    """

    statistic: Statistic
    cuts: Floats
    table: NDArray[np.int8]

    def count(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """How many outputs are guessed to be of the first world, and of the second: (2,)."""
        parts = histogram(self.statistic.of(outputs), self.cuts)
        return np.array([parts[self.table == FIRST].sum(), parts[self.table == SECOND].sum()])

    @property
    def sides(self) -> frozenset[int]:
        """The worlds that are ever guessed: FIRST, SECOND, or both."""
        return frozenset(self.table.tolist()) - {NEITHER}

    def words(self, side: int) -> str:
        """The outputs on which ``side`` is guessed, in words."""
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        inside = np.concatenate([[False], self.table == side, [False]])
        starts = np.flatnonzero(inside[1:] & ~inside[:-1])
        stops = np.flatnonzero(~inside[1:] & inside[:-1])
        spoken = [
            self.statistic.words(float(ends[i]), float(ends[j]))
            for i, j in zip(starts[:3], stops[:3], strict=True)
        ]
        more = f", or {len(starts) - 3} parts more" if len(starts) > 3 else ""
        return " or ".join(spoken) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBudget:
    """What a rule is chosen for: ``draws`` to come, at ``delta``, with error ``alpha``.

    ``caution`` is how many deviations of the selection split's own error are held against a rule,
    so that a thin tail does not win by luck.
    """

    draws: int
    delta: float
    alpha: float
    caution: float = 2.0

    def expected_bound(
        self,
        right: ArrayLike,
        wrong: ArrayLike,
        seen: float,
        *,
        both: bool,
        unseen: float = _UNSEEN,
    ) -> Floats:
        """The bound to expect from a rule that was right and wrong so often in ``seen`` draws.

        It is taken to have been wrong ``unseen`` times more.
        """
        revealed, alpha = failure_mass(self.draws, both=both, delta=self.delta, alpha=self.alpha)
        scale = self.draws / seen
        z = float(special.ndtri(1 - alpha)) + self.caution * math.sqrt(scale)
        right, wrong = np.asarray(right, np.float64), np.asarray(wrong, np.float64)
        return expected_epsilon(right * scale, (wrong + unseen) * scale, revealed, z)


# A tail whose counts are so many deviations off refutes the model.
_DEVIATIONS = 3.3
_LEAST_PARTS = 8


def smoothed(counts: Counts, middles: Floats) -> Counts | None:
    """What to expect in each part, (2, m), in place of the counts; None if no model fits.

    ``counts`` (2, m) are equally many of either world, in parts around ``middles``. The
    log-ratio is taken to be linear (Gaussian noise), linear between the two centres and flat
    beyond (Laplace noise), quadratic (noise of two sizes), or a sum of these: the least complex
    that the counts favour (Bayesian information criterion). A tail then borrows from both worlds:
    of the n outputs seen there, the second has n / (1 + e^ratio), though none was seen. No model
    fits if any tail contradicts it. It only helps to choose: no bound rests on it.
    """
    first, second = counts
    kept = (first + second > 0) & np.isfinite(middles)
    if np.count_nonzero(kept) < _LEAST_PARTS:
        return None
    x = _features(first, second, np.where(kept, middles, 0.0), kept)
    total = first[kept].sum() + second[kept].sum()
    best, log_odds = -np.inf, np.zeros(len(first))
    for columns in ([0, 2], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3]):
        weights = fitted(x[kept][:, columns], first[kept], second[kept])
        odds = x[:, columns] @ weights
        log_first, log_second = special.log_expit(odds[kept]), special.log_expit(-odds[kept])
        merit = float(first[kept] @ log_first + second[kept] @ log_second)
        merit -= len(columns) * np.log(total) / 2
        if merit > best:
            best, log_odds = merit, odds
    probability = special.expit(log_odds)
    both = first + second
    miss, room = first - both * probability, both * probability * (1 - probability)
    for order in (slice(None), slice(None, None, -1)):
        off = np.abs(np.cumsum(miss[order])) - 1.0
        if np.any(off > _DEVIATIONS * np.sqrt(np.cumsum(room[order]))):
            return None
    return np.stack([both * probability, both * (1 - probability)])


def _features(first: Floats, second: Floats, middles: Floats, kept: NDArray[np.bool_]) -> Floats:
    centres = [_median(counts[kept], middles[kept]) for counts in (first, second)]
    low, high = min(centres), max(centres)
    spread = max(float(np.std(middles[kept])), 1e-300)
    z = (middles - (low + high) / 2) / spread
    clipped = (np.clip(middles, low, high) - low) / max(high - low, 1e-300)
    return np.stack([np.ones(len(z)), z, clipped, z * z], axis=1)


def _median(counts: Floats, middles: Floats) -> float:
    return float(middles[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])


Counts = Floats
"""Outputs of two worlds in each part, (2, m); of two halves of a split (2, 2, m)."""
Table = NDArray[np.int8]
# Cuts of which every two are tried together, and levels of the log-ratio that are tried.
_TAILS = 64
_LEVELS = 64
# Rules on the few parts that speak most surely, by log-ratios less so many errors: an atom among
# thousands of thin parts, of which the luckiest look as good.
_TOP, _SURE = (1, 2, 4, 8, 16), (2.0, 3.0)
_SMOOTHING = 1.0
_CAUTION_BY_MODEL = 0.3
# What is less simple must be expected to show so much more.
SIMPLER = 0.01
# Expected bounds this close are equal: the last bits of logarithms are a processor's.
_TIED = 1e-9


class Candidate(NamedTuple, Generic[Rule]):
    """A rule that guesses between the worlds ``a`` and ``b``, and the bound to expect of it."""

    a: int
    b: int
    expected: float
    rule: Rule


def first_best(candidates: Iterable[Candidate[Rule]]) -> Candidate[Rule] | None:
    """The one of which most is expected, an earlier one if that is about as much."""
    best: Candidate[Rule] | None = None
    for each in candidates:
        if best is None or each.expected > best.expected + SIMPLER * max(best.expected, 0.0):
            best = each
    return best


class Option(NamedTuple):
    """A table of guesses; the bound to expect of it with caution, and with as little as it needs.

    Rules on one statistic compete by ``likely``, statistics by ``least``.
    """

    least: float
    likely: float
    table: Table


def candidate_rules(
    statistic: Statistic, first: Floats, second: Floats, budget: SampleBudget
) -> list[tuple[float, DecisionRule]]:
    """Rules on ``statistic`` with the bounds to expect of them; first the one that looks best.

    ``first`` and ``second`` are the statistic's values in the two worlds, from a selection split,
    equally many and in the order of the draws. Three kinds of rule are tried: guess one input above
    a cut and one below another, in every combination; guess the likelier input in each part where
    the log-ratio is large, judged on the half of the split that did not set the ratio; and, where
    values that came often lie among many, guess it in the few parts where it is most surely so. In
    that case alone all rules are returned, for fresh draws to judge. Rules that guess nothing are
    left out.
    """
    own = statistic.cuts
    cuts = cuts_between(np.concatenate([first, second])) if own is None else own
    if len(cuts) == 0:
        return []
    # The earlier half and the later one: a rule on what drifts, such as a clock, will not hold.
    parts = zip(np.array_split(first, 2), np.array_split(second, 2), strict=True)
    halves = np.array([[histogram(each, cuts) for each in half] for half in parts], np.float64)
    chosen = by_tails(halves, budget)
    options = [chosen]
    if len(cuts) > 1:
        options.append(by_ratio(halves, budget))
    if own is None and (modelled := by_model(halves, _middles(first, second, cuts), budget)):
        options.append(modelled)
    for option in options:
        if option.likely > chosen.likely * (1 + SIMPLER):
            chosen = option
    kept = [chosen, *(option for option in options if option is not chosen)]
    if len(cuts) > _LEVELS and has_atoms(np.concatenate([first, second])):
        kept += by_surest(halves, budget)
    if own is not None:
        for option in kept:
            option.table[0] = NEITHER
    return [
        (option.least, DecisionRule(statistic=statistic, cuts=cuts, table=option.table))
        for option in kept
        if option.table.any()
    ]


def by_tails(halves: Counts, budget: SampleBudget) -> Option:
    """The best two cuts: a guess at or above the upper one, a guess below the lower one.

    The bound expected is that of cuts chosen on either half and judged on the other.
    """
    right, wrong, both = 0.0, 0.0, False
    for train, test in (halves, halves[::-1]):
        table = _best_tails([train], budget)
        right += _guessed(test, table)
        wrong += _guessed(test[::-1], table)
        both |= FIRST in table and SECOND in table
    expected = budget.expected_bound(np.array(right), np.array(wrong), halves.sum(), both=both)
    return Option(float(expected), float(expected), _best_tails([halves.sum(axis=0)], budget))


def by_model(halves: Counts, middles: Floats, budget: SampleBudget) -> Option | None:
    """The best two cuts where a model of the log-ratio fits: less luck than counts in thin tails.

    Neither the counts nor the model alone may make two cuts look better: the worse one counts.
    """
    seen = halves.sum(axis=0)
    modelled = smoothed(seen, middles)
    if modelled is None:
        return None
    bold = replace(budget, caution=_CAUTION_BY_MODEL)
    table = _best_tails([seen, modelled], bold)
    right = np.array(min(_guessed(counts, table) for counts in (seen, modelled)))
    wrong = np.array(max(_guessed(counts[::-1], table) for counts in (seen, modelled)))
    both = FIRST in table and SECOND in table
    least, likely = (
        s.expected_bound(right, wrong, halves.sum(), both=both) for s in (budget, bold)
    )
    return Option(float(least), float(likely), table)


def _guessed(counts: Counts, table: Table) -> float:
    """How many of the first are guessed to be of the first, and of the second of the second."""
    return float(counts[0][table == FIRST].sum() + counts[1][table == SECOND].sum())


def _best_tails(views: list[Counts], budget: SampleBudget) -> Table:
    """The best two cuts by the least favourable of several views of the counts."""
    total = views[0].sum(axis=0)
    seen, cuts = float(total.sum()), len(total) - 1
    rising = np.cumsum(total)
    lows = np.append(-1, _spread(rising[:-1]))  # -1: no guess below
    highs = np.append(cuts - 1 - _spread(seen - rising[-2::-1]), cuts)  # cuts: no guess above
    nothing = np.zeros((2, 1))
    apart = np.flatnonzero(highs[:, None] >= lows)
    rights = []  # in each view, by what is guessed above and below: (4, pairs of cuts)
    for view in views:
        sums = np.cumsum(view, axis=1)
        below, above = sums[:, :-1], sums[:, -1:] - sums[:, :-1]
        high = np.concatenate([above, nothing], axis=1)[:, highs]
        low = np.concatenate([below, nothing], axis=1)[:, lows]
        rights.append((high[:, None, :, None] + low[:, None]).reshape(4, -1)[:, apart])
    right = np.min(rights, axis=0)
    wrong = np.max(rights, axis=0)[::-1]  # what is right of a guess is wrong of its opposite
    best, table = 0.0, np.full(cuts + 1, NEITHER, dtype=np.int8)
    for kind, (up, down) in enumerate(itertools.product((FIRST, SECOND), repeat=2)):
        better = np.flatnonzero(right[kind] > wrong[kind])  # nothing is to be expected of others
        if len(better) == 0:
            continue
        expected = budget.expected_bound(
            right[kind, better], wrong[kind, better], seen, both=up != down
        )
        place = _first_best(expected)
        if expected[place] > best:
            best = float(expected[place])
            i, j = divmod(apart[better[place]], len(lows))
            table = np.full(cuts + 1, NEITHER, dtype=np.int8)
            table[highs[i] + 1 :] = up
            table[: lows[j] + 1] = down
    return table


def by_ratio(halves: Counts, budget: SampleBudget) -> Option:
    """The best level of the smoothed log-ratio.

    The strengths of the whole are those of its average half, and levels stand between them: the
    parts above a level are then the same in the halves, where it is judged, and in the whole.
    """
    strength = _strength(halves.mean(axis=0), 1.0)[0]
    found = np.unique(np.quantile(strength, np.linspace(0, 1, _LEVELS), method="lower"))
    options = _above(np.append(found[0], (found[1:] + found[:-1]) / 2), halves, budget, 1.0)
    return options[_first_best(np.array([option.likely for option in options]))]


def by_surest(halves: Counts, budget: SampleBudget) -> list[Option]:
    """The few parts that speak most surely for an input, for fresh draws to judge; see ``_TOP``."""
    options = []
    for errors in _SURE:
        ordered = np.sort(_strength(halves.mean(axis=0), errors)[0])
        options += _above(ordered[[-k for k in _TOP]], halves, budget, errors)
    return options


def _above(levels: Floats, halves: Counts, budget: SampleBudget, errors: float) -> list[Option]:
    """A guess of the likelier input in parts of at least each level of strength.

    They are judged crosswise: ordered by one half, judged by the other.
    """
    guesses = np.zeros((2, len(levels)))  # right ones and wrong ones
    for train, test in (halves, halves[::-1]):
        strength, side = _strength(train, errors)
        order = np.argsort(strength, kind="stable")
        parts = np.where(side == FIRST, test, test[::-1])[:, order]
        from_top = np.append(np.cumsum(parts[:, ::-1], axis=1)[:, ::-1], np.zeros((2, 1)), axis=1)
        guesses += from_top[:, np.searchsorted(strength[order], levels)]
    expected = budget.expected_bound(guesses[0], guesses[1], halves.sum(), both=True)
    strength, whole = _strength(halves.mean(axis=0), errors)
    return [
        Option(bound, bound, np.where(strength >= level, whole, NEITHER).astype(np.int8))
        for bound, level in zip(expected.tolist(), levels, strict=True)
    ]


def expected_at_a_glance(counts: Counts, budget: SampleBudget) -> float:
    """The bound of the best level of the log-ratio, judged where it was set: for a first glance."""
    strength, side = _strength(counts)
    order = np.argsort(-strength)
    right, wrong = np.cumsum(np.where(side == FIRST, counts, counts[::-1])[:, order], axis=1)
    return float(budget.expected_bound(right, wrong, counts.sum(), both=True).max())


def _first_best(expected: Floats) -> int:
    """The first place of the largest number, those within last bits of it included."""
    flat = expected.ravel()
    return int(np.argmax(flat >= flat.max() - _TIED * max(1.0, abs(float(flat.max())))))


def _strength(counts: Counts, errors: float = 1.0) -> tuple[Floats, Table]:
    """How surely each part speaks for an input, |log-ratio| less so many errors, and for which."""
    a, b = counts + _SMOOTHING
    ratio = np.log(a / b)
    side = np.where(ratio >= 0, FIRST, SECOND).astype(np.int8)
    return np.round(np.abs(ratio) - errors * np.sqrt(1 / a + 1 / b), 9), side


def _middles(first: Floats, second: Floats, cuts: Floats) -> Floats:
    """Mean of the values in each part; NaN where there is none."""
    values = np.sort(as_floats(np.concatenate([first, second])).ravel())
    starts = np.append(0, np.searchsorted(values, cuts))
    counts = np.diff(starts, append=len(values))
    means = np.full(len(counts), np.nan)
    some = counts > 0
    means[some] = np.add.reduceat(values, starts[some]) / counts[some]
    return means


def _spread(tails: Floats) -> NDArray[np.int64]:
    """Positions in increasing ``tails``, about ``_TAILS``, evenly in rank and in its logarithm."""
    if len(tails) <= _TAILS:
        return np.arange(len(tails))
    wanted = _ranks(max(1.0, float(tails[-1])))  # there may be none in one half of the draws
    return np.unique(np.minimum(np.searchsorted(tails, wanted), len(tails) - 1))


@lru_cache(maxsize=64)
def _ranks(n: float) -> Floats:
    """About ``_TAILS`` numbers from 1 to n; a selection asks for the same ones again and again."""
    return np.concatenate([np.geomspace(1, n, _TAILS // 2), np.linspace(1, n, _TAILS // 2)])
