"""What parties send, against a plain computation of it, and what is judged of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.exact.lower_bound import delta_at
from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.mechanisms.ternary import Ternary
from fedrec_auditor.targets.papers.vertical_gnn.systems.vertical_gnn import VerticalGnn
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import rated

USERS, ITEMS, PARTIES = 14, 12, 3
DATA = Synthetic(n_users=USERS, n_items=ITEMS, profile=3).load()
SMALL = VerticalGnn(parties=PARTIES, dimension=2, batch=10, rounds=40)


def tables(rng: np.random.Generator, items: int) -> dict[str, np.ndarray]:
    return {
        "user": rng.normal(size=(USERS, 2)),
        "item": rng.normal(size=(items, 2)),
        "gnn.W": rng.normal(size=(2, 2, 2)),
        "gnn.a": rng.normal(size=3),
    }


def test_gradients_are_those_of_the_loss() -> None:
    rng, own = np.random.default_rng(1), np.arange(4)
    graph, at = SMALL.graph(DATA.ratings, own), tables(rng, 4)
    phi = sparse.csr_array(rng.normal(size=(5, USERS)))
    others, batch = rng.normal(size=(2, 5, 2)), DATA.ratings[:, own]

    def loss(changed: dict[str, np.ndarray]) -> float:
        made = SMALL.forward({**changed, "gnn.a": at["gnn.a"]}, graph, phi, others)
        # What other layers' weights make of it; those of others' sums stay as they are.
        scores = made.user(changed) @ made.item(changed).T
        error = (scores - batch.toarray())[batch.toarray() > 0]
        return float((error**2).sum() + (changed["item"] ** 2).sum() / 4)

    made = SMALL.forward(at, graph, phi, others)
    found = SMALL.backward(at, graph, made, batch)
    assert found["user"].shape == (USERS, 2)
    for name, gradient in found.items():
        for place in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {key: part.copy() for key, part in at.items()}
                moved[name][place] += step
                ends.append(loss(moved))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_numbers_are_sent_as_the_code_draws_them(share: float) -> None:
    """By two thresholds, uniform below and above 0, as in train.py; or with all three possible."""
    count, values = 40_000, np.array([-4.0, -0.5, -0.2, 0.0, 0.3, 0.5, 2.0])
    system = replace(SMALL, share=share)
    found = [{"user": np.tile(values, (1, 1))}] * count
    streams = Streams.spawn(np.random.default_rng(0), count)
    drawn = system.sent(found, np.zeros(0), streams)["user"].dense(np.arange(count))[:, 0]
    clipped = values.clip(-0.5, 0.5)
    rng = np.random.default_rng(2)
    high, low = rng.uniform(0, 3, drawn.shape), rng.uniform(-3, 0, drawn.shape)
    again = 3.0 * (clipped > high) - 3.0 * (clipped < low)
    deviation = 5 * math.sqrt(9 * max(share, 1 / 6) / count)
    np.testing.assert_allclose(drawn.mean(axis=0), clipped, atol=deviation)
    if share:
        np.testing.assert_allclose((drawn != 0).mean(axis=0), share, atol=0.02)
        return
    for side in (-3.0, 0.0, 3.0):
        np.testing.assert_allclose(
            (drawn == side).mean(axis=0), (again == side).mean(axis=0), atol=0.02
        )
    assert not (drawn[:, values <= 0] > 0).any()
    assert not (drawn[:, values >= 0] < 0).any()


def test_a_row_that_is_not_0_proves_a_rating_with_the_party() -> None:
    run = SMALL.run(DATA, np.random.default_rng(0))
    parts = np.array_split(np.arange(ITEMS), PARTIES)
    held = np.array([(DATA.ratings[:, own].toarray() > 0).any(axis=1) for own in parts])
    shown = np.zeros_like(held)
    for one in run.transcript.rounds:
        rows = one.uploads.components["user"].dense(np.arange(PARTIES))
        shown |= (rows != 0).any(axis=2)
    assert not (shown & ~held).any()
    assert not held.all()
    assert shown[held].mean() > 0.9


def test_sums_are_a_sketch_of_neighbours_without_noise() -> None:
    """A user without an edge at any party leaves sums as they are, one with an edge does not."""
    ratings = DATA.ratings.toarray()
    ratings[0] = 0.0
    ratings[0, 0] = 2.0
    met = ratings.copy()
    met[0, 0] = 5.0

    def sums(values: np.ndarray) -> np.ndarray:
        data = replace(DATA, ratings=sparse.csr_array(values))
        run = replace(SMALL, rounds=1, batch=1000).run(data, np.random.default_rng(3))
        return run.transcript.rounds[0].uploads.components["sums"].dense(np.arange(PARTIES))

    low, high = sums(ratings), sums(met)
    ratings[0, 0] = 1.0
    np.testing.assert_array_equal(low[:, 0], sums(ratings)[:, 0])
    assert (low[0, 0] != high[0, 0]).any()
    np.testing.assert_array_equal(low[1:, 0], high[1:, 0])


def test_delta_of_a_number_and_epsilon_of_the_repair() -> None:
    for epsilon in (0.0, 1.0, 20.0):
        assert delta_at(Ternary(0.5, 3.0), epsilon) == pytest.approx(1 / 6)
    assert Ternary(0.5, 3.0, 0.5).epsilon == pytest.approx(math.log(2))
    assert Ternary(0.5, 3.0, 1.0).epsilon == pytest.approx(math.log(1.4))


def test_a_user_is_charged_for_the_messages_of_all_parties() -> None:
    """All numbers of a round, for the user's ratings are with each of them."""
    data = rated(12, 9)
    system = VerticalGnn(sums=False, share=0.5, rounds=1)
    (one,) = system.run(data, np.random.default_rng(0)).transcript.rounds
    sent = sum(len(part) * math.prod(part.shape) for part in one.uploads.components.values())
    scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    population = Population(n_users=12, n_items=9)
    assert system.event(scope, population).count == sent
    assert exact_lower_bound(system.mechanism(scope, population), scope).epsilon == pytest.approx(
        sent * system.epsilon
    )


def test_statements_are_judged_as_derived() -> None:
    found = {row.number: row for row in judge([e for e in entries() if e.heading == 37])}
    verdicts = {number: row.verdict for number, row in found.items() if row.scope}
    assert verdicts["37"] is Verdict.CONSISTENT
    assert verdicts["37d"] is Verdict.CONSISTENT
    assert found["37"].exact_lower_epsilon == 0.0
    assert found["37b"].proved_epsilon == math.inf
    assert found["37c"].exact_lower_epsilon == math.inf
    assert found["37d"].proved_epsilon == pytest.approx(math.log(2))
    assert found["37d"].exact_lower_epsilon == pytest.approx(math.log(2))
