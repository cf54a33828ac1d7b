"""Options that several commands have, each with one name, one type and one help text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.accountants.verdict import INCONCLUSIVE, FailOn

if TYPE_CHECKING:
    from fedrec_auditor.auditor.machine.progress import Observer


class Allowed(StrEnum):
    """What may be allowed to be no failure."""

    INCONCLUSIVE = INCONCLUSIVE


Out = Annotated[Path, typer.Option(help="Run directory for the reports.")]
PlanFile = Annotated[Path | None, typer.Option(help="A plan file (TOML).")]
Data = Annotated[
    str | None,
    typer.Option(help="A data set (`auditor list datasets`) or a path. Default ml-100k."),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        help="For a table: user=COLUMN, item=, rating= or timestamp=; zeros=rating if a rating of "
        "0 is one like any other; repeatable."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(help="For a table: one of , ; | :: and tab. By default found in its header."),
]
Attacks = Annotated[
    str | None,
    typer.Option(help="Attacks (`auditor list attacks`), several by commas. Default all."),
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random. Default 0.")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; all cores if left out.")]
Memory = Annotated[
    float | None,
    typer.Option(help="GiB that it may take, all workers together; the machine's if left out."),
]
FailAt = Annotated[
    FailOn,
    typer.Option(
        help="Exit with 1 on such a finding; leak, critical, high, medium: on such a system."
    ),
]
FailAtVerdict = Annotated[
    FailOn,
    typer.Option(
        help="Exit with 1 if the verdict is at this level or above; leak, as violated, and no "
        "severity: no attack is played."
    ),
]
LeakMargin = Annotated[
    float,
    typer.Option(help="leak: by how much an attack must beat guessing without the uploads."),
]
Allow = Annotated[
    list[Allowed] | None,
    typer.Option(help="inconclusive: exit with 3 for no sample that is too small."),
]
Baseline = Annotated[
    Path | None,
    typer.Option(help="An earlier report.json: exit with 1 on what got worse only."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the report of another plan in --out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def columns_of(columns: list[str] | None, separator: str | None) -> dict[str, str] | None:
    """``name=column`` pairs and the separator as a mapping; InputError if one is no pair."""
    found = pairs("--column name=column", "--column user=user_id", columns)
    return found | ({"separator": separator} if separator else {}) or None


def pairs(form: str, example: str, given: list[str] | None) -> dict[str, str]:
    """Texts ``name=value`` as a mapping; InputError, with the option's form, if one is no pair."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"Expected {form}, got {text!r}. Give for example {example}.")
        found[name] = value
    return found


@contextmanager
def resumable(out: Path, kept: str = "tasks") -> Iterator[Observer]:
    """Give an observer that shows progress on standard error, and say on Ctrl-C what is kept."""
    from rich.console import Console

    from fedrec_auditor.auditor.machine.progress import show

    try:
        with show(Console(stderr=True)) as observe:
            yield observe
    except KeyboardInterrupt as error:
        raise IncompleteError(
            f"Interrupted. Finished {kept} are kept in {out}; the same command resumes."
        ) from error
