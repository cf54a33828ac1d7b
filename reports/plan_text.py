"""A plan as the file from which ``auditor run --plan`` runs it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plan_text(plan: Mapping[str, Any]) -> str:
    """``plan`` as TOML, a line a key; what is None is left out.

    >>> print(plan_text({"targets": ["fcf"], "quick": True, "runs": None, "confidence": 0.95}))
    targets = ["fcf"]
    quick = true
    confidence = 0.95
    """
    return "\n".join(f"{_key(k)} = {_value(v)}" for k, v in plan.items() if v is not None)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
