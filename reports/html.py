"""The record as one HTML file that needs nothing else: style and drawings inline, no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import attack_words, plots, templating, words
from fedrec_auditor.reports.anchor import Anchor, anchors
from fedrec_auditor.reports.attack_map import AttackMap, beating
from fedrec_auditor.reports.exposure import exposure
from fedrec_auditor.reports.figures import drawn_curves, system_figures
from fedrec_auditor.reports.glance import Glance, glances, hidden_words, shares
from fedrec_auditor.reports.plan_text import plan_text
from fedrec_auditor.reports.remarks import remarks
from fedrec_auditor.reports.rows import AttackRow, Contents, Finding, UtilityRow
from fedrec_auditor.reports.section import Section
from fedrec_auditor.reports.usefulness import utility_line

_MOST = 5
"""Figures of a system that beat guessing and have a bar; the others are folded."""

_PLAIN = "Proved, and not refuted."


def render(record: Contents) -> str:
    """The whole report. The same record gives the same bytes."""
    seen, places = glances(record), anchors(record)
    plan = record.model_dump(mode="json")["plan"]
    page = templating.render(
        "report.html.j2",
        record=record,
        plan=plan_text(plan),
        shares=shares(record),
        hidden=hidden_words(record),
        glances=seen,
        exposures=[
            (glance, [exposure(glance.section, vantage) for vantage in Vantage])
            for glance in seen
            if glance.section.findings
        ],
        lookers=[words.LOOKERS[vantage] for vantage in Vantage],
        beats=beating,
        parts=[_part(glance, places[glance.section.target], record) for glance in seen],
        sources=sorted({(row.attack, row.reference) for row in record.attacks}),
        sampling=words.sampling_words(record),
        scopes=(
            ("Unit", words.UNITS),
            ("Adjacency", words.ADJACENCIES),
            ("Vantage", words.VANTAGES),
            ("Horizon", words.HORIZONS),
        ),
        guesses=plots.guess_labels(),
    )
    return words.legal(page)


def _part(glance: Glance, anchor: Anchor, record: Contents) -> dict[str, Any]:
    from markupsafe import Markup

    section = glance.section
    leaking = _varied([leak.row for leak in glance.leaking])
    low, high = plots.scale(leaking)
    drawn = [replace(each, svg=Markup(each.svg)) for each in system_figures(glance)]
    curves = drawn_curves(glance)
    at_risk = (row.roc for row in curves if row.roc and row.roc.users)
    return {
        "glance": glance,
        "section": section,
        "findings": _told(section, anchor),
        "epsilons": [each for each in drawn if each.kind != "roc"],
        "curves": [each for each in drawn if each.kind == "roc"],
        "more_curves": sum(row.roc is not None for row in section.attacks) - len(curves),
        "risk": next(map(attack_words.risk_words, at_risk), ""),
        "utility": utility_line(section, record),
        "measured": _alike(section.utility),
        "map": AttackMap.of(section.attacks),
        "leaking": leaking,
        "most": _MOST,
        "notes": _notes(leaking),
        "bars": [Markup(plots.interval(attack, low, high)) for attack in leaking[:_MOST]],
        "scale": f"{words.number(low)} to {words.number(high)}",
    }


def _varied(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """The rows in their order, but the first of each kind of figure before all others."""
    first: dict[tuple[str, str], AttackRow] = {}
    for row in rows:
        first.setdefault((row.family, row.metric.partition(" ")[0]), row)
    return [*first.values(), *(row for row in rows if not beating(row, first.values()))]


def _told(section: Section, anchor: Anchor) -> list[dict[str, Any]]:
    """The findings in their order, each with what none before it said."""
    said: set[object] = set()

    def new(*what: object) -> bool:
        first = what not in said
        said.add(what)
        return first

    notes = remarks([finding.note for finding in section.findings])
    return [
        {
            "finding": finding,
            "number": number,
            "place": place,
            "headline": finding is section.headline_finding,
            "note": note.words,
            "earlier": [1 + each for each in note.earlier],
            "scope_said": new(finding.scope),
            "reason": _PLAIN if _plain(finding) else finding.reason,
            "statement": finding.claim.statement if new(finding.claim.statement) else "",
            "source": finding.claim.source if new("source", finding.claim.source) else "",
        }
        for number, (finding, place, note) in enumerate(
            zip(section.findings, anchor.findings, notes, strict=True), 1
        )
    ]


def _plain(finding: Finding) -> bool:
    """Whether the reason of a verdict says no more than the numbers beside it."""
    shown, proof = finding.measured, finding.accounted
    if finding.verdict is not Verdict.CONSISTENT or shown is None or proof is None:
        return finding.verdict is Verdict.CONSISTENT
    return not shown.assumptions and shown.epsilon <= proof.epsilon


def _alike(rows: Sequence[UtilityRow]) -> list[list[UtilityRow]]:
    """The rows of each protocol, confidence and number of tested users."""
    found: dict[tuple[str, float, int], list[UtilityRow]] = {}
    for row in rows:
        found.setdefault((row.protocol, row.confidence, row.n), []).append(row)
    return list(found.values())


def _notes(rows: Sequence[AttackRow]) -> list[str]:
    """What is to be known of attacks, each sentence once, by attack."""
    notes = {(row.attack, row.note): None for row in rows if row.note}
    told = remarks([note for _, note in notes])
    return [
        f"{attack}: {one.words}" for (attack, _), one in zip(notes, told, strict=True) if one.words
    ]
