"""FedMF's pass over ratings, one number after the other; what is seen of it; what is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedrec_auditor
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_upper_bound
from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fedmf_full import numbers
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_full import FedMfFull
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_part import FedMfPart
from fedrec_auditor.targets.systems.base import Population

POPULATION = Population(n_users=9, n_items=7)


def ratings() -> np.ndarray:
    rng = np.random.default_rng(2)
    return (rng.random((5, 7)) < 0.5) * rng.integers(1, 6, (5, 7)) * 1.0


@pytest.mark.parametrize("system", [FedMfFull(dimension=3), FedMfPart(dimension=3)])
def test_rounds_are_those_of_the_code(system: FedMfFull | FedMfPart) -> None:
    rate, weight, given = system.learning_rate, system.regularization, ratings()
    run = system.shortened(3).run(Interactions.of(given), np.random.default_rng(0))
    users, items = np.full((5, 3), 0.01), np.full((7, 3), 0.01)
    for one in run.transcript.rounds:
        assert one.broadcast is not None
        assert one.broadcast["item"] == pytest.approx(items, rel=1e-6)
        sent = np.zeros((5, 7, 3))
        for user, item in np.argwhere(given):
            error = given[user, item] - users[user] @ items[item]
            users[user] += rate * (2 * error * items[item] - 2 * weight * users[user])
            sent[user, item] = rate * (-2 * error * users[user] + 2 * weight * items[item])
        component = one.uploads.components["item"]
        assert component.dense(np.arange(5)) == pytest.approx(-sent, rel=1e-5)
        items = items - sent.sum(axis=0)
    scores = system.score(run.model, Interactions.of(given), np.arange(5))
    assert scores == pytest.approx(users @ items.T, rel=1e-5)


def test_rows_on_the_wire_are_counted_in_messages() -> None:
    assert [count for _, count, _ in numbers.sent()] == [4000.0] * 3
    assert [count for _, count, _ in numbers.sent(FedMfPart())] == [100.0, 2000.0, 4000.0]
    assert [f1 for _, f1 in numbers.shown()] == [1.0]
    assert [f1 for _, f1 in numbers.shown(FedMfFull())] == pytest.approx([2 / 3])


def bound(system: FedMfFull | FedMfPart, scope: Scope) -> float:
    found = least_upper_bound(system, scope, POPULATION, 0.0, all_accountants())
    return math.inf if found is None else found.epsilon


def scope(unit: Unit, adjacency: Adjacency, vantage: Vantage) -> Scope:
    return Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)


def test_nothing_is_proved_of_who_has_the_key() -> None:
    for vantage in Vantage:
        everything = scope(Unit.USER, Adjacency.ANY_PAIR, vantage)
        silent = vantage is Vantage.RELEASE
        assert bound(FedMfFull(), everything) == (0.0 if silent else math.inf)
        assert bound(FedMfPart(), everything) == math.inf
        value = scope(Unit.RATING, Adjacency.REPLACE, vantage)
        assert bound(FedMfPart(), value) == (0.0 if silent else math.inf)
        assert bound(FedMfFull(), scope(Unit.USER, Adjacency.ADD_REMOVE, vantage)) == math.inf


def test_the_control_is_acquitted_on_an_assumption() -> None:
    rows = {row.number: row for row in judge([e for e in entries() if e.number in ("34", "34c")])}
    assert {row.verdict for row in rows.values()} == {Verdict.CONSISTENT}
    proof = least_upper_bound(
        FedMfFull(),
        scope(Unit.USER, Adjacency.ANY_PAIR, Vantage.RELEASE),
        POPULATION,
        0.0,
        all_accountants(),
    )
    assert proof is not None
    assert "Paillier" in " ".join(proof.assumptions)


def test_part_shows_which_items_where_all_else_is_added_up() -> None:
    given = ratings()
    run = FedMfPart(dimension=2, rounds=1).run(Interactions.of(given), np.random.default_rng(0))
    (seen,) = run.transcript.view(Vantage.AGGREGATE).rounds
    assert seen.clear is not None
    assert np.array_equal(seen.clear.components["rated"].dense(np.arange(5)), given > 0)
    full = FedMfFull(dimension=2, rounds=1).run(Interactions.of(given), np.random.default_rng(0))
    assert full.transcript.view(Vantage.AGGREGATE).rounds[0].clear is None


def test_what_is_rated_is_read_beside_the_sum() -> None:
    record = fedrec_auditor.audit_system(
        FedMfPart(rounds=2, dimension=1),
        data=ratings(),
        games=["local"],
        attacks=["interaction-reconstruction"],
        quick=True,
        jobs=1,
    )
    exact = [row for row in record.attacks if row.metric == "users reconstructed exactly"]
    assert [(row.vantage, row.value) for row in exact] == [(Vantage.AGGREGATE, 1.0)]
