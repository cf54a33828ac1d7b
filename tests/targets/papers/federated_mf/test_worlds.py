"""Federated matrix factorization: worlds lie as far apart as its exact bounds say.

Noise multipliers are those for which the paper claims epsilon 1 at delta 1e-5. Shifts are in units
of the noise, held to 6 standard errors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.streams import Streams
from tests.targets.papers.federated_mf import horizontal_worlds as horizontal
from tests.targets.papers.federated_mf import local_worlds as local
from tests.targets.papers.federated_mf.side_by_side import ONE_PARTY
from tests.two_worlds import Draw, ReadUploads

Z = 3.7306


def shift(draw: Draw, runs: int) -> tuple[float, float]:
    """How far world 0 is from world 1, the standard normal one, and the standard error of that."""
    zero, one = (draw(world, runs, np.random.default_rng(world)) for world in (0, 1))
    assert abs(one.mean()) < 6 / math.sqrt(runs) + 0.01
    assert abs(one.std() - 1) < 6 / math.sqrt(2 * runs) + 0.04
    return float(zero.mean() - one.mean()), math.sqrt(2 / runs)


@pytest.mark.parametrize("omega", [0.3, 0.6])
def test_the_joint_statistic_has_the_law_of_both_rounds(omega: float) -> None:
    """Entry 22: mu of ``NoiseReplacement`` with all that is seen, 1/z with the sum."""
    system = LflSgdmf(factors=1, rounds=1, omega=omega, noise_multiplier=Z)
    law = NoiseReplacement(
        sigma=Z, sensitivity=1.0, n_users=10, omega=omega, masked=10, replaced=10
    )
    for joint, mu in ((True, law.mu), (False, 1 / Z)):
        apart, error = shift(local.Iteration(system, 10, joint), 60_000)
        assert abs(apart - mu) < 6 * error + 0.002 * mu


@pytest.mark.parametrize(("another", "far"), [(True, math.sqrt(1.5)), (False, 1.0)])
def test_one_rating_moves_the_sum_by_root_three_halves(another: bool, far: float) -> None:
    """Entry 24b: whichever row is drawn; a rating alone by 1."""
    system = LflSgdmf(factors=2, rounds=1, noise_multiplier=Z, as_published=False)
    turned = local.Turned(system, 2, another)
    there, missing, first = turned.worlds()
    (old,) = turned.gradients(missing, first)
    moved = turned.gradients(there, first) - old
    along = moved.mean(axis=0) / np.linalg.norm(moved.mean(axis=0))
    np.testing.assert_allclose(
        np.einsum("kjf,jf->k", moved, along) / system.sensitivity, far, rtol=2e-3
    )
    apart, error = shift(turned, 60_000)
    assert abs(apart - far / Z) < 6 * error + 0.002


def test_without_noise_either_gradient_is_drawn_as_often() -> None:
    """The adversary expects what the system sends, at 6 standard errors of a coin."""
    quiet = LflSgdmf(factors=2, rounds=1, noise_multiplier=1e-9, as_published=False)
    turned = local.Turned(quiet, 2, another=True)
    there, _, first = turned.worlds()
    ratings = sparse.csr_array(np.repeat(there[:1], 400, axis=0))
    count = np.array(400)
    model = {"items": first, "first": first, "users": count, "survivors": count}
    streams = Streams.spawn(np.random.default_rng(0), 400)
    sent, _ = quiet.send(ratings, quiet.begin(ratings, first), model, streams)
    drawn = sent["update"].dense(np.arange(400))
    which = np.abs(drawn[:, 1]).sum(axis=1) > 1.0
    expected = turned.gradients(there, first)[which.astype(int)]
    np.testing.assert_allclose(drawn, expected, rtol=1e-5, atol=1e-4)
    assert abs(which.mean() - 0.5) < 6 * 0.5 / math.sqrt(400)


@pytest.mark.parametrize("rounds", [10, 1])
def test_all_rounds_add_up(rounds: int) -> None:
    """Entry 26: sqrt(T T')/z apart, of which the claim has sqrt(T')/z; the rate falls a little."""
    system = replace(
        ONE_PARTY,
        rounds=rounds,
        local_steps=10,
        unit="user",
        trim=1,
        rate=1.0,
        learning_rate=1e-6,
        noise_multiplier=12.793,
    )
    apart, error = shift(horizontal.AllRounds(system), 8_000)
    mu = math.sqrt(10 * rounds) / system.noise_multiplier
    assert 0.95 * mu - 6 * error < apart < mu + 6 * error


def test_other_ratings_show_whether_a_row_was_drawn() -> None:
    """Entry 23: E[p/q] = 1 under q and E[q/p] = 1 under p, so the log-ratio is exact.

    The entry of the rating alone, which is all that the claim knows of, is pushed once in twenty.
    """
    system = replace(ONE_PARTY, rate=0.05, learning_rate=1e-3, noise_multiplier=1.2439)
    zero, one = (
        horizontal.OneStep(system, 20, informed=True)(world, 60_000, np.random.default_rng(world))
        for world in (0, 1)
    )
    for ratio in (np.exp(one), np.exp(-zero)):
        assert abs(ratio.mean() - 1) < 6 * ratio.std() / math.sqrt(len(ratio))
    assert zero.mean() > one.mean() + 6 * math.sqrt((zero.var() + one.var()) / len(zero))
    pushed, error = shift(horizontal.OneStep(system, 20, informed=False), 60_000)
    assert abs(pushed - 0.05 / system.noise_multiplier) < 6 * error


def test_one_rating_moves_the_gradient_as_far_as_nine() -> None:
    """Entry 24: 8.8 times 2 R^(3/2) for 100 other ratings, over ten steps; repaired, by one."""
    system = replace(
        ONE_PARTY,
        factors=2,
        rounds=10,
        rate=1.0,
        learning_rate=3e-6,
        noise_multiplier=12.793,
    )
    turned = horizontal.Turned(system, 100)
    there, missing, first = turned.worlds()
    far = np.linalg.norm(turned.expected(there, first) - turned.expected(missing, first))
    assert far / (2 * 5**1.5) == pytest.approx(8.8, abs=0.05)
    mu = math.sqrt(10) / system.noise_multiplier
    apart, error = shift(turned, 2_000)
    assert abs(apart - 8.83 * mu) < 6 * error
    repaired, error = shift(horizontal.Turned(replace(system, as_published=False), 100), 2_000)
    assert repaired < mu + 6 * error


@pytest.mark.parametrize(("as_published", "apart"), [(True, math.log(4)), (False, 0.0)])
def test_noise_doubles_with_half_the_ratings(as_published: bool, apart: float) -> None:
    """Entry 27d: gradients are divided by a count of ratings, in the repaired system by a guess."""
    items, runs = 64, 2_000
    system = replace(
        ONE_PARTY,
        rate=1.0,
        learning_rate=1e-4,
        noise_multiplier=4.0454,
        as_published=as_published,
    )
    two, single = system.bound * np.tri(2, items, dtype=np.float32)[::-1]
    first = start(np.full((items, 1), 0.5), system.bound)
    draw = ReadUploads(  # parties of one user each
        system=system,
        histories=(two, single),
        read=partial(horizontal.noise_alone, first),
        broadcast={"items": first, "first": first},
        block=1 << 10,
    )
    zero, one = (draw(world, runs, np.random.default_rng(world)) for world in (0, 1))
    assert abs(one.mean() - zero.mean() - apart) < 6 * math.sqrt(2 * 2 / 62 / runs)
