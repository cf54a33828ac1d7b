"""The data of a plan: interactions, and what is said of their users and items."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.plan.sources import check_source, in_file, in_memory, load_data
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.side_tables import SideTables


def load_planned(plan: Plan) -> Interactions:
    """The data of a plan: read, joined with what is said of users and items, and filtered."""
    return _prepared(plan, load_data(plan.data, plan.columns), side_tables(plan))


def given_data(
    data: Any, plan: Plan, *, users: Any = None, items: Any = None
) -> tuple[Interactions | None, Plan]:
    """The data, prepared, if any of it is in memory; and the plan, with the names of all.

    ``data`` are what ``in_memory`` takes, ``users`` and ``items`` DataFrames or paths.
    """
    own, name = in_memory(data, plan.columns)
    sides = {key: side for key, side in (("users", users), ("items", items)) if side is not None}
    paths = {key: str(side) for key, side in sides.items() if isinstance(side, str | Path)}
    columns = plan.columns if own is None else None
    names = {key: paths.get(key, key) for key in sides}
    named = plan.model_copy(update={"data": name, "columns": columns, **names})
    check_source("synthetic" if own is not None else name, columns, list(paths.values()))
    if own is None and len(paths) == len(sides):
        return None, named
    with ExitStack() as stack:
        files = {key: stack.enter_context(in_file(side, key)) for key, side in sides.items()}
        tables = replace(side_tables(plan), users=files.get("users"), items=files.get("items"))
        return _prepared(plan, load_data(name, columns) if own is None else own, tables), named


def side_tables(plan: Plan) -> SideTables:
    """What the plan says beside its interactions."""
    named = (plan.columns or {}).get("header") != "no"
    return SideTables(
        users=None if plan.users is None else Path(plan.users),
        items=None if plan.items is None else Path(plan.items),
        wanted=plan.attributes,
        bins=plan.bins,
        columns=(named and plan.columns) or {},
    )


def _prepared(plan: Plan, interactions: Interactions, tables: SideTables) -> Interactions:
    filters = Filter(min_user=plan.min_user, min_item=plan.min_item, min_rating=plan.min_rating)
    return tables(interactions, filters)
