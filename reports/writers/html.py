"""Renders an audit's record as one self-contained HTML file: styles are inline, without scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.statements import Vantage, compute_guess_probability
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, DEFAULT_LEAK_MARGIN, Gate, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.overview import draw_overview
from fedrec_auditor.reports.documents.report import build_system_document
from fedrec_auditor.reports.record.leaks import SEVERITY_RULE_VERSION, assess_claim
from fedrec_auditor.reports.record.rows import Contents
from fedrec_auditor.reports.record.sections import assign_html_ids
from fedrec_auditor.reports.record.waivers import describe_waivers
from fedrec_auditor.reports.say import summary
from fedrec_auditor.reports.say.exposure import find_exposure
from fedrec_auditor.reports.say.links import find_rule_address

if TYPE_CHECKING:
    from jinja2 import Environment


# Number of systems that the page shows at once; further systems are folded.
MAX_UNFOLDED_SYSTEMS = 9
# Epsilons that the page explains by the success rate of a guess.
_EPSILONS = (0.1, 1.0, 2.5, 7.0)
_FOLDER = Path(__file__).parent / "templates"


def fill_template(name: str, **values: Any) -> str:
    """Returns the template ``name`` filled with ``values``; equal values give equal bytes."""
    return _make_environment().get_template(name).render(**values)


@cache
def _make_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        at_once=MAX_UNFOLDED_SYSTEMS,
        assess_claim=assess_claim,
        count_protected=summary.describe_user_hiding,
        margin=DEFAULT_LEAK_MARGIN,
        draw_overview=draw_overview,
        find_rule_address=find_rule_address,
        say=say,
        severity_rule=SEVERITY_RULE_VERSION,
        summary=summary.describe_verdict_counts,
        verdicts=tuple(Verdict),
    )
    environment.filters.update(
        brief=say.format_short,
        capitalized=say.capitalize_first,
        duration=say.format_duration,
        percent=say.to_percent,
    )
    return environment


def format_plan(plan: Mapping[str, Any]) -> str:
    """Formats a plan as TOML with one line per key, sorted, without keys whose value is None.

    >>> print(format_plan({"targets": ["fcf"], "quick": True, "runs": None, "confidence": 0.95}))
    confidence = 0.95
    quick = true
    targets = ["fcf"]
    """
    return "\n".join(f"{_quote(k)} = {_dump(v)}" for k, v in sorted(plan.items()) if v is not None)


def _quote(name: str) -> str:
    bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    return name if bare else _dump(name)


def _dump(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{_quote(k)} = {_dump(v)}" for k, v in sorted(value.items()) if v is not None)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_dump, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return say.escape_controls(json.dumps(value, ensure_ascii=False))


def render_html(record: Contents, gate: Gate = DEFAULT_GATE) -> str:
    """Renders the whole report of an audit as HTML, with the waivers of ``gate``."""
    summaries, places = summary.summarize_systems(record), assign_html_ids(record)
    page = fill_template(
        "report.html.j2",
        record=record,
        waived=describe_waivers(record, gate),
        plan=format_plan(record.model_dump(mode="json")["plan"]),
        glances=summaries,
        exposures=[
            (glance, [find_exposure(glance.section, vantage) for vantage in Vantage])
            for glance in summaries
            if glance.section.findings
        ],
        parts=[
            (glance, build_system_document(record, glance, places[glance.section.target]))
            for glance in summaries
        ],
        sources=sorted({(row.attack, row.reference) for row in record.attacks}),
        guesses=[(say.format_number(each), compute_guess_probability(each)) for each in _EPSILONS],
    )
    return say.replace_unsafe_chars(page)
