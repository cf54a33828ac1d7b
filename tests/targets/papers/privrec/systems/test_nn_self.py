"""NN-SELF: a descent on the loss after adaptation, summed over tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import NnSelf

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
