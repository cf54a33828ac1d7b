"""``auditor list``: the members of every family."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import AsJson
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.reports.paragraph import columns, paragraph


def command(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of: {', '.join(FAMILIES)}. All if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what can be audited, and with what."""
    if kind is not None and kind not in FAMILIES:
        raise InputError(f"Expected one of {', '.join(FAMILIES)}, got {kind!r}.")
    members = {
        family.kind: {name: family.summary(name) for name in family.names()}
        for family in FAMILIES.values()
        if kind in (None, family.kind)
    }
    if as_json:
        print(json.dumps(members, indent=2))
        return
    width = columns() if sys.stdout.isatty() else sys.maxsize
    for family, summaries in members.items():
        print(family)
        for name, summary in summaries.items():
            print(paragraph(summary, width, label=name, indent=2, hang=24))
