"""Curves of the HTML report as inline SVG: an attack's ROC, and the trade-off of two errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedrec_auditor.reports import drawing
from fedrec_auditor.reports.rows import RocRow
from fedrec_auditor.reports.words import number, percent

RATES = (0.1, 0.01, 0.001)
"""Shares of false alarms at which a curve is read."""
_WIDTH = 420.0
_CURVE_LEFT, _TOP, _SIDE, _HIGH = 52.0, 24.0, 224.0, 196.0
_POINTS = 100  # of a curve as drawn


def resolution(roc: RocRow) -> float | None:
    """The least share of false alarms of a curve; None where there is nothing to draw.

    It is 1 / number of non-members. A curve that says more than a thousand million would is not
    drawn.
    """
    least = min((rate for rate in roc.fpr if rate > 0.0), default=1.0)
    whole = len(roc.fpr) == len(roc.tpr) == len(roc.low) == len(roc.high)
    return least if whole and 1e-9 <= least < 1.0 else None


def roc_curve(
    roc: RocRow, found: Mapping[float, float | None], guessed: Mapping[float, float]
) -> str:
    """Share found against share of false alarms, both logarithmic, with its pointwise band.

    Both axes stop at the curve's ``resolution``. ``found`` are the shares found at some rates
    of false alarms, None where they cannot be resolved; ``guessed`` those of the best baseline.
    """
    least = resolution(roc) or 0.5

    def place(fpr: float, tpr: float) -> tuple[float, float]:
        x, y = (1.0 - math.log(min(max(v, least), 1.0)) / math.log(least) for v in (fpr, tpr))
        return _CURVE_LEFT + x * _SIDE, _TOP + (1.0 - y) * _HIGH

    step = max(1, len(roc.fpr) // _POINTS)
    kept = sorted({*range(0, len(roc.fpr), step), len(roc.fpr) - 1})
    low, high = ([place(roc.fpr[i], ends[i]) for i in kept] for ends in (roc.low, roc.high))
    line = [place(roc.fpr[i], roc.tpr[i]) for i in kept if roc.tpr[i] >= least]
    drawn = [
        drawing.area([*low, *reversed(high)], "pale"),
        drawing.curve([place(least, least), place(1.0, 1.0)], "muted", 1.2, "4 3"),
        drawing.curve(line, "leak", 2.2),
        *_curve_axes(least, place),
    ]
    drawn += [
        drawing.dot(*place(rate, share), "leak")
        for rate, share in found.items()
        if share is not None and share >= least
    ]
    drawn += [_cross(*place(rate, share)) for rate, share in guessed.items() if share >= least]
    right = _CURVE_LEFT + _SIDE + 16
    lines = [
        "Found, by share of",
        "false alarms:",
        *(
            f"{percent(rate)}: {'not resolvable' if share is None else percent(share)}"
            for rate, share in found.items()
        ),
    ]
    drawn += [drawing.text(right, _TOP + 10 + 17 * i, said) for i, said in enumerate(lines)]
    top = _TOP + 10 + 17 * len(lines) + 8
    drawn.append(drawing.curve([(right, top - 4), (right + 20, top - 4)], "muted", 1.2, "4 3"))
    drawn.append(drawing.text(right + 26, top, "a coin"))
    if guessed:
        drawn.append(_cross(right + 10, top + 13))
        drawn.append(drawing.text(right + 26, top + 17, "no upload"))
    bottom = _TOP + _HIGH
    finest = f"1 in {number(round(1.0 / least))}"
    drawn += [
        drawing.text(0, 12, "Share found"),
        drawing.text(
            _CURVE_LEFT,
            bottom + 34,
            f"Share of false alarms; stops at {finest}, the finest resolved",
        ),
    ]
    return drawing.svg(_WIDTH, bottom + 42, drawn)


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The least errors of telling two inputs apart under (epsilon, delta), and who says so.

    The line of a lower bound is one that a test reaches or crosses somewhere. ``said`` are both
    numbers, rounded as bounds are.
    """

    words: str
    epsilon: float
    delta: float
    colour: str
    width: float
    dashes: str = ""
    said: str = ""

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """Where the least errors lie: (false alarms, missed), a line through these points.

        At a type I error a the least type II error is the largest of 0, 1 - delta - e^eps a and
        e^-eps (1 - delta - a): Kairouz, Oh and Viswanath (2015), Dong, Roth and Su (2022),
        section 2.2.

        >>> TradeOff("claimed", 0.0, 0.25, "claim", 5.0).corners
        ((0.0, 0.75), (0.375, 0.375), (0.75, 0.0))
        """
        free = 1.0 - self.delta
        knee = free / (1.0 + math.exp(self.epsilon)) if self.epsilon < 700.0 else 0.0
        return (0.0, free), (knee, knee), (free, 0.0)


def trade_off(lines: Sequence[TradeOff]) -> str:
    """The least errors of telling two inputs apart under each (epsilon, delta), as lines."""

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return _CURVE_LEFT + point[0] * _SIDE, _TOP + (1.0 - point[1]) * _HIGH

    bottom, right = _TOP + _HIGH, _CURVE_LEFT + _SIDE
    drawn = [
        drawing.line(_CURVE_LEFT, bottom, right, bottom, "muted", 1),
        drawing.line(_CURVE_LEFT, _TOP, _CURVE_LEFT, bottom, "muted", 1),
        drawing.curve([place((0.0, 1.0)), place((1.0, 0.0))], "muted", 1.2, "4 3"),
    ]
    for share in (0.0, 0.5, 1.0):
        x, y = place((share, share))
        drawn.append(drawing.text(x, bottom + 16, percent(share), anchor="middle"))
        drawn.append(drawing.text(_CURVE_LEFT - 6, y + 4, percent(share), anchor="end"))
    drawn.append(drawing.text(0, 12, "Missed (type II error)"))
    drawn.append(drawing.text(_CURVE_LEFT, bottom + 34, "False alarms (type I error)"))
    drawn += [
        drawing.curve([place(c) for c in each.corners], each.colour, each.width, each.dashes)
        for each in sorted(lines, key=lambda each: -each.width)
    ]
    x = right + 16
    for row, each in enumerate(lines):
        y = _TOP + 10 + 46 * row
        drawn.append(
            drawing.curve([(x, y - 4), (x + 20, y - 4)], each.colour, each.width, each.dashes)
        )
        drawn.append(drawing.text(x + 26, y, each.words))
        drawn.append(drawing.text(x, y + 17, each.said))
    y = _TOP + 10 + 46 * len(lines)
    drawn.append(drawing.curve([(x, y - 4), (x + 20, y - 4)], "muted", 1.2, "4 3"))
    drawn.append(drawing.text(x + 26, y, "a coin"))
    return drawing.svg(_WIDTH, bottom + 42, drawn)


def read_curve(roc: RocRow, rate: float) -> float | None:
    """The share found at a share of false alarms; None below the resolution.

    Between two points of the curve that of the lower one.
    """
    below = [found for fpr, found in zip(roc.fpr, roc.tpr, strict=False) if 0.0 < fpr <= rate]
    return below[-1] if below else None


def _curve_axes(least: float, place: Callable[[float, float], tuple[float, float]]) -> list[str]:
    """Both axes, with a tick at every power of ten."""
    (left, bottom), (right, top) = place(least, least), place(1.0, 1.0)
    drawn = [
        drawing.line(left, bottom, right, bottom, "muted", 1),
        drawing.line(left, bottom, left, top, "muted", 1),
    ]
    for power in range(0, math.ceil(math.log10(least)) - 1, -1):
        share = 10.0**power
        (x, _), (_, y) = place(share, least), place(least, share)
        drawn.append(drawing.line(x, bottom, x, bottom + 4, "muted", 1))
        drawn.append(drawing.text(x, bottom + 16, percent(share), anchor="middle"))
        drawn.append(drawing.line(left - 4, y, left, y, "muted", 1))
        drawn.append(drawing.text(left - 6, y + 4, percent(share), anchor="end"))
    return drawn


def _cross(x: float, y: float) -> str:
    """What is guessed without the uploads."""
    strokes = ((x - 4, y - 4, x + 4, y + 4), (x - 4, y + 4, x + 4, y - 4))
    return "".join(drawing.line(*ends, "ink", 2) for ends in strokes)
