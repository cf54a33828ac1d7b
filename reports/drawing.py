"""Strokes of SVG: lines, boxes, text and curves in the page's colours.

Colours are CSS variables, so that one drawing serves light, dark and print. Callers
escape words that are not their own. Nothing has an identifier.
"""

from __future__ import annotations

from collections.abc import Sequence

SIZE, SMALL = 12.0, 10.5
"""Of text, in the units of a drawing: 8 and 7 points where 366 units are a column of 86 mm."""


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled box; the pale one has an edge."""
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    edge = ' stroke="var(--leak)" stroke-width="0.8"' if colour == "pale" else ""
    return f'<rect {at} fill="var(--{colour})"{edge}/>'


def line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float) -> str:
    """A straight line."""
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="var(--{colour})" stroke-width="{width}"/>'


def dot(x: float, y: float, colour: str) -> str:
    """A filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--{colour})"/>'


def ring(x: float, y: float, colour: str) -> str:
    """An open circle."""
    stroke = f'stroke="var(--{colour})" stroke-width="1.6"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" {stroke}/>'


def diamond(x: float, y: float, colour: str) -> str:
    """A filled diamond."""
    return area(((x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)), colour)


def curve(
    points: Sequence[tuple[float, float]], colour: str, width: float, dashes: str = ""
) -> str:
    """A line through points."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    stroke = f'stroke="var(--{colour})" stroke-width="{width}"{dashed}'
    return f'<polyline points="{_joined(points)}" fill="none" {stroke}/>'


def area(points: Sequence[tuple[float, float]], colour: str) -> str:
    """What lies within points."""
    return f'<polygon points="{_joined(points)}" fill="var(--{colour})"/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    bold: bool = False,
    muted: bool = False,
    colour: str = "",
    anchor: str = "start",
    size: float = SIZE,
) -> str:
    """Words from, around or up to a point: ``anchor`` is start, middle or end."""
    weight = ' font-weight="600"' if bold else ""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    colour = colour or ("muted" if muted else "ink")
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"'
    return f'<text {place}{weight}{at} fill="var(--{colour})">{words}</text>'


def moved(x: float, y: float, drawn: Sequence[str]) -> str:
    """Strokes with their origin elsewhere."""
    return f'<g transform="translate({x:g},{y:g})">{"".join(drawn)}</g>'


def svg(width: float, height: float, drawn: Sequence[str]) -> str:
    """The whole drawing; what it shows is said beside it."""
    size = f"0 0 {width:g} {height:g}"
    return f'<svg aria-hidden="true" viewBox="{size}">{"".join(drawn)}</svg>'


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
