"""Timings of this project side by side with code that a user would write.

``python -m benchmarks [MODULE ...]`` runs modules that have ``measure() -> tuple[Row, ...]`` and
writes their rows to results.csv. ``python -m benchmarks.other_mechanisms``,
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
    """The time that one implementation (``way``) needs for a ``job``.

    seconds: least time of several runs; NaN if the job was not run.
    work: number of units that the job processes.
    unit: name of a unit, in the plural, such as "users".
    note: further results, or the reason why the job was not run.
    """

    job: str
    way: str
    seconds: float
    work: float
    unit: str
    note: str = ""


def time_best(ways: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Returns the least wall-clock seconds of each function in ``ways``, by name.

    The functions run in turn ``repeats`` times.
    """
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def get_peak_memory() -> float:
    """The peak memory of this process in MiB; its parent process is not counted."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
