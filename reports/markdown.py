"""The record as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re

from fedrec_auditor.reports import templating
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.section import sections, summary
from fedrec_auditor.reports.usefulness import utility_line
from fedrec_auditor.reports.words import legal

_OBEYED = re.compile(r"([\\`*|~]|(?<![^\W_])_|_(?![^\W_])|\[(?=\^)|(?<=!)\[|^[-+=\[])")
"""What Markdown obeys, where it does: an underscore within a word is none."""
_LISTED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_LINKED = re.compile(r"([<>&]|\](?=[(\[:])|:(?=//|\w+:)|(?<!\w)[@#](?=\w)|^#)")
"""What HTML obeys, and what would link, name or notify somebody: told by its number."""


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
    """``text`` on one line, with nothing in it that Markdown or HTML would obey.

    No more is escaped than must be, so that a reader of the file finds what it says.

    >>> print(escape("dplcf-ap (calculated): 2 * [0.5, 0.6] of <b>"))
    dplcf-ap (calculated): 2 \\* [0.5, 0.6] of &#60;b&#62;
    """
    line = " ".join(legal(text).split())
    line = _LISTED.sub(r"\1\\\2", _OBEYED.sub(r"\\\1", line))
    return _LINKED.sub(lambda found: f"&#{ord(found[0])};", line)
