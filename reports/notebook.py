"""What a notebook shows of a record or a verification: HTML that styles nothing else, no script."""

from __future__ import annotations

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import templating
from fedrec_auditor.reports.glance import glances, hidden_words, shares
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.words import legal


def first_screen(record: Contents) -> str:
    """The first screen of the report: what was audited, four figures, the systems worst first."""
    page = templating.render(
        "notebook.html.j2",
        record=record,
        shares=shares(record),
        hidden=hidden_words(record),
        glances=glances(record),
    )
    return legal(page)


def card(verdict: Verdict, text: str) -> str:
    """A verdict, and lines of text below it as they are."""
    return legal(templating.render("card.html.j2", verdict=verdict, text=text))
