"""Drawings of the results of an audit as inline SVG, for the HTML page and for the export of files.

They are the overview of all systems, the ladder (each claim's epsilons on one axis), the spread of
an attack's success over users, and ROC curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import drawing
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.documents.drawing import AxisScale, make_axis
from fedrec_auditor.reports.documents.overview import draw_claims, draw_overview
from fedrec_auditor.reports.record.rows import AttackRow, Contents, RocRow, UsersRow
from fedrec_auditor.reports.record.sections import Section, make_html_ids
from fedrec_auditor.reports.say.metrics import describe_attack
from fedrec_auditor.reports.say.summary import Summary, summarize_systems

# Maximum number of ROC curves that are drawn per system.
MAX_ROC_CURVES = 3
# False-alarm rates at which the true positive rate is printed next to a curve.
MARKED_FALSE_ALARM_RATES = (0.1, 0.01, 0.001)
_WIDTH, _STEP, _MAX_LETTERS = 420.0, 16.0, 20  # figure width; line spacing; letters of a name
_NAME_WIDTH = 130.0  # width of the names of user groups
_CURVE_LEFT, _TOP, _SIDE, _HEIGHT = 52.0, 24.0, 224.0, 196.0  # panel of a curve
_N_POINTS = 100  # points of a drawn curve
_COIN = ("muted", 1.2, "4 3")  # colour, width and dashes of the line of guessing by a coin


def draw_all_figures(record: Contents) -> Iterator[Picture]:
    """Yields all drawings of an audit's record: the overview, then those of each system.

    The most severe system is first. The names of the drawings are unique.
    """
    summaries = summarize_systems(record)
    drawn = [draw_overview(summaries)[0]]
    drawn += [figure for glance in summaries for figure in draw_system_figures(glance)]
    for figure, name in zip(drawn, make_html_ids((each.name for each in drawn), ()), strict=True):
        yield replace(figure, name=name)


def draw_system_figures(glance: Summary) -> Iterator[Picture]:
    """Yields the drawings of one system: epsilons on one axis, success per user, ROC curves.

    ``glance`` is the summary of the system's results. A drawing without results is left out.
    """
    section = glance.section
    if section.findings:
        yield Picture(
            draw_claims(section.findings),
            f"Claimed epsilon, upper bound and lower bound of each claim of {section.target}",
            name=f"{glance.html_id}-ladder",
            kind="ladder",
        )
    hit = select_per_user_attack(glance)
    if hit is not None and hit.users is not None:
        yield _draw_spread(glance, hit, hit.users)
    for row in _select_curves(glance):
        if row.roc is not None:
            yield _make_roc_picture(glance, row, row.roc)


def select_per_user_attack(glance: Summary) -> AttackRow | None:
    """Selects the attack result whose success per user is drawn.

    The result is the most harmful attack result that beats guessing and has quantiles over users;
    None if there is no such result.
    """
    above = (leak.row for leak in (*glance.leaks, *glance.small_leaks))
    return next((row for row in above if row.users and row.users.quantiles), None)


def _draw_spread(glance: Summary, row: AttackRow, users: UsersRow) -> Picture:
    """Draws an attack's success over all users and in groups of users, from 0 to 1."""
    place = make_axis(0.0, 1.0, _NAME_WIDTH, _WIDTH - 56.0)

    def bar(y: float, low: float, value: float, high: float) -> list[str]:
        return [
            drawing.draw_line(place(0.0), y - 4, place(1.0), y - 4, "line", 0.8),
            drawing.draw_line(place(low), y - 4, place(high), y - 4, "leak", 3),
            drawing.draw_dot(place(value), y - 4, "leak"),
            drawing.draw_text(place(1.0) + 8, y, say.format_short(value)),
        ]

    levels = {level: figure.value for level, figure in users.quantiles.items()}
    low, high = min(levels.values()), max(levels.values())
    y, head = _STEP, ""
    ends = levels.get("5%", low), levels.get("50%", low), levels.get("95%", high)
    drawn = [drawing.draw_text(0, y, "all users", bold=True), *bar(y, *ends)]
    drawn.append(drawing.draw_line(place(high), y - 10, place(high), y + 2, "ink", 2))
    for trait, name, mean in users.group_means:
        if trait != head:
            head = trait
            y += _STEP + 6
            drawn.append(drawing.draw_text(0, y, trait, bold=True))
        y += _STEP
        drawn.append(drawing.draw_text(8, y, drawing.truncate_text(name, _MAX_LETTERS)))
        drawn += bar(y, mean.ci_low, mean.value, mean.ci_high)
    y += _STEP
    drawn += [drawing.draw_text(place(x), y, f"{x:g}", anchor="middle") for x in (0.0, 0.5, 1.0)]
    sure = say.to_percent(row.confidence)
    means = "; ".join(
        f"{trait} {name} = {say.format_short(one.value)}" for trait, name, one in users.group_means
    )
    return Picture(
        drawing.make_svg(_WIDTH, y + 6, drawn),
        f"Success of the {describe_attack(row)} per user of {glance.section.target}: "
        f"{users.success}. {means}".strip(),
        say.fill_text("caption", "users", success=users.success, confidence=sure),
        name=f"{glance.html_id}-users-{row.attack}-{row.vantage}",
        kind="users",
    )


def _select_curves(glance: Summary) -> tuple[AttackRow, ...]:
    """Selects the attack results whose ROC curves are drawn: of the most harmful leaks."""
    # There are at most ``MAX_ROC_CURVES``. A leak is a result that beats guessing.
    keys = dict.fromkeys((leak.row.attack, leak.row.vantage) for leak in glance.leaks)
    rows = [row for row in glance.section.attacks if row.roc and find_min_positive_fpr(row.roc)]
    return tuple(r for key in keys for r in rows if (r.attack, r.vantage) == key)[:MAX_ROC_CURVES]


def _make_roc_picture(glance: Summary, row: AttackRow, roc: RocRow) -> Picture:
    of, attack = say.PHRASES["sought"].get(row.family, "cases"), describe_attack(row)
    return Picture(
        draw_roc_curve(roc, *_read(glance.section, row)),
        f"ROC curve of the {attack} on {glance.section.target}, AUC {say.format_short(row.value)}",
        say.fill_text("caption", "roc", sure=say.to_percent(row.confidence), attack=attack, of=of),
        name=f"{glance.html_id}-roc-{row.attack}-{row.vantage}",
        kind="roc",
    )


def find_min_positive_fpr(roc: RocRow) -> float | None:
    """Returns the smallest positive false-alarm rate of a ROC curve, 1 / (number of non-members).

    None if the curve cannot be drawn, in these cases:

    - No rate is in [1e-9, 1).
    - The curve's lists have different lengths.
    """
    smallest = min((rate for rate in roc.fpr if rate > 0.0), default=1.0)
    equal = len(roc.fpr) == len(roc.tpr) == len(roc.low) == len(roc.high)
    return smallest if equal and 1e-9 <= smallest < 1.0 else None


def read_tpr(roc: RocRow, rate: float) -> float | None:
    """Returns the true positive rate of a ROC curve at the false-alarm rate ``rate``.

    Between two points of the curve, it is the rate at the left point. None if ``rate`` is below the
    curve's smallest positive false-alarm rate.
    """
    below = [tpr for fpr, tpr in zip(roc.fpr, roc.tpr, strict=False) if 0.0 < fpr <= rate]
    return below[-1] if below else None


def _read(section: Section, row: AttackRow) -> tuple[dict[float, float | None], dict[float, float]]:
    """Returns the true positive rates of an attack, and of its baseline, at the marked rates."""
    # Both mappings have ``MARKED_FALSE_ALARM_RATES`` as keys. A rate of the attack is that
    # of the record if the record has it, else it is read from the curve; None if it cannot be
    # resolved.
    shares: dict[float, float | None] = {}
    guessed: dict[float, float] = {}
    for rate in MARKED_FALSE_ALARM_RATES:
        metric = f"TPR at FPR {rate:g}"
        shares[rate] = read_tpr(row.roc, rate) if row.roc else None
        if shares[rate] is not None and metric in row.further:
            shares[rate] = row.further[metric].value
        for other in section.attacks:
            if (other.attack, other.vantage, other.metric) == (row.attack, row.vantage, metric):
                shares[rate] = None if shares[rate] is None else other.value
                guessed |= {} if other.baseline is None else {rate: other.baseline}
    return shares, guessed


def draw_roc_curve(
    roc: RocRow, tpr_by_fpr: Mapping[float, float | None], guessed: Mapping[float, float]
) -> str:
    """Draws a ROC curve with its pointwise band on two logarithmic axes, as SVG.

    roc: the curve; both axes begin at its smallest positive false-alarm rate.
    tpr_by_fpr: true positive rates to mark, by false-alarm rate; None if there are too few data.
    guessed: true positive rate of the best guess without the uploads, by false-alarm rate.
    """
    finest = find_min_positive_fpr(roc) or 0.5
    bottom, right = _TOP + _HEIGHT, _CURVE_LEFT + _SIDE + 16
    x_of = make_axis(math.log10(finest), 0.0, _CURVE_LEFT, _CURVE_LEFT + _SIDE, log=True)
    y_of = make_axis(math.log10(finest), 0.0, bottom, _TOP, log=True)
    step = max(1, len(roc.fpr) // _N_POINTS)
    drawn_at = sorted({*range(0, len(roc.fpr), step), len(roc.fpr) - 1})
    low, high = ([(x_of(roc.fpr[i]), y_of(e[i])) for i in drawn_at] for e in (roc.low, roc.high))
    line = [(x_of(roc.fpr[i]), y_of(roc.tpr[i])) for i in drawn_at if roc.tpr[i] >= finest]
    drawn = [
        drawing.draw_polygon([*low, *reversed(high)], "pale"),
        drawing.draw_curve([(x_of(finest), y_of(finest)), (x_of(1.0), y_of(1.0))], *_COIN),
        drawing.draw_curve(line, "leak", 2.2),
        *_draw_axes(finest, x_of, y_of),
    ]
    marks = [(rate, share) for rate, share in tpr_by_fpr.items() if share and share >= finest]
    drawn += [drawing.draw_dot(x_of(rate), y_of(share), "leak") for rate, share in marks]
    drawn += [_draw_cross(x_of(r), y_of(share)) for r, share in guessed.items() if share >= finest]
    lines = ["Share found at a", "false-alarm rate of"]
    for rate, share in tpr_by_fpr.items():
        words = "too few data" if share is None else say.to_percent(share)
        lines.append(f"{say.to_percent(rate)}: {words}")
    drawn += [drawing.draw_text(right, _TOP + 10 + 17 * i, words) for i, words in enumerate(lines)]
    top = _TOP + 10 + 17 * len(lines) + 8
    drawn += _key(right, top, "coin toss", *_COIN)
    if guessed:
        drawn.append(_draw_cross(right + 10, top + 13))
        drawn.append(drawing.draw_text(right + 26, top + 17, "guess, no uploads"))
    limit = f"1 in {say.format_number(round(1.0 / finest))}"
    words = f"Rate of false alarms (smallest with these data: {limit})"
    drawn.append(drawing.draw_text(0, 12, "Share found"))
    drawn.append(drawing.draw_text(_CURVE_LEFT, bottom + 34, words))
    return drawing.make_svg(_WIDTH, bottom + 42, drawn)


def _draw_axes(finest: float, x_of: AxisScale, y_of: AxisScale) -> Iterator[str]:
    """Yields the SVG elements of both axes, with a tick at every power of ten."""
    left, bottom = x_of(finest), y_of(finest)
    yield drawing.draw_line(left, bottom, x_of(1.0), bottom, "muted", 1)
    yield drawing.draw_line(left, bottom, left, y_of(1.0), "muted", 1)
    for power in range(0, math.ceil(math.log10(finest)) - 1, -1):
        x, y, words = x_of(10.0**power), y_of(10.0**power), say.to_percent(10.0**power)
        yield drawing.draw_line(x, bottom, x, bottom + 4, "muted", 1)
        yield drawing.draw_text(x, bottom + 16, words, anchor="middle")
        yield drawing.draw_line(left - 4, y, left, y, "muted", 1)
        yield drawing.draw_text(left - 6, y + 4, words, anchor="end")


def _draw_cross(x: float, y: float) -> str:
    """Draws the cross that marks the best guess without the uploads."""
    strokes = ((x - 4, y - 4, x + 4, y + 4), (x - 4, y + 4, x + 4, y - 4))
    return "".join(drawing.draw_line(*ends, "ink", 2) for ends in strokes)


def _key(x: float, y: float, words: str, colour: str, width: float, dashes: str) -> Iterator[str]:
    """Yields the SVG elements of a line sample at (x, y) and its name, for the legend."""
    yield drawing.draw_curve([(x, y - 4), (x + 20, y - 4)], colour, width, dashes)
    yield drawing.draw_text(x + 26, y, words)
