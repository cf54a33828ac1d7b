"""How well a target recommends, measured as its paper does: what is held out, and the metrics."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from fedrec_auditor.auditor.utility import held_out_ratings, held_out_users, leave_last_out
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.record import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Evaluation, Model, Split, Target

_PROTOCOLS: dict[Split, ModuleType] = {
    Split.LEAVE_LAST_OUT: leave_last_out,
    Split.HELD_OUT_USERS: held_out_users,
    Split.HELD_OUT_RATINGS: held_out_ratings,
}


def hold_out(evaluation: Evaluation, interactions: Interactions, rng: np.random.Generator) -> Held:
    """What is trained on, and what is held out of it; InputError if there is too little data."""
    held: Held = _PROTOCOLS[evaluation.split].hold_out(interactions, rng)
    return held


def evaluate(
    target: Target, model: Model, held: Any, *, confidence: float, rng: np.random.Generator
) -> tuple[UtilityRow, ...]:
    """The target's own metrics on what was held out, with intervals at ``confidence``."""
    rows: tuple[UtilityRow, ...] = _PROTOCOLS[target.evaluation.split].evaluate(
        target, model, held, confidence=confidence, rng=rng
    )
    return rows
