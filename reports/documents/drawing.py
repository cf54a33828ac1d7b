"""Functions that return SVG elements (lines, boxes, text, curves), and the placement of labels.

Colours are names of CSS variables, so that one drawing serves light, dark and print. No element has
an identifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from fedrec_auditor.reports import say

# Function that maps a value to its coordinate on an axis.
AxisScale = Callable[[float], float]
# Font sizes in drawing units (8 and 7 points if 366 units are a column of 86 mm).
FONT_SIZE, SMALL_FONT = 12.0, 10.5


def make_axis(low: float, high: float, start: float, end: float, *, log: bool = False) -> AxisScale:
    """Returns the function that maps a number in ``low``..``high`` to a coordinate.

    The coordinate is in ``start``..``end``; a number outside the range gets the nearer end. With
    ``log``, the axis is logarithmic, and ``low`` and ``high`` are exponents of ten.

    >>> [make_axis(-1, 1, 0.0, 200.0, log=True)(value) for value in (0.0, 1.0, 10.0)]
    [0.0, 100.0, 200.0]
    """

    def place(value: float) -> float:
        """Returns the coordinate of ``value``."""
        if log:
            value = math.log10(value) if value > 0.0 else -math.inf
        return start + min(max((value - low) / (high - low), 0.0), 1.0) * (end - start)

    return place


def truncate_text(words: str, letters: int) -> str:
    """Shortens ``words`` to at most ``letters`` characters; an ellipsis marks a shortened text."""
    return words if len(words) <= letters else f"{words[: letters - 1]}…"


def draw_rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Draws a filled rectangle with the upper left corner (x, y), as SVG.

    The rectangle has an outline only if ``colour`` is "pale".
    """
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    edge = ' stroke="var(--leak)" stroke-width="0.8"' if colour == "pale" else ""
    return f'<rect {at} fill="var(--{colour})"{edge}/>'


def draw_line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float) -> str:
    """Draws a straight line from (x, y) to (to_x, to_y), as SVG."""
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="var(--{colour})" stroke-width="{width}"/>'


def draw_dot(x: float, y: float, colour: str) -> str:
    """Draws a filled circle around (x, y), as SVG."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--{colour})"/>'


def draw_ring(x: float, y: float, colour: str) -> str:
    """Draws an unfilled circle around (x, y), as SVG."""
    stroke = f'stroke="var(--{colour})" stroke-width="1.6"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" {stroke}/>'


def draw_diamond(x: float, y: float, colour: str) -> str:
    """Draws a filled diamond around (x, y), as SVG."""
    return draw_polygon(((x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)), colour)


def draw_curve(
    points: Sequence[tuple[float, float]], colour: str, width: float, dashes: str = ""
) -> str:
    """Draws a line through ``points``, as SVG.

    ``dashes`` is the SVG dash pattern; the line is solid if it is empty.
    """
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    stroke = f'stroke="var(--{colour})" stroke-width="{width}"{dashed}'
    return f'<polyline points="{_join_points(points)}" fill="none" {stroke}/>'


def draw_polygon(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Draws a filled polygon with the corners ``points``, as SVG."""
    return f'<polygon points="{_join_points(points)}" fill="var(--{colour})"/>'


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
    """Draws the text ``words`` at the point (x, y), as SVG.

    ``anchor`` states which part of the text is at the point: "start", "middle" or "end".
    """
    weight = ' font-weight="600"' if bold else ""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    colour = colour or ("muted" if muted else "ink")
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"'
    words = escape(say.replace_unsafe_chars(words), quote=False)
    return f'<text {place}{weight}{at} fill="var(--{colour})">{words}</text>'


def move_group(x: float, y: float, drawn: Sequence[str]) -> str:
    """Joins the SVG elements ``drawn`` to one group, and moves it right by ``x``, down by ``y``."""
    return f'<g transform="translate({x:g},{y:g})">{"".join(drawn)}</g>'


def make_titled_group(title: str, drawn: Sequence[str]) -> str:
    """Joins the SVG elements ``drawn`` to one group with a ``title``, which is shown on hover."""
    return f"<g><title>{escape(say.replace_unsafe_chars(title))}</title>{''.join(drawn)}</g>"


def make_svg(width: float, height: float, drawn: Sequence[str]) -> str:
    """Makes the SVG document with the elements ``drawn``, of size ``width`` by ``height``.

    The document is hidden from screen readers, because a text next to the drawing describes it.
    """
    return f'<svg aria-hidden="true" viewBox="0 0 {width:g} {height:g}">{"".join(drawn)}</svg>'


def _join_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


# Coordinates (x, y) in drawing units.
XYPoint = tuple[float, float]
# Left, top, right and bottom coordinates of a rectangle.
BoxEdges = tuple[float, float, float, float]
# Distances between a label and the place next to its point.
LABEL_DISTANCES = (0.0, 9.0, 18.0, 30.0, 44.0)
# Largest distance of a label from its point without a line that connects both.
MAX_UNCONNECTED_DISTANCE = LABEL_DISTANCES[1]
_LETTER, _RADIUS = 0.62, 5.0
# Costs of covering a label or point: a fixed cost, and a cost per unit of area (1 for a line).
_OVERLAP_COST, _AREA_COST = 100.0, 50.0


def estimate_text_width(words: str, size: float) -> float:
    """Estimates the width of ``words`` at font size ``size``, in drawing units.

    All characters are taken to have the same width.
    """
    return _LETTER * size * len(words)


def place_labels(
    points: Sequence[XYPoint],
    labels: Sequence[str],
    size: float,
    within: BoxEdges,
    marks: Sequence[XYPoint] = (),
    lines: Sequence[BoxEdges] = (),
) -> list[BoxEdges]:
    """Places labels next to their points; returns the box of each label, in the order of points.

    points, labels: the points, and the text of each point's label.
    size: font size.
    within: area in which all boxes lie.
    marks: further points that labels should not cover.
    lines: boxes around lines that labels should not cover.
    """
    taken = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in (*points, *marks)]
    boxes: list[BoxEdges] = []
    # A label is placed in one of 8 directions, at one of 5 distances, where the cost is least.
    for point, words in zip(points, labels, strict=True):
        size_of = (estimate_text_width(words, size), size)
        choices = [
            (_overlap_cost(box, taken, lines) + ring, number, box)
            for number, (ring, box) in enumerate(_try_boxes(point, size_of, within))
        ]
        best = min(choices)[-1]
        boxes.append(best)
        taken.append(best)
    return boxes


def _try_boxes(point: XYPoint, size: XYPoint, within: BoxEdges) -> Iterator[tuple[float, BoxEdges]]:
    """Yields pairs of a distance and a box around a point, inside ``within``; the nearest first."""
    (x, y), (width, height) = point, size
    gap = _RADIUS + 1.0
    for ring in LABEL_DISTANCES:
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


def _overlap_cost(box: BoxEdges, taken: Sequence[BoxEdges], lines: Sequence[BoxEdges]) -> float:
    covered = [area for other in taken if (area := _overlap_area(box, other)) > 0.0]
    crossed = sum(_overlap_area(box, line) for line in lines)
    return _OVERLAP_COST * len(covered) + _AREA_COST * sum(covered) + crossed


def _overlap_area(box: BoxEdges, other: BoxEdges) -> float:
    """Returns the area of the intersection of two boxes."""
    across = min(box[2], other[2]) - max(box[0], other[0])
    down = min(box[3], other[3]) - max(box[1], other[1])
    return max(across, 0.0) * max(down, 0.0)
