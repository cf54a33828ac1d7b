"""Demonstrations on federated matrix factorization: claims, laws, and small plays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.auditor.judging.demonstrations import claim_of, worlds
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.measure import measure
from fedrec_auditor.targets.declarations.demonstration import (
    Beyond,
    Demonstration,
    DistinguishingGame,
)
from fedrec_auditor.targets.mechanisms.noise_replacement import NoiseReplacement
from fedrec_auditor.targets.papers.federated_mf.demonstrations import DEMONSTRATIONS
from fedrec_auditor.targets.streams import Streams
from tests.points import later


def sampled(side: DistinguishingGame, runs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of either world; those of which an event is made, where one is."""
    draw = side.draw.scores if isinstance(side.draw, Beyond) else side.draw
    zero, one = (draw(world, runs, np.random.default_rng(world)) for world in (0, 1))
    return zero, one


def z_of(shown: Demonstration) -> float:
    """The noise multiplier of both sides."""
    system: Any = shown.violation.system
    return float(system.noise_multiplier)


def shift(side: DistinguishingGame, runs: int) -> tuple[float, float]:
    """How far world 0 is from world 1, the standard normal one, and the standard error of that."""
    zero, one = sampled(side, runs)
    assert abs(one.mean()) < 6 / math.sqrt(runs) + 0.01
    assert abs(one.std() - 1) < 6 / math.sqrt(2 * runs) + 0.04
    return float(zero.mean() - one.mean()), math.sqrt(2 / runs)


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_an_epsilon_of_one_is_claimed_of_both_sides(name: str) -> None:
    shown = DEMONSTRATIONS[name]()
    for side in (shown.violation, shown.control):
        assert claim_of(side).epsilon == pytest.approx(1.0, abs=2e-4)
        assert side.delta == claim_of(side).delta == 1e-5


@pytest.mark.parametrize("omega", [0.3, 0.6])
def test_the_joint_statistic_has_the_law_of_both_rounds(omega: float) -> None:
    """mu of ``NoiseReplacement`` with all that is seen, 1/z with the sum: at 6 standard errors."""
    shown = DEMONSTRATIONS["lfl-replaced-noise"](omega=omega)
    law = NoiseReplacement(
        sigma=z_of(shown),
        sensitivity=1.0,
        n_users=10,
        omega=omega,
        masked=10,
        replaced=10,
    )
    for side, mu in (
        (shown.violation, law.mu),
        (shown.control, law.sensitivity / law.sigma),
    ):
        found, error = shift(side, 60_000)
        assert abs(found - mu) < 6 * error + 0.002 * mu


def test_all_rounds_add_up() -> None:
    """sqrt(T T')/z apart, of which the claim has sqrt(T')/z; the rate falls a little."""
    shown = DEMONSTRATIONS["hfl-counted-steps"]()
    for side, steps in ((shown.violation, 100), (shown.control, 10)):
        found, error = shift(side, 8_000)
        mu = math.sqrt(steps) / z_of(shown)
        assert 0.95 * mu - 6 * error < found < mu + 6 * error


def test_the_ratio_of_all_entries_is_one() -> None:
    """E[p/q] = 1 under q, and E[q/p] = 1 under p, at 6 standard errors: it is the exact ratio."""
    zero, one = sampled(DEMONSTRATIONS["hfl-drawn-rows"](others=20).violation, 60_000)
    for ratio in (np.exp(one), np.exp(-zero)):
        assert abs(ratio.mean() - 1) < 6 * ratio.std() / math.sqrt(len(ratio))
    assert zero.mean() > one.mean() + 6 * math.sqrt((zero.var() + one.var()) / len(zero))


def test_the_entry_alone_is_pushed_once_in_twenty() -> None:
    shown = DEMONSTRATIONS["hfl-drawn-rows"](others=20)
    zero, one = sampled(shown.control, 60_000)
    pushed = zero.mean() - one.mean()
    assert abs(pushed - 0.05 / z_of(shown)) < 6 * math.sqrt(2 / len(zero))
    assert abs(one.std() - 1) < 6 * math.sqrt(0.5 / len(one))


def test_one_rating_moves_the_gradient_as_far_as_nine() -> None:
    """8.8 times 2 R^(3/2) for 100 other ratings; the statistic has that over ten steps."""
    shown = DEMONSTRATIONS["hfl-fitted-embeddings"]()
    side = shown.violation
    turned: Any = side.draw.scores
    there, missing, first = turned.worlds()
    far = np.linalg.norm(turned.expected(there, first) - turned.expected(missing, first))
    assert far / (2 * 5**1.5) == pytest.approx(8.8, abs=0.05)
    found, error = shift(side, 2_000)
    mu = math.sqrt(10) / z_of(shown)
    assert abs(found - 8.83 * mu) < 6 * error
    repaired, error = shift(shown.control, 2_000)
    assert repaired < mu + 6 * error


def test_without_noise_the_expected_gradient_is_the_systems() -> None:
    """The adversary's own computation of it, in either world."""
    side = DEMONSTRATIONS["hfl-fitted-embeddings"](others=5).violation
    turned: Any = side.draw.scores
    quiet = replace(turned.system, noise_multiplier=1e-6)
    there, missing, first = turned.worlds()
    far = np.linalg.norm(turned.expected(there, first) - turned.expected(missing, first))
    far *= math.sqrt(quiet.rounds) / quiet.noise(1).sigma
    for world, expected in ((0, 1.0), (1, 0.0)):
        scores = replace(turned, system=quiet)(world, 50, np.random.default_rng(0))
        np.testing.assert_allclose(scores / far, expected, atol=0.02)


def test_one_rating_moves_the_sum_by_root_three_halves() -> None:
    """Whichever is drawn; a rating alone by 1. 6 standard errors."""
    shown = DEMONSTRATIONS["lfl-turned-gradient"]()
    for side, far in ((shown.violation, math.sqrt(1.5)), (shown.control, 1.0)):
        turned: Any = side.draw.scores
        there, missing, first = turned.worlds()
        (old,) = turned.gradients(missing, first)
        moved = turned.gradients(there, first) - old
        along = moved.mean(axis=0) / np.linalg.norm(moved.mean(axis=0))
        np.testing.assert_allclose(
            np.einsum("kjf,jf->k", moved, along) / turned.system.sensitivity, far, rtol=2e-3
        )
        found, error = shift(side, 60_000)
        assert abs(found - far / z_of(shown)) < 6 * error + 0.002


def test_without_noise_either_gradient_is_drawn_as_often() -> None:
    """What the adversary expects is what the system sends, at 6 standard errors of a coin."""
    side = DEMONSTRATIONS["lfl-turned-gradient"]().violation
    turned: Any = side.draw.scores
    there, _, first = turned.worlds()
    ratings = sparse.csr_array(np.repeat(there[:1], 400, axis=0))
    quiet = replace(turned.system, noise_multiplier=1e-9)
    count = np.array(400)
    model = {"items": first, "first": first, "users": count, "survivors": count}
    streams = Streams.spawn(np.random.default_rng(0), 400)
    sent, _ = quiet.send(ratings, quiet.begin(ratings, first), model, streams)
    drawn = sent["update"].dense(np.arange(400))
    which = np.abs(drawn[:, 1]).sum(axis=1) > 1.0
    expected = turned.gradients(there, first)[which.astype(int)]
    np.testing.assert_allclose(drawn, expected, rtol=1e-5, atol=1e-4)
    assert abs(which.mean() - 0.5) < 6 * 0.5 / math.sqrt(400)


def test_noise_doubles_with_half_the_ratings() -> None:
    zero, one = sampled(DEMONSTRATIONS["hfl-divisor"]().violation, 2_000)
    error = math.sqrt(2 * 2 / 62 / 2_000)
    assert abs(one.mean() - zero.mean() - math.log(4)) < 6 * error
    zero, one = sampled(DEMONSTRATIONS["hfl-divisor"]().control, 2_000)
    assert abs(one.mean() - zero.mean()) < 6 * error


@pytest.mark.parametrize(
    ("shown", "runs"),
    [
        later(DEMONSTRATIONS["hfl-fitted-embeddings"](threshold=2.5), 2_000),
        (DEMONSTRATIONS["hfl-divisor"](), 1_000),
        later(DEMONSTRATIONS["hfl-counted-steps"](threshold=2.3), 8_000),
    ],
)
def test_a_small_play_refutes_the_claim_and_not_the_control(
    shown: Demonstration, runs: int
) -> None:
    """The others take the runs of ``auditor run --only claims``."""
    for side, violated in ((shown.violation, True), (shown.control, False)):
        claim = claim_of(side)
        found = measure(
            worlds(side),
            (claim,),
            FAMILIES["estimators"].member(side.estimator)(),
            delta=side.delta,
            confidence=0.95,
            samples=runs,
            rng=np.random.default_rng(3),
        )
        assert refutes(found.bound, claim) == violated
