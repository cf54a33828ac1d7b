"""Simulated miss rate of bounds from one training: the share of runs above the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.auditor.worlds.scores import OneRunScores
from tests.calibration.test_estimators import WIDER
from tests.contracts.worlds import NOTHING, gaussian

pytestmark = pytest.mark.calibration
RUNS = 1_000
APART = ("response 1", "laplace 1", "response 1 beside noise", "a canary without effect")
TOGETHER = {"revealing": lambda _: 1.0, "one loss": gaussian(1.0).truth}


def scores(
    kind: str, included: NDArray[np.bool_], delta: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """What an adversary sees of each canary.

    Of the kinds in ``TOGETHER`` canaries depend on one another: of "revealing", a training shows
    all coins at once with probability ``delta``, and else answers at random; of "one loss" it draws
    once how surely it answers, so that what it tells of one canary is what Gaussian noise tells.
    """
    if kind not in TOGETHER:
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
@pytest.mark.parametrize("kind", [NOTHING, "gaussian 1", *APART, *TOGETHER])
@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off"])
def test_miss_rate(method: str, kind: str, m: int, delta: float) -> None:
    truth = TOGETHER[kind](delta) if kind in TOGETHER else WIDER[kind].truth(delta)
    shown = []
    for rng in np.random.default_rng(0).spawn(RUNS):
        included = rng.random(m) < 0.5
        found = OneRunScores.of(scores(kind, included, delta, rng), included)
        shown.append(found.bound(delta=delta, estimator=method).epsilon)
    misses = int(np.count_nonzero(np.array(shown) > truth + 1e-12))
    high = stats.binomtest(misses, RUNS).proportion_ci().high
    print(
        f"\n{method}, {kind}, m={m}, delta={delta}: over {truth:.4g} in {misses} of {RUNS}, at "
        f"most {high:.2%}, median {np.median(shown):.3f}"
    )
    assert stats.binomtest(misses, RUNS, 0.05, "greater").pvalue >= 0.001
