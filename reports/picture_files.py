"""Figures as files of their own: SVG in the light palette."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from fedrec_auditor.reports import store
from fedrec_auditor.reports.figures import Drawing, figures
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.words import legal

_STYLE = Path(__file__).parent / "templates" / "glance.css"
_FONTS = "DejaVu Sans, Helvetica, Arial, sans-serif"
_MARGIN = 10.0


def write_pictures(record: Contents, directory: Path) -> tuple[str, ...]:
    """Write each figure to ``directory`` as NAME.svg; gives the names.

    InputError if the directory cannot be written.
    """
    drawn = {each.name: standalone(each) for each in figures(record)}
    store.check_writable(directory)
    store.write_all({directory / f"{name}.svg": text.encode() for name, text in drawn.items()})
    return tuple(drawn)


def standalone(drawing: Drawing) -> str:
    """The figure as a file: with its size, a title, a white ground and colours instead of names."""
    palette = light_palette()
    body = drawing.svg.partition(">")[2].removesuffix("</svg>")
    box = drawing.svg.partition('viewBox="')[2].partition('"')[0]
    x, y, width, height = map(float, box.split())
    x, y, width, height = x - _MARGIN, y - _MARGIN, width + 2 * _MARGIN, height + 2 * _MARGIN
    painted = re.sub(r"var\(--([\w-]+)\)", lambda found: palette[found[1]], body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="{x:g} {y:g} {width:g} {height:g}" font-family="{_FONTS}">'
        f"<title>{escape(legal(drawing.title))}</title>"
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'fill="{palette["page"]}"/>{painted}</svg>\n'
    )


@cache
def light_palette() -> Mapping[str, str]:
    """The colours of the report by light, by name."""
    first = _STYLE.read_text(encoding="utf-8").split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", first))
