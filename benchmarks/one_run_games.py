"""Time of a one-run game, which audits a single training by 1,000 canaries, on MovieLens 100K.

The first row of a job is the training on all users and canaries. The second is the game: the same
training, and scores of the canaries at every vantage (what an adversary sees). Times are the
smallest processor seconds of three alternating runs in one process. The note has lower bounds of
epsilon of one seed at 95% and delta 1e-5. ``dp-privrec`` trains for 100 of its 1,000 rounds, once:
clients take 10 to 15 ms each, and the expected message of 2,943 of them is computed twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import Row
from fedrec_auditor.auditor.games.canary_game import GameInputs, GameSetup
from fedrec_auditor.auditor.games.canary_games import ONE_RUN_GAME
from fedrec_auditor.auditor.games.one_run import HAS_FIRST_KEY, OneRunSimulator
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.auditor.worlds.scores import OneRunScores
from fedrec_auditor.targets.compute import DEFAULT_MACHINE

TARGETS: Mapping[str, tuple[dict[str, Any], int]] = {
    "fcf": ({}, 3),
    "fmf-ldp": ({}, 3),
    "lfl-sgdmf": ({}, 3),
    "hfl-synsgd": ({}, 3),
    "fedrec-gn": ({}, 3),
    "dp-privrec": ({"rounds": 100}, 1),
}
"""Settings and number of timings per target."""


def time_game(setting: GameSetup, repeats: int) -> list[Row]:
    """Times of a training, and of the game that repeats the training and scores canaries."""
    game = setting.simulation
    assert isinstance(game, OneRunSimulator)
    seed = np.random.SeedSequence(0)
    tossing, training, *_ = np.random.default_rng(seed).spawn(4)
    data = game.canaries.make_data_set(tossing.random(len(game.canaries)) < 0.5)
    scores: dict[str, Any] = {}

    def run_game() -> None:
        scores.update(game(0, 1, np.random.SeedSequence(0)))

    ways: dict[str, Callable[[], Any]] = {
        "training": lambda: game.target.run(data, training, None, DEFAULT_MACHINE),
        "training and scoring": run_game,
    }
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(repeats):
        for name, way in ways.items():
            before = time.process_time()
            way()
            seconds[name] = min(seconds[name], time.process_time() - before)
    coins = scores[HAS_FIRST_KEY][:, 0] > 0.5
    bounds = {
        each.vantage: OneRunScores.build(scores[str(each.vantage)], coins).bound(delta=1e-5).epsilon
        for each in setting.deltas_by_scope
    }
    text = ", ".join(f"{vantage} {epsilon:.2f}" for vantage, epsilon in bounds.items())
    job = f"{game.target.name}, a {next(iter(setting.deltas_by_scope)).unit}"
    return [
        Row(job=job, way=way, seconds=seconds[way], work=1, unit="trainings", note=note)
        for way, note in zip(ways, ("", text), strict=True)
    ]


def measure() -> tuple[Row, ...]:
    data, rows = load_data("ml-100k"), list[Row]()
    for name, (given, repeats) in TARGETS.items():
        target = make_target(name, Plan(settings={name: given}))
        ground = GameInputs(target=target, interactions=data, population_shape=(0, 0))
        for setting in ONE_RUN_GAME.make_setups(ground, np.random.default_rng(0)):
            assert isinstance(setting, GameSetup)
            rows += time_game(setting, repeats)
    return tuple(rows)
