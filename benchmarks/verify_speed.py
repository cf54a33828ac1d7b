"""Time to verify randomized response as a black box: 10^7 draws per world, on one core.

The callable is what a user would write, `np.where(rng.random(size) < p, x, 1 - x)`. Every
verification needs the time of drawing alone; the rest is the pilot, the choice of a rule, counting,
and the further checks.
"""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import Row, time_best
from fedrec_auditor.auditor.verification import Verification, verify_ldp
from fedrec_auditor.auditor.worlds.sampler import Sampler

DRAWS = 10**7
P_KEEP = math.e / (1 + math.e)


def randomize(x: int, rng: np.random.Generator, size: int) -> Any:
    """``size`` randomized responses to the bit x."""
    return np.where(rng.random(size) < P_KEEP, x, 1 - x)


def draw() -> None:
    """Draws as many outputs as a verification, without further work."""
    worlds = Sampler.wrap(randomize).make_worlds([0, 1])
    for _ in worlds.draw_blocks({0: DRAWS, 1: DRAWS}, np.random.default_rng(0).spawn(2)):
        pass


def verify(draws: int = DRAWS) -> Verification:
    """Verifies the randomizer by ``draws`` outputs per world."""
    return verify_ldp(randomize, epsilon=1.0, samples=draws, trace=False)


def get_peak(draws: int) -> float:
    """The peak memory of a verification in MiB."""
    tracemalloc.start()
    verify(draws)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held / 2**20


def measure() -> tuple[Row, ...]:
    with threadpool_limits(1):
        seconds = time_best({"drawing alone": draw, "verified": verify}, 3)
    notes = {
        "drawing alone": "",
        "verified": f"epsilon at least {verify().epsilon_lower:.4f} of 1; "
        f"peak {get_peak(DRAWS):.0f} MiB, {get_peak(DRAWS // 10):.0f} MiB at a tenth of the draws",
    }
    return tuple(
        Row(
            job=f"randomized response, {DRAWS:,} draws a world",
            way=way,
            seconds=time,
            work=2 * DRAWS,
            unit="draws",
            note=notes[way],
        )
        for way, time in seconds.items()
    )
