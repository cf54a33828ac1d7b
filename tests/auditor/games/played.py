"""A game of an attack on a view, as an audit of one target plays it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import View


def game(attack: Any, view: View, interactions: Interactions, seed: int = 0, **more: Any) -> Game:
    """A quick one at 95%, unless it is said otherwise."""
    usual: dict[str, Any] = {"target": "it", "name": "scripted", "quick": True, "confidence": 0.95}
    rng = np.random.default_rng(seed)
    return Game(attack=attack, view=view, interactions=interactions, rng=rng, **usual | more)
