"""Where the labels of points stand, so that none covers another, or a point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""
RINGS = (0.0, 9.0, 18.0, 30.0, 44.0)
"""How far from next to its point a label may stand."""
NEXT_TO = RINGS[1]
"""From here on a line leads from the label to its point."""
_LETTER, _RADIUS = 0.62, 5.0
_COVERED, _MORE = 100.0, 50.0
"""What it costs to cover a label or point at all, and by its area; of a line the area costs 1, and
so does a unit of distance."""


def width_of(words: str, size: float) -> float:
    """About how wide words are in this size: a digit of DejaVu Sans each."""
    return _LETTER * size * len(words)


def label_places(
    points: Sequence[Point],
    labels: Sequence[str],
    size: float,
    within: Box,
    marks: Sequence[Point] = (),
    lines: Sequence[Box] = (),
) -> list[Box]:
    """A box for the label of each of the ``points``, in their order, inside ``within``.

    Each takes the cheapest of 8 directions and 5 distances. To cover a point or another label costs
    most, and as much to cover one of the other ``marks``; ``lines`` may be covered.
    """
    taken = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in (*points, *marks)]
    found: list[Box] = []
    for point, words in zip(points, labels, strict=True):
        size_of = (width_of(words, size), size)
        choices = [
            (_cost(box, taken, lines) + ring, number, box)
            for number, (ring, box) in enumerate(_around(point, size_of, within))
        ]
        best = min(choices)[-1]
        found.append(best)
        taken.append(best)
    return found


def _around(point: Point, size: Point, within: Box) -> Iterator[tuple[float, Box]]:
    """Boxes around a point, the nearest first, with their distances; moved inside ``within``."""
    (x, y), (width, height) = point, size
    gap = _RADIUS + 1.0
    for ring in RINGS:
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
    """The area that two boxes share."""
    across = min(box[2], other[2]) - max(box[0], other[0])
    down = min(box[3], other[3]) - max(box[1], other[1])
    return max(across, 0.0) * max(down, 0.0)
