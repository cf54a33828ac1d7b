"""Command ``auditor attack``: runs attacks on recorded uploads of clients."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from fedrec_auditor.accountants.verdict import DEFAULT_LEAK_MARGIN, FailOn
from fedrec_auditor.auditor.commands.options import (
    AllowOption,
    BaselineOption,
    FailOnOption,
    ForceOption,
    JobsOption,
    LeakMarginOption,
    MemoryOption,
    OutOption,
    WaiverOption,
    add_plan_options,
    make_gate,
    show_progress,
)
from fedrec_auditor.auditor.commands.run import print_and_exit
from fedrec_auditor.auditor.plan.plan import SIDE_TABLE_FIELDS, amend_plan


@add_plan_options("columns", *SIDE_TABLE_FIELDS, "attacks", "claims", "seed", "confidence", "quick")
def command(
    options: dict[str, Any],
    recording: Annotated[Path, Argument(help="Directory of a recording.")],
    truth: Annotated[
        str | None, Option(help="True data of the senders: name of a data set, or a path.")
    ] = None,
    senders: Annotated[
        Path | None, Option(help="CSV file with columns sender,user, for pseudonyms.")
    ] = None,
    client: Annotated[
        str | None, Option(help="Code of the clients: MODULE:OBJECT, or name of a target.")
    ] = None,
    out: OutOption = Path("attack"),
    jobs: JobsOption = None,
    memory: MemoryOption = None,
    fail_on: FailOnOption = FailOn.VIOLATED,
    leak_margin: LeakMarginOption = DEFAULT_LEAK_MARGIN,
    allow: AllowOption = None,
    waivers: WaiverOption = None,
    baseline: BaselineOption = None,
    force: ForceOption = False,
) -> None:
    """Run all suitable attacks on recorded uploads, and compare guesses with the truth."""
    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports.record.record import Record
    from fedrec_auditor.reports.record.store import check_can_create_files

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    gate = make_gate(fail_on, allow, waivers, leak_margin)
    before = None if baseline is None else Record.read(baseline)
    amend_plan(None, options).resolve()
    make_resources(jobs, "cpu", memory)
    check_can_create_files(out)

    from fedrec_auditor.targets.recorded.recording import Manifest

    Manifest.read(recording)

    from fedrec_auditor.auditor.own.recorded_uploads import attack_recording

    with show_progress(out) as observe:
        record = attack_recording(
            recording,
            truth=truth,
            senders=senders,
            client=client,
            **options,
            out=out,
            jobs=jobs,
            memory=memory,
            gate=gate,
            progress=observe,
            force=force,
        )
    print_and_exit(record, out, gate, before)
