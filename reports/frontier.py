"""The figure of a sweep: utility against what attacks gain and against epsilon, by system."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from fedrec_auditor.reports import drawing, say
from fedrec_auditor.reports.drawing import NEXT_TO, SMALL, Box, label_places, width_of
from fedrec_auditor.reports.sweep import (
    AT_DELTA,
    BEYOND,
    FigureRow,
    OverTrainingsRow,
    SweepContents,
    VariantRow,
)
from fedrec_auditor.reports.usefulness import ERRORS

BLOCK = 346.0
"""Width of a system's block: with margins 366, a column of 86 mm where a unit is 2/3 of a point."""
_GAP = 44.0
"""Between two blocks that stand side by side: with margins 756, a page's width of 178 mm."""
_LEFT, _BETWEEN, _PANEL, _PLOT = 32.0, 26.0, 139.0, 120.0
_HEAD, _LINE, _SPACE = 52.0, 13.0, 16.0
_LETTERS = 22
"""As many letters fit below a panel."""
_LEAST, _MOST = -2, 3
"""Powers of ten beyond which the axis of epsilon does not go: what lies there sits at the end."""
_DECADES = 3
"""So many have a number each."""
_HOPELESS = 2.0
"""Errors so many times those of what is simpler, and worse ones, sit at the end of their axis."""
UNPROTECTED = "without noise"
EPSILONS = ("claimed", "proved", "shown")
_PRIVACY = "privacy"


@dataclass(frozen=True, slots=True)
class Point:
    """A variant of a system: its name, its utility, over the twin's or alone, and what it leaks."""

    name: str
    utility: OverTrainingsRow
    gain: OverTrainingsRow | None
    epsilons: dict[str, float]
    whole: dict[str, float] = field(default_factory=dict)
    unprotected: bool = False

    def said(self, kind: str, *, whole: bool = False) -> str:
        """An epsilon of this kind in words; of a twin without noise that it is sent in the clear.

        What shows infinitely much of a whole user sends it in the clear.
        """
        found = (self.whole if whole else self.epsilons).get(kind)
        clear = self.unprotected and kind == "shown" and self.whole.get(kind) == math.inf
        if clear and found in (None, math.inf):
            return "sent in the clear: infinite"
        if found is None:
            return "not claimed" if kind == "claimed" else "not known"
        if math.isinf(found):
            return "infinite"
        others = (self.whole if whole else self.epsilons).items()
        equal = any(n != kind and math.isclose(found, each, rel_tol=1e-9) for n, each in others)
        towards = {"proved": say.at_most, "shown": say.at_least}
        return (say.brief if equal else towards.get(kind, say.brief))(found)


@dataclass(frozen=True, slots=True)
class Level:
    """What is reached without learning: over the twins', from the least to the largest ratio."""

    name: str
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, ...]:
        """The least and the largest, once where they are the same."""
        return tuple(dict.fromkeys((self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one system, and which figures they are.

    Where it is ``relative``, utility is over that of the same system without noise, which is
    among the points; else it is as measured. ``levels`` are what the most popular items and a
    random list reach, or two means and the mean of all ratings, in the same measure. ``scope`` is
    that of the epsilons, ``wider`` that of a whole user over the training, "" where it is the same.
    """

    target: str
    metric: str
    protocol: str
    attack: str
    scope: str
    wider: str
    points: tuple[Point, ...]
    relative: bool
    levels: tuple[Level, ...]

    @property
    def measure(self) -> str:
        """What is drawn upwards, in words."""
        less = self.metric in ERRORS
        if not self.relative:
            return f"{self.metric}, where less is better" if less else self.metric
        return (
            f"{self.metric} without noise over its own"
            if less
            else f"{self.metric} over that without noise"
        )

    @property
    def falls(self) -> bool:
        """Whether small figures are the good ones, which stand above others."""
        return self.metric in ERRORS and not self.relative


def frontiers(swept: SweepContents) -> tuple[Frontier, ...]:
    """One frontier for each system with utility: over that of its twins, and where none is, alone.

    The utility is the last metric of the first kind, the attack the one that gains most on
    the system, the scope the first that is claimed: each the same in all points of a system. The
    twins are points of the system beside which they stand.
    """
    over_twin = {row.variant for row in swept.relative}
    twins = {swept.variants[place].twin for place in over_twin}
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    found = []
    for target in dict.fromkeys(each.target for each in swept.variants):
        places = [p for p, each in enumerate(swept.variants) if each.target == target]
        beside = [place for place in places if place in over_twin]
        if beside:
            found.append(_frontier(swept, beside, swept.relative))
        alone = [place for place in places if place in measured - over_twin]
        if set(alone) - twins:
            found.append(_frontier(swept, alone, swept.overall))
    return tuple(found)


def level_words(level: Level) -> str:
    """A level as a number, or from one to another."""
    return " to ".join(map(say.brief, level.ends))


def without_utility(swept: SweepContents) -> str:
    """Which variants cannot be drawn, as no utility of theirs is known; "" if all are."""
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    names = [each.target for p, each in enumerate(swept.variants) if p not in measured]
    return f"Without utility: {', '.join(dict.fromkeys(names))}." if names else ""


def _frontier(
    swept: SweepContents, places: Sequence[int], utility: Sequence[OverTrainingsRow]
) -> Frontier:
    """The frontier of these variants of a system, by these rows of utility."""
    relative = utility is swept.relative
    rows = [row for row in utility if row.variant in places and row.kind == "utility"]
    figure = telling(rows)
    found = {row.variant: row for row in rows if _same(row, figure)}
    twins = [swept.variants[place].twin for place in places] if relative else []
    beside = {
        row.variant: row
        for row in swept.overall
        if row.kind == "utility" and row.variant in twins and _same(row, figure)
    }
    whole = {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "next_low": None, "next_high": None}
    found |= {place: row.model_copy(update=whole) for place, row in beside.items()}
    gains = [row for row in swept.overall if row.kind == "gain"]
    own = [row for row in gains if row.variant in {*places, *twins}]
    # Of attackers who keep the protocol, where there are any.
    own = [row for row in own if not row.view.endswith(BEYOND)] or own
    strongest = max(own, key=lambda row: row.value, default=None)
    bounds = [row for row in swept.overall if row.kind in EPSILONS]
    widest = min(
        (row for row in bounds if row.variant in places),
        key=lambda row: EPSILONS.index(row.kind),
        default=None,
    )
    scope = "" if widest is None else widest.view
    told = (row.view for row in bounds if row.variant in {*places, *twins})
    wider = next((view for view in told if _is_whole(view) and view != scope), "")

    def epsilons(place: int, view: str) -> dict[str, float]:
        return {r.kind: r.value for r in bounds if (r.variant, r.view) == (place, view)}

    return Frontier(
        target=swept.variants[places[0]].target,
        metric=figure.metric,
        protocol=figure.view,
        attack="" if strongest is None else f"{strongest.metric}, {strongest.view}",
        scope=scope,
        wider=wider,
        points=tuple(
            Point(
                name=_name(swept.variants[place], place in beside, len(beside) > 1),
                utility=row,
                gain=next((r for r in gains if r.variant == place and _same(r, strongest)), None),
                epsilons=epsilons(place, scope),
                whole=epsilons(place, wider or scope),
                unprotected=place in beside,
            )
            for place, row in found.items()
        ),
        relative=relative,
        levels=tuple(_levels(list((beside if relative else found).values()), relative)),
    )


def _is_whole(view: str) -> bool:
    """Whether a view is of a user over a training of the data, against the server."""
    parts = view.partition(AT_DELTA)[0].split(" / ")
    return len(parts) == 4 and {"user", "server", "training"} <= set(parts)


def _same(row: FigureRow, other: FigureRow | None) -> bool:
    return other is not None and (row.metric, row.view) == (other.metric, other.view)


def _name(variant: VariantRow, unprotected: bool, several: bool) -> str:
    """The swept settings of a variant, without its target; those of a twin where it has others."""
    swept = variant.swept or (variant.settings if unprotected and several else {})
    words = [f"{name.removeprefix(f'{variant.target}.')}={value}" for name, value in swept.items()]
    if unprotected:
        words.insert(0, UNPROTECTED)
    return ", ".join(words) or ("as given" if variant.settings else "as printed")


def _levels(rows: Sequence[OverTrainingsRow], relative: bool) -> Iterator[Level]:
    """What these rows have beside them, over their own where ``relative``; larger is then better.

    ``rows`` are those of twins as measured, or of the variants themselves.
    """
    less = rows[0].metric in ERRORS
    names = ("two means", "mean of all ratings") if less else ("popularity", "random")
    for name, levels in zip(
        names, ([row.baseline for row in rows], [row.random for row in rows]), strict=True
    ):
        beside = [(lv, row.value) for lv, row in zip(levels, rows, strict=True) if lv is not None]
        if relative:
            parts = [pair[::-1] if less else pair for pair in beside]
            found = [over / under for over, under in parts if under > 0.0]
        else:
            found = [level for level, _ in beside]
        if found:
            yield Level(name, min(found), max(found))


def telling(rows: Sequence[FigureRow]) -> FigureRow:
    """The figure of utility to name: of the first kind and protocol, at the largest cutoff."""
    return [row for row in rows if _kind(row) == _kind(rows[0])][-1]


def _kind(row: FigureRow) -> tuple[str, str, int]:
    return row.metric.partition("@")[0], row.view, row.variant


def figure(systems: Sequence[Frontier], note: str = "") -> str:
    """The drawing, SVG: a legend, and a block for each system, two abreast where there are several.

    A block is ``BLOCK`` units wide: left what an attack gains, right epsilon; up is utility.
    """
    columns = min(2, max(1, len(systems)))
    width = columns * BLOCK + (columns - 1) * _GAP
    drawn, top = _legend(width)
    for first in range(0, len(systems), columns):
        blocks = [_block(system) for system in systems[first : first + columns]]
        for number, (strokes, _) in enumerate(blocks):
            drawn.append(drawing.moved(number * (BLOCK + _GAP), top, strokes))
        top += max(height for _, height in blocks)
    for words in textwrap.wrap(note, int(width / width_of("x", SMALL))):
        drawn.append(_small(0.0, top, words))
        top += _LINE
    return drawing.svg(width, top, drawn)


def legend() -> str:
    """What the signs of a block mean, as a drawing of its own."""
    drawn, height = _legend(BLOCK)
    return drawing.svg(BLOCK, height, drawn)


def block(system: Frontier) -> str:
    """The block of one system, as a drawing of its own."""
    drawn, height = _block(system)
    return drawing.svg(BLOCK, height, drawn)


def _legend(width: float) -> tuple[list[str], float]:
    """The legend in lines of this width, and where it ends."""
    signs: tuple[tuple[str, Callable[[float, float], str]], ...] = (
        ("setting, with intervals", lambda x, y: _cross((x - 7, x, x + 7), (y - 5, y, y + 5))),
        (UNPROTECTED, lambda x, y: drawing.diamond(x, y, "ink")),
        ("popularity, or two means", lambda x, y: _level(x - 9, x + 9, y, 0)),
        ("random, or mean of all ratings", lambda x, y: _level(x - 9, x + 9, y, 1)),
        ("epsilon claimed", lambda x, y: drawing.ring(x, y, "claim")),
        ("proved at most", lambda x, y: drawing.line(x, y - 5, x, y + 5, "ink", 2)),
        ("shown at least", lambda x, y: drawing.dot(x, y, "leak")),
    )
    drawn, x, y = list[str](), 0.0, 8.0
    for words, sign in signs:
        wide = 24.0 + width_of(words, SMALL)
        if x and x + wide > width:
            x, y = 0.0, y + _LINE + 2.0
        drawn += [sign(x + 9.0, y), _small(x + 22.0, y + 4.0, words)]
        x += wide + 4.0
    return drawn, y + _SPACE


Place = Callable[[float], float]
"""Where a value stands on an axis."""


def _block(system: Frontier) -> tuple[list[str], float]:
    """The strokes of a block, and its height."""
    floor = _HEAD + _PLOT
    low, high = _ends(system)

    def height(value: float) -> float:
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return _HEAD + (share if system.falls else 1.0 - share) * _PLOT

    drawn = [
        drawing.text(0.0, 11.0, escape(say.legal(_cut(system.target))), bold=True),
        _small(0.0, 25.0, _label_words(system)),
        drawing.area(((0.0, 41.0), (8.0, 41.0), (4.0, 33.0)), "muted"),
        _small(12.0, 41.0, f"better: {system.measure}"),
    ]
    lefts = (_LEFT, _LEFT + _PANEL + _BETWEEN)
    for left in lefts:
        right = left + _PANEL
        drawn.append(drawing.line(left, floor, right, floor, "ink", 1))
        drawn.append(drawing.line(left, _HEAD, left, floor, "ink", 1))
        if system.relative:
            drawn.append(drawing.line(left, height(1.0), right, height(1.0), "line", 1))
        for number, level in enumerate(system.levels):
            drawn += [_level(left, right, height(end), number) for end in level.ends]
    worse = system.falls and max(point.utility.value for point in system.points) > high
    ticks = {value: f"{value:g}" for value in _ticks(low, high, 4)}
    if worse:
        ticks = {value: words for value, words in ticks.items() if value < 0.9 * high + 0.1 * low}
        ticks[high] = f"≥{high:.2g}"
    for value, words in ticks.items():
        drawn.append(
            drawing.text(_LEFT - 4.0, height(value) + 4.0, words, anchor="end", size=SMALL)
        )
    drawn += _gains(system, lefts[0], height)
    drawn += _epsilons(system, lefts[1], height)
    attack = f"gain over guessing of {system.attack}" if system.attack else ""
    epsilon = f"epsilon of {system.scope}" if system.scope else ""
    most = 0
    for left, words, none in (
        (lefts[0], attack, "no attack was run"),
        (lefts[1], epsilon, "no epsilon is told"),
    ):
        lines = (
            textwrap.wrap(f"better: {words}", _LETTERS, initial_indent="  ") if words else [none]
        )
        y = floor + 28.0
        if words:
            drawn.append(drawing.area(((left, y - 4), (left + 8, y - 8), (left + 8, y)), "muted"))
        for number, line in enumerate(lines):
            indent = 12.0 if words and not number else 0.0
            drawn.append(_small(left + indent, y + number * _LINE, line.strip()))
        most = max(most, len(lines))
    return drawn, floor + 28.0 + most * _LINE + _SPACE


def _ends(system: Frontier) -> tuple[float, float]:
    """The ends of the axis of utility: from 0 but for errors; of an interval what fits."""
    levels = [end for level in system.levels for end in level.ends]
    worst = _HOPELESS * max(levels) if levels and system.falls else math.inf
    values = [*levels, *(min(point.utility.value, worst) for point in system.points)]
    values += [1.0] if system.relative else []
    errors = system.metric in ERRORS
    low, high = (min(values) if errors else 0.0), max(values)
    span = high - low or abs(high) or 1.0
    ends = [end for point in system.points for end in _interval(point.utility)]
    high = max(high, *(min(end, high + span) for end in ends))
    low = min(low, *(max(end, low - span) for end in ends)) if errors else low
    rim = 0.06 * (high - low)
    return (low - rim if errors else low), high + rim


def _gains(system: Frontier, left: float, height: Place) -> list[str]:
    """The points in the left panel, by what the attack gains."""
    told = [(point, point.gain) for point in system.points if point.gain is not None]
    ends = [end for _, gain in told for end in _interval(gain)]
    low, high = min([0.0, *ends]), max([0.1, *ends])
    rim = 0.04 * (high - low)

    def place(value: float) -> float:
        return left + (value - low + rim) / (high - low + 2.0 * rim) * _PANEL

    floor = _HEAD + _PLOT
    drawn = [drawing.line(place(0.0), _HEAD, place(0.0), floor, "line", 1)]
    drawn += [_tick(place(value), f"{value:g}") for value in (_ticks(low, high, 3) if told else ())]
    marks, lines = list[tuple[float, float]](), list[Box]()
    for point, gain in told:
        x, y = place(gain.value), height(point.utility.value)
        (west, east), ends = map(place, _interval(gain)), [*map(height, _interval(point.utility))]
        drawn.append(_cross((west, x, east), (min(ends), y, max(ends)), point.unprotected))
        marks.append((x, y))
        lines += [(west, y - 1, east, y + 1), (x - 1, min(ends), x + 1, max(ends))]
    if _one_axis(system):
        path = [mark for mark, (point, _) in zip(marks, told, strict=True) if not point.unprotected]
        drawn.insert(0, drawing.curve(path, "muted", 0.8))
    return drawn + _labels(
        [point for point, _ in told], marks, left, _across(system, height), lines=lines
    )


def _epsilons(system: Frontier, left: float, height: Place) -> list[str]:
    """The points in the right panel, by epsilon as claimed, proved and shown."""
    told = [point for point in system.points if point.epsilons]
    values = [value for point in told for value in point.epsilons.values()]
    low, high = _powers(values)

    def place(epsilon: float) -> float:
        power = math.log10(epsilon) if epsilon > 0.0 else -math.inf
        return left + (min(max(power, low), high) - low) / (high - low) * _PANEL

    drawn = list[str]()
    few = high - low <= _DECADES
    for power in (range(low, high + 1) if few else (low, (low + high) // 2, high)) if told else ():
        words = f"{10.0**power:g}"
        if power == low and min(values) < 10.0**low:
            words = f"≤{words}"
        if power == high and max(values) > 10.0**high:
            words = "∞" if math.isinf(max(values)) else f"≥{words}"
        drawn.append(_tick(place(10.0**power), words, "end" if power == high else "middle"))
    marks, lines = list[tuple[float, float]](), list[Box]()
    for point in told:
        y = height(point.utility.value)
        at = {kind: place(epsilon) for kind, epsilon in point.epsilons.items()}
        if "shown" in at:
            end = at.get("proved", left + _PANEL)
            drawn.append(drawing.line(at["shown"], y, end, y, "pale", 3))
            drawn.append(drawing.dot(at["shown"], y, "leak"))
            lines.append((at["shown"], y - 2, end, y + 2))
        if "proved" in at:
            drawn.append(drawing.line(at["proved"], y - 5, at["proved"], y + 5, "ink", 2))
        if "claimed" in at:
            drawn.append(drawing.ring(at["claimed"], y, "claim"))
        marks += [(x, y) for x in at.values()]
    firsts = [(place(next(iter(p.epsilons.values()))), height(p.utility.value)) for p in told]
    return drawn + _labels(told, firsts, left, _across(system, height), marks, lines)


def _powers(epsilons: Sequence[float]) -> tuple[int, int]:
    """The powers of ten where the axis of these epsilons ends; infinite ones take one more."""
    powers = [math.log10(epsilon) for epsilon in epsilons if 0.0 < epsilon < math.inf] or [0.0]
    low = min(max(math.floor(min(powers)), _LEAST), _MOST - 1)
    high = max(min(math.ceil(max(powers)), _MOST), low + 1)
    return low, high + (math.inf in epsilons)


def _labels(
    points: Sequence[Point],
    at: Sequence[tuple[float, float]],
    left: float,
    across: Sequence[float],
    marks: Sequence[tuple[float, float]] = (),
    lines: Sequence[Box] = (),
) -> list[str]:
    """The values of the settings of points, beside them; from farther away with a line."""
    within = (left + 2.0, _HEAD - 6.0, left + _PANEL + 10.0, _HEAD + _PLOT - 2.0)
    lines = [*lines, *((left, y - 1.0, left + _PANEL, y + 1.0) for y in across)]
    words = ["/".join(part.rpartition("=")[2] for part in p.name.split(", ")) for p in points]
    words = [_cut(each, _LETTERS) for each in words]
    drawn = list[str]()
    for (x, y), name, box in zip(
        at, words, label_places(at, words, SMALL, within, marks, lines), strict=True
    ):
        near = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
        if math.dist((x, y), near) > NEXT_TO:
            drawn.append(drawing.line(x, y, *near, "muted", 0.6))
        drawn.append(drawing.text(box[0], box[3] - 1.5, escape(say.legal(name)), size=SMALL))
    return drawn


def _across(system: Frontier, height: Place) -> list[float]:
    """Where the lines of levels are."""
    return [height(end) for level in system.levels for end in level.ends]


def _label_words(system: Frontier) -> str:
    """What the labels of points are."""
    swept = next((p.name for p in system.points if "=" in p.name and not p.unprotected), "")
    names = [part.partition("=")[0] for part in swept.split(", ")]
    told = ["noise, times the paper's" if name == _PRIVACY else name for name in names]
    return _cut(f"labels: {'/'.join(told)}") if swept else ""


def _one_axis(system: Frontier) -> bool:
    """Whether the points are along one setting, so that a line through them has a meaning."""
    return all("=" in p.name and ", " not in p.name for p in system.points if not p.unprotected)


def _interval(row: OverTrainingsRow) -> tuple[float, float]:
    """The ends of an interval; the value twice where there is none."""
    if row.ci_low is None or row.ci_high is None:
        return row.value, row.value
    return row.ci_low, row.ci_high


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between two ends, at most about so many."""
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(unit * by for by in (1, 2, 5, 10) if (high - low) / (unit * by) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.6g}") for number in range(first, last + 1)]


def _tick(x: float, words: str, anchor: str = "middle") -> str:
    return drawing.text(x, _HEAD + _PLOT + 13.0, words, anchor=anchor, size=SMALL)


def _small(x: float, y: float, words: str) -> str:
    return drawing.text(x, y, escape(say.legal(words)), muted=True, size=SMALL)


def _level(left: float, right: float, y: float, number: int) -> str:
    """The line of a level: dashed the first, dotted the second."""
    return drawing.curve(((left, y), (right, y)), "ink", 1.0, dashes=("6 4", "1.5 3")[number])


def _cut(words: str, letters: int = 50) -> str:
    """At most so many letters."""
    return words if len(words) <= letters else f"{words[: letters - 1]}…"


def _cross(
    across: tuple[float, float, float], down: tuple[float, float, float], unprotected: bool = False
) -> str:
    """A point in the middle of its intervals."""
    (west, x, east), (north, y, south) = across, down
    sign = drawing.diamond(x, y, "ink") if unprotected else drawing.dot(x, y, "leak")
    colour = "ink" if unprotected else "leak"
    return (
        drawing.line(west, y, east, y, colour, 1)
        + drawing.line(x, north, x, south, colour, 1)
        + sign
    )
