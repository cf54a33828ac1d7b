"""``auditor report``: render the reports again from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.auditor.commands.run import Allowed
from fedrec_auditor.auditor.output import spare_output


def command(
    directory: Annotated[Path, typer.Argument(help="A run directory with a report.json.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Which findings junit.xml calls failures.")
    ] = FailOn.VIOLATED,
    allow: Annotated[
        list[Allowed] | None,
        typer.Option(help="inconclusive: a sample that is too small is no error in junit.xml."),
    ] = None,
) -> None:
    """Render report.html, report.md and junit.xml again, without running a target."""
    from fedrec_auditor.reports import store

    record = store.read(directory)
    store.write(record, directory, Gate(fail_on, tuple(allow or ())))
    with spare_output("The reports are written."):
        print(f"Rendered {directory}/report.html, report.md and junit.xml from report.json.")
