"""Command ``auditor reproduce``: measures the printed numbers of papers' tables again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedrec_auditor.auditor.commands.options import JobsOption, show_progress
from fedrec_auditor.auditor.machine.output import catch_output_errors
from fedrec_auditor.auditor.plan.families import FAMILIES, check_name, list_reproductions
from fedrec_auditor.auditor.plan.members import parse_pairs


def command(
    names: Annotated[list[str], Argument(help="Names from `auditor list reproductions`, or all.")],
    out: Annotated[Path, Option(help="Directory of results.")] = Path("reproductions"),
    data: Annotated[
        list[str] | None,
        Option(metavar="NAME=PATH", help="Path of the data set NAME, such as ml-1m=PATH."),
    ] = None,
    only: Annotated[
        list[str] | None,
        Option(metavar="TEXT", help="Run only parts whose name contains TEXT. Repeatable."),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Use short trainings, not comparable to the paper.")
    ] = False,
    jobs: JobsOption = None,
) -> None:
    """Measure the printed numbers of papers again, and compare them with the papers."""
    known = list_reproductions()
    chosen = known if names == ["all"] else tuple(dict.fromkeys(names))
    for name in chosen:
        check_name("reproductions", name, known)
    places = parse_pairs("--data NAME=PATH", "ml-1m=../ml-1m", data or ())
    for name in places:
        FAMILIES["datasets"].check_name(name)

    from fedrec_auditor.auditor.run.resources import make_resources
    from fedrec_auditor.reports.record.store import check_can_create_files

    check_can_create_files(out)
    workers = make_resources(jobs, "cpu", None).jobs

    from fedrec_auditor.auditor.reproductions.reproduction import reproduce_papers

    with show_progress(out, "parts") as observe:
        page = reproduce_papers(
            chosen, out, data=places, only=only or (), quick=quick, jobs=workers, observe=observe
        )
    with catch_output_errors(f"Read {page}."):
        print(f"Written: {page} (also reproductions.json)")
