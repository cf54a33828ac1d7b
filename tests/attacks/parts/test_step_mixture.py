"""Steps that messages tell: tilts of items, by own items and negatives alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from fedrec_auditor.attacks.parts import step_mixture
from fedrec_auditor.attacks.parts.row_places import Places

USERS, ITEMS, SHARE, NEGATIVES, STEP = 300, 60, 0.15, 4, 2.0


@pytest.mark.parametrize("steepness", [0.6, 0.0])
def test_tilts_of_items_are_learned_from_rows_that_go_either_way(steepness: float) -> None:
    """Own items go (1 + t) steps up, and k negatives k (1 - t) steps down."""
    rng = np.random.default_rng(0)
    tilts = rng.uniform(-steepness, steepness, ITEMS)
    met = rng.random((USERS, ITEMS)) < SHARE
    drawn = rng.poisson(NEGATIVES * SHARE / (1 - SHARE), met.shape)
    places = STEP * np.where(met, 1 + tilts, -drawn * (1 - tilts)) + rng.normal(size=met.shape)
    found = step_mixture.learned(
        Places(np.arange(USERS), places.astype(np.float32), signed=True, alike=True, up=True),
        NEGATIVES,
        np.full(ITEMS, logit(SHARE)),
    )
    assert np.sqrt(np.mean((found.tilts - tilts) ** 2)) < 0.12
