"""Drawing of a sweep (trainings over several settings): utility against leakage and epsilon.

Each system has two panels with utility on the vertical axis. The horizontal axis is the gain of an
attack over guessing in the left panel, and epsilon in the right panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence

from fedrec_auditor.reports.documents import drawing
from fedrec_auditor.reports.documents.drawing import SMALL_FONT, AxisScale, BoxEdges, truncate_text
from fedrec_auditor.reports.record.frontier import NOISELESS_LABEL, Frontier, SweepPoint
from fedrec_auditor.reports.say.metrics import ERROR_METRICS

# Width of a system's block in drawing units (with margins 366 units, which fit a column of 86 mm).
SYSTEM_BLOCK_WIDTH = 346.0
# Space between adjacent blocks; two blocks with margins have 756 units, a page of 178 mm.
_GAP = 44.0
_PANEL, _PLOT, _HEAD, _LINE, _SPACE = 139.0, 120.0, 52.0, 13.0, 16.0
_LEFT, _RIGHT = 32.0, 197.0  # left edges of the panels
_FLOOR = _HEAD + _PLOT
# Numbers of characters that fit below a panel and above a block.
_LETTERS, _LABEL = 22, 50
# Smallest and largest power of ten on the axis of epsilon; values beyond are drawn at the ends.
_MIN_POWER, _MAX_POWER = -2, 3
# Maximum number of decades for which each power of ten has a label.
_MAX_DECADES = 3
# Errors above this multiple of the largest baseline error are drawn at the end of the axis.
_MAX_ERROR_RATIO = 2.0
_PRIVACY = "privacy"


def draw_sweep(systems: Sequence[Frontier], note: str = "") -> str:
    """Draws a sweep (trainings over several settings) as SVG: a legend, and one block per system.

    Two blocks stand side by side, or a single block alone. ``note`` is a text below the blocks.
    """
    columns = min(2, max(1, len(systems)))
    width = columns * SYSTEM_BLOCK_WIDTH + (columns - 1) * _GAP
    drawn, top = _draw_legend(width)
    for first in range(0, len(systems), columns):
        blocks = [_draw_block(system) for system in systems[first : first + columns]]
        for number, (strokes, _) in enumerate(blocks):
            drawn.append(drawing.move_group(number * (SYSTEM_BLOCK_WIDTH + _GAP), top, strokes))
        top += max(height for _, height in blocks)
    for words in textwrap.wrap(note, int(width / drawing.estimate_text_width("x", SMALL_FONT))):
        drawn.append(_draw_small(0.0, top, words))
        top += _LINE
    return drawing.make_svg(width, top, drawn)


def draw_legend() -> str:
    """Draws the legend of a sweep's drawing, as a separate SVG document."""
    drawn, height = _draw_legend(SYSTEM_BLOCK_WIDTH)
    return drawing.make_svg(SYSTEM_BLOCK_WIDTH, height, drawn)


def draw_system_block(system: Frontier) -> str:
    """Draws one system's utility against leakage and epsilon, as a separate SVG document."""
    drawn, height = _draw_block(system)
    return drawing.make_svg(SYSTEM_BLOCK_WIDTH, height, drawn)


def _draw_legend(width: float) -> tuple[list[str], float]:
    """Returns the SVG elements of the legend, and its height.

    The legend has lines of at most ``width`` drawing units.
    """
    signs: dict[str, Callable[[float, float], str]] = {
        "setting, with intervals": lambda x, y: _draw_point((x - 7, x, x + 7), (y - 5, y, y + 5)),
        NOISELESS_LABEL: lambda x, y: drawing.draw_diamond(x, y, "ink"),
        "popular items, or user and item means": lambda x, y: _draw_level(x - 9, x + 9, y, 0),
        "random items, or mean of all ratings": lambda x, y: _draw_level(x - 9, x + 9, y, 1),
        "epsilon: claimed": lambda x, y: drawing.draw_ring(x, y, "claim"),
        "epsilon: proved at most": lambda x, y: drawing.draw_line(x, y - 5, x, y + 5, "ink", 2),
        "epsilon: shown at least": lambda x, y: drawing.draw_dot(x, y, "leak"),
    }
    drawn, x, y = list[str](), 0.0, 8.0
    for words, sign in signs.items():
        wide = 24.0 + drawing.estimate_text_width(words, SMALL_FONT)
        if x and x + wide > width:
            x, y = 0.0, y + _LINE + 2.0
        drawn += [sign(x + 9.0, y), _draw_small(x + 22.0, y + 4.0, words)]
        x += wide + 4.0
    return drawn, y + _SPACE


def _draw_block(system: Frontier) -> tuple[list[str], float]:
    """Returns the SVG elements of the block of one system, and the block's height."""
    low, high = _find_range(system)
    ends = (_HEAD, _FLOOR) if system.is_y_axis_reversed else (_FLOOR, _HEAD)
    height = drawing.make_axis(low, high, *ends)
    drawn = [
        drawing.draw_text(0.0, 11.0, truncate_text(system.target, _LABEL), bold=True),
        _draw_small(0.0, 25.0, _describe_labels(system)),
        drawing.draw_polygon(((0.0, 41.0), (8.0, 41.0), (4.0, 33.0)), "muted"),
        _draw_small(12.0, 41.0, f"better: {system.axis_label}"),
    ]
    for left in (_LEFT, _RIGHT):
        right = left + _PANEL
        drawn.append(drawing.draw_line(left, _FLOOR, right, _FLOOR, "ink", 1))
        drawn.append(drawing.draw_line(left, _HEAD, left, _FLOOR, "ink", 1))
        if system.is_relative_to_noiseless:
            drawn.append(drawing.draw_line(left, height(1.0), right, height(1.0), "line", 1))
        for index, level in enumerate(system.baseline_utilities):
            drawn += [_draw_level(left, right, height(end), index) for end in level.distinct_values]
    ticks = {value: f"{value:g}" for value in _choose_ticks(low, high, 4)}
    if system.is_y_axis_reversed and max(point.utility.value for point in system.points) > high:
        ticks = {value: words for value, words in ticks.items() if value < 0.9 * high + 0.1 * low}
        ticks[high] = f"≥{high:.2g}"
    for value, words in ticks.items():
        y = height(value) + 4.0
        drawn.append(drawing.draw_text(_LEFT - 4.0, y, words, anchor="end", size=SMALL_FONT))
    drawn += _draw_gains(system, height)
    drawn += _draw_epsilons(system, height)
    attack = f"gain of “{system.attack}” over guessing" if system.attack else ""
    gains, lines = _draw_axis_name(_LEFT, attack, "no attack ran")
    epsilon = f"epsilon of {system.epsilon_scope}" if system.epsilon_scope else ""
    losses, more = _draw_axis_name(_RIGHT, epsilon, "no epsilon is known")
    return [*drawn, *gains, *losses], _FLOOR + 28.0 + max(lines, more) * _LINE + _SPACE


def _draw_axis_name(left: float, words: str, none: str) -> tuple[list[str], int]:
    """Returns the SVG elements of a panel's axis name ``words``, and the number of text lines.

    The text ``none`` is used if ``words`` is empty.
    """
    if not words:
        return [_draw_small(left, _FLOOR + 28.0, none)], 1
    y = _FLOOR + 28.0
    drawn = [drawing.draw_polygon(((left, y - 4), (left + 8, y - 8), (left + 8, y)), "muted")]
    lines = textwrap.wrap(f"better: {words}", _LETTERS, initial_indent="  ")
    for number, line in enumerate(lines):
        indent = 0.0 if number else 12.0
        drawn.append(_draw_small(left + indent, y + number * _LINE, line.strip()))
    return drawn, len(lines)


def _find_range(system: Frontier) -> tuple[float, float]:
    """Returns the smallest and largest value on the axis of utility."""
    # The axis begins at 0, unless utility is an error such as RMSE.
    levels = [end for level in system.baseline_utilities for end in level.distinct_values]
    worst = _MAX_ERROR_RATIO * max(levels) if levels and system.is_y_axis_reversed else math.inf
    values = [*levels, *(min(point.utility.value, worst) for point in system.points)]
    values += [1.0] if system.is_relative_to_noiseless else []
    errors = system.utility_metric in ERROR_METRICS
    low, high = (min(values) if errors else 0.0), max(values)
    span = high - low or abs(high) or 1.0
    ends = [end for point in system.points for end in point.utility.confidence_interval]
    high = max(high, *(min(end, high + span) for end in ends))
    low = min(low, *(max(end, low - span) for end in ends)) if errors else low
    rim = 0.06 * (high - low)
    return (low - rim if errors else low), high + rim


def _draw_gains(system: Frontier, height: AxisScale) -> list[str]:
    """Returns the SVG elements of the left panel: utility against the attack's gain."""
    gains = [(point, point.gain) for point in system.points if point.gain is not None]
    ends = [end for _, gain in gains for end in gain.confidence_interval]
    low, high = min([0.0, *ends]), max([0.1, *ends])
    rim = 0.04 * (high - low)
    place = drawing.make_axis(low - rim, high + rim, _LEFT, _LEFT + _PANEL)
    drawn = [drawing.draw_line(place(0.0), _HEAD, place(0.0), _FLOOR, "line", 1)]
    ticks = _choose_ticks(low, high, 3) if gains else ()
    drawn += [_draw_tick(place(value), f"{value:g}") for value in ticks]
    marks, lines = list[tuple[float, float]](), list[BoxEdges]()
    for point, gain in gains:
        x, y = place(gain.value), height(point.utility.value)
        west, east = map(place, gain.confidence_interval)
        ends = sorted(map(height, point.utility.confidence_interval))
        drawn.append(_draw_point((west, x, east), (ends[0], y, ends[1]), point.is_noiseless))
        marks.append((x, y))
        lines += [(west, y - 1, east, y + 1), (x - 1, ends[0], x + 1, ends[1])]
    if _has_one_axis(system):
        pairs = zip(marks, gains, strict=True)
        path = [mark for mark, (point, _) in pairs if not point.is_noiseless]
        drawn.insert(0, drawing.draw_curve(path, "muted", 0.8))
    lines += _list_level_boxes(system, _LEFT, height)
    return [*drawn, *_draw_labels([point for point, _ in gains], marks, _LEFT, (), lines)]


def _draw_epsilons(system: Frontier, height: AxisScale) -> list[str]:
    """Returns the SVG elements of the right panel: utility against three kinds of epsilon."""
    points = [point for point in system.points if point.epsilon_by_kind]
    values = [value for point in points for value in point.epsilon_by_kind.values()]
    low, high = _find_exponents(values)
    place, end = drawing.make_axis(low, high, _RIGHT, _RIGHT + _PANEL, log=True), _RIGHT + _PANEL
    powers = range(low, high + 1) if high - low <= _MAX_DECADES else (low, (low + high) // 2, high)
    drawn = list[str]()
    for power in powers if points else ():
        words = f"{10.0**power:g}"
        if power == low and min(values) < 10.0**low:
            words = f"≤{words}"
        if power == high and max(values) > 10.0**high:
            words = "∞" if math.isinf(max(values)) else f"≥{words}"
        drawn.append(_draw_tick(place(10.0**power), words, "end" if power == high else "middle"))
    firsts, marks = list[tuple[float, float]](), list[tuple[float, float]]()
    lines = list[BoxEdges]()
    for point in points:
        y = height(point.utility.value)
        at = {kind: place(epsilon) for kind, epsilon in point.epsilon_by_kind.items()}
        if "shown" in at:
            x, to = at["shown"], at.get("proved", end)
            drawn += [drawing.draw_line(x, y, to, y, "pale", 3), drawing.draw_dot(x, y, "leak")]
            lines.append((x, y - 2, to, y + 2))
        if "proved" in at:
            drawn.append(drawing.draw_line(at["proved"], y - 5, at["proved"], y + 5, "ink", 2))
        if "claimed" in at:
            drawn.append(drawing.draw_ring(at["claimed"], y, "claim"))
        marks += [(x, y) for x in at.values()]
        firsts.append((next(iter(at.values())), y))
    lines += _list_level_boxes(system, _RIGHT, height)
    return [*drawn, *_draw_labels(points, firsts, _RIGHT, marks, lines)]


def _find_exponents(epsilons: Sequence[float]) -> tuple[int, int]:
    """Returns the exponents of ten at the ends of the epsilon axis; infinity adds a decade."""
    powers = [math.log10(epsilon) for epsilon in epsilons if 0.0 < epsilon < math.inf] or [0.0]
    low = min(max(math.floor(min(powers)), _MIN_POWER), _MAX_POWER - 1)
    high = max(min(math.ceil(max(powers)), _MAX_POWER), low + 1)
    return low, high + (math.inf in epsilons)


def _draw_labels(
    points: Sequence[SweepPoint],
    at: Sequence[tuple[float, float]],
    left: float,
    marks: Sequence[tuple[float, float]],
    lines: Sequence[BoxEdges],
) -> Iterator[str]:
    """Yields SVG labels with the settings of ``points``, placed next to the coordinates ``at``."""
    # Lines connect distant labels to their points. Labels avoid the points ``marks`` and the
    # ``lines``.
    within = (left + 2.0, _HEAD - 6.0, left + _PANEL + 10.0, _FLOOR - 2.0)
    words = ["/".join(part.rpartition("=")[2] for part in p.name.split(", ")) for p in points]
    words = [truncate_text(each, _LETTERS) for each in words]
    boxes = drawing.place_labels(at, words, SMALL_FONT, within, marks, lines)
    for (x, y), name, box in zip(at, words, boxes, strict=True):
        near = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
        if math.dist((x, y), near) > drawing.MAX_UNCONNECTED_DISTANCE:
            yield drawing.draw_line(x, y, *near, "muted", 0.6)
        yield drawing.draw_text(box[0], box[3] - 1.5, name, size=SMALL_FONT)


def _list_level_boxes(system: Frontier, left: float, height: AxisScale) -> list[BoxEdges]:
    """Returns boxes around the lines in a panel that mark the utility of simple recommenders."""
    heights = [height(end) for level in system.baseline_utilities for end in level.distinct_values]
    return [(left, y - 1.0, left + _PANEL, y + 1.0) for y in heights]


def _describe_labels(system: Frontier) -> str:
    """Returns a text with the names of the settings whose values label the points; may be ""."""
    swept = next((p.name for p in system.points if "=" in p.name and not p.is_noiseless), "")
    names = [part.partition("=")[0] for part in swept.split(", ")]
    words = ["noise, times the paper's" if name == _PRIVACY else name for name in names]
    return truncate_text(f"labels: {'/'.join(words)}", _LABEL) if swept else ""


def _has_one_axis(system: Frontier) -> bool:
    """Whether all points differ in one swept setting only, so that a line may connect them."""
    return all("=" in p.name and ", " not in p.name for p in system.points if not p.is_noiseless)


def _choose_ticks(low: float, high: float, count: int) -> list[float]:
    """Returns about ``count`` round numbers between ``low`` and ``high`` for ticks of an axis."""
    unit = 10.0 ** math.floor(math.log10((high - low) / count))
    step = next(unit * by for by in (1, 2, 5, 10) if (high - low) / (unit * by) <= count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.6g}") for number in range(first, last + 1)]


def _draw_tick(x: float, words: str, anchor: str = "middle") -> str:
    return drawing.draw_text(x, _FLOOR + 13.0, words, anchor=anchor, size=SMALL_FONT)


def _draw_small(x: float, y: float, words: str) -> str:
    return drawing.draw_text(x, y, words, muted=True, size=SMALL_FONT)


def _draw_level(left: float, right: float, y: float, number: int) -> str:
    """Draws the line of a simple recommender's utility: dashed for number 0, dotted for 1."""
    return drawing.draw_curve(((left, y), (right, y)), "ink", 1.0, dashes=("6 4", "1.5 3")[number])


def _draw_point(
    across: tuple[float, float, float], down: tuple[float, float, float], unprotected: bool = False
) -> str:
    """Draws a point with its intervals ``across`` and ``down``, each as (low, value, high)."""
    # A diamond marks a system without protection, a dot any other.
    (west, x, east), (north, y, south) = across, down
    colour = "ink" if unprotected else "leak"
    lines = drawing.draw_line(west, y, east, y, colour, 1)
    lines += drawing.draw_line(x, north, x, south, colour, 1)
    return lines + (drawing.draw_diamond if unprotected else drawing.draw_dot)(x, y, colour)
