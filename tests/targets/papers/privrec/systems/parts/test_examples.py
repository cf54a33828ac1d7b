"""What a device trains on: all its items, unmet negatives, and its own coins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.device import DeviceExamples
from fedrec_auditor.targets.streams import Streams


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 12), st.integers(1, 6))
def test_examples_are_all_positives_and_distinct_unmet_negatives(
    seed: int, users: int, items: int, negatives: int
) -> None:
    rng = np.random.default_rng(seed)
    data = Interactions.of((rng.random((users, items)) < rng.random()) * 1.0)
    drawn = DeviceExamples.draw(data, Streams.spawn(rng, users), negatives=negatives)
    for user in range(users):
        held = np.flatnonzero(data.ratings.toarray()[user])
        n = len(held)
        assert drawn.counts[user] == n
        assert drawn.sizes[user] == n + min(negatives * n, items - n)
        found = drawn.items[user, : drawn.sizes[user]]
        assert len(set(found.tolist())) == len(found)
        np.testing.assert_array_equal(found[:n], held)
        assert not set(found[n:].tolist()) & set(held.tolist())
        np.testing.assert_array_equal(
            np.flatnonzero(drawn.labels[user]), np.arange(n, dtype=np.int64)
        )


@given(st.integers(0, 2**32 - 1))
def test_a_device_draws_the_same_in_any_company(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = Interactions.of((rng.random((6, 20)) < 0.3) * 1.0)
    streams = Streams.spawn(rng, 6)
    drawn = DeviceExamples.draw(data, streams, negatives=2)
    some = np.array([4, 1])
    alone = DeviceExamples.draw(data.take(some), streams.take(some), negatives=2)
    for place, user in enumerate(some):
        size = drawn.sizes[user]
        np.testing.assert_array_equal(alone.items[place, :size], drawn.items[user, :size])
        one = alone.orders(streams.take(some), 3, 24)[place, :size]
        np.testing.assert_array_equal(one, drawn.orders(streams, 3, 20)[user, :size])


def test_orders_are_permutations_that_differ_by_epoch_and_device() -> None:
    rng = np.random.default_rng(0)
    data = Interactions.of((rng.random((4, 40)) < 0.5) * 1.0)
    streams = Streams.spawn(rng, 4)
    drawn = DeviceExamples.draw(data, streams, negatives=1)
    first, second = (drawn.orders(streams, epoch, 48) for epoch in (0, 1))
    for orders in (first, second):
        np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(48), (4, 1)))
        for user, size in enumerate(drawn.sizes):
            assert orders[user, :size].max() == size - 1
    assert (first != second).any(axis=1).all()


def test_all_unmet_items_are_drawn_alike() -> None:
    """Each of 8 unmet items is drawn with probability 1/4; 20,000 devices, 6 deviations."""
    table = np.zeros((20_000, 10))
    table[:, [3, 7]] = 1.0
    drawn = DeviceExamples.draw(
        Interactions.of(table), Streams.spawn(np.random.default_rng(1), 20_000), negatives=1
    )
    counts = np.bincount(drawn.items[:, 2:].ravel(), minlength=10)
    assert counts[3] == counts[7] == 0
    unmet = np.delete(counts, [3, 7])
    assert np.abs(unmet - 5000).max() < 6 * np.sqrt(20_000 * 0.25 * 0.75)
