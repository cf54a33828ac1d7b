"""``auditor record``: write what crosses in a training, for attacks at another time or place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.auditor.commands.options import (
    Column,
    Data,
    Memory,
    PlanFile,
    Seed,
    Separator,
    columns_of,
)
from fedrec_auditor.auditor.machine.output import spare_output


def command(
    target: Annotated[str, typer.Argument(help="A target (`auditor list`), or module:object.")],
    out: Annotated[Path, typer.Option(help="A new directory for the recording.")],
    plan: PlanFile = None,
    data: Data = None,
    column: Column = None,
    separator: Separator = None,
    with_truth: Annotated[
        bool, typer.Option("--with-truth", help="Write the ratings that were trained on, too.")
    ] = False,
    seed: Seed = None,
    quick: Annotated[bool, typer.Option("--quick", help="Train for 20 rounds at most.")] = False,
    memory: Memory = None,
) -> None:
    """Record a training: every message, who sent it, and the models, for `auditor attack`."""
    from fedrec_auditor.auditor.own.recorded_uploads import record_plan
    from fedrec_auditor.auditor.plan.plan import amend
    from fedrec_auditor.auditor.plan.plan_file import read_plan
    from fedrec_auditor.auditor.run.resources import make_resources

    said = {
        "targets": (target,),
        "data": data,
        "columns": columns_of(column, separator),
        "seed": seed,
        "quick": quick or None,
        "games": ("local",),
    }
    chosen = amend(None if plan is None else read_plan(plan), said)
    record_plan(chosen, make_resources(1, "cpu", memory), out, with_truth=with_truth)
    truth = "with the truth" if with_truth else "without the truth"
    with spare_output(f"The recording is in {out}."):
        print(f"Recorded {target} to {out}, {truth}. Attack it with `auditor attack {out}`.")
