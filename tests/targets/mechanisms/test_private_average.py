"""The round of DP-PrivRec: sensitivities, the joint multiplier, and where the paper is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrec_auditor.accountants.losses.divergences import gaussian_epsilon
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.targets.mechanisms.composed_mechanisms import PrivateAverage
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import VectorGaussian
from tests.contracts.events import SCOPE

S, M = 2.0, 5
UPDATES = arrays(np.float64, 3, elements=st.floats(-10, 10))
WORST = np.array([[0.0, S, 0.0], [0.0, -1.5 * S, 0.0]])


def average(z: float = 0.8, h: float = 0.3, **more: float) -> PrivateAverage:
    return PrivateAverage(multiplier=z, clip=S, batch=M, dimension=3, balance=h, **more)


@given(UPDATES, UPDATES)
def test_no_pair_beats_the_sensitivities(x: np.ndarray, y: np.ndarray) -> None:
    apart = average().center(x) - average().center(y)
    assert math.hypot(*apart[:-1]) <= 2 * S / M + 1e-12
    assert abs(apart[-1]) <= 1 / M + 1e-12


@pytest.mark.parametrize("step", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.05, 0.5, 0.95])
def test_one_pair_attains_both_and_so_the_joint_distance(h: float, step: float) -> None:
    one = average(h=h, step=step)
    first, second = one.center(WORST)
    assert math.hypot(*(first - second)[:-1]) == pytest.approx(step * 2 * S / M)
    assert (first - second)[-1] == pytest.approx(1 / M)
    assert math.hypot(*((first - second) / one.noise_scale)) == pytest.approx(one.mu)
    assert one.event() == GaussianDpEvent(1 / one.mu)


@given(st.floats(0.01, 0.99), st.floats(0.1, 10.0))
def test_the_algorithms_noise_with_doubled_sensitivities_has_multiplier_z(
    h: float, z: float
) -> None:
    """Paper's sensitivities 2S/M, 2/M over the algorithm's noise: 1/z; the truth is below."""
    sigma = average(z, h).noise_scale
    doubled = math.hypot(2 * S / M / sigma[0], 2 / M / sigma[-1])
    assert doubled == pytest.approx(1 / z)
    assert average(z, h).mu == pytest.approx(math.sqrt(1 - 0.75 * h) / z)


@given(st.floats(0.01, 0.99), st.floats(0.1, 10.0))
def test_the_proofs_noise_has_multiplier_one_over_z(h: float, z: float) -> None:
    z1, z2 = 1 / (z * math.sqrt(1 - h)), 1 / (z * math.sqrt(h))
    multiplier = 1 / math.hypot(1 / z1, 1 / z2)
    assert multiplier == pytest.approx(1 / z)


@pytest.mark.parametrize(("z", "h", "step"), [(1.0, 0.5, 1.0), (0.7, 0.2, 3.0), (2.0, 0.9, 0.4)])
def test_queries_together_are_the_gaussians_composed(z: float, h: float, step: float) -> None:
    """The composition of the accountant is the second route."""
    alone = (z / (step * math.sqrt(1 - h)), 2 * z / math.sqrt(h))
    event = ComposedDpEvent([GaussianDpEvent(one) for one in alone])
    composed = Pld().bound(event, delta=1e-6, scope=SCOPE).epsilon
    assert gaussian_epsilon(1e-6, average(z, h, step=step).mu) == pytest.approx(composed, rel=1e-9)


@given(st.floats(0.05, 0.95), st.floats(0.2, 8.0), st.floats(0.1, 6.0))
def test_the_repaired_round_keeps_the_multiplier_and_the_printed_one_need_not(
    h: float, z: float, step: float
) -> None:
    repaired, printed = average(z, h), average(z, h, step=step, counts_clipped=True)
    assert 1 / repaired.mu >= z * (1 - 1e-12)
    assert 1 / printed.mu == pytest.approx(z / (step * math.sqrt(1 - h)))
    assert average(z, h, step=step).mu >= printed.mu


def test_a_step_above_one_breaks_the_multiplier_and_a_smaller_one_does_not() -> None:
    assert average(step=1.0).mu < 1 / 0.8
    assert average(step=1.5).mu > 1 / 0.8
    bare = average(step=1.5, counts_clipped=True)
    assert bare.mu == pytest.approx(1.5 * math.sqrt(0.7) / 0.8)


def test_counted_after_clipping_the_share_says_nothing() -> None:
    printed = average(counts_clipped=True)
    assert (printed.center(np.concatenate([WORST, 1e6 * WORST]))[:, -1] == 1.0).all()
    first, second = printed.center(WORST)
    assert math.hypot(*((first - second) / printed.noise_scale)) == pytest.approx(printed.mu)
    assert printed.mu < average().mu


def test_without_the_share_it_is_a_vector_of_sensitivity_2s_over_m() -> None:
    printed = average(counts_clipped=True, h=0.36)
    alone = VectorGaussian(sigma=2 * S * 0.8 / 0.8 / M, clip=S / M, dimension=3)
    assert printed.noise_scale[0] == pytest.approx(alone.sigma)
    assert printed.delta(1.0) == pytest.approx(alone.delta(1.0))


def test_the_ends_of_the_clipping_count_as_kept() -> None:
    shares = average().center(np.array([[S, 0, 0], [math.nextafter(S, 9), 0, 0]]))[:, -1]
    np.testing.assert_allclose(shares, [1.0, 1.0 - 1 / M])
