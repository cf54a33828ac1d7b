"""Command ``auditor record``: writes all messages of a training to a directory, for later
attacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from fedrec_auditor.auditor.commands.options import (
    MemoryOption,
    PlanFileOption,
    add_plan_options,
    load_plan,
)
from fedrec_auditor.auditor.machine.output import catch_output_errors
from fedrec_auditor.auditor.plan.plan import DATA_FIELDS


@add_plan_options(*DATA_FIELDS, "settings", "seed", "quick")
def command(
    options: dict[str, Any],
    target: Annotated[str, Argument(help="Target (`auditor list`), or MODULE:OBJECT.")],
    out: Annotated[Path, Option(help="New directory for the recording.")],
    plan: PlanFileOption = None,
    with_truth: Annotated[
        bool, Option("--with-truth", help="Also write the training data.")
    ] = False,
    memory: MemoryOption = None,
) -> None:
    """Record a training for `auditor attack`: all messages, their senders, and the models."""
    chosen = load_plan(plan, {**options, "targets": target, "games": ("local",)})

    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports.record.store import check_can_create_files

    check_can_create_files(out)
    resources = make_resources(1, "cpu", memory)

    from fedrec_auditor.auditor.own.recorded_uploads import record_training

    record_training(chosen, resources, out, with_truth=with_truth)
    truth = "with the truth" if with_truth else "without the truth"
    with catch_output_errors(f"The recording is in {out}."):
        print(f"Recorded {target} to {out}, {truth}. Attack it with `auditor attack {out}`.")
