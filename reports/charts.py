"""Charts of the HTML report as inline SVG: the ladder of epsilons, an attack's interval and its ROC
curve, how success is spread over users, and the trade-off of two errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from fedrec_auditor.accountants.statements import Bound, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports import drawing, say
from fedrec_auditor.reports.rows import AttackRow, Finding, RocRow, UsersRow

_WIDTH = 420.0
_LEFT, _RIGHT = 98.0, 314.0  # where bars begin, and where the last decade ends
_EDGE = 340.0  # where infinity sits, beyond a break
_ROW, _STEP, _FOOT = 70.0, 16.0, 26.0
_ROOM = 44.0  # between infinity and the next label
_LEAST = 0.01  # of the axis: whatever is less sits at its end
_NAMES, _LONGEST = 130.0, 20  # of groups of users: room, and letters
_VACUOUS = math.log(VACUOUS_GUESS / (1 - VACUOUS_GUESS))


def ladder(findings: Sequence[Finding]) -> str:
    """Claimed, proved and shown epsilon of every finding on one log axis, as SVG.

    A line in words each, its value at the right end. A dot is the number; from it a line runs over
    what a claim or a proof allows, or over what is shown to be so. Zero sits at the left edge; what
    is infinite crosses a break in the axis and ends in an arrow.
    """
    low, high = _ladder_decades(findings)

    def place(epsilon: float) -> float:
        if math.isinf(epsilon):
            return _EDGE
        power = min(max(math.log10(epsilon) if epsilon > 0 else low, low), high)
        return _LEFT + (power - low) / (high - low) * (_RIGHT - _LEFT)

    height = _ROW * len(findings)
    drawn = []
    if math.log10(_VACUOUS) < high:
        start = max(place(_VACUOUS), _LEFT)
        drawn.append(drawing.box(start, 0, _EDGE + 4 - start, height, "shade"))
    for row, finding in enumerate(findings):
        top = row * _ROW + 14
        scope, claim = finding.scope, finding.claim.epsilon
        stated = finding.is_claimed
        other = f", {say.delta_words(finding.delta)}" if finding.delta else ""
        game = ", in a game of fewer items" if finding.game else ""
        title = f"{scope.unit} / {scope.vantage} / {scope.horizon}{other}{game}"
        drawn.append(drawing.text(0, top, title, bold=True))
        proof, shown = finding.accounted, finding.shown
        lines = (
            (
                say.CLAIMED[finding.claim.basis],
                claim if stated else None,
                "claim",
                say.brief(claim),
            ),
            ("proved at most", _epsilon(proof), "muted", proof and say.proved_of(finding)),
            ("shown at least", _epsilon(shown), "leak", shown and say.shown_of(finding)),
        )
        for step, (words, epsilon, colour, said) in enumerate(lines, 1):
            y = top + step * _STEP
            drawn.append(drawing.text(0, y, words))
            if epsilon is None:
                nothing = "nothing" if step > 1 else "not claimed here"
                drawn.append(drawing.text(_LEFT + 4, y, nothing, muted=True))
                continue
            drawn.append(drawing.line(_LEFT, y - 4, _EDGE, y - 4, "line", 0.8))
            end = place(epsilon)
            if math.isinf(epsilon):
                drawn.append(_arrow(y - 4, colour))
            else:
                start, to = (end, _RIGHT) if words == "shown at least" else (_LEFT, end)
                drawn.append(drawing.line(start, y - 4, to, y - 4, colour, 2))
                drawn.append(drawing.dot(end, y - 4, colour))
            drawn.append(drawing.text(_EDGE + 8, y, said or ""))
    drawn += _axis(low, high, height, place)
    return drawing.svg(_WIDTH, height + _FOOT, drawn)


def interval(attack: AttackRow, low: float, high: float) -> str:
    """One attack's value with its interval and a tick at its baseline, ``low`` to ``high``."""

    def place(value: float) -> float:
        return 6 + 128 * min(max((value - low) / (high - low), 0.0), 1.0)

    start, end, value = place(attack.ci_low), place(attack.ci_high), place(attack.value)
    drawn = [
        drawing.line(6, 9, 134, 9, "muted", 0.8),
        drawing.line(start, 9, end, 9, "leak", 3),
        drawing.line(start, 5, start, 13, "leak", 1.6),
        drawing.line(end, 5, end, 13, "leak", 1.6),
        drawing.dot(value, 9, "leak"),
    ]
    if attack.baseline is not None:
        base = place(attack.baseline)
        drawn.append(drawing.line(base, 1, base, 17, "ink", 2))
    return drawing.svg(140, 18, drawn)


def spread(users: UsersRow) -> str:
    """Success over all users, and the means of groups of them, on an axis from 0 to 1, as SVG."""
    quantiles = {level: one.value for level, one in users.quantiles.items()}

    def place(value: float) -> float:
        return _NAMES + min(max(value, 0.0), 1.0) * (_WIDTH - 56.0 - _NAMES)

    def bar(y: float, low: float, value: float, high: float) -> list[str]:
        return [
            drawing.line(place(0.0), y - 4, place(1.0), y - 4, "line", 0.8),
            drawing.line(place(low), y - 4, place(high), y - 4, "leak", 3),
            drawing.dot(place(value), y - 4, "leak"),
            drawing.text(place(1.0) + 8, y, say.brief(value)),
        ]

    some = quantiles or {"50%": 0.0}
    middle = some.get("50%", min(some.values()))
    low, high = some.get("5%", min(some.values())), some.get("95%", max(some.values()))
    y = _STEP
    drawn = [drawing.text(0, y, "all users", bold=True), *bar(y, low, middle, high)]
    top = place(max(some.values()))
    drawn.append(drawing.line(top, y - 10, top, y + 2, "ink", 2))
    told = ""
    for alike, name, one in users.means:
        if alike != told:
            told = alike
            y += _STEP + 6
            drawn.append(drawing.text(0, y, escape(say.legal(alike)), bold=True))
        y += _STEP
        cut = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
        drawn.append(drawing.text(8, y, escape(say.legal(cut))))
        drawn += bar(y, one.ci_low, one.value, one.ci_high)
    y += _STEP
    drawn += [drawing.text(place(x), y, f"{x:g}", anchor="middle") for x in (0.0, 0.5, 1.0)]
    return drawing.svg(_WIDTH, y + 6, drawn)


def scale(attacks: Sequence[AttackRow]) -> tuple[float, float]:
    """The common range of the bars: [0, 1], or wider if a value lies outside."""
    values = [v for a in attacks for v in (a.value, a.ci_low, a.ci_high, a.baseline)]
    finite = [v for v in values if v is not None and abs(v) < 1e100]
    return min([0.0, *finite]), max([1.0, *finite])


def guess_labels() -> list[tuple[str, float]]:
    """A few epsilons and what they mean, for the glossary."""
    return [(say.number(epsilon), guess_probability(epsilon)) for epsilon in (0.1, 1.0, 2.5, 7.0)]


def _epsilon(bound: Bound | None) -> float | None:
    return None if bound is None else bound.epsilon


def _ladder_decades(findings: Sequence[Finding]) -> tuple[int, int]:
    epsilons = [
        bound.epsilon
        for finding in findings
        for bound in (finding.claim, finding.accounted, finding.shown)
        if bound is not None and _LEAST <= bound.epsilon < math.inf
    ]
    low = math.floor(math.log10(min(epsilons, default=0.1)))
    high = math.ceil(math.log10(max(epsilons, default=10.0)))
    high = max(high, 1)
    return max(min(low, -1), high - 12), high


def _axis(low: int, high: int, y: float, place: Callable[[float], float]) -> list[str]:
    step = max(1, math.ceil((high - low) / 5))
    drawn = [
        drawing.line(_LEFT, y, _RIGHT, y, "muted", 1),
        drawing.line(_RIGHT, y - 4, _RIGHT + 4, y + 4, "muted", 1),
        drawing.line(_RIGHT + 6, y - 4, _RIGHT + 10, y + 4, "muted", 1),
        drawing.text(_EDGE, y + 16, "∞", anchor="middle"),
    ]
    for power in range(low, high + 1, step):
        x = place(10.0**power)
        if _EDGE - x < _ROOM and power != low:
            continue
        label = say.number(10.0**power) if -4 < power < 5 else f"1e{power}"
        drawn.append(drawing.line(x, y, x, y + 4, "muted", 1))
        drawn.append(
            drawing.text(x, y + 16, f"≤ {label}" if power == low else label, anchor="middle")
        )
    return drawn


def _arrow(y: float, colour: str) -> str:
    """An arrow that runs over the break in the axis to infinity."""
    gap = drawing.line(_RIGHT + 3, y, _EDGE - 8, y, colour, 3)
    return gap + drawing.area([(_EDGE - 8, y - 6), (_EDGE, y), (_EDGE - 8, y + 6)], colour)


RATES = (0.1, 0.01, 0.001)
"""Shares of false alarms at which a curve is read."""
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
            f"{say.percent(rate)}: {'not resolvable' if share is None else say.percent(share)}"
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
    finest = f"1 in {say.number(round(1.0 / least))}"
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
        """The points (false alarms, missed) whose line has the least errors.

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
        drawn.append(drawing.text(x, bottom + 16, say.percent(share), anchor="middle"))
        drawn.append(drawing.text(_CURVE_LEFT - 6, y + 4, say.percent(share), anchor="end"))
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
        drawn.append(drawing.text(x, bottom + 16, say.percent(share), anchor="middle"))
        drawn.append(drawing.line(left - 4, y, left, y, "muted", 1))
        drawn.append(drawing.text(left - 6, y + 4, say.percent(share), anchor="end"))
    return drawn


def _cross(x: float, y: float) -> str:
    """A cross for a guess without the uploads."""
    strokes = ((x - 4, y - 4, x + 4, y + 4), (x - 4, y + 4, x + 4, y - 4))
    return "".join(drawing.line(*ends, "ink", 2) for ends in strokes)
