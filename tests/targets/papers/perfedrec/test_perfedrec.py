"""What a device of PerFedRec sends, number by number, and what it proves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.papers.perfedrec import numbers
from fedrec_auditor.targets.papers.perfedrec.systems.perfedrec import PerFedRec
from fedrec_auditor.targets.protections.laplace_rows import LaplaceRows
from fedrec_auditor.targets.systems.base import Population
from tests.attacks.made import reconstructed, told

_DATA = Synthetic(n_users=60, n_items=300, profile=12).load()
_SMALL = PerFedRec(
    learner=LightGcn(dimension=8, edge_dropout=0.1), protection=LaplaceRows(noisy_rows=20)
)
_REPAIRED = PerFedRec(sends_user=False, protection=LaplaceRows(every_row=True))
_MANY = Population(n_users=943, n_items=1682)


def test_own_items_and_as_many_others_step_by_the_rate_and_few_rows_get_noise() -> None:
    (one,) = _SMALL.shortened(1).run(_DATA, np.random.default_rng(0)).transcript.rounds
    assert one.broadcast is not None
    every = np.arange(len(one.uploads.users))
    change = one.uploads.components["item"].dense(every) - one.broadcast["item"]
    own = _DATA.ratings.toarray()[one.uploads.users] != 0
    size = np.abs(change).mean(axis=2)
    noisy, still = size > 0.003, size == 0
    stepped = ~noisy & ~still
    assert (own & still).sum() / own.sum() == pytest.approx(0.1 * (1 - 1 / 12) ** 12, abs=0.02)
    np.testing.assert_allclose(np.abs(change[stepped]), 1e-4, rtol=2e-3)
    assert noisy.sum(axis=1).mean() == pytest.approx(300 * (1 - (299 / 300) ** 20), rel=0.1)
    assert (stepped & ~own).sum() == pytest.approx((stepped & own).sum(), rel=0.1)


def test_a_users_row_is_sent_as_it_is_kept() -> None:
    rounds = _SMALL.shortened(2).run(_DATA, np.random.default_rng(0)).transcript.rounds
    first, second = (one.uploads.components["user"].dense(np.arange(60)) for one in rounds)
    np.testing.assert_allclose(np.abs(second - first), 1e-4, rtol=2e-3)


def test_noise_on_drawn_rows_hides_no_history() -> None:
    run = _SMALL.shortened(4).run(_DATA, np.random.default_rng(0))
    guessed = reconstructed(run.transcript.view(Vantage.SERVER)).items
    assert guessed is not None
    own = _DATA.ratings.toarray() != 0
    assert 2 * (guessed & own).sum() / (guessed.sum() + own.sum()) > 0.95


def test_noise_on_all_numbers_hides_it() -> None:
    run = replace(_REPAIRED, learner=LightGcn(dimension=8, edge_dropout=0.1), rounds=3).run(
        _DATA, np.random.default_rng(0)
    )
    readers, found = told(run.transcript.view(Vantage.SERVER))
    assert readers == ["NoisyRows"]
    own = _DATA.ratings.toarray() != 0
    assert np.mean([auc(found[u], own[u]) for u in range(60)]) == pytest.approx(0.5, abs=0.1)


def test_a_row_is_bare_as_often_as_no_draw_falls_on_it() -> None:
    row = PerFedRec().mechanism(Scope.parse("interaction / any pair / server / round"), _MANY)
    assert isinstance(row, BitFlip)
    assert row.q == pytest.approx(1 - (1 - 1 / 1681) * (1 - 1 / 1682) ** 100)


@pytest.mark.parametrize("count", [100, 1000])
def test_rows_without_noise_are_counted_in_messages(count: int) -> None:
    found = numbers.bare(LaplaceRows(noisy_rows=count))
    for items, (_, bare, _) in zip((1682, 3706), found, strict=True):
        assert bare == pytest.approx((1 - 1 / items) ** count, abs=0.015)
    assert [bare for _, bare, _ in numbers.bare(LaplaceRows(every_row=True))] == [0.0, 0.0]


def test_the_repair_is_exact_for_a_number_and_the_users_row_undoes_it() -> None:
    number = Scope.parse("coordinate / any pair / server / round")
    assert isinstance(PerFedRec().mechanism(number, _MANY), Identity)
    law = _REPAIRED.mechanism(number, _MANY)
    assert law is not None
    assert exact_lower_bound(law, number).epsilon == pytest.approx(0.01)
    undone = PerFedRec(protection=LaplaceRows(every_row=True))
    assert isinstance(undone.mechanism(number, _MANY), Identity)
