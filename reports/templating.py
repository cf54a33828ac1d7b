"""Templates of pages, with the words that all of them use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, Verdict
from fedrec_auditor.reports import words
from fedrec_auditor.reports.severity import SEVERITY_RULE

if TYPE_CHECKING:
    from jinja2 import Environment

AT_ONCE = 9
"""Systems whose rows are shown at once; those of the others are folded."""
_FOLDER = Path(__file__).parent / "templates"


def fill_template(name: str, **values: Any) -> str:
    """The template ``name`` filled with ``values``; the same values give the same bytes."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        assumption_words=words.assumption_words,
        at_once=AT_ONCE,
        margin=LEAK_MARGIN,
        over=words.OVER,
        plain=words.WORDS,
        severity_rule=SEVERITY_RULE,
        signs=words.SIGNS,
        verdicts=tuple(Verdict),
    )
    environment.filters.update(
        brief=words.brief,
        capitalized=words.capitalized,
        duration=words.duration,
        percent=words.percent,
    )
    return environment
