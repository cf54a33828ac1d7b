"""Command ``auditor compare``: shows the differences between the results of two audits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from fedrec_auditor.accountants.verdict import INCOMPLETE, Exemption, FailOn
from fedrec_auditor.auditor.commands.options import AllowOption, JsonOption, WaiverOption, make_gate


def command(
    before: Annotated[Path, Argument(help="Directory of the earlier run, or report.json.")],
    now: Annotated[Path, Argument(help="Directory of the later run, or report.json.")],
    allow: AllowOption = None,
    waivers: WaiverOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs, and exit with 1 if a verdict, an epsilon or an attack is worse.

    Exits with 3 if nothing is worse, in these cases:

    - a run was not completed;
    - the runs have no claim in common or, without claims, no attack;
    - a system of the later run was not assessed.

    Reports differences beyond noise in verdicts, bounds on epsilon, results of attacks and utility.
    Also reports which systems, claims, settings, versions and data differ.
    """
    from rich.console import Console

    from fedrec_auditor.reports.record.comparison import Comparison
    from fedrec_auditor.reports.record.record import Record
    from fedrec_auditor.reports.record.store import to_json
    from fedrec_auditor.reports.record.waivers import describe_waivers
    from fedrec_auditor.reports.writers.paragraph import print_paragraphs
    from fedrec_auditor.reports.writers.terminal import print_comparison

    baseline, record = Record.read(before), Record.read(now)
    gate = make_gate(FailOn.VIOLATED, allow, waivers)
    compared = Comparison.compare(record, baseline, gate)
    if as_json:
        print(json.dumps(to_json(dataclasses.asdict(compared)), indent=2))
    else:
        print_paragraphs(console := Console(), describe_waivers(record, gate), "waiver:", "yellow")
        print_comparison(compared, console)
    unknown = compared.unassessed and not gate.allows(Exemption.NOT_ASSESSED)
    raise Exit(gate.apply_expired_waivers(compared.exit_code or (INCOMPLETE if unknown else 0)))
