"""Divergences at a delta: summed, integrated from below, or by a curve that is tested."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.gaussian import gaussian_divergence
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from tests.auditor.exact.densities import (
    FEW,
    OnIntegers,
    assert_least,
    gaussian,
    laplace,
    laws,
    search,
    slow_delta,
    table,
)
from tests.points import later


@given(laws(), st.sampled_from([0.01, 0.2]))
@FEW
def test_at_a_delta_the_epsilon_is_where_the_divergence_meets_it(
    rows: NDArray[np.float64], delta: float
) -> None:
    assert_least(search(table(rows), 0.5, delta).epsilon, rows, delta)


@pytest.mark.parametrize(
    ("sigma", "delta"),
    [(0.5, 1e-5), (3.0, 1e-2), later(0.5, 1e-2), later(3.0, 1e-5)],
)
def test_densities_without_a_curve_are_integrated_from_below(sigma: float, delta: float) -> None:
    found = search(gaussian(sigma), 100.0, delta).epsilon
    assert gaussian_divergence(1 / sigma, found) >= delta * (1 - 1e-9)
    assert gaussian_divergence(1 / sigma, found + 1e-3) < delta
    truth = 2.0 + 2.0 * math.log1p(-delta)
    assert truth - 1e-4 < search(laplace(0.5), 9.0, delta).epsilon <= truth + 1e-9


class ModestCurve(Gaussian):
    """Its curve is that of half the distance."""

    def delta(self, epsilon: float) -> float:
        return gaussian_divergence((self.high - self.low) / self.sigma / 2, epsilon)


def test_a_curve_that_is_too_low_hides_nothing() -> None:
    honest, modest = (kind(sigma=1.0, low=0, high=1) for kind in (Gaussian, ModestCurve))
    found = search(modest, 3.0, 1e-5)
    assert found.epsilon == pytest.approx(search(honest, 3.0, 1e-5).epsilon, abs=1e-3)
    assert found.witness is not None


def test_discrete_outputs_without_end_have_a_divergence_from_below() -> None:
    found = search(OnIntegers(lambda k: -0.5 * abs(int(k))), 1.5, 0.01).epsilon
    p = np.exp(-0.5 * np.abs(np.arange(-100, 101)))
    rows = [p / p.sum(), np.roll(p / p.sum(), 3)]
    assert slow_delta(rows, found) >= 0.01 * (1 - 1e-6)
    assert slow_delta(rows, found + 0.02) < 0.01
