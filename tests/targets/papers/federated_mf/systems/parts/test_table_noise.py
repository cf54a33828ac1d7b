"""Fast normal draws: the formula they are, whatever the batch, and their distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import table_normals
from fedrec_auditor.targets.streams import Streams


def slow(streams: Streams, count: int) -> np.ndarray:
    """Box and Muller, with numpy's functions, from the words of the streams."""
    even = count + count % 2
    uniform = (streams.random_bits(even) >> np.uint64(12)) * 2.0**-52 + 2.0**-53
    size = np.sqrt(-2.0 * np.log(uniform[:, ::2]))
    out = np.empty((len(streams), even))
    out[:, ::2] = size * np.cos(2.0 * np.pi * uniform[:, 1::2])
    out[:, 1::2] = size * np.sin(2.0 * np.pi * uniform[:, 1::2])
    return out[:, :count]


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 1200))
def test_draws_are_those_of_the_formula(seed: int, clients: int, count: int) -> None:
    streams = Streams.spawn(np.random.default_rng(seed), clients)
    fast = table_normals(streams, (count,), np.float64)
    np.testing.assert_allclose(fast, slow(streams, count), rtol=1e-12, atol=1e-13)
    single = table_normals(streams, (count,))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fast, rtol=1e-6, atol=1e-7)


def test_the_extremes_of_a_word_are_finite() -> None:
    """Seeds whose first words are found by brute force to be near the ends."""
    streams = Streams.spawn(np.random.default_rng(0), 400_000)
    first = streams.random_bits(1)[:, 0]
    ends = np.array([np.argmin(first), np.argmax(first)])
    fast = table_normals(streams.take(ends), (2,), np.float64)
    np.testing.assert_allclose(fast, slow(streams.take(ends), 2), rtol=1e-9)
    assert np.hypot(*fast[0]) > 4.5  # the smallest uniform is the longest pair
    assert np.hypot(*fast[1]) < 0.01


@pytest.mark.parametrize("count", [1, 2, 7, 30, 200, 700])
def test_a_client_draws_the_same_in_any_batch(count: int) -> None:
    """Short tables are drawn many at a time."""
    streams = Streams.spawn(np.random.default_rng(1), 300)
    whole = table_normals(streams, (count,))
    for i in range(0, 300, 13):
        np.testing.assert_array_equal(
            table_normals(streams.take(np.array([i])), (count,))[0], whole[i]
        )


def test_draws_are_standard_normal_and_independent() -> None:
    """Kolmogorov-Smirnov at 1e-6, and no correlation of neighbours at 6 standard errors."""
    drawn = table_normals(Streams.spawn(np.random.default_rng(2), 200), (1000,), np.float64)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-6
    for a, b in (
        (drawn[:, ::2], drawn[:, 1::2]),
        (drawn[:, :-2:2], drawn[:, 2::2]),
        (drawn[:-1], drawn[1:]),
    ):
        assert abs(np.mean(a * b)) < 6 / np.sqrt(a.size)
        assert abs(np.mean((a**2 - 1) * (b**2 - 1))) < 6 * 2 / np.sqrt(a.size)
