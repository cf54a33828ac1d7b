"""Streams: the same coins whatever the batch, of the right law, and independent."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.targets.streams import Streams

LEVEL = 1e-7  # of every test of a law below


def spawn(count: int, seed: int = 0) -> Streams:
    return Streams.spawn(np.random.default_rng(seed), count)


def oracle(seed: int, place: int) -> int:
    """Word ``place`` of one stream in plain integers."""
    mask = 2**64 - 1
    word = (seed + (place + 1) * 0x9E3779B97F4A7C15) & mask
    for _ in range(2):
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        word ^= word >> 31
    return word


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_words_are_those_of_plain_integers(seed: int, start: int) -> None:
    found = Streams(np.array([seed], dtype=np.uint64)).random_bits(3, start)[0]
    assert [int(word) for word in found] == [oracle(seed, start + step) for step in range(3)]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32))
def test_spawning_and_drawing_may_be_cut_anywhere(cut: int, column: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = Streams.spawn(rng, 9).fold_in(2)
    rng = np.random.default_rng(seed)
    parts = [Streams.spawn(rng, count).fold_in(2) for count in (cut, 9 - cut)]
    seeds = np.concatenate([part.seeds for part in parts])
    np.testing.assert_array_equal(seeds, whole.seeds)
    table = whole.laplace(9)
    np.testing.assert_array_equal(whole.laplace(9 - column, start=column), table[:, column:])
    order = np.random.default_rng(1).permutation(9)
    np.testing.assert_array_equal(whole.take(order).normal(4), whole.normal(4)[order])
    places = np.array([[column]])
    np.testing.assert_array_equal(
        whole.laplace_at(np.arange(9)[:, None], places)[:, 0], whole.laplace(10)[:, column]
    )


def test_laws_within_a_stream_and_across_streams() -> None:
    """Kolmogorov-Smirnov at level 1e-7 on 200,000 draws each way."""
    for streams, count in ((spawn(2), 100_000), (spawn(100_000), 2)):
        for draws, law in (
            (streams.uniform(count), stats.uniform()),
            (streams.laplace(count), stats.laplace()),
            (streams.normal(count), stats.norm()),
        ):
            assert stats.kstest(draws.ravel(), law.cdf).pvalue > LEVEL


def test_neighbours_in_a_stream_children_and_streams_are_uncorrelated() -> None:
    """Rank correlations of 100,000 pairs stay within 5.5 standard deviations."""
    one = spawn(1).uniform(100_001)[0]
    many = spawn(100_001)
    heads = many.uniform(2)
    counted = Streams(np.arange(100_001, dtype=np.uint64)).uniform(1)[:, 0]
    pairs = (
        (one[:-1], one[1:]),
        (heads[:, 0], heads[:, 1]),
        (heads[:-1, 0], heads[1:, 0]),
        (heads[:, 0], many.fold_in(0).uniform(1)[:, 0]),
        (many.fold_in(0).uniform(1)[:, 0], many.fold_in(1).uniform(1)[:, 0]),
        (counted[:-1], counted[1:]),
    )
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 5.5 / np.sqrt(len(a))


def test_uniforms_exclude_both_ends() -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    from fedrec_auditor.targets.streams import _laplace, _uniform

    low, high = _uniform(ends)
    assert 0 < low < high < 1
    assert np.isfinite(_laplace(ends)).all()
