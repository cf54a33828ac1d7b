"""Findings without attacks: what each verdict means, then its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.reports.catalogue_words import judged_words
from fedrec_auditor.reports.paragraph import paragraph, width_of
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import worst_first
from fedrec_auditor.reports.terminal import print_line, print_text
from fedrec_auditor.reports.words import (
    STYLES,
    assumption_words,
    delta_words,
    flag_words,
    number,
    printable,
    scope_words,
    support_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

_CLAIM = ("Claimed", "Stated")
_HANG = 10
"""Columns of the longest name of a finding's parts, and blanks."""


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print what is found of a target, the worst first; elsewhere than on a terminal a line each.

    The sentence that says what the verdict means comes first, then the numbers and the scope.
    """
    for finding in sorted(findings, key=worst_first):
        if console.is_terminal:
            head, *lines = told(finding, width_of(console))
            print_text(console, head, style=STYLES[finding.verdict] or "bold")
            print_text(console, "\n".join((*lines, "")))
        else:
            parts = "; ".join(f"{label.lower()} {text}" for label, text in _parts(finding))
            name, word = printable(finding.target), _word(finding)
            print_line(console, f"{name}: {word}. {judged_words(finding)} {parts}")


def told(finding: Finding, width: int, *, claimed: bool = True) -> list[str]:
    """A finding in paragraphs of ``width`` columns; with what is ``claimed``, or else without."""
    said = judged_words(finding)
    parts = [(label, text) for label, text in _parts(finding) if claimed or label not in _CLAIM]
    return [
        paragraph(f"{finding.target} {_word(finding)}", width, hang=2),
        paragraph(said, width, indent=2),
        *(paragraph(text, width, label=label, indent=2, hang=_HANG) for label, text in parts),
    ]


def _word(finding: Finding) -> str:
    return ", ".join(filter(None, (finding.verdict, flag_words(finding))))


def _parts(finding: Finding) -> Iterator[tuple[str, str]]:
    claim, scope, proof, shown = finding.claim, finding.scope, finding.accounted, finding.measured
    promised = math.isfinite(claim.epsilon)
    said = f"{claim.statement} ({claim.source})"
    if promised:
        yield "Claimed", f"≤ {_at(claim.epsilon, claim.delta)}: {said}"
    else:
        yield "Stated", said
    if proof is not None:
        yield "Proved", f"≤ {_at(proof.told, proof.delta)}, by {proof.source}"
    if shown is not None:
        said = f"≥ {_at(shown.told, shown.delta)}, {support_words(shown)}, by {shown.source}"
        how = "Computed" if shown.samples is None else "Measured"
        yield how, ", ".join(filter(None, (said, assumption_words(shown))))
    asked, stated = scope_words(scope).split(", "), scope_words(claim.scope).split(", ")
    other = ", ".join(part for part in stated if promised and part not in asked)
    yield "Scope", f"{', '.join(asked)}" + (f" (the claim says: {other})" if other else "")
    if finding.note:
        yield "Note", finding.note


def _at(epsilon: float, delta: float) -> str:
    return f"{number(epsilon)} at {delta_words(delta)}"
