"""Local steps compared with plain loops: noise, draws, and true sensitivities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent as _descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import (
    Clipping,
    GradientDescent,
    StepRatings,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import draw_normals
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import init_embeddings
from fedrec_auditor.targets.streams import Streams
from tests.targets.papers.tables import make_table

gradients = _descent.sum_gradients
SEEDS = st.integers(0, 2**32 - 1)
STEPS = GradientDescent(
    learning_rate=0.2,
    n_steps=10,
    sampling_rate=0.4,
    item_sigma=0.7,
    clipping=Clipping.make_projection(5.0),
)


def make_case(seed: int) -> tuple[sparse.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(8, size=5, replace=False))
    return make_table(rng), rng.normal(size=(8, 3)), rng.normal(size=(6, 3)), rows


@given(SEEDS, st.floats(0.1, 20.0) | st.just(math.inf))
def test_gradients_are_the_sums_of_every_rating_or_user_clipped(seed: int, clip: float) -> None:
    """Sums of -2 (x - u.v) v and -2 (x - u.v) u over the drawn rows (section 4.1.1)."""
    ratings, u, v, rows = make_case(seed)
    drawn = StepRatings.from_rows(ratings, np.zeros(5, int), rows, 1)
    slow = {"rating": np.zeros((14, 3)), "user": np.zeros((14, 3))}
    x = ratings.toarray()
    for i in rows:
        whole = np.zeros((14, 3))
        for j in np.flatnonzero(x[i]):
            one = np.zeros((14, 3))
            one[i], one[8 + j] = (2 * (u[i] @ v[j] - x[i, j]) * w for w in (v[j], u[i]))
            slow["rating"] += one * min(1.0, clip / float(np.linalg.norm(one)))
            whole += one
        slow["user"] += whole * min(1.0, clip / max(float(np.linalg.norm(whole)), 1e-300))
    for unit in ("rating", "user"):
        of_u, of_v = gradients(u, v, ratings, Clipping.make_scaling(clip, unit), drawn)
        np.testing.assert_allclose(of_u, slow[unit][:8], atol=1e-9)
        np.testing.assert_allclose(of_v, slow[unit][8:], atol=1e-9)


@pytest.mark.parametrize("langevin", [False, True])
def test_every_entry_has_noise_of_the_stated_size(langevin: bool) -> None:
    ratings: Any = sparse.csr_array(np.zeros((2000, 500), dtype=np.float32))
    sigma = 0.1 if langevin else 3.0
    made = {"user_sigma": sigma, "item_sigma": sigma, "is_langevin": langevin}
    descent = GradientDescent(learning_rate=0.5, sampling_rate=0.2, n_steps=1, **made)
    tables, rng = (np.zeros((n, 10), np.float32) for n in (2000, 500)), np.random.default_rng(3)
    u, v = descent.train(*tables, ratings, rng, user_scale=0.1, item_scale=0.2, count=1)
    for moved, step in ((u, 0.05), (v, 0.1)):
        # Langevin: a step h on the batch's sum is h rate on the full sum, with noise N(0, h rate)
        sigma = math.sqrt(step * 0.2) if langevin else 3.0 * step
        assert (moved != 0).all()
        z = np.square(moved.astype(float) / sigma).sum()
        low, high = stats.chi2.interval(1 - 1e-9, moved.size)
        assert low < z < high


OF_A_VALUE = (
    Clipping.make_projection(4.0),
    Clipping.make_error_clip(4.0),
    Clipping.make_scaling(2.0, "rating"),
)


@given(SEEDS, st.integers(1, 6), st.sampled_from([*OF_A_VALUE, Clipping.make_scaling(2.0, "user")]))
def test_no_user_moves_the_sum_by_more_than_the_sensitivity(
    seed: int, count: int, clipping: Clipping
) -> None:
    rng = np.random.default_rng(seed)
    u = clipping.project(rng.normal(size=(1, 3)) * 5)
    v = clipping.project(rng.normal(size=(count, 3)) * 5)
    made: Any = sparse.csr_array
    of_u, of_v = gradients(u, v, made(rng.uniform(0.1, 4.0, (1, count))), clipping)
    apart = math.hypot(float(np.linalg.norm(of_u)), float(np.linalg.norm(of_v)))
    assert apart <= clipping.get_sensitivity(count, True) * (1 + 1e-9)
    assert np.linalg.norm(of_v) <= clipping.get_sensitivity(count, False) * (1 + 1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_the_sensitivity_of_embedding_clipping_is_attained_and_the_papers_is_loose(
    count: int,
) -> None:
    clipping = Clipping.make_projection(4.0)
    u, v = np.array([[2.0, 0.0]]), np.tile([[0.0, 2.0]], (count, 1))
    made: Any = sparse.csr_array
    of_u, of_v = gradients(u, v, made(np.full((1, count), 4.0)), clipping)
    joint = math.hypot(float(np.linalg.norm(of_u)), float(np.linalg.norm(of_v)))
    assert joint == pytest.approx(clipping.get_sensitivity(count, True))
    assert np.linalg.norm(of_v) == pytest.approx(clipping.get_sensitivity(count, False))
    paper = count * 2 * math.sqrt(2) * 4.0**1.5
    assert joint == pytest.approx(paper) if count == 1 else joint < 0.8 * paper


@given(SEEDS, st.sampled_from(OF_A_VALUE))
def test_no_value_moves_the_sum_by_more_than_the_sensitivity(seed: int, clipping: Clipping) -> None:
    rng = np.random.default_rng(seed)
    u = clipping.project(rng.normal(size=(1, 3)) * 2)
    v = clipping.project(rng.normal(size=(1, 3)) * 2)
    sums = []
    for value in (1e-6, 4.0):
        made: Any = sparse.csr_array
        sums.append(np.concatenate(gradients(u, v, made(np.array([[value]])), clipping), axis=None))
    apart = float(np.linalg.norm(sums[1] - sums[0]))
    assert apart <= clipping.replacement_ratio * clipping.get_sensitivity(1, True) * (1 + 1e-9)
    if (
        clipping.rating_clip_norm < math.inf
        and 0.5 < u[0] @ v[0] < 3.5
        and min(u[0] @ u[0], v[0] @ v[0]) > 2
    ):
        assert apart > 1.9 * clipping.get_sensitivity(1, True)  # reversed


def run_slow(
    steps: GradientDescent,
    users: np.ndarray,
    items: np.ndarray,
    ratings: sparse.csr_array,
    drawn: StepRatings,
    seeds: np.ndarray,
    sizes: np.ndarray,
    weight: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Equation 5 with noise, clipping and projection, rating by rating; seeds have shape (2,
    steps).
    """
    limits, users, items = steps.clipping, users.astype(float), items.astype(float)
    for t, size in enumerate(sizes):
        of_users, of_items = (
            sigma * draw_normals(Streams(seeds[k, t : t + 1]), rows.shape, np.float64)[0]
            for k, (sigma, rows) in enumerate(
                [(steps.user_sigma, users), (steps.item_sigma, items)]
            )
        )
        for k in range(drawn.step_starts[t], drawn.step_starts[t + 1]):
            i, place = drawn.user_rows[k], drawn.data_indices[k]
            j = ratings.indices[place]
            error = np.clip(
                users[i] @ items[j] - ratings.data[place], -limits.max_error, limits.max_error
            )
            one = 2 * error * np.concatenate([users[i], items[j]])
            one *= min(1.0, limits.rating_clip_norm / max(float(np.linalg.norm(one)), 1e-300))
            of_items[j] += one[:3]
            of_users[i] += one[3:]
        items = items - size * of_items
        seen = set(drawn.user_rows[drawn.step_starts[t] : drawn.step_starts[t + 1]].tolist())
        moving = [weight > 0 and (i in seen or steps.user_sigma > 0) for i in range(len(users))]
        users = np.where(np.array(moving)[:, None], users - size * weight * of_users, users)
        items = limits.project(items)
        users = np.where(np.array(moving)[:, None], limits.project(users), users)
    return users, items


@settings(max_examples=50)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["row", "rating", "user"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from(
        [
            Clipping(),
            Clipping.make_projection(5.0),
            Clipping.make_error_clip(0.7),
            Clipping.make_scaling(2.0, "rating"),
        ]
    ),
)
def test_compiled_steps_are_the_plain_ones(
    seed: int, sampled: str, weight: float, sigma: float, user_sigma: float, clipping: Clipping
) -> None:
    steps = replace(STEPS, sampling_unit=sampled, clipping=clipping)
    steps = replace(steps, item_sigma=sigma, user_sigma=user_sigma)
    rng = np.random.default_rng(seed)
    ratings = make_table(np.random.default_rng(seed), 6, 8)
    users, items = (init_embeddings(rng.random((rows, 3)), 5.0) for rows in (6, 8))
    fast = steps.train(
        users,
        items,
        ratings,
        np.random.default_rng(1),
        user_scale=0.3 * weight,
        item_scale=0.3,
        first=2,
        count=4,
    )
    again = np.random.default_rng(1)
    drawn = steps.sample_ratings(ratings, again, 4)
    seeds = again.integers(1 << 64, size=(2, 4), dtype=np.uint64)
    sizes = steps.get_learning_rates(2, 4) * 0.3
    plain = run_slow(steps, users, items, ratings, drawn, seeds, sizes, weight)
    for one, two in zip(fast, plain, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sampled", ["row", "rating", "user"])
def test_parties_of_one_user_step_like_other_parties(sampled: str) -> None:
    """Compared with the plain loops, party by party, on the draws of their own streams."""
    steps = replace(STEPS, sampling_unit=sampled, user_sigma=0.3)
    rng = np.random.default_rng(3)
    ratings = make_table(np.random.default_rng(0), 6, 8)
    users, items = (init_embeddings(rng.random((rows, 3)), 5.0) for rows in (6, 48))
    streams, step_scale = Streams.spawn(rng, 6), np.linspace(0.1, 0.5, 6)

    def train(one: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return steps.train_devices(
            users[one],
            items.reshape(6, 8, 3)[one].reshape(-1, 3),
            8 * np.arange(len(one) + 1),
            sparse.csr_array(ratings[one]),
            streams.take(one),
            user_scale=0.5 * step_scale[one],
            item_scale=step_scale[one],
            count=3,
        )

    fast = train(np.arange(6))
    drawn = steps.sample_device_ratings(ratings, streams, 3)
    for i in range(6):
        part = slice(drawn.step_starts[3 * i], drawn.step_starts[3 * i + 3])
        assert (drawn.user_rows[part] == i).all()
        mine = StepRatings(
            drawn.step_starts[3 * i : 3 * i + 4] - drawn.step_starts[3 * i],
            drawn.data_indices[part],
            np.zeros(part.stop - part.start, np.int64),
        )
        seeds = streams.derive(1).draw_words(6)[i].reshape(2, 3)
        sizes, own = steps.get_learning_rates(0, 3) * step_scale[i], items[8 * i : 8 * i + 8]
        plain = run_slow(steps, users[[i]], own, sparse.csr_array(ratings), mine, seeds, sizes, 0.5)
        np.testing.assert_allclose(fast[0][[i]], plain[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(fast[1][8 * i : 8 * i + 8], plain[1], rtol=1e-4, atol=1e-4)
        by_itself = train(np.array([i]))
        np.testing.assert_array_equal(by_itself[0], fast[0][[i]])
        np.testing.assert_array_equal(by_itself[1], fast[1][8 * i : 8 * i + 8])


def test_rows_are_drawn_in_fixed_number_and_equally_often() -> None:
    """0.4 of 6 rows are 2; each is in a third of the steps (6 standard errors)."""
    ratings, count = make_table(np.random.default_rng(0), 6, 8), 20_000
    for size, rate in ((2, 0.4), (1, 0.01)):
        steps = replace(STEPS, sampling_rate=rate)
        drawn = steps.sample_ratings(ratings, np.random.default_rng(0), count)
        sizes = np.diff(ratings.indptr)
        step = np.repeat(np.arange(count), np.diff(drawn.step_starts))
        pairs = np.unique(step * 6 + drawn.user_rows)
        times = np.bincount(pairs % 6, minlength=6) / count
        share = size / 6
        assert np.abs(times[sizes > 0] - share).max() < 6 * np.sqrt(share / count)
        assert len(drawn.data_indices) == sum(sizes[pairs % 6])
        filled = sizes[pairs % 6] > 0
        assert filled.all()
        for k in range(50):
            part = slice(drawn.step_starts[k], drawn.step_starts[k + 1])
            rows, places = drawn.user_rows[part], drawn.data_indices[part]
            assert len(np.unique(rows)) <= size
            np.testing.assert_array_equal(
                places, np.flatnonzero(np.isin(np.repeat(np.arange(6), sizes), rows))
            )


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_units_are_drawn_independently(unit: str) -> None:
    """Each unit at the rate, and pairs at its square: by a party and by parties of one user."""
    steps = replace(STEPS, sampling_unit=unit, sampling_rate=0.3)
    ratings, count = make_table(np.random.default_rng(0), 6, 8), 4000
    n = ratings.shape[0]
    streams = Streams.spawn(np.random.default_rng(5), n)
    single = steps.sample_device_ratings(ratings, streams, count)
    group = np.repeat(np.arange(n * count), np.diff(single.step_starts))
    drawn = steps.sample_ratings(ratings, np.random.default_rng(4), count)
    steps_drawn = np.repeat(np.arange(count), np.diff(drawn.step_starts))
    for places, step in ((drawn.data_indices, steps_drawn), (single.data_indices, group % count)):
        seen = np.zeros((count, ratings.nnz), bool)
        seen[step, places] = True
        together = seen.T.astype(float) @ seen / count
        rows = np.repeat(np.arange(n), np.diff(ratings.indptr))
        same = (rows[:, None] == rows) if unit == "user" else np.eye(ratings.nnz, dtype=bool)
        expected = np.where(same, 0.3, 0.09)
        assert np.abs(together - expected).max() < 6 * np.sqrt(0.3 * 0.7 / count)


def test_many_steps_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several steps per block, within memory, give the same draws as steps drawn one by one."""
    monkeypatch.setattr(_descent, "_NUMBERS", 12)
    rng = np.random.default_rng(0)
    ratings, users, items = make_table(rng, 6, 8), rng.random((6, 3)), rng.random((8, 3))
    scales = {"user_scale": 0.3, "item_scale": 0.3}
    whole = STEPS.train(users, items, ratings, np.random.default_rng(1), count=5, **scales)
    again = np.random.default_rng(1)
    for first, count in ((0, 2), (2, 2), (4, 1)):
        users, items = STEPS.train(users, items, ratings, again, first=first, count=count, **scales)
    np.testing.assert_array_equal(whole[0], users)
    np.testing.assert_array_equal(whole[1], items)


def test_a_training_that_diverges_is_refused() -> None:
    steps = replace(STEPS, learning_rate=1e6, clipping=Clipping())
    rng = np.random.default_rng(0)
    ratings, items = make_table(rng, 6, 8), init_embeddings(rng.random((8, 3)), 5.0)
    with pytest.raises(InputError, match=r"learning_rate=1000000.*smaller"):
        steps.train(items[:6], items, ratings, rng, user_scale=1.0, item_scale=1.0, count=10)


def test_two_users_differ_by_at_most_the_sensitivity() -> None:
    """Search over two users of two ratings each, with the systems' gradients; the bound is attained
    in V.
    """
    rng, clipping = np.random.default_rng(0), Clipping.make_projection(5.0)
    worst = math.atan(2.0) / 2  # the angle at which 1 + cos^2 b + sin 2b is largest
    far = math.sqrt(5) * np.array([[0.0, 1.0], [math.cos(worst), math.sin(worst)]])
    longest, replaced = np.zeros(2), np.zeros(2)  # in V, and in U and V
    for number in range(2000):
        users, items = (
            clipping.project(np.abs(rng.normal(scale=3.0, size=shape)) * (rng.random(shape) < 0.6))
            for shape in ((2, 2), (4, 2))
        )
        x, other = np.zeros((2, 4)), 2 * (number % 2)  # the same items, or other items
        x[0, :2], x[1, other : other + 2] = rng.choice([0.01, 2.5, 5.0], (2, 2))
        if number == 0:
            users, items = far, np.full((4, 2), [math.sqrt(5), 0.0])
            x[:, :2] = [[5.0, 5.0], [1e-9, 1e-9]]
        sums = [gradients(users[[k]], items, sparse.csr_array(x[[k]]), clipping) for k in (0, 1)]
        of_items = float(np.linalg.norm(sums[0][1] - sums[1][1]))
        of_users = math.hypot(*(float(np.linalg.norm(one[0])) for one in sums))
        longest = np.maximum(longest, [of_items, math.hypot(of_items, of_users)])
        same = [gradients(users[[0]], items, sparse.csr_array(x[[k]]), clipping) for k in (0, 1)]
        moved = [np.linalg.norm(same[0][at] - same[1][at]) for at in (1, 0)]
        replaced = np.maximum(replaced, [moved[0], np.linalg.norm(moved)])
    for joint in (False, True):
        most = clipping.bound_user_distance(2, joint)
        limit = clipping.max_distance_ratio * clipping.get_sensitivity(2, joint)
        assert max(most, replaced[int(joint)]) <= limit
        assert longest[int(joint)] <= most * (1 + 1e-9)
    assert longest[0] == pytest.approx(clipping.bound_user_distance(2, False), rel=1e-6)
