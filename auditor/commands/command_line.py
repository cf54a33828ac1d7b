"""The command line ``auditor``, which is also ``python -m fedrec_auditor``.

A finding is the verdict on one claim. The option --fail-on sets the level (``FailOn``) at which
findings are failures. The first of these rules that applies gives the exit code:

- 2 for wrong usage or bad input;
- 3 if a part of the audit failed, or a finding is UNSOUND (our bounds contradict each other);
- 1 for a finding at the --fail-on level;
- 3 if a finding is INCONCLUSIVE (the audit could not have refuted the claim);
- 0 otherwise.

Baselines and waivers add rules (``GateOutcome.evaluate_gate``). If output is lost, `run`, `verify`,
`attack` and `report` keep these codes. Other commands exit with 141 if the reader of their output
closes it, and with 3 if the output cannot be written.
"""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.verdict import LabelEnum, NumberLabel, Verdict
from fedrec_auditor.auditor.machine.output import discard_output, open_std_streams, print_message

# Exit code of wrong usage or input.
EXIT_BAD_INPUT = 2
# Exit code of an error or an interruption.
EXIT_ERROR = 3
# Exit code if the reader of the output closes it; and Typer's code of an interruption, which is
# replaced.
EXIT_CLOSED_PIPE, _TYPER_INTERRUPTED = 141, 130
# Commands that may run code of a user without a time limit.
_CODE_COMMANDS = (["run"], ["sweep"], ["record"], ["attack"])
_ERROR_HANDLER = "fedrec_auditor.auditor.spelled"
_SPELLINGS = {"≤": "<=", "≥": ">=", "≠": "!=", "∞": "inf", "‼": "!!"}
_SPELLINGS |= zip("−✗é“”·►◄▼█", "-xe''.><v#", strict=True)


# Module of each command, and the verdicts that its help defines.
_COMMANDS: dict[str, tuple[str, tuple[type[LabelEnum], ...]]] = {
    "run": ("run", (Verdict,)),
    "sweep": ("sweep", ()),
    "list": ("listing", ()),
    "claims": ("claims", (Verdict, NumberLabel)),
    "account": ("account", (Verdict,)),
    "verify": ("verify", (Verdict,)),
    "estimate": ("estimate", (Verdict,)),
    "new": ("new", ()),
    "record": ("record", ()),
    "attack": ("attack", (Verdict,)),
    "report": ("report", ()),
    "compare": ("compare", ()),
    "reproduce": ("reproduce", ()),
    "doctor": ("doctor", ()),
}
_VERSION = ("--version", "-V")


def make_app(command_name: str = "") -> typer.Typer:
    """Makes the application with the command ``command_name``, or with all commands if it does
    not exist.

    The modules of other commands are not imported.
    """
    app = typer.Typer(
        name="auditor",
        help="Audits privacy claims of federated recommenders: tests whether a claimed epsilon "
        "holds.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_declare_options)
    for name in () if command_name in _VERSION else {command_name} & _COMMANDS.keys() or _COMMANDS:
        place, words = _COMMANDS[name]
        module = import_module(f"fedrec_auditor.auditor.commands.{place}")
        app.command(name, epilog=_format_glossary(*words) or None)(module.command)
    return app


def _format_glossary(*words: type[LabelEnum]) -> str:
    """Returns the meanings of all verdicts of the enumerations ``words``, one paragraph each."""
    entries = (f"{word.label} ({word}): {word.definition}" for kind in words for word in kind)
    return "\n\n".join(entries)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"fedrec-auditor {version('fedrec-auditor')}")
        raise typer.Exit


def _declare_options(
    version: Annotated[
        bool, typer.Option(*_VERSION, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of ``auditor`` itself, without a command."""


def main() -> None:
    """Runs the command line. An error of the user is reported in one line on standard error."""
    open_std_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERROR_HANDLER)
    sys.exit(_run_in_child() if _may_name_code(sys.argv) else _run_command())


def _may_name_code(words: Sequence[str]) -> bool:
    """Whether a command line may name code of a user, MODULE:OBJECT, to be run in this process."""
    return words[1:2] in _CODE_COMMANDS and any(":" in word or "--plan" in word for word in words)


def _run_in_child() -> int:
    from fedrec_auditor.auditor.machine.workers import run_in_child

    try:
        return run_in_child(_run_command)
    except AuditError as error:
        return _refuse(str(error), EXIT_BAD_INPUT if isinstance(error, InputError) else EXIT_ERROR)


def _run_command() -> int:
    words = sys.argv[1:] or ["--help"]
    try:
        code: int = make_app(words[0])(words, standalone_mode=False)
        print(end="", flush=True)
    except AuditError as error:
        return _refuse(str(error), EXIT_BAD_INPUT if isinstance(error, InputError) else EXIT_ERROR)
    except (typer.Abort, KeyboardInterrupt):
        return _refuse("Interrupted.", EXIT_ERROR)
    except (SystemExit, BrokenPipeError) as error:  # rich turns a broken pipe into an exit
        named = any(not word.startswith("-") for word in sys.argv[1:])
        if isinstance(error, SystemExit) and not (error.code or named):  # completion in a shell
            return 0
        discard_output()
        return EXIT_CLOSED_PIPE
    except OSError as error:
        code = EXIT_BAD_INPUT if error.errno == errno.ENAMETOOLONG else EXIT_ERROR
        return _refuse(f"Expected access to a file, got: {error}. Check its path and disk.", code)
    except Exception as error:
        if callable(message := getattr(error, "format_message", None)):
            return _refuse(_format_usage_error(error, message()), EXIT_BAD_INPUT)
        traceback.print_exc()
        return _refuse("This is an error in auditor. Please report these lines.", EXIT_ERROR)
    except BaseException as error:
        return _refuse(f"Report this error in auditor: {type(error).__name__}.", EXIT_ERROR)
    if code == _TYPER_INTERRUPTED:
        return _refuse("Interrupted.", EXIT_ERROR)
    return code if sys.argv[1:] else EXIT_BAD_INPUT


def _refuse(message: str, code: int) -> int:
    print_message(message)
    return code


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Returns the ASCII spelling of a character that the terminal's encoding lacks.

    This is a handler of ``codecs.register_error``: the second value is the position at which
    encoding continues.
    """
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLINGS.get(character, "?") for character in lacking), error.end


def _format_usage_error(error: Exception, message: str) -> str:
    """Returns typer's message on wrong usage in one line, with the given value and the remedy."""
    value = _find_option_value(getattr(getattr(error, "param", None), "opts", ()))
    got = "" if value is None else f", got {value!r}"
    named = [word for word in sys.argv[1:2] if word.isalpha()]
    path = getattr(getattr(error, "ctx", None), "command_path", " ".join(["auditor", *named]))
    message = message.replace("Value error, ", "").rstrip(".")
    near = ""
    if wrong := re.search(r"'([^']*)' is not one of (.+)", message):
        from fedrec_auditor.auditor.plan.families import suggest_names

        message = f"{message[: wrong.start()]}expected one of {wrong[2]}"
        got = f", got {wrong[1]!r}"
        near = suggest_names(wrong[1], re.findall(r"'([^']+)'", wrong[2]), "")
    ends = "" if message.endswith("?") else "."
    return f"{message}{got}{ends} {near}{' ' if near else ''}See `{path} --help`."


def _find_option_value(names: Sequence[str]) -> str | None:
    """Returns the value of an option in the command line, the last if repeated; None if not given.

    ``names``: all spellings of the option, such as -o and --out.
    """
    for word, after in reversed([*itertools.pairwise([*sys.argv, ""])]):
        name, sign, value = word.partition("=")
        if name in names:
            return value if sign else after
    return None


codecs.register_error(_ERROR_HANDLER, _spell)
