"""Time of a lower bound of epsilon from 1,000,000 scores per world, over every threshold.

Our estimators are compared with jax_privacy and with sorting alone. Scores are Gaussian, one
standard deviation apart; delta 1e-5, 95%, one thread. Every bound over all thresholds sorts the
scores of both worlds, so no bound is faster than `numpy.sort`. joint-binomial, the default, also
examines other statistics and unions of intervals, and draws a random order of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import Row, time_best
from benchmarks._peers import ERROR, load_peers
from fedrec_auditor.auditor.worlds.scores import from_scores

N, DELTA = 1_000_000, 1e-5
JOB = f"{N:,} scores a world"
PEER = "jax_privacy"


def measure() -> tuple[Row, ...]:
    rng = np.random.default_rng(0)
    scores = rng.normal(1.0, size=N), rng.normal(0.0, size=N)
    sort = "numpy.sort"
    ways: dict[str, Callable[[], float]] = {sort: lambda: float(sum(np.sort(s)[0] for s in scores))}
    for name in ("all-thresholds", "joint-binomial"):
        ways[name] = lambda name=name: (
            from_scores(*scores, delta=DELTA, confidence=1 - ERROR, estimator=name).epsilon
        )
    found, missing = load_peers()
    for peer in found:
        if peer.name.startswith(PEER) and "Clopper" in peer.name:
            ways[peer.name] = partial(peer.bound, *scores, DELTA)
    with threadpool_limits(1):
        seconds = time_best(ways)
        rows = [
            Row(
                job=JOB,
                way=way,
                seconds=seconds[way],
                work=2 * N,
                unit="scores",
                note="" if way == sort else f"epsilon at least {ask():.4f} of 4.3772",
            )
            for way, ask in ways.items()
        ]
    if PEER in missing:
        rows.append(
            Row(job=JOB, way=PEER, seconds=math.nan, work=0, unit="scores", note=missing[PEER])
        )
    return tuple(rows)
