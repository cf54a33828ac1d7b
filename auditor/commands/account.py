"""``auditor account``: claims against accounted bounds, without a simulation."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from accountants.errors import InputError


def command(
    target: Annotated[str, typer.Argument(help="A target; see `auditor list targets`.")],
    users: Annotated[int, typer.Option(help="Users that take part.")] = 943,
    items: Annotated[int, typer.Option(help="Items to choose from.")] = 1682,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge the claims of one target in every scope by what can be proved alone.

    The defaults are the size of MovieLens 100K. No data are read and nothing is simulated.
    """
    from rich.console import Console

    from auditor import accounting
    from auditor.families import FAMILIES
    from reports import terminal
    from targets.systems.base import Population

    if min(users, items) < 2:
        raise InputError(f"Expected at least 2 users and items, got {users} and {items}.")
    system = FAMILIES["targets"].member(target)()
    population = Population(n_users=users, n_items=items)
    exact = accounting.exact_bounds(system, population)
    accountants = accounting.all_accountants()
    findings = tuple(
        accounting.answer(system, question, population, exact=exact, accountants=accountants)
        for question in system.questions(population)
    )
    if as_json:
        print(json.dumps([finding.model_dump(mode="json") for finding in findings], indent=2))
    else:
        terminal.render_findings(findings, Console())
