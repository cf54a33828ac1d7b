"""What changed between two records: verdicts, epsilons, what attacks get, and what was asked.

What counts as a change, so that noise does not:

- a verdict. A claim stands better only where it is proved now: a refutation that is not found again
  is none the less true;
- an epsilon that is proved, or shown by calculation, if it differs by more than a thousandth, as
  accountants round; one that is sampled only beyond what is proved (``epsilon_changes``). The
  bounds of an audit hold together at its plan's confidence already;
- an attack's or a utility's figure, if its intervals do not overlap, each widened for the number of
  figures that are compared. They are for one training, and know nothing of what another seed would
  have trained: where the seeds differ, what moved is neither worse nor better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.verdict import (
    DEFAULT_GATE,
    FOUND,
    INCOMPLETE,
    FailOn,
    Gate,
    Verdict,
    is_worse,
)
from fedrec_auditor.reports.attack_words import ends_words
from fedrec_auditor.reports.audit_differences import audit_differences
from fedrec_auditor.reports.change import (
    Change,
    Kept,
    Subject,
    Trend,
    numbered,
    pairs,
    question,
)
from fedrec_auditor.reports.epsilon_changes import epsilon_changes, moved_samples
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.leaks import comparable, corrected_high, corrected_low, leaks
from fedrec_auditor.reports.rows import AttackRow, Contents, Finding, UtilityRow
from fedrec_auditor.reports.section import sections
from fedrec_auditor.reports.usefulness import at_once
from fedrec_auditor.reports.words import (
    WORDS,
    brief,
    brief_scope_words,
    counted,
    delta_words,
    number,
    question_words,
)


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
        """What changed. Nothing is worse with ``--fail-on never``.

        A finding got worse if its verdict did, or if it is new and ``gate`` fails it; so did an
        epsilon of which more is shown, or less proved. An attack row got worse if it is a leak now
        and its lower limit is above the upper limit that it had under the same seed; with
        ``--fail-on leak`` also if it is a leak and new. See the module for what counts.
        """
        changes = [
            *_verdicts(record, baseline, gate),
            *dict.fromkeys(epsilon_changes(record, baseline)),
            *_attacks(record, baseline, gate),
            *_claims(record, baseline),
            *_systems(record, baseline),
            *_utility(record, baseline),
        ]
        if gate.fail_on is FailOn.NEVER:
            changes = [change for change in changes if change.trend is not Trend.WORSE]
        now, before = (glances(each, gate.leak_margin) for each in (record, baseline))
        known = {each.section.target for each in before if not each.leak.gap}
        lost = [g for g in now if g.leak.gap and g.section.target in known]
        order, subjects = list(Trend), list(Subject)
        changes.sort(key=lambda each: (order.index(each.trend), subjects.index(each.subject)))
        return cls(
            changes=tuple(changes),
            differences=tuple(audit_differences(record, baseline)),
            uncertain=tuple(_uncertain(record, baseline)),
            findings=len(pairs(record.findings, baseline.findings, question)),
            rows=len(pairs(comparable(record), comparable(baseline), _row_key)),
            claimed=bool(record.findings or baseline.findings),
            complete=not (record.errors or baseline.errors),
            unassessed=tuple(each.gap_line for each in now if each.assessment.gap),
            lost=() if gate.fail_on is FailOn.NEVER else tuple(each.gap_line for each in lost),
        )

    def lines(self, trend: Trend) -> tuple[str, ...]:
        """The changes of one trend, a sentence each."""
        return tuple(each.line for each in self.changes if each.trend is trend)

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse, a sentence each."""
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
        elif not self.shared:
            attacks = f"{counted(self.rows, 'attack row')} of both" if self.rows else ""
            nothing = "Nothing could be compared: no claim and no attack is in both."
            return (
                f"No claim is in both audits; nothing is worse in {attacks}."
                if attacks
                else nothing
            )
        else:
            said = f"Nothing is worse; {better:,} better" if better else "Nothing is worse"
        known = self.complete and not self.unassessed
        return f"{said}." if known else f"{said} in what could be compared."

    @property
    def code(self) -> int:
        """Exit code: 1 if something is worse, 3 if part or all could not be compared, else 0."""
        if self.worse:
            return FOUND
        return 0 if self.complete and self.shared else INCOMPLETE


def _verdicts(record: Contents, baseline: Contents, gate: Gate) -> Iterator[Change]:
    before = numbered(baseline.findings, _judged)
    for key, now in numbered(record.findings, _judged).items():
        old = before.get(key)
        word, claimed = WORDS[now.verdict], number(now.claim.epsilon)
        said = f"{word}: epsilon {claimed}, {question_words(now)}; "
        trend = Trend.OTHER
        if old is None:
            if now.verdict is not Verdict.VIOLATED and gate.code([now.verdict]) != FOUND:
                continue
            trend, said = Trend.WORSE, f"{said}not in the baseline."
        elif old.verdict is now.verdict:
            continue
        else:
            said += f"was {WORDS[old.verdict]}."
            if is_worse(now.verdict, old.verdict):
                trend = Trend.WORSE
            elif now.verdict is Verdict.CONSISTENT and is_worse(old.verdict, now.verdict):
                trend = Trend.BETTER
            elif old.verdict is Verdict.VIOLATED:
                said += " That it was not refuted again does not make it true."
        was = None if old is None else str(old.verdict)
        yield Change(trend, Subject.VERDICT, now.target, said, was, str(now.verdict))


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
    promised = f"epsilon {number(claim.epsilon)} at {delta_words(claim.delta)}"
    if math.isinf(claim.epsilon):
        promised = "no epsilon"
    return f"{promised} for {brief_scope_words(claim.scope)}"


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


def _uncertain(record: Contents, baseline: Contents) -> Iterator[str]:
    lost = (
        (_gone(record.findings, baseline.findings, _judged), "finding"),
        (_gone(comparable(record), comparable(baseline), _row_key), "attack row"),
    )
    gone = [counted(count, what) for count, what in lost if count]
    if gone:
        yield f"Not compared, since this audit lacks them: {' and '.join(gone)} of the baseline."
    for name, each in (("audit", record), ("baseline", baseline)):
        if each.errors:
            many = counted(len(each.errors), "error")
            yield f"The {name} was not completed ({many}): some is missing."
    if moved := moved_samples(record, baseline):
        many = counted(moved, "sampled lower bound")
        yield f"{many} moved within what is proved: that shows no change."


def _targets(record: Contents) -> set[str]:
    return {section.target for section in sections(record)}


def _interval(row: AttackRow | UtilityRow, old: AttackRow | UtilityRow) -> str:
    now, was = (f"{brief(each.value)} {ends_words(each)}" for each in (row, old))
    return f"{now}, was {was}."


def _gone(now: Sequence[Kept], before: Sequence[Kept], key: Callable[[Kept], Hashable]) -> int:
    """How many rows there are no longer."""
    return len(numbered(before, key).keys() - numbered(now, key).keys())


def _judged(finding: Finding) -> Hashable:
    return (*question(finding), finding.claim.epsilon, finding.claim.delta)


def _row_key(row: AttackRow) -> Hashable:
    return row.target, row.attack, row.vantage, row.metric


def _utility_key(row: UtilityRow) -> Hashable:
    return row.target, row.metric, row.protocol
