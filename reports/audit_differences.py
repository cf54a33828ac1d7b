"""How two audits differ in what was asked: data, plan and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedrec_auditor.reports.flat import leaves
from fedrec_auditor.reports.rows import Contents


def audit_differences(record: Contents, baseline: Contents) -> Iterator[str]:
    """A sentence on each of the three that is not the same; the systems are left to others."""
    now, was = record.provenance, baseline.provenance
    if now.data != was.data:
        names = [
            "none" if each is None else f"{each.name} ({each.digest[:12]})"
            for each in (now.data, was.data)
        ]
        yield f"Other data: {names[0]}, was {names[1]}."
    plans = [
        {name: value for name, value in leaves(each.plan) if name != "targets"}
        for each in (record, baseline)
    ]
    if told := _apart(*plans):
        yield f"Other plan: {told}."
    if told := _apart(now.versions, was.versions):
        yield f"Other versions: {told}."


def _apart(now: Mapping[str, Any], was: Mapping[str, Any]) -> str:
    """Entries that differ, with what they were; of lists what came and what went."""
    told = []
    for name in sorted({*now, *was}):
        one, other = (_entry(part.get(name)) for part in (now, was))
        if isinstance(one, list) and isinstance(other, list):
            signs = [f"+{_plain(x)}" for x in one if x not in other]
            signs += [f"-{_plain(x)}" for x in other if x not in one]
            if signs or one != other:
                told.append(f"{name} {' '.join(signs) or 'in another order'}")
        elif one != other:
            told.append(f"{name} {_plain(now.get(name))}, was {_plain(was.get(name))}")
    return "; ".join(told)


def _entry(value: Any) -> Any:
    """None for what a plan leaves out, and False; a list for a tuple, as a file has it."""
    if value is None or value is False or value in ("", {}, [], ()):
        return None
    return list(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, {}) else str(value)
