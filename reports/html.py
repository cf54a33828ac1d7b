"""The record as one HTML file that needs nothing else: style and drawings inline, no script."""

from __future__ import annotations

from typing import Any

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports import plots, templating, words
from fedrec_auditor.reports.anchor import Anchor, anchors
from fedrec_auditor.reports.attack_map import AttackMap, beating
from fedrec_auditor.reports.exposure import exposure, scope_label
from fedrec_auditor.reports.figures import system_figures
from fedrec_auditor.reports.glance import Glance, figures, glances
from fedrec_auditor.reports.plan_text import plan_text
from fedrec_auditor.reports.rows import Contents


def render(record: Contents) -> str:
    """The whole report. The same record gives the same bytes."""
    seen, places = glances(record), anchors(record)
    plan = record.model_dump(mode="json")["plan"]
    page = templating.render(
        "report.html.j2",
        record=record,
        plan=plan_text(plan),
        figures=figures(record),
        glances=seen,
        exposures=[
            (glance, [exposure(glance.section, vantage) for vantage in Vantage])
            for glance in seen
            if glance.section.findings
        ],
        lookers=[words.LOOKERS[vantage] for vantage in Vantage],
        scope_label=scope_label,
        beats=beating,
        parts=[_part(glance, places[glance.section.target]) for glance in seen],
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


def _part(glance: Glance, anchor: Anchor) -> dict[str, Any]:
    from markupsafe import Markup

    section = glance.section
    drawn = {
        figure.name.removeprefix(f"{anchor.page}-"): (figure.title, Markup(figure.svg))
        for figure in system_figures(glance, anchor.page)
    }
    leaking = [leak.row for leak in glance.leaking]
    low, high = plots.scale(leaking)
    return {
        "glance": glance,
        "section": section,
        "places": anchor.findings,
        "ladder": drawn.get("ladder"),
        "map": AttackMap.of(section.attacks),
        "leaking": leaking,
        "bars": [Markup(plots.interval(attack, low, high)) for attack in leaking],
        "scale": f"{words.number(low)} to {words.number(high)}",
    }
