"""Systems without noise learn the preferences of two groups of users."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.dplcf.systems import BprMf, Gmf
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf, ObjPertb
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import FmfHfl
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl, LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, MfNp
from fedrec_auditor.targets.papers.privrec.systems import NnSelf, Privrec
from tests.points import later
from tests.targets.papers.tables import draw_likes, draw_low_rank, draw_stars, get_group_halves


@pytest.mark.parametrize(
    ("system", "data", "min_auc"),
    [
        (BprMf(flip="none", epochs=40, learning_rate=0.01), draw_likes(), 0.5),
        (Gmf(flip="none", epochs=40, learning_rate=0.01), draw_likes(), 0.5),
        (Fcf(factors=2, init_scale=0.3), draw_likes(), 0.1),
        (MfNp(factors=2), draw_likes(), 0.1),
        (FmfHfl(rounds=60, factors=4, rate=0.2), draw_stars(), 1.5),
        (FmfLfl(factors=4, rounds=100, learning_rate=1.0), draw_stars(), 1.5),
        (LflSgdmf(noise_multiplier=0.0, learning_rate=2.0, rounds=30), draw_stars(), 0.5),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_items_of_the_own_group_rank_above_those_of_the_other(
    system: Any, data: Interactions, min_auc: float
) -> None:
    model = system.run(data, np.random.default_rng(0)).model
    scores, own = system.score(model, data, np.arange(60)), get_group_halves(60, data.n_items)
    assert scores[own].mean() > scores[~own].mean() + min_auc


LOUD = {"factors": 6, "rate": 0.1, "learning_rate": 0.05}


@pytest.mark.parametrize(
    ("system", "low", "high"),
    [
        (FmfVfl(parties=3, **LOUD), 0.0, 0.4),
        (DpSgdMf(noise_multiplier=0.0, **LOUD), 0.0, 0.12),
        (DpSgdMf(noise_multiplier=0.01, **LOUD), 0.0, 0.144),
        (DpSgdMf(noise_multiplier=3.0, **LOUD), 0.36, math.inf),
        (ObjPertb(epsilon=1e6, factors=3, regularization=0.1), 0.0, 0.5),
        (ObjPertb(epsilon=0.1, factors=3, regularization=0.1), 0.5, math.inf),
    ],
)
def test_noise_costs_accuracy_and_little_noise_costs_little(
    system: Any, low: float, high: float
) -> None:
    """Squared errors on unobserved ratings of a table of rank 2, relative to their variance."""
    truth, seen = draw_low_rank(np.random.default_rng(0))
    data = Interactions.create(truth * seen)
    model = system.run(data, np.random.default_rng(1)).model
    errors = np.square(system.score(model, data, np.arange(200)) - truth)
    assert low < errors[~seen].mean() / truth[~seen].var() < high


@pytest.mark.parametrize(
    "system",
    [
        Privrec(rounds=30, clients=20, embedding=16, width=32, local_epochs=10),
        later(NnSelf(rounds=100, clients=20, embedding=16, width=32)),
    ],
    ids=lambda system: system.name,
)
def test_a_new_users_device_ranks_unmet_items_of_its_own_group_first(system: Any) -> None:
    data, own = draw_likes(), get_group_halves(60, 40)[50:]
    model = system.run(data.take_users(np.arange(50)), np.random.default_rng(1)).model
    scores = system.score(model, data, np.arange(50, 60))
    unmet = data.ratings.toarray()[50:] == 0
    above = [
        scores[u][unmet[u] & own[u]].mean() > scores[u][unmet[u] & ~own[u]].mean()
        for u in range(10)
    ]
    assert np.mean(above) >= 0.8
