"""Writes tables and drawings of an audit's record to files: CSV with all columns, and SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.figures import draw_all_figures
from fedrec_auditor.reports.record import rows as record_rows
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.leaks import find_advantages_by_attack
from fedrec_auditor.reports.writers.svg import make_svg_text

# Names of the exported tables: fields of the record, and "advantages" of attacks by system.
CSV_TABLE_NAMES = ("findings", "attacks", "advantages", "utility", "measurements", "skipped")
_INTERVAL = tuple(record_rows.FurtherFigure.model_fields)


def write_tables(record: record_rows.Contents, directory: Path) -> tuple[str, ...]:
    """Writes one file NAME.csv per table in ``CSV_TABLE_NAMES``; returns the names of the tables.

    Empty tables are written, too. Raises InputError if the directory cannot be written.
    """
    store.prepare_directory(directory)
    tables = {name: format_csv_table(record, name).encode() for name in CSV_TABLE_NAMES}
    store.write_files({directory / f"{name}.csv": table for name, table in tables.items()})
    return CSV_TABLE_NAMES


def format_csv_table(record: record_rows.Contents, name: str) -> str:
    """Formats one table of an audit's record as CSV, with all rows and columns except curves.

    ``name`` is one of ``CSV_TABLE_NAMES``. "attacks" has one row per number: an attack's metric,
    gain, baselines and further metrics. "advantages" has one row per attack and one column per
    system.

    - An entry of a nested object has a column of the form ``claim.epsilon``.
    - A text is on one line. The text begins with a ' if a spreadsheet would read it as a formula.
    - A cell with None is empty; infinity is written as "inf".
    - A claim's epsilon, delta and success rate of guessing are empty in a scope in which nothing is
      claimed.
    """
    if name == "attacks":
        rows = [*_list_attack_figures(record)]
    elif name == "advantages":
        advantages = find_advantages_by_attack(record)
        rows = [{"attack": attack} | by_system for attack, by_system in advantages.items()]
    else:
        parts = getattr(record, name)
        rows = record_rows.flatten_rows(parts)
        for row, part in zip(rows, parts, strict=True):
            if isinstance(part, record_rows.Finding):
                row["verdict"] = part.verdict.label
                if not part.is_claimed_in_scope:
                    row |= dict.fromkeys(("claim.epsilon", "claim.delta", "claimed_guess"))
    columns = rows[0] if rows else ()
    names = [column for column in columns if not any(_is_curve(row[column]) for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_format_cell(column) for column in names] or ["target"])
    writer.writerows([_format_cell(row[column]) for column in names] for row in rows)
    return text.getvalue()


def _list_attack_figures(record: record_rows.Contents) -> Iterator[dict[str, Any]]:
    """Yields the numbers of all attack rows, with the fields of their row and their interval."""
    for row in record.attacks:
        fields = row.model_dump(mode="python", exclude={"roc"})
        figures = {"value": {end: fields.pop(end) for end in _INTERVAL}}
        for name in ("gain", "baselines", "from_interactions", "further", "users"):
            figures[name] = fields.pop(name)
        for figure, interval in _flatten(figures):
            ends = dict.fromkeys(_INTERVAL) | interval
            yield dict(record_rows.walk_leaves(fields)) | {"figure": figure} | ends


def _flatten(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the dotted name of each number in nested mappings, and its value and interval."""
    for name, value in part.items():
        if isinstance(value, float):
            yield f"{above}{name}", {"value": value}
        elif isinstance(value, Mapping) and value.keys() == {*_INTERVAL}:
            yield f"{above}{name}", dict(value)
        elif isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{name}.")


def _is_curve(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, float) for each in value)


def _format_cell(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    elif isinstance(value, dict):
        value = "; ".join(f"{name} {entry}" for name, entry in value.items())
    if not isinstance(value, str):
        return value
    text = say.make_printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def write_pictures(record: record_rows.Contents, directory: Path) -> tuple[str, ...]:
    """Writes each drawing of an audit's record to ``directory`` as NAME.svg; returns the names.

    Raises InputError if the directory cannot be written.
    """
    drawn = {each.name: make_svg_text(each) for each in draw_all_figures(record)}
    store.prepare_directory(directory)
    store.write_files({directory / f"{name}.svg": text.encode() for name, text in drawn.items()})
    return tuple(drawn)
