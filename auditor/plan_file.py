"""Plans in files: TOML, whose errors are told with their lines."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan import Plan, PlanError, make_plan, make_target
from fedrec_auditor.reports.store import read_regular

LARGEST = 2**18
"""Most bytes of a plan: fifty times one that sets every setting of every target."""
MOST_DOTS = 256
"""Most dots of a statement in a plan: the time to parse a key grows with the square of them."""
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'{3}.*?\'{3}(?:\'{0,2})|"(?:\\.|[^"\\\n])*"'''
    r"""|'[^'\n]*'|\#[^\n]*|[][{}.\n]""",
    re.DOTALL,
)
"""What decides where a statement of TOML ends: strings, comments, brackets and ends of line."""


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file; InputError names the file, the line and the remedy."""
    try:
        text = read_regular(path, LARGEST, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"Expected a readable plan file, got {str(path)!r} ({why}). Check the path."
        ) from error
    for end, dots in _statements(text):
        if dots > MOST_DOTS:
            raise InputError(
                f"Expected at most {MOST_DOTS} dots in a statement of a plan, got {dots} in that "
                f"which ends in line {end} of {path}. Shorten its keys."
            )
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected TOML, got: {error}. Mend that line.") from error
    try:
        plan = make_plan(values)
        for name in plan.resolved().targets:
            make_target(name, plan)
    except PlanError as error:
        raise InputError(f"{path}, line {_line(error.location, text)}: {error}") from error
    return plan


def _line(location: tuple[int | str, ...], text: str) -> int:
    """Line where the statement begins with which the keys of ``location`` come into a TOML text.

    The beginnings of the text are parsed, up to the end of one statement and another, by bisection:
    exact for dotted and quoted keys, inline tables and values of several lines.
    """
    text = text.replace("\r\n", "\n")
    lines, ends = text.split("\n"), [end for end, _ in _statements(text)]

    def there(statement: int) -> bool:
        value: Any = tomllib.loads("\n".join(lines[: ends[statement]]))
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
        return value is not None

    first = bisect_left(range(len(ends) - 1), True, key=there)
    return ends[first - 1] + 1 if first and there(first) else 1


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """The last line of each statement of a TOML text, counted from 1, and how many dots it has."""
    line, depth, dots = 1, 0, 0
    for token in _TOKEN.findall(text):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        dots += token == "."
        if token == "\n" and depth <= 0:
            yield line, dots
            dots = 0
        line += token.count("\n")
    yield line, dots
