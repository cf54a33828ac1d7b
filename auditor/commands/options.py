"""Options that several commands have, each with one name, one type and one help text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.accountants.verdict import INCONCLUSIVE, NOT_ASSESSED, FailOn
from fedrec_auditor.auditor.plan.plan import Plan, amend, check_plan, help_of, option_of, said_of

if TYPE_CHECKING:
    from fedrec_auditor.auditor.machine.progress import Observer


class Extra(NamedTuple):
    """An option that a command hands on where it is given: its type, and typer's form of it."""

    kind: Any
    form: Any


def extra(kind: Any, help: str, *, name: str | None = None, metavar: str | None = None) -> Extra:
    """An option of this type; its name is that of the parameter unless there is another."""
    return Extra(kind, typer.Option(*filter(None, (name,)), help=help, metavar=metavar))


_OF_A_TABLE = {
    "separator": extra(str, "For a table: one of , ; | :: tab and space. By default found in it."),
    "no_header": extra(
        bool,
        "For a table: the first line is a row; columns are called 1, 2, ...",
        name="--no-header",
    ),
    "no_quotes": extra(bool, "For a table: quotes are letters.", name="--no-quotes"),
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
    options: Mapping[str, Extra],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds options to a command, in the place of its parameter ``said``.

    The command is called with a mapping of those that are given.
    """

    def made(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            said = {name: given.pop(name) for name in options}
            for name, value in list(said.items()):
                if value is None or value is False or value == []:  # 0 is given
                    del said[name]
            for name in _OF_A_TABLE.keys() & said.keys():  # said as columns are
                value = said.pop(name)
                text = f"{name.removeprefix('no_')}={'no' if value is True else value}"
                said["columns"] = [*said.get("columns", ()), text]
            command(said=said, **given)

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for name, own in signature.parameters.items():
            if name != "said":
                parameters.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            for more, (kind, form) in options.items():
                parameters.append(
                    inspect.Parameter(
                        more,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=Annotated[kind | None, form],
                    )
                )
        vars(called)["__signature__"] = signature.replace(parameters=parameters)
        return called

    return made


def planned(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds options for these fields of a plan, as ``Plan`` declares them."""
    options = {name: _option(name) for name in names}
    return with_options(options | _OF_A_TABLE if "columns" in names else options)


def plan_of(file: Path | None, said: Mapping[str, Any]) -> Plan:
    """The plan of a file with what is ``said`` over it, checked before anything heavy is loaded."""
    before = None
    if file is not None:
        from fedrec_auditor.auditor.plan.plan import read_plan

        before = read_plan(file)
    chosen = amend(before, said)
    check_plan(chosen)
    return chosen


def _option(name: str) -> Extra:
    said, kind = said_of(name), _typed(Plan.model_fields[name].annotation)
    if name == "targets":
        return Extra(list[str], typer.Argument(help=help_of(name)))
    if said.reads is not None:
        kind = list[str] if kind is dict else str
    return extra(kind, help_of(name), name=option_of(name), metavar=said.metavar)


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
