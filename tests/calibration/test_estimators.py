"""Simulated miss rates and power of bounds, at sizes too large for contract tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds import pilot_rules
from fedrec_auditor.auditor.worlds.decision_rules import RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.pilot_rules import CoordinateScorer, choose_run_scorer
from fedrec_auditor.auditor.worlds.scores import OneRunScores, check_score_repeats
from tests.contracts.worlds import (
    NOTHING,
    WORLDS,
    Scores,
    World,
    coin,
    estimates,
    gaussian,
    response,
    worlds_of,
)

pytestmark = pytest.mark.calibration


RUNS = 1_000


def add_noise(p: float) -> World:
    """A coin and an uninformative number, in one vector."""

    def draw(p: float, rng: np.random.Generator, n: int) -> Scores:
        return np.stack([coin(p)(rng, n), rng.normal(size=n)], axis=1)

    return World(
        lambda rng, n: draw(p, rng, n),
        lambda rng, n: draw(1 - p, rng, n),
        response(math.log(p / (1 - p))).truth,
    )


def draw_losses() -> World:
    """Losses of a canary without effect: skewed, with the same distribution in both worlds."""
    return World(
        lambda rng, n: rng.lognormal(size=n), lambda rng, n: rng.lognormal(size=n), lambda delta: 0
    )


WIDER = {
    **WORLDS,
    "response 0.1": response(0.1),
    "response 4": response(4.0),
    "response 1 beside noise": add_noise(1 / (1 + math.exp(-1))),
    "a canary without effect": draw_losses(),
}


@pytest.fixture(params=FAMILIES["estimators"].list_names())
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].load_class(request.param)()
    return made


@pytest.mark.parametrize(
    ("n", "delta"), [(20, 0.0), (100, 0.0), (1_000, 0.0), (1_000, 0.3), (100_000, 0.0)]
)
@pytest.mark.parametrize("world", WIDER)
def test_miss_rate_over_many_runs(estimator: Estimator, world: str, delta: float, n: int) -> None:
    if math.isinf(WIDER[world].truth(delta)):
        delta = 0.01
    truth = WIDER[world].truth(delta)
    try:
        found = estimates(estimator, WIDER[world], n=n, delta=delta, confidences=(0.95,), runs=RUNS)
    except InputError as error:
        pytest.skip(f"it refuses such outputs: {error}")
    misses = int(np.count_nonzero(found > truth + 1e-12))
    high = stats.binomtest(misses, RUNS).proportion_ci().high
    print(
        f"\n{world}, delta {delta}, n={n}: over {truth:.4g} in {misses} ({misses / RUNS:.2%}, at "
        f"most {high:.2%}), median {np.median(found):.4g}"
    )
    assert stats.binomtest(misses, RUNS, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_power_against_a_doubled_epsilon(estimator: Estimator, n: int) -> None:
    """A claim of half the truth is refuted in at least 90% of runs from n = 1,000."""
    world, delta = response(1.0), 0.0
    truth = world.truth(delta)
    found = estimates(estimator, world, delta=delta, confidences=(0.95,), runs=200, n=n)[:, 0]
    refuted = np.mean(found > truth / 2)
    print(f"\nn={n}: median bound {np.median(found):.4f} of {truth:.4f}, refuted {refuted:.3f}")
    assert refuted >= 0.9


INDEPENDENT = ("response 1", "laplace 1", "response 1 beside noise", "a canary without effect")


DEPENDENT = {"revealing": lambda _: 1.0, "one loss": gaussian(1.0).truth}


def draw_scores(
    kind: str, included: NDArray[np.bool_], delta: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Score of each canary.

    Scores of the kinds in ``DEPENDENT`` depend on one another: "revealing" reveals all coins with
    probability ``delta``, and otherwise answers at random; "one loss" draws the reliability of all
    answers once, so that the score of each canary has the privacy loss of Gaussian noise.
    """
    if kind not in DEPENDENT:
        world, m = WIDER[kind], len(included)
        inside, outside = world.a(rng, m), world.b(rng, m)
        return np.where(included if inside.ndim == 1 else included[:, None], inside, outside)
    revealed = kind == "revealing" and rng.random() < delta
    epsilon = abs(rng.normal(0.5)) if kind == "one loss" else 1.0
    wrong = rng.random(len(included)) < (0.0 if revealed else special.expit(-epsilon))
    return np.asarray(included ^ wrong, dtype=np.float64)


@pytest.mark.parametrize(
    ("m", "delta"),
    [(20, 1e-5), (20, 0.02), (100, 1e-5), (100, 0.02), (1000, 1e-5), (1000, 0.02), (100_000, 1e-5)],
)
@pytest.mark.parametrize("kind", [NOTHING, "gaussian 1", *INDEPENDENT, *DEPENDENT])
@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off"])
def test_miss_rate(method: str, kind: str, m: int, delta: float) -> None:
    truth = DEPENDENT[kind](delta) if kind in DEPENDENT else WIDER[kind].truth(delta)
    epsilons = []
    for rng in np.random.default_rng(0).spawn(RUNS):
        included = rng.random(m) < 0.5
        found = OneRunScores.build(draw_scores(kind, included, delta, rng), included)
        epsilons.append(found.bound(delta=delta, estimator=method).epsilon)
    misses = int(np.count_nonzero(np.array(epsilons) > truth + 1e-12))
    high = stats.binomtest(misses, RUNS).proportion_ci().high
    print(
        f"\n{method}, {kind}, m={m}, delta={delta}: over {truth:.4g} in {misses} of {RUNS}, at "
        f"most {high:.2%}, median {np.median(epsilons):.3f}"
    )
    assert stats.binomtest(misses, RUNS, 0.05, "greater").pvalue >= 0.001


VOTES = 300


_WIDTH, _DRAWS = 30, 600


def _bound(noise: str, mean: NDArray[np.float64], delta: float, rng: np.random.Generator) -> float:
    """Bound by the feature that a pilot chooses, of messages with noise of scale 1."""

    def sent(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = getattr(stream, noise)(0.0, 1.0, (size, _WIDTH))
        return drawn + (mean if world == 0 else 0.0)

    learning, piloting, measuring = rng.spawn(3)
    seed = int(learning.integers(2**32))
    voter = CoordinateScorer.fit(*(sent(w, 300, np.random.default_rng(seed)) for w in (0, 1)))

    def features(messages: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([messages @ mean, voter(messages)])

    pilot = [features(sent(world, 150, piloting)) for world in (0, 1)]
    budget = RuleTestPlan(n_draws=2 * _DRAWS, delta=delta, alpha=0.05)
    rule, _ = choose_run_scorer(pilot_rules.fit_logistic_rule, pilot[0], pilot[1], 3, budget)
    worlds = worlds_of(
        lambda stream, n: rule(features(sent(0, n, stream))),
        lambda stream, n: rule(features(sent(1, n, stream))),
    )
    return (
        JointBinomial()
        .measure_bound(worlds, delta=delta, confidence=0.95, samples=_DRAWS, rng=measuring)
        .epsilon
    )


@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2])
def test_honest_noise_is_accused_at_most_at_the_stated_rate(noise: str, shift: float) -> None:
    mean = np.full(_WIDTH, shift)
    delta = 0.01 if noise == "normal" else 0.0
    truth = shift * _WIDTH
    if noise == "normal":
        truth = find_gaussian_epsilon(delta, shift * _WIDTH**0.5)
    found = [_bound(noise, mean, delta, rng) for rng in np.random.default_rng(7).spawn(VOTES)]
    above = int(np.count_nonzero(np.array(found) > truth + 1e-12))
    print(f"\n{noise}, {shift}: over {truth:.4g} in {above}, median {np.median(found):.4g}")
    assert stats.binomtest(above, VOTES, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize("values", [1, 2, 3, 10, 40, 200])
def test_independent_discrete_scores_are_accepted(values: int) -> None:
    """Distributions are even or uneven; atoms of many digits on both sides are not repeats."""
    for rng in np.random.default_rng(values).spawn(VOTES):
        atoms = rng.normal(size=values)
        chances = rng.dirichlet(np.full(values, rng.choice([0.3, 1.0, 1e6])))
        size = int(rng.integers(20, 1_000))
        check_score_repeats(*(rng.choice(atoms, size, p=chances).round(4) for _ in range(2)))
