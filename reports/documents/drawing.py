"""Functions that return SVG elements (lines, boxes, text, curves), and the placement of labels.

Colours are names of CSS variables, so that one drawing serves light, dark and print. No element has
an identifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from fedrec_auditor.reports import say

# Maps a value to its coordinate on an axis.
AxisScale = Callable[[float], float]
# Sizes of text in drawing units: 8 and 7 points if 366 units are a column of 86 mm.
FONT_SIZE, SMALL_FONT_SIZE = 12.0, 10.5


def make_axis(low: float, high: float, start: float, end: float, *, log: bool = False) -> AxisScale:
    """Returns the function that maps a number in ``low``..``high`` to a coordinate.

    The coordinate is in ``start``..``end``; a number outside the range gets the nearer end. If
    ``log``, the axis is logarithmic, and ``low`` and ``high`` are exponents of ten.

    >>> [make_axis(-1, 1, 0.0, 200.0, log=True)(value) for value in (0.0, 1.0, 10.0)]
    [0.0, 100.0, 200.0]
    """

    def place(value: float) -> float:
        if log:
            value = math.log10(value) if value > 0.0 else -math.inf
        return start + min(max((value - low) / (high - low), 0.0), 1.0) * (end - start)

    return place


def truncate(words: str, letters: int) -> str:
    """``words`` shortened to at most ``letters`` characters; an ellipsis marks a shortened text."""
    return words if len(words) <= letters else f"{words[: letters - 1]}…"


def draw_rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled rectangle as SVG with the upper left corner (x, y).

    A rectangle has an outline only if ``colour`` is "pale".
    """
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    edge = ' stroke="var(--leak)" stroke-width="0.8"' if colour == "pale" else ""
    return f'<rect {at} fill="var(--{colour})"{edge}/>'


def draw_line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float) -> str:
    """A straight line from (x, y) to (to_x, to_y) as SVG."""
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="var(--{colour})" stroke-width="{width}"/>'


def draw_dot(x: float, y: float, colour: str) -> str:
    """A filled circle around (x, y) as SVG."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--{colour})"/>'


def draw_ring(x: float, y: float, colour: str) -> str:
    """An unfilled circle around (x, y) as SVG."""
    stroke = f'stroke="var(--{colour})" stroke-width="1.6"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" {stroke}/>'


def draw_diamond(x: float, y: float, colour: str) -> str:
    """A filled diamond around (x, y) as SVG."""
    return draw_polygon(((x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)), colour)


def draw_curve(
    points: Sequence[tuple[float, float]], colour: str, width: float, dashes: str = ""
) -> str:
    """A line through ``points`` as SVG.

    ``dashes`` is the SVG dash pattern; the line is solid if it is empty.
    """
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    stroke = f'stroke="var(--{colour})" stroke-width="{width}"{dashed}'
    return f'<polyline points="{_joined(points)}" fill="none" {stroke}/>'


def draw_polygon(points: Sequence[tuple[float, float]], colour: str) -> str:
    """A filled polygon with the corners ``points`` as SVG."""
    return f'<polygon points="{_joined(points)}" fill="var(--{colour})"/>'


def draw_text(
    x: float,
    y: float,
    words: str,
    *,
    bold: bool = False,
    muted: bool = False,
    colour: str = "",
    anchor: str = "start",
    size: float = FONT_SIZE,
) -> str:
    """``words`` as an SVG text element at the point (x, y).

    ``anchor`` states which part of the text is at the point: "start", "middle" or "end".
    """
    weight = ' font-weight="600"' if bold else ""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    colour = colour or ("muted" if muted else "ink")
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"'
    words = escape(say.sanitize(words), quote=False)
    return f'<text {place}{weight}{at} fill="var(--{colour})">{words}</text>'


def move_group(x: float, y: float, drawn: Sequence[str]) -> str:
    """The SVG elements ``drawn`` as one group, moved right by ``x`` and down by ``y``."""
    return f'<g transform="translate({x:g},{y:g})">{"".join(drawn)}</g>'


def make_titled_group(title: str, drawn: Sequence[str]) -> str:
    """The SVG elements ``drawn`` as one group with a ``title``, which a browser shows on hover."""
    return f"<g><title>{escape(say.sanitize(title))}</title>{''.join(drawn)}</g>"


def make_svg(width: float, height: float, drawn: Sequence[str]) -> str:
    """The SVG document with the elements ``drawn``, of size ``width`` by ``height``.

    The document is hidden from screen readers, because a text next to the drawing describes it.
    """
    size = f"0 0 {width:g} {height:g}"
    return f'<svg aria-hidden="true" viewBox="{size}">{"".join(drawn)}</svg>'


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


Point = tuple[float, float]
# Left, top, right and bottom coordinates of a rectangle.
Box = tuple[float, float, float, float]
# Distances between a label and the place next to its point.
LABEL_GAPS = (0.0, 9.0, 18.0, 30.0, 44.0)
# Distance beyond which a line connects the label to its point.
MAX_NEAR_GAP = LABEL_GAPS[1]
_LETTER, _RADIUS = 0.62, 5.0
# Costs of covering a label or point: a fixed cost, and a cost per unit of area (1 for a line).
_COVERED, _MORE = 100.0, 50.0


def estimate_text_width(words: str, size: float) -> float:
    """The approximate width of ``words`` at font size ``size``, in drawing units.

    All characters are taken to have the same width.
    """
    return _LETTER * size * len(words)


def place_labels(
    points: Sequence[Point],
    labels: Sequence[str],
    size: float,
    within: Box,
    marks: Sequence[Point] = (),
    lines: Sequence[Box] = (),
) -> list[Box]:
    """The box of each label, in the order of ``points``; every box lies inside ``within``.

    A label is placed next to its point, in one of 8 directions at one of 5 distances: where it
    costs least. The cost is highest if the label covers a point, one of the further points
    ``marks`` or another label; covering one of the ``lines`` costs little. ``size`` is the font
    size.
    """
    taken = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in (*points, *marks)]
    boxes: list[Box] = []
    for point, words in zip(points, labels, strict=True):
        size_of = (estimate_text_width(words, size), size)
        choices = [
            (_cost(box, taken, lines) + ring, number, box)
            for number, (ring, box) in enumerate(_around(point, size_of, within))
        ]
        best = min(choices)[-1]
        boxes.append(best)
        taken.append(best)
    return boxes


def _around(point: Point, size: Point, within: Box) -> Iterator[tuple[float, Box]]:
    """Yields pairs of a distance and a box around a point, inside ``within``; the nearest first."""
    (x, y), (width, height) = point, size
    gap = _RADIUS + 1.0
    for ring in LABEL_GAPS:
        far = gap + ring
        lefts = {1: x + far, 0: x - width / 2.0, -1: x - far - width}
        tops = {1: y + far, 0: y - height / 2.0, -1: y - far - height}
        near = 0.5 * far
        corners = {1: x + near, -1: x - near - width}
        for across, down in ((1, -1), (1, 0), (1, 1), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1)):
            left = corners[across] if across and down else lefts[across]
            left = min(max(left, within[0]), within[2] - width)
            top = min(max(tops[down], within[1]), within[3] - height)
            yield ring, (left, top, left + width, top + height)


def _cost(box: Box, taken: Sequence[Box], lines: Sequence[Box]) -> float:
    covered = [area for other in taken if (area := _shared(box, other)) > 0.0]
    crossed = sum(_shared(box, line) for line in lines)
    return _COVERED * len(covered) + _MORE * sum(covered) + crossed


def _shared(box: Box, other: Box) -> float:
    """The area of the intersection of two boxes."""
    across = min(box[2], other[2]) - max(box[0], other[0])
    down = min(box[3], other[3]) - max(box[1], other[1])
    return max(across, 0.0) * max(down, 0.0)
