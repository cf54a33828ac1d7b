"""Votes of coordinates: what noise of the wrong form gives away, and Gaussian noise does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.coordinate_votes import CoordinateVotes
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import SampleBudget
from fedrec_auditor.auditor.worlds.pilot_rule import logistic, rule_or_vote

Matrix = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Matrix]
SHIFT = 0.0234 * np.random.default_rng(5).choice([-1.0, 1.0], 100)
"""Distance of the messages of two worlds, in deviations of the noise."""
PLACES = np.arange(100)
TELLING: dict[str, Noise] = {
    "uniform": lambda rng, shape: (rng.random(shape) - 0.5) * 12**0.5,
    "a grid that moves": lambda rng, shape: np.round(rng.standard_normal(shape), 2),
    "a grid in single precision": lambda rng, shape: np.float32(
        np.round(rng.standard_normal(shape), 3)
    ),
    "clipped": lambda rng, shape: np.clip(rng.standard_normal(shape), -1.5, 1.5),
    "on some coordinates": lambda rng, shape: rng.standard_normal(shape) * (PLACES % 4 > 0),
    "left out by chance": lambda rng, shape: (
        rng.standard_normal(shape) * (rng.random(shape) < 0.95)
    ),
}
HONEST: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Laplace": lambda rng, shape: rng.laplace(0, 2**-0.5, shape),
}


def votes(noise: Noise, size: int = 800, grid: float = 0.0) -> tuple[Matrix, Matrix]:
    """Votes of fresh messages of two worlds, learnt from 2,000 others of each."""

    def sent(world: int, count: int, seed: int) -> Matrix:
        drawn = noise(np.random.default_rng(seed), (count, len(SHIFT)))
        message = drawn + (SHIFT if world == 0 else 0.0) + 3.0 * np.sin(PLACES)
        return np.asarray(np.rint(message / grid) * grid if grid else message, float)

    voter = CoordinateVotes.of(sent(0, 2_000, 1), sent(1, 2_000, 1))
    return voter(sent(0, size, 2)), voter(sent(1, size, 3))


@pytest.mark.parametrize("name", TELLING)
def test_noise_whose_values_tell_is_seen_by_one_of_the_votes(name: str) -> None:
    """In hundreds of messages of one world some vote as hardly any of the other does."""
    first, second = votes(TELLING[name])
    apart = [
        max(
            np.count_nonzero(first[:, k] > np.quantile(second[:, k], 0.995)),
            np.count_nonzero(second[:, k] < np.quantile(first[:, k], 0.005)),
        )
        for k in range(first.shape[1])
    ]
    assert max(apart) > 100, apart


BOUNDED: dict[str, Noise] = {
    "triangular": lambda rng, shape: rng.triangular(-(6**0.5), 0, 6**0.5, shape),
    "cosine": lambda rng, shape: np.arcsin(rng.uniform(-1, 1, shape)) / 0.684,
    "beta": lambda rng, shape: (rng.beta(2.5, 2.5, shape) - 0.5) * 24**0.5,
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_noise_ends_also_where_its_density_falls_off_before(name: str) -> None:
    """Beyond the range of one world are 1 in 100 messages: hardly any of the other vote so."""
    noise, shift = BOUNDED[name], np.zeros(20)
    shift[[3, 7]] = 0.3, -0.3

    def sent(world: int, count: int, seed: int) -> Matrix:
        return noise(np.random.default_rng(seed), (count, 20)) + shift * world

    voter = CoordinateVotes.of(sent(0, 2_000, 1), sent(1, 2_000, 1))
    first, second = (voter(sent(world, 4_000, 2 + world))[:, 0] for world in (0, 1))
    alone = np.count_nonzero(first > second.max()) + np.count_nonzero(second < first.min())
    assert alone > 20, alone


@pytest.mark.parametrize("name", HONEST)
def test_noise_that_tells_nothing_by_itself_hardly_votes_by_values(name: str) -> None:
    """Rounding to a grid that both worlds share is post-processing, and no vote either."""
    for grid in (0.0, 0.01):
        voted = np.concatenate(votes(HONEST[name], grid=grid))[:, 1] != 0
        assert voted.mean() < 0.1, "a value comes again and again in one world by chance"


def test_the_shape_of_normal_noise_weighs_as_the_likelihood_ratio_does() -> None:
    """Which is (x - middle) @ difference of the means, of noise of deviation 1."""
    rng = np.random.default_rng(0)
    mean = np.linspace(-0.2, 0.2, 40)
    noise = rng.standard_normal((4_000, 40))
    voter = CoordinateVotes.of(noise + mean, noise)
    x = rng.standard_normal((500, 40))
    exact = (x - mean / 2) @ mean
    assert np.corrcoef(voter(x)[:, 0], exact)[0, 1] > 0.9


def test_a_vote_is_taken_only_where_it_promises_more_than_the_fitted_rule() -> None:
    budget = SampleBudget(draws=4_000, delta=1e-5, alpha=0.05)
    rng = np.random.default_rng(0)
    cases = (2.0, 0.0, False), (0.0, 0.3, True), (2.0, 1.0, True), (0.0, 0.05, True)
    for shift, shown, voted in cases:
        first, second = rng.normal(shift, 1.0, (400, 4)), rng.normal(0.0, 1.0, (400, 4))
        first[:, -1], second[:, -1] = rng.random(400) < shown, 0.0
        rule, how = rule_or_vote(logistic, first, second, 2, budget)
        assert bool(how) == voted
        assert rule(first).shape == (400,)
