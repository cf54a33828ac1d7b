"""Findings without attacks: what each verdict means, then its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.reports.catalogue_words import judged_words
from fedrec_auditor.reports.paragraph import print_paragraph
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import worst_first
from fedrec_auditor.reports.terminal import print_line
from fedrec_auditor.reports.words import (
    STYLES,
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

_HANG = 10
"""Columns of the longest name of a finding's parts, and blanks."""


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print what is found of a target, the worst first; elsewhere than on a terminal a line each.

    The sentence that says what the verdict means comes first, then the numbers and the scope.
    """
    for finding in sorted(findings, key=worst_first):
        said = judged_words(finding)
        word = ", ".join(filter(None, (finding.verdict, flag_words(finding))))
        parts = list(_parts(finding))
        name = printable(finding.target)
        if not console.is_terminal:
            told = "; ".join(f"{label.lower()} {text}" for label, text in parts)
            print_line(console, f"{name}: {word}. {said} {told}")
            continue
        print_line(console, f"{name} {word}", style=STYLES[finding.verdict] or "bold")
        print_paragraph(said, console, indent=2)
        for label, text in parts:
            print_paragraph(text, console, label=label, indent=2, hang=_HANG)
        console.print()


def _parts(finding: Finding) -> Iterator[tuple[str, str]]:
    claim, scope, proof, shown = finding.claim, finding.scope, finding.accounted, finding.measured
    yield "Claimed", f"≤ {_at(claim.epsilon, claim.delta)}: {claim.statement} ({claim.source})"
    if proof is not None:
        yield "Proved", f"≤ {_at(proof.told, proof.delta)}, by {proof.source}"
    if shown is not None:
        said = f"≥ {_at(shown.told, shown.delta)}, {support_words(shown)}, by {shown.source}"
        yield "Computed" if shown.samples is None else "Measured", said
    asked, stated = scope_words(scope).split(", "), scope_words(claim.scope).split(", ")
    other = ", ".join(part for part in stated if part not in asked)
    yield "Scope", f"{', '.join(asked)}" + (f" (the claim says: {other})" if other else "")


def _at(epsilon: float, delta: float) -> str:
    return f"{number(epsilon)} at {delta_words(delta)}"
