"""What every estimator must keep. Each check raises AssertionError naming what is broken.

``WORLDS`` are pairs of distributions of scores whose true least epsilon at any delta has a closed
form, computed without any estimator's code.

A bound that holds at a confidence exceeds the truth in at most the remaining share of runs. Seeds
are fixed, and a count of misses is refused at p < 1e-9. These are few runs, to be quick: an
estimator that is new should be simulated longer, with ``estimates``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.auditor.testing.parts.checks import Contract, check_refused
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, RuleAndLimit
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.auditor.worlds.worlds import BLOCK, Worlds

P_VALUE = 1e-9
RUNS = 60
Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Scores]


@dataclass(frozen=True, slots=True)
class World:
    """Draws of scores in world a and in world b, and the least epsilon at a delta."""

    a: Draw
    b: Draw
    truth: Callable[[float], float]


def coin(p: float) -> Draw:
    """Scores 0 and 1."""
    return lambda rng, n: (rng.random(n) < p).astype(np.float64)


def response(epsilon: float) -> World:
    """Randomized response on one bit."""
    p = 1 / (1 + math.exp(-epsilon))
    return World(coin(p), coin(1 - p), lambda delta: math.log(max(1.0, (p - delta) / (1 - p))))


def laplace(gap: float) -> World:
    """Two Laplace distributions of scale 1: delta(eps) = 1 - e^((eps - gap)/2)."""
    return World(
        lambda rng, n: rng.laplace(gap, 1.0, n),
        lambda rng, n: rng.laplace(0.0, 1.0, n),
        lambda delta: max(0.0, gap + 2 * math.log1p(-delta)),
    )


def gaussian(mu: float) -> World:
    """Two normal distributions of deviation 1 (Balle and Wang 2018, Theorem 8)."""
    return World(
        lambda rng, n: rng.normal(mu, 1, n),
        lambda rng, n: rng.normal(0, 1, n),
        lambda delta: gaussian_epsilon(delta, mu),
    )


NOTHING = "no leak"
WORLDS = {
    NOTHING: World(
        lambda rng, n: rng.normal(size=n), lambda rng, n: rng.normal(size=n), lambda delta: 0.0
    ),
    "response 1": response(1.0),
    "laplace 1": laplace(1.0),
    "gaussian 1": gaussian(1.0),
}


def worlds_of(a: Draw, b: Draw) -> Worlds:
    """Worlds of these two distributions of scores."""
    return Worlds(
        names=("world a", "world b"),
        scope=ONE_REPORT,
        draw=lambda world, size, rng: (a, b)[world](rng, size),
    )


def estimate(
    estimator: Estimator,
    worlds: Worlds,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    samples: int = 1_000,
    seed: int | np.random.SeedSequence | np.random.Generator = 0,
) -> Bound:
    """One bound, with a generator of its own, by default at the least delta it has an answer at."""
    rng = np.random.default_rng(seed)
    return estimator.bound(worlds, delta=delta, confidence=confidence, samples=samples, rng=rng)


def estimates(
    estimator: Estimator,
    world: World,
    *,
    delta: float,
    confidences: tuple[float, ...],
    runs: int,
    n: int,
) -> NDArray[np.float64]:
    """Bounds from ``runs`` experiments of n scores a world, (runs, len(confidences))."""
    worlds, found = worlds_of(world.a, world.b), np.empty((runs, len(confidences)))
    for run, rng in enumerate(np.random.default_rng(2026).spawn(runs)):
        bounds = estimator.bounds(worlds, delta=delta, confidences=confidences, samples=n, rng=rng)
        found[run] = [bound.epsilon for bound in bounds]
    return found


def check_calibration(estimator: Estimator) -> None:
    """The bound is above the truth in no more runs than its confidence allows."""
    for name, world in WORLDS.items():
        for delta, runs in ((0.0, RUNS), (0.3, RUNS // 2)):
            truth = world.truth(delta)
            if math.isinf(truth):
                continue
            levels = (0.6, 0.95)
            found = estimates(estimator, world, delta=delta, confidences=levels, runs=runs, n=400)
            for misses, confidence in zip(
                np.count_nonzero(found > truth + 1e-12, axis=0).tolist(), levels, strict=True
            ):
                p = stats.binom.sf(misses - 1, runs, 1 - confidence)
                assert p >= P_VALUE, (
                    f"{name} at delta {delta}: above the truth {truth:.4g} in {misses} of {runs} "
                    f"runs at confidence {confidence} (p = {p:.1e})"
                )


def check_power(estimator: Estimator) -> None:
    """With 20,000 scores a world, half of a leak of 1 is found, whichever world shows it."""
    leaks = [world for name, world in WORLDS.items() if name != NOTHING]
    for world in leaks:
        delta = 0.01 if math.isinf(world.truth(0.0)) else 0.0
        for one, other in ((world.a, world.b), (world.b, world.a)):
            worlds = worlds_of(one, other)
            found = estimate(estimator, worlds, delta=delta, samples=20_000).epsilon
            assert found >= 0.5 * world.truth(delta), f"{found} of {world.truth(delta)}"
    # An output of one world only: infinite in that direction, ln 2 in the other.
    for one, other in ((coin(1.0), coin(0.5)), (coin(0.5), coin(1.0))):
        found = estimate(estimator, worlds_of(one, other), samples=20_000).epsilon
        assert found >= 3.0, "one direction is not tried"


def check_edges(estimator: Estimator) -> None:
    """Ties show nothing, and infinite scores are ordered."""
    flat = coin(0.0)
    assert estimate(estimator, worlds_of(flat, flat)).epsilon == 0.0, "a leak in constant scores"
    found = estimate(estimator, _sure(math.inf)).epsilon
    assert found > 1.0, "infinite scores are not ordered"


def check_largest(estimator: Estimator) -> None:
    """What draws can show is what they do show of worlds without noise; ``needed`` inverts it."""
    if math.isinf(estimator.largest(100, delta=0.1, confidence=0.9)):
        return
    for samples, delta, confidence in ((100, 0.0, 0.95), (3_000, 1e-3, 0.9), (30_000, 0.05, 0.999)):
        asked: dict[str, Any] = {"delta": delta, "confidence": confidence}
        largest = estimator.largest(samples, **asked)
        shown = estimate(estimator, _sure(1.0), samples=samples, **asked).epsilon
        assert abs(shown - largest) <= 1e-9, f"{shown} of at most {largest} at {samples} samples"
        needed = estimator.needed(largest, **asked)
        assert needed is not None, f"no samples show more than {largest}"
        assert needed > samples, f"{needed} samples for more than {samples} can show"
        few, enough = (estimator.largest(needed + more, **asked) for more in (-1, 0))
        assert few <= largest + 1e-8 < enough + 2e-8, f"{needed} samples are not the fewest"


def check_foreseen(estimator: Estimator) -> None:
    """What is foreseen of two Gaussians is about what they show."""
    if not isinstance(estimator, RuleAndLimit):
        return
    beyond = np.linspace(-4.0, 4.0, 81)
    rates, delta = (stats.norm.sf(beyond - 1.0), stats.norm.sf(beyond)), 0.01
    leak = gaussian(1.0)
    foreseen = estimator.foreseen(20_000, rates, delta=delta, alpha=0.05)
    worlds = worlds_of(leak.a, leak.b)
    shown = estimate(estimator, worlds, delta=delta, samples=20_000).epsilon
    assert 0.7 * foreseen < shown < 1.3 * foreseen, f"{shown}, and {foreseen} was foreseen"


def check_draws(estimator: Estimator) -> None:
    """Draws are streamed, none are left out, none are made twice, and none are changed."""
    drawn, sizes, states = [], [], []
    leak = laplace(1.0)

    def draw(world: int, size: int, rng: np.random.Generator) -> Scores:
        states.append(repr(rng.bit_generator.state))
        scores = (leak.a, leak.b)[world](rng, size)
        drawn.append((scores, scores.copy()))
        sizes.append(size)
        return scores

    worlds = Worlds(names=("world a", "world b"), scope=ONE_REPORT, draw=draw)
    bound = estimate(estimator, worlds, samples=4 * BLOCK)
    assert max(sizes) <= BLOCK, f"{max(sizes)} scores at once"
    assert sum(sizes) == bound.samples == 8 * BLOCK, f"{sum(sizes)} draws, {bound.samples} told"
    assert len(set(states)) == len(states), "a generator was used twice"
    for after, before in drawn:
        assert np.array_equal(after, before), "the scores of a world were changed"


def check_confidences(estimator: Estimator) -> None:
    """Bounds at several confidences come from the same draws, and less error shows less."""
    leak = gaussian(1.0)
    worlds, rng = worlds_of(leak.a, leak.b), np.random.default_rng(6)
    delta = 0.01
    asked: dict[str, Any] = {"delta": delta, "samples": 2_000}
    found = estimator.bounds(worlds, confidences=(0.9, 0.999), rng=rng, **asked)
    assert [bound.confidence for bound in found] == [0.9, 0.999], "not the confidences asked for"
    assert found[0].epsilon > found[1].epsilon, "less error does not show less"
    alone = estimate(estimator, worlds, confidence=0.9, seed=6, **asked)
    assert found[0] == alone, "another confidence changes the first bound"


def check_determinism(estimator: Estimator) -> None:
    """Equal generators give equal bounds."""
    leak = laplace(1.0)
    worlds = worlds_of(leak.a, leak.b)
    first, again = (estimate(estimator, worlds, samples=2_000, seed=5) for _ in range(2))
    assert first == again, "equal generators gave different bounds"


def check_refusal(estimator: Estimator) -> None:
    """NaN, too few scores, objects, and senseless deltas and confidences are refused."""
    good = coin(0.5)
    for name, bad in {
        "NaN": lambda rng, n: np.full(n, np.nan),
        "a score more": lambda rng, n: np.zeros(n + 1),
        "objects": lambda rng, n: np.full(n, None),
    }.items():
        for one, other in ((bad, good), (good, bad)):
            check_refused(partial(estimate, estimator, worlds_of(one, other)), name)
    fair = worlds_of(good, good)
    check_refused(partial(estimate, estimator, fair, samples=3), "three samples")
    for delta in (-0.1, 1.0, math.nan):
        check_refused(partial(estimate, estimator, fair, delta=delta), f"delta={delta}")
    for confidence in (0.0, 1.0, math.nan):
        wrong = partial(estimate, estimator, fair, confidence=confidence)
        check_refused(wrong, f"confidence={confidence}")


def _sure(size: float) -> Worlds:
    """Worlds without noise, whose scores are this much above and below 0."""
    return worlds_of(lambda rng, n: np.full(n, size), lambda rng, n: np.full(n, -size))


def check_statement(estimator: Estimator) -> None:
    """A lower bound, in the scope, at the delta and the confidence asked for, and sourced."""
    leak = response(1.0)
    bound = estimate(
        estimator, worlds_of(leak.a, leak.b), delta=0.01, confidence=0.9, samples=400, seed=6
    )
    assert bound.side is Side.LOWER, f"a bound from the side {bound.side}"
    assert bound.scope == ONE_REPORT, f"a bound in [{bound.scope}]"
    assert bound.delta == 0.01, f"a bound at delta {bound.delta} for 0.01"
    assert bound.confidence == 0.9, f"a bound at confidence {bound.confidence} for 0.9"
    assert bound.samples == 800, f"{bound.samples} samples of 800"
    assert bound.source, "the bound has no source"
    assert estimator.reference, "the estimator has no reference"


class EstimatorContract(Contract, suite=__name__):
    """What every estimator must keep.

    >>> from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
    >>> EstimatorContract.check(AllThresholds())
    ()
    """
