"""The figures of a record as inline SVG, one list for the page and for the export.

The ladder of epsilons, the trade-off of two errors, how success is spread over users, ROC curves,
who learns how much; and the bar of one attack's interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedrec_auditor.accountants.statements import Bound, Claim, Vantage, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import drawing
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.documents.drawing import Place, make_axis
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding, RocRow, UsersRow
from fedrec_auditor.reports.record.sections import Section, distinct
from fedrec_auditor.reports.say.exposure import Tone, exposure
from fedrec_auditor.reports.say.glance import Glance, glances

MOST = 3
"""ROC curves of a system that are drawn."""
RATES = (0.1, 0.01, 0.001)
"""Shares of false alarms at which a curve is read."""
_EXACT = "what does hold"
_WIDTH, _STEP, _LONGEST = 420.0, 16.0, 20  # of a figure; between lines; letters of a name
_LEFT, _RIGHT = 98.0, 314.0  # of the ladder: where bars begin, and where the last decade ends
_EDGE = 340.0  # where infinity sits, beyond a break
_ROW, _FOOT = 70.0, 26.0
_ROOM = 44.0  # between infinity and the next label
_LEAST = 0.01  # of the axis: whatever is less sits at its end
_NAMES = 130.0  # of groups of users
_CURVE_LEFT, _TOP, _SIDE, _HIGH = 52.0, 24.0, 224.0, 196.0  # of the panel of a curve
_POINTS = 100  # of a curve as drawn
_COIN = ("muted", 1.2, "4 3")  # the line of a coin
_NAME, _CELL, _TALL, _HEAD = 136.0, 152.0, 72.0, 24.0  # of the map of who learns
_TONES = {Tone.BAD: "bad", Tone.OPEN: "warn", Tone.CALM: "open"}
"""The colour of a tone in the page's style; of its ink the same with ``-ink``."""


def figures(record: Contents) -> Iterator[Picture]:
    """Every figure of a record: who learns how much, then system by system, the worst first."""
    seen = glances(record)
    found = [figure for glance in seen for figure in system_figures(glance)]
    judged = [glance.section for glance in seen if glance.section.findings]
    if judged:
        found.insert(0, _map(judged))
    for figure, name in zip(found, distinct((each.name for each in found), ()), strict=True):
        yield replace(figure, name=name)


def system_figures(glance: Glance) -> Iterator[Picture]:
    """The figures of one system."""
    section, finding = glance.section, glance.section.headline_finding
    if section.findings:
        yield Picture(
            ladder(section.findings),
            f"Epsilon of each claim of {section.target}: claimed, proved, shown",
            say.fill_phrase("caption", "ladder"),
            name=f"{glance.anchor}-ladder",
            kind="ladder",
        )
    if finding is not None and (lines := trade_offs(finding)):
        yield _trade_off(glance, finding, lines)
    hit = hit_row(glance)
    if hit is not None and hit.users is not None:
        yield _spread(glance, hit, hit.users)
    for row in _drawn_curves(glance):
        if row.roc is not None:
            yield _curve(glance, row, row.roc)


def ladder(findings: Sequence[Finding]) -> str:
    """Claimed, proved and shown epsilon of every finding on one log axis, as SVG.

    A line in words each, its value at the right end. A dot is the number; from it a line runs over
    what a claim or a proof allows, or over what is shown to be so. Zero sits at the left edge; what
    is infinite crosses a break in the axis and ends in an arrow.
    """
    low, high = _decades(findings)
    place, height = make_axis(low, high, _LEFT, _RIGHT, log=True), _ROW * len(findings)
    drawn = []
    vacuous = math.log(VACUOUS_GUESS / (1 - VACUOUS_GUESS))
    if math.log10(vacuous) < high:
        start = place(vacuous)
        drawn.append(drawing.box(start, 0, _EDGE + 4 - start, height, "shade"))
    for row, finding in enumerate(findings):
        top, scope = row * _ROW + 14, finding.scope
        other = f", {say.delta_words(finding.delta)}" if finding.delta else ""
        game = ", in a game of fewer items" if finding.game else ""
        title = f"{scope.unit} / {scope.vantage} / {scope.horizon}{other}{game}"
        drawn.append(drawing.text(0, top, title, bold=True))
        claim, proof, shown = finding.claim, finding.accounted, finding.shown
        claimed, epsilon = claim if finding.is_claimed else None, say.brief(claim.epsilon)
        said: tuple[tuple[str, Bound | Claim | None, str, str], ...] = (
            (say.CLAIMED[claim.basis], claimed, "claim", epsilon),
            ("proved at most", proof, "muted", say.proved_of(finding) if proof else ""),
            ("shown at least", shown, "leak", say.shown_of(finding) if shown else ""),
        )
        for step, (words, bound, colour, number) in enumerate(said, 1):
            y = top + step * _STEP
            drawn.append(drawing.text(0, y, words))
            if bound is None:
                nothing = "nothing" if step > 1 else "not claimed here"
                drawn.append(drawing.text(_LEFT + 4, y, nothing, muted=True))
            else:
                drawn += _rung(y - 4, bound.epsilon, place, colour)
                drawn.append(drawing.text(_EDGE + 8, y, number))
    return drawing.svg(_WIDTH, height + _FOOT, [*drawn, *_decade_ticks(low, high, height, place)])


def _rung(y: float, epsilon: float, place: Place, colour: str) -> Iterator[str]:
    yield drawing.line(_LEFT, y, _EDGE, y, "line", 0.8)
    if math.isinf(epsilon):
        head = ((_EDGE - 8, y - 6), (_EDGE, y), (_EDGE - 8, y + 6))
        yield drawing.line(_RIGHT + 3, y, _EDGE - 8, y, colour, 3) + drawing.area(head, colour)
        return
    at = place(epsilon)
    ends = (at, _RIGHT) if colour == "leak" else (_LEFT, at)
    yield drawing.line(ends[0], y, ends[1], y, colour, 2)
    yield drawing.dot(at, y, colour)


def _decades(findings: Sequence[Finding]) -> tuple[int, int]:
    epsilons = [
        bound.epsilon
        for finding in findings
        for bound in (finding.claim, finding.accounted, finding.shown)
        if bound is not None and _LEAST <= bound.epsilon < math.inf
    ]
    low = math.floor(math.log10(min(epsilons, default=0.1)))
    high = max(math.ceil(math.log10(max(epsilons, default=10.0))), 1)
    return max(min(low, -1), high - 12), high


def _decade_ticks(low: int, high: int, y: float, place: Place) -> Iterator[str]:
    """The axis of the ladder, with the break before infinity."""
    yield drawing.line(_LEFT, y, _RIGHT, y, "muted", 1)
    yield drawing.line(_RIGHT, y - 4, _RIGHT + 4, y + 4, "muted", 1)
    yield drawing.line(_RIGHT + 6, y - 4, _RIGHT + 10, y + 4, "muted", 1)
    yield drawing.text(_EDGE, y + 16, "∞", anchor="middle")
    for power in range(low, high + 1, max(1, math.ceil((high - low) / 5))):
        x = place(10.0**power)
        if power == low or _EDGE - x >= _ROOM:
            label = say.number(10.0**power) if -4 < power < 5 else f"1e{power}"
            yield drawing.line(x, y, x, y + 4, "muted", 1)
            words = f"≤ {label}" if power == low else label
            yield drawing.text(x, y + 16, words, anchor="middle")


def interval(attack: AttackRow, low: float, high: float) -> str:
    """One attack's value with its interval and a tick at its baseline, ``low`` to ``high``."""
    place = make_axis(low, high, 6.0, 134.0)
    start, end = place(attack.ci_low), place(attack.ci_high)
    drawn = [
        drawing.line(6, 9, 134, 9, "muted", 0.8),
        drawing.line(start, 9, end, 9, "leak", 3),
        drawing.line(start, 5, start, 13, "leak", 1.6),
        drawing.line(end, 5, end, 13, "leak", 1.6),
        drawing.dot(place(attack.value), 9, "leak"),
    ]
    if attack.baseline is not None:
        base = place(attack.baseline)
        drawn.append(drawing.line(base, 1, base, 17, "ink", 2))
    return drawing.svg(140, 18, drawn)


def scale(attacks: Sequence[AttackRow]) -> tuple[float, float]:
    """The common range of the bars: [0, 1], or wider if a value lies outside."""
    values = [v for a in attacks for v in (a.value, a.ci_low, a.ci_high, a.baseline)]
    finite = [v for v in values if v is not None and abs(v) < 1e100]
    return min([0.0, *finite]), max([1.0, *finite])


def hit_row(glance: Glance) -> AttackRow | None:
    """The most telling row that beats guessing and says how success is spread over users."""
    above = (leak.row for leak in (*glance.leaking, *glance.little))
    return next((row for row in above if row.users and row.users.quantiles), None)


def _spread(glance: Glance, row: AttackRow, users: UsersRow) -> Picture:
    """Success over all users, and the means of groups of them, on an axis from 0 to 1."""
    place = make_axis(0.0, 1.0, _NAMES, _WIDTH - 56.0)

    def bar(y: float, low: float, value: float, high: float) -> list[str]:
        return [
            drawing.line(place(0.0), y - 4, place(1.0), y - 4, "line", 0.8),
            drawing.line(place(low), y - 4, place(high), y - 4, "leak", 3),
            drawing.dot(place(value), y - 4, "leak"),
            drawing.text(place(1.0) + 8, y, say.brief(value)),
        ]

    some = {level: one.value for level, one in users.quantiles.items()}
    least, most = min(some.values()), max(some.values())
    y, told = _STEP, ""
    ends = some.get("5%", least), some.get("50%", least), some.get("95%", most)
    drawn = [drawing.text(0, y, "all users", bold=True), *bar(y, *ends)]
    drawn.append(drawing.line(place(most), y - 10, place(most), y + 2, "ink", 2))
    for alike, name, one in users.means:
        if alike != told:
            told = alike
            y += _STEP + 6
            drawn.append(drawing.text(0, y, alike, bold=True))
        y += _STEP
        drawn.append(drawing.text(8, y, drawing.cut(name, _LONGEST)))
        drawn += bar(y, one.ci_low, one.value, one.ci_high)
    y += _STEP
    drawn += [drawing.text(place(x), y, f"{x:g}", anchor="middle") for x in (0.0, 0.5, 1.0)]
    sure = say.percent(row.confidence)
    means = "; ".join(f"{alike}: {name} {say.brief(one.value)}" for alike, name, one in users.means)
    return Picture(
        drawing.svg(_WIDTH, y + 6, drawn),
        f"Who is hit by {row.attack} on {glance.section.target}, {say.VIEWS[row.vantage]}: "
        f"{users.success}. {means}".strip(),
        say.fill_phrase("caption", "users", success=users.success, confidence=sure),
        name=f"{glance.anchor}-users-{row.attack}-{row.vantage}",
        kind="users",
    )


def _drawn_curves(glance: Glance) -> tuple[AttackRow, ...]:
    """The rows whose ROC curves are shown: of attacks that beat guessing, the most telling few."""
    told = dict.fromkeys((leak.row.attack, leak.row.vantage) for leak in glance.leaking)
    rows = [row for row in glance.section.attacks if row.roc and resolution(row.roc)]
    return tuple(r for which in told for r in rows if (r.attack, r.vantage) == which)[:MOST]


def _curve(glance: Glance, row: AttackRow, roc: RocRow) -> Picture:
    sure, finest = say.percent(row.confidence), round(1.0 / (resolution(roc) or 1.0))
    about = {"attack": row.attack, "view": say.VIEWS[row.vantage]}
    return Picture(
        roc_curve(roc, *_read(glance.section, row)),
        f"ROC curve of {row.attack} on {glance.section.target}, {say.VIEWS[row.vantage]}: "
        f"AUC {say.brief(row.value)}",
        say.fill_phrase("caption", "roc", confidence=sure, finest=finest, **about),
        name=f"{glance.anchor}-roc-{row.attack}-{row.vantage}",
        kind="roc",
    )


def resolution(roc: RocRow) -> float | None:
    """The least share of false alarms of a curve; None where there is nothing to draw.

    It is 1 / number of non-members. A curve that says more than a thousand million would is not
    drawn.
    """
    least = min((rate for rate in roc.fpr if rate > 0.0), default=1.0)
    whole = len(roc.fpr) == len(roc.tpr) == len(roc.low) == len(roc.high)
    return least if whole and 1e-9 <= least < 1.0 else None


def read_curve(roc: RocRow, rate: float) -> float | None:
    """The share found at a share of false alarms; None below the resolution.

    Between two points of the curve that of the lower one.
    """
    below = [found for fpr, found in zip(roc.fpr, roc.tpr, strict=False) if 0.0 < fpr <= rate]
    return below[-1] if below else None


def _read(section: Section, row: AttackRow) -> tuple[dict[float, float | None], dict[float, float]]:
    """The shares that an attack found at the usual rates of false alarms, and the guessed shares.

    As the record's own figures have it, else by the curve.
    """
    found: dict[float, float | None] = {}
    guessed: dict[float, float] = {}
    for rate in RATES:
        metric = f"TPR at FPR {rate:g}"
        found[rate] = read_curve(row.roc, rate) if row.roc else None
        if found[rate] is not None and metric in row.further:
            found[rate] = row.further[metric].value
        for one in section.attacks:
            if (one.attack, one.vantage, one.metric) == (row.attack, row.vantage, metric):
                found[rate] = None if found[rate] is None else one.value
                guessed |= {} if one.baseline is None else {rate: one.baseline}
    return found, guessed


def roc_curve(
    roc: RocRow, found: Mapping[float, float | None], guessed: Mapping[float, float]
) -> str:
    """Share found against share of false alarms, both logarithmic, with its pointwise band.

    Both axes stop at the curve's ``resolution``. ``found`` are the shares found at some rates
    of false alarms, None where they cannot be resolved; ``guessed`` those of the best baseline.
    """
    least = resolution(roc) or 0.5
    bottom, right = _TOP + _HIGH, _CURVE_LEFT + _SIDE + 16
    x_of = make_axis(math.log10(least), 0.0, _CURVE_LEFT, _CURVE_LEFT + _SIDE, log=True)
    y_of = make_axis(math.log10(least), 0.0, bottom, _TOP, log=True)
    step = max(1, len(roc.fpr) // _POINTS)
    kept = sorted({*range(0, len(roc.fpr), step), len(roc.fpr) - 1})
    low, high = ([(x_of(roc.fpr[i]), y_of(e[i])) for i in kept] for e in (roc.low, roc.high))
    line = [(x_of(roc.fpr[i]), y_of(roc.tpr[i])) for i in kept if roc.tpr[i] >= least]
    drawn = [
        drawing.area([*low, *reversed(high)], "pale"),
        drawing.curve([(x_of(least), y_of(least)), (x_of(1.0), y_of(1.0))], *_COIN),
        drawing.curve(line, "leak", 2.2),
        *_curve_ticks(least, x_of, y_of),
    ]
    marks = [(rate, share) for rate, share in found.items() if share and share >= least]
    drawn += [drawing.dot(x_of(rate), y_of(share), "leak") for rate, share in marks]
    drawn += [_cross(x_of(r), y_of(share)) for r, share in guessed.items() if share >= least]
    lines = ["Found, by share of", "false alarms:"]
    for rate, share in found.items():
        said = "not resolvable" if share is None else say.percent(share)
        lines.append(f"{say.percent(rate)}: {said}")
    drawn += [drawing.text(right, _TOP + 10 + 17 * i, said) for i, said in enumerate(lines)]
    top = _TOP + 10 + 17 * len(lines) + 8
    drawn += _key(right, top, "a coin", *_COIN)
    if guessed:
        drawn.append(_cross(right + 10, top + 13))
        drawn.append(drawing.text(right + 26, top + 17, "no upload"))
    finest = f"1 in {say.number(round(1.0 / least))}"
    words = f"Share of false alarms; stops at {finest}, the finest resolved"
    drawn += [drawing.text(0, 12, "Share found"), drawing.text(_CURVE_LEFT, bottom + 34, words)]
    return drawing.svg(_WIDTH, bottom + 42, drawn)


def _curve_ticks(least: float, x_of: Place, y_of: Place) -> Iterator[str]:
    """Both axes, with a tick at every power of ten."""
    left, bottom = x_of(least), y_of(least)
    yield drawing.line(left, bottom, x_of(1.0), bottom, "muted", 1)
    yield drawing.line(left, bottom, left, y_of(1.0), "muted", 1)
    for power in range(0, math.ceil(math.log10(least)) - 1, -1):
        x, y, words = x_of(10.0**power), y_of(10.0**power), say.percent(10.0**power)
        yield drawing.line(x, bottom, x, bottom + 4, "muted", 1)
        yield drawing.text(x, bottom + 16, words, anchor="middle")
        yield drawing.line(left - 4, y, left, y, "muted", 1)
        yield drawing.text(left - 6, y + 4, words, anchor="end")


def _cross(x: float, y: float) -> str:
    """A cross for a guess without the uploads."""
    strokes = ((x - 4, y - 4, x + 4, y + 4), (x - 4, y + 4, x + 4, y - 4))
    return "".join(drawing.line(*ends, "ink", 2) for ends in strokes)


def _key(x: float, y: float, words: str, colour: str, width: float, dashes: str) -> Iterator[str]:
    """A piece of a line, and its name beside it."""
    yield drawing.curve([(x, y - 4), (x + 20, y - 4)], colour, width, dashes)
    yield drawing.text(x + 26, y, words)


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


def trade_offs(finding: Finding) -> tuple[TradeOff, ...]:
    """Lines of claim, proof and lower bound in a finding's scope, if any says something.

    A claim counts where it speaks of this scope. Infinite epsilons are left out: no line shows
    them. Of a refuted claim whose delta is known exactly that one is named.
    """
    claim, proof, shown, holds = finding.claim, finding.accounted, finding.shown, finding.holds_at
    epsilon, speaks = say.brief(claim.epsilon), claim.scope.covers(finding.scope)
    speaks = speaks and not finding.outside_model
    lines = []
    if speaks:
        words, said = say.CLAIMED[claim.basis], f"({epsilon}, {say.brief(claim.delta)})"
        lines.append(TradeOff(words, claim.epsilon, claim.delta, "claim", 5.0, said=said))
    if proof is not None:
        said = f"({say.proved_of(finding)}, {say.at_most(proof.delta)})"
        lines.append(TradeOff("proved", proof.epsilon, proof.delta, "ink", 1.6, "7 4", said))
    if speaks and holds and holds < 1.0:
        said = f"({epsilon}, {say.at_most(holds)})"
        lines.append(TradeOff(_EXACT, claim.epsilon, holds, "ink", 1.5, "2 3", said))
    if shown is not None:
        said = f"({say.shown_of(finding)}, {say.at_least(shown.delta)})"
        lines.append(TradeOff("shown", shown.epsilon, shown.delta, "leak", 2.4, said=said))
    found = tuple(line for line in lines if math.isfinite(line.epsilon))
    telling = any(guess_probability(each.epsilon, each.delta) < VACUOUS_GUESS for each in found)
    return found if telling else ()


def _trade_off(glance: Glance, finding: Finding, lines: Sequence[TradeOff]) -> Picture:
    """The least errors of telling two inputs apart under each (epsilon, delta), as lines."""
    bottom, right = _TOP + _HIGH, _CURVE_LEFT + _SIDE
    x_of, y_of = make_axis(0.0, 1.0, _CURVE_LEFT, right), make_axis(0.0, 1.0, bottom, _TOP)
    drawn = [
        drawing.line(_CURVE_LEFT, bottom, right, bottom, "muted", 1),
        drawing.line(_CURVE_LEFT, _TOP, _CURVE_LEFT, bottom, "muted", 1),
        drawing.curve([(_CURVE_LEFT, _TOP), (right, bottom)], *_COIN),
    ]
    for share in (0.0, 0.5, 1.0):
        words = say.percent(share)
        drawn.append(drawing.text(x_of(share), bottom + 16, words, anchor="middle"))
        drawn.append(drawing.text(_CURVE_LEFT - 6, y_of(share) + 4, words, anchor="end"))
    drawn.append(drawing.text(0, 12, "Missed (type II error)"))
    drawn.append(drawing.text(_CURVE_LEFT, bottom + 34, "False alarms (type I error)"))
    for each in sorted(lines, key=lambda each: -each.width):
        corners = [(x_of(alarms), y_of(missed)) for alarms, missed in each.corners]
        drawn.append(drawing.curve(corners, each.colour, each.width, each.dashes))
    x, y = right + 16, _TOP + 10
    for each in lines:
        drawn += _key(x, y, each.words, each.colour, each.width, each.dashes)
        drawn.append(drawing.text(x, y + 17, each.said))
        y += 46
    drawn += _key(x, y, "a coin", *_COIN)
    pairs = ", ".join(f"{line.words} {line.said}" for line in lines)
    asked = say.listed(say.brief_scope_words(finding.scope), finding.game)
    exact = any(line.words == _EXACT for line in lines)
    bounds = (finding.accounted, finding.shown)
    endless = any(bound is not None and math.isinf(bound.epsilon) for bound in bounds)
    return Picture(
        drawing.svg(_WIDTH, bottom + 42, drawn),
        f"Errors of telling two inputs of {glance.section.target} apart: {pairs}",
        say.fill_phrase("caption", "trade-off", asked=asked)
        + " What does hold: the claimed epsilon at its true delta." * exact
        + " What is infinite has no line." * endless,
        name=f"{glance.anchor}-trade-off",
        kind="trade-off",
    )


def _map(sections: Sequence[Section]) -> Picture:
    """The map of systems and of those who may look; names are cut to fit."""
    lookers = list(Vantage)
    drawn = [
        drawing.text(_NAME + _CELL * place + 6, 14, say.LOOKERS[looker], bold=True)
        for place, looker in enumerate(lookers)
    ]
    for row, section in enumerate(sections):
        top = _HEAD + row * _TALL
        drawn.append(drawing.text(0, top + 16, drawing.cut(section.target, _LONGEST), bold=True))
        for place, looker in enumerate(lookers):
            x, cell = _NAME + _CELL * place, exposure(section, looker)
            colour = "shade" if cell is None else _TONES[cell.tone]
            drawn.append(drawing.box(x, top, _CELL - 2, _TALL - 2, colour))
            if cell is None:
                drawn.append(drawing.text(x + 6, top + 16, "not examined", muted=True))
                continue
            drawn += [
                drawing.text(x + 6, top + 16 + 16 * line, words, colour=f"{colour}-ink")
                for line, words in enumerate(cell.told[0].lines)
            ]
    return Picture(
        drawing.svg(_NAME + _CELL * len(lookers), _HEAD + _TALL * len(sections), drawn),
        "Who learns how much: epsilon by system and by who looks",
        say.fill_phrase("caption", "who-learns"),
        name="who-learns",
        kind="who-learns",
    )
