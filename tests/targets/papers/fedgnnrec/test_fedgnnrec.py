"""What a client sends, against a plain computation of it, and what is judged of it."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Scope, Unit
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.targets.components import Kind, Rows
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedgnn.numbers import left
from fedrec_auditor.targets.papers.fedgnnrec import numbers
from fedrec_auditor.targets.papers.fedgnnrec.systems.fedgnnrec import FedGnnRec
from fedrec_auditor.targets.systems.base import Population

USERS, ITEMS, OTHERS = 12, 60, 20
DATA = Synthetic(n_users=USERS, n_items=ITEMS, profile=9).load()
SMALL = FedGnnRec(dimension=3, pseudo=OTHERS, cohort=USERS, rounds=2)
WEIGHTS = 16 * (1682 + 16 + 2)


def model(system: FedGnnRec) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    made = system.initial(ITEMS, rng)
    return {name: rng.normal(size=part.shape) for name, part in made.items()}


@pytest.mark.parametrize("order", ["released", "sorted"])
def test_the_list_has_the_pseudo_items_first_and_then_the_history(order: str) -> None:
    system = FedGnnRec(dimension=3, pseudo=OTHERS, order=order)  # type: ignore[arg-type]
    sent = system.upload(DATA, model(system), np.random.default_rng(0), size=2)
    ids, table = sent.components["ids"], sent.components["item"]
    assert ids.kind is Kind.ITEMS
    orders = set()
    for at, user in enumerate(sent.users):
        own = np.flatnonzero(DATA.ratings[[user]].toarray()[0]).tolist()
        (listed,) = ids.dense(np.array([at]))
        kept = listed[: OTHERS + len(own)].tolist()
        assert (listed[len(kept) :] == -1).all()
        assert sorted(kept) == np.flatnonzero(table.sent(np.array([at]))[0]).tolist()
        if order == "sorted":
            assert kept == sorted(kept)
        else:
            assert kept[OTHERS:] == own
            assert not set(kept[:OTHERS]) & set(own)
            orders.add(tuple(kept[:OTHERS]))
    assert order == "sorted" or len(orders) == 2 * USERS


def test_numbers_are_gradients_clipped_and_noisy() -> None:
    """The bias and the user's row have the gradient of the user's embedding, by differences."""
    system = FedGnnRec(dimension=3, pseudo=1, clip=1e9, noise=1e-9)
    start = model(system)
    sent = system.upload(DATA, start, np.random.default_rng(0)).components
    for user in range(USERS):
        ratings = DATA.ratings[[user]].toarray()[0]
        own = ratings > 0

        def loss(bias: np.ndarray, own: np.ndarray = own, ratings: np.ndarray = ratings) -> float:
            hidden = start["gnn.A"] @ start["item"][own].mean(axis=0) + bias
            wanted = (ratings[own] - system.level) / system.best
            return float(np.mean((start["item"][own] @ hidden - wanted) ** 2))

        steps = 1e-4 * np.eye(3)
        slope = [(loss(start["gnn.b"] + e) - loss(start["gnn.b"] - e)) / 2e-4 for e in steps]
        for name in ("gnn.b", "user"):
            found = sent[name].dense(np.array([user]))[0]
            np.testing.assert_allclose(found, slope, rtol=1e-3, atol=1e-4)
    clipped = FedGnnRec(dimension=3, pseudo=1, clip=0.01, noise=1e-9)
    for part in clipped.upload(DATA, start, np.random.default_rng(0)).components.values():
        if part.kind is Kind.GRADIENT:
            assert abs(part.dense(np.arange(USERS))).max() <= 0.01 + 1e-6


def test_pseudo_rows_have_the_mean_and_deviation_of_all_own_numbers() -> None:
    system = FedGnnRec(dimension=3, pseudo=ITEMS, clip=1e9, noise=1e-9)
    one = DATA.take(np.array([0]))
    own = one.ratings.toarray()[0] > 0
    table = system.upload(one, model(system), np.random.default_rng(0), size=400).components["item"]
    assert isinstance(table, Rows)
    rows = table.dense(np.arange(400))
    mine, others = rows[0, own].astype(float), rows[:, ~own].astype(float)
    assert others.mean() == pytest.approx(mine.mean(), abs=5 * mine.std() / math.sqrt(others.size))
    assert others.std() == pytest.approx(mine.std(ddof=1), rel=0.02)


def test_the_third_party_gets_codes_of_all_own_items_and_rows_without_noise() -> None:
    system = FedGnnRec(dimension=3, cohort=USERS, rounds=2, to="third-party")
    run = system.run(DATA, np.random.default_rng(0))
    known = run.transcript.public.rows
    assert known is not None
    digest = hashlib.sha256(b"7").digest()
    assert known[7].tolist() == [int.from_bytes(digest[:7])]
    assert len(np.unique(known)) == ITEMS
    for one in run.transcript.rounds:
        codes = one.uploads.components["codes"].dense(np.arange(USERS))
        for user, listed in enumerate(codes):
            own = np.flatnonzero(DATA.ratings[[user]].toarray()[0])
            assert listed[listed >= 0].tolist() == known[own, 0].tolist()
    rows = [r.uploads.components["row"].dense(np.arange(USERS)) for r in run.transcript.rounds]
    assert not rows[0].any()
    assert rows[1].any()
    keyed = FedGnnRec(to="third-party", codes="keyed")
    assert keyed.public(DATA).rows is None


def test_epsilons_are_judged_as_derived() -> None:
    every = {row.number: row for row in judge([e for e in entries() if e.heading == 35])}
    found = {number: every[number] for number in ("35", "35b", "35c")}
    assert [row.verdict for row in found.values()] == [
        Verdict.CONSISTENT,
        Verdict.INCOMPARABLE,
        Verdict.INCOMPARABLE,
    ]
    lowers = [row.exact_lower_epsilon for row in found.values()]
    assert lowers == pytest.approx([2.0, math.inf, 2.0 * WEIGHTS])
    assert [row.proved_epsilon for row in found.values()] == pytest.approx(lowers)


def test_a_value_shows_in_numbers_alone_and_an_item_in_the_list() -> None:
    population = Population(n_users=943, n_items=1682)

    def lost(unit: Unit, system: FedGnnRec) -> int:
        scope = Scope.parse(f"{unit} / replace / server / round")
        return repr(system.event(scope, population)).count("NonPrivate")

    assert lost(Unit.INTERACTION, FedGnnRec()) == 1
    assert lost(Unit.RATING, FedGnnRec()) == 0
    assert lost(Unit.RATING, FedGnnRec(to="third-party")) == 1
    assert lost(Unit.USER, FedGnnRec(order="sorted")) == 1
    assert lost(Unit.USER, FedGnnRec(order="sorted", pseudo=1682)) == 0


def test_pseudo_items_by_the_order_and_by_the_intersection() -> None:
    """Of lists that are sent, against formulas: with few rounds and sorted it is told by chance."""
    (claimed, ordered, _), (_, common, names) = numbers.pseudo_items()
    assert (claimed, ordered) == (106 / 606, 1.0)
    assert names["name"].endswith("9 rounds")
    assert common == pytest.approx(left(1682, 106, 500, 9), abs=0.002)
    system = FedGnnRec(order="sorted", rounds=30)
    (_, ordered, _), (_, common, names) = numbers.pseudo_items(system)
    assert names["name"].endswith("2 rounds")
    assert ordered == pytest.approx(106 / 606, abs=0.02)
    assert common == pytest.approx(left(1682, 106, 500, 2), abs=0.01)
