"""``auditor compare``: what changed between two runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.verdict import INCOMPLETE, NOT_ASSESSED
from fedrec_auditor.auditor.commands.options import Allow, AsJson


def command(
    before: Annotated[Path, typer.Argument(help="The earlier run, or its report.json.")],
    now: Annotated[Path, typer.Argument(help="The later run, or its report.json.")],
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Compare two audits; exit with 1 if a verdict, epsilon or attack is worse in the later one.

    Exits with 3 if nothing is worse, but one audit was not completed, the audits have no claim in
    common (or, without claims, no attack), or a system of the later one was not assessed.

    Compares verdicts, lower and upper bounds on epsilon, results of attacks and utility, beyond
    noise; and the systems, claims, settings, versions and data that differ.
    """
    from rich.console import Console

    from fedrec_auditor.reports.record.comparison import Comparison
    from fedrec_auditor.reports.record.record import Record
    from fedrec_auditor.reports.record.store import plain
    from fedrec_auditor.reports.writers.terminal import render_comparison

    baseline, record = Record.read(before), Record.read(now)
    compared = Comparison.of(record, baseline)
    if as_json:
        print(json.dumps(plain(dataclasses.asdict(compared)), indent=2))
    else:
        render_comparison(compared, Console())
    unknown = compared.unassessed and NOT_ASSESSED not in (allow or ())
    raise typer.Exit(compared.code or (INCOMPLETE if unknown else 0))
