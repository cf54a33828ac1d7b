"""Changes between two records: of verdicts, epsilons, what attacks get, and what was asked.

What counts as a change, so that noise does not:

- a verdict. A claim stands better only where it is proved now: a refutation that is not found again
  is none the less true;
- an epsilon, which lies between what is shown at least and what is proved at most; a calculated
  lower bound that is tight is its upper end, too. It rose or fell if these two intervals do not
  overlap. Where both are calculated, one that differs by more than a thousandth, as accountants
  round, moved; more shown is worse, too, less shown proves nothing. The bounds of an audit hold
  together at its plan's confidence already;
- an attack's or a utility's figure, if its intervals do not overlap, each widened for the number of
  figures that are compared. They are for one training, and know nothing of what another seed would
  have trained: where the seeds differ, what moved is neither worse nor better.
"""

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
    FOUND,
    INCOMPLETE,
    FailOn,
    Gate,
    Verdict,
    is_worse,
    refutes,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import comparable, corrected_high, corrected_low, leaks
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding, UtilityRow, leaves
from fedrec_auditor.reports.record.sections import sections
from fedrec_auditor.reports.say.glance import glances
from fedrec_auditor.reports.say.metrics import at_once, interval_words

Kept = TypeVar("Kept")


class Trend(StrEnum):
    """The direction of a change."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


class Subject(StrEnum):
    """The subject of a change, in the order of what a reader minds most."""

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


def numbered(
    rows: Iterable[Kept], key: Callable[[Kept], Hashable]
) -> dict[tuple[Hashable, int], Kept]:
    """Rows by their key and by how many of that key came before."""
    seen: Counter[Hashable] = Counter()
    found = {}
    for row in rows:
        own = key(row)
        found[own, seen[own]] = row
        seen[own] += 1
    return found


def pairs(
    now: Iterable[Kept], before: Iterable[Kept], key: Callable[[Kept], Hashable]
) -> list[tuple[Kept, Kept]]:
    """The rows that both have, the later first."""
    old = numbered(before, key)
    return [(row, old[name]) for name, row in numbered(now, key).items() if name in old]


def question(finding: Finding) -> tuple[Hashable, ...]:
    """The question of a finding, whatever epsilon is claimed."""
    return (
        finding.target,
        finding.scope,
        finding.delta,
        finding.game,
        finding.outside_model,
        finding.claim.scope,
    )


def _differences(record: Contents, baseline: Contents) -> Iterator[str]:
    """A sentence on each of data, plan and versions that is not the same, but for the systems."""
    now, was = record.provenance, baseline.provenance
    if now.data != was.data:
        names = [
            "none" if each is None else f"{each.name} ({each.digest[:12]})"
            for each in (now.data, was.data)
        ]
        yield f"Other data: {names[0]}, was {names[1]}."
    plan, planned = (dict(leaves(each.plan)) for each in (record, baseline))
    for each in (plan, planned):
        each.pop("targets", None)
    for what, new, old in (("plan", plan, planned), ("versions", now.versions, was.versions)):
        if told := _apart(new, old):
            yield f"Other {what}: {told}."


def _apart(now: Mapping[str, Any], was: Mapping[str, Any]) -> str:
    """Entries that differ, with what they were; of lists what came and what went."""
    told = []
    for name in sorted({*now, *was}):
        one, other = (_entry(part.get(name)) for part in (now, was))
        if isinstance(one, list) and isinstance(other, list):
            signs = [f"+{_plain(x)}" for x in one if x not in other]
            signs += [f"-{_plain(x)}" for x in other if x not in one]
            if signs or one != other:
                told.append(f"{name} {' '.join(signs) or 'in another order'}")
        elif one != other:
            told.append(f"{name} {_plain(now.get(name))}, was {_plain(was.get(name))}")
    return "; ".join(told)


def _entry(value: Any) -> Any:
    """None for what a plan leaves out, and False; a list for a tuple, as a file has it."""
    if value is None or value is False or value in ("", {}, [], ()):
        return None
    return list(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, {}) else str(value)


_APART = 1e-3
"""How far apart two calculated epsilons are that are not the same, relative to the larger."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An epsilon as one audit knows it without assumptions: ``least`` is shown, ``most`` known.

    What is shown by chance above what the same audit proves counts as what is proved.
    """

    least: Bound | None
    most: Bound | None

    @classmethod
    def of(cls, finding: Finding) -> _Known:
        """The interval of a finding."""
        shown, proof = finding.shown, finding.accounted
        most = proof if proof is not None and not proof.assumptions else None
        if shown is not None and most is not None and _exceeds(shown, most):
            shown = replace(shown, epsilon=most.epsilon)
        if shown is not None and shown.tight and shown.confidence == 1.0:
            most = shown if most is None or shown.epsilon < most.epsilon else most
        return cls(shown, most)

    @property
    def epsilon(self) -> float:
        """The epsilon that is shown; 0 if none is."""
        return 0.0 if self.least is None else self.least.epsilon

    @property
    def calculated(self) -> bool:
        """Whether what is shown rests on no samples."""
        return self.least is None or self.least.confidence == 1.0

    @property
    def words(self) -> str:
        """The epsilon that is shown, and how sure that is."""
        if self.least is None:
            return "nothing"
        sure = "" if self.calculated else f" ({say.sure_words(self.least)})"
        return say.shown_epsilon(self.epsilon) + sure


def _epsilons(asked: Sequence[tuple[Finding, Finding]]) -> Iterator[Change]:
    """Changes of what is shown and what is proved of each question that both audits ask."""
    for now, old in asked:
        yield from filter(None, (_shown(now, old), _proved(now, old)))


def _moved_samples(asked: Sequence[tuple[Finding, Finding]]) -> int:
    """How many lower bounds rest on samples and moved, but by no more than noise may."""
    return sum(
        not (after.calculated and was.calculated)
        and _differ(after.epsilon, was.epsilon)
        and _shown(now, old) is None
        for now, old in asked
        for after, was in [(_Known.of(now), _Known.of(old))]
    )


def _shown(now: Finding, old: Finding) -> Change | None:
    after, was = _Known.of(now), _Known.of(old)
    rose, fell = _exceeds(after.least, was.most), _exceeds(was.least, after.most)
    if after.calculated and was.calculated and _differ(after.epsilon, was.epsilon):
        words = f"was {was.words}"
        rose |= bool(after.least and was.least) and after.epsilon > was.epsilon
    elif rose:
        words = f"while it was {_most(was.most)}"
    elif fell:
        words = f"and {_most(after.most)}, was {was.words}"
    else:
        return None
    trend = Trend.WORSE if rose else Trend.BETTER if fell else Trend.OTHER
    words = f"epsilon shown is {after.words}, {words}, for {say.question_words(now)}."
    ends = (None if each.least is None else each.epsilon for each in (was, after))
    return Change(trend, Subject.SHOWN, now.target, words, *ends)


def _proved(now: Finding, old: Finding) -> Change | None:
    """The change of what is proved at the delta that is asked."""
    after, was = (
        proof if proof is not None and proof.delta <= each.delta else None
        for each, proof in ((now, now.accounted), (old, old.accounted))
    )
    most, before = (math.inf if proof is None else proof.epsilon for proof in (after, was))
    moved, if_then = _differ(most, before), say.assumption_words(was)
    if_so = say.assumption_words(after)
    if not moved and if_so == if_then:
        return None
    trend = (Trend.WORSE if most > before else Trend.BETTER) if moved else Trend.OTHER
    told = (_most(after), if_so if if_so != if_then else "", f"was {_most(was)}", if_then)
    words = f"epsilon proved is {say.listed(*told)}, for {say.question_words(now)}."
    return Change(trend, Subject.PROVED, now.target, words, before, most)


def _exceeds(shown: Bound | None, most: Bound | None) -> bool:
    """Whether a bound refutes one that assumes nothing, by more than rounding."""
    if shown is None or most is None:
        return False
    return refutes(shown, most) and _differ(shown.epsilon, most.epsilon)


def _differ(one: float, other: float) -> bool:
    return not math.isclose(one, other, rel_tol=_APART, abs_tol=1e-12)


def _most(bound: Bound | None) -> str:
    if bound is None or math.isinf(bound.epsilon):
        return "not finite"
    return f"at most {say.at_most(bound.epsilon)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A record against an earlier one, its baseline.

    ``changes`` come with the worst first. ``differences`` say how the two audits differ in plan,
    data and versions, for which anything may have moved; ``uncertain`` what the comparison leaves
    open. ``findings`` and ``rows`` are the numbers of findings and of attack rows that are in both,
    ``claimed`` whether either audit has findings;
    ``complete`` says that both audits were completed. ``unassessed`` says of each system that was
    not assessed what and why; ``lost`` are those that were in the baseline.
    """

    changes: tuple[Change, ...]
    differences: tuple[str, ...]
    uncertain: tuple[str, ...]
    findings: int
    rows: int
    claimed: bool
    complete: bool
    unassessed: tuple[str, ...]
    lost: tuple[str, ...]

    @classmethod
    def of(cls, record: Contents, baseline: Contents, gate: Gate = DEFAULT_GATE) -> Comparison:
        """Compare two records. Nothing is worse with ``--fail-on never``.

        A finding got worse if its verdict did, or if it is new and ``gate`` fails it; so did an
        epsilon of which more is shown, or less proved. An attack row got worse if it is a leak now
        and its lower limit is above the upper limit that it had under the same seed; with
        ``--fail-on leak`` also if it is a leak and new. See the module for what counts.
        """
        asked = pairs(record.findings, baseline.findings, question)
        changes = [
            *_verdicts(record, baseline, gate),
            *dict.fromkeys(_epsilons(asked)),
            *_attacks(record, baseline, gate),
            *_claims(record, baseline),
            *_systems(record, baseline),
            *_utility(record, baseline),
        ]
        now, before = (glances(each, gate.leak_margin) for each in (record, baseline))
        known = {each.section.target for each in before if not each.leak.gap}
        lost = [each for each in now if each.leak.gap and each.section.target in known]
        if gate.fail_on is FailOn.NEVER:
            changes, lost = [each for each in changes if each.trend is not Trend.WORSE], []
        order, subjects = list(Trend), list(Subject)
        changes.sort(key=lambda each: (order.index(each.trend), subjects.index(each.subject)))
        return cls(
            changes=tuple(changes),
            differences=tuple(_differences(record, baseline)),
            uncertain=tuple(_uncertain(record, baseline, _moved_samples(asked))),
            findings=len(asked),
            rows=len(pairs(comparable(record), comparable(baseline), _row_key)),
            claimed=bool(record.findings or baseline.findings),
            complete=not (record.errors or baseline.errors),
            unassessed=tuple(each.gap_line for each in now if each.assessment.gap),
            lost=tuple(each.gap_line for each in lost),
        )

    def lines(self, trend: Trend) -> tuple[str, ...]:
        """The changes of one trend, a sentence each."""
        return tuple(each.line for each in self.changes if each.trend is trend)

    @property
    def worse(self) -> tuple[str, ...]:
        """The changes for the worse, a sentence each."""
        return self.lines(Trend.WORSE)

    @property
    def shared(self) -> bool:
        """Whether a finding is in both audits, or where there is none in either, an attack row."""
        return bool(self.findings if self.claimed else self.rows)

    @property
    def conclusion(self) -> str:
        """Whether something is worse, in a sentence, and what that leaves out."""
        worse, better = (len(self.lines(each)) for each in (Trend.WORSE, Trend.BETTER))
        if worse:
            said = f"{worse:,} worse, {better:,} better"
        elif self.shared:
            said = f"Nothing is worse; {better:,} better" if better else "Nothing is worse"
        elif self.rows:
            rows = say.counted(self.rows, "attack row")
            return f"No claim is in both audits; nothing is worse in {rows} of both."
        else:
            return "Nothing could be compared: no claim and no attack is in both."
        known = self.complete and not self.unassessed
        return f"{said}." if known else f"{said} in what could be compared."

    @property
    def rule(self) -> str:
        """The rule for what counts as a change."""
        return say.fill_phrase("note", "changes", rows=self.rows)

    @property
    def code(self) -> int:
        """Exit code: 1 if something is worse, 3 if part or all could not be compared, else 0."""
        if self.worse:
            return FOUND
        return 0 if self.complete and self.shared else INCOMPLETE


def _verdicts(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    before = numbered(baseline.findings, _judged)
    for key, now in numbered(record.findings, _judged).items():
        old, trend, was = before.get(key), Trend.OTHER, "not in the baseline."
        if old is None:
            if now.verdict is not Verdict.VIOLATED and gate.code([now.verdict]) != FOUND:
                continue
            trend = Trend.WORSE
        elif old.verdict is now.verdict:
            continue
        else:
            was = f"was {say.WORDS[old.verdict]}."
            if is_worse(now.verdict, old.verdict):
                trend = Trend.WORSE
            elif now.verdict is Verdict.CONSISTENT and is_worse(old.verdict, now.verdict):
                trend = Trend.BETTER
            elif old.verdict is Verdict.VIOLATED:
                was += " That it was not refuted again does not make it true."
        claimed = f"epsilon {say.number(now.claim.epsilon)}, {say.question_words(now)}"
        said = f"{say.WORDS[now.verdict]}: {claimed}; {was}"
        earlier = None if old is None else str(old.verdict)
        yield Change(trend, Subject.VERDICT, now.target, said, earlier, str(now.verdict))


def _attacks(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    """Leaks that rose beyond noise, or are new where the gate fails leaks; and those that fell."""
    both = pairs(comparable(record), comparable(baseline), _row_key)
    before, now = ({id(pair[i]): pair[1 - i] for pair in both} for i in (0, 1))
    same, count = record.provenance.seed == baseline.provenance.seed, len(both)
    for leak in leaks(record, gate.leak_margin):
        row, old = leak.row, before.get(id(leak.row))
        if old is None and gate.fail_on is FailOn.LEAK:
            said = f"{leak.words}, not in the baseline."
            yield Change(Trend.WORSE, Subject.ATTACK, row.target, said, None, row.value)
        elif old is not None and corrected_low(row, count) > corrected_high(old, count):
            yield _moved(row, old, Trend.WORSE if same else Trend.OTHER)
    for leak in leaks(baseline, gate.leak_margin):
        row, after = leak.row, now.get(id(leak.row))
        if after is not None and corrected_high(after, len(both)) < corrected_low(row, len(both)):
            yield _moved(after, row, Trend.BETTER if same else Trend.OTHER)


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
        said += [f"no longer claims {text}" for text in sorted(was - now)]
        if said:
            yield Change(Trend.OTHER, Subject.CLAIM, target, f"{'; '.join(said)}.")


def _promise(finding: Finding) -> str:
    claim = finding.claim
    promised = f"epsilon {say.number(claim.epsilon)} at {say.delta_words(claim.delta)}"
    if math.isinf(claim.epsilon):
        promised = "no epsilon"
    return f"{promised} for {say.brief_scope_words(claim.scope)}"


def _systems(record: Contents, baseline: Contents) -> Iterator[Change]:
    now, was = _targets(record), _targets(baseline)
    for name in sorted(now - was):
        yield Change(Trend.OTHER, Subject.SYSTEM, name, "new, not in the baseline.", None, name)
    for name in sorted(was - now):
        yield Change(Trend.OTHER, Subject.SYSTEM, name, "gone, was in the baseline.", name, None)


def _utility(record: Contents, baseline: Contents) -> Iterator[Change]:
    """Figures of utility that moved; of some metrics less is better, so that none is worse."""
    both = pairs(record.utility, baseline.utility, _utility_key)
    for row, old in both:
        one, other = sorted((row, old), key=lambda each: each.value)
        _, most = at_once(one, len(both), one.confidence)
        least, _ = at_once(other, len(both), other.confidence)
        if most < least:
            words = f"{row.metric} ({row.protocol}) is {_interval(row, old)}"
            yield Change(Trend.OTHER, Subject.UTILITY, row.target, words, old.value, row.value)


def _uncertain(record: Contents, baseline: Contents, moved: int) -> Iterator[str]:
    """Sentences on what the comparison leaves open; so many sampled bounds ``moved``."""
    findings, rows = baseline.findings, comparable(baseline)
    lost = {
        "finding": len(findings) - len(pairs(record.findings, findings, _judged)),
        "attack row": len(rows) - len(pairs(comparable(record), rows, _row_key)),
    }
    if gone := " and ".join(say.counted(count, what) for what, count in lost.items() if count):
        yield f"Not compared, since this audit lacks them: {gone} of the baseline."
    for name, each in (("audit", record), ("baseline", baseline)):
        if each.errors:
            many = say.counted(len(each.errors), "error")
            yield f"The {name} was not completed ({many}): some is missing."
    if moved:
        many = say.counted(moved, "sampled lower bound")
        yield f"{many} moved within what is proved: that shows no change."


def _targets(record: Contents) -> set[str]:
    return {section.target for section in sections(record)}


def _interval(row: AttackRow | UtilityRow, old: AttackRow | UtilityRow) -> str:
    return f"{interval_words(row)}, was {interval_words(old)}."


def _judged(finding: Finding) -> Hashable:
    return (*question(finding), finding.claim.epsilon, finding.claim.delta)


def _row_key(row: AttackRow) -> Hashable:
    return row.target, row.attack, row.vantage, row.metric


def _utility_key(row: UtilityRow) -> Hashable:
    return row.target, row.metric, row.protocol
