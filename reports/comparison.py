"""What changed between two records: verdicts, epsilons, what attacks get, and what was asked.

What counts as a change, so that noise does not:

- a verdict, an epsilon that is proved, and one that is shown by a calculation have no noise; the
  epsilons count if they differ by more than a thousandth, as accountants round;
- an epsilon lies between what is shown at least and what is proved at most. A sampled lower bound
  has no upper end of its own: it counts only if these two intervals do not overlap. The bounds of
  an audit hold together at its plan's confidence already;
- an attack's or a utility's figure counts if its intervals do not overlap, each widened for the
  number of figures that are compared (``leaks.widening``).

A smaller lower bound is no smaller epsilon, unless it is tight or the proof is below it, too; and
where nothing was shown before, nothing rose.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import (
    DEFAULT_GATE,
    FOUND,
    FailOn,
    Gate,
    Verdict,
    is_worse,
    refutes,
)
from fedrec_auditor.reports.leaks import comparable, corrected_high, corrected_low, leaks
from fedrec_auditor.reports.rows import AttackRow, Contents, Finding, UtilityRow
from fedrec_auditor.reports.section import sections
from fedrec_auditor.reports.words import (
    at_least,
    at_most,
    brief,
    brief_scope_words,
    delta_words,
    number,
    percent,
)

_Row = TypeVar("_Row", Finding, AttackRow, UtilityRow)
_APART = 1e-3
"""How far apart two calculated epsilons are that are not the same, relative to the larger."""


class Trend(StrEnum):
    """Where a change leads."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


class Subject(StrEnum):
    """What changed, in the order of what a reader minds most."""

    VERDICT = "verdict"
    SHOWN = "epsilon shown"
    ATTACK = "attack"
    PROVED = "epsilon proved"
    CLAIM = "claim"
    SYSTEM = "system"
    UTILITY = "utility"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one system; ``before`` and ``now`` are None where there was or is nothing."""

    trend: Trend
    subject: Subject
    target: str
    words: str
    before: float | str | None = None
    now: float | str | None = None

    @property
    def line(self) -> str:
        """The change in a sentence, with its system."""
        return f"{self.target}: {self.words}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A record against an earlier one, its baseline.

    ``changes`` come with the worst first. ``differences`` say how the two audits differ in plan,
    data and versions, for which anything may have moved; ``uncertain`` what the comparison leaves
    open. ``rows`` is the number of attack rows that are compared.
    """

    changes: tuple[Change, ...]
    differences: tuple[str, ...]
    uncertain: tuple[str, ...]
    rows: int

    @classmethod
    def of(cls, record: Contents, baseline: Contents, gate: Gate = DEFAULT_GATE) -> Comparison:
        """What changed. Nothing is worse with ``--fail-on never``.

        A finding got worse if its verdict did, or if it is new and ``gate`` fails it; so did an
        epsilon of which more is shown, or less proved. An attack row got worse if it is a leak now
        and its lower limit is above the upper limit that it had; with ``--fail-on leak`` also if it
        is a leak and new. See the module for what counts.
        """
        before, now = (
            _numbered(comparable(baseline), _row_key),
            _numbered(comparable(record), _row_key),
        )
        rows = len(before.keys() & now.keys())
        changes = [
            *_verdicts(record, baseline, gate),
            *_epsilons(record, baseline),
            *_attacks(record, baseline, gate, rows),
            *_claims(record, baseline),
            *_systems(record, baseline),
            *_utility(record, baseline),
        ]
        if gate.fail_on is FailOn.NEVER:
            changes = [change for change in changes if change.trend is not Trend.WORSE]
        order, subjects = list(Trend), list(Subject)
        changes.sort(key=lambda each: (order.index(each.trend), subjects.index(each.subject)))
        return cls(
            tuple(changes),
            tuple(_differences(record, baseline)),
            tuple(_uncertain(record, baseline)),
            rows,
        )

    def lines(self, trend: Trend) -> tuple[str, ...]:
        """The changes of one trend, a sentence each."""
        return tuple(each.line for each in self.changes if each.trend is trend)

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse, a sentence each."""
        return self.lines(Trend.WORSE)


def _verdicts(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    before = _numbered(baseline.findings, _finding_key)
    for key, now in _numbered(record.findings, _finding_key).items():
        old = before.get(key)
        about = f"{now.verdict} for epsilon {number(now.claim.epsilon)}, {_about(now)}"
        if old is None:
            fails = now.verdict is Verdict.VIOLATED or gate.code([now.verdict]) == FOUND
            if fails:
                said = f"{about}; not in the baseline."
                yield Change(Trend.WORSE, Subject.VERDICT, now.target, said, None, str(now.verdict))
        elif old.verdict is not now.verdict:
            trend = Trend.OTHER
            if is_worse(now.verdict, old.verdict):
                trend = Trend.WORSE
            elif is_worse(old.verdict, now.verdict):
                trend = Trend.BETTER
            said = f"{about}; was {old.verdict}."
            yield Change(
                trend, Subject.VERDICT, now.target, said, str(old.verdict), str(now.verdict)
            )


def _epsilons(record: Contents, baseline: Contents) -> Iterator[Change]:
    for now, old in _pairs(record, baseline):
        yield from (change for change in (_shown(now, old), _proved(now, old)) if change)


def _pairs(record: Contents, baseline: Contents) -> Iterator[tuple[Finding, Finding]]:
    """Findings that ask the same, whatever epsilon was claimed."""
    before = _numbered(baseline.findings, _scope_key)
    for key, now in _numbered(record.findings, _scope_key).items():
        if key in before:
            yield now, before[key]


def _shown(now: Finding, old: Finding) -> Change | None:
    """What is shown at least: by calculation, or beyond what was or is proved."""
    after, was = _lower(now), _lower(old)
    words, trend = "", Trend.OTHER
    if _exceeds(after, old.accounted):
        words = f"above what was proved, {_most(old.accounted)}"
        trend = Trend.WORSE
    elif _exceeds(was, now.accounted):
        words = f"and proved {_most(now.accounted)}, below what was shown, {_least(was)}"
        trend = Trend.BETTER
    elif _calculated(after) and _calculated(was) and _differ(_value(after), _value(was)):
        words = f"was {_least(was)}"
        if after is not None and was is not None and after.epsilon > was.epsilon:
            trend = Trend.WORSE
        elif after is not None and was is not None and after.tight:
            trend = Trend.BETTER
    if not words:
        return None
    words = f"epsilon shown is {_least(after)}, {words}, for {_about(now)}."
    return Change(trend, Subject.SHOWN, now.target, words, _epsilon(was), _epsilon(after))


def _proved(now: Finding, old: Finding) -> Change | None:
    after, was = (each.accounted for each in (now, old))
    most, before = (math.inf if proof is None else proof.epsilon for proof in (after, was))
    moved = _differ(most, before)
    if not moved and _if_so(after) == _if_so(was):
        return None
    if _if_so(after) == _if_so(was):
        words = f"epsilon proved is {_most(after)}, was {_most(was)}, for {_about(now)}"
        words += f",{_if_so(after)}." if _if_so(after) else "."
    else:
        words = f"epsilon proved is {_most(after)}{_if_so(after)}; was {_most(was)}{_if_so(was)}; "
        words += f"for {_about(now)}."
    trend = Trend.OTHER
    if moved:
        trend = Trend.WORSE if most > before else Trend.BETTER
    return Change(trend, Subject.PROVED, now.target, words, before, most)


def _attacks(record: Contents, baseline: Contents, gate: Gate, rows: int) -> Iterator[Change]:
    """Leaks that rose beyond noise, or are new where the gate fails leaks; and those that fell."""
    before = _numbered(comparable(baseline), _row_key)
    now = _numbered(comparable(record), _row_key)
    keys = {id(row): key for key, row in now.items()}
    for leak in leaks(record, gate.leak_margin):
        row, old = leak.row, before.get(keys[id(leak.row)])
        if old is None and gate.fail_on is FailOn.LEAK:
            said = f"{leak.words}, not in the baseline."
            yield Change(Trend.WORSE, Subject.ATTACK, row.target, said, None, row.value)
        elif old is not None and corrected_low(row, rows) > corrected_high(old, rows):
            yield _moved(row, old, Trend.WORSE)
    keys = {id(row): key for key, row in before.items()}
    for leak in leaks(baseline, gate.leak_margin):
        after = now.get(keys[id(leak.row)])
        if after is not None and corrected_high(after, rows) < corrected_low(leak.row, rows):
            yield _moved(after, leak.row, Trend.BETTER)


def _moved(row: AttackRow, old: AttackRow, trend: Trend) -> Change:
    words = f"{row.attack} ({row.vantage}) reaches {row.metric} {_interval(row, old)}"
    return Change(trend, Subject.ATTACK, row.target, words, old.value, row.value)


def _claims(record: Contents, baseline: Contents) -> Iterator[Change]:
    """Claims that are not what they were, of systems that are in both."""
    for target in sorted(_targets(record) & _targets(baseline)):
        now, was = (
            {_promise(f) for f in each.findings if f.target == target}
            for each in (record, baseline)
        )
        said = [f"claims {text}" for text in sorted(now - was)]
        said += [f"no longer {text}" for text in sorted(was - now)]
        if said:
            yield Change(Trend.OTHER, Subject.CLAIM, target, f"{'; '.join(said)}.")


def _promise(finding: Finding) -> str:
    claim = finding.claim
    promised = f"epsilon {number(claim.epsilon)} at {delta_words(claim.delta)}"
    return f"{promised} for {brief_scope_words(claim.scope)}"


def _systems(record: Contents, baseline: Contents) -> Iterator[Change]:
    now, was = _targets(record), _targets(baseline)
    for target in sorted(now ^ was):
        new = target in now
        words = "new, not in the baseline." if new else "gone, was in the baseline."
        yield Change(
            Trend.OTHER,
            Subject.SYSTEM,
            target,
            words,
            None if new else target,
            target if new else None,
        )


def _utility(record: Contents, baseline: Contents) -> Iterator[Change]:
    """Figures of utility that moved; of some metrics less is better, so that none is worse."""
    before = _numbered(baseline.utility, _utility_key)
    pairs = [
        (row, before[key])
        for key, row in _numbered(record.utility, _utility_key).items()
        if key in before
    ]
    for row, old in pairs:
        one, other = sorted((row, old), key=lambda each: each.value)
        if corrected_high(one, len(pairs)) < corrected_low(other, len(pairs)):
            words = f"{row.metric} ({row.protocol}) is {_interval(row, old)}"
            yield Change(Trend.OTHER, Subject.UTILITY, row.target, words, old.value, row.value)


def _differences(record: Contents, baseline: Contents) -> Iterator[str]:
    now, was = record.provenance, baseline.provenance
    if now.data != was.data:
        names = [
            "none" if each is None else f"{each.name} ({each.digest[:12]})"
            for each in (now.data, was.data)
        ]
        yield f"Other data: {names[0]}, was {names[1]}."
    plans = [dict(_flat(_asked(each))) for each in (record, baseline)]
    if told := _apart(*plans):
        yield f"Other plan: {told}."
    if told := _apart(now.versions, was.versions):
        yield f"Other versions: {told}."


def _uncertain(record: Contents, baseline: Contents) -> Iterator[str]:
    findings = _gone(baseline.findings, record.findings, _finding_key)
    rows = _gone(comparable(baseline), comparable(record), _row_key)
    lost = ((findings, "finding"), (rows, "attack row"))
    gone = [f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in lost if count]
    if gone:
        yield f"Not compared, since this audit lacks them: {' and '.join(gone)} of the baseline."
    if record.errors:
        yield f"The audit was not completed ({len(record.errors):,} errors): some is missing."
    moved = sum(
        not (_calculated(_lower(now)) and _calculated(_lower(old)))
        and _differ(_value(_lower(now)), _value(_lower(old)))
        and _shown(now, old) is None
        for now, old in _pairs(record, baseline)
    )
    if moved:
        many = "sampled lower bound" + ("" if moved == 1 else "s")
        yield f"{moved:,} {many} moved within what is proved: that shows no change."


def _asked(record: Contents) -> dict[str, Any]:
    """The plan but for the systems, which are told one by one."""
    return {name: value for name, value in record.plan.items() if name != "targets"}


def _flat(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", list(value) if isinstance(value, tuple) else value


def _apart(now: Mapping[str, Any], was: Mapping[str, Any]) -> str:
    """Entries that differ, with what they were; of lists what came and what went."""
    told = []
    for name in sorted({*now, *was}):
        one, other = (part.get(name) or None for part in (now, was))
        if isinstance(one, list) and isinstance(other, list):
            signs = [f"+{_plain(x)}" for x in one if x not in other]
            signs += [f"-{_plain(x)}" for x in other if x not in one]
            if signs or one != other:
                told.append(f"{name} {' '.join(signs) or 'in another order'}")
        elif one != other:
            told.append(f"{name} {_plain(now.get(name))}, was {_plain(was.get(name))}")
    return "; ".join(told)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, {}) else str(value)


def _targets(record: Contents) -> set[str]:
    return {section.target for section in sections(record)}


def _about(finding: Finding) -> str:
    delta = delta_words(finding.delta) if finding.delta else ""
    return ", ".join(filter(None, (brief_scope_words(finding.scope), finding.game, delta)))


def _interval(row: AttackRow | UtilityRow, old: AttackRow | UtilityRow) -> str:
    now, was = (
        f"{brief(each.value)} [{brief(each.ci_low)}, {brief(each.ci_high)}]" for each in (row, old)
    )
    return f"{now}, was {was}."


def _lower(finding: Finding) -> Bound | None:
    """What is shown without an assumption, and no more than the same audit proves."""
    shown, proof = finding.measured, finding.accounted
    if shown is None or shown.assumptions:
        return None
    if _exceeds(shown, proof) and proof is not None:  # by chance, see the verdict
        return replace(shown, epsilon=proof.epsilon)
    return shown


def _exceeds(shown: Bound | None, proof: Bound | None) -> bool:
    """Whether a bound refutes a proof that assumes nothing, by more than rounding."""
    if shown is None or proof is None or proof.assumptions:
        return False
    return refutes(shown, proof) and _differ(shown.epsilon, proof.epsilon)


def _value(bound: Bound | None) -> float:
    return 0.0 if bound is None else bound.epsilon


def _epsilon(bound: Bound | None) -> float | None:
    return None if bound is None else bound.epsilon


def _calculated(bound: Bound | None) -> bool:
    return bound is None or bound.confidence == 1.0


def _differ(one: float, other: float) -> bool:
    return not math.isclose(one, other, rel_tol=_APART, abs_tol=1e-12)


def _least(bound: Bound | None) -> str:
    if bound is None:
        return "nothing"
    least = "infinite" if math.isinf(bound.epsilon) else f"at least {at_least(bound.epsilon)}"
    return least if bound.confidence == 1.0 else f"{least} ({percent(bound.confidence)} confidence)"


def _most(proof: Bound | None) -> str:
    if proof is None or math.isinf(proof.epsilon):
        return "not finite"
    return f"at most {at_most(proof.epsilon)}"


def _if_so(proof: Bound | None) -> str:
    return f" if {'; '.join(proof.assumptions)}" if proof is not None and proof.assumptions else ""


def _gone(before: Iterable[_Row], now: Iterable[_Row], key: Callable[[_Row], Hashable]) -> int:
    """How many rows there are no longer."""
    return len(_numbered(before, key).keys() - _numbered(now, key).keys())


def _numbered(
    rows: Iterable[_Row], key: Callable[[_Row], Hashable]
) -> dict[tuple[Hashable, int], _Row]:
    """Rows by their key and by how many of that key came before."""
    seen: Counter[Hashable] = Counter()
    found = {}
    for row in rows:
        own = key(row)
        found[own, seen[own]] = row
        seen[own] += 1
    return found


def _finding_key(finding: Finding) -> Hashable:
    claim = finding.claim
    return (*_scope_key(finding), claim.epsilon, claim.delta)


def _scope_key(finding: Finding) -> tuple[Hashable, ...]:
    """What is asked, whatever epsilon is claimed."""
    return (
        finding.target,
        finding.scope,
        finding.delta,
        finding.game,
        finding.outside_model,
        finding.claim.scope,
    )


def _row_key(row: AttackRow) -> Hashable:
    return row.target, row.attack, row.vantage, row.metric


def _utility_key(row: UtilityRow) -> Hashable:
    return row.target, row.metric, row.protocol
