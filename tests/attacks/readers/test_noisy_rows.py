"""Item tables of which noise moves every row: planted steps, and what is known of the truth."""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from scipy.special import expit

from fedrec_auditor.attacks.parts.row_places import Places, _turns
from fedrec_auditor.attacks.parts.step_mixture import StepMixture, fitted
from fedrec_auditor.attacks.parts.uploads import item_messages
from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import sent, told, view_of

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
