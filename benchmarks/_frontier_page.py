"""The figure and the page on utility against leakage of all systems, from the measured rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks._frontier_rows import FAMILIES, MAIN_DATA, STUDY, TRAININGS, Family, Setting
from fedrec_auditor.reports.documents import drawing
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.say.metrics import ERROR_METRICS

_TEMPLATE = Path(__file__).with_name("frontier_page.txt")
_HUES = (
    *("#1f4e8c", "#b3261e", "#2e7d32", "#8e5a00", "#6a1b9a"),
    *("#00788a", "#c2185b", "#555555", "#00574b"),
)
_WIDTH, _PANEL, _GAP, _LEFT, _HEIGHT, _ROW, _HEAD = 760.0, 250.0, 46.0, 40.0, 130.0, 196.0, 57.0
_LOW, _HIGH = 0.01, 1e5
"""Ends of the axis of epsilon; values beyond are drawn there."""
_SECOND_DATA = """\
## At the printed noise, MovieLens 1M

{systems} systems, attacked on interactions. The data have no times, so a random item per user is
held out, which favours popular items. {missing} of {families} families were not trained. For the
gains, see the data.

![The same on MovieLens 1M](../docs/frontier-ml-1m.svg)

{says}

"""
_BASELINE = "popularity, or user and item means"
LARGE_EPSILON = 100.0
"""Limit of the proved epsilons that are compared; larger ones are only counted."""


def draw_figure(data: str, rows: Sequence[Setting]) -> Picture:
    """The drawing of one data set, with two panels per family of systems.

    The vertical axis is utility; the horizontal axes are the gain of attacks and epsilon.
    """
    drawn = _draw_legend()
    rows = [row for row in rows if row.data == data]
    rows = [row for row in rows if not math.isnan(_compute_ratio(row, row.utility))]
    families = [f for f in FAMILIES if any(row.family == f.name for row in rows)]
    for number, family in enumerate(families):
        mine = [row for row in rows if row.family == family.name]
        drawn += _draw_panels(family, mine, _HEAD + number * _ROW)
    return Picture(
        name="frontier" if data == MAIN_DATA else f"frontier-{data}",
        kind="frontier",
        alt_text="What protection costs and what it buys, system by system",
        caption="",
        svg=drawing.make_svg(_WIDTH, _HEAD + _ROW * len(families), drawn),
    )


def _draw_legend() -> list[str]:
    words = (
        "Line: a system from no noise to the most noise measured; large dot: the printed noise.",
        "Dashed: popularity, or user and item means; dotted: a random list, or the mean rating.",
        "Epsilon: claimed (ring), proved (bar), shown (small dot); values above 1e5 at the end.",
    )
    return [
        drawing.draw_text(0, 12 + 15 * place, line, muted=True) for place, line in enumerate(words)
    ]


def _draw_panels(family: Family, rows: Sequence[Setting], top: float) -> list[str]:
    """SVG elements of a family's panels; ``top`` is the y coordinate of their upper end."""

    ceiling, floor = top + 24, top + 24 + _HEIGHT
    most = max([1.15, *(1.05 * _compute_ratio(row, row.utility) for row in rows)])

    def to_y(value: float) -> float:
        return floor - min(max(value / most, 0.0), 1.0) * _HEIGHT

    largest = max([0.1, *(row.gain_high for row in rows if not math.isnan(row.gain_high))])

    def to_x(value: float) -> float:
        return _LEFT + min(max(value / largest, 0.0), 1.0) * _PANEL

    def log_x(value: float) -> float:
        share = math.log(min(max(value, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
        return _LEFT + _PANEL + _GAP + share * _PANEL

    metric, chance = rows[0].metric, _compute_ratio(rows[0], rows[0].random)
    over = (
        "error of two means over its own"
        if metric in ERROR_METRICS
        else f"{metric} over popularity's"
    )
    drawn = [drawing.draw_text(0, top + 10, family.title, bold=True)]
    drawn.append(drawing.draw_text(_LEFT + _PANEL + _GAP, top + 10, f"up: {over}", muted=True))
    for left in (_LEFT, _LEFT + _PANEL + _GAP):
        drawn.append(drawing.draw_line(left, floor, left + _PANEL, floor, "ink", 1))
        drawn.append(drawing.draw_line(left, ceiling, left, floor, "ink", 1))
        for level, dashes in ((1.0, "4 3"), (chance, "1 3")):
            if math.isnan(level):
                continue  # not measured
            ends = ((left, to_y(level)), (left + _PANEL, to_y(level)))
            drawn.append(drawing.draw_curve(ends, "muted", 1.0, dashes=dashes))
    drawn += [
        drawing.draw_text(_LEFT - 5, to_y(value) + 4, f"{value:g}", anchor="end")
        for value in (0.0, 1.0)
    ]
    drawn.append(drawing.draw_text(_LEFT, floor + 14, "0", anchor="middle"))
    drawn.append(drawing.draw_text(to_x(largest), floor + 14, f"{largest:.2f}", anchor="middle"))
    drawn.append(
        drawing.draw_text(
            _LEFT + _PANEL / 2, floor + 14, "gain over guessing", muted=True, anchor="middle"
        )
    )
    drawn += [
        drawing.draw_text(log_x(value), floor + 14, f"{value:g}", anchor="middle")
        for value in (0.01, 1.0, 100.0)
    ]
    drawn.append(drawing.draw_text(log_x(_HIGH), floor + 14, "epsilon", muted=True, anchor="end"))
    systems = list(dict.fromkeys(row.system for row in rows))
    for number, system in enumerate(systems):
        mine = [row for row in rows if row.system == system]
        bare = get_noiseless(mine[0], rows)
        mine += [bare] if bare is not None and bare not in mine else []
        mine.sort(key=lambda row: row.noise)
        hue = _HUES[number % len(_HUES)]
        lines = _draw_system(mine, to_y, to_x, log_x)
        lines.append(
            drawing.draw_text(_LEFT + 2 * _PANEL + _GAP + 24, ceiling + 12 + 15 * number, system)
        )
        lines.append(
            drawing.draw_dot(_LEFT + 2 * _PANEL + _GAP + 14, ceiling + 8 + 15 * number, "leak")
        )
        drawn += [line.replace("var(--leak)", hue) for line in lines]
    return drawn


Scale = Callable[[float], float]


def _draw_system(rows: Sequence[Setting], to_y: Scale, to_x: Scale, log_x: Scale) -> list[str]:
    """SVG elements of one system's settings in both panels, in the colour "leak".

    The functions map relative utility to y, and a gain (``to_x``) or epsilon (``log_x``) to x.
    """
    drawn, path = [], []
    for row in rows:
        y = to_y(_compute_ratio(row, row.utility))
        if not math.isnan(row.gain):
            path.append((to_x(row.gain), y))
            x, low, high = (to_x(g) for g in (row.gain, row.gain_low, row.gain_high))
            if not math.isnan(low):
                drawn.append(drawing.draw_line(low, y, high, y, "leak", 0.6))
            ends = [to_y(_compute_ratio(row, end)) for end in (row.utility_low, row.utility_high)]
            if not math.isnan(sum(ends)):
                drawn.append(drawing.draw_line(x, ends[0], x, ends[1], "leak", 0.6))
            drawn.append(_draw_point(x, y, row))
        if math.isfinite(row.claimed) and row.noise != 0.0:
            drawn.append(
                drawing.draw_ring(log_x(row.claimed), y, "leak").replace('r="5"', 'r="3.5"')
            )
        if not math.isnan(row.proved):
            x = log_x(row.proved)
            drawn.append(drawing.draw_line(x, y - 5, x, y + 5, "leak", 2))
        if not math.isnan(row.shown):
            drawn.append(drawing.draw_dot(log_x(row.shown), y, "leak").replace('r="4"', 'r="1.8"'))
    return [drawing.draw_curve(path, "leak", 0.8), *drawn] if len(path) > 1 else drawn


def _draw_point(x: float, y: float, row: Setting) -> str:
    size = 4.0 if row.noise == 1.0 or math.isnan(row.noise) else 2.2
    return drawing.draw_dot(x, y, "leak").replace('r="4"', f'r="{size:g}"')


def _compute_ratio(row: Setting, value: float) -> float:
    """Utility ``value`` divided by the baseline's, or the baseline's error divided by ``value``."""
    # The baseline is popularity, or user and item means.
    ratio = (row.popularity, value) if row.metric in ERROR_METRICS else (value, row.popularity)
    return ratio[0] / ratio[1] if ratio[1] else math.nan


def get_noiseless(row: Setting, rows: Sequence[Setting]) -> Setting | None:
    """The row of the same system without noise; None if it was not measured."""
    bare = (each for each in rows if each.family == row.family and each.system == row.twin)
    return next((each for each in bare if not each.noise > 0.0), None)


def reduces_gain(row: Setting, rows: Sequence[Setting]) -> bool:
    """Whether noise reduces the gain of attacks, by intervals that do not overlap."""
    bare = get_noiseless(row, rows)
    return bare is not None and row.gain_high < bare.gain_low


def has_intervals(row: Setting, rows: Sequence[Setting]) -> bool:
    """Whether the row has the intervals that compare it with the system without noise."""
    bare = get_noiseless(row, rows)
    ends = (row.relative_high, row.gain_high, math.nan if bare is None else bare.gain_low)
    return not any(map(math.isnan, ends))


def beats_baseline(row: Setting, rows: Sequence[Setting]) -> bool:
    """Whether the system without noise beats the baseline, so that noise can cost utility."""
    bare = get_noiseless(row, rows)
    return bare is not None and not fails_baseline(bare)


def leaks(row: Setting, rows: Sequence[Setting]) -> bool:
    """Whether attacks gain anything without noise, so that noise can reduce their gain."""
    bare = get_noiseless(row, rows)
    return bare is not None and bare.gain_low > 0.0


def reduces_utility(row: Setting) -> bool:
    """Whether noise measurably reduces utility, by its confidence interval."""
    return row.relative_high < 1.0


def is_ahead(row: Setting, other: Setting) -> bool:
    """Whether ``row`` has better utility than ``other``, by intervals that do not overlap."""
    if row.metric in ERROR_METRICS:
        return row.utility_high < other.utility_low
    return row.utility_low > other.utility_high


def fails_baseline(row: Setting) -> bool:
    """Whether utility does not measurably exceed popularity, or user and item means."""
    return not (row.ahead_high < 0.0 if row.metric in ERROR_METRICS else row.ahead_low > 0.0)


def find_better(row: Setting, rows: Sequence[Setting]) -> list[str]:
    """Names of systems of the same family with better utility that leak no more.

    Leakage is the gain of attacks and the proved epsilon, which is at most ``LARGE_EPSILON``.
    """
    return [
        r.system
        for r in rows
        if r.family == row.family
        and is_ahead(r, row)
        and r.gain_high <= row.gain_high
        and r.proved <= min(row.proved, LARGE_EPSILON)
    ]


def format_page(rows: Sequence[Setting]) -> str:
    """The page in Markdown: drawings, and the results at the noise that papers print."""
    first, large = ([row for row in rows if row.data == data] for data in STUDY)
    printed = [row for row in first if row.noise == 1.0]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        trainings=TRAININGS,
        says=_list_results(first),
        others=_format_second_data(large) if large else "",
        systems=_count_systems(first),
        cut=", ".join(dict.fromkeys(f"{f.title.lower()}" for f in FAMILIES if _is_cut(f, printed))),
    )


def _format_second_data(rows: Sequence[Setting]) -> str:
    """The section on the second data set."""
    families = {row.family for row in rows}
    return _SECOND_DATA.format(
        systems=_count_systems(rows),
        says=_list_results(rows),
        missing=len(FAMILIES) - len(families),
        families=len(FAMILIES),
    )


def _list_results(rows: Sequence[Setting]) -> str:
    """A Markdown list of the results of one data set at the noise that papers print."""
    printed = [row for row in rows if row.noise == 1.0 and row.metric]
    louder = [row for row in printed if row.noise_growth != 1.0]
    known = [row for row in printed if has_intervals(row, rows) and row not in louder]
    able = [row for row in known if beats_baseline(row, rows) and leaks(row, rows)]
    measured = [row for row in able if row.is_read]
    lists = {
        "cost utility, and attacks do not measurably gain less": [
            row for row in measured if reduces_utility(row) and not reduces_gain(row, rows)
        ],
        "cost utility, and attacks gain less": [
            row for row in measured if reduces_utility(row) and reduces_gain(row, rows)
        ],
        "make attacks gain less without a measurable cost": [
            row for row in measured if not reduces_utility(row) and reduces_gain(row, rows)
        ],
        "have no measurable cost or effect": [
            row for row in measured if not reduces_utility(row) and not reduces_gain(row, rows)
        ],
    }
    says = [
        f"- **{len(listed)} of {len(measured)} {words}**: "
        f"{', '.join(_format_system(row, rows) for row in listed)}."
        for words, listed in lists.items()
        if listed
    ]
    unlearned = [row for row in known if not beats_baseline(row, rows)]
    blind = [row for row in known if beats_baseline(row, rows) and not leaks(row, rows)]
    unread = [row for row in able if not row.is_read]
    untold = [row for row in printed if row not in known and row not in louder]
    scales = ", ".join(f"{row.noise_growth:,.0f}" for row in louder)
    for reason, listed in (
        (f"the noise is {scales} times the printed noise, so that it learns", louder),
        ("no attack reads the server's view", unread),
        ("attacks gain nothing without noise either", blind),
        (f"the noiseless counterpart does not measurably exceed {_BASELINE}", unlearned),
        ("not all trainings finished, or there is no interval", untold),
    ):
        if listed:
            names = _format_names([row.system for row in listed])
            says.append(f"- **Not judged: {len(listed)}**, as {reason}: {names}.")
    useful = [row.system for row in printed if not fails_baseline(row)]
    says.append(
        f"- **{len(useful)} of {len(printed)} measurably exceed {_BASELINE}**"
        f"{': ' if useful else ''}{_format_names(useful)}."
    )
    better = {row.system: find_better(row, measured) for row in measured}
    said = [f"`{name}` by {_format_names(others)}" for name, others in better.items() if others]
    if said:
        says.append(
            "- **Another system of the family recommends better, and leaks no more by attacks and "
            f"by proof**: {'; '.join(said)}."
        )
    proved = sorted((row.proved, row.system) for row in printed if not math.isnan(row.proved))
    if finite := [pair for pair in proved if math.isfinite(pair[0])]:
        large, (least, name) = sum(x > LARGE_EPSILON for x, _ in finite), finite[0]
        says.append(
            f"- **{len(finite)} have a finite proved epsilon of a whole user over a training; "
            f"{large} of these are above {LARGE_EPSILON:g}**. The smallest is "
            f"{_format_epsilon(least)} (`{name}`). {len(proved) - len(finite)} more have none."
        )
    return "\n".join(says)


def _count_systems(rows: Sequence[Setting]) -> int:
    """The number of different systems in ``rows``."""
    return len({row.system for row in rows})


def _is_cut(family: Family, rows: Sequence[Setting]) -> bool:
    """Whether trainings of the family were cut to fewer rounds."""
    return any(row.rounds for row in rows if row.family == family.name)


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _format_system(row: Setting, rows: Sequence[Setting]) -> str:
    """A system and its relative utility; for ``MAIN_DATA`` also the gain without and with noise."""
    bare = get_noiseless(row, rows)
    before = "" if bare is None else f"{_format_value(bare.gain)} to "
    gains = f" ({before}{_format_value(row.gain_high)})" if row.data == MAIN_DATA else ""
    return f"`{row.system}` {_format_value(row.relative)}{gains}"


def _format_value(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _format_epsilon(value: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "infinite"
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"
