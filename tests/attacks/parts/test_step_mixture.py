"""Steps that messages tell: tilts of items, by own items and negatives alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from fedrec_auditor.attacks.parts import step_mixture
from fedrec_auditor.attacks.parts.row_places import Places
from fedrec_auditor.auditor.games.metrics import auc

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


@pytest.mark.parametrize(("fade", "upside_down"), [(0.05, 0), (1.0, USERS // 2)])
def test_users_are_turned_if_that_is_likelier(fade: float, upside_down: int) -> None:
    """Negatives that hardly move leave the mean of a row up, and nobody to be turned."""
    rng = np.random.default_rng(1)
    met = rng.random((USERS, ITEMS)) < SHARE
    drawn = rng.poisson(NEGATIVES * SHARE / (1 - SHARE), met.shape)
    places = STEP * np.where(met, 1, -fade * drawn) + rng.normal(size=met.shape)
    places[:upside_down] *= -1
    held = Places(
        np.arange(USERS), places.astype(np.float32), signed=True, alike=False, up=upside_down == 0
    )
    mixture = step_mixture.learned(held, NEGATIVES, np.full(ITEMS, logit(SHARE)))
    ratio = step_mixture.fitted(held, NEGATIVES, mixture).ratio
    halves = np.split(np.arange(USERS), 2)
    assert min(auc(ratio[half].ravel(), met[half].ravel()) for half in halves) > 0.8
