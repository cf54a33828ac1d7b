"""LFL-SGDMF's two messages: masked and replaced noise together, printed and repaired."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.targets.components import Dense, Kind, Randomized
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import (
    Masked,
    PartTakenBack,
    Replacement,
    result,
)
from fedrec_auditor.targets.streams import Streams

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
