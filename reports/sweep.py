"""A sweep, and what users do with it: a table, files, the page with its figure.

The figure has utility upwards, against what attacks gain and against epsilon, by system.
"""

from __future__ import annotations

import io
import json
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from pydantic import ValidationError

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports import drawing, say, store
from fedrec_auditor.reports.drawing import NEXT_TO, SMALL, Box, label_places, width_of
from fedrec_auditor.reports.figures import Drawing
from fedrec_auditor.reports.files import standalone
from fedrec_auditor.reports.frontier import (
    KINDS,
    NOT_PLAYED,
    SWEEP,
    UNPROTECTED,
    Frontier,
    OverTrainingsRow,
    Point,
    SweepContents,
    frontiers,
    level_words,
    without_utility,
)
from fedrec_auditor.reports.html import fill_template
from fedrec_auditor.reports.usefulness import ERRORS

if TYPE_CHECKING:
    import pandas
    import pyarrow

RECORD = SWEEP
FILES = ("sweep.html", "sweep.csv", "sweep.parquet", "svg", RECORD)
"""Files that every sweep leaves."""


class Sweep(SweepContents):
    """A whole sweep: ``variants``, ``rows`` of each training, ``overall`` the trainings."""

    @classmethod
    def found(cls, directory: Path) -> Sweep | None:
        """The sweep in a directory, None if there is none; InputError if it cannot be read."""
        path = directory / RECORD
        try:
            return cls.model_validate_json(store.read_regular(path, store.LARGEST))
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or str(error)
        except ValidationError:
            why = "something else, or one of another version"
        raise InputError(f"Expected a sweep in {path}, got {why}. Give another directory.")

    def save(self, directory: str | Path) -> Path:
        """Write sweep.json, the rows as CSV and Parquet, the page and the figure as SVG."""
        import pyarrow.csv
        import pyarrow.parquet

        place, rows = Path(directory), self._table()
        separated, columns = io.BytesIO(), io.BytesIO()
        pyarrow.csv.write_csv(rows, separated)
        pyarrow.parquet.write_table(rows, columns)
        contents = {
            "sweep.html": self.page().encode(),
            "sweep.csv": separated.getvalue(),
            "sweep.parquet": columns.getvalue(),
            "svg": standalone(self.figure()).encode(),
            RECORD: self.encoded(),
        }
        store.check_writable(place)
        store.write_all({place / name: content for name, content in contents.items()})
        return place

    def encoded(self) -> bytes:
        """Canonical JSON: equal sweeps are equal bytes."""
        data = store.plain(self.model_dump(mode="python"))
        text = json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (say.escaped(text) + "\n").encode()

    def figure(self) -> Drawing:
        """Utility against what attacks gain, and against epsilon."""
        return Drawing(
            name="frontier",
            kind="frontier",
            title="What protection costs, and what it buys",
            caption="Up: utility, over that of the same system without noise where there is "
            "one. Right: what the strongest attack gains above guessing, and epsilon; less is "
            f"better. Crosses: intervals of {len(self.seeds)} trainings and their users.",
            svg=figure(frontiers(self), without_utility(self)),
        )

    def page(self) -> str:
        """The page, which needs nothing else."""
        filters = {
            "system": list(dict.fromkeys(each.target for each in self.variants)),
            "kind": [kind for kind in KINDS if self._of(kind)],
            "metric": list(dict.fromkeys(row.metric for row in self.overall)),
        }
        page = fill_template(
            "sweep.html.j2",
            sweep=self,
            figure=self.figure(),
            legend=legend(),
            block=block,
            systems=frontiers(self),
            notes=[note for note in self.notes if NOT_PLAYED not in note],
            unplayed=[note for note in self.notes if NOT_PLAYED in note],
            missing=without_utility(self),
            filters=filters,
            kinds=KINDS,
            level_words=level_words,
            tables=[(kind, self._of(kind)) for kind in filters["kind"]],
        )
        return say.legal(page)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each variant, training and figure; settings are columns."""
        return self._table().to_pandas()

    def _of(self, kind: str) -> list[tuple[str, OverTrainingsRow]]:
        """The figures of a kind over all trainings, each with the words of its variant."""
        return [(self.words(row.variant), row) for row in self.overall if row.kind == kind]

    def words(self, place: int) -> str:
        """The name of a variant."""
        variant = self.variants[place]
        swept = ", ".join(f"{name}={value}" for name, value in variant.swept.items())
        return f"{variant.target} {swept}" if swept else variant.target

    def _table(self) -> pyarrow.Table:
        import pyarrow

        axes = list(self.axes)
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            variant = self.variants[row.variant]
            settings = {axis: variant.swept.get(axis, "") for axis in axes}
            rows.append({"target": variant.target, **settings, **row.model_dump(mode="python")})
        return pyarrow.Table.from_pylist(rows)


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
_PRIVACY = "privacy"


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
    """The meanings of a block's signs, as a drawing of its own."""
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
    """The heights of the lines of levels."""
    return [height(end) for level in system.levels for end in level.ends]


def _label_words(system: Frontier) -> str:
    """The meaning of the labels of points."""
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
