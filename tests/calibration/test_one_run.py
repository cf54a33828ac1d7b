"""Simulated miss rate of bounds from one training: the share of runs above the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.auditor.one_run import OneRunScores

pytestmark = pytest.mark.calibration
RUNS = 1_000
TRUTH = {"no leak": 0.0, "gaussian": 1.0, "response": 1.0, "revealing": 1.0}


def scores(
    kind: str, included: NDArray[np.bool_], delta: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """What an adversary sees of each canary, of which epsilon is ``TRUTH`` at ``delta``.

    Of "revealing", a training shows all coins at once with probability ``delta``, and else answers
    at random; so the canaries depend on one another.
    """
    noise = rng.normal(size=len(included))
    if kind == "no leak":
        return noise
    if kind == "gaussian":
        return noise + gaussian_mu(TRUTH[kind], delta) * included
    wrong = rng.random(len(included)) < special.expit(-TRUTH[kind])
    if kind == "revealing" and rng.random() < delta:
        wrong[:] = False
    return np.asarray(included ^ wrong, dtype=np.float64)


@pytest.mark.parametrize("delta", [1e-5, 0.02])
@pytest.mark.parametrize("m", [100, 1000])
@pytest.mark.parametrize("kind", TRUTH)
@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off", "gaussian-trade-off"])
def test_miss_rate(method: str, kind: str, m: int, delta: float) -> None:
    if method.startswith("gaussian") and kind not in ("gaussian", "no leak"):
        pytest.skip("conditional on a Gaussian trade-off")
    shown = []
    for rng in np.random.default_rng(0).spawn(RUNS):
        included = rng.random(m) < 0.5
        found = OneRunScores.of(scores(kind, included, delta, rng), included)
        shown.append(found.bound(delta=delta, estimator=method).epsilon)
    misses = int(np.count_nonzero(np.array(shown) > TRUTH[kind] + 1e-12))
    print(f"\n{method}, {kind}, m={m}, delta={delta}: {misses} of {RUNS}, {np.median(shown):.3f}")
    assert stats.binomtest(misses, RUNS, 0.05, "greater").pvalue >= 0.001
