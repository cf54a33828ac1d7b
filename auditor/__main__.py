"""The ``auditor`` command, also ``python -m auditor``.

Exit codes: 0 nothing at the --fail-on level; 1 a finding at that level; 2 wrong usage or bad
input; 3 the audit could not be completed, or a finding is UNSOUND.
"""

from __future__ import annotations

import sys
import traceback

import typer

from accountants.errors import AuditError, InputError
from auditor.commands import account, doctor, listing, report, run, verify

BAD_INPUT = 2
INCOMPLETE = 3

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
    try:
        app()
    except AuditError as error:
        print(f"auditor: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT if isinstance(error, InputError) else INCOMPLETE)
    except Exception:
        traceback.print_exc()
        print("auditor: a fault of ours, not yours; please report these lines.", file=sys.stderr)
        sys.exit(INCOMPLETE)


if __name__ == "__main__":
    main()
