"""Games as an audit of one system runs them: of an attack on a view, and with a canary."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements import Scope
from fedrec_auditor.auditor.games.canary import shrink_data
from fedrec_auditor.auditor.games.canary_game import CanaryGame, GameResult, GameSetup
from fedrec_auditor.auditor.games.game import Trial
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.transcript import View

DATA = Synthetic(n_users=60, n_items=20, profile=6).load()
POPULATION = shrink_data(DATA, 8, 10)
# Confidence at which no test fails by chance.
SURE = 1 - 1e-6


def make_game(
    attack: Any, view: View, interactions: Interactions, seed: int = 0, **kw: Any
) -> Trial:
    """A quick game at 95% confidence, with the settings ``kw`` replaced."""
    usual: dict[str, Any] = {
        "target_name": "it",
        "attack_name": "scripted",
        "is_quick": True,
        "confidence": 0.95,
    }
    rng = np.random.default_rng(seed)
    return Trial(attack=attack, view=view, interactions=interactions, rng=rng, **usual | kw)


def measure(
    game: CanaryGame, setting: GameSetup, scope: Scope, delta: float = 0.0, seed: int = 1, **kw: Any
) -> GameResult:
    """Measures a setup by the default estimator, from runs of ``seed``, without accountants."""
    usual: dict[str, Any] = {"accountants": (), "confidence": SURE}
    rng = np.random.default_rng(seed)
    return game.measure(setting, scope, delta, JointBinomial(), rng=rng, **usual | kw)
