"""``auditor reproduce``: the tables of the papers, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.output import spare_output


def command(
    names: Annotated[
        list[str], typer.Argument(help="Names of `auditor list reproductions`, or all.")
    ],
    out: Annotated[Path, typer.Option(help="Where the page is written.")] = Path("reproductions"),
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="Where a data set is, such as ml-1m=PATH."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Only parts with this (or that) in their names: ml-100k."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short trainings and few repetitions: no comparison.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Worker processes. Default: all cores.")] = None,
) -> None:
    """Measure what the papers print: every figure beside ours, with why they differ."""
    from rich.console import Console

    from fedrec_auditor.auditor.plan import make_resources
    from fedrec_auditor.auditor.progress import progress
    from fedrec_auditor.auditor.reproduce import reproduce

    family = FAMILIES["reproductions"]
    chosen = family.names() if names == ["all"] else tuple(dict.fromkeys(names))
    for name in chosen:
        family.check(name)
    places = {}
    for text in data or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InputError(
                f"Expected --data NAME=PATH, got {text!r}. Give for example ml-1m=../ml-1m."
            )
        places[name] = path
    workers = make_resources(jobs, "cpu", None).jobs
    try:
        with progress(Console(stderr=True)) as observe:
            page = reproduce(
                chosen,
                out,
                data=places,
                only=only or (),
                quick=quick,
                jobs=workers,
                observe=observe,
            )
    except KeyboardInterrupt as error:
        raise IncompleteError(
            f"Interrupted. Finished parts are kept in {out}; the same command resumes."
        ) from error
    with spare_output(f"Read {page}."):
        print(f"Written: {page} (also reproductions.json)")
