"""Fast normal draws: the formula they are, whatever the batch, and their distribution.

LFL-SGDMF's two messages: masked and replaced noise together, printed and repaired.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.targets.components import Dense, Kind, Randomized
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import (
    Masked,
    PartTakenBack,
    Replacement,
    result,
    table_normals,
)
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


KINDS = {False: Replacement, True: PartTakenBack}
OMEGA, USERS, COUNT = 0.3, 10, 40_000
BEFORE, AFTER = 1 / math.sqrt((1 - OMEGA) * USERS), 1 / math.sqrt(USERS)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_messages_have_the_law_of_noise_replacement(repaired: bool) -> None:
    """Covariances of (xi, reply), to 6 standard errors; 40,000 clients with one entry."""
    streams, zero = Streams.spawn(np.random.default_rng(0), COUNT), np.zeros((COUNT, 1), "f4")
    xi = Masked(BEFORE)(zero, streams)[:, 0].astype(float)
    reply = KINDS[repaired](BEFORE, AFTER)(zero, streams)[:, 0].astype(float)
    z1, z2 = BEFORE**2, AFTER**2
    expected = [z1 - z2, -(z1 - z2)] if repaired else [z1 + z2, -z1]
    for a, b, mean in (
        (xi, xi, z1),
        (reply, reply, expected[0]),
        (xi, reply, expected[1]),
        (xi + reply, xi + reply, z2),
    ):
        assert abs(np.mean(a * b) - mean) < 6 * np.std(a * b) / math.sqrt(COUNT)


@pytest.mark.parametrize("repaired", [False, True])
def test_what_the_server_cannot_know_is_what_the_mechanism_says(repaired: bool) -> None:
    """Variance of the sum given the replies, by regression over 4,000 sums of ten clients."""
    streams, zero = Streams.spawn(np.random.default_rng(1), COUNT), np.zeros((COUNT, 1), "f4")
    total, replies = (
        randomize(zero, streams).reshape(-1, USERS).sum(axis=1, dtype=float)
        for randomize in (Masked(BEFORE), KINDS[repaired](BEFORE, AFTER))
    )
    slope = np.mean(total * replies) / np.mean(replies**2)
    left = np.var(total - slope * replies)
    law = NoiseReplacement(
        sigma=1.0,
        sensitivity=1.0,
        n_users=USERS,
        omega=OMEGA,
        masked=USERS,
        replaced=USERS,
        repaired=repaired,
    )
    assert law.variance == pytest.approx(1.0 if repaired else 1 / (2 - OMEGA))
    assert left == pytest.approx(law.variance, rel=6 * math.sqrt(2 / len(total)))


def test_the_second_message_undoes_the_first_ones_noise() -> None:
    """The same draws in both rounds, however often they are asked for."""
    streams = Streams.spawn(np.random.default_rng(2), 5)
    values = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    first, again = (Masked(2.0)(values, streams) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    reply = Replacement(2.0, 1e-6)(np.zeros_like(values), streams)
    np.testing.assert_allclose(first + reply, values, atol=1e-4)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_result_is_the_sum_of_all_messages(repaired: bool) -> None:
    """Nine devices in round 1, six of them in round 2."""
    streams = Streams.spawn(np.random.default_rng(3), 12)
    masked = np.array([0, 1, 2, 4, 5, 6, 8, 9, 11])
    replaced = np.array([0, 2, 4, 5, 9, 11])
    values = np.random.default_rng(4).normal(size=(12, 4, 3)).astype(np.float32)
    update = Randomized(Dense(values, Kind.GRADIENT), Masked(BEFORE), streams).take(masked)
    reply = KINDS[repaired](BEFORE, AFTER)
    clear = Randomized(Dense(np.zeros_like(values), Kind.GRADIENT), reply, streams).take(replaced)
    total = result(update, masked, clear, replaced)
    np.testing.assert_allclose(total, update.total() + clear.total(), rtol=1e-5, atol=1e-5)
