"""The draws that select what is tested: two worlds, and a rule that guesses between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.estimators.parts.decision_rule import (
    DecisionRule,
    SampleBudget,
    Statistic,
    cuts_between,
    histogram,
)
from fedrec_auditor.auditor.estimators.parts.exclusive_values import (
    ExclusiveRule,
    exclusive_rules,
)
from fedrec_auditor.auditor.estimators.parts.learned_scores import learned_scores
from fedrec_auditor.auditor.estimators.parts.rule_selection import (
    best_rule,
    expected_at_a_glance,
)
from fedrec_auditor.auditor.estimators.parts.rule_validation import (
    Contender,
    RuleValidation,
    simplest_best,
)
from fedrec_auditor.auditor.estimators.parts.statistics import (
    Outcome,
    as_floats,
    place_in_period,
    plain_numbers,
)
from fedrec_auditor.auditor.worlds import UnevenOutputs, Worlds

LARGEST_SPLIT = 200_000
"""Most outputs kept of each world."""
MOST_ENTRIES = 1 << 24
"""Most numbers kept of all worlds together."""
RARE = 0.1
"""The share of the error that is for values seen in one world only."""
_SMALLEST_SPLIT = 2_000
_SHARE = 10
# Outputs are told apart one by one if they are at most this many, and each comes often enough.
_MOST_OUTCOMES = 4096
_REPEATS = 8
# So few outcomes are told apart and nothing else is tried; so many entries of strings are named.
_ALL = 16
# Pairs of worlds that are looked at closely, of those that look best at a glance.
_CLOSELY = 4
# Rules that fresh draws choose from; with fewer draws they would decide no better than the split.
_CONTENDERS, _FEWEST_TO_JUDGE = 8, 4_000
# Pairs of worlds that are all looked at for values seen in one world only.
_MOST_PAIRS = 66
# The share of the split on which scores are learned, its inverse; the rest chooses among them.
_LEARNING = 2
# The level at which the quantile of an expected bound is 0: no luck is taken off.
_EVEN = 0.5


def split_size(samples: int) -> int:
    """How many of ``samples`` draws of a world choose what is looked at in the others."""
    return min(samples // 2, max(_SMALLEST_SPLIT, samples // _SHARE), LARGEST_SPLIT)


class Selection(NamedTuple):
    """Two worlds, and what guesses between them.

    To judge rules, ``drawn`` outputs were drawn in all, ``size`` of each world.
    """

    a: int
    b: int
    rule: DecisionRule | None
    exclusive: ExclusiveRule | None
    drawn: int
    size: int


@dataclass(frozen=True, slots=True)
class SelectionSplit:
    """Outputs of each world, each (n, *shape), all of one kind."""

    outputs: tuple[NDArray[Any], ...]

    @classmethod
    def drawn(cls, worlds: Worlds, samples: int, rng: np.random.Generator) -> SelectionSplit:
        """``split_size`` outputs of each world, fewer of wide ones; else UnevenOutputs."""
        size = split_size(samples)
        drawn = []
        for world, stream in enumerate(rng.spawn(len(worlds.names))):
            parts: list[NDArray[Any]] = []
            for part in worlds.blocks(world, size, stream):
                parts.append(part)
                entries = max(1, part[0].size) * len(worlds.names)
                size = min(size, max(2, MOST_ENTRIES // entries))
                if sum(map(len, parts)) >= size:
                    break
            drawn.append(np.concatenate(parts)[:size])
        shapes = sorted({outputs.shape[1:] for outputs in drawn})
        if len(shapes) != 1:
            raise UnevenOutputs(
                f"Expected outputs of one shape, got {shapes}. "
                "Return the same shape for every input."
            )
        if any(outputs.dtype.kind == "U" for outputs in drawn):
            drawn = [o if o.dtype.kind == "U" else o.astype(str) for o in drawn]
        return cls(tuple(outputs[:size] for outputs in drawn))

    @property
    def size(self) -> int:
        """Outputs of each world."""
        return len(self.outputs[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        return self.outputs[0].shape[1:]

    def select(self, budget: SampleBudget, worlds: Worlds, rng: np.random.Generator) -> Selection:
        """Two of the worlds, the rule of ``choose``, and one on values seen in one of them only.

        ``RARE`` of the error of ``budget`` is for the latter, the rest for the former. The worlds
        are those of the rule of which more is expected. Where rules compete, fresh draws decide.
        """
        common = replace(budget, alpha=(1.0 - RARE) * budget.alpha)
        rare = replace(budget, alpha=RARE * budget.alpha)
        contenders, size, drawn = self._contenders(common), 0, 0
        best = simplest_best(contenders)
        fresh = min(self.size, budget.draws // 2 // _SHARE)
        if len(contenders) > 1 and fresh >= _FEWEST_TO_JUDGE:
            size, validation = fresh, RuleValidation(worlds, fresh, self.shape, rng)
            best, drawn = validation.best(contenders, common)
        expected = best.expected if best else 0.0
        a, b = best[:2] if best else (0, 1)
        pairs = list(itertools.combinations(range(len(self.outputs)), 2))
        tried = pairs if len(pairs) <= _MOST_PAIRS else [(a, b)]
        found = exclusive_rules(self.outputs, tried, rare)
        only = max(found.values(), key=lambda each: each.expected, default=None)
        if only is not None and only.expected > expected and (only.a, only.b) != (a, b):
            a, b = only.a, only.b
            best = self._pair_of(a, b).choose(common)
        only = found.get((a, b))
        rule = best.rule if best else None
        return Selection(a, b, rule, only.rule if only else None, drawn, size)

    def choose(self, budget: SampleBudget) -> Contender | None:
        """The rule with the largest expected bound by this split alone; None if no rule shows any.

        Where caution sees nothing in any rule, less is asked, and at last any rule will do: fresh
        draws will tell, and a weak leak is not missed because the split is small.
        """
        return simplest_best(self._contenders(budget))

    def _pair_of(self, a: int, b: int) -> SelectionSplit:
        return SelectionSplit((self.outputs[a], self.outputs[b]))

    def _contenders(self, budget: SampleBudget) -> list[Contender]:
        """The few rules of which most is expected, simpler ones first."""
        statistics = self._statistics()
        pairs = self._pairs(statistics, budget)
        trusting = replace(budget, caution=0.0)
        found: list[Contender] = []
        last = replace(trusting, alpha=_EVEN)
        for attempt, least in ((budget, 0.0), (trusting, 0.0), (last, -np.inf)):
            found = [
                Contender(a, b, expected, rule)
                for a, b in pairs
                for expected, rule in self._closely(a, b, statistics, attempt)
                if rule is not None and expected > least
            ]
            if found:
                break
        likely = sorted(range(len(found)), key=lambda i: -found[i].expected)[:_CONTENDERS]
        return [found[i] for i in sorted(likely)]

    def _statistics(self) -> list[Statistic]:
        """What needs no pair: which outcome it is where they are few, else numbers and sums."""
        sample = np.concatenate(self.outputs)
        kind, width = sample.dtype.kind, sample[0].size
        if width == 0:
            return []
        if kind in "US":
            return self._names(sample)
        most = min(_MOST_OUTCOMES, len(sample) // _REPEATS)
        outcome = Outcome.seen(sample, most) if kind != "f" or width > 1 else None
        if outcome is not None and len(outcome.keys) <= _ALL:
            return [outcome]
        numbers = plain_numbers(width)
        if width == 1:
            numbers += [place_in_period(as_floats(sample)[:, 0])]
        return [outcome, *numbers] if outcome is not None else [*numbers]

    def _learns(self, statistics: list[Statistic]) -> bool:
        """Whether outputs are vectors of numbers, of more than a few outcomes."""
        numbers = self.outputs[0].dtype.kind not in "US"
        return numbers and len(statistics) > 1 and prod(self.shape) > 1

    def _names(self, sample: NDArray[Any]) -> list[Statistic]:
        """Which string it is, or which strings; and which string one entry of it is."""
        width = sample[0].size
        entries = [None, *range(min(width, _ALL) if width > 1 else 0)]
        seen = [Outcome.seen(sample, len(sample), entry) for entry in entries]
        return [outcome for outcome in seen if outcome is not None]

    def _pairs(self, statistics: list[Statistic], budget: SampleBudget) -> list[tuple[int, int]]:
        """The pairs that look best at a glance, on one set of cuts for all worlds."""
        pairs = list(itertools.combinations(range(len(self.outputs)), 2))
        if len(pairs) <= _CLOSELY:
            return pairs
        expected = np.zeros(len(pairs))
        budget = replace(budget, caution=budget.caution + np.sqrt(2 * np.log(len(pairs))))
        for statistic in statistics:
            values = [statistic.of(outputs) for outputs in self.outputs]
            cuts = cuts_between(np.concatenate(values))
            counts = [histogram(row, cuts).astype(np.float64) for row in values]
            for position, (a, b) in enumerate(pairs):
                expected[position] = max(
                    expected[position], expected_at_a_glance(counts[a], counts[b], budget)
                )
        best = np.argsort(-expected, kind="stable")[:_CLOSELY].tolist()
        if self._learns(statistics):
            means = np.stack([as_floats(outputs).mean(axis=0) for outputs in self.outputs])
            spread = np.maximum(np.stack([as_floats(o).std(axis=0) for o in self.outputs]), 1e-12)
            apart = [
                np.sum(((means[a] - means[b]) / (spread[a] + spread[b])) ** 2) for a, b in pairs
            ]
            best += np.argsort(-np.array(apart), kind="stable")[:_CLOSELY].tolist()
        return [pairs[i] for i in dict.fromkeys(best)]

    def _closely(
        self, a: int, b: int, statistics: list[Statistic], budget: SampleBudget
    ) -> Iterator[tuple[float, DecisionRule | None]]:
        for statistic in statistics:
            yield best_rule(
                statistic, statistic.of(self.outputs[a]), statistic.of(self.outputs[b]), budget
            )
        if self._learns(statistics):
            learning = self.size // _LEARNING
            one, other = self.outputs[a], self.outputs[b]
            for score in learned_scores(
                as_floats(one[:learning]), as_floats(other[:learning]), self.shape
            ):
                yield best_rule(score, score.of(one[learning:]), score.of(other[learning:]), budget)
