"""``auditor report``: render the reports again from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[Path, typer.Argument(help="A run directory with a report.json.")],
) -> None:
    """Render report.html, report.md and junit.xml again, without running a target."""
    from reports import store

    record = store.read(directory)
    store.write(record, directory)
    print(f"Rendered {directory}/report.html, report.md and junit.xml from report.json.")
