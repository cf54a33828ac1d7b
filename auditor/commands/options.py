"""Options shared by several commands: name, type and help text of each."""

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
from fedrec_auditor.auditor.plan.plan import (
    Plan,
    amend,
    check_plan,
    help_of,
    option_of,
    option_of_field,
)

if TYPE_CHECKING:
    from fedrec_auditor.auditor.machine.progress import Observer


class Extra(NamedTuple):
    """An option that a command passes on if it is given: its type and its form for typer."""

    kind: Any
    form: Any


def extra(kind: Any, help: str, *, name: str | None = None, metavar: str | None = None) -> Extra:
    """An option of type ``kind``; its name is that of the parameter unless ``name`` is given."""
    return Extra(kind, typer.Option(*filter(None, (name,)), help=help, metavar=metavar))


_OF_A_TABLE = {
    "separator": extra(str, "For a table: one of , ; | :: tab and space. Detected if left out."),
    "no_header": extra(
        bool, "For a table: the first line is data; columns are named 1, 2, ...", name="--no-header"
    ),
    "no_quotes": extra(bool, "For a table: quotes are ordinary characters.", name="--no-quotes"),
}


class Exemption(StrEnum):
    """Outcomes that a user may exempt from exit code 3."""

    INCONCLUSIVE = INCONCLUSIVE
    NOT_ASSESSED = NOT_ASSESSED


Out = Annotated[Path, typer.Option(help="Directory of the run, for its reports.")]
PlanFile = Annotated[Path | None, typer.Option(help="A plan file (TOML).")]
Jobs = Annotated[int | None, typer.Option(help="Worker processes; all cores if left out.")]
Memory = Annotated[
    float | None,
    typer.Option(help="Limit of memory in GiB, all workers together; the machine's if left out."),
]
FailAt = Annotated[
    FailOn,
    typer.Option(
        help="Exit with 1 on a finding at this level; leak, critical, high, medium: on a system "
        "at this level."
    ),
]
FailAtVerdict = Annotated[
    FailOn,
    typer.Option(
        help="Exit with 1 if the verdict is at this level or above. No attack runs here: leak, "
        "critical and high count as violated, medium as unsubstantiated."
    ),
]
LeakMargin = Annotated[
    float,
    typer.Option(help="For leak: least advantage of an attack, (x - guessing) / (1 - guessing)."),
]
Allow = Annotated[
    list[Exemption] | None,
    typer.Option(
        help="Do not exit with 3 for this outcome. inconclusive: a sample too small to refute; "
        "not-assessed: a system with unknown leak or severity, if --fail-on needs these."
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(help="An earlier report.json: exit with 1 only on findings that are worse."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the report of another plan in --out.")
]
Sarif = Annotated[Path | None, typer.Option(help="Also write the findings as a SARIF file.")]
Junit = Annotated[Path | None, typer.Option(help="Also write a JUnit test report.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def with_options(
    extras: Mapping[str, Extra],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds options to a command, in place of its parameter ``options``.

    The parameter receives a mapping of the given options.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            options = {name: given.pop(name) for name in extras}
            for name, value in list(options.items()):
                if value is None or value is False or value == []:  # 0 is given
                    del options[name]
            for name in _OF_A_TABLE.keys() & options.keys():  # stated like columns
                value = options.pop(name)
                text = f"{name.removeprefix('no_')}={'no' if value is True else value}"
                options["columns"] = [*options.get("columns", ()), text]
            command(options=options, **given)

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if name != "options":
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            for more, (kind, form) in extras.items():
                parameters.append(
                    inspect.Parameter(
                        more,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=Annotated[kind | None, form],
                    )
                )
        vars(wrapper)["__signature__"] = signature.replace(parameters=parameters)
        return wrapper

    return decorate


def planned(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds options for these fields of a plan, as ``Plan`` declares them."""
    options = {name: _option(name) for name in names}
    return with_options(options | _OF_A_TABLE if "columns" in names else options)


def read_plan_with(file: Path | None, options: Mapping[str, Any]) -> Plan:
    """The plan of a file with ``options`` over it, checked before large modules are imported."""
    before = None
    if file is not None:
        from fedrec_auditor.auditor.plan.plan import read_plan

        before = read_plan(file)
    chosen = amend(before, options)
    check_plan(chosen)
    return chosen


def _option(name: str) -> Extra:
    declared, kind = option_of_field(name), _plain_type(Plan.model_fields[name].annotation)
    if name == "targets":
        return Extra(list[str], typer.Argument(help=help_of(name)))
    if declared.reads is not None:
        kind = list[str] if kind is dict else str
    return extra(kind, help_of(name), name=option_of(name), metavar=declared.metavar)


def _plain_type(annotation: Any) -> Any:
    """The plain type of an annotation, without None and metadata."""
    options = [each for each in get_args(annotation) if each is not type(None)]
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return _plain_type(options[0])
    return annotation if origin in (None, Literal) else origin


@contextmanager
def resumable(out: Path, units: str = "tasks") -> Iterator[Observer]:
    """Yields an observer that shows progress on standard error; Ctrl-C gives IncompleteError.

    The message says that the finished ``units`` (tasks, parts) are kept in ``out``.
    """
    from rich.console import Console

    from fedrec_auditor.auditor.machine.progress import show

    try:
        with show(Console(stderr=True)) as observe:
            yield observe
    except KeyboardInterrupt as error:
        raise IncompleteError(
            f"Interrupted. Finished {units} are kept in {out}; the same command resumes."
        ) from error
