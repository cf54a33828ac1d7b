"""The draws that select what is tested: two worlds, and a rule that guesses between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Witness
from fedrec_auditor.auditor.worlds.decision_rules import (
    FIRST,
    SECOND,
    SIMPLER,
    Candidate,
    DecisionRule,
    SampleBudget,
    candidate_rules,
    expected_at_a_glance,
    first_best,
)
from fedrec_auditor.auditor.worlds.estimators.base import Request
from fedrec_auditor.auditor.worlds.exclusive_values import ExclusiveRule, exclusive_rules
from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.auditor.worlds.guesses import GuessCounts
from fedrec_auditor.auditor.worlds.statistics import (
    EntryNames,
    Outcome,
    Statistic,
    as_floats,
    bits,
    cuts_between,
    histogram,
    learned_scores,
    place_in_period,
    plain_numbers,
)
from fedrec_auditor.auditor.worlds.worlds import UnevenOutputs, Worlds

LARGEST_SPLIT = 200_000
"""Most outputs of each world that choose what is looked at in the others."""
_SMALLEST_SPLIT, _SHARE = 2_000, 10


def split_size(samples: int) -> int:
    """How many of ``samples`` draws of a world choose what is looked at in the others."""
    return min(samples // 2, max(_SMALLEST_SPLIT, samples // _SHARE), LARGEST_SPLIT)


def draw_outputs(
    worlds: Worlds,
    sizes: Sequence[int],
    rng: np.random.Generator,
    most: int = 1 << 60,
    read: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> list[NDArray[Any]]:
    """So many outputs of each world, fewer of wide ones: ``most`` entries of all, but two outputs.

    Worlds whose runs may be in any order are drawn together, others one after the other.
    """
    streams, numbers = rng.spawn(len(sizes)), range(len(sizes))
    parts: list[list[NDArray[Any]]] = [[] for _ in numbers]
    size = max(sizes)
    for together in [[*numbers]] if worlds.mixed else [[world] for world in numbers]:
        wanted = {world: min(sizes[world], size) for world in together}
        for world, block in worlds.drawn(wanted, [streams[each] for each in together]):
            parts[world].append(read(block))
            size = min(size, max(2, most // (max(1, block[0].size) * len(sizes))))
            if all(sum(map(len, parts[w])) >= min(sizes[w], size) for w in together):
                break
    return [
        np.concatenate(part)[: min(wanted, size)] for part, wanted in zip(parts, sizes, strict=True)
    ]


def draw_scores(
    worlds: Worlds, sizes: Sequence[int], rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """So many scores of every world, in no order; InputError for text and for arrays."""
    if worlds.stored is not None and [*map(len, worlds.stored)] == [*sizes]:
        return [_as_scores(side) for side in worlds.stored]
    return draw_outputs(worlds, sizes, rng, read=_as_scores)


def _as_scores(outputs: NDArray[Any]) -> NDArray[np.float64]:
    if outputs.ndim > 1 or outputs.dtype.kind in "US":
        raise InputError(
            f"Expected one number an output, got {outputs.dtype} of shape {outputs.shape[1:]}. "
            "Use the estimator joint-binomial, which learns what to look at."
        )
    return outputs.astype(np.float64, copy=False)


MOST_ENTRIES = 1 << 24
"""Most numbers kept of all worlds together."""
RARE = 0.1
"""The share of the error that is for values seen in one world only."""
# Outputs are told apart one by one if they are at most this many, and each comes often enough.
_MOST_OUTCOMES = 4096
_REPEATS = 8
# So few outcomes are told apart and nothing else is tried; so many entries of strings are named.
_ALL = 16
# Pairs of worlds that are looked at closely, of those that look best at a glance.
_CLOSELY = 4
# Rules that fresh draws choose from, one in so many of those to come; with fewer than so many they
# would decide no better than the split.
_CANDIDATES, _JUDGING, _FEWEST_TO_JUDGE = 16, 10, 4_000
# Pairs of worlds that are all looked at for values seen in one world only.
_MOST_PAIRS = 66
# Parts of an output that are looked at by themselves or left out, outputs that order them, and
# sets of parts that are tried.
_SHRUNK, _GLANCED, _TRIES = 64, 5_000, 48
# The share of the split on which scores are learned, its inverse; the rest chooses among them.
_LEARNING = 2
# The level at which the quantile of an expected bound is 0: no luck is taken off.
_EVEN = 0.5
# A rule in values of entries is taken if it is expected to show so little less than another one.
_CLOSE = 0.05


_Cut = Candidate[DecisionRule]
Guesser = DecisionRule | ExclusiveRule
"""A rule that guesses the world of an output, or abstains."""


class Selection(NamedTuple):
    """Two worlds, and rules that guess between them, each with its share of the error.

    ``spent`` outputs of either, ``drawn`` of all worlds, chose them; one has this ``shape``.
    """

    pair: tuple[int, int]
    rules: tuple[tuple[Guesser, float], ...]
    spent: int
    drawn: int
    shape: tuple[int, ...]

    def left(self, worlds: Worlds, samples: int) -> list[int]:
        """How many outputs of the two worlds chose nothing, of so many ``samples`` of each."""
        sizes = worlds.sizes(samples)
        return [sizes[world] - self.spent for world in self.pair]

    def guesses(
        self, worlds: Worlds, sizes: Sequence[int], streams: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """Guesses of each rule on so many fresh outputs of the two worlds: ``count_guesses``."""
        rules = [(*self.pair, rule) for rule, _ in self.rules]
        fresh = dict(zip(self.pair, sizes, strict=True))
        return count_guesses(worlds, rules, fresh, streams, self.shape)


def select_rules(
    worlds: Worlds,
    asked: Request,
    rng: np.random.Generator,
    judging: np.random.Generator | None = None,
) -> Selection:
    """The rule of ``choose`` that a split of each world's outputs selects for those that are left.

    With ``judging``, a generator of draws that judge them, the rules of ``select``.
    """
    sizes = worlds.sizes(asked.samples)
    split = SelectionSplit.draw(worlds, split_size(min(sizes)), rng)
    draws = 2 * (min(sizes) - split.size)
    budget = SampleBudget(draws=draws, delta=asked.delta, alpha=asked.alpha)
    if judging is not None:
        return split.select(budget, worlds, judging)
    best = split.choose(budget)
    return split.selection(best[:2] if best else (0, 1), ((best, 1.0),))


@dataclass(frozen=True, slots=True)
class SelectionSplit:
    """Outputs of each world, each (n, *shape), all of one kind."""

    outputs: tuple[NDArray[Any], ...]
    fields: Fields | None = None

    @classmethod
    def draw(cls, worlds: Worlds, size: int, rng: np.random.Generator) -> SelectionSplit:
        """``size`` outputs of each world, fewer of wide ones; else UnevenOutputs."""
        parts = draw_outputs(worlds, (size,) * len(worlds.names), rng, MOST_ENTRIES)
        shapes = sorted({outputs.shape[1:] for outputs in parts})
        if len(shapes) != 1:
            raise UnevenOutputs(
                f"Expected outputs of one shape, got {shapes}. "
                "Return the same shape for every input."
            )
        if any(outputs.dtype.kind == "U" for outputs in parts):
            parts = [o if o.dtype.kind == "U" else o.astype(str) for o in parts]
        return cls(tuple(parts), worlds.fields)

    @property
    def size(self) -> int:
        """Outputs of each world."""
        return len(self.outputs[0])

    @property
    def names(self) -> EntryNames:
        """What the entries of an output are called."""
        return EntryNames(self.outputs[0].shape[1:], self.fields)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every two worlds."""
        return list(itertools.combinations(range(len(self.outputs)), 2))

    def selection(
        self,
        pair: tuple[int, int],
        shares: Sequence[tuple[Candidate[Guesser] | None, float]],
        judged: int = 0,
        worlds: int = 0,
    ) -> Selection:
        """The rules of candidates, those there are; ``judged`` outputs of some worlds chose too."""
        rules = tuple((each.rule, share) for each, share in shares if each)
        drawn = self.size * len(self.outputs) + judged * worlds
        return Selection(pair, rules, self.size + judged, drawn, self.names.shape)

    def select(self, budget: SampleBudget, worlds: Worlds, rng: np.random.Generator) -> Selection:
        """The rule of ``choose`` and a bold one, with their shares of the error.

        The bold one guesses on values seen in one of the worlds only, or is the one of which most
        is expected where no luck is taken off. ``RARE`` of the error of ``budget`` is for it, the
        rest for the former. The worlds are those of the rule of which more is expected. Where rules
        compete, fresh draws decide: of hundreds of cuts of dozens of statistics on one split, the
        one that looks best is often the luckiest.
        """
        common = replace(budget, alpha=(1.0 - RARE) * budget.alpha)
        rare = replace(budget, alpha=RARE * budget.alpha)
        size, compared = min(self.size, budget.draws // 2 // _JUDGING), list[int]()
        several = size >= _FEWEST_TO_JUDGE
        candidates, lucky = self._candidates(common, several=several), list[_Cut]()
        if several and len(candidates) > 1:
            compared = sorted({world for each in candidates for world in each[:2]})
            rules = [(a, b, rule) for a, b, _, rule in candidates]
            fresh, streams = dict.fromkeys(compared, size), rng.spawn(len(compared))
            tables = count_guesses(worlds, rules, fresh, streams, self.names.shape)
            lucky = judge(candidates, tables, size, replace(rare, caution=0.0))
            candidates = judge(candidates, tables, size, common)
        best = simplest_best(candidates)
        pair = best[:2] if best else (0, 1)
        tried = self.pairs if len(self.pairs) <= _MOST_PAIRS else [pair]
        exclusive = exclusive_rules(self.outputs, tried, rare, self.names)
        only = max(exclusive.values(), key=_expected, default=None)
        if only and only.expected > _expected(best) and only[:2] != pair:
            pair = only[:2]
            best = replace(self, outputs=tuple(self.outputs[each] for each in pair)).choose(common)
        bold: Candidate[Guesser] | None = exclusive.get(pair)
        bolder = max((each for each in lucky if each[:2] == pair), key=_expected, default=None)
        if bolder and bolder.expected > max(_expected(best), _expected(bold)):
            bold = bold if best and bolder.rule is best.rule else bolder
        judged = size if compared else 0
        return self.selection(pair, ((best, 1.0 - RARE), (bold, RARE)), judged, len(compared))

    def choose(self, budget: SampleBudget) -> _Cut | None:
        """The rule with the largest expected bound by this split alone; None if no rule shows any.

        Where caution sees nothing in any rule, less is asked, and at last any rule will do: fresh
        draws will tell, and a weak leak is not missed because the split is small.
        """
        return simplest_best(self._candidates(budget))

    def _candidates(self, budget: SampleBudget, *, several: bool = False) -> list[_Cut]:
        """The few rules of which most is expected, simpler ones first.

        One a statistic, or ``several``, for fresh draws to judge.
        """
        statistics = self._statistics()
        pairs = self._pairs(statistics, budget)
        trusting = replace(budget, caution=0.0)

        def distinct(attempt: SampleBudget, least: float) -> list[_Cut]:
            """Rules expected to show more than ``least``; of those that saw the same, the first."""
            rules = (
                Candidate(a, b, expected, rule)
                for a, b in pairs
                for statistic, one, other in self._values(a, b, statistics, attempt)
                for expected, rule in candidate_rules(statistic, one, other, attempt)[
                    : None if several else 1
                ]
            )
            kept: dict[tuple[int, int, float], _Cut] = {}
            for each in rules:
                if each.expected > least:
                    kept.setdefault(each[:3], each)
            return list(kept.values())

        found = (
            distinct(budget, 0.0)
            or distinct(trusting, 0.0)
            or distinct(replace(trusting, alpha=_EVEN), -np.inf)
        )
        likely = sorted(range(len(found)), key=lambda i: -found[i].expected)[:_CANDIDATES]
        kept = [found[i] for i in sorted(likely)]
        best = simplest_best(kept)
        if best is not None and best.rule.statistic.plain and best.expected > 0:
            simpler = self._simplified(best, trusting)
            kept = kept if simpler is best.rule else [best._replace(rule=simpler), *kept]
        return kept

    def _simplified(self, choice: _Cut, bold: SampleBudget) -> DecisionRule:
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
        one, other = self.outputs[a], self.outputs[b]
        both = np.concatenate([one, other])
        step = len(parts) // 2
        while step:
            start = 0
            while start < len(parts) and len(parts) > step and tries:
                kept, tries = parts[:start] + parts[start + step :], tries - 1
                fewer = Outcome.seen(both, len(both), tuple(kept), self.names)
                if fewer is not None:
                    rules = candidate_rules(fewer, fewer.of(one), fewer.of(other), bold)
                    if rules and rules[0][0] >= best * (1.0 - SIMPLER):
                        rule, parts = rules[0][1], kept
                        continue
                start += step
            step //= 2
        return rule

    def _statistics(self) -> list[Statistic]:
        """What needs no pair: which outcome it is where they are few, else numbers and sums.

        Of strings, which string an entry is, and which all are; of a structure, what each field of
        few values is that varies, and what all of these are.
        """
        sample = np.concatenate(self.outputs)
        kind, width, parts = sample.dtype.kind, sample[0].size, self.names.parts

        def seen(most: int, *some: tuple[int, ...]) -> list[Outcome]:
            outcome = Outcome.seen(sample, most, some, self.names if some else None)
            return [] if outcome is None else [outcome]

        if width == 0:
            return []
        if kind in "US":
            several = parts[:_ALL] if width > 1 else ()
            return [
                *itertools.chain.from_iterable(seen(len(sample), part) for part in several),
                *seen(len(sample)),
            ]
        most = min(_MOST_OUTCOMES, len(sample) // _REPEATS)
        if self.fields is not None:
            found = itertools.chain.from_iterable(seen(most, part) for part in parts)
            few = [outcome for outcome in found if len(outcome.keys) > 1]
            varying = [part for outcome in few for part in outcome.parts]
            return [*few, *(seen(most, *varying) if len(varying) > 1 else ())]
        whole = seen(most) if kind != "f" or width > 1 else []
        if whole and len(whole[0].keys) <= _ALL:
            return [*whole]
        numbers = plain_numbers(width)
        if width == 1:
            numbers += [place_in_period(as_floats(sample)[:, 0])]
            numbers += bits(sample) if kind in "iu" else []
        return [*whole, *numbers]

    @property
    def _numeric_vectors(self) -> bool:
        return self.outputs[0].dtype.kind not in "US" and prod(self.names.shape) > 1

    def _learns(self, statistics: Sequence[Statistic]) -> bool:
        """Whether outputs are vectors of numbers, of more than a few outcomes."""
        return self._numeric_vectors and not (len(statistics) == 1 and self.fields is None)

    def _values(
        self, a: int, b: int, statistics: Sequence[Statistic], budget: SampleBudget
    ) -> Iterator[tuple[Statistic, NDArray[Any], NDArray[Any]]]:
        """Statistics that may tell two worlds apart, each with its values in either."""
        one, other = self.outputs[a], self.outputs[b]
        few = self._few_parts(one, other, budget) if self._numeric_vectors else ()
        for statistic in itertools.chain(few, statistics):
            yield statistic, statistic.of(one), statistic.of(other)
        if self._learns(statistics):
            half = self.size // _LEARNING
            learning = as_floats(one[:half]), as_floats(other[:half])
            for score in learned_scores(*learning, self.names):
                yield score, score.of(one[half:]), score.of(other[half:])

    def _few_parts(
        self, one: NDArray[Any], other: NDArray[Any], budget: SampleBudget
    ) -> Iterator[Outcome]:
        """Which values the parts show that differ most between two worlds: one, two, four, eight.

        The order is that of the bound to expect at a glance at some of the outputs.
        """
        if self.fields is not None:
            return
        some = one[:_GLANCED], other[:_GLANCED]
        both = np.concatenate(some)
        strength = []
        for part in self.names.parts[:_SHRUNK]:
            values = Outcome.seen(both, _ALL, (part,), self.names)
            if values is not None and len(values.keys) > 1:
                counts = np.array([histogram(values.of(each), values.cuts) for each in some], float)
                strength.append((expected_at_a_glance(counts, budget), part))
        strength.sort(key=lambda found: -found[0])
        most = min(_MOST_OUTCOMES, self.size // _REPEATS)
        for count in (1, 2, 4, 8):
            parts = tuple(part for _, part in strength[:count])
            if count > len(strength) or count == len(self.names.parts):
                break
            found = Outcome.seen(np.concatenate([one, other]), most, parts, self.names)
            if found is not None:
                yield found

    def _pairs(
        self, statistics: Sequence[Statistic], budget: SampleBudget
    ) -> list[tuple[int, int]]:
        """The pairs that look best at a glance, on one set of cuts for all worlds."""
        pairs = self.pairs
        if len(pairs) <= _CLOSELY:
            return pairs
        expected = np.zeros(len(pairs))
        budget = replace(budget, caution=budget.caution + np.sqrt(2 * np.log(len(pairs))))
        for statistic in statistics:
            values = [statistic.of(outputs) for outputs in self.outputs]
            cuts = cuts_between(np.concatenate(values))
            counts = np.array([histogram(row, cuts) for row in values], float)
            glances = [expected_at_a_glance(counts[[a, b]], budget) for a, b in pairs]
            expected = np.maximum(expected, glances)
        best = np.argsort(-expected, kind="stable")[:_CLOSELY].tolist()
        if self._learns(statistics):
            means = np.stack([as_floats(outputs).mean(axis=0) for outputs in self.outputs])
            spread = np.maximum(np.stack([as_floats(o).std(axis=0) for o in self.outputs]), 1e-12)
            apart = [
                np.sum(((means[a] - means[b]) / (spread[a] + spread[b])) ** 2) for a, b in pairs
            ]
            best += np.argsort(-np.array(apart), kind="stable")[:_CLOSELY].tolist()
        return [pairs[i] for i in dict.fromkeys(best)]


def judge(
    candidates: Sequence[_Cut], tables: NDArray[np.int64], size: int, budget: SampleBudget
) -> list[_Cut]:
    """With the bounds to expect after fresh draws of which no rule was made, ``size`` a world.

    Their guesses on them are ``tables`` (rules, 2, 2) of worlds and the worlds guessed.
    """
    expected = [
        budget.expected_bound(
            table.trace(), table[::-1].trace(), 2 * size, both=SECOND in each.rule.sides
        )
        for each, table in zip(candidates, tables, strict=True)
    ]
    return [
        each._replace(expected=float(bound))
        for each, bound in zip(candidates, expected, strict=True)
    ]


def _expected(candidate: Candidate[Guesser] | None) -> float:
    return candidate.expected if candidate else 0.0


def simplest_best(candidates: Sequence[_Cut]) -> _Cut | None:
    """The one of which most is expected, an earlier one if that is about as much.

    One in values of entries is taken if it is expected to show so little less than another one.
    """
    best = first_best(candidates)
    plain = first_best(each for each in candidates if each.rule.statistic.plain)
    if best is None or plain is None:
        return best
    return plain if plain.expected >= best.expected * (1.0 - _CLOSE) > 0 else best


def count_guesses(
    worlds: Worlds,
    rules: Sequence[tuple[int, int, Guesser]],
    sizes: Mapping[int, int],
    streams: Sequence[np.random.Generator],
    shape: tuple[int, ...],
) -> NDArray[np.int64]:
    """Guesses of each of the rules between two worlds, (rules, world, world guessed).

    So many outputs of each world are drawn, in blocks, whose memory this is.
    """
    tables = np.zeros((len(rules), 2, 2), dtype=np.int64)
    for world, block in worlds.drawn(sizes, streams, shape):
        for (a, b, rule), table in zip(rules, tables, strict=True):
            if world in (a, b):
                table[int(world == b)] += rule.count(block)
    return tables


def guess_witness(
    worlds: Worlds, pair: tuple[int, int], rule: Guesser, found: GuessCounts, drawn: Sequence[int]
) -> Witness:
    """The side of a rule that was right more often; so many of either world were ``drawn``."""
    (right, wrong), side, (one, other), (n, m) = max(
        (
            (found.first, FIRST, pair, (drawn[0], drawn[1])),
            (found.second, SECOND, pair[::-1], (drawn[1], drawn[0])),
        ),
        key=lambda s: (s[1] in rule.sides, (s[0][0] + 1) / (s[0][1] + 1)),
    )
    note = f"shares seen: {right} of {n} draws against {wrong} of {m}"
    if -side in rule.sides:
        note += (
            f"; {worlds.names[other]} guessed on {rule.words(-side)} too, right {found.right} of "
            f"{found.right + found.wrong} times in all"
        )
    chances = right / max(n, 1), wrong / max(m, 1)
    return worlds.witness((one, other), worlds.said(rule.words(side)), chances, note)
