"""Side-by-side timings: what a user would write against what the project does, in the same run.

Each module with ``measure() -> tuple[Row, ...]`` is one: ``python -m benchmarks [MODULE ...]`` runs
them and writes their lines of results.csv. ``python -m benchmarks.other_mechanisms``,
``benchmarks.tightness``, ``benchmarks.recommenders`` and ``benchmarks.found_in_the_wild`` write
tables of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One timed way of doing a job: ``seconds`` the best of several, ``work`` units done in it.

    ``ratio`` is against the first row of the same ``job`` (above 1: faster). ``seconds`` are NaN of
    what was not run; the note says why.
    """

    job: str
    way: str
    seconds: float
    work: float
    unit: str
    note: str = ""


def best_of(ways: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Least wall-clock seconds of each way; the ways take turns, so that all see the same load."""
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def own_peak() -> float:
    """MiB that this process held at most, from its own start on.

    ``ru_maxrss`` begins at what the parent held when it started the process.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
