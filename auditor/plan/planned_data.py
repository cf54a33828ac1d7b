"""Loads the data that a plan names: interactions, with tables of their users and items."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedrec_auditor.auditor.plan import sources
from fedrec_auditor.auditor.plan.plan import Plan, amend_plan
from fedrec_auditor.targets.datasets.base import Filter, Interactions
from fedrec_auditor.targets.side_tables import SideTables


def load_planned_data(plan: Plan) -> Interactions:
    """Loads the data that a plan names, joins the tables of users and items, and filters the
    interactions.
    """
    sides = {"users": plan.users, "items": plan.items}
    files = {name: Path(side) for name, side in sides.items() if side is not None}
    return _join_tables(plan, sources.load_data(plan.data, plan.columns), files)


def make_plan_with_data(values: Mapping[str, Any]) -> tuple[Interactions | None, Plan]:
    """Makes a plan from keyword arguments; also returns the prepared interactions, or None if no
    data are in memory.

    ``values``: fields of ``Plan`` by name. "data", "users" and "items" may be objects in memory.
    """
    given = {name: values.get(name) for name in ("data", "users", "items")}
    plan = amend_plan(None, {name: value for name, value in values.items() if name not in given})
    data = plan.data if given["data"] is None else given["data"]
    return prepare_data(data, plan, users=given["users"], items=given["items"])


def prepare_data(
    data: Any, plan: Plan, *, users: Any = None, items: Any = None
) -> tuple[Interactions | None, Plan]:
    """Loads, joins and filters data of which a part is in memory; also names all data in the plan.

    Returns the interactions and the plan. If no data are in memory, nothing is loaded, and the
    interactions are None. In the plan, the fields ``data``, ``users`` and ``items`` are names or
    paths.

    ``data``: a DataFrame, a matrix of ratings or interactions in memory, or a name or path.
    ``plan``: plan with the columns and filters of the data.
    ``users``, ``items``: tables of users and items, as DataFrames or paths, or None.
    """
    own, name = sources.read_data_object(data, plan.columns)
    sides = {key: side for key, side in (("users", users), ("items", items)) if side is not None}
    paths = {key: str(side) for key, side in sides.items() if isinstance(side, str | Path)}
    columns = plan.columns if own is None else None
    names = {key: paths.get(key, key) for key in sides}
    named = plan.model_copy(update={"data": name, "columns": columns, **names})
    sources.check_source("synthetic" if own is not None else name, columns, list(paths.values()))
    if own is None and len(paths) == len(sides):
        return None, named
    with ExitStack() as stack:
        opened = {key: sources.open_as_file(side, key) for key, side in sides.items()}
        files = {key: stack.enter_context(file) for key, file in opened.items()}
        interactions = sources.load_data(name, columns) if own is None else own
        return _join_tables(plan, interactions, files), named


def _join_tables(plan: Plan, interactions: Interactions, files: Mapping[str, Path]) -> Interactions:
    """Joins the interactions with tables of users and items, and filters the result as the plan
    states.

    ``files``: paths of the tables, by name ("users", "items"); a table may be absent.
    """
    named = (plan.columns or {}).get("header") != "no"
    tables = SideTables(
        users=files.get("users"),
        items=files.get("items"),
        attributes=plan.attributes,
        bins=plan.bins,
        columns=(named and plan.columns) or {},
    )
    filters = Filter(min_user=plan.min_user, min_item=plan.min_item, min_rating=plan.min_rating)
    return tables(interactions, filters)
