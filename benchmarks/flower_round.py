"""One FCF round (F = 64, ML-100K shape, float64) against Flower's simulation, one client per user.

Flower runs under another Python interpreter, so that it need not be installed with the project. The
environment variable FLOWER_PYTHON names the interpreter; without it the table is empty:

    python3 -m venv /tmp/flower && /tmp/flower/bin/pip install 'flwr[simulation]'
    FLOWER_PYTHON=/tmp/flower/bin/python python -m benchmarks flower_round

Flower's client is plain numpy, its server FedAvg, its backend Ray with one processor per worker.
The sum of gradients is compared with ours. Processor seconds are those of all processes of the
simulation. Flower's round is the mean of the second and later rounds, after workers have started;
ours is the best of several, with one thread, uploads kept as factors and summed. "Fresh process" is
the time to the end of the first round, with imports and start of workers. Peak memory is the
largest sum over processes of proportional set sizes, sampled twice a second, for Flower, and the
resident set for ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import Row, time_best
from benchmarks._fcf import make_interactions, make_item_table, measure_peak_memory, run_fcf
from benchmarks._flower_client import MARK, find_processes

USERS, ITEMS, FACTORS, ROUNDS = 943, 1682, 64, 3


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Wall-clock and processor seconds, and peak memory in MiB."""

    wall: float
    cpu: float
    memory: float


def measure() -> tuple[Row, ...]:
    interpreter = os.environ.get("FLOWER_PYTHON")
    if not interpreter:
        print(f"flower_round is skipped: FLOWER_PYTHON is not set.\n{__doc__}", file=sys.stderr)
        return ()
    ratings = make_interactions(USERS, ITEMS, 100_000)
    items = make_item_table(ITEMS, FACTORS)
    with tempfile.TemporaryDirectory() as folder:
        data, table = Path(folder) / "data.npz", Path(folder) / "ratings.npz"
        np.savez(data, indices=ratings.indices, indptr=ratings.indptr, items=items)
        sparse.save_npz(table, ratings)
        expected = float(np.linalg.norm(run_fcf(items, ratings)[0]))
        first, later = _run_flower(interpreter, data, expected)
        fresh = {"numpy": _time_fresh_process(table)}
    steady = {"numpy": _time_round(lambda: run_fcf(items, ratings))}
    rows = []
    for job, flower, each in (
        ("a later round", later, steady),
        ("fresh process, first round", first, fresh),
    ):
        for kind in ("cpu", "wall"):
            name = f"{job}, {'processor' if kind == 'cpu' else 'wall-clock'} time"
            for way, spent in {"Flower simulation": flower, **each}.items():
                note = f"peak {spent.memory:,.0f} MiB" if kind == "cpu" else ""
                seconds = getattr(spent, kind)
                rows.append(
                    Row(job=name, way=way, seconds=seconds, work=USERS, unit="users", note=note)
                )
    return tuple(rows)


def _run_flower(interpreter: str, data: Path, expected: float) -> tuple[Cost, Cost]:
    """Flower's cost of the first round with its start, and the mean cost of later rounds."""
    mark = uuid.uuid4().hex
    environment = {
        **os.environ,
        MARK: mark,
        "PYTHONPATH": str(Path(__file__).parent),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    program = "import sys, _flower_client; _flower_client.main(*sys.argv[1:])"
    command = [interpreter, "-c", program, str(data), str(USERS), str(ROUNDS)]
    started = time.time()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    memory = [0.0]
    watcher = threading.Thread(target=_watch_memory, args=(process, mark, memory), daemon=True)
    watcher.start()
    lines = list(cast(Any, process.stdout))
    process.wait()
    watcher.join()
    ends = [json.loads(line[6:]) for line in lines if line.startswith("ROUND ")]
    if process.returncode or len(ends) != ROUNDS + 1:
        raise RuntimeError("".join(lines[-40:]))
    for end in ends[1:]:
        np.testing.assert_allclose(end["norm"], expected, rtol=1e-9)
    count = ROUNDS - 1
    return (
        Cost(wall=ends[1]["wall"] - started, cpu=ends[1]["cpu"], memory=memory[0]),
        Cost(
            wall=(ends[-1]["wall"] - ends[1]["wall"]) / count,
            cpu=(ends[-1]["cpu"] - ends[1]["cpu"]) / count,
            memory=memory[0],
        ),
    )


def _watch_memory(process: subprocess.Popen[str], mark: str, memory: list[float]) -> None:
    """Stores in ``memory[0]`` the peak memory (proportional set sizes) of all marked processes."""
    while process.poll() is None:
        total = 0
        for folder in find_processes(mark):
            try:
                lines = (folder / "smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        memory[0] = max(memory[0], total / 1024)
        time.sleep(0.5)


def _time_fresh_process(table: Path) -> Cost:
    """The cost of one round of ours in a new process, the best of three."""
    command = [sys.executable, "-m", "benchmarks._fcf", str(table), str(FACTORS)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    costs = []
    for _ in range(3):
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"Expected {' '.join(command)} to end well, got {status}.")
        cpu = usage.ru_utime + usage.ru_stime
        wall = time.perf_counter() - start
        assert process.stdout is not None
        costs.append(Cost(wall=wall, cpu=cpu, memory=float(process.stdout.read())))
    return min(costs, key=lambda spent: spent.cpu)


def _time_round(way: Callable[[], Any]) -> Cost:
    """The cost of one round of ours in this process; memory is what the round adds."""
    with threadpool_limits(1):
        memory = measure_peak_memory(way)
        wall = time_best({"": way}, 7)[""]
        start = time.process_time()
        for _ in range(20):
            way()
        cpu = (time.process_time() - start) / 20
    return Cost(wall=wall, cpu=cpu, memory=memory)
