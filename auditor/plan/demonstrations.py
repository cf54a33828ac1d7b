"""The demonstrations that papers declare, by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import check_name, papers

if TYPE_CHECKING:
    from fedrec_auditor.targets.declarations.demonstration import Demonstration
    from fedrec_auditor.targets.declarations.paper import Paper


def demonstrated() -> dict[str, Paper]:
    """The paper of each demonstration, by name; none is imported."""
    found: dict[str, Paper] = {}
    for paper in papers().values():
        if taken := found.keys() & paper.demonstrations.keys():
            raise InputError(
                f"Expected one demonstration called {min(taken)!r}, got another of the paper "
                f"{paper.name}. Rename one."
            )
        found |= dict.fromkeys(paper.demonstrations, paper)
    return found


def demonstration(name: str) -> Demonstration:
    """The demonstration of this name; InputError with near names if there is none."""
    check_name("demonstrations", name, names())
    place = f"{demonstrated()[name].package}.demonstrations"
    declared = importlib.import_module(place).DEMONSTRATIONS
    if name not in declared:
        raise InputError(f"Expected {name} in {place}, as claims.toml has it, got none. Add it.")
    made: Demonstration = declared[name]()
    return made


def names(targets: Sequence[str] = ()) -> tuple[str, ...]:
    """The demonstrations on these targets, on all if none is named, in order of name."""
    found = sorted(demonstrated())
    return tuple(n for n in found if not targets or demonstration(n).target in targets)


def runs(name: str) -> int:
    """Runs a world of a demonstration and its control: how long it takes, roughly."""
    shown = demonstration(name)
    return sum(side.samples for side in (shown.violation, shown.control))
