"""Rows and plans as flat dictionaries, a part under its name: ``claim.epsilon``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from fedrec_auditor.reports.rows import Row


def flat(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries of one set of keys, None where a row has no such part."""
    told = [dict(leaves(row.model_dump(mode="python"))) for row in rows]
    names = dict.fromkeys(name for row in told for name in row)
    parts = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    return [{name: row.get(name) for name in names if name not in parts} for row in told]


def leaves(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """What has no parts, by the names on the way to it; a word of ours as a string."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", str(value) if isinstance(value, StrEnum) else value
