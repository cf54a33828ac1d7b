"""Drawing of the claimed, the proved and the shown epsilon on one axis, as SVG.

- Claimed: stated by the system. Proved: an upper bound by accounting. Shown: a lower bound.
- A bar covers the epsilons between the two bounds, which remain possible. A claim left of the bar
  is false. A claim right of the bar is proved.
- The overview of an audit has one row per system, with the best attack. The "ladder" of a system
  has one row per judged claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fedrec_auditor.accountants.statements import Basis, Bound, Claim, round_to_digits
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS_PROB, Verdict, refutes_assumptions
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import drawing
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.documents.drawing import FONT_SIZE, SMALL_FONT, AxisScale
from fedrec_auditor.reports.record.leaks import DISTINGUISHER
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say.summary import Summary

# Signs of the lower bound, the claim and the upper bound.
EPSILON_SIGNS = "►▼◄"
_MIN_EPSILON = 0.01  # smaller values are drawn at the left end of the axis
_GAP, _INFINITY = 14.0, 44.0  # space after the axis, and width of the area of infinity
_LETTER = 5.5  # width of a letter in the label of a scope
_BAR = 100.0  # length of an attack's bar from guessing to certainty
_VACUOUS_EPSILON = math.log(VACUOUS_GUESS_PROB / (1 - VACUOUS_GUESS_PROB))
_draw_small = partial(drawing.draw_text, size=SMALL_FONT)


@dataclass(frozen=True, slots=True)
class EpsilonRow:
    """One row of a drawing of epsilons.

    name: label of the row: name of the system, or of the claim.
    scope_label: second line of the label: scope, delta and game of the finding.
    finding: the judged claim, which determines the scope and delta of the row; None without a
        claim.
    attack_label: name of the best attack, or a text that no attack beats guessing; empty in a
        drawing without attacks (the "ladder").
    attack_advantage: advantage of the best attack: (s - guess) / (1 - guess), for the lower
        confidence limit s of its success; 0 if no attack beats guessing.
    advantage_percent: ``attack_advantage`` as text, such as "≥ 12%"; empty if no attack beats
        guessing.
    """

    name: str
    scope_label: str
    finding: Finding | None
    attack_label: str = ""
    attack_advantage: float = 0.0
    advantage_percent: str = ""

    @property
    def epsilon_marks(self) -> tuple[Bound | None, Claim | None, Bound | None]:
        """Lower bound, claim and upper bound that the row draws; None for a mark that is not drawn.

        Not drawn are:

        - a lower bound with assumptions, or with a delta below the finding's;
        - a claim that states no epsilon for the finding's scope and delta, or that the audit
          derived;
        - an upper bound that is infinite, has a delta above the finding's, or has assumptions that
          a lower bound refutes.
        """
        found = self.finding
        if found is None:
            return None, None, None
        shown, proof = found.lower_bound, found.accounted
        if shown is not None and shown.delta < found.delta:
            shown = None
        if proof is not None and (math.isinf(proof.epsilon) or proof.delta > found.delta):
            proof = None
        proved = None if refutes_assumptions(found.measured, proof) else proof
        is_claimed = found.is_claimed_in_scope and found.claim.basis is not Basis.DERIVED
        return shown, found.claim if is_claimed else None, proved

    @property
    def epsilons_text(self) -> str:
        """Text with the claimed, shown and proved epsilon, each after the arrow that marks it in
        drawings: ▼, ► and ◄.
        """
        finding, (lower, claimed, proved) = self.finding, self.epsilon_marks
        if finding is None:
            return "no claim was judged"
        limit = "" if lower is not None and math.isinf(lower.epsilon) else "≥ "
        assumed = " (conditional)" if proved is not None and proved.assumptions else ""
        claim = f"▼ claimed {say.format_short(claimed.epsilon)}" if claimed else "not claimed"
        shown = f"► shown {limit}{say.format_shown_epsilon(finding)}" if lower else "nothing shown"
        upper = say.format_proved_epsilon(finding) if proved else ""
        proof = f"◄ proved ≤ {upper}{assumed}" if proved else "nothing proved"
        return f"{claim}, {shown}, {proof}"

    @property
    def attack_text(self) -> str:
        """Text with the best attack and its advantage over guessing, in percent."""
        share = self.advantage_percent and f"({self.advantage_percent} of the gap)"
        return say.join_texts(self.attack_label, share, by=" ")

    @property
    def row_text(self) -> str:
        """Text with all that a drawing shows in this row, for readers who cannot see it."""
        unsigned = self.epsilons_text.translate(dict.fromkeys(map(ord, EPSILON_SIGNS)))
        numbers = " ".join(unsigned.split())
        scope = "" if self.finding is None else f"for {say.describe_judged_scope(self.finding)}"
        attack = self.attack_label and f"best attack: {self.attack_text}"
        return f"{self.name}: {say.join_texts(numbers, scope, attack, by='; ')}"


def make_overview_row(glance: Summary) -> EpsilonRow:
    """Makes the row of one system from its headline finding and its best attack.

    The headline finding is the judged claim with the most severe verdict. Attacks that guess which
    of two worst-case inputs was sent are shown only if no other attack beats guessing.
    """
    finding, above = glance.section.headline_finding, (*glance.leaks, *glance.small_leaks)
    # Distinguishers come last: the drawn lower bound of epsilon already states their success.
    best = min(above, key=lambda x: (x.row.family == DISTINGUISHER, -x.advantage), default=None)
    row = EpsilonRow(glance.section.target, "", finding, "none shown to beat guessing")
    if finding is not None:
        row = replace(row, scope_label=_label_scope(finding))
    if best is not None:
        won, same = best.advantage, finding is None or best.row.vantage is finding.scope.vantage
        attack = best.row.attack if same else f"{best.row.attack} ({best.row.vantage})"
        share = f"≥ {say.to_percent(round_to_digits(won, math.floor))}"
        row = replace(row, attack_label=attack, attack_advantage=won, advantage_percent=share)
    if not glance.leak_assessment.unassessed_text:
        return row
    untested = "none shown" if best is None else row.attack_label
    return replace(row, attack_label=f"{untested}, hardly tested")


def make_claim_rows(findings: Sequence[Finding]) -> list[EpsilonRow]:
    """Makes one row per judged claim of a system, with distinct labels."""
    rows, labels = list[EpsilonRow](), Counter[str]()
    for finding in findings:
        label, scope = _label_scope(finding), finding.scope
        labels[label] += 1
        numbered = f"{label} ({labels[label]})" if labels[label] > 1 else label
        name = f"{say.UNIT_TEXTS[scope.unit]}, {say.HORIZON_TEXTS[scope.horizon]}"
        rows.append(EpsilonRow(name, numbered, finding))
    return rows


def _label_scope(finding: Finding) -> str:
    """Returns a short text with the scope of a finding, its delta and its game."""
    delta = say.format_delta(finding.delta) if finding.delta else ""
    return say.join_texts(str(finding.scope).replace(" /", ","), delta, finding.game)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Places of the parts of a row, in drawing units.

    width: width of the drawing.
    label: right end of the label.
    start, end: ends of the axis of epsilon.
    axis: distance from the top of a row to its axis.
    bar: left end of the attack's bar, and distance from the top of a row to the bar.
    row: height of a row.
    """

    width: float
    label: float
    start: float
    end: float
    axis: float
    bar: tuple[float, float]
    row: float


_BROAD_LAYOUT = _Layout(1040.0, 292.0, 318.0, 734.0, 14.0, (826.0, 14.0), 38.0)
_NARROW_LAYOUT = _Layout(380.0, 380.0, 12.0, 318.0, 46.0, (12.0, 82.0), 114.0)
_CLAIM_LAYOUT = _Layout(440.0, 440.0, 12.0, 378.0, 46.0, (0.0, 0.0), 76.0)


def draw_overview(
    glances: Sequence[Summary], among: Sequence[Summary] = ()
) -> tuple[Picture, Picture]:
    """Draws an overview of systems twice: for a broad and for a narrow screen.

    glances: summaries of the drawn systems.
    among: summaries of all systems whose epsilons the axis covers; by default the drawn systems.
    """
    rows = [make_overview_row(glance) for glance in glances]
    ends = find_axis_exponents([make_overview_row(glance) for glance in among or glances])
    title = f"Epsilon and best attack by system. {'. '.join(row.row_text for row in rows)}."
    broad = Picture(_draw_chart(rows, _BROAD_LAYOUT, ends), title, name="overview", kind="broad")
    return broad, replace(broad, svg=_draw_chart(rows, _NARROW_LAYOUT, ends), kind="narrow")


def draw_claims(findings: Sequence[Finding]) -> str:
    """Draws the claimed, the proved and the shown epsilon of each judged claim, on one axis."""
    rows = make_claim_rows(findings)
    return _draw_chart(rows, _CLAIM_LAYOUT, find_axis_exponents(rows))


def find_axis_exponents(rows: Sequence[EpsilonRow]) -> tuple[int, int]:
    """Returns the exponents of ten at the ends of an axis for all epsilons of the rows."""
    marks = [mark.epsilon for row in rows for mark in row.epsilon_marks if mark is not None]
    epsilons = [epsilon for epsilon in marks if _MIN_EPSILON <= epsilon < math.inf]
    low = math.floor(math.log10(min(epsilons, default=0.1)))
    high = max(math.ceil(math.log10(max(epsilons, default=10.0))), 1)
    return max(min(low, -1), high - 12), high


def _draw_chart(rows: Sequence[EpsilonRow], layout: _Layout, ends: tuple[int, int]) -> str:
    """Draws rows below the labels of their axis."""
    low, high = ends
    place = drawing.make_axis(low, high, layout.start, layout.end, log=True)
    heads = [(layout.end + _GAP + _INFINITY / 2, "infinite")]
    for power in range(low, high, max(1, math.ceil((high - low) / 5))):
        label = f"{10.0**power:,g}" if -4 < power < 5 else f"1e{power}"
        heads.append((max(place(10.0**power), 14.0), f"≤ {label}" if power == low else label))
    note = "epsilon; thick line: still possible; grey: guesses 99.9% right"
    drawn = [_draw_small(x, 28, words, anchor="middle") for x, words in heads]
    drawn.append(_draw_small(layout.start, 12, note, muted=True))
    if layout is _BROAD_LAYOUT:
        note = "best attack: share of the gap closed"
        drawn.append(_draw_small(layout.bar[0], 12, note, muted=True))
    for number, row in enumerate(rows):
        parts = list(_draw_row(row, 36 + number * layout.row, place, layout))
        drawn.append(drawing.make_titled_group(row.row_text, parts))
    return drawing.make_svg(layout.width, 36 + layout.row * len(rows), drawn)


def _draw_row(row: EpsilonRow, top: float, place: AxisScale, layout: _Layout) -> Iterator[str]:
    """Yields the SVG elements of one row: label, marks with their numbers, and attack."""
    judged = say.label_verdict(row.finding) if row.attack_label else ""
    size = FONT_SIZE if row.attack_label else SMALL_FONT
    is_bad = row.finding is not None and row.finding.verdict in (Verdict.VIOLATED, Verdict.UNSOUND)
    colour, end = "leak" if is_bad else "ink", layout.label
    room = end - drawing.estimate_text_width(judged, SMALL_FONT)
    name = drawing.truncate_text(row.name, int(room / drawing.estimate_text_width("x", size)))
    scope = drawing.truncate_text(row.scope_label, int(end / _LETTER))
    y, (x, bar) = top + layout.axis, (layout.bar[0], top + layout.bar[1])
    yield drawing.draw_text(0, top + 14, name, bold=True, size=size)
    yield _draw_small(end, top + 14, judged, bold=True, colour=colour, anchor="end")
    yield _draw_small(0, top + 29, scope, muted=True)
    yield from _draw_epsilons(row, y, place, layout)
    yield _draw_small(layout.start, y + 20, row.epsilons_text, muted=True)
    if row.advantage_percent:
        yield drawing.draw_rectangle(x, bar - 5, _BAR, 10, "shade")
        yield drawing.draw_rectangle(x, bar - 5, _BAR * row.attack_advantage, 10, "leak")
        yield _draw_small(x + _BAR + 8, bar + 4, row.advantage_percent)
        bar += 16
    words = row.attack_label if layout is _BROAD_LAYOUT else f"best attack: {row.attack_label}"
    if row.attack_label:
        yield _draw_small(x, bar + 4, words, muted=bool(row.advantage_percent))


def _draw_epsilons(row: EpsilonRow, y: float, place: AxisScale, layout: _Layout) -> Iterator[str]:
    """Yields the SVG elements of the marks of one row, at the height ``y``."""
    beyond, grey = layout.end + _GAP, place(_VACUOUS_EPSILON)
    lower_x, claim_x, upper_x = (
        None if mark is None else place(mark.epsilon) if mark.epsilon < math.inf else beyond + 22
        for mark in row.epsilon_marks
    )
    yield drawing.draw_rectangle(grey, y - 8, layout.end - grey, 16, "shade")
    yield drawing.draw_rectangle(beyond, y - 8, _INFINITY, 16, "shade")
    yield drawing.draw_line(layout.start, y, layout.end, y, "line", 1)
    low = layout.start if lower_x is None else lower_x
    high = beyond + _INFINITY if upper_x is None else upper_x
    if row.finding is not None and low < min(high, beyond):
        yield drawing.draw_line(low, y, high, y, "muted", 4)
    if claim_x is not None and row.finding and row.finding.verdict is Verdict.VIOLATED:
        yield drawing.draw_line(claim_x, y, low, y, "leak", 2)
    if lower_x is not None:
        yield drawing.draw_polygon(((low - 10, y - 6), (low, y), (low - 10, y + 6)), "leak")
    if upper_x is not None:
        yield drawing.draw_polygon(((high + 10, y - 6), (high, y), (high + 10, y + 6)), "ink")
    if claim_x is not None:
        yield drawing.draw_line(claim_x, y - 8, claim_x, y + 8, "claim", 2)
        top, tip = y - 12, (claim_x, y - 3)
        yield drawing.draw_polygon(((claim_x - 6, top), (claim_x + 6, top), tip), "claim")
