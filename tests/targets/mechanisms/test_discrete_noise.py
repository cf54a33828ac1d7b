"""Discrete Laplace, discrete Gaussian and snapped Laplace noise."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.auditor.exact import compute_delta, find_exact_bound
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE as SCOPE
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteGaussian, DiscreteLaplace
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import SnappedLaplace
from fedrec_auditor.targets.mechanisms.parts.grid import GridNoise


def sum_curve(mechanism: GridNoise, epsilon: float, reach: int) -> float:
    """Hockey-stick divergence of the two ends, summed over outputs, in both directions."""
    outputs = np.arange(-reach, reach + 1) * mechanism.step
    p, q = mechanism.log_prob(outputs, [[mechanism.low], [mechanism.high]])
    return max(
        float((np.exp(a) * -np.expm1(np.minimum(epsilon - (a - b), 0.0))).sum())
        for a, b in ((p, q), (q, p))
    )


@pytest.mark.parametrize("scale", [0.05, 0.8, 30.0])
def test_the_discrete_laplace_distribution_is_that_of_scipy(scale: float) -> None:
    k = np.arange(-25, 32)
    law = DiscreteLaplace(scale=scale, low=-4, high=4).log_prob(k, 3.0)
    np.testing.assert_allclose(law, stats.dlaplace.logpmf(k - 3, 1 / scale), rtol=1e-12)


@given(
    scale=st.floats(0.05, 20),
    high=st.integers(1, 40),
    share=st.floats(0, 1.2),
    step=st.sampled_from([1.0, 0.25]),
)
def test_the_discrete_laplace_curve_is_the_sum_over_outputs(
    scale: float, high: int, share: float, step: float
) -> None:
    mechanism = DiscreteLaplace(scale=scale * step, low=0, high=high * step, step=step)
    epsilon = share * mechanism.epsilon
    slow = sum_curve(mechanism, epsilon, 1500)
    assert mechanism.delta(epsilon) == pytest.approx(slow, rel=1e-9, abs=1e-14)
    assert find_exact_bound(mechanism, SCOPE).epsilon == pytest.approx(mechanism.epsilon)
    assert mechanism.event() == PureDpEvent(mechanism.epsilon)


@given(st.floats(1e-3, 50), st.floats(-3, 3), st.floats(0.5, 9))
def test_calibrated_scales_are_the_least_that_keep_epsilon(
    epsilon: float, low: float, width: float
) -> None:
    step = 0.25
    mechanism = DiscreteLaplace.calibrate(epsilon, low=low, high=low + width, step=step)
    moved = mechanism.sensitivity_steps * Fraction(step)
    assert moved / Fraction(mechanism.scale) <= Fraction(epsilon)
    assert moved / Fraction(math.nextafter(mechanism.scale, 0.0)) > Fraction(epsilon)


def test_rounding_the_input_may_widen_the_sensitivity_and_is_charged() -> None:
    mechanism = DiscreteLaplace(scale=1.0, low=0.4, high=1.6)
    assert mechanism.epsilon == 2.0
    assert find_exact_bound(mechanism, SCOPE).epsilon == pytest.approx(2.0)


@pytest.mark.parametrize("sigma", [0.1, 0.6, 1.0, 1.5, 40.0])
def test_the_discrete_gaussian_is_normalised_by_the_plain_sum(sigma: float) -> None:
    k = np.arange(-2000, 2001)
    plain = np.exp(-0.5 * (k / sigma) ** 2)
    law = np.exp(DiscreteGaussian(sigma=sigma, low=0, high=1).log_prob(k, 0))
    np.testing.assert_allclose(law, plain / plain.sum(), rtol=1e-12)


@given(st.floats(0.2, 30), st.integers(1, 40), st.floats(0, 20))
def test_the_discrete_gaussian_curve_is_the_sum_over_outputs(
    sigma: float, high: int, epsilon: float
) -> None:
    mechanism = DiscreteGaussian(sigma=sigma, low=0, high=high)
    slow = sum_curve(mechanism, epsilon, 3000)
    assert mechanism.delta(epsilon) == pytest.approx(slow, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("sigma", "high"), [(0.7, 1), (2.0, 3), (10.0, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_the_discrete_gaussian_curve_is_that_of_dp_accounting(
    sigma: float, high: int, epsilon: float
) -> None:
    """The library's upper estimate, on a grid of losses of 1e-4, exceeds it by second order."""
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        sigma, sensitivity=high, value_discretization_interval=1e-4
    ).get_delta_for_epsilon(epsilon)
    mine = DiscreteGaussian(sigma=sigma, low=0, high=high).delta(epsilon)
    assert mine <= theirs * (1 + 1e-9) + 1e-12
    assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-9)


def test_the_gaussian_curve_does_not_bound_the_discrete_one() -> None:
    mechanism = DiscreteGaussian(sigma=1.0, low=0, high=1)
    ratios = [mechanism.delta(e) / compute_gaussian_delta(1.0, e) for e in (0.0, 0.5, 1.0, 2.0)]
    assert max(ratios) > 1.01
    assert mechanism.event() == ZCDpEvent(0.5)


def test_a_wide_discrete_gaussian_is_the_gaussian() -> None:
    mechanism = DiscreteGaussian(sigma=1.0, low=0, high=1, step=2.0**-12)
    for epsilon in (0.0, 1.0, 3.0):
        wanted = compute_gaussian_delta(1.0, epsilon)
        assert mechanism.delta(epsilon) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(scale=0.8, low=-1, high=1, step=2.0**-20),
        DiscreteLaplace(scale=2.0, low=-1, high=1),
        DiscreteGaussian(sigma=0.8, low=-1, high=1, step=2.0**-10),
        SnappedLaplace(scale=0.3, low=-1, high=1, bound=9),
    ],
    ids=str,
)
def test_no_output_identifies_its_input_even_by_the_sign_of_zero(
    mechanism: DiscreteLaplace | DiscreteGaussian | SnappedLaplace,
) -> None:
    inputs = np.array([-1.0, -0.3, 0.1, 0.5, 1.0])
    drawn = mechanism.randomize(inputs, np.random.default_rng(6), (5000, 5))
    assert np.isfinite(mechanism.log_prob(drawn[..., None], inputs)).all()
    assert not np.signbit(drawn[drawn == 0]).any()
    step = mechanism.grid_step if isinstance(mechanism, SnappedLaplace) else mechanism.step
    np.testing.assert_array_equal(drawn / step, np.rint(drawn / step))


@given(
    scale=st.floats(0.05, 8),
    low=st.floats(-5, 4),
    width=st.floats(0.1, 6),
    more=st.floats(0, 30),
    share=st.floats(0, 1),
)
def test_snapped_noise_is_a_rounded_clamped_laplace(
    scale: float, low: float, width: float, more: float, share: float
) -> None:
    high = low + width
    bound = max(abs(low), abs(high)) + more
    mechanism = SnappedLaplace(scale=scale, low=low, high=high, bound=bound)
    grid = mechanism.grid_step
    assert scale <= grid < 2 * scale
    assert math.frexp(grid)[0] == 0.5
    value = low + share * width
    noise = stats.laplace(np.rint(value / grid * 2**20) * grid / 2**20, scale)
    outputs = mechanism.worst_case().outputs
    edges = (outputs[1:] + outputs[:-1]) / 2
    # Each side is computed by the tail without cancellation.
    tails = np.where(edges < value, noise.cdf(edges), noise.sf(edges))
    below = np.where(edges < value, tails, 1.0 - tails)
    mass = np.diff(below, prepend=0.0, append=1.0)
    law = np.exp(mechanism.log_prob(outputs, min(value, high)))
    np.testing.assert_allclose(law, mass, rtol=1e-6, atol=1e-14)
    epsilon = mechanism.epsilon
    assert epsilon <= width / scale + 2.0**-19
    assert find_exact_bound(mechanism, SCOPE).epsilon == pytest.approx(epsilon)


def test_clamping_costs_less_than_the_noise_is_charged() -> None:
    tight = SnappedLaplace(scale=1.0, low=-2, high=2, bound=2)
    assert tight.epsilon == pytest.approx(3.5 + math.log(2 - math.exp(-0.5)))
    assert SnappedLaplace(scale=1.0, low=-2, high=2, bound=3).epsilon == pytest.approx(4.0)


def test_the_snapped_curve_is_of_the_two_ends() -> None:
    mechanism = SnappedLaplace(scale=0.6, low=-1, high=1.5, bound=4)
    inputs, outputs = np.linspace(-1, 1.5, 26), mechanism.worst_case().outputs
    law = np.exp(mechanism.log_prob(outputs, inputs[:, None]))
    for epsilon in (0.0, 0.7, 2.0, 3.5):
        over = np.maximum(law[:, None] - math.exp(epsilon) * law[None], 0).sum(axis=-1)
        assert compute_delta(mechanism, epsilon) == pytest.approx(over.max(), rel=1e-9, abs=1e-12)


def test_bounds_at_delta_are_fast_on_a_fine_grid() -> None:
    began = time.process_time()
    bound = find_exact_bound(
        DiscreteGaussian(sigma=1.0, low=0, high=1, step=2.0**-14), SCOPE, delta=1e-5
    )
    assert compute_gaussian_delta(1.0, bound.epsilon) == pytest.approx(1e-5, rel=1e-3)
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize("output", [0.5, 0.1, -0.25])
def test_outputs_off_the_grid_have_no_probability(output: float) -> None:
    assert np.isneginf(DiscreteLaplace(scale=1, low=0, high=1).log_prob(output, 0))
    assert np.isneginf(DiscreteGaussian(sigma=1, low=0, high=1).log_prob(output, 0))
    assert np.isneginf(SnappedLaplace(scale=1, low=0, high=1, bound=3).log_prob(output, 0))
    assert np.isneginf(SnappedLaplace(scale=1, low=0, high=1, bound=3).log_prob(4.0, 0))
