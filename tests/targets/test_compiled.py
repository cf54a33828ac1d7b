"""Compiled loops work without a cache directory, and one module sets their options."""

from __future__ import annotations

import importlib.util
import pkgutil
from pathlib import Path

import pytest
from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher

from fedrec_auditor import attacks, targets
from fedrec_auditor.targets.compiled import FUSED_MATH_FLAGS, REORDERED_MATH_FLAGS, jit_compile

SOURCE = """
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out
"""


@pytest.mark.parametrize("fastmath", [frozenset(), FUSED_MATH_FLAGS, REORDERED_MATH_FLAGS])
def test_code_compiles_without_a_cache_directory(fastmath: frozenset[str]) -> None:
    """numba has no directory for the cache of a source that is not in a file."""
    space: dict[str, object] = {}
    exec(compile(SOURCE, "<nowhere>", "exec"), space)
    total = jit_compile(fastmath=fastmath)(space["total"])
    assert total((1.0, 2.0, 4.0)) == 7.0
    assert len(total.signatures) == 1


def test_every_kernel_is_compiled_by_this_module() -> None:
    """A bare ``njit(cache=True)`` fails at its import if no directory is writable."""
    root = Path(targets.__file__).parent
    found = [p for p in root.rglob("*.py") if "njit" in p.read_text("utf-8")]
    assert found == [root / "compiled.py"]


def list_functions() -> dict[str, CPUDispatcher]:
    """The compiled functions of all modules."""
    found = {}
    for package in (attacks, targets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            name = module.name
            origin = importlib.util.find_spec(name).origin
            if "compiled import" not in Path(str(origin)).read_text():
                continue
            for key, value in vars(importlib.import_module(name)).items():
                if isinstance(value, CPUDispatcher) and value.py_func.__module__ == name:
                    found[f"{name}.{key}"] = value
    return found


def test_callees_are_inlined_into_compiled_functions() -> None:
    """A compiling process links to its own callee, a process that reads the cache to that in the
    file.

    The two are not optimised alike, so that sums would be reordered in two ways.
    """
    called = 0
    for name, function in list_functions().items():
        scope = function.py_func.__globals__
        for other in function.py_func.__code__.co_names:
            callee = scope.get(other)
            if not isinstance(callee, CPUDispatcher):
                continue
            called += 1
            inlined = callee.targetoptions.get("forceinline") or callee.targetoptions.get("inline")
            assert inlined, f"{name} calls {other}: jit_compile(cache=False)"
            assert isinstance(callee._cache, NullCache), f"{other} is kept by itself, too"
    assert called > 20
