"""The draws that select what is tested: two worlds, and a rule that guesses between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import (
    DecisionRule,
    SampleBudget,
    Statistic,
    cuts_between,
    histogram,
)
from fedrec_auditor.auditor.worlds.estimators.parts.entry_names import EntryNames
from fedrec_auditor.auditor.worlds.estimators.parts.exclusive_values import (
    ExclusiveRule,
    exclusive_rules,
)
from fedrec_auditor.auditor.worlds.estimators.parts.learned_scores import learned_scores
from fedrec_auditor.auditor.worlds.estimators.parts.rule_selection import (
    SIMPLER,
    candidate_rules,
    expected_at_a_glance,
)
from fedrec_auditor.auditor.worlds.estimators.parts.rule_validation import (
    Contender,
    RuleValidation,
    simplest_best,
)
from fedrec_auditor.auditor.worlds.estimators.parts.statistics import (
    Outcome,
    as_floats,
    bits,
    place_in_period,
    plain_numbers,
)
from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.auditor.worlds.worlds import UnevenOutputs, Worlds

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
_CONTENDERS, _FEWEST_TO_JUDGE = 16, 4_000
# Pairs of worlds that are all looked at for values seen in one world only.
_MOST_PAIRS = 66
# Parts of an output that are looked at by themselves or left out, outputs that order them, and
# sets of parts that are tried.
_SHRUNK, _GLANCED, _TRIES = 64, 5_000, 48
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
    bold: ExclusiveRule | DecisionRule | None
    drawn: int
    size: int


@dataclass(frozen=True, slots=True)
class SelectionSplit:
    """Outputs of each world, each (n, *shape), all of one kind."""

    outputs: tuple[NDArray[Any], ...]
    fields: Fields | None = None

    @classmethod
    def drawn(cls, worlds: Worlds, size: int, rng: np.random.Generator) -> SelectionSplit:
        """``size`` outputs of each world, fewer of wide ones; else UnevenOutputs."""
        streams, numbers = rng.spawn(len(worlds.names)), range(len(worlds.names))
        parts: list[list[NDArray[Any]]] = [[] for _ in numbers]
        # Worlds whose runs may be in any order are drawn together, others one after the other.
        for together in [[*numbers]] if worlds.mixed else [[world] for world in numbers]:
            mine = [streams[world] for world in together]
            for world, part in worlds.drawn(dict.fromkeys(together, size), mine):
                parts[world].append(part)
                entries = max(1, part[0].size) * len(worlds.names)
                size = min(size, max(2, MOST_ENTRIES // entries))
                if all(sum(map(len, parts[each])) >= size for each in together):
                    break
        drawn = [np.concatenate(pieces)[:size] for pieces in parts]
        shapes = sorted({outputs.shape[1:] for outputs in drawn})
        if len(shapes) != 1:
            raise UnevenOutputs(
                f"Expected outputs of one shape, got {shapes}. "
                "Return the same shape for every input."
            )
        if any(outputs.dtype.kind == "U" for outputs in drawn):
            drawn = [o if o.dtype.kind == "U" else o.astype(str) for o in drawn]
        return cls(tuple(outputs[:size] for outputs in drawn), worlds.fields)

    @property
    def size(self) -> int:
        """Outputs of each world."""
        return len(self.outputs[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output."""
        return self.outputs[0].shape[1:]

    @property
    def names(self) -> EntryNames:
        """What the entries of an output are called."""
        return EntryNames(self.shape, self.fields)

    def select(self, budget: SampleBudget, worlds: Worlds, rng: np.random.Generator) -> Selection:
        """Two of the worlds, the rule of ``choose``, and a bold one.

        The bold one guesses on values seen in one of the worlds only, or is the one of which most
        is expected where no luck is taken off. ``RARE`` of the error of ``budget`` is for it, the
        rest for the former. The worlds are those of the rule of which more is expected. Where rules
        compete, fresh draws decide.
        """
        common = replace(budget, alpha=(1.0 - RARE) * budget.alpha)
        rare = replace(budget, alpha=RARE * budget.alpha)
        fresh, size, drawn = min(self.size, budget.draws // 2 // _SHARE), 0, 0
        judged = fresh >= _FEWEST_TO_JUDGE
        contenders = self._contenders(common, several=judged)
        best, lucky = simplest_best(contenders), contenders
        if len(contenders) > 1 and judged:
            size, validation = fresh, RuleValidation(worlds, fresh, self.shape, rng)
            (sober, lucky), drawn = validation.judged(
                contenders, common, replace(rare, caution=0.0)
            )
            best = simplest_best(sober)
        expected = best.expected if best else 0.0
        a, b = best[:2] if best else (0, 1)
        pairs = list(itertools.combinations(range(len(self.outputs)), 2))
        tried = pairs if len(pairs) <= _MOST_PAIRS else [(a, b)]
        found = exclusive_rules(self.outputs, tried, rare, self.names)
        only = max(found.values(), key=lambda each: each.expected, default=None)
        if only is not None and only.expected > expected and (only.a, only.b) != (a, b):
            a, b = only.a, only.b
            best = replace(self, outputs=(self.outputs[a], self.outputs[b])).choose(common)
        only = found.get((a, b))
        rule = best.rule if best else None
        bold: ExclusiveRule | DecisionRule | None = only.rule if only else None
        bolder = max(
            (each for each in lucky if size and (each.a, each.b) == (a, b)),
            key=lambda each: each.expected,
            default=None,
        )
        least = max(best.expected if best else 0.0, only.expected if only else 0.0)
        if bolder is not None and bolder.rule is not rule and bolder.expected > least:
            bold = bolder.rule
        return Selection(a, b, rule, bold, drawn, size)

    def choose(self, budget: SampleBudget) -> Contender | None:
        """The rule with the largest expected bound by this split alone; None if no rule shows any.

        Where caution sees nothing in any rule, less is asked, and at last any rule will do: fresh
        draws will tell, and a weak leak is not missed because the split is small.
        """
        return simplest_best(self._contenders(budget))

    def _contenders(self, budget: SampleBudget, *, several: bool = False) -> list[Contender]:
        """The few rules of which most is expected, simpler ones first.

        One a statistic, or ``several``, for fresh draws to judge.
        """
        statistics = self._statistics()
        pairs = self._pairs(statistics, budget)
        trusting = replace(budget, caution=0.0)
        found: list[Contender] = []
        last = replace(trusting, alpha=_EVEN)
        for attempt, least in ((budget, 0.0), (trusting, 0.0), (last, -np.inf)):
            found = [
                Contender(a, b, expected, rule)
                for a, b in pairs
                for rules in self._closely(a, b, statistics, attempt)
                for expected, rule in rules[: None if several else 1]
                if expected > least
            ]
            if found:
                break
        distinct: dict[tuple[int, int, float], Contender] = {}
        for each in found:  # of rules that saw the same, the first
            distinct.setdefault((each.a, each.b, each.expected), each)
        found = list(distinct.values())
        likely = sorted(range(len(found)), key=lambda i: -found[i].expected)[:_CONTENDERS]
        kept = [found[i] for i in sorted(likely)]
        best = simplest_best(kept)
        if best is not None and best.rule.statistic.plain and best.expected > 0:
            simpler = self._simplified(best, trusting)
            kept = kept if simpler is best.rule else [best._replace(rule=simpler), *kept]
        return kept

    def _rules(
        self, statistic: Statistic, a: int, b: int, budget: SampleBudget
    ) -> list[tuple[float, DecisionRule]]:
        """Rules on a statistic for two worlds, the best first; see ``candidate_rules``."""
        return candidate_rules(
            statistic, statistic.of(self.outputs[a]), statistic.of(self.outputs[b]), budget
        )

    def _simplified(self, choice: Contender, bold: SampleBudget) -> DecisionRule:
        """The same kind of rule on fewer parts of an output, which may show as much.

        Parts are left out, many at once and then one by one, as long as a rule on those kept may
        show as much for all we know: no luck is taken off its expected bound, as it was off the
        other's, so that their difference is within the split's own error.
        """
        a, b, best, rule = choice
        if not isinstance(rule.statistic, Outcome):
            return rule
        parts = list(rule.statistic.parts or self.names.parts)
        words = self.outputs[0].dtype.kind in "US"
        tries = 0 if words or len(parts) > _SHRUNK else _TRIES
        both = np.concatenate([self.outputs[a], self.outputs[b]])
        step = len(parts) // 2
        while step:
            start = 0
            while start < len(parts) and len(parts) > step and tries:
                kept, tries = parts[:start] + parts[start + step :], tries - 1
                fewer = Outcome.seen(both, len(both), tuple(kept), self.names)
                if fewer is not None:
                    rules = self._rules(fewer, a, b, bold)
                    if rules and rules[0][0] >= best * (1.0 - SIMPLER):
                        rule, parts = rules[0][1], kept
                        continue
                start += step
            step //= 2
        return rule

    def _statistics(self) -> list[Statistic]:
        """What needs no pair: which outcome it is where they are few, else numbers and sums."""
        sample = np.concatenate(self.outputs)
        kind, width = sample.dtype.kind, sample[0].size
        if width == 0:
            return []
        if kind in "US":
            return self._names(sample)
        most = min(_MOST_OUTCOMES, len(sample) // _REPEATS)
        if self.fields is not None:
            return self._of_fields(sample, most)
        outcome = Outcome.seen(sample, most) if kind != "f" or width > 1 else None
        if outcome is not None and len(outcome.keys) <= _ALL:
            return [outcome]
        numbers = plain_numbers(width)
        if width == 1:
            numbers += [place_in_period(as_floats(sample)[:, 0])]
            numbers += bits(sample) if kind in "iu" else []
        return [outcome, *numbers] if outcome is not None else [*numbers]

    def _of_fields(self, sample: NDArray[Any], most: int) -> list[Statistic]:
        """What each field is, of those of few values that vary, and what all of these are."""
        found = [Outcome.seen(sample, most, (part,), self.names) for part in self.names.parts]
        few = [outcome for outcome in found if outcome is not None and len(outcome.keys) > 1]
        parts = tuple(part for outcome in few for part in outcome.parts)
        together = Outcome.seen(sample, most, parts, self.names) if len(parts) > 1 else None
        return [*few, together] if together is not None else [*few]

    def _learns(self, statistics: list[Statistic]) -> bool:
        """Whether outputs are vectors of numbers, of more than a few outcomes."""
        told = len(statistics) == 1 and self.fields is None
        return self.outputs[0].dtype.kind not in "US" and prod(self.shape) > 1 and not told

    def _names(self, sample: NDArray[Any]) -> list[Statistic]:
        """Which string one entry is, and which string it is, or which strings."""
        width = sample[0].size
        several = self.names.parts[:_ALL] if width > 1 else ()
        seen = [Outcome.seen(sample, len(sample), (part,), self.names) for part in several]
        seen.append(Outcome.seen(sample, len(sample)))
        return [outcome for outcome in seen if outcome is not None]

    @property
    def _in_parts(self) -> bool:
        """Whether outputs are vectors of numbers whose entries are looked at by themselves."""
        numbers = self.outputs[0].dtype.kind not in "US"
        return numbers and prod(self.shape) > 1 and self.fields is None

    def _few_parts(self, a: int, b: int, budget: SampleBudget) -> Iterator[Outcome]:
        """Which values the parts show that differ most between two worlds: one, two, four, eight.

        The order is that of the bound to expect at a glance at some of the outputs.
        """
        one, other = (self.outputs[world] for world in (a, b))
        some = one[:_GLANCED], other[:_GLANCED]
        both = np.concatenate(some)
        strength = []
        for part in self.names.parts[:_SHRUNK]:
            values = Outcome.seen(both, _ALL, (part,), self.names)
            if values is not None and len(values.keys) > 1:
                counts = [histogram(values.of(each), values.cuts).astype(float) for each in some]
                strength.append((expected_at_a_glance(counts[0], counts[1], budget), part))
        strength.sort(key=lambda found: -found[0])
        for count in (1, 2, 4, 8):
            parts = tuple(part for _, part in strength[:count])
            if count > len(strength) or count == len(self.names.parts):
                break
            most = min(_MOST_OUTCOMES, self.size // _REPEATS)
            found = Outcome.seen(np.concatenate([one, other]), most, parts, self.names)
            if found is not None:
                yield found

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
    ) -> Iterator[list[tuple[float, DecisionRule]]]:
        simple = self._few_parts(a, b, budget) if self._in_parts else ()
        for statistic in itertools.chain(simple, statistics):
            yield self._rules(statistic, a, b, budget)
        if self._learns(statistics):
            learning = self.size // _LEARNING
            one, other = self.outputs[a], self.outputs[b]
            for score in learned_scores(
                as_floats(one[:learning]), as_floats(other[:learning]), self.names
            ):
                yield candidate_rules(
                    score, score.of(one[learning:]), score.of(other[learning:]), budget
                )
