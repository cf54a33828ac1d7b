"""Writes tables and drawings of an audit's record to files: CSV with all columns, and SVG."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.documents.figures import figures
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.rows import Contents, Finding, flatten

# Names of the tables, which are fields of the record.
TABLE_NAMES = ("findings", "attacks", "utility", "measurements", "skipped")


def write_tables(record: Contents, directory: Path) -> tuple[str, ...]:
    """Writes one file NAME.csv per table in ``TABLE_NAMES``, and returns the names of the tables.

    An empty table is written, too. Raises InputError if the directory cannot be written.
    """
    store.check_writable(directory)
    store.write_all(
        {directory / f"{name}.csv": csv_table(record, name).encode() for name in TABLE_NAMES}
    )
    return TABLE_NAMES


def csv_table(record: Contents, name: str) -> str:
    """One table of an audit's record as CSV text, with all rows and columns except curves.

    ``name`` is one of ``TABLE_NAMES``.

    - An entry of a nested object has a column of the form ``claim.epsilon``.
    - A text is on one line. It begins with a ' if a spreadsheet would read it as a formula.
    - None is empty, and infinity is "inf".
    - The epsilon and delta of a claim are empty in a scope in which nothing is claimed.
    """
    parts = getattr(record, name)
    rows = flatten(parts)
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
    writer.writerow([say.make_printable(name) for name in names] or ["target"])
    writer.writerows([_plain(row[column]) for column in names] for row in rows)
    return text.getvalue()


def _curve(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, float) for each in value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    elif isinstance(value, dict):
        value = "; ".join(f"{name} {entry}" for name, entry in value.items())
    if not isinstance(value, str):
        return value
    text = say.make_printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_STYLE = Path(__file__).parent / "templates" / "glance.css"
_FONTS = "DejaVu Sans, Helvetica, Arial, sans-serif"
_MARGIN = 10.0


def write_pictures(record: Contents, directory: Path) -> tuple[str, ...]:
    """Writes each drawing of an audit's record to ``directory`` as NAME.svg, and returns the names.

    Raises InputError if the directory cannot be written.
    """
    drawn = {each.name: standalone_svg(each) for each in figures(record)}
    store.check_writable(directory)
    store.write_all({directory / f"{name}.svg": text.encode() for name, text in drawn.items()})
    return tuple(drawn)


def standalone_svg(drawing: Picture) -> str:
    """The text of an SVG file with the drawing, a title, a white background and literal colours."""
    palette = light_palette()
    body = drawing.svg.partition(">")[2].removesuffix("</svg>")
    box = drawing.svg.partition('viewBox="')[2].partition('"')[0]
    x, y, width, height = map(float, box.split())
    x, y, width, height = x - _MARGIN, y - _MARGIN, width + 2 * _MARGIN, height + 2 * _MARGIN
    painted = re.sub(r"var\(--([\w-]+)\)", lambda match: palette[match[1]], body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="{x:g} {y:g} {width:g} {height:g}" font-family="{_FONTS}">'
        f"<title>{escape(say.legal(drawing.title), quote=False)}</title>"
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'fill="{palette["page"]}"/>{painted}</svg>\n'
    )


@cache
def light_palette() -> Mapping[str, str]:
    """The colours of the report's light scheme, by the name of their CSS variable."""
    first = _STYLE.read_text(encoding="utf-8").split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", first))
