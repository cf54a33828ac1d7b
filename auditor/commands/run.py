"""``auditor run``: audit targets and leave a report."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import (
    INCOMPLETE,
    LEAK_MARGIN,
    FailOn,
    Gate,
)
from fedrec_auditor.auditor.commands.options import (
    Allow,
    Attacks,
    Baseline,
    Column,
    Data,
    FailAt,
    Force,
    Jobs,
    LeakMargin,
    Memory,
    Out,
    PlanFile,
    Seed,
    Separator,
    columns_of,
    resumable,
)
from fedrec_auditor.auditor.machine.output import spare_output, tell

if TYPE_CHECKING:
    from fedrec_auditor.reports.glance import Glance
    from fedrec_auditor.reports.record import Record


class Only(StrEnum):
    """The one part of an audit that is to be run."""

    CLAIMS = "claims"


class Backend(StrEnum):
    """What runs the workers."""

    LOKY = "loky"
    DASK = "dask"
    RAY = "ray"


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Targets, or `all`; some of each paper if left out. See `auditor list`. Of your "
            "own MODULE:OBJECT."
        ),
    ] = None,
    claim: Annotated[
        Path | None,
        typer.Option(help="Of a system of your own, MODULE:OBJECT: a file of its claims (TOML)."),
    ] = None,
    plan: PlanFile = None,
    data: Data = None,
    out: Out = Path("audit"),
    jobs: Jobs = None,
    column: Column = None,
    separator: Separator = None,
    min_user: Annotated[
        int | None, typer.Option(help="Only users with so many interactions or more.")
    ] = None,
    min_item: Annotated[
        int | None, typer.Option(help="Only items with so many interactions or more.")
    ] = None,
    min_rating: Annotated[
        float | None, typer.Option(help="Only ratings of so much or more count as interactions.")
    ] = None,
    seed: Seed = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples and repetitions.")] = False,
    attacks: Attacks = None,
    games: Annotated[
        str | None,
        typer.Option(help="local, round, training, one-run; several by commas. Default local."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs of each world of a round or a training game."),
    ] = None,
    population: Annotated[
        str | None,
        typer.Option(help="Users and items of such a game. Default 24x32."),
    ] = None,
    canaries: Annotated[
        int | None,
        typer.Option(help="Canaries of a one-run game. Default 1000, or 2 a user if fewer."),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(help="What turns samples into bounds. See `auditor list estimators`."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="In round and training games: bound what this attack's score tells."),
    ] = None,
    only: Annotated[
        Only | None,
        typer.Option(help="claims: show each violated claim on its target; needs no data."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Where clients are simulated, as torch names it: cpu, cuda.")
    ] = "cpu",
    memory: Memory = None,
    backend: Annotated[
        Backend, typer.Option(help="What runs the workers: this machine, or a cluster.")
    ] = Backend.LOKY,
    address: Annotated[
        str | None,
        typer.Option(help="Of the cluster: tcp://HOST:8786 for dask; for ray not needed on it."),
    ] = None,
    fail_on: FailAt = FailOn.VIOLATED,
    leak_margin: LeakMargin = LEAK_MARGIN,
    allow: Allow = None,
    baseline: Baseline = None,
    force: Force = False,
) -> None:
    """Audit targets: claims against proofs, exact bounds, measurements and attacks."""
    from fedrec_auditor.auditor.plan.plan import amend
    from fedrec_auditor.auditor.plan.plan_file import read_plan
    from fedrec_auditor.auditor.plan.stated_claim import read_claims
    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.auditor.run.runner import run_plan
    from fedrec_auditor.reports.record import Record

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    said = {
        "targets": tuple(targets) if targets else None,
        "data": data,
        "columns": columns_of(column, separator),
        "min_user": min_user,
        "min_item": min_item,
        "min_rating": min_rating,
        "seed": seed,
        "quick": quick or None,
        "attacks": None if attacks is None else tuple(attacks.split(",")),
        "games": None if games is None else tuple(games.split(",")),
        "runs": runs,
        "population": None if population is None else population_size(population),
        "canaries": canaries,
        "estimator": estimator,
        "by": by,
        "only": None if only is None else str(only),
        "claims": None if claim is None else read_claims(claim),
    }
    _refuse_data(only, said)
    chosen = amend(None if plan is None else read_plan(plan), said)
    resources = make_resources(jobs, device, memory, backend, address)
    gate = Gate(fail_on, tuple(allow or ()), leak_margin)
    before = None if baseline is None else Record.read(baseline)
    with resumable(out) as observe:
        record = run_plan(chosen, resources, out=out, gate=gate, observe=observe, force=force)
    show(record, out, gate, before)


def show(record: Record, out: Path, gate: Gate, baseline: Record | None = None) -> NoReturn:
    """Show a record, say where its reports are, and exit with its code."""
    from rich.console import Console

    from fedrec_auditor.auditor.run.checkpoints import FOLDER
    from fedrec_auditor.reports import store, terminal

    if record.errors:
        tell(
            f"Finished tasks are kept in {out / FOLDER}. The same command runs what failed again; "
            f"remove {out / FOLDER} to start afresh."
        )
    with spare_output(f"Read {out / 'report.md'}."):
        console = Console()
        terminal.render(record, console)
        terminal.render_gate(record, gate, baseline, console)
        first, *others = store.FILES
        console.out(f"Report: {out / first} (also {', '.join(others)})", highlight=False)
        terminal.render_pointer(record, out, console)
    raise typer.Exit(exit_code(record, gate, baseline))


def exit_code(record: Record, gate: Gate, baseline: Record | None = None) -> int:
    """3 for a failed piece, else what ``gate`` says of the findings, of leaks and severities.

    With a ``baseline`` 1 is for what got worse since then only, and 3 if nothing is in both.
    """
    from fedrec_auditor.reports.comparison import Comparison
    from fedrec_auditor.reports.glance import gated

    if record.errors:
        return INCOMPLETE
    failing: bool | None = None
    unknown: tuple[Glance, ...] = ()
    if baseline is not None:
        compared = Comparison.of(record, baseline, gate)
        failing = bool(compared.worse)
        if not (failing or compared.shared):
            return INCOMPLETE
    else:
        failed, unknown = gated(record, gate)
        failing = True if failed else None
    code = gate.code((finding.verdict for finding in record.findings), failing=failing)
    return INCOMPLETE if unknown and not code else code


def _refuse_data(only: Only | None, said: dict[str, Any]) -> None:
    """InputError if data are chosen where none are read."""
    options = {
        "data": "--data",
        "columns": "--column",
        "min_user": "--min-user",
        "min_item": "--min-item",
        "min_rating": "--min-rating",
    }
    given = [option for key, option in options.items() if said[key] is not None]
    if only is not None and given:
        raise InputError(
            f"Expected no {', '.join(given)} with --only {only}, which reads no data. Leave it out."
        )


def population_size(text: str) -> tuple[int, int]:
    """``USERSxITEMS`` as two numbers; InputError if it is not of this form."""
    users, _, items = text.partition("x")
    if not (users.isdecimal() and items.isdecimal()):
        raise InputError(
            f"Expected --population USERSxITEMS, got {text!r}. Give for example 24x32."
        )
    return int(users), int(items)
