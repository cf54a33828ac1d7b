"""The figure of a sweep: utility against what attacks gain and against epsilon, a row a system."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from fedrec_auditor.reports import drawing
from fedrec_auditor.reports.sweep_rows import BEYOND, OverTrainingsRow, SweepContents
from fedrec_auditor.reports.usefulness import ERRORS
from fedrec_auditor.reports.words import brief, legal

_WIDTH, _HEAD, _ROW, _PLOT = 480.0, 22.0, 226.0, 120.0
_LEFT, _GAP, _PANEL = 34.0, 44.0, 190.0
_LEAST, _MOST = 0.01, 1000.0
"""Ends of the axis of epsilon: what lies beyond sits there."""
_LETTERS = 32


@dataclass(frozen=True, slots=True)
class Point:
    """A variant of a system: its name, its utility over the twin's, and what it leaks."""

    name: str
    utility: OverTrainingsRow
    gain: OverTrainingsRow | None
    epsilons: dict[str, float]


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one system, and which figures they are.

    ``popularity`` is what the most popular items, or two means, reach over the twin.
    """

    target: str
    metric: str
    protocol: str
    attack: str
    scope: str
    points: tuple[Point, ...]
    popularity: float | None


def frontiers(swept: SweepContents) -> tuple[Frontier, ...]:
    """One frontier for each system whose utility stands beside a twin's.

    The utility is the last metric of the first kind, the attack the one that gains most anywhere
    on the system, the scope the first that is claimed: each the same in all points of a system.
    """
    targets = dict.fromkeys(each.target for each in swept.variants if each.twin is not None)
    return tuple(each for each in (_frontier(swept, target) for target in targets) if each.points)


def _frontier(swept: SweepContents, target: str) -> Frontier:
    places = [
        place
        for place, each in enumerate(swept.variants)
        if each.target == target and each.twin is not None
    ]
    ratios = [row for row in swept.relative if row.variant in places]
    figure = telling(ratios)
    gains = [row for row in swept.overall if row.variant in places and row.kind == "gain"]
    # Of attackers who keep the protocol, where there are any.
    gains = [row for row in gains if not row.view.endswith(BEYOND)] or gains
    strongest = max(gains, key=lambda row: row.value, default=None)
    bounds = [
        row
        for row in swept.overall
        if row.variant in places and row.kind in ("claimed", "proved", "shown")
    ]
    scope = next((row.view for row in bounds if row.kind == "claimed"), "")
    points = []
    for place in places:
        utility = next((r for r in ratios if r.variant == place and _same(r, figure)), None)
        if utility is None:
            continue
        gain = next((r for r in gains if r.variant == place and _same(r, strongest)), None)
        epsilons = {str(r.kind): r.value for r in bounds if r.variant == place and r.view == scope}
        swept_words = ", ".join(
            f"{name.removeprefix(f'{target}.')}={value}"
            for name, value in swept.variants[place].swept.items()
        )
        points.append(Point(swept_words or "as printed", utility, gain, epsilons))
    return Frontier(
        target=target,
        metric="" if figure is None else figure.metric,
        protocol="" if figure is None else figure.view,
        attack="" if strongest is None else f"{strongest.metric}, {strongest.view}",
        scope=scope,
        points=tuple(points),
        popularity=None if figure is None else _popularity(swept, places, figure),
    )


def _same(row: OverTrainingsRow, other: OverTrainingsRow | None) -> bool:
    return other is not None and (row.metric, row.view) == (other.metric, other.view)


def telling(rows: Sequence[OverTrainingsRow]) -> OverTrainingsRow | None:
    """The figure of utility to name: of the first kind and protocol, at the largest cutoff."""
    like = [row for row in rows if _kind(row) == _kind(rows[0])]
    return like[-1] if like else None


def _kind(row: OverTrainingsRow) -> tuple[str, str, int]:
    return row.metric.partition("@")[0], row.view, row.variant


def over_unprotected(metric: str) -> str:
    """What is drawn of a metric: larger is better."""
    return (
        f"unprotected {metric} over its own" if metric in ERRORS else f"{metric} over unprotected"
    )


def _popularity(
    swept: SweepContents, places: Sequence[int], figure: OverTrainingsRow
) -> float | None:
    """The baseline over the twin's utility; the twin's over the baseline where small is good.

    None where twins differ, which no one line shows.
    """
    twins = {swept.variants[place].twin for place in places}
    if len(twins) > 1:
        return None
    metric = figure.metric
    row = next(
        (
            r
            for r in swept.overall
            if r.variant in twins and r.kind == "utility" and _same(r, figure)
        ),
        None,
    )
    if row is None or not row.baseline or not row.value:
        return None
    ratio = row.baseline / row.value
    return 1.0 / ratio if metric in ERRORS else ratio


def figure(systems: Sequence[Frontier]) -> str:
    """The drawing, SVG: left what an attack gains, right epsilon; up is utility over the twin's."""
    left = _LEFT + _PANEL + _GAP
    drawn = [drawing.ring(left + 6, 8, "claim"), drawing.text(left + 16, 12, "claimed")]
    drawn += [drawing.line(left + 76, 3, left + 76, 13, "ink", 2)]
    drawn += [drawing.text(left + 84, 12, "proved")]
    drawn += [drawing.dot(left + 140, 8, "leak"), drawing.text(left + 150, 12, "shown")]
    for number, system in enumerate(systems):
        drawn += _row(system, _HEAD + number * _ROW)
    return drawing.svg(_WIDTH, _HEAD + _ROW * len(systems), drawn)


def _row(system: Frontier, top: float) -> list[str]:
    most = max([1.0, *(_end(p.utility.ci_high, p.utility.value) for p in system.points)])
    most = min(1.05 * most, 2.0)
    floor, ceiling = top + 44 + _PLOT, top + 44

    def height(value: float) -> float:
        return floor - min(max(value / most, 0.0), 1.0) * _PLOT

    drawn = [drawing.text(0, top + 14, escape(legal(system.target)), bold=True)]
    drawn.append(
        drawing.text(0, top + 30, escape(legal(over_unprotected(system.metric))), muted=True)
    )
    lefts = (_LEFT, _LEFT + _PANEL + _GAP)
    for left in lefts:
        drawn.append(drawing.line(left, floor, left + _PANEL, floor, "ink", 1))
        drawn.append(drawing.line(left, ceiling, left, floor, "ink", 1))
        drawn.append(drawing.line(left, height(1.0), left + _PANEL, height(1.0), "line", 1))
        if system.popularity is not None:
            y = height(system.popularity)
            ends = ((left, y), (left + _PANEL, y))
            drawn.append(drawing.curve(ends, "muted", 1.2, dashes="4 3"))
    drawn += [
        drawing.text(_LEFT - 6, height(value) + 4, f"{value:g}", anchor="end")
        for value in (0.0, 0.5, 1.0)
    ]
    drawn += _gains(system, lefts[0], floor, height)
    drawn += _epsilons(system, lefts[1], floor, height)
    return drawn


Height = Callable[[float], float]


def _gains(system: Frontier, left: float, floor: float, height: Height) -> list[str]:
    told = [(point, point.gain) for point in system.points if point.gain is not None]
    ends = [e for _, gain in told for e in (gain.ci_low, gain.ci_high) if e is not None]
    low, high = min([0.0, *ends]), max([0.1, *ends])

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * _PANEL

    drawn = [drawing.line(place(0.0), floor - _PLOT, place(0.0), floor, "line", 1)]
    for point, gain in told:
        x, y = place(gain.value), height(point.utility.value)
        drawn += _cross(
            x,
            y,
            (place(_end(gain.ci_low, gain.value)), place(_end(gain.ci_high, gain.value))),
            point,
            height,
        )
    drawn += [drawing.text(place(v), floor + 14, brief(v), anchor="middle") for v in (0.0, high)]
    words = (
        ("gain over guessing of", *system.attack.split(": ", 1)) if told else ("no attack was run",)
    )
    drawn += [
        drawing.text(left, floor + 30 + 14 * line, escape(legal(_cut(word))), muted=True)
        for line, word in enumerate(words)
    ]
    path = [(place(gain.value), height(point.utility.value)) for point, gain in told]
    return [drawing.curve(path, "muted", 0.8), *drawn]


def _epsilons(system: Frontier, left: float, floor: float, height: Height) -> list[str]:
    def place(epsilon: float) -> float:
        if epsilon <= _LEAST:
            return left
        share = math.log(min(epsilon, _MOST) / _LEAST) / math.log(_MOST / _LEAST)
        return left + share * _PANEL

    drawn = []
    for point in system.points:
        y = height(point.utility.value)
        shown, proved = point.epsilons.get("shown"), point.epsilons.get("proved")
        if shown is not None:
            end = place(_MOST if proved is None else proved)
            drawn.append(drawing.line(place(shown), y, end, y, "pale", 3))
            drawn.append(drawing.dot(place(shown), y, "leak"))
        if proved is not None:
            x = place(proved)
            drawn.append(drawing.line(x, y - 5, x, y + 5, "ink", 2))
        if (claimed := point.epsilons.get("claimed")) is not None:
            drawn.append(drawing.ring(place(claimed), y, "claim"))
    drawn += [
        drawing.text(place(value), floor + 14, f"{value:g}", anchor="middle")
        for value in (0.01, 1.0, 100.0)
    ]
    words = ("epsilon of", *system.scope.split(" / ", 1))
    drawn += [
        drawing.text(left, floor + 30 + 14 * line, escape(legal(_cut(word))), muted=True)
        for line, word in enumerate(words)
    ]
    return drawn


def _end(end: float | None, value: float) -> float:
    """An end of an interval, where there is one."""
    return value if end is None else end


def _cut(words: str) -> str:
    """At most as many letters as fit below a panel."""
    return words if len(words) <= _LETTERS else f"{words[: _LETTERS - 1]}…"


def _cross(
    x: float, y: float, across: tuple[float, float], point: Point, height: Height
) -> list[str]:
    """A point with its intervals, and the values of its settings beside."""
    row = point.utility
    name = "/".join(part.rpartition("=")[2] for part in point.name.split(", "))
    low, high = (height(_end(end, row.value)) for end in (row.ci_low, row.ci_high))
    return [
        drawing.line(across[0], y, across[1], y, "leak", 1),
        drawing.line(x, low, x, high, "leak", 1),
        drawing.dot(x, y, "leak"),
        drawing.text(x + 6, y - 6, escape(legal(name))),
    ]
