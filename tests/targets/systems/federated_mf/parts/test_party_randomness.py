"""Which rows and ratings are drawn, at which rates, and whose randomness decide it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.federated_mf.parts.party_randomness import (
    PartyRandomness,
    Randomness,
    StreamRandomness,
)

ROWS, ITEMS = 400, 6


def ratings(rows: int = ROWS) -> sparse.csr_array:
    made: sparse.csr_array = sparse.csr_array(
        (np.random.default_rng(9).random((rows, ITEMS)) < 0.5).astype(np.float32)
    )
    return made


def parties(seed: int) -> PartyRandomness:
    """Two parties of half the rows each."""
    generators = tuple(np.random.default_rng((seed, k)) for k in range(2))
    return PartyRandomness(generators, ROWS // 2, np.array([0, 2, ITEMS]))


def streams(seed: int) -> StreamRandomness:
    return StreamRandomness(Streams.spawn(np.random.default_rng(seed), ROWS))


@pytest.mark.parametrize("make", [parties, streams])
def test_rows_and_ratings_are_drawn_at_the_rate_and_for_themselves(make: Any) -> None:
    table, randomness = ratings(), make(0)
    assert isinstance(randomness, (PartyRandomness, StreamRandomness))
    seen = np.zeros(table.shape)
    for _ in range(200):
        seen += randomness.ratings(table, 0.2).ratings.toarray()
    assert (seen[table.toarray() == 0] == 0).all()
    hits = seen[table.toarray() > 0]
    assert abs(hits.mean() - 40) < 6 * math.sqrt(40 * 0.8 / len(hits))
    assert hits.max() < stats.binom.isf(1e-9 / len(hits), 200, 0.2) + 1
    sizes = []
    for _ in range(200):
        drawn = randomness.rows(table, 0.2)
        counts = np.zeros(ROWS, dtype=int)
        counts[drawn.users] = np.diff(drawn.ratings.indptr)
        whole = np.diff(table.indptr)
        assert ((counts == whole) | (counts == 0)).all()  # a row is drawn with all its ratings
        sizes.append(np.count_nonzero(counts))
    rated = np.count_nonzero(np.diff(table.indptr))
    assert abs(np.mean(sizes) - 0.2 * rated) < 6 * math.sqrt(0.16 * rated / 200)


def test_a_fixed_number_of_rows_of_every_party_is_drawn() -> None:
    drawn = parties(1).fixed(ratings(), 0.1)
    np.testing.assert_array_equal(np.bincount(drawn.users // (ROWS // 2)), [20, 20])
    np.testing.assert_array_equal(drawn.ratings.toarray(), ratings().toarray()[drawn.users])
    np.testing.assert_array_equal(streams(1).fixed(ratings(), 0.1).users, np.arange(ROWS))


def test_a_partys_noise_comes_from_its_own_generator() -> None:
    first, second = parties(1), parties(2)
    mixed = PartyRandomness((first.generators[0], second.generators[1]), ROWS // 2, first.owned)
    noise = mixed.items((ITEMS, 3))
    np.testing.assert_array_equal(noise[:2], parties(1).items((ITEMS, 3))[:2])
    np.testing.assert_array_equal(noise[2:], parties(2).items((ITEMS, 3))[2:])
    users = parties(3).users((ROWS, 50))
    assert stats.kstest(users.ravel(), "norm").pvalue > 1e-7


def test_one_stream_at_a_time_draws_what_all_draw_together() -> None:
    table = ratings(7)
    seeds = Streams.spawn(np.random.default_rng(4), 7)

    def steps(randomness: Randomness, part: sparse.csr_array) -> list[np.ndarray]:
        out = []
        n = part.shape[0]
        for draw in (randomness.fixed, randomness.rows, randomness.ratings):
            batch = draw(part, 0.5)
            dense = np.zeros(part.shape)
            dense[batch.users] = batch.ratings.toarray()
            out += [dense, randomness.users((n, 2)), randomness.items((3 * n, 2)).reshape(n, 3, 2)]
        return out

    together = steps(StreamRandomness(seeds), table)
    for user in range(7):
        one = np.array([user])
        alone = steps(StreamRandomness(seeds.take(one)), sparse.csr_array(table[one]))
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_array_equal(whole[one], part)
    normals = StreamRandomness(Streams.spawn(np.random.default_rng(0), 2000)).users((2000, 5))
    assert stats.kstest(normals.ravel(), "norm").pvalue > 1e-7
