"""Command ``auditor doctor``: describes this installation, or data as the auditor reads them."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fedrec_auditor.auditor.commands.options import JsonOption, add_plan_options, load_plan
from fedrec_auditor.auditor.plan.plan import DATA_FIELDS

if TYPE_CHECKING:
    from fedrec_auditor.targets.datasets.base import Interactions

_NEVER_CACHED = ("synthetic", "table")


@add_plan_options(*DATA_FIELDS)
def command(options: dict[str, Any], as_json: JsonOption = False) -> None:
    """Show versions, cores, memory, the torch device, cached data sets and broken plug-ins.

    With --data, --users or --items, show how these data are read instead.
    """
    if options:
        from fedrec_auditor.auditor.plan.planned_data import load_planned_data

        _print_facts(_describe_data(load_planned_data(load_plan(None, options))), as_json)
        return
    from fedrec_auditor.auditor.plan.families import FAMILIES
    from fedrec_auditor.auditor.plan.versions import VERSIONED_PACKAGES
    from fedrec_auditor.targets.cache import find_cached_data_set, get_cache_path

    first, *others = VERSIONED_PACKAGES
    kept = [name for name in FAMILIES["datasets"].list_names() if name not in _NEVER_CACHED]
    facts = {
        "python": platform.python_version(),
        **{name: version(name) for name in (first, *sorted([*others, "hypothesis"]))},
        "cores": str(os.cpu_count() or 1),
        "memory": _format_memory(),
        "torch device": _detect_device(),
        "data cache": str(get_cache_path()),
        **{f"cached {name}": str(find_cached_data_set(name) or "no") for name in kept},
    }
    _print_facts(facts, as_json)
    if as_json:
        return
    for line in (line for family in FAMILIES.values() for line in family.list_load_errors()):
        print(line)


def _print_facts(facts: Mapping[str, str | list[str]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(16, *map(len, facts)) + 2
    for name, fact in facts.items():
        for line in fact if isinstance(fact, list) else (fact,):
            print(f"{name:<{width}}{line}")


def _describe_data(data: Interactions) -> dict[str, str | list[str]]:
    """Describes a data set by label: sizes, shares of attribute classes, item flags, notes."""
    import numpy as np

    pairs = data.n_users * data.n_items
    facts: dict[str, str | list[str]] = {
        "data": data.name,
        "digest": data.digest(),
        "users": f"{data.n_users:,}",
        "items": f"{data.n_items:,}",
        "ratings": _format_rating_range(data),
        "times": _format_time_range(data),
        "interactions": f"{data.ratings.nnz:,}, {data.ratings.nnz / max(pairs, 1):.2%} of pairs",
    }
    for name, attribute in sorted(data.attributes.items()):
        known = attribute.codes[attribute.has_value]
        counts = np.bincount(known, minlength=len(attribute.classes)).tolist()
        shares = (
            f"{each} {count / max(len(known), 1):.1%}"
            for each, count in zip(attribute.classes, counts, strict=True)
        )
        facts[f"of users: {name}"] = f"{', '.join(shares)}; no value: {data.n_users - len(known):,}"
    if data.genres is not None:
        flags = zip(data.genre_names, data.genres.sum(axis=0).tolist(), strict=True)
        facts["of items"] = ", ".join(f"{name} {count:,}" for name, count in flags)
    return facts | {"note": list(data.notes)}


def _format_rating_range(data: Interactions) -> str:
    """Returns the smallest and largest rating in words, such as "1 to 5".

    If all ratings are equal, the text is "all" and the rating; without ratings it is "none".
    """
    if not data.ratings.nnz:
        return "none"
    lowest, highest = float(data.ratings.data.min()), float(data.ratings.data.max())
    return f"all {highest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"


def _format_time_range(data: Interactions) -> str:
    """Returns the first and last timestamp in UTC as a text; "none" without timestamps."""
    if data.timestamps is None or not data.timestamps.size:
        return "none"
    times = data.timestamps
    first, last = (str(each.astype("datetime64[s]")) for each in (times.min(), times.max()))
    return f"{first} to {last} (UTC)"


def _format_memory() -> str:
    from fedrec_auditor.auditor.run.resources import detect_memory_bytes

    size = detect_memory_bytes()
    return f"{size / 2**30:.1f} GiB" if size < math.inf else "unknown"


def _detect_device() -> str:
    import torch

    return f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cpu"
