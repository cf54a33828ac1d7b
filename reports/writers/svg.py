"""Writes a drawing as an SVG file that stands alone, with the colours of the light scheme."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import Picture

_STYLE = Path(__file__).parent / "templates" / "glance.css"
_FONTS = "DejaVu Sans, Helvetica, Arial, sans-serif"
_MARGIN = 10.0


def make_svg_text(drawing: Picture) -> str:
    """Makes the text of an SVG file from a drawing: with title, background and literal colours."""
    palette = read_light_palette()
    body = drawing.svg.partition(">")[2].removesuffix("</svg>")
    box = drawing.svg.partition('viewBox="')[2].partition('"')[0]
    x, y, width, height = map(float, box.split())
    x, y, width, height = x - _MARGIN, y - _MARGIN, width + 2 * _MARGIN, height + 2 * _MARGIN
    painted = re.sub(r"var\(--([\w-]+)\)", lambda match: palette[match[1]], body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="{x:g} {y:g} {width:g} {height:g}" font-family="{_FONTS}">'
        f"<title>{escape(say.replace_unsafe_chars(drawing.alt_text))}</title>"
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'fill="{palette["page"]}"/>{painted}</svg>\n'
    )


@cache
def read_light_palette() -> Mapping[str, str]:
    """Reads the colours of the report's light scheme, by the name of their CSS variable."""
    first = _STYLE.read_text(encoding="utf-8").split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", first))
