"""Streams and fused noise: equal draws in any batch, with the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.targets.noise_kernel import add_laplace, add_laplace_rows, log
from fedrec_auditor.targets.streams import Streams

LEVEL = 1e-7  # level of every test of a distribution


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
    found = Streams(np.array([seed], dtype=np.uint64)).draw_words(3, start)[0]
    assert [int(word) for word in found] == [oracle(seed, start + step) for step in range(3)]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32))
def test_spawning_and_drawing_may_be_cut_anywhere(cut: int, column: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = Streams.spawn(rng, 9).derive(2)
    rng = np.random.default_rng(seed)
    parts = [Streams.spawn(rng, count).derive(2) for count in (cut, 9 - cut)]
    seeds = np.concatenate([part.seeds for part in parts])
    np.testing.assert_array_equal(seeds, whole.seeds)
    table = whole.draw_laplace(9)
    np.testing.assert_array_equal(whole.draw_laplace(9 - column, start=column), table[:, column:])
    order = np.random.default_rng(1).permutation(9)
    np.testing.assert_array_equal(whole.take(order).draw_normal(4), whole.draw_normal(4)[order])
    places = np.array([[column]])
    at_place = whole.draw_laplace_at(np.arange(9)[:, None], places)[:, 0]
    np.testing.assert_array_equal(at_place, whole.draw_laplace(10)[:, column])


def test_distributions_within_and_across_streams() -> None:
    """Kolmogorov-Smirnov at level 1e-7 on 200,000 draws each."""
    for streams, count in ((spawn(2), 100_000), (spawn(100_000), 2)):
        for draws, law in (
            (streams.draw_uniform(count), stats.uniform()),
            (streams.draw_laplace(count), stats.laplace()),
            (streams.draw_normal(count), stats.norm()),
        ):
            assert stats.kstest(draws.ravel(), law.cdf).pvalue > LEVEL


def test_neighbouring_draws_children_and_streams_are_uncorrelated() -> None:
    """Rank correlations of 100,000 pairs stay within 5.5 standard deviations."""
    one = spawn(1).draw_uniform(100_001)[0]
    many = spawn(100_001)
    heads = many.draw_uniform(2)
    counted = Streams(np.arange(100_001, dtype=np.uint64)).draw_uniform(1)[:, 0]
    pairs = (
        (one[:-1], one[1:]),
        (heads[:, 0], heads[:, 1]),
        (heads[:-1, 0], heads[1:, 0]),
        (heads[:, 0], many.derive(0).draw_uniform(1)[:, 0]),
        (many.derive(0).draw_uniform(1)[:, 0], many.derive(1).draw_uniform(1)[:, 0]),
        (counted[:-1], counted[1:]),
    )
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 5.5 / np.sqrt(len(a))


def test_uniforms_exclude_both_ends() -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    from fedrec_auditor.targets.streams import _to_laplace, _to_uniform

    low, high = _to_uniform(ends)
    assert 0 < low < high < 1
    assert np.isfinite(_to_laplace(ends)).all()


ULPS = 3  # two for ours, one for numpy's


@given(st.floats(2.0**-53, 1.0, exclude_max=True))
def test_the_logarithm_is_numpys_to_its_last_bits(x: float) -> None:
    _check_log(x)


@pytest.mark.parametrize("center", [0.5, 0.5**0.5, 0.25, 1.0, *(2.0 ** -np.arange(3.0, 54.0))])
def test_the_logarithm_is_accurate_around_its_branches(center: float) -> None:
    for x in (np.nextafter(center, 0.0), center, np.nextafter(center, 2.0)):
        _check_log(float(x))


def _check_log(x: float) -> None:
    expected = np.log(x)
    assert abs(log(x) - expected) <= ULPS * np.spacing(abs(expected))


def test_draws_do_not_depend_on_their_position() -> None:
    streams = Streams.spawn(np.random.default_rng(0), 5)
    drawn = np.empty((5, 20_000))
    add_laplace(np.zeros_like(drawn), streams.seeds, 1.0, 1.0, drawn)
    expected = streams.draw_laplace(20_000)
    assert (np.abs(drawn - expected) <= ULPS * np.spacing(np.abs(expected))).all()

    width, ids = 7, np.array([3, 4, 2_000])
    rows = np.empty((3, width))
    last = streams.take(np.array([4]))
    add_laplace_rows(np.zeros_like(rows), np.array([0, 3]), ids, last.seeds, 1.0, 1.0, rows)
    places = ids[:, None] * width + np.arange(width)
    assert np.array_equal(rows, drawn[4, places])


def test_entries_are_clipped_before_their_noise() -> None:
    seeds = np.array([7], dtype=np.uint64)
    sent = np.empty((2, 1, 3))
    add_laplace(np.array([[-9.0, 0.25, 9.0]]), seeds, 0.5, 0.1, sent[0])
    add_laplace(np.zeros((1, 3)), seeds, 0.5, 0.1, sent[1])
    np.testing.assert_allclose(sent[0] - sent[1], [[-0.5, 0.25, 0.5]], rtol=1e-12)
