"""Plans in files: TOML, whose errors are told with their lines."""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.members import PlanError
from fedrec_auditor.auditor.plan.plan import Plan, make_plan, make_target
from fedrec_auditor.auditor.plan.toml_file import read_toml, statements


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file; InputError names the file, the line and the remedy."""
    text, values = read_toml(path, "plan file")
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
    lines, ends = text.split("\n"), [end for end, _ in statements(text)]

    def there(statement: int) -> bool:
        value: Any = tomllib.loads("\n".join(lines[: ends[statement]]))
        for part in location:
            if isinstance(value, dict):
                value = value.get(part)
        return value is not None

    first = bisect_left(range(len(ends) - 1), True, key=there)
    return ends[first - 1] + 1 if first and there(first) else 1
