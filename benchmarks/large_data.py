"""Quick audits of large tables: processor seconds and memory of the whole command.

A synthetic table has 50 interactions per user, with items whose popularity falls with their rank.
Each audit is a separate command with one worker and all attacks of a quick audit. A ratio below 1
means that each interaction of the larger table takes longer. docs/scale.md has 10^7 interactions,
which take minutes: ``python -m benchmarks.large_data 10000000 20000``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks import Row

TARGETS = "fcf", "dplcf-sp"
SIZES = (10**5, 1_500), (10**6, 6_000)
_PER_USER = 50


def measure() -> tuple[Row, ...]:
    return tuple(time_audit(name, *size) for name in TARGETS for size in SIZES)


def time_audit(name: str, interactions: int, items: int) -> Row:
    """Time and memory of a quick audit of a system on about ``interactions`` interactions."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "ratings.parquet"
        count = write_table(data, interactions, items)
        words = ["--data", str(data), "--out", str(Path(folder) / "out"), "--memory", "4"]
        command = [sys.executable, "-m", "fedrec_auditor", "run", name, "--quick", "--jobs", "1"]
        process = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"Expected exit code 0 of {name}, got {process.returncode}.")
    note = f"{count:,} interactions, {items:,} items; at most {used.ru_maxrss / 2**20:.2f} GiB"
    seconds = used.ru_utime + used.ru_stime
    way = f"{interactions:,} interactions"
    return Row(job=name, way=way, seconds=seconds, work=count, unit="interactions", note=note)


def write_table(path: Path, interactions: int, items: int) -> int:
    """Writes a synthetic table of users and items as Parquet; returns its number of rows."""
    users, shares = interactions // _PER_USER, np.cumsum(np.arange(1, items + 1) ** -0.6)
    uniform = np.random.default_rng(0).random((users, _PER_USER))
    drawn = np.searchsorted(shares, shares[-1] * uniform)
    user, item = np.divmod(np.unique(np.arange(users)[:, None] * items + drawn), items)
    parquet.write_table(pa.table({"user": user, "item": item}), path)
    return len(user)


if __name__ == "__main__":
    for target in TARGETS:
        row = time_audit(target, *map(int, sys.argv[1:]))
        print(f"{target}: {row.seconds:.0f} processor s; {row.note}")
