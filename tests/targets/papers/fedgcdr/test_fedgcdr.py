"""What a device sends, against a plain computation of it, and what is judged of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.catalogue import entries, judge
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedgcdr.systems.fedgcdr import FedGcdr
from fedrec_auditor.targets.systems.base import Population

USERS, ITEMS = 15, 40
DATA = Synthetic(n_users=USERS, n_items=ITEMS, profile=9).load()
SMALL = FedGcdr(dimension=3, rounds=4, sources=2)


def test_a_list_has_own_items_first_and_then_four_of_the_domain_for_each() -> None:
    run = SMALL.run(DATA, np.random.default_rng(0))
    first, last = run.transcript.rounds[0], run.transcript.rounds[-1]
    assert len(run.transcript.rounds) == SMALL.length == 6
    for one, domains in ((first, range(4)), (last, range(1))):
        lists = [name for name in one.uploads.components if name.startswith("list")]
        assert lists == [f"list.{k}" for k in domains]
        for k in domains:
            component = one.uploads.components[f"list.{k}"]
            assert component.kind is Kind.ITEMS
            for at, user in enumerate(one.uploads.users):
                met = np.flatnonzero(DATA.ratings[[user]].toarray()[0])
                own = met[met % 4 == k].tolist()
                (listed,) = component.dense(np.array([at]))
                assert listed[: len(own)].tolist() == own
                others = listed[len(own) : 5 * len(own)]
                assert (others % 4 == k).all()
                assert (listed[5 * len(own) :] == -1).all()


def test_rows_are_sent_of_what_is_listed_and_move_as_the_loss_asks() -> None:
    """One user of one domain, by differences of the cross entropy of its list."""
    one = DATA.take(np.array([1]))
    model = SMALL.initial(ITEMS, np.random.default_rng(1))
    sent = SMALL.upload(one, model, np.random.default_rng(2)).components
    (listed,), (heard,) = (sent[n].dense(np.array([0])) for n in ("list.0", "vectors"))
    met = np.flatnonzero(one.ratings.toarray()[0])
    own, items = met[met % 4 == 0], listed[listed >= 0]
    label = np.repeat([1.0, 0.0], [len(own), 4 * len(own)])
    assert set(np.flatnonzero(sent["item"].sent(np.array([0]))[0])) == set(items.tolist())

    def loss(table: np.ndarray, gates: np.ndarray) -> float:
        h = (table[own].sum(axis=0) + (heard * gates).sum(axis=0)) / (1 + len(own) + 3)
        chance = 1 / (1 + np.exp(-(table[items] @ h)))
        return float(-np.mean(label * np.log(chance) + (1 - label) * np.log(1 - chance)))

    for name, place in [("item", (int(own[0]), 1)), ("item", (int(items[-1]), 2)), ("kt", (1, 0))]:
        ends = []
        for step in (1e-5, -1e-5):
            moved = {key: np.array(part) for key, part in model.items()}
            moved[name][place] += step
            ends.append(loss(moved["item"], moved["kt"]))
        slope = (ends[0] - ends[1]) / 2e-5
        found = sent[name].dense(np.array([0]))[0][place]
        assert found == pytest.approx(-SMALL.learning_rate * slope / (abs(slope) + 1e-8), rel=1e-3)


def test_vectors_are_clipped_and_their_noise_has_the_deviation_of_the_formula() -> None:
    model = SMALL.initial(ITEMS, np.random.default_rng(1))
    model["item"] *= 100.0
    count = 4000
    vectors = SMALL.upload(DATA, model, np.random.default_rng(0), size=count).components["vectors"]
    sent = vectors.dense(np.arange(USERS * count)).reshape(USERS, count, 3, 3)
    sigma = math.sqrt(2 * math.log(1.25e5)) / 8
    assert sent.std(axis=1).mean() == pytest.approx(sigma, rel=0.01)
    length = np.linalg.norm(sent.mean(axis=1), axis=2)
    ratings = DATA.ratings.toarray()
    for k in (1, 2, 3):
        known = (ratings[:, k::4] > 0).any(axis=1)
        np.testing.assert_allclose(length[:, k - 1], known, atol=0.06)


@pytest.mark.parametrize("noise", ["fresh", "once"])
def test_noise_is_drawn_anew_or_once(noise: str) -> None:
    system = replace(SMALL, noise=noise)
    rounds = system.run(DATA, np.random.default_rng(0)).transcript.rounds[2:]
    sent = [r.uploads.components["vectors"].dense(np.arange(len(r.uploads.users))) for r in rounds]
    assert (sent[0] == sent[1]).all() == (noise == "once")


def test_one_publication_keeps_its_claim_and_a_training_does_not() -> None:
    found = {row.number: row for row in judge([e for e in entries() if e.heading == 36])}
    lowers = {"36": 7.914, "36b": 18.899, "36c": 289.8, "36d": 989.5, "36e": 7.914}
    for number, epsilon in lowers.items():
        assert found[number].exact_lower_epsilon == pytest.approx(epsilon, rel=1e-3)
        assert found[number].proved_epsilon == pytest.approx(epsilon, rel=2e-3)
    assert found["36"].verdict is Verdict.CONSISTENT
    assert {found[n].verdict for n in ("36b", "36c", "36d")} == {Verdict.INCOMPARABLE}


def test_nothing_is_known_of_values_and_all_of_what_was_met() -> None:
    population = Population(n_users=943, n_items=1682)
    assert SMALL.mechanism(Scope.parse("rating / replace / server / round"), population) is None
    shown = SMALL.mechanism(Scope.parse("interaction / replace / server / round"), population)
    assert shown is not None
    assert "Identity" in repr(shown)
