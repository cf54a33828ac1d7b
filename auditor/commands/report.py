"""``auditor report``: render the reports again from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.auditor.commands.run import FailOn


def command(
    directory: Annotated[Path, typer.Argument(help="A run directory with a report.json.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Which findings junit.xml calls failures.")
    ] = FailOn.VIOLATED,
) -> None:
    """Render report.html, report.md and junit.xml again, without running a target."""
    from fedrec_auditor.reports import store

    record = store.read(directory)
    store.write(record, directory, fail_on=str(fail_on))
    print(f"Rendered {directory}/report.html, report.md and junit.xml from report.json.")
