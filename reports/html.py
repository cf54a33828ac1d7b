"""The record as one HTML file that needs nothing else: style and drawings inline, no script."""

from __future__ import annotations

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.reports import words
from fedrec_auditor.reports.anchor import anchors
from fedrec_auditor.reports.exposure import exposure
from fedrec_auditor.reports.glance import glances, hidden_words, shares
from fedrec_auditor.reports.plan_text import plan_text
from fedrec_auditor.reports.plots import guess_labels
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.system_document import system_document
from fedrec_auditor.reports.templating import fill_template


def render(record: Contents) -> str:
    """The whole report. The same record gives the same bytes."""
    seen, places = glances(record), anchors(record)
    plan = record.model_dump(mode="json")["plan"]
    page = fill_template(
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
        parts=[
            (glance, system_document(record, glance, places[glance.section.target]))
            for glance in seen
        ],
        sources=sorted({(row.attack, row.reference) for row in record.attacks}),
        sampling=words.sampling_words(record),
        scopes=(
            ("Unit", words.UNITS),
            ("Adjacency", words.ADJACENCIES),
            ("Vantage", words.VANTAGES),
            ("Horizon", words.HORIZONS),
        ),
        guesses=guess_labels(),
    )
    return words.legal(page)
