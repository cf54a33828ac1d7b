"""Command ``auditor list``: lists the names of targets, attacks, papers and other components, or
the settings of one target.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from typing import Annotated

from typer import Argument, Option

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.commands.options import JsonOption
from fedrec_auditor.auditor.plan.families import (
    FAMILIES,
    list_reproductions,
    load_papers,
    suggest_names,
)
from fedrec_auditor.auditor.plan.members import LEARNS_SETTING_NAME
from fedrec_auditor.targets.settings import describe_setting, get_allowed_values, get_class_doc

_PAGES = {
    "attacks": "docs/attacks.md (what it sees, knows and reports)",
    "readers": "docs/attacks.md#readers",
    "estimators": "docs/estimators.md",
    "accountants": "docs/accountants.md",
    "reproductions": "docs/reproductions.md",
}
_PARTS = {name: f"one of `auditor list {name}s`" for name in ("learner", "protection", "route")}
_KINDS = (*FAMILIES, "reproductions")


def command(
    kind: Annotated[
        str | None,
        Argument(
            metavar="[FAMILY | TARGET]",
            help=f"Family: {', '.join(_KINDS)}. Default: all. Or a target, to list its settings.",
        ),
    ] = None,
    paper: Annotated[str | None, Option(help="List only the targets of this paper.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the systems that can be audited (targets), and attacks, estimators and other parts."""
    from fedrec_auditor.reports.say import make_printable
    from fedrec_auditor.reports.writers.paragraph import get_output_width, wrap_paragraph

    listed: dict[str, tuple[Callable[[], Iterable[str]], Callable[[str], str]]] = {
        family.kind: (family.list_names, family.read_summary) for family in FAMILIES.values()
    }
    listed["reproductions"] = list_reproductions, FAMILIES["papers"].read_summary
    if paper is not None:
        of_paper = partial(_select_targets, paper, FAMILIES["targets"].list_names)
        listed = {"targets": (of_paper, FAMILIES["targets"].read_summary)}
    width = get_output_width() if sys.stdout.isatty() else sys.maxsize
    if kind is not None and kind not in listed:
        names = () if paper else FAMILIES["targets"].list_names()
        if kind not in names:
            near = suggest_names(kind, [*listed, *names], "")
            raise InputError(
                f"Expected a family or a target, got {kind!r}. "
                f"{near or suggest_names(kind, list(listed), 'The families are')}"
            )
        _print_target(kind, width, as_json=as_json)
        return
    members = {
        family: {name: summary(name) for name in names()}
        for family, (names, summary) in listed.items()
        if kind in (None, family)
    }
    if as_json:
        print(json.dumps(members, indent=2))
        return
    for family, summaries in members.items():
        print(family)
        hang = max([24, *(len(name) + 2 for name in summaries)])
        for name, summary in summaries.items():
            print(wrap_paragraph(summary, width, label=make_printable(name), indent=2, hang=hang))
        if family in _PAGES:
            print(wrap_paragraph(f"More of each: {_PAGES[family]}", width, indent=2, hang=2))


def _select_targets(paper: str, names: Callable[[], Iterable[str]]) -> list[str]:
    """Selects, from the result of ``names``, the targets (systems) that belong to a paper.

    Raises InputError, which suggests similar names, if the paper is unknown.
    """
    FAMILIES["papers"].check_name(paper)
    package, place = load_papers()[paper].package, FAMILIES["targets"].get_module_name
    return [name for name in names() if place(name).startswith(f"{package}.")]


def _print_target(name: str, width: int, *, as_json: bool) -> None:
    """Prints a target (system), its paper, and each setting's default, choices and meaning."""
    from fedrec_auditor.reports.record.rows import walk_leaves
    from fedrec_auditor.reports.writers.paragraph import wrap_paragraph

    target = FAMILIES["targets"].load_class(name)()
    kind: type = type(target)
    rules = get_allowed_values(kind)
    allowed = {key: rules[key].description.removeprefix("to be ") for key in rules} | _PARTS
    settings = {
        field.name: {
            "default": getattr(target, field.name),
            "may be": allowed.get(field.name, ""),
            "is": describe_setting(kind, field.name),
        }
        for field in fields(target)
        if field.init
    }
    under = ", ".join(f"{place}={value}" for place, value in walk_leaves(target.tuned_values))
    settings[LEARNS_SETTING_NAME] = {
        "default": False,
        "may be": "true or false",
        "is": f"as defaults of settings that are not given: {under or 'nothing'}",
    }
    if as_json:
        print(json.dumps(settings, indent=2, default=repr))
        return
    summary, *more = get_class_doc(kind).split("\n\n")
    print(wrap_paragraph(summary.replace("``", ""), width, label=f"{name}:"))
    for part in more:
        entries = re.split(r"\n(?=- |``\w+``[,:])", part.strip())  # items of a list, or settings
        texts = [wrap_paragraph(entry.replace("``", ""), width, indent=2) for entry in entries]
        print("", *texts, sep="\n")
    print(f"\n{wrap_paragraph(target.paper, width, label='Paper', hang=7)}")
    print("\nSettings")
    hang = max((len(key) + 2 for key in settings), default=0)
    for key, facts in settings.items():
        text = "; ".join(str(fact) for fact in facts.values() if fact != "")
        print(wrap_paragraph(text, width, label=key, indent=2, hang=hang))
