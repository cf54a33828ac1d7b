"""Interactions read from item tables, plain and under noise, and the steps that rows tell."""

from __future__ import annotations

import math
from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from scipy.special import expit, logit

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts import step_mixture
from fedrec_auditor.attacks.parts.meta_gradient import own_probability
from fedrec_auditor.attacks.parts.row_places import Places, _turns
from fedrec_auditor.attacks.parts.step_mixture import StepMixture, fitted
from fedrec_auditor.attacks.parts.uploads import item_messages
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


USERS, ITEMS, WIDTH, NEGATIVES, ROUNDS = 120, 150, 16, 4, 3


def played(
    step: float, seed: int, *, alike: float = 3.0, tilt: float = 0.0, laplace: bool = False
) -> tuple[View, np.ndarray, np.ndarray]:
    """Three rounds of steps of some length beside noise of 1; who met what, and the best ratio.

    Users' directions have a mean of length ``alike`` beside what is their own, and end in the
    smaller share of rows, by ``tilt`` farther than negatives. The ratio is that of the true
    directions and chances, for normal noise.
    """
    rng = np.random.default_rng(seed)
    share = 0.5 / (1 + np.arange(ITEMS)) ** 0.5
    met = rng.random((USERS, ITEMS)) < rng.permutation(share)
    ways = alike * rng.normal(size=WIDTH) / 4 + rng.normal(size=(USERS, WIDTH)) / 4
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    best, rounds = np.zeros(met.shape), []
    rate = NEGATIVES * met.sum(axis=1, keepdims=True) / (~met).sum(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        up, down = (1 + tilt) * step, (1 - tilt) * step
        far = np.where(met, up, -down * rng.poisson(rate, size=met.shape))
        draw, size = (rng.laplace, 0.5**0.5) if laplace else (rng.normal, 1.0)
        noise = draw(scale=size, size=(*met.shape, WIDTH))
        moved = far[:, :, None] * ways[:, None] + noise
        place = np.einsum("umd,ud->um", moved, ways)
        drawn = [rate**k * np.exp(-((place + k * down) ** 2) / 2) / factorial(k) for k in range(5)]
        best += rate - (place - up) ** 2 / 2 - np.log(np.sum(drawn, axis=0))
        part = {"v": Dense(moved.astype(np.float32), Kind.CHANGE)}
        rounds.append(sent(part, {"v": rng.normal(size=(ITEMS, WIDTH))}))
    settings = {"negatives": float(NEGATIVES)}
    return view_of(*rounds, users=USERS, items=ITEMS, settings=settings), met, best


def slope(ratio: np.ndarray, met: np.ndarray) -> float:
    """Of the log-odds of the truth against the ratio, each item's own share given."""
    prior = np.log(met.mean(axis=0).clip(0.01) / (1 - met.mean(axis=0)).clip(0.01))
    x = np.stack([np.ones(met.size), ratio.ravel(), np.tile(prior, USERS)], axis=1)
    weights = np.zeros(3)
    for _ in range(12):  # Newton's method
        chance = expit(x @ weights)
        curvature = (x * (chance * (1 - chance))[:, None]).T @ x
        weights += np.linalg.solve(curvature, x.T @ (met.ravel() - chance))
    return float(weights[1])


@pytest.mark.parametrize(
    ("step", "alike", "tilt"), [(0.5, 3.0, 0.0), (1.0, 3.0, 0.0), (2.0, 0.0, 0.0), (1.0, 3.0, 0.8)]
)
def test_it_is_near_the_ratio_of_who_knows_directions_and_steps(
    step: float, alike: float, tilt: float
) -> None:
    """Also where no two users share a direction, which none of a few messages tells well.

    And where negatives hardly move, as of a model that has learnt, so that more rows move up.
    """
    view, met, best = played(step, 1, alike=alike, tilt=tilt)
    readers, ratio = told(view)
    assert readers == ["NoisyRows"]
    reached, ceiling = auc(ratio.ravel(), met.ravel()), auc(best.ravel(), met.ravel())
    assert ceiling > 0.75
    assert ceiling - reached < 0.06


def test_small_steps_are_told_better_where_popularity_is_known() -> None:
    view, met, _ = played(0.5, 7, tilt=0.5)
    public = replace(view.public, popularity=met.mean(axis=0))
    areas = [
        auc(told(seen)[1].ravel(), met.ravel()) for seen in (view, replace(view, public=public))
    ]
    assert areas[1] > areas[0] > 0.75


@pytest.mark.parametrize("laplace", [False, True])
def test_evidence_is_about_as_sure_as_it_is_right(laplace: bool) -> None:
    """Within a third of log-odds: of 18,000 pairs the slope has a deviation below .03.

    The rest is the model's: directions, steps and shares are estimates of a few messages each.
    """
    for seed in (2, 3):
        view, met, _ = played(0.7, seed, laplace=laplace)
        assert 2 / 3 < slope(told(view)[1], met) < 3 / 2


def test_noise_alone_tells_nothing() -> None:
    """Each play by chance once in a thousand times."""
    assert not any(told(played(0.0, seed)[0])[1].any() for seed in range(4))


@pytest.mark.parametrize(("alike", "doubt"), [(0.0, 0.0), (0.0, 0.1), (3.0, 0.1), (3.0, 2.0)])
def test_which_end_is_up_is_told_by_the_vectors_that_users_send(alike: float, doubt: float) -> None:
    """With as many negatives as own items either end may be: unlike ways, at first, and alike ones.

    One step a message is planted, along a vector that is sent with noise of size ``doubt``. As ways
    are alike, all vectors together tell what a noisy one does not.
    """
    rng = np.random.default_rng(7)
    met = rng.random((USERS, ITEMS)) < 0.15
    ways = alike * rng.normal(size=WIDTH) / 4 + rng.normal(size=(USERS, WIDTH)) / 4
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    base = {"v": rng.normal(size=(ITEMS, WIDTH))}
    found = {}
    for known in (False, True):
        rounds = []
        for _ in range(ROUNDS):
            times = np.where(met, 1, -rng.poisson(0.15 / 0.85, size=met.shape))
            moved = 6 * times[:, :, None] * ways[:, None] + rng.normal(size=(*met.shape, WIDTH))
            parts = {"v": Dense(moved.astype(np.float32), Kind.CHANGE)}
            vectors = ways + doubt * rng.normal(size=ways.shape)
            if known:
                parts["own"] = Dense(vectors, Kind.VECTOR)
            rounds.append(sent(parts, base))
        view = view_of(*rounds, users=USERS, items=ITEMS, settings={"negatives": 1.0})
        readers, ratio = told(view)
        assert readers == ["NoisyRows"]
        found[known] = np.array([auc(ratio[user], met[user]) for user in range(USERS)])
    assert found[True].min() > 0.95
    assert alike or 0.3 < found[False].mean() < 0.7


@pytest.mark.parametrize("known", [False, True])
def test_directions_that_turn_are_followed(known: bool) -> None:
    assert area_of_rounds([0.0, 1.0, 2.0, 3.0], [0.0] * 4, known=known) > 0.85


def test_no_direction_is_turned_around_by_a_model_that_overrates_popular_items() -> None:
    """In later rounds the mean row of popular items moves the other way, own items as before."""
    plain = area_of_rounds([0.0] * 8, [0.0] * 8, known=True)
    assert area_of_rounds([0.0] * 8, [0.0] * 4 + [1.0] * 4, known=True) > plain - 0.03


def test_directions_that_grow_by_round_are_not_turned() -> None:
    """Users go three ways, each more or less far by round, beside little noise."""
    rng = np.random.default_rng(5)
    met = rng.random((USERS, ITEMS)) < 0.15
    ways = np.array([2.0, 0.5, 0.5]) + rng.normal(size=(USERS, 3))
    axes = np.linalg.qr(rng.normal(size=(WIDTH, 3)))[0]
    rate, rounds = NEGATIVES * 0.15 / 0.85, []
    for _ in range(8):
        far = np.where(met, 1.0, -rng.poisson(rate, size=met.shape))
        way = (ways * rng.lognormal(0, 0.3, size=3)) @ axes.T
        moved = far[:, :, None] * way[:, None] + 0.1 * rng.normal(size=(*met.shape, WIDTH))
        part = {"v": Dense(moved.astype(np.float32), Kind.CHANGE)}
        rounds.append(sent(part, {"v": rng.normal(size=(ITEMS, WIDTH))}))
    settings = {"negatives": float(NEGATIVES)}
    view = view_of(*rounds, users=USERS, items=ITEMS, settings=settings)
    turns = _turns(item_messages(view, per_user=8), np.arange(USERS))
    assert np.allclose(turns, np.eye(WIDTH))


def area_of_rounds(angles: list[float], overrated: list[float], *, known: bool) -> float:
    """AUC by rounds of one direction at ``angles``, less ``overrated`` times an item's popularity.

    ``known``: whether popularity is public.
    """
    rng = np.random.default_rng(11)
    share = rng.permutation(0.6 / (1 + np.arange(ITEMS)) ** 0.5)
    met = rng.random((USERS, ITEMS)) < share
    rate = NEGATIVES * met.sum(axis=1, keepdims=True) / (~met).sum(axis=1, keepdims=True)
    plane = np.linalg.qr(rng.normal(size=(WIDTH, 2)))[0]
    rounds = []
    for angle, less in zip(angles, overrated, strict=True):
        way = plane @ [np.cos(angle), np.sin(angle)]
        far = np.where(met, 0.8, -0.8 * rng.poisson(rate, size=met.shape)) - 3 * less * share
        moved = far[:, :, None] * way + rng.normal(size=(*met.shape, WIDTH))
        part = {"v": Dense(moved.astype(np.float32), Kind.CHANGE)}
        rounds.append(sent(part, {"v": rng.normal(size=(ITEMS, WIDTH))}))
    settings = {"negatives": float(NEGATIVES)}
    popularity = met.mean(axis=0) if known else None
    view = view_of(*rounds, users=USERS, items=ITEMS, settings=settings, popularity=popularity)
    return auc(told(view)[1].ravel(), met.ravel())


@pytest.mark.parametrize("negatives", [0, 1, 4])
@pytest.mark.parametrize("place", [-1.0, 0.0, 5.0, 12.0])
def test_rows_that_all_go_one_way_or_nowhere_have_ratios(place: float, negatives: int) -> None:
    """No division by what no row did: nothing goes down, or no negative is drawn twice."""
    held = Places(
        np.arange(3), np.full((3, 8), place, np.float32), signed=True, alike=True, up=False
    )
    first = StepMixture(
        end=1.0,
        turned=np.inf,
        step=5.0,
        variance=25.0,
        share=0.05,
        counts=10.0,
        items=np.full(8, -3.0),
        tilts=np.zeros(8),
        reach=np.arange(4.0),
    )
    assert np.isfinite(fitted(held, negatives, first, learning=True).ratio).all()


MANY, FEW, SHARE, DRAWN, STEP = 300, 60, 0.15, 4, 2.0


@pytest.mark.parametrize("steepness", [0.6, 0.0])
def test_tilts_of_items_are_learned_from_rows_that_go_either_way(steepness: float) -> None:
    """Own items go (1 + t) steps up, and k negatives k (1 - t) steps down."""
    rng = np.random.default_rng(0)
    tilts = rng.uniform(-steepness, steepness, FEW)
    met = rng.random((MANY, FEW)) < SHARE
    drawn = rng.poisson(DRAWN * SHARE / (1 - SHARE), met.shape)
    places = STEP * np.where(met, 1 + tilts, -drawn * (1 - tilts)) + rng.normal(size=met.shape)
    found = step_mixture.learned(
        Places(np.arange(MANY), places.astype(np.float32), signed=True, alike=True, up=True),
        DRAWN,
        np.full(FEW, logit(SHARE)),
    )
    assert np.sqrt(np.mean((found.tilts - tilts) ** 2)) < 0.12


@pytest.mark.parametrize(("fade", "upside_down"), [(0.05, 0), (1.0, MANY // 2)])
def test_users_are_turned_if_that_is_likelier(fade: float, upside_down: int) -> None:
    """Negatives that hardly move leave the mean of a row up, and nobody to be turned."""
    rng = np.random.default_rng(1)
    met = rng.random((MANY, FEW)) < SHARE
    drawn = rng.poisson(DRAWN * SHARE / (1 - SHARE), met.shape)
    places = STEP * np.where(met, 1, -fade * drawn) + rng.normal(size=met.shape)
    places[:upside_down] *= -1
    held = Places(
        np.arange(MANY), places.astype(np.float32), signed=True, alike=False, up=upside_down == 0
    )
    mixture = step_mixture.learned(held, DRAWN, np.full(FEW, logit(SHARE)))
    ratio = step_mixture.fitted(held, DRAWN, mixture).ratio
    halves = np.split(np.arange(MANY), 2)
    assert min(auc(ratio[half].ravel(), met[half].ravel()) for half in halves) > 0.8


def in_groups(halves: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Changes (6, 200, 16) of 100 rows each, 20 of own items, and which those are.

    Rows of the second half move by a part that does not depend on the label, and one that does.
    """
    change, own = np.zeros((6, 200, 16)), np.zeros((6, 200), dtype=bool)
    for user in range(6):
        line, other = np.linalg.qr(rng.normal(size=(16, 2)))[0].T
        moved = rng.permutation(200)[:100]
        own[user, moved[:20]] = True
        for place, item in enumerate(moved):
            label, second = (0.8 if own[user, item] else -0.2), place % halves
            row = 0.1 * (abs(label) * line + label * other) if second else label * line
            noise = 0.05 * abs(label) * rng.normal(size=16) * (0.1 if second else 1.0)
            change[user, item] = row * rng.lognormal(0, 0.15) + noise
    return change, own


@pytest.mark.parametrize("halves", [1, 2])
def test_own_items_are_the_smaller_half_of_the_groups(halves: int) -> None:
    change, own = in_groups(halves, np.random.default_rng(halves))
    found = own_probability(change)
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-9
    assert not found[~change.any(axis=2)].any()
    for user in range(6):
        moved = change[user].any(axis=1)
        assert auc(found[user, moved], own[user, moved]) > 0.95


def test_company_does_not_matter() -> None:
    change, _ = in_groups(2, np.random.default_rng(0))
    change[0, 100:] = 0.0  # so that senders moved different numbers of rows
    np.testing.assert_allclose(own_probability(change)[3], own_probability(change[3:4])[0])


def test_nothing_moved_is_nothing_own() -> None:
    assert not own_probability(np.zeros((2, 5, 3))).any()
