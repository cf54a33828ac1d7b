"""summary.md: a line a system, the worst first, for the summary page of a CI job and for grep."""

from __future__ import annotations

from fedrec_auditor.reports.glance import glances, summary
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.words import legal

MOST_LINES = 40
_MARKUP = str.maketrans({"<": "‹", ">": "›", "|": "¦", "`": "'", "[": "(", "]": ")"})
"""What Markdown would obey, as what it would not; an HTML entity would be no word to grep for."""


def render(record: Contents) -> str:
    """At most 40 lines; each system's is that of ``Glance``, with the place of its page."""
    head = ["# Privacy audit", "", f"**{summary(record)}** Details: report.md.", ""]
    tail = [f"- NOT COMPLETED: {_plain(error)}" for error in record.errors]
    tail = [*tail[:5], *([f"- {len(tail) - 5:,} more errors."] if len(tail) > 5 else [])]
    if tail:
        tail = ["", *tail]
    room = MOST_LINES - len(head) - len(tail)
    lines = [
        f"{line} [report](report.html#{each.anchor})"
        for each, line in zip(glances(record), system_lines(record), strict=True)
    ]
    if len(lines) > room:
        lines = [*lines[: room - 1], f"- {len(lines) - room + 1:,} more systems in report.md."]
    return "\n".join([*head, *(lines or ["- No system was audited."]), *tail]) + "\n"


def system_lines(record: Contents) -> list[str]:
    """A line a system, the worst first."""
    return [f"- {_plain(each.line)}" for each in glances(record)]


def _plain(text: str) -> str:
    """``text`` on one line, with nothing that Markdown or HTML would obey."""
    return " ".join(legal(text).translate(_MARKUP).split())
