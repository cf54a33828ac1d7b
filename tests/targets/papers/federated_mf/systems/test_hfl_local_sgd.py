"""Local SGD: parties that never meet, against plain loops, and what is seen of them."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflLocalSgd
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from tests.targets.papers.made import rated

N, M, P, RATE = 9, 7, 3, 0.05
DATA = rated(N, M, 0.6)


def test_each_party_descends_on_its_own_loss_alone() -> None:
    """With all rows drawn: equation 5 for one party, by plain loops."""
    target = HflLocalSgd(
        rounds=2, local_steps=3, factors=P, parties=2, rate=1.0, learning_rate=RATE
    )
    table = DATA
    run = target.run(table, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    first = start(rng.random((M, P)), 5.0)
    scores = target.score(run.model, table, np.arange(N))
    for party in target.parted(table, first, rng):
        x = table.ratings.toarray()[party.members].astype(float)
        u, v, rated = party.own.astype(float), first.astype(float), x > 0
        for step in range(6):
            gamma = RATE * (1 - 0.48 * min(1, step / 4.8)) * len(x) / rated.sum()
            error = 2 * (u @ v.T - x) * rated
            u, v = u - gamma * error @ v, v - gamma * error.T @ u
        np.testing.assert_allclose(scores[party.members], u @ v.T, atol=1e-4)


def test_nothing_leaves_a_party_and_nobody_depends_on_another() -> None:
    target, one = HflLocalSgd(parties=3, factors=P), DATA
    rng = np.random.default_rng(7)
    members = target.parted(one, start(rng.random((M, P)), 5.0), rng)[0].members
    others = np.setdiff1d(np.arange(N), members)
    changed = one.ratings.toarray()
    changed[members] = np.where(changed[members] > 0, 6 - changed[members], 0)
    scores = []
    for table in (one, Interactions.of(changed)):
        run = target.run(table, np.random.default_rng(7))
        assert (run.transcript.rounds, run.transcript.release) == ((), None)
        scores.append(target.score(run.model, table, np.arange(N)))
    assert np.abs(scores[0][members] - scores[1][members]).max() > 0.1
    np.testing.assert_array_equal(scores[0][others], scores[1][others])
