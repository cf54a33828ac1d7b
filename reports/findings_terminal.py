"""Findings without attacks in the terminal: what is claimed, proved and shown of one target."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.reports.document import Passage
from fedrec_auditor.reports.document_terminal import write_part
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import worst_first
from fedrec_auditor.reports.system_document import claim_parts

if TYPE_CHECKING:
    from rich.console import Console


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print what is found of targets, claim by claim, the worst first."""
    _print_findings(sorted(findings, key=worst_first), console)


def findings_text(findings: Sequence[Finding], width: int) -> str:
    """The same in their own order, in lines of ``width`` columns where words permit."""
    from rich.console import Console

    file = io.StringIO()
    _print_findings(
        findings, Console(file=file, width=width, force_terminal=True, color_system=None)
    )
    return file.getvalue().rstrip("\n")


def _print_findings(findings: Sequence[Finding], console: Console) -> None:
    for target in dict.fromkeys(finding.target for finding in findings):
        judged = [(finding, "") for finding in findings if finding.target == target]
        whole = Passage(target, tuple(claim_parts(judged, plain=True)))
        write_part(whole, console)
