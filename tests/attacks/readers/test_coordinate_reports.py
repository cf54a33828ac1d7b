"""One-coordinate reports, as far as an epsilon may go."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers import coordinate_reports
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from tests.attacks.made import reported, told

DATA = Synthetic(n_users=60, n_items=50, profile=10).load()


@pytest.mark.parametrize("epsilon", [30.0, 40.0, 600.0])
def test_reports_that_hardly_lie_prove_nothing_and_tell_much(epsilon: float) -> None:
    target = FmfLdp(epsilon=epsilon, rounds=4)
    view = target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    _, found = told(view)
    assert np.isfinite(found).all()
    assert auc(found.ravel(), DATA.ratings.toarray().ravel() != 0) > 0.7


def test_evidence_is_what_each_report_says_of_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report by report, under a gradient at touched and one at untouched items that are given."""
    users, items, factors, epsilon = 20, 300, 4, 1.5
    rng = np.random.default_rng(1)
    typical = rng.uniform(-1, 1, (2, items, factors))
    share = np.full(items, 0.2)
    monkeypatch.setattr(coordinate_reports, "_typical", lambda *_: (*typical, share))
    truth = rng.random((users, items)) < 0.2
    view = reported(truth, rng, epsilon=epsilon, reports=3, factors=factors)
    sent = view.rounds[0].uploads.components["reports"].dense(np.arange(users))
    expected = np.zeros((users, items))
    for user, item, factor in product(range(users), range(items), range(factors)):
        sign = np.tanh(epsilon / 2) * np.sign(sent[user, item, factor])
        touched, untouched = 1 + sign * typical[:, item, factor]
        expected[user, item] += np.log(touched / untouched)
    np.testing.assert_allclose(told(view)[1], expected, atol=1e-12)


def test_known_popularity_gives_the_direction_where_noise_hides_the_spectrum() -> None:
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.random((120, 300)) < 0.5 / (1 + np.arange(300)) ** 0.5
        view = reported(truth, rng, epsilon=2.5, reports=200)
        assert not told(view)[1].any()
        public = replace(view.public, popularity=truth.mean(axis=0))
        found = told(replace(view, public=public))[1]
        gains += [auc(*pair) - 0.5 for pair in zip(found, truth, strict=True)]
    assert np.mean(gains) > 5 * np.std(gains) / np.sqrt(len(gains))


def test_known_popularity_gives_nothing_where_reports_are_coins() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random((60, 300)) < 0.5 / (1 + np.arange(300)) ** 0.5
    view = reported(truth, rng, epsilon=1e-3, reports=300)
    public = replace(view.public, popularity=truth.mean(axis=0))
    assert np.abs(told(replace(view, public=public))[1]).max() < 0.1
