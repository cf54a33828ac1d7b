"""The record as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re

from fedrec_auditor.reports import templating
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.section import sections, summary
from fedrec_auditor.reports.usefulness import utility_line
from fedrec_auditor.reports.words import legal

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@:-])")


def render(record: Contents) -> str:
    """The whole record, a section a target."""
    return templating.render(
        "report.md.j2",
        escape=escape,
        record=record,
        summary=summary(record),
        glances=glances(record),
        utility_lines={one.target: utility_line(one, record) for one in sections(record)},
    )


def escape(text: str) -> str:
    """``text`` on one line, with nothing in it that Markdown or HTML would obey."""
    line = " ".join(legal(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", line.replace(">", "&gt;"))
