"""DP-SGLD: the noise follows epsilon, and is more than enough even if it is seen who is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import SelfComposedDpEvent

from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_upper_bound
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgld
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import accounted
from fedrec_auditor.targets.systems.base import Population

SOME = Population(n_users=6000, n_items=1000)


def test_the_noise_follows_the_epsilon_of_advanced_composition() -> None:
    by_hand = 60 / 6000 * math.sqrt(128 * 1000)
    by_hand *= math.sqrt(math.log(5 * 1000 * 60 / 2e-5) * math.log(2 / 1e-5))
    assert DpSgld().noise(6000).z == pytest.approx(by_hand)
    assert DpSgld(epsilon=4.0).noise(6000).z == pytest.approx(by_hand / 4)
    descent = DpSgld(unit="user").descent(6000)
    assert descent.langevin
    assert (
        descent.user_sigma
        == descent.item_sigma
        == pytest.approx(by_hand * 2 * 5**1.5 * math.sqrt(110))
    )


def test_more_noise_than_the_moments_accountant_asks_for() -> None:
    """The paper's remark in section 4.3."""
    assert accounted(DpSgld().noise(6000).z, 0.01, 1000, 1e-5) < 0.05


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_even_rows_that_are_seen_to_be_drawn_owe_less_than_is_claimed(unit: str) -> None:
    target = DpSgld(unit=unit)
    (scoped,) = target.scoped_claims(SOME)
    bound = least_upper_bound(target, scoped.scope, SOME, 1e-5, all_accountants())
    assert scoped.claim.epsilon == 1.0
    assert 0.02 < bound.epsilon < 0.5
    # drawn in every step instead of seldom, as much noise would not do
    leaf = target.event(scoped.scope, SOME).event
    every = SelfComposedDpEvent(leaf.event, 1000)
    bound = Pld().bound(every, delta=1e-5, scope=scoped.scope)
    assert 1.5 < bound.epsilon < 6.0


def test_embeddings_stay_in_the_balls_and_may_be_negative() -> None:
    rng = np.random.default_rng(0)
    interactions = Interactions.of(rng.integers(0, 6, (20, 10)).astype(float))
    run = DpSgld(rounds=3, learning_rate=0.1).run(interactions, rng)
    for table in (run.model.arrays["users"], run.model.arrays["items"]):
        assert np.square(table).sum(axis=-1).max() <= 5.0 * (1 + 1e-5)
        assert (table < 0).any()
