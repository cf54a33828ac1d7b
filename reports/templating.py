"""Templates of the reports, with the words that all of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, Arithmetic, Verdict
from fedrec_auditor.reports import (
    attack_words,
    demonstrations,
    witness_words,
    words,
)
from fedrec_auditor.reports.severity import SEVERITY_RULE

if TYPE_CHECKING:
    from jinja2 import Environment

AT_ONCE = 9
"""Systems whose rows are shown at once; those of the others are folded."""
_FOLDER = Path(__file__).parent / "templates"


def render(name: str, *, escape: Callable[[str], str] | None = None, **values: Any) -> str:
    """The template ``name`` filled with ``values``; the same values give the same bytes.

    Strings are escaped as HTML where ``escape`` is None, else by ``escape``.
    """
    return _environment(escape).get_template(name).render(**values)


@cache
def _environment(escape: Callable[[str], str] | None) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def escaped(value: Any) -> Any:
        return value if escape is None or isinstance(value, Markup) else escape(str(value))

    def line(cells: Iterable[str]) -> Markup:
        """A line of a Markdown table."""
        return Markup("| " + " | ".join(map(escaped, cells)) + " |")

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=escape is None,
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=escape is not None,
    )
    environment.globals.update(
        {
            name: value
            for module in (words, attack_words, witness_words)
            for name, value in vars(module).items()
            if name.endswith("_words")
        },
        demonstrations=demonstrations,
        at_once=AT_ONCE,
        over=words.OVER,
        margin=LEAK_MARGIN,
        severity_rule=SEVERITY_RULE,
        signs=words.SIGNS,
        plain=words.WORDS,
        verdicts=tuple(Verdict),
        arithmetic=tuple(Arithmetic),
    )
    environment.filters.update(
        brief=words.brief,
        capitalized=words.capitalized,
        duration=words.duration,
        line=line,
        number=words.number,
        percent=words.percent,
        short=words.short,
    )
    return environment
