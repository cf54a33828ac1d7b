"""A party's compiled steps: held to plain loops, and to the law of what is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.federated_mf.parts.party_steps import Drawn, PartySteps
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import start
from fedrec_auditor.targets.systems.federated_mf.parts.table_noise import table_normals

STEPS = PartySteps(learning_rate=0.2, steps=10, rate=0.4, sigma=0.7, weight=0.5, bound=5.0)


def table(users: int = 6, items: int = 8, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = (rng.random((users, items)) < 0.5) * rng.integers(1, 6, (users, items))
    return sparse.csr_array(dense.astype(np.float32))


def clip(row: np.ndarray, bound: float) -> np.ndarray:
    row = np.maximum(row, 0)
    return row * min(1.0, np.sqrt(bound / max(row @ row, 1e-30)))


def slow(
    steps: PartySteps,
    users: np.ndarray,
    items: np.ndarray,
    ratings: sparse.csr_array,
    drawn: Drawn,
    seeds: np.ndarray,
    sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Equation 5 with noise and projection, rating by rating."""
    users, items = users.astype(float), items.astype(float)
    for t, size in enumerate(sizes):
        noise = table_normals(Streams(seeds[t : t + 1]), items.shape, np.float64)[0]
        of_items = steps.sigma * noise
        of_users = np.zeros_like(users)
        for k in range(drawn.starts[t], drawn.starts[t + 1]):
            i, place = drawn.rows[k], drawn.places[k]
            j = ratings.indices[place]
            error = users[i] @ items[j] - ratings.data[place]
            of_items[j] += 2 * error * users[i]
            of_users[i] += 2 * error * items[j]
        items = items - size * of_items
        seen = set(drawn.rows[drawn.starts[t] : drawn.starts[t + 1]].tolist())
        users = users - size * steps.weight * of_users
        if steps.bound:
            items = np.array([clip(row, steps.bound) for row in items])
            users = np.array(
                [
                    clip(row, steps.bound) if i in seen and steps.weight else row
                    for i, row in enumerate(users)
                ]
            )
    return users, items


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from(["rating", "user"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 5.0]),
)
def test_compiled_steps_are_the_plain_ones(
    seed: int, independent: bool, unit: str, weight: float, sigma: float, bound: float
) -> None:
    steps = replace(
        STEPS, independent=independent, unit=unit, weight=weight, sigma=sigma, bound=bound
    )
    ratings, rng = table(seed=seed), np.random.default_rng(seed)
    users, items = start(rng.random((6, 3)), 5.0), start(rng.random((8, 3)), 5.0)
    fast = steps.train(
        users, items, ratings, np.random.default_rng(1), step_scale=0.3, first=2, count=4
    )
    again = np.random.default_rng(1)
    drawn = steps.draw(ratings, again, 4)
    seeds = again.integers(1 << 64, size=4, dtype=np.uint64)
    sizes = steps._rates(2, 4) * 0.3
    for one, two in zip(fast, slow(steps, users, items, ratings, drawn, seeds, sizes), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("independent", [False, True])
def test_parties_of_one_user_step_as_parties_do(unit: str, independent: bool) -> None:
    """Held to the plain loops, party by party, on what their own streams draw."""
    steps = replace(STEPS, unit=unit, independent=independent)
    ratings, rng = table(), np.random.default_rng(3)
    users, items = start(rng.random((6, 3)), 5.0), start(rng.random((8, 3)), 5.0)
    streams, step_scale = Streams.spawn(rng, 6), np.linspace(0.1, 0.5, 6)
    fast = steps.singles(users, items, ratings, streams, step_scale=step_scale, count=3)
    drawn = steps.single_draws(ratings, streams, 3)
    for i in range(6):
        part = slice(drawn.starts[3 * i], drawn.starts[3 * i + 3])
        assert (drawn.rows[part] == i).all()
        mine = Drawn(
            drawn.starts[3 * i : 3 * i + 4] - drawn.starts[3 * i],
            drawn.places[part],
            np.zeros(part.stop - part.start, np.int64),
        )
        seeds, sizes = streams.fold_in(1).random_bits(3)[i], steps._rates(0, 3) * step_scale[i]
        _, expected = slow(steps, users[[i]], items, ratings, mine, seeds, sizes)
        np.testing.assert_allclose(fast[i], expected, rtol=1e-4, atol=1e-4)


def test_a_fixed_number_of_whole_rows_is_drawn_each_as_often() -> None:
    """0.4 of 6 rows are 2; each comes in a third of the steps (6 standard errors)."""
    ratings, count = table(), 20_000
    for size, rate in ((2, 0.4), (1, 0.01)):
        drawn = replace(STEPS, rate=rate).draw(ratings, np.random.default_rng(0), count)
        held = np.diff(ratings.indptr)
        step = np.repeat(np.arange(count), np.diff(drawn.starts))
        pairs = np.unique(step * 6 + drawn.rows)
        times = np.bincount(pairs % 6, minlength=6) / count
        share = size / 6
        assert np.abs(times[held > 0] - share).max() < 6 * np.sqrt(share / count)
        assert len(drawn.places) == sum(held[pairs % 6])
        filled = held[pairs % 6] > 0
        assert filled.all()
        for k in range(50):
            part = slice(drawn.starts[k], drawn.starts[k + 1])
            rows, places = drawn.rows[part], drawn.places[part]
            assert len(np.unique(rows)) <= size
            np.testing.assert_array_equal(
                places, np.flatnonzero(np.isin(np.repeat(np.arange(6), held), rows))
            )


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_units_are_drawn_by_themselves(unit: str) -> None:
    """Every one at the rate, pairs at its square: by a party and by parties of one user."""
    steps = replace(STEPS, unit=unit, independent=True, rate=0.3)
    ratings, count = table(), 4000
    n = ratings.shape[0]
    streams = Streams.spawn(np.random.default_rng(5), n)
    single = steps.single_draws(ratings, streams, count)
    group = np.repeat(np.arange(n * count), np.diff(single.starts))
    drawn = steps.draw(ratings, np.random.default_rng(4), count)
    steps_drawn = np.repeat(np.arange(count), np.diff(drawn.starts))
    for places, step in ((drawn.places, steps_drawn), (single.places, group % count)):
        seen = np.zeros((count, ratings.nnz), bool)
        seen[step, places] = True
        together = seen.T.astype(float) @ seen / count
        rows = np.repeat(np.arange(n), np.diff(ratings.indptr))
        same = (rows[:, None] == rows) if unit == "user" else np.eye(ratings.nnz, dtype=bool)
        expected = np.where(same, 0.3, 0.09)
        assert np.abs(together - expected).max() < 6 * np.sqrt(0.3 * 0.7 / count)


def test_a_training_that_diverges_is_refused() -> None:
    steps = replace(STEPS, learning_rate=1e6, bound=0.0)
    ratings, items = table(), start(np.random.default_rng(0).random((8, 3)), 5.0)
    with pytest.raises(InputError, match="learning_rate=1000000"):
        steps.train(
            items[:6], items, ratings, np.random.default_rng(0), step_scale=1.0, first=0, count=10
        )
