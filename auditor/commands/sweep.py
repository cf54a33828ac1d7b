"""Command ``auditor sweep``: audits systems over a grid of settings, several times each."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Exit, Option

from fedrec_auditor.auditor.commands.options import (
    ForceOption,
    JobsOption,
    MemoryOption,
    PlanFileOption,
    add_plan_options,
    load_plan,
    show_progress,
)
from fedrec_auditor.auditor.plan.plan import Plan

if TYPE_CHECKING:
    from fedrec_auditor.reports.record.record import Sweep

_FIELDS = tuple(name for name in Plan.model_fields if name != "settings")


@add_plan_options(*_FIELDS)
def command(
    options: dict[str, Any],
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="[TARGET.]NAME=VALUE,VALUE",
            help="Setting and its values. privacy=1,4 multiplies the noise by these factors. "
            "Repeatable.",
        ),
    ] = None,
    along: Annotated[
        Literal["privacy"] | None,
        Option(help="Use 1/16 to 16 times the noise, for systems with a noise setting."),
    ] = None,
    seeds: Annotated[int, Option(min=1, max=1000, help="Number of trainings per setting.")] = 3,
    plan: PlanFileOption = None,
    out: Annotated[Path, Option(help="Directory of results.")] = Path("sweep"),
    jobs: JobsOption = None,
    memory: MemoryOption = None,
    force: ForceOption = False,
) -> None:
    """Audit systems under several settings, to relate utility and leaks to the protection."""
    chosen = load_plan(plan, options)

    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports.record.store import check_can_create_files

    check_can_create_files(out)
    resources = make_resources(jobs, "cpu", memory)

    from fedrec_auditor.auditor.sweep import grid

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    factors = ",".join(grid.NOISE_FACTORS)
    texts = [*(settings or ()), *([f"{grid.PRIVACY_AXIS}={factors}"] if along else ())]
    axes = grid.parse_axes(chosen, texts)
    grid.make_variants(chosen.model_copy(update={"targets": chosen.resolve().targets}), axes, seeds)

    from fedrec_auditor.auditor.sweep.sweep import run_sweep

    with show_progress(out) as observe:
        swept = run_sweep(chosen, axes, seeds, resources, out=out, observe=observe, force=force)
    print_sweep(swept, out)


def print_sweep(swept: Sweep, out: Path) -> None:
    """Prints the results of a sweep for every system and setting, and the paths of the files.

    Exits with 3 if there are errors.
    """
    from rich.console import Console

    from fedrec_auditor.accountants.verdict import INCOMPLETE
    from fedrec_auditor.reports.record.record import SWEEP_FILES
    from fedrec_auditor.reports.writers.terminal import print_sweep_tables

    console = Console()
    print_sweep_tables(swept, console)
    first, *others = SWEEP_FILES
    console.out(f"Sweep: {out / first} (also {', '.join(others)})", highlight=False)
    if swept.errors:
        raise Exit(INCOMPLETE)
