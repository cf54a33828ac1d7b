"""The tables of a record as files: CSV with every column."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from fedrec_auditor.reports import store
from fedrec_auditor.reports.flat import flat
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import (
    Finding,
)
from fedrec_auditor.reports.words import (
    printable,
)

TABLES = ("findings", "attacks", "utility", "measurements", "skipped")
"""The tables by the names of the record's parts."""


def write_tables(record: Record, directory: Path) -> tuple[str, ...]:
    """Write NAME.csv for each table, empty ones too; gives the names.

    InputError if the directory cannot be written.
    """
    store.check_writable(directory)
    store.write_all(
        {directory / f"{name}.csv": csv_table(record, name).encode() for name in TABLES}
    )
    return TABLES


def csv_table(record: Record, name: str) -> str:
    """Every row and column of a table, a part under its name: ``claim.epsilon``.

    Texts stand on one line, behind a ' where a spreadsheet would take them for a formula; curves in
    report.json only. What is none is empty, infinite "inf". The epsilon and delta of a claim are
    empty in a scope in which nothing is claimed.
    """
    parts = getattr(record, name)
    rows = flat(parts)
    for row, part in zip(rows, parts, strict=True):
        if isinstance(part, Finding) and not part.is_claimed:
            row |= dict.fromkeys(("claim.epsilon", "claim.delta", "claimed_guess"))
    names = [
        column
        for column in (rows[0] if rows else ())
        if not any(_curve(row[column]) for row in rows)
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([printable(name) for name in names] or ["target"])
    writer.writerows([_plain(row[column]) for column in names] for row in rows)
    return text.getvalue()


def _curve(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, float) for each in value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    elif isinstance(value, dict):
        value = "; ".join(f"{name} {one}" for name, one in value.items())
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
