"""The record as one HTML file that needs nothing else: style and drawings inline, no script."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.reports import demonstrations as shown
from fedrec_auditor.reports import plots, words
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import Section, sections, tally

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"


def render(record: Record) -> str:
    """The whole report. The same record gives the same bytes."""
    template = _environment().get_template("report.html.j2")
    data = record.model_dump(mode="json")
    page = template.render(
        record=record,
        plan=json.dumps(data["plan"], indent=2, sort_keys=True, ensure_ascii=False),
        tally=tally(record),
        parts=[_part(section) for section in sections(record)],
        shown=shown,
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
        "ladder": Markup(plots.ladder(section.findings)) if section.findings else None,
        "bars": [Markup(plots.interval(attack, low, high)) for attack in section.attacks],
        "scale": f"{words.number(low)} to {words.number(high)}",
    }


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        {name: getattr(words, name) for name in dir(words) if name.endswith("_words")},
        signs=words.SIGNS,
        verdicts=words.VERDICTS,
    )
    environment.filters.update(brief=words.brief, number=words.number, percent=words.percent)
    return environment
