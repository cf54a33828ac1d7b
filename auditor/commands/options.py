"""Command-line options that several commands share, with the name, type and help text of each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from typer import Argument, Option

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Exemption, FailOn, Gate, LabelEnum

if TYPE_CHECKING:
    from fedrec_auditor.auditor.machine.progress import ProgressObserver
    from fedrec_auditor.auditor.plan.plan import Plan


class OptionWithoutDefault(NamedTuple):
    """A command-line option that a command receives only if the user gives it.

    ``value_type``: type of the option's value.
    ``typer_option``: declaration of the option for typer.
    """

    value_type: Any
    typer_option: Any


def make_option(
    kind: Any, help: str, *, name: str | None = None, metavar: str | None = None
) -> OptionWithoutDefault:
    """Makes an option for ``add_options``.

    ``kind``: type of the option's value.
    ``help``: help text.
    ``name``: name on the command line; None for the name of the parameter.
    ``metavar``: placeholder of the value in the help.
    """
    return OptionWithoutDefault(kind, Option(*filter(None, (name,)), help=help, metavar=metavar))


_TABLE_FLAGS = {
    "separator": make_option(
        str, "Separator of a table: , ; | :: tab or space. Default: detected."
    ),
    "no_header": make_option(
        bool, "The table has no header line. Its columns are named 1, 2, ...", name="--no-header"
    ),
    "no_quotes": make_option(
        bool, "Quotes in the table are ordinary characters.", name="--no-quotes"
    ),
}


def make_enum_option(help: str, *kinds: type[LabelEnum]) -> Any:
    """Makes an option whose value is a word or a code of the enumerations ``kinds``."""
    words = {word.option_value: word for kind in kinds for word in kind}

    def parse(text: str) -> LabelEnum:
        for word in words.values():
            if word.matches_name(text):
                return word
        raise ValueError(f"{text!r} is not one of {', '.join(map(repr, words))}")

    return Option(help=help, parser=parse, metavar="|".join(words))


OutOption = Annotated[Path, Option(help="Directory of the run, for its reports.")]
PlanFileOption = Annotated[Path | None, Option(help="TOML file with a plan.")]
JobsOption = Annotated[int | None, Option(help="Number of worker processes. Default: all cores.")]
MemoryOption = Annotated[
    float | None,
    Option(help="Memory limit of all workers together, in GiB. Default: the machine's."),
]
FailOnOption = Annotated[
    FailOn,
    make_enum_option(
        "Exit with 1 if a claim's verdict is at this level or worse; for critical, high and "
        "medium, if a system's severity is; for leak, if a claim is refuted or a system leaks.",
        FailOn,
    ),
]
VerdictLevelOption = Annotated[
    FailOn,
    make_enum_option(
        "Exit with 1 if the verdict is at this level or above. This command runs no attacks: "
        "leak, critical and high count as false, and medium as unproved.",
        FailOn,
    ),
]
LeakMarginOption = Annotated[
    float, Option(help="Minimum advantage for leak: (x - guessing) / (1 - guessing) of an attack.")
]
AllowOption = Annotated[
    list[Exemption] | None,
    make_enum_option(
        "Do not exit with 3 for this outcome. not-tested: a sample is too small to refute a claim. "
        "not-assessed: the leak or severity of a system is unknown, and --fail-on needs it.",
        Exemption,
    ),
]
WaiverOption = Annotated[
    Path | None, Option(help="TOML file of accepted findings and attacks, with owner and expiry.")
]
BaselineOption = Annotated[
    Path | None,
    Option(help="Earlier report.json. Exit with 1 only if findings are worse than in it."),
]
ForceOption = Annotated[
    bool, Option("--force", help="Replace the report of another plan in --out.")
]
SarifOption = Annotated[Path | None, Option(help="Also write the findings to this SARIF file.")]
JunitOption = Annotated[Path | None, Option(help="Also write a JUnit test report to this file.")]
JsonOption = Annotated[bool, Option("--json", help="Print the result as JSON.")]


def make_gate(
    level: FailOn, allow: Any, waivers: Path | None, margin: float = DEFAULT_GATE.leak_margin
) -> Gate:
    """Makes the gate (the rule for failing CI) from values of options, with waivers as of today."""
    from fedrec_auditor.auditor.plan.waivers import read_waivers

    read = () if waivers is None else read_waivers(waivers, date.today())
    return Gate(level, tuple(allow or ()), margin, *read)


def add_options(
    extras: Mapping[str, OptionWithoutDefault],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that adds options to a command function, in place of its parameter ``options``.

    ``extras``: the options, by name. The parameter ``options`` receives a mapping of the options
        that the user gives.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            options = {name: given.pop(name) for name in extras}
            for name, value in list(options.items()):
                if value is None or value is False or value == []:  # but 0 is a given value
                    del options[name]
            for name in _TABLE_FLAGS.keys() & options.keys():  # the plan has them among its columns
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


def add_plan_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that gives a command options for fields of an audit plan, as ``Plan`` declares
    them.

    ``names``: names of the fields. The parameter ``options`` of the command receives the values.
    """
    options = {name: _make_plan_option(name) for name in names}
    return add_options(options | _TABLE_FLAGS if "columns" in names else options)


def load_plan(file: Path | None, options: Mapping[str, Any]) -> Plan:
    """Reads the plan file of an audit, and overrides the plan's fields by ``options``.

    ``file``: path of the plan file, or None for a plan with defaults.

    Raises InputError for a wrong value.
    """
    from fedrec_auditor.auditor.plan.members import OBJECT_SEPARATOR
    from fedrec_auditor.auditor.plan.plan import amend_plan, check_plan, make_target, read_plan

    chosen = amend_plan(None if file is None else read_plan(file), options)
    check_plan(chosen)  # early: before large modules are imported
    for name in chosen.targets:
        if OBJECT_SEPARATOR in name:
            make_target(name, chosen)
    return chosen


def _make_plan_option(name: str) -> OptionWithoutDefault:
    from fedrec_auditor.auditor.plan import plan

    kind, text = _unwrap_type(plan.Plan.model_fields[name].annotation), plan.get_help_text(name)
    if name == "targets":
        return OptionWithoutDefault(list[str], Argument(help=text))
    declaration = plan.get_plan_option(name)
    if declaration.parse is not None:
        kind = list[str] if kind is dict else str
    return make_option(kind, text, name=plan.get_option_name(name), metavar=declaration.metavar)


def _unwrap_type(annotation: Any) -> Any:
    """Returns the type in an annotation, without None and metadata."""
    options = [each for each in get_args(annotation) if each is not type(None)]
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return _unwrap_type(options[0])
    return annotation if origin in (None, Literal) else origin


@contextmanager
def show_progress(out: Path, units: str = "tasks") -> Iterator[ProgressObserver]:
    """Context manager that provides a function which displays progress on standard error.

    ``out``: directory in which finished work is stored.
    ``units``: plural noun for the finished work, such as tasks or parts.

    Ctrl-C raises IncompleteError, with a message on the finished work.
    """
    from rich.console import Console

    from fedrec_auditor.auditor.machine.progress import display_on_console

    try:
        with display_on_console(Console(stderr=True)) as observe:
            yield observe
    except KeyboardInterrupt as error:
        raise IncompleteError(
            f"Interrupted. Finished {units} are kept in {out}. Repeat the command to resume."
        ) from error
