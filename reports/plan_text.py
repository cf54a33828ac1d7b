"""A plan as the file from which ``auditor run --plan`` runs it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedrec_auditor.reports.words import escaped


def plan_text(plan: Mapping[str, Any]) -> str:
    """``plan`` as TOML, a line a key in their order; what is None is left out.

    >>> print(plan_text({"targets": ["fcf"], "quick": True, "runs": None, "confidence": 0.95}))
    confidence = 0.95
    quick = true
    targets = ["fcf"]
    """
    return "\n".join(f"{_key(k)} = {_value(v)}" for k, v in sorted(plan.items()) if v is not None)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{_key(k)} = {_value(v)}" for k, v in sorted(value.items()) if v is not None)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return escaped(json.dumps(value, ensure_ascii=False))
