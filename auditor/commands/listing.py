"""``auditor list``: the members of every family."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import AsJson
from fedrec_auditor.auditor.plan.demonstrations import demonstrated
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names
from fedrec_auditor.reports.paragraph import columns, paragraph

_PAGES = {
    "attacks": "docs/attacks.md (what it sees, knows and reports)",
    "readers": "docs/attacks.md#readers",
    "estimators": "docs/estimators.md",
    "accountants": "docs/accountants.md",
    "reproductions": "docs/reproductions.md",
}
_KINDS = (*FAMILIES, "demonstrations", "reproductions")


def command(
    kind: Annotated[
        str | None,
        typer.Argument(help=f"One of: {', '.join(_KINDS)}. All if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what can be audited, and with what."""
    from fedrec_auditor.auditor.reproductions import reproduction

    listed: dict[str, tuple[Callable[[], Iterable[str]], Callable[[str], str]]] = {
        family.kind: (family.names, family.summary) for family in FAMILIES.values()
    }
    shown = {name: paper.demonstrations[name] for name, paper in sorted(demonstrated().items())}
    listed["demonstrations"] = shown.keys, shown.__getitem__
    listed["reproductions"] = reproduction.names, FAMILIES["papers"].summary
    if kind is not None and kind not in listed:
        raise InputError(
            f"Expected a family, got {kind!r}. {near_names(kind, list(listed), 'There are')}"
        )
    members = {
        family: {name: summary(name) for name in names()}
        for family, (names, summary) in listed.items()
        if kind in (None, family)
    }
    if as_json:
        print(json.dumps(members, indent=2))
        return
    width = columns() if sys.stdout.isatty() else sys.maxsize
    for family, summaries in members.items():
        print(family)
        hang = max([24, *(len(name) + 2 for name in summaries)])
        for name, summary in summaries.items():
            print(paragraph(summary, width, label=name, indent=2, hang=hang))
        if family in _PAGES:
            print(paragraph(f"More of each: {_PAGES[family]}", width, indent=2, hang=2))
