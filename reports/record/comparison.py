"""Compares the records of two audits: verdicts, epsilons, attack results, utility, and systems.

Only the following differences count as changes, so that noise does not count:

- Another verdict.
- Another epsilon, if the two audits' intervals (lower bound to upper bound) do not overlap.
- Another proved upper bound or calculated lower bound of epsilon, if it differs by more than a
  thousandth (the rounding of accountants).
- Another utility, or another attack result that beats guessing in one of the audits, if the
  confidence intervals do not overlap after each is widened for the number of compared results.

Directions of a change:

- A verdict is better only if the claim is now proved, because a refutation remains true.
- A larger bound is worse, a smaller upper bound is better, and a smaller lower bound is neither:
  the true epsilon may exceed it.
- Results of trainings with different seeds are neither better nor worse, because the intervals do
  not cover another seed.
"""

# A lower bound that is calculated and tight is also an upper bound. The bounds of an audit hold
# together at the confidence of its plan.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.accountants.verdict import (
    DEFAULT_GATE,
    EXIT_FOUND,
    INCOMPLETE,
    FailOn,
    Gate,
    Verdict,
    is_worse,
    refutes,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import (
    find_leaks,
    list_rows_with_baseline,
    widen_ci_high,
    widen_ci_low,
)
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding, UtilityRow, walk_leaves
from fedrec_auditor.reports.record.sections import group_by_system
from fedrec_auditor.reports.record.waivers import drop_waived
from fedrec_auditor.reports.say.metrics import format_value, widen_limits
from fedrec_auditor.reports.say.summary import summarize_systems

# Type of the rows that are compared, such as findings.
RowType = TypeVar("RowType")


class Trend(StrEnum):
    """Direction of a change between two audits.

    WORSE: the later audit shows less privacy.
    BETTER: the later audit shows more privacy.
    NEUTRAL: the change is neither worse nor better, and is for information only.
    """

    WORSE = "worse"
    BETTER = "better"
    NEUTRAL = "other"


class ChangedQuantity(StrEnum):
    """The quantity that changed between two audits, in the order of importance for a reader.

    VERDICT: verdict on a claim.
    EPSILON_SHOWN: lower bound of epsilon.
    ATTACK: result of an attack.
    EPSILON_PROVED: proved upper bound of epsilon.
    CLAIM: claimed epsilon.
    SYSTEM: presence of a system that only one of the two audits has.
    UTILITY: quality of recommendations.
    """

    VERDICT = "verdict"
    EPSILON_SHOWN = "epsilon shown"
    ATTACK = "attack"
    EPSILON_PROVED = "epsilon proved"
    CLAIM = "claim"
    SYSTEM = "system"
    UTILITY = "utility"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one system between two audits.

    trend: direction of the change: worse, better, or neither.
    subject: the quantity that changed.
    target: name of the system.
    words: sentence that describes the change, without the name of the system.
    before, now: values in the two audits; None without a value.
    """

    trend: Trend
    subject: ChangedQuantity
    target: str
    words: str
    before: float | str | None = None
    now: float | str | None = None

    @property
    def sentence(self) -> str:
        """Sentence that describes the change, with the name of the system."""
        return f"{self.target}: {self.words}"


def index_by_key(
    rows: Iterable[RowType], key: Callable[[RowType], Hashable]
) -> dict[tuple[Hashable, int], RowType]:
    """Returns a dictionary of the rows; an entry's key is (key of the row, n).

    The number n counts the earlier rows with an equal key, so that all entries differ.
    """
    counts: Counter[Hashable] = Counter()
    by_key = {}
    for row in rows:
        row_key = key(row)
        by_key[row_key, counts[row_key]] = row
        counts[row_key] += 1
    return by_key


def pair_by_key(
    now: Iterable[RowType], before: Iterable[RowType], key: Callable[[RowType], Hashable]
) -> list[tuple[RowType, RowType]]:
    """Pairs the rows of two audits that have equal keys; returns (row now, row before) pairs.

    ``key`` computes the key of a row. Several rows with one key are paired in their order.
    """
    old = index_by_key(before, key)
    return [(row, old[name]) for name, row in index_by_key(now, key).items() if name in old]


def make_pairing_key(finding: Finding) -> tuple[Hashable, ...]:
    """Makes the key by which findings (judged claims) of two audits are paired.

    The key has the system, the scope of the judgement, delta, game, a condition that no scope
    expresses (``outside_model``), and the scope of the claim.
    """
    judged = (finding.target, finding.scope, finding.delta, finding.game)
    return (*judged, finding.outside_model, finding.claim.scope)


def _list_differences(record: Contents, baseline: Contents) -> Iterator[str]:
    """Yields a sentence on each difference of the audits' data, plans and versions of packages."""
    now, was = record.provenance, baseline.provenance
    if now.data != was.data:
        both = (now.data, was.data)
        names = ["none" if each is None else f"{each.name} ({each.digest[:12]})" for each in both]
        yield f"The data differ: {names[0]}, was {names[1]}."
    plan, planned = (dict(walk_leaves(each.plan)) for each in (record, baseline))
    for each in (plan, planned):
        each.pop("targets", None)
    for what, new, old in (("plan", plan, planned), ("versions", now.versions, was.versions)):
        if entries := _describe_entries(new, old):
            yield f"Differences of the {what}: {entries}."


def _describe_entries(now: Mapping[str, Any], was: Mapping[str, Any]) -> str:
    """Returns a text with the entries that differ, and their earlier values."""
    # For lists, the text has the added and the removed items.
    texts = []
    for name in sorted({*now, *was}):
        new, old = (_simplify(part.get(name)) for part in (now, was))
        if isinstance(new, list) and isinstance(old, list):
            signs = [f"+{_format(x)}" for x in new if x not in old]
            signs += [f"-{_format(x)}" for x in old if x not in new]
            if signs or new != old:
                texts.append(f"{name} {' '.join(signs) or 'in another order'}")
        elif new != old:
            texts.append(f"{name} = {_format(now.get(name))}, was {_format(was.get(name))}")
    return "; ".join(texts)


def _simplify(value: Any) -> Any:
    """Converts a value for comparison: empty values and False to None, and a tuple to a list."""
    if value is None or value is False or value in ("", {}, [], ()):
        return None
    return list(value) if isinstance(value, tuple) else value


def _format(value: Any) -> str:
    if isinstance(value, Mapping) and value:
        entries = ((name, each) for name, each in value.items() if _simplify(each) is not None)
        return f"({', '.join(f'{name} {_format(each)}' for name, each in entries)})"
    if isinstance(value, list | tuple):
        return ", ".join(map(_format, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, {}) else str(value)


# Largest relative difference at which two calculated epsilons count as equal.
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class _Range:
    """Interval of an epsilon, between the bounds of one audit that hold without assumptions.

    lower, upper: lower and upper bound of epsilon; None if the audit has no such bound.
    """

    # A lower bound that exceeds the upper bound (by sampling noise) is lowered to the upper bound.

    lower: Bound | None
    upper: Bound | None

    @classmethod
    def from_finding(cls, finding: Finding) -> _Range:
        """Returns the interval of the epsilon of a finding."""
        shown, proof = finding.lower_bound, finding.accounted
        upper = proof if proof is not None and not proof.assumptions else None
        if shown is not None and upper is not None and _exceeds(shown, upper):
            shown = replace(shown, epsilon=upper.epsilon)
        if shown is not None and shown.tight and shown.confidence == 1.0:
            upper = shown if upper is None or shown.epsilon < upper.epsilon else upper
        return cls(shown, upper)

    @property
    def epsilon(self) -> float:
        """The epsilon of the lower bound; 0 if there is none."""
        return 0.0 if self.lower is None else self.lower.epsilon

    @property
    def is_calculated(self) -> bool:
        """Whether the lower bound is calculated instead of sampled; True without a lower bound."""
        return self.lower is None or self.lower.confidence == 1.0

    @property
    def words(self) -> str:
        """The epsilon of the lower bound in words, with its confidence if it is sampled.

        "not bounded" without a lower bound.
        """
        if self.lower is None:
            return "not bounded"
        sure = "" if self.is_calculated else f" ({say.describe_confidence(self.lower)})"
        return say.describe_lower_bound(self.epsilon) + sure


def _compare_epsilons(both: Sequence[tuple[Finding, Finding]]) -> Iterator[Change]:
    """Yields the changes of epsilon's bounds for each pair of findings (now, before)."""
    for now, old in both:
        yield from filter(None, (_compare_lower_bound(now, old), _compare_upper_bound(now, old)))


def _count_noisy_pairs(both: Sequence[tuple[Finding, Finding]]) -> int:
    """Counts the pairs whose sampled lower bounds differ by no more than noise explains."""
    return sum(
        not (after.is_calculated and was.is_calculated)
        and _is_different(after.epsilon, was.epsilon)
        and _compare_lower_bound(now, old) is None
        for now, old in both
        for after, was in [(_Range.from_finding(now), _Range.from_finding(old))]
    )


def _compare_lower_bound(now: Finding, old: Finding) -> Change | None:
    """Returns the change of the lower bound of epsilon; None without a change."""
    after, was = _Range.from_finding(now), _Range.from_finding(old)
    rose, fell = _exceeds(after.lower, was.upper), _exceeds(was.lower, after.upper)
    if after.is_calculated and was.is_calculated and _is_different(after.epsilon, was.epsilon):
        words = f"was {was.words}"
        rose |= bool(after.lower and was.lower) and after.epsilon > was.epsilon
    elif rose:
        words = f"while it was {_format_bound(was.upper)}"
    elif fell:
        words = f"and {_format_bound(after.upper)}, was {was.words}"
    else:
        return None
    trend = Trend.WORSE if rose else Trend.BETTER if fell else Trend.NEUTRAL
    words = f"the shown epsilon is {after.words}, {words}, for {say.describe_judged_scope(now)}."
    ends = (None if each.lower is None else each.epsilon for each in (was, after))
    return Change(trend, ChangedQuantity.EPSILON_SHOWN, now.target, words, *ends)


def _compare_upper_bound(now: Finding, old: Finding) -> Change | None:
    """Returns the change of the upper bound of epsilon at the findings' delta, or None."""
    after, was = (
        proof if proof is not None and proof.delta <= each.delta else None
        for each, proof in ((now, now.accounted), (old, old.accounted))
    )
    epsilon, before = (math.inf if proof is None else proof.epsilon for proof in (after, was))
    moved, if_then = _is_different(epsilon, before), say.describe_assumptions(was)
    if_now = say.describe_assumptions(after)
    if not moved and if_now == if_then:
        return None
    trend = (Trend.WORSE if epsilon > before else Trend.BETTER) if moved else Trend.NEUTRAL
    new_condition = if_now if if_now != if_then else ""
    texts = (_format_bound(after), new_condition, f"was {_format_bound(was)}", if_then)
    words = f"the proved epsilon is {say.join_texts(*texts)}, for {say.describe_judged_scope(now)}."
    return Change(trend, ChangedQuantity.EPSILON_PROVED, now.target, words, before, epsilon)


def _exceeds(shown: Bound | None, upper: Bound | None) -> bool:
    """Whether a lower bound refutes an upper bound by more than rounding; False if one is None."""
    if shown is None or upper is None:
        return False
    return refutes(shown, upper) and _is_different(shown.epsilon, upper.epsilon)


def _is_different(first: float, second: float) -> bool:
    return not math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-12)


def _format_bound(bound: Bound | None) -> str:
    if bound is None or math.isinf(bound.epsilon):
        return "not finite"
    return f"at most {say.format_ceil(bound.epsilon)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of the record of an audit with an earlier record, the baseline.

    changes: the changes, the worst first.
    differences: sentences on differences of plan, data and versions, which may cause ``changes``.
    incomparable: sentences on parts of the audits that cannot be compared.
    n_findings: number of findings (judged claims) that both records have.
    n_rows: number of attack results, comparable with guessing, that both records have.
    has_claims: whether at least one of the records has findings.
    is_complete: whether both audits were completed.
    unassessed: one line with a reason for each system whose severity was not assessed.
    newly_unassessed: one line with a reason for each system whose leak (knowledge that attacks
        gain) was assessed in the baseline, but is not now.
    """

    changes: tuple[Change, ...]
    differences: tuple[str, ...]
    incomparable: tuple[str, ...]
    n_findings: int
    n_rows: int
    has_claims: bool
    is_complete: bool
    unassessed: tuple[str, ...]
    newly_unassessed: tuple[str, ...]

    @classmethod
    def compare(cls, record: Contents, baseline: Contents, gate: Gate = DEFAULT_GATE) -> Comparison:
        """Compares the record of an audit with an earlier record, by the rules of this module.

        record: the later record.
        baseline: the earlier record.
        gate: the rule for failing CI, which also determines what counts as worse.

        These changes are worse:

        - A finding (judged claim) has a worse verdict.
        - A new finding is refuted, or fails ``gate``.
        - An epsilon has a larger lower or upper bound.
        - A leak (an attack result above guessing) has a confidence interval above the baseline's,
          and the seeds are equal.
        - A leak is new, and the gate is on leaks.

        With ``--fail-on never`` nothing is worse. Waived results are not compared.
        """
        record, baseline = drop_waived(record, gate), drop_waived(baseline, gate)
        both = pair_by_key(record.findings, baseline.findings, make_pairing_key)
        changes = [
            *_compare_verdicts(record, baseline, gate),
            *dict.fromkeys(_compare_epsilons(both)),
            *_compare_attacks(record, baseline, gate),
            *_compare_claims(record, baseline),
            *_compare_systems(record, baseline),
            *_compare_utility(record, baseline),
        ]
        now, before = (summarize_systems(each, gate.leak_margin) for each in (record, baseline))
        known = {each.section.target for each in before if not each.leak_assessment.unassessed_text}
        unassessed = [each for each in now if each.leak_assessment.unassessed_text]
        lost = [each for each in unassessed if each.section.target in known]
        if gate.fail_on is FailOn.NEVER:
            changes, lost = [each for each in changes if each.trend is not Trend.WORSE], []
        order, subjects = list(Trend), list(ChangedQuantity)
        changes.sort(key=lambda each: (order.index(each.trend), subjects.index(each.subject)))
        return cls(
            changes=tuple(changes),
            differences=tuple(_list_differences(record, baseline)),
            incomparable=tuple(_list_gaps(record, baseline, _count_noisy_pairs(both))),
            n_findings=len(pair_by_key(record.findings, baseline.findings, _finding_key)),
            n_rows=len(_pair_rows(record, baseline)),
            has_claims=bool(record.findings or baseline.findings),
            is_complete=not (record.errors or baseline.errors),
            unassessed=tuple(x.unassessed_line for x in now if x.assessment.unassessed_text),
            newly_unassessed=tuple(each.unassessed_line for each in lost),
        )

    def list_changes(self, trend: Trend) -> tuple[str, ...]:
        """Lists the changes in the direction ``trend`` (worse, better or neither) as sentences."""
        return tuple(each.sentence for each in self.changes if each.trend is trend)

    @property
    def regressions(self) -> tuple[str, ...]:
        """Changes for the worse, one sentence per change."""
        return self.list_changes(Trend.WORSE)

    @property
    def has_common_results(self) -> bool:
        """Whether the two records have a finding in common or, if neither has findings, an attack
        result.
        """
        return bool(self.n_findings if self.has_claims else self.n_rows)

    @property
    def conclusion(self) -> str:
        """Sentence that counts the results that are worse, and those that are better, than in the
        earlier audit.

        The sentence also says if only some parts of the audits could be compared.
        """
        worse, better = (len(self.list_changes(each)) for each in (Trend.WORSE, Trend.BETTER))
        if worse:
            outcome = f"Changes: {worse:,} worse, {better:,} better"
        elif self.has_common_results:
            outcome = f"Nothing is worse; {better:,} better" if better else "Nothing is worse"
        elif self.n_rows:
            rows = say.format_count(self.n_rows, "attack result")
            return f"No claim is in both audits; nothing is worse in {rows} of both."
        else:
            return "Nothing could be compared: no claim and no attack is in both audits."
        known = self.is_complete and not self.unassessed
        return f"{outcome}." if known else f"{outcome} in the parts that could be compared."

    @property
    def change_rules_text(self) -> str:
        """Sentences for the reader on the rules by which a difference counts as a change."""
        return say.fill_text("note", "changes", rows=self.n_rows)

    @property
    def exit_code(self) -> int:
        """Exit code of the comparison.

        - 1 if a result is worse than in the earlier audit;
        - else 3 if an audit is incomplete or the audits have nothing in common
          (``has_common_results``);
        - else 0.
        """
        if self.regressions:
            return EXIT_FOUND
        return 0 if self.is_complete and self.has_common_results else INCOMPLETE


def _compare_verdicts(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    before = index_by_key(baseline.findings, _finding_key)
    for key, now in index_by_key(record.findings, _finding_key).items():
        old, trend, was = before.get(key), Trend.NEUTRAL, "the claim is not in the baseline."
        if old is None:
            if now.verdict is not Verdict.VIOLATED and gate.exit_code([now.verdict]) != EXIT_FOUND:
                continue
            trend = Trend.WORSE
        elif old.verdict is now.verdict:
            continue
        else:
            was = f"the earlier verdict was {old.verdict.label}."
            if is_worse(now.verdict, old.verdict):
                trend = Trend.WORSE
            elif now.verdict is Verdict.CONSISTENT and is_worse(old.verdict, now.verdict):
                trend = Trend.BETTER
            elif old.verdict is Verdict.VIOLATED:
                was += " The missing refutation does not make the claim true."
        epsilon = say.format_number(now.claim.epsilon)
        claimed = f"epsilon {epsilon} for {say.describe_judged_scope(now)}"
        words = f"the verdict is {now.verdict.label}: {claimed}; {was}"
        earlier = None if old is None else str(old.verdict)
        yield Change(trend, ChangedQuantity.VERDICT, now.target, words, earlier, str(now.verdict))


def _pair_rows(record: Contents, baseline: Contents) -> list[tuple[AttackRow, AttackRow]]:
    """Pairs the attack results of two audits that can be compared with guessing."""
    return pair_by_key(list_rows_with_baseline(record), list_rows_with_baseline(baseline), _row_key)


def _compare_attacks(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    """Yields the leaks that changed by more than noise, and new leaks if the gate is on leaks."""
    both = _pair_rows(record, baseline)
    before, now = ({id(pair[i]): pair[1 - i] for pair in both} for i in (0, 1))
    same, count = record.provenance.seed == baseline.provenance.seed, len(both)
    for leak in find_leaks(record, gate.leak_margin):
        row, old = leak.row, before.get(id(leak.row))
        if old is None and gate.fail_on is FailOn.LEAK:
            words = f"{leak.clause}; the baseline does not have this result."
            yield Change(Trend.WORSE, ChangedQuantity.ATTACK, row.target, words, None, row.value)
        elif old is not None and widen_ci_low(row, count) > widen_ci_high(old, count):
            yield _make_change(row, old, Trend.WORSE if same else Trend.NEUTRAL)
    for leak in find_leaks(baseline, gate.leak_margin):
        row, new = leak.row, now.get(id(leak.row))
        if new is not None and widen_ci_high(new, count) < widen_ci_low(row, count):
            yield _make_change(new, row, Trend.BETTER if same else Trend.NEUTRAL)


def _make_change(row: AttackRow, old: AttackRow, trend: Trend) -> Change:
    words = f"{row.attack} ({row.vantage}) reaches {row.metric} = {_format_values(row, old)}"
    return Change(trend, ChangedQuantity.ATTACK, row.target, words, old.value, row.value)


def _compare_claims(record: Contents, baseline: Contents) -> Iterator[Change]:
    """Yields the changed claims of the systems that are in both records, with their verdicts."""
    for target in sorted(_list_targets(record) & _list_targets(baseline)):
        now, was = (
            {_describe_promise(f): f.verdict.label for f in each.findings if f.target == target}
            for each in (record, baseline)
        )
        texts = [f"it now claims {text} ({now[text]})" for text in sorted(now.keys() - was)]
        texts += [f"it no longer claims {text} ({was[text]})" for text in sorted(was.keys() - now)]
        if texts:
            yield Change(Trend.NEUTRAL, ChangedQuantity.CLAIM, target, f"{'; '.join(texts)}.")


def _describe_promise(finding: Finding) -> str:
    claim = finding.claim
    promised = f"epsilon {say.format_number(claim.epsilon)} at {say.format_delta(claim.delta)}"
    if math.isinf(claim.epsilon):
        promised = "no epsilon"
    return f"{promised} for {say.describe_scope(claim.scope)}"


def _compare_systems(record: Contents, baseline: Contents) -> Iterator[Change]:
    now, was = _list_targets(record), _list_targets(baseline)
    for name in sorted(now - was):
        yield Change(Trend.NEUTRAL, ChangedQuantity.SYSTEM, name, "the system is new.", None, name)
    for name in sorted(was - now):
        words = "only the baseline has it."
        yield Change(Trend.NEUTRAL, ChangedQuantity.SYSTEM, name, words, name, None)


def _compare_utility(record: Contents, baseline: Contents) -> Iterator[Change]:
    """Yields the changes of utility results. Their trend is neither worse nor better."""
    both = pair_by_key(record.utility, baseline.utility, _utility_key)
    for row, old in both:
        smaller, larger = sorted((row, old), key=lambda each: each.value)
        _, high = widen_limits(smaller, len(both), smaller.confidence)
        low, _ = widen_limits(larger, len(both), larger.confidence)
        if high < low:
            words = f"{row.metric} ({row.protocol}) is {_format_values(row, old)}"
            values = (old.value, row.value)
            yield Change(Trend.NEUTRAL, ChangedQuantity.UTILITY, row.target, words, *values)


def _list_gaps(record: Contents, baseline: Contents, moved: int) -> Iterator[str]:
    """Yields sentences on parts that cannot be compared."""
    # ``moved`` is the number of sampled bounds that differ by no more than noise explains.
    findings, rows = baseline.findings, list_rows_with_baseline(baseline)
    lost = {
        "finding": len(findings) - len(pair_by_key(record.findings, findings, _finding_key)),
        "attack result": len(rows)
        - len(pair_by_key(list_rows_with_baseline(record), rows, _row_key)),
    }
    if gone := " and ".join(say.format_count(count, what) for what, count in lost.items() if count):
        yield f"This audit lacks {gone} of the baseline, which are not compared."
    for name, each in (("audit", record), ("baseline", baseline)):
        if each.errors:
            errors = say.format_count(len(each.errors), "error")
            yield f"The {name} was not completed ({errors}), so parts of it are missing."
    if moved:
        bounds = say.format_count(moved, "sampled lower bound")
        yield f"{bounds} moved within the proved limits, which shows no change."


def _list_targets(record: Contents) -> set[str]:
    return {section.target for section in group_by_system(record)}


def _format_values(row: AttackRow | UtilityRow, old: AttackRow | UtilityRow) -> str:
    return f"{format_value(row)}, was {format_value(old)}."


def _finding_key(finding: Finding) -> Hashable:
    return (*make_pairing_key(finding), finding.claim.epsilon, finding.claim.delta)


def _row_key(row: AttackRow) -> Hashable:
    return row.target, row.attack, row.vantage, row.metric


def _utility_key(row: UtilityRow) -> Hashable:
    return row.target, row.metric, row.protocol
