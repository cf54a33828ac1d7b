"""summary.md: a line a system, the worst first, for the summary page of a CI job and for grep."""

from __future__ import annotations

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import Section, gain, sections, severity, summary
from fedrec_auditor.reports.words import brief, legal, number, percent

MOST_LINES = 40
_FIRST = (Verdict.UNSOUND, Verdict.VIOLATED)
_TRUTH = {
    Verdict.UNSOUND: "contradicts our own proof",
    Verdict.VIOLATED: "false",
    Verdict.INCONCLUSIVE: "not tested by so small a sample",
    Verdict.UNSUBSTANTIATED: "unproved",
    Verdict.CONSISTENT: "proved, not refuted",
    Verdict.NO_CLAIM: "none",
    Verdict.INCOMPARABLE: "not judged in its own scope",
}
"""What a verdict says of a claim, in a word or few. A claim is never called true."""
_MARKUP = str.maketrans({"<": "‹", ">": "›", "|": "¦", "`": "'", "[": "(", "]": ")"})
"""What Markdown would obey, as what it would not; an HTML entity would be no word to grep for."""


def render(record: Record) -> str:
    """At most 40 lines; each system's names its claim, its worst attack, and the report."""
    head = ["# Privacy audit", "", f"**{summary(record)}** Details: report.md.", ""]
    tail = [f"- NOT COMPLETED: {_plain(error)}" for error in record.errors]
    tail = [*tail[:5], *([f"- {len(tail) - 5:,} more errors."] if len(tail) > 5 else [])]
    if tail:
        tail = ["", *tail]
    cut = sorted(enumerate(sections(record), 1), key=lambda numbered: _order(numbered[1]))
    room = MOST_LINES - len(head) - len(tail)
    lines = [f"{_line(section)} [report](report.html#target-{n})" for n, section in cut]
    if len(lines) > room:
        lines = [*lines[: room - 1], f"- {len(lines) - room + 1:,} more systems in report.md."]
    return "\n".join([*head, *(lines or ["- No system was audited."]), *tail]) + "\n"


def _order(section: Section) -> tuple[int, float, tuple[int, float]]:
    """Contradictions and refuted claims first; then by what attacks gain, claim or none."""
    finding, worst = section.headline_finding, section.worst
    if finding is None:
        return len(_FIRST), -gain(worst) if worst else 0.0, (len(Verdict), 0.0)
    tier = _FIRST.index(finding.verdict) if finding.verdict in _FIRST else len(_FIRST)
    return tier, -gain(worst) if worst else 0.0, severity(finding)


def _line(section: Section) -> str:
    return f"- {_plain(section.target)}: claim {_claim(section)}; {_attack(section)}"


def _claim(section: Section) -> str:
    finding = section.headline_finding
    if finding is None:
        return "not judged"
    said = _TRUTH[finding.verdict]
    if finding.verdict is Verdict.NO_CLAIM:
        return said
    text = f"{said} ({finding.verdict}): epsilon {number(finding.claim.epsilon)} claimed"
    if finding.measured is not None:
        sure = finding.measured.confidence
        how = "exactly" if sure == 1.0 else f"at {percent(sure)} confidence"
        text += f", at least {number(finding.measured.epsilon)} shown {how}"
    return text


def _attack(section: Section) -> str:
    worst = section.worst
    if worst is None:
        return "no attack ran"
    base = "with no baseline" if worst.baseline is None else f"against {brief(worst.baseline)}"
    return _plain(
        f"{worst.attack} gets {worst.metric} {brief(worst.value)} {base}"
        + ("" if worst.baseline is None else " guessed")
    )


def _plain(text: str) -> str:
    """``text`` on one line, with nothing that Markdown or HTML would obey."""
    return " ".join(legal(text).translate(_MARKUP).split())
