"""How many runs a game makes whose messages may be slower than its target says."""

from __future__ import annotations

import math
import time

import numpy as np

from fedrec_auditor.auditor.games.canary_game import FEWEST_RUNS, SECONDS
from fedrec_auditor.auditor.games.draws import Simulation

BUDGET = 4 * SECONDS
"""Seconds of one processor for the runs of a setting, where nobody says how many they are."""
_TIMED = 3  # runs, of which the fastest counts: load elsewhere slows some
_EACH = 2 * 1.25  # runs of both worlds, and those that fit the rule


def paced(simulation: Simulation, runs: int, seconds: float) -> tuple[int, float]:
    """``runs`` of each world, or as many as take so many ``seconds``; and those of one run.

    By the time of a few that do not count, before any that do; no clock is looked at afterwards.
    In seconds of the processor, so that other load on the machine hardly changes how many runs are
    made; they are said, and nothing stops a game.
    """
    each = math.inf
    for seed in np.random.SeedSequence(0).spawn(_TIMED):
        started = time.process_time()
        simulation(0, 1, seed)
        each = min(each, time.process_time() - started)
        if _EACH * runs * each <= seconds:
            return runs, each
    return min(runs, max(FEWEST_RUNS, int(seconds / (_EACH * each)))), each
