"""What every estimator must keep. Each check raises AssertionError naming what is broken.

``WORLDS`` are pairs of laws of scores whose true least epsilon at any delta has a closed form,
computed here without any estimator's code.

A bound that holds at a confidence exceeds the truth in at most the remaining share of runs. Seeds
are fixed, and a count of misses is refused at p < 1e-9. These are few runs, to be quick: an
estimator that is new should be simulated longer, with ``estimates``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.estimators.base import Estimator
from fedrec_auditor.auditor.testing.parts.checks import run_checks

SCOPE = Scope(
    unit=Unit.REPORT,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.REPORT,
)
P_VALUE = 1e-9
RUNS = 100
Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Scores]


@dataclass(frozen=True, slots=True)
class World:
    """The laws of the scores in world a and in world b, and the least epsilon at a delta."""

    a: Draw
    b: Draw
    truth: Callable[[float], float]

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Scores, Scores]:
        """Scores (n,) of world a and (n,) of world b."""
        return self.a(rng, n), self.b(rng, n)


def coin(p: float) -> Draw:
    """Scores 0 and 1."""
    return lambda rng, n: (rng.random(n) < p).astype(np.float64)


def response(epsilon: float) -> World:
    """Randomized response on one bit."""
    p = 1 / (1 + math.exp(-epsilon))
    return World(coin(p), coin(1 - p), lambda delta: math.log(max(1.0, (p - delta) / (1 - p))))


def laplace(gap: float) -> World:
    """Two Laplace laws of scale 1: delta(eps) = 1 - e^((eps - gap)/2)."""
    return World(
        lambda rng, n: rng.laplace(gap, 1.0, n),
        lambda rng, n: rng.laplace(0.0, 1.0, n),
        lambda delta: max(0.0, gap + 2 * math.log1p(-delta)),
    )


def gaussian(mu: float) -> World:
    """Two normal laws of deviation 1 (Balle and Wang 2018, Theorem 8)."""

    def truth(delta: float) -> float:
        normal = stats.norm.cdf
        if delta == 0:
            return math.inf
        if 2 * normal(mu / 2) - 1 <= delta:
            return 0.0
        return float(
            optimize.brentq(
                lambda eps: (
                    normal(mu / 2 - eps / mu) - math.exp(eps) * normal(-mu / 2 - eps / mu) - delta
                ),
                0.0,
                mu**2 / 2 + 12 * mu,
            )
        )

    return World(lambda rng, n: rng.normal(mu, 1, n), lambda rng, n: rng.normal(0, 1, n), truth)


WORLDS = {
    "no leak": World(
        lambda rng, n: rng.normal(size=n), lambda rng, n: rng.normal(size=n), lambda delta: 0.0
    ),
    "response 1": response(1.0),
    "laplace 1": laplace(1.0),
    "gaussian 1": gaussian(1.0),
}


def estimate(
    estimator: Estimator,
    a: Scores,
    b: Scores,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    seed: int | np.random.SeedSequence = 0,
) -> Bound:
    """One bound, with a generator of its own."""
    rng = np.random.default_rng(seed)
    return estimator.bound(a, b, delta=delta, confidence=confidence, scope=SCOPE, rng=rng)


def estimates(
    estimator: Estimator, world: World, *, delta: float, confidence: float, runs: int, n: int
) -> NDArray[np.float64]:
    """Bounds from ``runs`` independent experiments of n scores a world: (runs,)."""
    found = np.empty(runs)
    for run, seed in enumerate(np.random.SeedSequence(2026).spawn(runs)):
        draws, choices = seed.spawn(2)
        a, b = world.draw(np.random.default_rng(draws), n)
        bound = estimate(estimator, a, b, delta=delta, confidence=confidence, seed=choices)
        found[run] = bound.epsilon
    return found


def check_calibration(estimator: Estimator) -> None:
    """The bound is above the truth in no more runs than its confidence allows."""
    for name, world in WORLDS.items():
        for delta, confidence in ((0.0, 0.6), (0.0, 0.95), (0.3, 0.95)):
            truth = world.truth(delta)
            if math.isinf(truth):
                continue
            found = estimates(
                estimator, world, delta=delta, confidence=confidence, runs=RUNS, n=400
            )
            misses = int(np.count_nonzero(found > truth + 1e-12))
            p = stats.binom.sf(misses - 1, RUNS, 1 - confidence)
            assert p >= P_VALUE, (
                f"{name} at delta {delta}: above the truth {truth:.4g} in {misses} of {RUNS} runs "
                f"at confidence {confidence} (p = {p:.1e})"
            )


def check_power(estimator: Estimator) -> None:
    """With 20,000 scores a world, half of a leak of 1 is found, whichever world shows it."""
    for world in (response(1.0), laplace(1.0), gaussian(1.0)):
        delta = 0.01 if math.isinf(world.truth(0.0)) else 0.0
        a, b = world.draw(np.random.default_rng(1), 20_000)
        for one, other in ((a, b), (b, a)):
            found = estimate(estimator, one, other, delta=delta).epsilon
            assert found >= 0.5 * world.truth(delta), f"{found} of {world.truth(delta)}"
    # An output of one world only: infinite in that direction, ln 2 in the other.
    always, half = np.ones(20_000), coin(0.5)(np.random.default_rng(2), 20_000)
    for one, other in ((always, half), (half, always)):
        assert estimate(estimator, one, other).epsilon >= 3.0, "one direction is not tried"


def check_edges(estimator: Estimator) -> None:
    """Ties show nothing, infinite scores are ordered, and worlds may differ in size."""
    flat = np.zeros(1_000)
    assert estimate(estimator, flat, flat).epsilon == 0.0, "a leak in constant scores"
    sure = np.full(1_000, np.inf)
    assert estimate(estimator, sure, -sure).epsilon > 1.0, "infinite scores are not ordered"
    a, b = response(4.0).draw(np.random.default_rng(3), 4_000)
    found = estimate(estimator, a, b[:1_000]).epsilon
    assert 0.0 < found < math.inf, f"{found} where the worlds differ in size"


def check_determinism(estimator: Estimator) -> None:
    """Equal generators give equal bounds, and the scores stay as they were."""
    a, b = laplace(1.0).draw(np.random.default_rng(4), 2_000)
    before = a.copy(), b.copy()
    first, again = (estimate(estimator, a, b, seed=5) for _ in range(2))
    assert first == again, "equal generators gave different bounds"
    assert np.array_equal(a, before[0]), "the scores of world a were changed"
    assert np.array_equal(b, before[1]), "the scores of world b were changed"


def check_refusal(estimator: Estimator) -> None:
    """NaN, too few scores, another shape, and senseless deltas and confidences are refused."""
    good = np.arange(100.0)
    for a, b in (
        (np.append(good, np.nan), good),
        (good, np.append(good, np.nan)),
        (np.array([]), good),
        (good, good[:, None]),
    ):
        _refused(partial(estimate, estimator, a, b), f"scores {a.shape}, {b.shape}")
    for delta in (-0.1, 1.0, math.nan):
        _refused(partial(estimate, estimator, good, good, delta=delta), f"delta={delta}")
    for confidence in (0.0, 1.0, math.nan):
        wrong = partial(estimate, estimator, good, good, confidence=confidence)
        _refused(wrong, f"confidence={confidence}")


def _refused(call: Callable[[], Bound], what: str) -> None:
    try:
        call()
    except InputError:
        return
    raise AssertionError(f"{what} was not refused")


def check_statement(estimator: Estimator) -> None:
    """A lower bound, in the scope, at the delta and the confidence asked for, and sourced."""
    a, b = response(1.0).draw(np.random.default_rng(6), 500)
    bound = estimate(estimator, a, b[:300], delta=0.01, confidence=0.9)
    assert bound.side is Side.LOWER, f"a bound from the side {bound.side}"
    assert bound.scope == SCOPE, f"a bound in [{bound.scope}]"
    assert bound.delta == 0.01, f"a bound at delta {bound.delta} for 0.01"
    assert bound.confidence == 0.9, f"a bound at confidence {bound.confidence} for 0.9"
    assert bound.samples == 800, f"{bound.samples} samples of 800"
    assert bound.source, "the bound has no source"
    assert estimator.reference, "the estimator has no reference"


CHECKS = (
    check_statement,
    check_refusal,
    check_edges,
    check_determinism,
    check_power,
    check_calibration,
)


def check_estimator(estimator: Estimator) -> tuple[str, ...]:
    """Run every check on it; return which do not apply, and why.

    Raises AssertionError at the first check that fails.
    """
    return run_checks(CHECKS, estimator)
