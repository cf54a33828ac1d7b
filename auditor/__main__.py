"""The ``auditor`` command, also ``python -m auditor``.

Exit codes: 0 nothing at the --fail-on level; 1 a finding at that level; 2 wrong usage or bad
input; 3 the audit could not be completed, or a finding is UNSOUND.
"""

from __future__ import annotations

import itertools
import signal
import sys
import traceback
from collections.abc import Sequence

import typer

from accountants.errors import AuditError, InputError
from auditor.commands import account, doctor, listing, report, run, verify

BAD_INPUT = 2
INCOMPLETE = 3
_TYPER_INTERRUPTED = 130

app = typer.Typer(
    name="auditor",
    help="Is the epsilon true? Audits the privacy claims of federated recommenders.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.command)
app.command("list")(listing.command)
app.command("account")(account.command)
app.command("verify")(verify.command)
app.command("report")(report.command)
app.command("doctor")(doctor.command)


def main() -> None:
    """Run the command line; every refusal is one line on standard error."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) == signal.SIG_DFL:  # leave nohup's choice alone
            signal.signal(ending, signal.default_int_handler)
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        code = code if sys.argv[1:] else BAD_INPUT
        if code == _TYPER_INTERRUPTED:
            raise KeyboardInterrupt
    except AuditError as error:
        code = _refuse(str(error), BAD_INPUT if isinstance(error, InputError) else INCOMPLETE)
    except (typer.Abort, KeyboardInterrupt):
        code = _refuse("Interrupted.", INCOMPLETE)
    except Exception as error:
        if callable(message := getattr(error, "format_message", None)):
            code = _refuse(_usage(error, message()), BAD_INPUT)
        else:
            traceback.print_exc()
            code = _refuse("a fault of ours, not yours; please report these lines.", INCOMPLETE)
    sys.exit(code)


def _refuse(message: str, code: int) -> int:
    print("auditor:", " ".join(message.split()), file=sys.stderr)
    return code


def _usage(error: Exception, message: str) -> str:
    """What typer says of wrong usage in one line, with the value it leaves out and the remedy."""
    value = _given(getattr(getattr(error, "param", None), "opts", ()))
    got = "" if value is None else f", got {value!r}"
    path = getattr(getattr(error, "ctx", None), "command_path", "auditor")
    return f"{message.rstrip('.')}{got}. See `{path} --help`."


def _given(names: Sequence[str]) -> str | None:
    """What the command line gives for the option of these names, the last if several times."""
    for word, after in reversed([*itertools.pairwise([*sys.argv, ""])]):
        name, sign, value = word.partition("=")
        if name in names:
            return value if sign else after
    return None


if __name__ == "__main__":
    main()
