"""One system in the terminal: all that a reader asks after its line in the summary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import demonstrations
from fedrec_auditor.reports.attack_words import (
    baseline_words,
    further_words,
    got_words,
    interval_words,
    risk_words,
)
from fedrec_auditor.reports.glance import Glance
from fedrec_auditor.reports.leaks import Leak, comparable
from fedrec_auditor.reports.remarks import remarks
from fedrec_auditor.reports.rows import Contents, Finding, SkippedRow
from fedrec_auditor.reports.section import worst_first
from fedrec_auditor.reports.terminal import SEVERITIES, print_hanging, print_line
from fedrec_auditor.reports.usefulness import utility_line
from fedrec_auditor.reports.witness_words import witness_words
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    STYLES,
    asked_words,
    assumption_words,
    at_least,
    brief,
    brief_scope_words,
    capitalized,
    claimed_guess_words,
    counted,
    delta_words,
    measured_words,
    number,
    proved_beside_claim,
    shown_guess_words,
    support_words,
    verdict_words,
)

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 19
"""Columns of what stands before a text, its indent included."""


def render_system(record: Contents, glance: Glance, console: Console) -> None:
    """Print the verdict and what to do; claims, attacks, utility and what did not run below."""
    section = glance.section
    print_line(
        console,
        f"{section.target}: {glance.severity.value}",
        style=SEVERITIES[glance.severity] or "bold",
    )
    print_hanging(console, glance.sentence)
    _part(console, "What to do", glance.todo, indent=0)
    headline = section.headline_finding
    if headline is not None:
        shown = "" if headline.shown is None else f" {shown_guess_words(headline.shown)}"
        _part(console, "For one person", claimed_guess_words(headline.claim) + shown, indent=0)
    ordered = sorted(section.findings, key=_place)
    for claim in dict.fromkeys(finding.claim for finding in ordered):
        judged = [finding for finding in ordered if finding.claim == claim]
        _head(console, "Claim")
        _render_claim(claim, console)
        notes = remarks([finding.note for finding in judged])
        for finding, note in zip(judged, notes, strict=True):
            _render_finding(finding, note.words, console)
    if section.others:
        _head(console, "Other lower bounds")
        for other in section.others:
            _item(console, f"epsilon {measured_words(other.bound)}")
    played = [row for row in record.demonstrations if row.target == section.target]
    if played:
        _head(console, "Shown on the running system")
        for row in played:
            _item(console, f"{demonstrations.title(row)}: {demonstrations.outcome(row)}")
            for text in (demonstrations.violation_words(row), demonstrations.control_words(row)):
                print_hanging(console, text, indent=6)
    if section.attacks:
        _head(console, "What attackers got")
        _render_attacks(record, glance, console)
    if line := utility_line(section, record):
        _head(console, "Utility")
        _item(console, line)
        if (more := len(section.utility) - 1) > 0:
            _item(console, f"{counted(more, 'more figure')}: report.md.")
    if section.skipped:
        _head(console, "What did not run")
        for names, reason in _reasons(section.skipped):
            _item(console, f"{names}: {reason}")


def _place(finding: Finding) -> tuple[bool, int, float]:
    """Games of fewer items after what holds of the data, the worst first."""
    return bool(finding.game), *worst_first(finding)


def _render_claim(claim: Claim, console: Console) -> None:
    promised = math.isfinite(claim.epsilon)
    said = f"epsilon {number(claim.epsilon)}, {delta_words(claim.delta)}"
    about = f"for {brief_scope_words(claim.scope)}"
    _part(console, "Claimed", f"{said if promised else 'no epsilon'}, {about}")
    _part(console, "In words", claim.statement)
    _part(console, "Source", claim.source)


def _render_finding(finding: Finding, note: str, console: Console) -> None:
    """A claim judged in one scope, with what no note before said; the counterexample if refuted."""
    asked = asked_words(finding)
    about = f"{brief_scope_words(finding.scope)} ({ADJACENCIES[finding.scope.adjacency]})"
    console.print()
    print_hanging(
        console,
        f"{verdict_words(finding)}: {about}{asked and f'; {asked}'}",
        indent=2,
        style=STYLES[finding.verdict],
    )
    proof, shown = finding.accounted, finding.measured
    _part(
        console, "Proved at most", "nothing" if proof is None else _proved(finding, proof), indent=4
    )
    _part(console, "Shown at least", "nothing" if shown is None else _shown(shown), indent=4)
    for name, text in (("Why", finding.reason), ("Note", note), ("Repair", finding.repair)):
        if text:
            _part(console, name, text, indent=4)
    if shown is not None and finding.verdict in (Verdict.VIOLATED, Verdict.UNSOUND):
        for place, (name, text) in enumerate(witness_words(shown)):
            _part(console, "" if place else "Counterexample", f"{name}: {text}", indent=4)


def _proved(finding: Finding, proof: Bound) -> str:
    endless = math.isinf(proof.epsilon)
    least = "no finite epsilon" if endless else proved_beside_claim(finding)
    return _assuming(f"{least}, {delta_words(proof.delta)} ({proof.source})", proof)


def _shown(bound: Bound) -> str:
    sure = "calculated" if bound.confidence == 1.0 else support_words(bound)
    most = "infinite" if math.isinf(bound.epsilon) else at_least(bound.epsilon)
    return _assuming(f"{most}, {delta_words(bound.delta)}, {sure} ({bound.source})", bound)


def _assuming(said: str, bound: Bound) -> str:
    return ", ".join(filter(None, (said, assumption_words(bound))))


def _render_attacks(record: Contents, glance: Glance, console: Console) -> None:
    """What beats guessing in full, how many figures do not, and how many have no guessing."""
    leaking, tried = glance.leaking, len(comparable(record))
    but = f"; {glance.unseen}" if glance.rows and not leaking else ""
    print_hanging(
        console,
        f"{len(leaking)} of {glance.rows:,} figures beat guessing, corrected for all {tried:,} "
        f"of this audit{but}.",
        indent=2,
    )
    for leak in leaking:
        _item(console, capitalized(got_words(leak.row)))
        print_hanging(console, _leak_words(leak), indent=6)
    beaten = {id(leak.row) for leak in leaking}
    compared = {id(row) for row in comparable(record)}
    others = [row for row in glance.section.attacks if id(row) not in beaten]
    for words, rows in (
        ("do not beat guessing", [row for row in others if id(row) in compared]),
        ("have no figure for guessing", [row for row in others if id(row) not in compared]),
    ):
        if rows:
            counts = Counter(row.attack for row in rows)
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            _item(console, f"{len(rows):,} {words}: {told}.")


def _leak_words(leak: Leak) -> str:
    row = leak.row
    parts = (
        f"{row.attack} ({row.vantage}), {row.metric} {interval_words(row)} confidence, at least "
        f"{brief(leak.low)} corrected, over {row.n:,} {row.subject}",
        f"Guessing: {baseline_words(row)}",
        capitalized(further_words(row)),
        risk_words(row.roc) if row.roc is not None and row.roc.users else "",
        capitalized(row.note),
        f"Source: {row.reference}",
    )
    return " ".join(f"{part.rstrip('.')}." for part in parts if part)


def _reasons(skipped: Sequence[SkippedRow]) -> Iterator[tuple[str, str]]:
    """Each reason once, with the attacks and the parts of them that it holds for."""
    told: dict[str, dict[str, list[str]]] = {}
    for row in skipped:
        part, colon, rest = row.reason.partition(": ")
        alike = sum(other.reason.endswith(f": {rest}") for other in skipped) > 1
        shared = bool(colon) and alike and ". " not in part  # a part is named, no sentence ends
        reason, what = (rest, part) if shared else (row.reason, "")
        told.setdefault(reason, {}).setdefault(row.attack, []).extend([what] if what else [])
    for reason, attacks in told.items():
        names = (
            f"{name} ({'; '.join(parts)})" if parts else name for name, parts in attacks.items()
        )
        yield ", ".join(names), reason


def _head(console: Console, text: str) -> None:
    console.print()
    print_line(console, text, style="bold")


def _item(console: Console, text: str) -> None:
    print_hanging(console, text, "-", indent=2)


def _part(console: Console, name: str, text: str, *, indent: int = 2) -> None:
    """A named text that hangs; the names of a system take as many columns."""
    start = f"{name}:" if name else ""
    print_hanging(console, text, f"{start:<{_LABEL - indent}}", indent=indent)
