"""Compiled loops: they need no place for a cache, and one place says how they are compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec_auditor import targets
from fedrec_auditor.targets.compiled import FUSED, REORDERED, compiled

SOURCE = """
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out
"""


@pytest.mark.parametrize("fastmath", [frozenset(), FUSED, REORDERED])
def test_without_a_place_for_the_cache_it_compiles_anyway(fastmath: frozenset[str]) -> None:
    """numba finds no place beside a source that is in no file."""
    space: dict[str, object] = {}
    exec(compile(SOURCE, "<nowhere>", "exec"), space)
    total = compiled(fastmath=fastmath)(space["total"])  # type: ignore[type-var]
    assert total((1.0, 2.0, 4.0)) == 7.0  # type: ignore[operator]
    assert len(total.signatures) == 1  # type: ignore[attr-defined]


def test_every_kernel_is_compiled_here() -> None:
    """A bare ``njit(cache=True)`` fails at its import where nothing can be written."""
    root = Path(targets.__file__).parent
    found = [p for p in root.rglob("*.py") if "njit" in p.read_text("utf-8")]
    assert found == [root / "compiled.py"]
