"""Selects two inputs (worlds) and rules that guess between them, on outputs set aside for this."""

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
from fedrec_auditor.auditor.worlds import decision_rules
from fedrec_auditor.auditor.worlds.decision_rules import CandidateRule, DecisionRule, RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators.base import DrawPlan
from fedrec_auditor.auditor.worlds.exclusive_values import ExclusiveRule, find_exclusive_rules
from fedrec_auditor.auditor.worlds.fields import OutputEncoder
from fedrec_auditor.auditor.worlds.guesses import GuessCounts
from fedrec_auditor.auditor.worlds.statistics import (
    EntryNamer,
    OutcomeIndex,
    Statistic,
    as_floats,
    count_in_intervals,
    learn_scores,
    make_bit_scores,
    make_cuts,
    make_modulo_score,
    make_predefined_scores,
)
from fedrec_auditor.auditor.worlds.worlds import OutputShapeError, Worlds

# Maximum number of outputs per world that the selection uses.
MAX_SELECTION_SIZE = 200_000
_MIN_SELECTION_SIZE, _SHARE = 2_000, 10


def plan_selection_size(samples: int) -> int:
    """Returns how many of ``samples`` draws per input are set aside to select a decision rule."""
    return min(samples // 2, max(_MIN_SELECTION_SIZE, samples // _SHARE), MAX_SELECTION_SIZE)


def draw_outputs(
    worlds: Worlds,
    sizes: Sequence[int],
    rng: np.random.Generator,
    max_entries: int = 1 << 60,
    read: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> list[NDArray[Any]]:
    """Draws outputs of each input (world), and returns one array (n, *shape) per world.

    sizes: number of outputs to draw from each world.
    max_entries: maximum number of array entries, over all worlds. If ``sizes`` need more entries,
        fewer outputs are drawn, but at least two per world.
    read: function that converts each block of outputs.
    """
    streams, numbers = rng.spawn(len(sizes)), range(len(sizes))
    parts: list[list[NDArray[Any]]] = [[] for _ in numbers]
    size = max(sizes)
    # The worlds are drawn one after another, or in random order by ``worlds.draw_in_order``.
    for together in [[*numbers]] if worlds.draw_in_order else [[world] for world in numbers]:
        wanted = {world: min(sizes[world], size) for world in together}
        for world, block in worlds.draw_blocks(wanted, [streams[each] for each in together]):
            parts[world].append(read(block))
            size = min(size, max(2, max_entries // (max(1, block[0].size) * len(sizes))))
            if all(sum(map(len, parts[w])) >= min(sizes[w], size) for w in together):
                break
    return [np.concatenate(part)[: min(n, size)] for part, n in zip(parts, sizes, strict=True)]


def draw_scores(
    worlds: Worlds, sizes: Sequence[int], rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Draws one score (number) per output of each input (world), (n,) each, in no particular order.

    ``sizes``: number of outputs per world. Raises InputError if an output is text or an array.
    """
    if worlds.stored_outputs is not None and [*map(len, worlds.stored_outputs)] == [*sizes]:
        return [_as_scores(side) for side in worlds.stored_outputs]
    return draw_outputs(worlds, sizes, rng, read=_as_scores)


def _as_scores(outputs: NDArray[Any]) -> NDArray[np.float64]:
    if outputs.ndim > 1 or outputs.dtype.kind in "US":
        raise InputError(
            f"Expected one number per output, got outputs of type {outputs.dtype} and "
            f"shape {outputs.shape[1:]}. Use the estimator joint-binomial, which accepts these."
        )
    return outputs.astype(np.float64, copy=False)


# Maximum number of array entries that a selection split keeps, in all worlds together.
MAX_SELECTION_ENTRIES = 1 << 24
# Share of the bound's error for the second rule; see ``SelectionDraws.select_rules``.
SECOND_RULE_ALPHA_SHARE = 0.1
# Maximum number of distinct outputs that a statistic lists, and minimum number of draws for each.
_MAX_OUTCOMES = 4096
_REPEATS = 8
# With at most this many distinct outputs, no other statistic is tried. If outputs are arrays of
# strings, this many entries are statistics by themselves.
_ALL = 16
# Maximum number of pairs of worlds for which rules are made, chosen by a rough estimate.
_CLOSELY = 4
# Maximum number of candidate rules that fresh draws compare. The comparison takes one in `_JUDGING`
# of the remaining draws; fewer than `_FEWEST_TO_JUDGE` would decide no better than the split.
_CANDIDATES, _JUDGING, _FEWEST_TO_JUDGE = 16, 10, 4_000
# Maximum number of pairs of worlds for which all pairs are searched for values of one world only.
_MAX_PAIRS = 66
# Maximum number of parts of an output that are examined separately, of outputs that decide the
# order of parts, and of sets of parts that are tried.
_SHRUNK, _GLANCED, _TRIES = 64, 5_000, 48
# One in this many outputs of the split trains scores; the remaining ones choose among the scores.
_LEARNING = 2
# The error at which the normal quantile is 0, so that nothing is subtracted for chance.
_EVEN = 0.5
# A rule on values of entries is preferred if its predicted bound is smaller by this share at most.
_CLOSE = 0.05


_Candidate = CandidateRule[DecisionRule]
# A rule that guesses from which of two worlds an output comes, or abstains.
Guesser = DecisionRule | ExclusiveRule


class SelectedRules(NamedTuple):
    """Two inputs (worlds) and the decision rules that were selected to guess between them.

    world_pair: indices of the two worlds.
    rules_and_error_shares: each rule, with its share of the test's error (1 - confidence).
    n_outputs_per_world: number of outputs that the selection used per world of the pair.
    n_outputs_total: number of outputs that the selection used from all worlds.
    output_shape: shape of one output.
    """

    world_pair: tuple[int, int]
    rules_and_error_shares: tuple[tuple[Guesser, float], ...]
    n_outputs_per_world: int
    n_outputs_total: int
    output_shape: tuple[int, ...]

    def count_draws_left(self, worlds: Worlds, samples: int) -> list[int]:
        """Returns how many draws of each of the two selected inputs remain after the selection.

        ``samples``: number of draws per input (world); ignored if outputs are stored.
        """
        sizes = worlds.count_outputs(samples)
        return [sizes[world] - self.n_outputs_per_world for world in self.world_pair]

    def count_guesses(
        self, worlds: Worlds, sizes: Sequence[int], streams: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """Counts how often each rule guesses each of the two selected inputs (worlds), on fresh
        outputs.

        worlds: the inputs and functions that draw their outputs.
        sizes: number of outputs of each of the two worlds.
        streams: one random generator per world.

        Returns the counts as an array (rules, true world, guessed world).
        """
        rules = [(*self.world_pair, rule) for rule, _ in self.rules_and_error_shares]
        fresh = dict(zip(self.world_pair, sizes, strict=True))
        return count_guesses(worlds, rules, fresh, streams, self.output_shape)


def select_rules(
    worlds: Worlds,
    request: DrawPlan,
    rng: np.random.Generator,
    comparison_rng: np.random.Generator | None = None,
) -> SelectedRules:
    """Draws some outputs of each input (world) and selects rules that guess the input of an output.

    The rules have to be tested on other outputs.

    worlds: the inputs and functions that draw their outputs.
    request: number of draws per world for selection and test together; delta and error (1 -
        confidence) of the test.
    rng: random generator of the draws that select the rules.
    comparison_rng: random generator of further draws that compare candidate rules. Up to two rules
        are then selected. If None, one rule is selected without this comparison.
    """
    sizes = worlds.count_outputs(request.samples)
    split = SelectionDraws.draw(worlds, plan_selection_size(min(sizes)), rng)
    draws = 2 * (min(sizes) - split.n_outputs)
    plan = RuleTestPlan(n_draws=draws, delta=request.delta, alpha=request.alpha)
    if comparison_rng is not None:
        return split.select_rules(plan, worlds, comparison_rng)
    best = split.choose_rule(plan)
    return split.combine_rules(best[:2] if best else (0, 1), ((best, 1.0),))


@dataclass(frozen=True, slots=True)
class SelectionDraws:
    """Outputs of each world (input) that are set aside to select decision rules.

    outputs: outputs of each world, (n, *shape) each, all of one type.
    encoder: encoder that made the outputs; None if they were not encoded.
    """

    outputs: tuple[NDArray[Any], ...]
    encoder: OutputEncoder | None = None

    @classmethod
    def draw(cls, worlds: Worlds, size: int, rng: np.random.Generator) -> SelectionDraws:
        """Draws ``size`` outputs of each world (input), or fewer if outputs are wide.

        Raises OutputShapeError if the shape of an output depends on the world.
        """
        parts = draw_outputs(worlds, (size,) * len(worlds.names), rng, MAX_SELECTION_ENTRIES)
        shapes = sorted({outputs.shape[1:] for outputs in parts})
        if len(shapes) != 1:
            raise OutputShapeError(
                f"Expected outputs of one shape for all inputs, got the shapes {shapes}. "
                "Return the same shape for every input."
            )
        if any(outputs.dtype.kind == "U" for outputs in parts):
            parts = [o if o.dtype.kind == "U" else o.astype(str) for o in parts]
        return cls(tuple(parts), worlds.encoder)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of each world (input)."""
        return len(self.outputs[0])

    @property
    def namer(self) -> EntryNamer:
        """Namer of the entries of an output, such as "output[2]", for descriptions of rules."""
        return EntryNamer(self.outputs[0].shape[1:], self.encoder)

    @property
    def world_pairs(self) -> list[tuple[int, int]]:
        """All pairs of worlds (inputs), as pairs of indices."""
        return list(itertools.combinations(range(len(self.outputs)), 2))

    def combine_rules(
        self,
        pair: tuple[int, int],
        shares: Sequence[tuple[CandidateRule[Guesser] | None, float]],
        n_fresh: int = 0,
        n_worlds: int = 0,
    ) -> SelectedRules:
        """Combines the rules that were selected for two inputs (worlds) in one object.

        pair: indices of the two worlds.
        shares: each rule with its share of the test's error (1 - confidence). Pairs without a rule
            (None) are left out.
        n_fresh: number of fresh outputs per world that compared candidate rules.
        n_worlds: number of worlds from which these fresh outputs were drawn.
        """
        rules = tuple((each.rule, share) for each, share in shares if each)
        drawn = self.n_outputs * len(self.outputs) + n_fresh * n_worlds
        return SelectedRules(pair, rules, self.n_outputs + n_fresh, drawn, self.namer.output_shape)

    def select_rules(
        self, plan: RuleTestPlan, worlds: Worlds, rng: np.random.Generator
    ) -> SelectedRules:
        """Selects up to two decision rules for one pair of worlds, and divides the test's error
        between them.

        plan: number of draws, delta and error (1 - confidence) of the later test of the rules.
        worlds: the inputs, from which fresh outputs are drawn to compare candidate rules.
        rng: random generator of these fresh outputs.

        - The first rule has the largest predicted bound, and gets 90% of the error.
        - The second rule gets 10% of the error (``SECOND_RULE_ALPHA_SHARE``). This rule guesses
          only at values that occurred in only one world of the pair. A candidate with a larger
          predicted bound may replace the second rule.
        """
        common = replace(plan, alpha=(1.0 - SECOND_RULE_ALPHA_SHARE) * plan.alpha)
        rare = replace(plan, alpha=SECOND_RULE_ALPHA_SHARE * plan.alpha)
        size, compared = min(self.n_outputs, plan.n_draws // 2 // _JUDGING), list[int]()
        several = size >= _FEWEST_TO_JUDGE
        candidates, lucky = self._list_candidates(common, several=several), list[_Candidate]()
        # If there are enough draws, fresh draws compare the candidates.
        if several and len(candidates) > 1:
            compared = sorted({world for candidate in candidates for world in candidate[:2]})
            rules = [(a, b, rule) for a, b, _, rule in candidates]
            fresh, streams = dict.fromkeys(compared, size), rng.spawn(len(compared))
            tables = count_guesses(worlds, rules, fresh, streams, self.namer.output_shape)
            lucky = reassess_candidates(candidates, tables, size, replace(rare, margin=0.0))
            candidates = reassess_candidates(candidates, tables, size, common)
        best = choose_simplest_rule(candidates)
        pair = best[:2] if best else (0, 1)
        tried = self.world_pairs if len(self.world_pairs) <= _MAX_PAIRS else [pair]
        exclusive = find_exclusive_rules(self.outputs, tried, rare, self.namer)
        only = max(exclusive.values(), key=_get_bound, default=None)
        if only and only.expected_bound > _get_bound(best) and only[:2] != pair:
            pair = only[:2]
            outputs = tuple(self.outputs[each] for each in pair)
            best = replace(self, outputs=outputs).choose_rule(common)
        bold: CandidateRule[Guesser] | None = exclusive.get(pair)
        # Another candidate replaces the second rule if its bound, predicted from fresh draws
        # without a margin for chance (``RuleTestPlan.margin``), exceeds the predicted bounds of
        # both rules, and the bound of the first rule without a margin by more than 1%.
        rivals = sorted(lucky, key=lambda each: best is None or each.rule is not best.rule)
        bolder = decision_rules.choose_best_rule(each for each in rivals if each[:2] == pair)
        if bolder and bolder.expected_bound > max(_get_bound(best), _get_bound(bold)):
            bold = bold if best and bolder.rule is best.rule else bolder
        shares = (best, 1.0 - SECOND_RULE_ALPHA_SHARE), (bold, SECOND_RULE_ALPHA_SHARE)
        return self.combine_rules(pair, shares, size if compared else 0, len(compared))

    def choose_rule(self, plan: RuleTestPlan) -> _Candidate | None:
        """Returns the rule with the largest predicted lower bound on epsilon; None if no rule is
        found.

        ``plan``: settings of the later test on fresh draws, for which the bound is predicted.

        The predicted bound may be 0 or negative, if few draws show no leak.
        """
        # Any choice leaves the measured bound valid, because the rule is tested on fresh draws.
        return choose_simplest_rule(self._list_candidates(plan))

    def _list_candidates(self, plan: RuleTestPlan, *, several: bool = False) -> list[_Candidate]:
        """Returns the few rules with the largest predicted lower bounds on epsilon, simpler rules
        first.

        There is one rule per statistic, or several if ``several`` is true.
        """
        statistics = self._list_statistics()
        pairs = self._choose_pairs(statistics, plan)
        trusting = replace(plan, margin=0.0)

        def distinct(attempt: RuleTestPlan, minimum: float) -> list[_Candidate]:
            """Rules with a predicted bound above ``minimum``, without repeated pairs and bounds."""
            rules = (
                CandidateRule(a, b, expected, rule)
                for a, b in pairs
                for statistic, one, other in self._iter_values(a, b, statistics, attempt)
                for expected, rule in decision_rules.propose_rules(statistic, one, other, attempt)[
                    : None if several else 1
                ]
            )
            first_of: dict[tuple[int, int, float], _Candidate] = {}
            for each in rules:
                if each.expected_bound > minimum:
                    first_of.setdefault(each[:3], each)
            return list(first_of.values())

        rules = (
            # Predicted bounds are lowered by a margin for chance. If no bound is positive then,
            # bounds are predicted without the margin, and at last at confidence 1/2. So a rule for
            # a weak leak is found although few outputs do not show the leak clearly.
            distinct(plan, 0.0)
            or distinct(trusting, 0.0)
            or distinct(replace(trusting, alpha=_EVEN), -np.inf)
        )
        likely = sorted(range(len(rules)), key=lambda i: -rules[i].expected_bound)[:_CANDIDATES]
        chosen = [rules[i] for i in sorted(likely)]
        best = choose_simplest_rule(chosen)
        if best is not None and best.rule.statistic.is_raw and best.expected_bound > 0:
            simpler = self._simplify(best, trusting)
            chosen = chosen if simpler is best.rule else [best._replace(rule=simpler), *chosen]
        return chosen

    def _simplify(self, choice: _Candidate, bold: RuleTestPlan) -> DecisionRule:
        """Returns the rule of ``choice``, or one on fewer parts of an output with a similar bound.

        A part is one entry, or the entries of one field. ``bold``: test plan without a margin for
        chance, by which the bound of the simpler rule is predicted.
        """
        a, b, best, rule = choice
        if not isinstance(rule.statistic, OutcomeIndex):
            return rule
        parts = list(rule.statistic.parts or self.namer.entries_by_part)
        words = self.outputs[0].dtype.kind in "US"
        tries = 0 if words or len(parts) > _SHRUNK else _TRIES
        first, second = self.outputs[a], self.outputs[b]
        both = np.concatenate([first, second])
        # Parts are omitted, many at once and then one by one. The bound of a simpler rule,
        # predicted without the margin, must reach the bound of ``choice``, which was predicted with
        # the margin.
        step = len(parts) // 2
        while step:
            start = 0
            while start < len(parts) and len(parts) > step and tries:
                fewer_parts, tries = parts[:start] + parts[start + step :], tries - 1
                fewer = OutcomeIndex.fit(both, len(both), tuple(fewer_parts), self.namer)
                if fewer is not None:
                    one, other = fewer.evaluate(first), fewer.evaluate(second)
                    rules = decision_rules.propose_rules(fewer, one, other, bold)
                    if rules and rules[0][0] >= best * (1.0 - decision_rules.MIN_BOUND_GAIN):
                        rule, parts = rules[0][1], fewer_parts
                        continue
                start += step
            step //= 2
        return rule

    def _list_statistics(self) -> list[Statistic]:
        """Returns the statistics (functions from outputs to numbers) that fit all pairs of worlds.

        The statistics depend on the kind of outputs:

        - strings: the index of each string, and of all strings together;
        - structured outputs: the index of the value of each field with few values, and of all these
          fields together;
        - at most 16 distinct outputs: the index of the output in their list;
        - other outputs: numbers such as sums, and the index if there are few distinct outputs.
        """
        sample = np.concatenate(self.outputs)
        kind, width, parts = sample.dtype.kind, sample[0].size, self.namer.entries_by_part

        def outcomes_of(max_outcomes: int, *some: tuple[int, ...]) -> list[OutcomeIndex]:
            outcome = OutcomeIndex.fit(sample, max_outcomes, some, self.namer if some else None)
            return [] if outcome is None else [outcome]

        if width == 0:
            return []
        if kind in "US":
            several = parts[:_ALL] if width > 1 else ()
            return [
                *itertools.chain.from_iterable(outcomes_of(len(sample), part) for part in several),
                *outcomes_of(len(sample)),
            ]
        max_outcomes = min(_MAX_OUTCOMES, len(sample) // _REPEATS)
        if self.encoder is not None:
            found = itertools.chain.from_iterable(outcomes_of(max_outcomes, part) for part in parts)
            few = [outcome for outcome in found if len(outcome.outcome_keys) > 1]
            varying = [part for outcome in few for part in outcome.parts]
            return [*few, *(outcomes_of(max_outcomes, *varying) if len(varying) > 1 else ())]
        whole = outcomes_of(max_outcomes) if kind != "f" or width > 1 else []
        if whole and len(whole[0].outcome_keys) <= _ALL:
            return [*whole]
        numbers = make_predefined_scores(width)
        if width == 1:
            numbers += [make_modulo_score(as_floats(sample)[:, 0])]
            numbers += make_bit_scores(sample) if kind in "iu" else []
        return [*whole, *numbers]

    @property
    def _has_vectors(self) -> bool:
        return self.outputs[0].dtype.kind not in "US" and prod(self.namer.output_shape) > 1

    def _can_learn(self, statistics: Sequence[Statistic]) -> bool:
        """Checks whether statistics are learned: if outputs are vectors of numbers, and not just a
        few distinct ones.
        """
        return self._has_vectors and not (len(statistics) == 1 and self.encoder is None)

    def _iter_values(
        self, a: int, b: int, statistics: Sequence[Statistic], plan: RuleTestPlan
    ) -> Iterator[tuple[Statistic, NDArray[Any], NDArray[Any]]]:
        """Yields statistics that may distinguish worlds ``a`` and ``b``, with their values in both.

        A statistic maps an output to a number; a world is one of the inputs.
        """
        first, second = self.outputs[a], self.outputs[b]
        few = self._index_parts(first, second, plan) if self._has_vectors else ()
        for statistic in itertools.chain(few, statistics):
            yield statistic, statistic.evaluate(first), statistic.evaluate(second)
        if self._can_learn(statistics):
            half = self.n_outputs // _LEARNING
            learning = as_floats(first[:half]), as_floats(second[:half])
            for score in learn_scores(*learning, self.namer):
                yield score, score.evaluate(first[half:]), score.evaluate(second[half:])

    def _index_parts(
        self, first: NDArray[Any], second: NDArray[Any], plan: RuleTestPlan
    ) -> Iterator[OutcomeIndex]:
        """Yields statistics: the joint values of the parts that differ most between two worlds
        (inputs).

        A part is one entry of an output. The statistics combine one, two, four and eight parts.
        """
        if self.encoder is not None:
            return
        # The difference of a part is a rough estimate of the predicted bound, on some outputs.
        some = first[:_GLANCED], second[:_GLANCED]
        both = np.concatenate(some)
        strength = []
        for part in self.namer.entries_by_part[:_SHRUNK]:
            values = OutcomeIndex.fit(both, _ALL, (part,), self.namer)
            if values is not None and len(values.outcome_keys) > 1:
                counts = [count_in_intervals(values.evaluate(each), values.cuts) for each in some]
                bound = decision_rules.estimate_epsilon(np.array(counts, float), plan)
                strength.append((bound, part))
        strength.sort(key=lambda outcome: -outcome[0])
        limit = min(_MAX_OUTCOMES, self.n_outputs // _REPEATS)
        for count in (1, 2, 4, 8):
            parts = tuple(part for _, part in strength[:count])
            if count > len(strength) or count == len(self.namer.entries_by_part):
                break
            outcome = OutcomeIndex.fit(np.concatenate([first, second]), limit, parts, self.namer)
            if outcome is not None:
                yield outcome

    def _choose_pairs(
        self, statistics: Sequence[Statistic], plan: RuleTestPlan
    ) -> list[tuple[int, int]]:
        """Returns the most promising pairs of worlds (inputs), as indices, by a rough estimate.

        For the estimate, the cuts of a statistic are equal in all pairs.
        """
        pairs = self.world_pairs
        if len(pairs) <= _CLOSELY:
            return pairs
        expected = np.zeros(len(pairs))
        plan = replace(plan, margin=plan.margin + np.sqrt(2 * np.log(len(pairs))))
        for statistic in statistics:
            values = [statistic.evaluate(outputs) for outputs in self.outputs]
            cuts = make_cuts(np.concatenate(values))
            counts = np.array([count_in_intervals(row, cuts) for row in values], float)
            glances = [decision_rules.estimate_epsilon(counts[[a, b]], plan) for a, b in pairs]
            expected = np.maximum(expected, glances)
        best = np.argsort(-expected, kind="stable")[:_CLOSELY].tolist()
        if self._can_learn(statistics):
            means = np.stack([as_floats(outputs).mean(axis=0) for outputs in self.outputs])
            spread = np.maximum(np.stack([as_floats(o).std(axis=0) for o in self.outputs]), 1e-12)
            ratios = [(means[a] - means[b]) / (spread[a] + spread[b]) for a, b in pairs]
            apart = [np.sum(ratio**2) for ratio in ratios]
            best += np.argsort(-np.array(apart), kind="stable")[:_CLOSELY].tolist()
        return [pairs[i] for i in dict.fromkeys(best)]


def reassess_candidates(
    candidates: Sequence[_Candidate], tables: NDArray[np.int64], size: int, plan: RuleTestPlan
) -> list[_Candidate]:
    """Returns copies of the candidate rules, with bounds that are predicted from fresh draws.

    candidates: the rules with their earlier predicted bounds.
    tables: counts of guesses on the fresh draws, (rules, true world, guessed world). The rules must
        not depend on these draws.
    size: number of fresh draws per world (input).
    plan: settings of the later test of the selected rule.
    """
    reassessed = []
    for each, table in zip(candidates, tables, strict=True):
        both = decision_rules.SECOND in each.rule.guessed_worlds
        bound = plan.predict_bound(table.trace(), table[::-1].trace(), 2 * size, both=both)
        reassessed.append(each._replace(expected_bound=float(bound)))
    return reassessed


def _get_bound(candidate: CandidateRule[Guesser] | None) -> float:
    return candidate.expected_bound if candidate else 0.0


def choose_simplest_rule(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """Returns the candidate rule with the largest predicted bound; simpler rules win near-ties.

    - Among bounds within 1% of each other, the first candidate wins.
    - A rule on a value that is read directly from the output (``is_raw``) wins if its bound is
      positive, and at most 5% below the largest bound.
    - None without candidates.
    """
    best = decision_rules.choose_best_rule(candidates)
    entries = [each for each in candidates if each.rule.statistic.is_raw]
    plain = decision_rules.choose_best_rule(entries)
    if best is None or plain is None:
        return best
    return plain if plain.expected_bound >= best.expected_bound * (1.0 - _CLOSE) > 0 else best


def count_guesses(
    worlds: Worlds,
    rules: Sequence[tuple[int, int, Guesser]],
    sizes: Mapping[int, int],
    streams: Sequence[np.random.Generator],
    shape: tuple[int, ...],
) -> NDArray[np.int64]:
    """Counts how often each rule guesses each of its two inputs (worlds).

    worlds: the inputs and functions that draw their outputs.
    rules: for each rule, the indices of its two worlds, and the rule itself.
    sizes: number of outputs to draw, by index of the world.
    streams: one random generator per world.
    shape: shape of one output.

    Returns the counts as an array (rules, true world, guessed world).
    """
    tables = np.zeros((len(rules), 2, 2), dtype=np.int64)
    for world, block in worlds.draw_blocks(sizes, streams, shape):
        for (a, b, rule), table in zip(rules, tables, strict=True):
            if world in (a, b):
                table[int(world == b)] += rule.count_guesses(block)
    return tables


def make_guess_witness(
    worlds: Worlds, pair: tuple[int, int], rule: Guesser, counts: GuessCounts, drawn: Sequence[int]
) -> Witness:
    """Makes the distinguishing event of a rule: the outputs for which the rule guesses one of two
    worlds.

    If the rule guesses both worlds, the guess with the larger ratio of right to wrong guesses
    counts.

    pair: indices of the two worlds (inputs).
    rule: the rule, which describes the event in words.
    counts: counts of right and wrong guesses.
    drawn: number of outputs drawn from each of the two worlds.
    """
    (right, wrong), side, (likely, unlikely), (n, m) = max(
        (
            (counts.first_world_counts, decision_rules.FIRST, pair, (drawn[0], drawn[1])),
            (counts.second_world_counts, decision_rules.SECOND, pair[::-1], (drawn[1], drawn[0])),
        ),
        key=lambda s: (s[1] in rule.guessed_worlds, (s[0][0] + 1) / (s[0][1] + 1)),
    )
    event = worlds.name_event
    note = f"{right} of {n} draws of input A and {wrong} of {m} draws of input B gave this output."
    if -side in rule.guessed_worlds:
        note += (
            f" The attack guesses input B if {event(rule.describe(-side))}. "
            f"In total, {counts.n_right} of {counts.n_right + counts.n_wrong} guesses are right."
        )
    chances = right / max(n, 1), wrong / max(m, 1)
    return worlds.make_witness((likely, unlikely), event(rule.describe(side)), chances, note)
