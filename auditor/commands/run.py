"""Command ``auditor run``: audits federated recommenders (targets) and writes a report."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from typer import Exit, Option

from fedrec_auditor.accountants.verdict import DEFAULT_LEAK_MARGIN, FailOn, Gate
from fedrec_auditor.auditor.commands.options import (
    AllowOption,
    BaselineOption,
    FailOnOption,
    ForceOption,
    JobsOption,
    LeakMarginOption,
    MemoryOption,
    OutOption,
    PlanFileOption,
    WaiverOption,
    add_plan_options,
    load_plan,
    make_gate,
    show_progress,
)
from fedrec_auditor.auditor.machine.output import catch_output_errors, print_message
from fedrec_auditor.auditor.plan.plan import Plan

if TYPE_CHECKING:
    from fedrec_auditor.reports.record.record import Record


@add_plan_options(*Plan.model_fields)
def command(
    options: dict[str, Any],
    plan: PlanFileOption = None,
    out: OutOption = Path("audit"),
    jobs: JobsOption = None,
    device: Annotated[
        str, Option(help="Torch device on which clients are simulated: cpu or cuda.")
    ] = "cpu",
    memory: MemoryOption = None,
    backend: Annotated[
        Literal["loky", "dask", "ray"],
        Option(help="Place of worker processes: loky for this machine; dask or ray cluster."),
    ] = "loky",
    address: Annotated[
        str | None,
        Option(help="Address of a dask scheduler, tcp://HOST:8786, or of a ray cluster."),
    ] = None,
    fail_on: FailOnOption = FailOn.VIOLATED,
    leak_margin: LeakMarginOption = DEFAULT_LEAK_MARGIN,
    allow: AllowOption = None,
    waivers: WaiverOption = None,
    baseline: BaselineOption = None,
    force: ForceOption = False,
) -> None:
    """Audit targets: test their claims by proofs, bounds and measurements, and run attacks."""
    chosen = load_plan(plan, options)

    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports.record.record import Record
    from fedrec_auditor.reports.record.store import check_can_create_files

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    gate = make_gate(fail_on, allow, waivers, leak_margin)
    earlier = None if baseline is None else Record.read(baseline)
    check_can_create_files(out)
    resources = make_resources(jobs, device, memory, backend, address)

    from fedrec_auditor.auditor.plan.planned_data import load_planned_data

    data = load_planned_data(chosen)

    from fedrec_auditor.auditor.run.runner import run_plan

    with show_progress(out) as observe:
        record = run_plan(
            chosen, resources, out=out, gate=gate, observe=observe, interactions=data, force=force
        )
    print_and_exit(record, out, gate, earlier)


def print_and_exit(
    record: Record, out: Path, gate: Gate, baseline: Record | None = None
) -> NoReturn:
    """Prints the results of an audit and the paths of its reports, and exits.

    ``record``: the results.
    ``out``: directory of the reports.
    ``gate``: which findings (verdicts on claims) count as failures, for the exit code.
    ``baseline``: results of an earlier audit for comparison, or None.
    """
    from fedrec_auditor.auditor.run.checkpoints import TASKS_FOLDER
    from fedrec_auditor.reports.record import store
    from fedrec_auditor.reports.record.record import GateOutcome
    from fedrec_auditor.reports.say import make_printable
    from fedrec_auditor.reports.writers import terminal

    outcome = GateOutcome.evaluate_gate(record, gate, baseline)
    if record.errors:
        print_message(
            f"Finished tasks are kept in {out / TASKS_FOLDER}. The same command runs what failed "
            f"again; remove {out / TASKS_FOLDER} to start afresh."
        )
    first, *others = store.RUN_FILE_NAMES
    with catch_output_errors(f"Read {out / 'report.md'}."):
        written = make_printable(f"Report: {out / first} (also {', '.join(others)})")
        terminal.print_outcome(record, outcome, gate, [written], out)
    raise Exit(outcome.exit_code)
