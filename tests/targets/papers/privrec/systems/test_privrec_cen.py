"""PrivRec-CEN: the same model as PrivRec, and nothing on the wire but that."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import Privrec, PrivrecCen


def test_it_learns_what_privrec_learns_and_shows_the_result_only() -> None:
    data = Synthetic(n_users=15, n_items=12, profile=5.0, tastes=2).load()
    settings = {"rounds": 3, "clients": 5, "local_epochs": 2, "embedding": 4, "width": 16}
    steps: list[tuple[int, int]] = []
    central = PrivrecCen(**settings).run(
        data, np.random.default_rng(4), lambda done, of: steps.append((done, of))
    )
    federated = Privrec(**settings).run(data, np.random.default_rng(4))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert central.transcript.rounds == ()
    assert central.transcript.public.route is Vantage.RELEASE
    one, two = central.transcript.release, federated.transcript.release
    assert one.keys() == two.keys()
    for name, part in one.items():
        np.testing.assert_array_equal(part, two[name])


def test_nothing_is_sent() -> None:
    data = Synthetic(n_users=15, n_items=12, profile=5.0).load()
    sent = PrivrecCen().upload(data, None, np.random.default_rng(0), size=2)
    assert not sent.components
    np.testing.assert_array_equal(sent.users, np.repeat(np.arange(15), 2))
