"""The figures of a record, one list for the page and for the export."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fedrec_auditor.accountants.statements import Bound, Claim, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from fedrec_auditor.reports import say
from fedrec_auditor.reports.charts import (
    RATES,
    TradeOff,
    ladder,
    read_curve,
    resolution,
    roc_curve,
    spread,
    trade_off,
)
from fedrec_auditor.reports.exposure import exposure_map
from fedrec_auditor.reports.glance import Glance, glances
from fedrec_auditor.reports.rows import AttackRow, Contents, Finding, RocRow, UsersRow
from fedrec_auditor.reports.section import Section, distinct

MOST = 3
"""ROC curves of a system that are drawn."""
_EXACT = "what does hold"


@dataclass(frozen=True, slots=True)
class Drawing:
    """One drawing: ``svg`` is a whole SVG element, ``title`` names it, ``caption`` explains it.

    ``name`` stays the same from audit to audit, is no other figure's and fits a file's name.
    ``kind`` is who-learns, ladder, trade-off, users or roc. Colours are the CSS variables of
    templates/glance.css; there are no identifiers.
    """

    name: str
    kind: str
    title: str
    caption: str
    svg: str


def figures(record: Contents) -> Iterator[Drawing]:
    """Every figure of a record: who learns how much, then system by system, the worst first."""
    seen = glances(record)
    found = [figure for glance in seen for figure in system_figures(glance)]
    judged = [glance.section for glance in seen if glance.section.findings]
    if judged:
        found.insert(0, _map(judged))
    for figure, name in zip(found, distinct((each.name for each in found), ()), strict=True):
        yield replace(figure, name=name)


def system_figures(glance: Glance) -> Iterator[Drawing]:
    """The figures of one system."""
    if glance.section.findings:
        yield _ladder(glance)
    finding = glance.section.headline_finding
    if finding is not None and (lines := trade_offs(finding)):
        yield _trade_off(glance, finding, lines)
    hit = hit_row(glance)
    if hit is not None and hit.users is not None:
        yield _hit(glance, hit, hit.users)
    for row in drawn_curves(glance):
        if row.roc is not None:
            yield _curve(glance, row, row.roc)


def _map(sections: Sequence[Section]) -> Drawing:
    return Drawing(
        name="who-learns",
        kind="who-learns",
        title="Who learns how much: epsilon by system and by who looks",
        caption="The widest scope asked, and the epsilon shown and proved in it. Red: 6.9 or "
        "more is shown. Blue: below 2.2 is proved in every scope asked. Amber: neither. "
        "A star: proved under an assumption.",
        svg=exposure_map(sections),
    )


def _ladder(glance: Glance) -> Drawing:
    section = glance.section
    return Drawing(
        name=f"{glance.anchor}-ladder",
        kind="ladder",
        title=f"Epsilon of each claim of {section.target}: claimed, proved, shown",
        caption="Epsilon on a logarithmic axis. Shaded: one bit can be guessed 99.9% of the time.",
        svg=ladder(section.findings),
    )


def _trade_off(glance: Glance, finding: Finding, lines: tuple[TradeOff, ...]) -> Drawing:
    pairs = (f"{line.words} {line.said}" for line in lines)
    asked = say.listed(say.brief_scope_words(finding.scope), finding.game)
    exact = any(line.words == _EXACT for line in lines)
    bounds = (finding.accounted, finding.shown)
    endless = any(bound is not None and math.isinf(bound.epsilon) for bound in bounds)
    return Drawing(
        name=f"{glance.anchor}-trade-off",
        kind="trade-off",
        title=f"Errors of telling two inputs of {glance.section.target} apart: {', '.join(pairs)}",
        caption=f"Errors of telling two inputs apart, with (epsilon, delta), for {asked}. If "
        "the claim is true, no attack lies below its line, nor below that of a proof; of what is "
        "shown there is an attack that reaches its line somewhere."
        + (" What does hold: the claimed epsilon at its true delta." if exact else "")
        + (" What is infinite has no line." if endless else ""),
        svg=trade_off(lines),
    )


def _curve(glance: Glance, row: AttackRow, roc: RocRow) -> Drawing:
    finest = round(1.0 / (resolution(roc) or 1.0))
    return Drawing(
        name=f"{glance.anchor}-roc-{row.attack}-{row.vantage}",
        kind="roc",
        title=f"ROC curve of {row.attack} on {glance.section.target}, {say.VIEWS[row.vantage]}: "
        f"AUC {say.brief(row.value)}",
        caption=f"ROC of {row.attack}, {say.VIEWS[row.vantage]}, both axes logarithmic, with the "
        f"pointwise band at {say.percent(row.confidence)}. Fewer false alarms than 1 in {finest:,} "
        "are not resolved.",
        svg=roc_curve(roc, *_read(glance.section, row)),
    )


def hit_row(glance: Glance) -> AttackRow | None:
    """The most telling row that beats guessing and says how success is spread over users."""
    above = (leak.row for leak in (*glance.leaking, *glance.little))
    return next((row for row in above if row.users and row.users.quantiles), None)


def _hit(glance: Glance, row: AttackRow, users: UsersRow) -> Drawing:
    means = "; ".join(f"{alike}: {name} {say.brief(one.value)}" for alike, name, one in users.means)
    return Drawing(
        name=f"{glance.anchor}-users-{row.attack}-{row.vantage}",
        kind="users",
        title=f"Who is hit by {row.attack} on {glance.section.target}, {say.VIEWS[row.vantage]}: "
        f"{users.success}. {means}".strip(),
        caption=f"{users.success}. All users: dot the median, bar from the least exposed twentieth "
        "to the most exposed, tick the most exposed hundredth. Groups: mean and its interval at "
        f"{say.percent(row.confidence)}.",
        svg=spread(users),
    )


def drawn_curves(glance: Glance) -> tuple[AttackRow, ...]:
    """The rows whose ROC curves are shown: of attacks that beat guessing, the most telling few."""
    told = dict.fromkeys((leak.row.attack, leak.row.vantage) for leak in glance.leaking)
    rows = [row for row in glance.section.attacks if row.roc and resolution(row.roc)]
    return tuple(r for which in told for r in rows if (r.attack, r.vantage) == which)[:MOST]


def trade_offs(finding: Finding) -> tuple[TradeOff, ...]:
    """Lines of claim, proof and lower bound in a finding's scope, if any says something.

    A claim counts where it speaks of this scope. Infinite epsilons are left out: no line shows
    them. Of a refuted claim whose delta is known exactly that one is named.
    """
    claim, proof, shown = finding.claim, finding.accounted, finding.shown
    speaks = claim.scope.covers(finding.scope) and not finding.outside_model
    holds = finding.holds_at
    exact = replace(claim, delta=holds) if speaks and holds and holds < 1.0 else None
    said = [
        _line(say.CLAIMED[claim.basis], claim, say.brief, "claim", 5.0) if speaks else None,
        _line("proved", proof, say.at_most, "ink", 1.6, "7 4", say.proved_of(finding))
        if proof
        else None,
        _line(_EXACT, exact, say.at_most, "ink", 1.5, "2 3", say.brief(claim.epsilon))
        if exact
        else None,
        _line("shown", shown, say.at_least, "leak", 2.4, "", say.shown_of(finding))
        if shown
        else None,
    ]
    found = tuple(each for each in said if each is not None and math.isfinite(each.epsilon))
    telling = any(guess_probability(p.epsilon, p.delta) < VACUOUS_GUESS for p in found)
    return found if telling else ()


def _line(
    words: str,
    bound: Bound | Claim,
    rounded: Callable[[float], str],
    colour: str,
    width: float,
    dashes: str = "",
    epsilon: str = "",
) -> TradeOff:
    said = f"({epsilon or rounded(bound.epsilon)}, {rounded(bound.delta)})"
    return TradeOff(words, bound.epsilon, bound.delta, colour, width, dashes, said)


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
