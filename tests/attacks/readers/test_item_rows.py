"""Interactions read from item tables, for every base recommender."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.attacks.readers.item_rows import ItemRows
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Dense, Kind, Randomized, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.features import user_features
from fedrec_auditor.targets.federated.base import Catalogue, Clients, LocalTraining
from fedrec_auditor.targets.papers.fedgnn.systems.fedgnn import FedGnn
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Round, View
from tests.attacks.made import sent, told, view_of

DATA = Synthetic(n_users=60, n_items=120, profile=15).load()


def seen(name: str, negatives: int, noise: float = 0.0) -> View:
    """One round of 50 devices, seen by the server."""
    learner = FAMILIES["learners"].member(name)(dimension=8)
    features = user_features(DATA).values
    catalogue = Catalogue(n_items=120, n_user_features=features.shape[1])
    rng = np.random.default_rng(0)
    model = learner.initial(catalogue, rng)
    users = np.arange(5, 55)
    streams = Streams.spawn(rng, 50)
    clients = Clients(interactions=DATA.take(users), features=features[users], streams=streams)
    local = LocalTraining(negatives=negatives)
    messages = learner.train(model, clients, local, Compute())
    if noise:
        messages["item"] = Randomized(
            messages["item"],
            lambda values, s: values + noise * s.laplace(960).reshape(values.shape),
            streams.fold_in(9),
        )
    one = sent(messages, model, users)
    return view_of(one, users=60, items=120, settings={"negatives": negatives})


@pytest.mark.parametrize("negatives", [1, 4])
@pytest.mark.parametrize("name", FAMILIES["learners"].names())
def test_own_items_are_told_from_sampled_and_untouched_ones(name: str, negatives: int) -> None:
    _, found = told(seen(name, negatives))
    own = DATA.ratings.toarray()[5:55] != 0
    each = [auc(found[5 + user], own[user]) for user in range(50)]
    # LightGCN's own items lie on a line too: with as few negatives the two are hard to tell
    least = {("light-gcn", 1): 0.6, ("gcn", 4): 0.8}
    assert np.mean(each) > least.get((name, negatives), 0.95)
    assert not found[:5].any()
    assert not found[55:].any()


def test_noise_of_the_size_of_the_change_hides_it() -> None:
    found = told(seen("mf", 4, noise=1.0))[1][5:55]
    own = DATA.ratings.toarray()[5:55] != 0
    # 50 users' mean AUC of about 15 x 105 pairs has standard deviation .012 without a signal
    assert abs(np.mean([auc(found[u], own[u]) for u in range(50)]) - 0.5) < 0.07


def planted(moved: np.ndarray, users: np.ndarray | None = None, kind: Kind = Kind.CHANGE) -> Round:
    """A round of messages (n, M, d) of one item table."""
    table = np.random.default_rng(7).normal(size=moved.shape[1:]).astype(np.float32)
    return sent({"v": Dense(moved.astype(np.float32), kind)}, {"v": table}, users)


@pytest.mark.parametrize("kind", [Kind.CHANGE, Kind.GRADIENT])
def test_rows_that_move_are_read_whether_they_are_called_a_gradient_or_not(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    own = rng.random((30, 50)) < 0.2
    one = planted(own[:, :, None] * rng.normal(size=(30, 1, 6)), kind=kind)
    readers, found = told(view_of(one, users=30, items=50))
    assert readers == ["ItemRows"]
    np.testing.assert_array_equal(found > 0, own)
    assert (found[~own] == -SURE).all()


def test_an_own_item_need_not_move_in_every_round() -> None:
    """Devices that train on a half of their items a round: what moved once is an own item."""
    rng = np.random.default_rng(1)
    own = rng.random((40, 60)) < 0.2
    rounds, moved = [], np.zeros_like(own)
    for _ in range(4):
        users = np.sort(rng.permutation(40)[:10])
        part = own[users] & (rng.random((10, 60)) < 0.5)
        moved[users] |= part
        rounds.append(planted(part[:, :, None] * rng.normal(size=(10, 60, 6)), users))
    _, found = told(view_of(*rounds, users=40, items=60))
    np.testing.assert_array_equal(found > 0, moved)


def test_devices_that_draw_a_few_own_items_a_message_are_read_by_all_their_messages() -> None:
    """Of 20 own items 15 messages of one each move half; a row that stays has the ratio of that."""
    rng, rows = np.random.default_rng(5), np.arange(60)
    own = np.argsort(rng.random((60, 200)), axis=1) < 20
    rounds, moved = [], np.zeros_like(own)
    for _ in range(15):
        drawn = np.argmax(own * rng.random(own.shape), axis=1)
        change = np.zeros((60, 200, 4))
        change[rows, drawn] = rng.normal(size=(60, 4))
        moved[rows, drawn] = True
        rounds.append(planted(change))
    readers, ratio = told(view_of(*rounds, users=60, items=200))
    assert readers == ["ItemRows"]
    np.testing.assert_array_equal(ratio > 0, moved)
    expected = math.log((1 - 1 / 20) ** 15)
    assert 2 * expected < np.median(ratio[~moved]) < expected + 0.1  # Chao's is a lower bound


@pytest.mark.parametrize("idle", [0, 25])
def test_a_device_that_sends_nothing_new_costs_the_others_nothing(idle: int) -> None:
    rng = np.random.default_rng(2)
    own = rng.random((30, 80)) < 0.15
    moved = own[:, :, None] * rng.normal(size=(30, 1, 8)) + 0.2 * rng.laplace(size=(30, 80, 8))
    _, whole = told(view_of(planted(moved), users=30, items=80))
    moved[idle] = 0
    readers, found = told(view_of(planted(moved), users=30, items=80))
    assert readers == ["NoisyRows"]
    assert not found[idle].any()
    others = np.arange(30) != idle
    before, after = (auc(ratio[others].ravel(), own[others].ravel()) for ratio in (whole, found))
    assert after > before - 0.01
    assert before > 0.9


def test_messages_with_rows_of_others_are_intersected() -> None:
    """Rows of own items come again, those of pseudo items hardly do; what is left out is proved."""
    data = Synthetic(n_users=20, n_items=300, profile=12).load()
    met, users = data.ratings.toarray() > 0, np.arange(20)
    found = {}
    for rounds in (1, 4):
        run = FedGnn(dimension=2, pseudo=60, rounds=rounds).run(data, np.random.default_rng(0))
        ratio = ItemRows().read(run.transcript.view(Vantage.SERVER), users).log_ratio
        assert np.isfinite(ratio[met]).all()
        left = np.isfinite(ratio)
        found[rounds] = 2 * (left & met).sum() / (left.sum() + met.sum())
    assert found[1] < 0.4
    assert found[4] > 0.95
    assert ratio[met] == pytest.approx(4 * math.log(288 / 60), rel=0.02)


@pytest.mark.parametrize("senders", [4, 200])
def test_items_that_a_round_is_not_about_are_left_open(senders: int) -> None:
    """Rows of 20 items only, by whoever sends: where these are many, the others are not in play."""
    rng, items = np.random.default_rng(0), 40
    own = rng.random((senders, 20)) < 0.25
    own[:, 0] = True
    row, ids, values = [], [], []
    for held in own:
        listed = np.union1d(np.flatnonzero(held), rng.integers(0, 20, 4 * held.sum()))
        ids.append(listed)
        row.append(len(listed))
        values.append(np.where(held[listed], 1.0, -0.3)[:, None] * rng.normal(1, 0.1, (1, 3)))
    sent_rows = Rows(
        np.append(0, np.cumsum(row)),
        np.concatenate(ids),
        np.concatenate(values).astype(np.float32),
        items,
        Kind.CHANGE,
    )
    one = sent({"item": sent_rows}, {"item": np.zeros((items, 3), np.float32)})
    view = view_of(one, users=senders, items=items, settings={"negatives": 4})
    found = ItemRows().read(view, np.arange(senders)).log_ratio
    assert found is not None
    assert (found[:, 20:] == (0.0 if senders == 200 else -SURE)).all()
    assert auc(found[:, :20].ravel(), own.ravel()) > 0.95
