"""NN-SELF: a descent on the loss after adaptation, summed over tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.nn_self import NnSelf

SMALL = NnSelf(rounds=2, clients=4, embedding=4, width=64)


def test_the_server_adds_the_sum_of_what_is_sent() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    run = replace(SMALL, server_rate=0.3).run(data, np.random.default_rng(1))
    first, second = run.transcript.rounds
    for name, component in first.uploads.components.items():
        np.testing.assert_allclose(
            (second.broadcast or {})[name],
            (first.broadcast or {})[name] + 0.3 * component.total(),
            rtol=1e-5,
            atol=1e-6,
        )


def test_training_learns_whose_items_are_whose() -> None:
    rng = np.random.default_rng(0)
    same = np.arange(60)[:, None] % 2 == np.arange(40) % 2
    data = Interactions.of((rng.random((60, 40)) < np.where(same, 0.5, 0.02)) * 1.0)
    system = NnSelf(rounds=100, clients=20, embedding=16, width=32)
    model = system.run(data.take(np.arange(50)), rng).model
    scores = system.score(model, data, np.arange(50, 60))
    rest = data.ratings.toarray()[50:] == 0
    own = np.array([scores[u][rest[u] & same[50 + u]].mean() for u in range(10)])
    other = np.array([scores[u][rest[u] & ~same[50 + u]].mean() for u in range(10)])
    assert np.mean(own > other) >= 0.8


def test_a_user_with_one_item_has_a_query_and_no_support() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    one = data.keep(
        np.diff(data.ratings.indptr)
        .cumsum()
        .searchsorted(np.arange(data.ratings.nnz), side="right")
        != 3
    )
    broadcast = SMALL.first(one, np.random.default_rng(0))
    sent = SMALL.upload(one, broadcast, np.random.default_rng(0))
    assert one.ratings[[3]].nnz == 0
    assert not sent.components["mlp1.weight"].dense(np.array([3])).any()
    assert sent.components["mlp1.weight"].dense(np.array([0])).any()
