"""Noise replacement: the law of all that the server sees, and the claim that it violates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement


def build(
    n: int = 10, omega: float = 0.3, masked: int = 10, replaced: int = 10, *, ratio: float = 1.0
) -> NoiseReplacement:
    return NoiseReplacement(
        sigma=ratio * 2.0,
        sensitivity=2.0,
        n_users=n,
        omega=omega,
        masked=masked,
        replaced=replaced,
    )


@st.composite
def runs(draw: st.DrawFn) -> NoiseReplacement:
    n = draw(st.integers(2, 12))
    omega = draw(st.integers(5, 90)) / 100
    # Not a rounding error above the fewest: the repaired protocol has no noise to take back there.
    masked = draw(st.integers(math.floor((1 - omega) * n * (1 + 1e-9)) + 1, n))
    run = build(n, omega, masked, draw(st.integers(0, masked)))
    return replace(run, repaired=draw(st.booleans()))


@given(runs().filter(lambda run: run.replaced > 1), st.floats(1, 5), st.integers(0, 2**32 - 1))
def test_the_density_knows_what_colluders_and_a_lie_take_away(
    run: NoiseReplacement, lie: float, seed: int
) -> None:
    """As the same run without the colluders, in which the shares are dealt as with them."""
    told = replace(run, announced=lie * run.masked, colluding=run.replaced - 1)
    out = told.randomize([0.0, 1.3], np.random.default_rng(seed))
    assert out.shape == (2, 2)
    slow = [
        stats.multivariate_normal.logpdf(y - g * np.eye(2)[0], cov=run.sigma**2 * table)
        for y, g in zip(out, [0.0, 1.3], strict=True)
        for table in [_two(told)]
    ]
    np.testing.assert_allclose(told.log_prob(out, [0.0, 1.3]), slow, rtol=1e-8, atol=1e-8)
    assert 1 / np.linalg.inv(_two(told))[0, 0] == pytest.approx(told.variance)


def _two(run: NoiseReplacement) -> np.ndarray:
    """Of the sum without what is known, and the one message of an honest user."""
    zeta1, zeta2 = 1 / ((1 - run.omega) * run.n_users), 1 / run.announced
    known = -(zeta1 - zeta2) if run.repaired else -zeta1
    blurred = zeta1 - zeta2 if run.repaired else zeta1 + zeta2
    return np.array([[(run.masked - run.replaced + 1) * zeta1, known], [known, blurred]])


def test_a_simulated_lie_leaves_the_variance_that_is_said() -> None:
    """10^5 runs with 2 of 9 users colluding and twice the survivors announced."""
    n = 100_000
    for repaired in (False, True):
        run = replace(build(masked=9, replaced=8), colluding=2, announced=18, repaired=repaired)
        out = run.randomize(0.0, np.random.default_rng(1), (n,)) / run.sigma
        seen = (out[:, 0] + run.weight * out[:, 1:].sum(axis=1)).var() * n / run.variance
        assert 1e-9 < stats.chi2.cdf(seen, n - 1) < 1 - 1e-9


def epsilon(mu: float, delta: float = 1e-5) -> float:
    return float(brentq(lambda e: gaussian_divergence(mu, e) - delta, 0.0, 100.0))


@pytest.mark.parametrize(
    ("ratio", "omega", "claimed", "true"),
    [(1, 0.3, 17.86, 25.40), (1, 0.6, 17.86, 22.29), (5, 0.3, 2.59, 3.51), (5, 0.6, 2.59, 3.14)],
)
def test_ten_iterations_cost_more_than_claimed(
    ratio: float, omega: float, claimed: float, true: float
) -> None:
    """T fresh iterations at sigma/sensitivity = ratio, delta = 1e-5: mu grows by sqrt(T)."""
    run, rounds = build(omega=omega, ratio=ratio), math.sqrt(10)
    assert epsilon(rounds * run.sensitivity / run.sigma) == pytest.approx(claimed, abs=0.005)
    assert epsilon(rounds * run.mu) == pytest.approx(true, abs=0.005)
    assert epsilon(rounds * replace(run, repaired=True).mu) == pytest.approx(claimed, abs=0.005)


def test_the_best_statistic_of_a_simulated_run_tells_more_than_the_last_sum() -> None:
    """Variances of S + c R and of S + R over 10^5 runs, against v and the claim."""
    run, n = build(omega=0.3, masked=9, replaced=7), 100_000
    out = run.randomize(0.0, np.random.default_rng(1), (n,)) / run.sigma
    c = run.zeta1 / (run.zeta1 + run.zeta2)
    for known, variance in ((c, run.variance), (1.0, run.claimed_variance)):
        seen = (out[:, 0] + known * out[:, 1:].sum(axis=1)).var() * n / variance
        assert 1e-9 < stats.chi2.cdf(seen, n - 1) < 1 - 1e-9
    assert run.variance < 1 < run.claimed_variance
