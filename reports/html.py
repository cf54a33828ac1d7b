"""The record as one HTML file that needs nothing else: style and drawings inline, no script."""

from __future__ import annotations

import json
from typing import Any

from fedrec_auditor.reports import plots, templating, words
from fedrec_auditor.reports.glance import figures, glances
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.section import Section, sections, summary


def render(record: Contents) -> str:
    """The whole report. The same record gives the same bytes."""
    data = record.model_dump(mode="json")
    page = templating.render(
        "report.html.j2",
        record=record,
        plan=json.dumps(data["plan"], indent=2, sort_keys=True, ensure_ascii=False),
        summary=summary(record),
        figures=figures(record),
        glances=glances(record),
        parts=[_part(section) for section in sections(record)],
        scopes=(
            ("Unit", words.UNITS),
            ("Adjacency", words.ADJACENCIES),
            ("Vantage", words.VANTAGES),
            ("Horizon", words.HORIZONS),
        ),
        guesses=plots.guess_labels(),
    )
    return words.legal(page)


def _part(section: Section) -> dict[str, Any]:
    from markupsafe import Markup

    low, high = plots.scale(section.attacks)
    return {
        "section": section,
        "log_scale": Markup(plots.log_scale(section.findings)) if section.findings else None,
        "bars": [Markup(plots.interval(attack, low, high)) for attack in section.attacks],
        "scale": f"{words.number(low)} to {words.number(high)}",
    }
