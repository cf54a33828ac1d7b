"""Options that several commands have, each with one name, one type and one help text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.accountants.verdict import INCONCLUSIVE, NOT_ASSESSED, FailOn
from fedrec_auditor.auditor.plan.plan import Plan, amend, check_plan, help_of, option_of, said_of

if TYPE_CHECKING:
    from fedrec_auditor.auditor.machine.progress import Observer


_ONLY_NAMED = inspect.Parameter.KEYWORD_ONLY
_OF_A_TABLE = {
    "separator": (
        str,
        typer.Option(help="For a table: one of , ; | :: tab and space. By default found in it."),
    ),
    "no_header": (
        bool,
        typer.Option(
            "--no-header", help="For a table: the first line is a row; columns are called 1, 2, ..."
        ),
    ),
    "no_quotes": (bool, typer.Option("--no-quotes", help="For a table: quotes are letters.")),
}


class Allowed(StrEnum):
    """What may be allowed to be no failure."""

    INCONCLUSIVE = INCONCLUSIVE
    NOT_ASSESSED = NOT_ASSESSED


Out = Annotated[Path, typer.Option(help="Run directory for the reports.")]
PlanFile = Annotated[Path | None, typer.Option(help="A plan file (TOML).")]
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
        help="Exit with 1 if the verdict is at this level or above. No attack is played: leak, "
        "critical and high are as violated, medium is as unsubstantiated."
    ),
]
LeakMargin = Annotated[
    float,
    typer.Option(help="leak: the share of what guessing leaves open that an attack must win."),
]
Allow = Annotated[
    list[Allowed] | None,
    typer.Option(
        help="Do not exit with 3 for it. inconclusive: a sample too small to refute; not-assessed: "
        "a system whose leak or severity is not known, for a gate on these."
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(help="An earlier report.json: exit with 1 on what got worse only."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the report of another plan in --out.")
]
Sarif = Annotated[Path | None, typer.Option(help="Write what was found for code scanning, too.")]
Junit = Annotated[Path | None, typer.Option(help="Write a test report, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def with_options(
    options: Mapping[str, tuple[Any, Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """What adds options to a command: by name the type of each, and what typer makes it of.

    The command is called with what is given of them as ``said``, a mapping.
    """

    def made(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            said = {name: given.pop(name) for name in options}
            for name, value in list(said.items()):
                if value is None or value is False or value == []:
                    del said[name]
            command(said=said, **given)

        signature = inspect.signature(command, eval_str=True)
        more = [
            inspect.Parameter(
                name, _ONLY_NAMED, default=None, annotation=Annotated[kind | None, form]
            )
            for name, (kind, form) in options.items()
        ]
        own = [each for name, each in signature.parameters.items() if name != "said"]
        vars(called)["__signature__"] = signature.replace(
            parameters=[*more, *(each.replace(kind=_ONLY_NAMED) for each in own)]
        )
        return called

    return made


def planned(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """What adds options for these fields of a plan to a command, as ``Plan`` declares them."""
    options = {name: _option(name) for name in names}
    if "columns" in names:
        options |= _OF_A_TABLE

    def made(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(said: dict[str, Any], **given: Any) -> None:
            for name in _OF_A_TABLE.keys() & said.keys():
                value = said.pop(name)
                of_table = f"{name.removeprefix('no_')}={'no' if value is True else value}"
                said["columns"] = [*said.get("columns", ()), of_table]
            command(said=said, **given)

        return with_options(options)(called)

    return made


def plan_of(file: Path | None, said: Mapping[str, Any]) -> Plan:
    """The plan of a file with what is ``said`` over it, checked before anything heavy is loaded."""
    before = None
    if file is not None:
        from fedrec_auditor.auditor.plan.plan import read_plan

        before = read_plan(file)
    chosen = amend(before, said)
    check_plan(chosen)
    return chosen


def _option(name: str) -> tuple[Any, Any]:
    said, kind = said_of(name), _typed(Plan.model_fields[name].annotation)
    if name == "targets":
        return list[str], typer.Argument(help=help_of(name))
    if said.reads is not None:
        kind = list[str] if kind is dict else str
    return kind, typer.Option(option_of(name), help=help_of(name), metavar=said.metavar)


def _typed(annotation: Any) -> Any:
    """The plain type of an annotation, without None and what is declared of it."""
    options = [each for each in get_args(annotation) if each is not type(None)]
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return _typed(options[0])
    return annotation if origin in (None, Literal) else origin


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
