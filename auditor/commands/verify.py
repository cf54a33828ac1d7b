"""Command ``auditor verify``: tests a randomizer's claim of local differential privacy."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from typer import Argument, Exit, Option

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import EXIT_FOUND, FailOn
from fedrec_auditor.auditor.commands.ci_files import (
    check_writable,
    find_source_line,
    render_ci_files,
    write_ci_files,
)
from fedrec_auditor.auditor.commands.options import (
    JsonOption,
    JunitOption,
    SarifOption,
    VerdictLevelOption,
    WaiverOption,
    make_gate,
)
from fedrec_auditor.auditor.machine.output import catch_output_errors

if TYPE_CHECKING:
    from fedrec_auditor.auditor.verification import Verification
    from fedrec_auditor.reports.record.rows import CheckRow

_STYLES = {
    r"(?m)^False|^  FAILED": "bold red",
    r"(?m)^Proved|^  passed": "green",
    r"(?m)^Unproved|^Not tested|^  waived|^  not run": "yellow",
}

MechanismArgument = Annotated[
    str,
    Argument(
        metavar="NAME or PACKAGE.MODULE:CALLABLE",
        help="Name of a mechanism (`auditor list mechanisms`), or your own mechanism, or your own "
        "function f(x, rng) or f(x, rng, size).",
    ),
]
EpsilonOption = Annotated[float, Option(help="The claimed epsilon.")]
DeltaOption = Annotated[float, Option(help="The claimed delta.")]
SettingsOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Setting of the mechanism NAME. Repeatable."),
]
InputsOption = Annotated[
    str | None,
    Option(
        help="Inputs to compare in pairs, as a JSON list. An inner list becomes an array. Default: "
        "[0, 1] for functions, the whole domain for mechanisms."
    ),
]
SamplesOption = Annotated[
    int | None,
    Option(
        help="Number of draws per input. Default 1000000, or 100000 if a call returns one output."
    ),
]
SecondsOption = Annotated[
    float | None,
    Option(help="Approximate time limit for draws. Fewer draws are made if necessary."),
]
ConfidenceOption = Annotated[float, Option(help="Confidence of a measured bound.")]
SeedOption = Annotated[int, Option(help="Seed of the draws.")]
TraceOption = Annotated[
    bool, Option(help="First try to compute epsilon exactly, from all paths of the code's draws.")
]
TimeoutOption = Annotated[float, Option(help="Seconds after which the command is stopped.")]
AllowChecksOption = Annotated[
    list[str] | None,
    Option(
        metavar="CHECK",
        help="Check that may fail, or `not-tested` if the sample may be too small. Repeatable.",
    ),
]


def command(
    target: MechanismArgument,
    epsilon: EpsilonOption,
    delta: DeltaOption = 0.0,
    settings: SettingsOption = None,
    inputs: InputsOption = None,
    samples: SamplesOption = None,
    seconds: SecondsOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    trace: TraceOption = True,
    timeout: TimeoutOption = 600.0,
    fail_on: VerdictLevelOption = FailOn.VIOLATED,
    allow: AllowChecksOption = None,
    waivers: WaiverOption = None,
    as_json: JsonOption = False,
    sarif: SarifOption = None,
    junit: JunitOption = None,
) -> None:
    """Test a claimed epsilon of a local randomizer, and show inputs that refute it.

    Exits with 1 if the claim is refuted, or if a check fails that --allow does not name. Exits with
    3 if the sample is too small to refute the claim.
    """
    from fedrec_auditor.auditor.machine.workers import run_with_timeout
    from fedrec_auditor.reports.record.waivers import get_waiver_text
    from fedrec_auditor.reports.writers.paragraph import get_output_width, wrap_entry

    check_writable(sarif, junit)
    width, gate = get_output_width(), make_gate(fail_on.without_severities, allow, waivers)

    def work() -> tuple[int, str]:
        tested, verification = _verify_target(
            target,
            settings or (),
            inputs,
            epsilon=epsilon,
            delta=delta,
            samples=samples,
            seconds=seconds,
            confidence=confidence,
            seed=seed,
            trace=trace,
        )
        verification = verification.waiving(gate.allow)
        finding = verification.finding(target)
        excused = get_waiver_text(finding, gate)
        code = gate.exit_code([] if excused else [finding.verdict])
        if verification.faults and fail_on is not FailOn.NEVER:
            code = code or EXIT_FOUND
        code = gate.apply_expired_waivers(code)
        if as_json:
            from fedrec_auditor.reports.record.store import to_json

            text = json.dumps(to_json(dataclasses.asdict(verification)), indent=2, allow_nan=False)
        else:
            text = verification.describe(command=_format_repeat_command(), width=width)
            lines = filter(None, (*gate.expired_waivers, excused))
            text = "\n".join([text, *(wrap_entry("waiver", line, width) for line in lines)])
        files = render_ci_files(
            [finding],
            sarif,
            junit,
            gate=gate,
            checks=_list_check_rows(target, verification),
            place=find_source_line(tested),
            seed=seed,
        )
        return code, json.dumps([text, files])

    code, answer = run_with_timeout(timeout, work)
    text, files = json.loads(answer)
    write_ci_files(files)
    with catch_output_errors("The exit code is that of the verdict."):
        _print_text(text, plainly=as_json or not sys.stdout.isatty())
    raise Exit(code)


def _verify_target(
    target: str, settings: Sequence[str], inputs: str | None, **options: Any
) -> tuple[Any, Verification]:
    """Loads the mechanism or callable ``target`` and verifies it; returns it and the result.

    ``settings`` are those of the mechanism, ``inputs`` a JSON list or None; ``options`` are passed
    to ``verify_ldp``.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of the callable, because errors are one line
    from fedrec_auditor.auditor.verification import verify_ldp
    from fedrec_auditor.targets.wrapped.client import convert_to_input_error

    folders = tempfile.TemporaryDirectory(prefix="auditor-")
    with folders as folder, convert_to_input_error(target):
        # Hypothesis writes files, which must not be in the user's working directory.
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", folder)
        tested = load_mechanism(target, settings)
        pairs = None if inputs is None else parse_inputs(inputs)
        # No progress is displayed, because the process is stopped at the timeout.
        return tested, verify_ldp(tested, inputs=pairs, progress=False, **options)


def _list_check_rows(target: str, verification: Verification) -> list[CheckRow]:
    """Converts the checks of a verification to rows for reports, which state failures.

    Checks that are waived or did not run count neither as passed nor as failed.
    """
    from fedrec_auditor.auditor.exact.fit import CheckStatus
    from fedrec_auditor.reports.record.rows import CheckRow

    failed = {CheckStatus.PASSED: False, CheckStatus.FAILED: True}
    return [
        CheckRow(
            target=target, check=check.name, failed=failed.get(check.status), reason=check.reason
        )
        for check in verification.checks
    ]


def _format_repeat_command() -> str:
    """Returns the given command line without a number of draws, followed by --samples.

    A number of draws can be appended, for a repetition with more draws.
    """
    words = sys.argv[1:]
    kept = [
        word
        for before, word in itertools.pairwise(["", *words])
        if "--samples" not in (before, word) and not word.startswith("--samples=")
    ]
    return shlex.join(["auditor", *kept, "--samples"]) + " "


def load_mechanism(target: str, settings: Sequence[str] = ()) -> Any:
    """Loads a mechanism by its name, or imports an object by ``package.module:name``.

    ``target``: the name in either form; the module may be in the working directory.
    ``settings``: settings of a mechanism, as NAME=VALUE.

    Raises InputError if the mechanism or the object does not exist, and for settings of an object.
    """
    from fedrec_auditor.auditor.plan.families import FAMILIES, suggest_names
    from fedrec_auditor.auditor.plan.members import make_mechanism
    from fedrec_auditor.auditor.plan.objects import import_object

    if ":" not in target and target in FAMILIES["mechanisms"].list_names():
        return make_mechanism(target, [text.removeprefix(f"{target}.") for text in settings])
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        family, words = FAMILIES["mechanisms"], re.sub(r"[-_]", " ", target).lower()
        near = [name for name in family.list_names() if words in family.read_summary(name).lower()]
        raise InputError(
            f"Expected PACKAGE.MODULE:CALLABLE or a mechanism's name, got {target!r}. "
            f"{suggest_names(target, near or family.list_names(), 'The mechanisms are')}"
        )
    if settings:
        raise InputError(
            f"Expected --set only with a mechanism of `auditor list mechanisms`, got {target!r}. "
            "Leave the settings out."
        )
    return import_object(target)


def parse_inputs(inputs: str) -> list[Any]:
    """Converts a JSON list to a list of inputs; inner lists become arrays.

    Raises InputError if the text is not a JSON list, or if an inner list has rows of different
    lengths.
    """
    import numpy as np

    try:
        values = json.loads(inputs, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Expected --inputs as a JSON list, got {inputs!r} ({error}). Write, e.g., '[0, 1]'."
        ) from error
    if not isinstance(values, list):
        raise InputError(
            f"Expected --inputs as a JSON list such as [0, 1], got {inputs!r}. Add the brackets."
        )
    try:
        return [np.asarray(value) if isinstance(value, list) else value for value in values]
    except ValueError as error:
        raise InputError(
            f"Expected every list in --inputs to be an array, got a ragged list in {inputs!r}. "
            "Make its rows equally long."
        ) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _print_text(text: str, *, plainly: bool) -> None:
    """Prints a text, with coloured keywords unless ``plainly`` is true."""
    if plainly:
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    shown = Text(text)
    for pattern, style in _STYLES.items():
        shown.highlight_regex(pattern, style)
    Console().print(shown, soft_wrap=True)
