"""Objective perturbation: the coefficients, and the epsilon that their noise truly has."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize

from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.objective_perturbation import ObjectivePerturbation

RECORDS = arrays(np.float64, 3, elements=st.floats(-1, 1))
KINDS = st.builds(
    ObjectivePerturbation,
    budget=st.floats(0.1, 10),
    dimension=st.just(3),
    linear=st.floats(-3, -0.1) | st.floats(0.1, 3),
    quadratic=st.floats(-3, -0.1) | st.floats(0.01, 3),
)


@given(RECORDS, arrays(np.float64, 3, elements=st.floats(-5, 5)), KINDS)
def test_the_coefficients_make_the_loss(
    x: np.ndarray, w: np.ndarray, kind: ObjectivePerturbation
) -> None:
    monomials = np.r_[w, [w[i] * w[j] for i in range(3) for j in range(i, 3)]]
    z = float(w @ x)
    loss = kind.linear * z + kind.quadratic * z**2
    assert kind.center(x) @ monomials == pytest.approx(loss, rel=1e-9, abs=1e-9)


def test_the_losses_are_expanded_rightly() -> None:
    z, x, h = 0.7, np.array([0.7]), 1e-4
    logistic = ObjectivePerturbation.logistic(budget=1.0, dimension=1)

    def loss(w: float) -> float:
        return math.log1p(math.exp(-w * z))

    slope = (loss(h) - loss(-h)) / (2 * h)
    bend = (loss(h) - 2 * loss(0.0) + loss(-h)) / (2 * h**2)
    np.testing.assert_allclose(logistic.center(x), [slope, bend], rtol=1e-6)
    squared = ObjectivePerturbation.squared(budget=1.0, dimension=1)
    assert 1 + squared.center(x) @ [2.0, 4.0] == pytest.approx((1 - 2.0 * 0.7) ** 2)


@given(RECORDS, RECORDS, KINDS)
def test_no_pair_of_records_beats_epsilon_nor_epsilon_the_budget(
    x: np.ndarray, y: np.ndarray, kind: ObjectivePerturbation
) -> None:
    apart = np.abs(kind.center(x) - kind.center(y)).sum() / kind.noise_scale
    assert apart <= kind.epsilon * (1 + 1e-12)
    assert kind.epsilon <= kind.budget * (1 + 1e-12)
    assert exact_lower_bound(kind, SCOPE).epsilon == pytest.approx(kind.epsilon)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
@pytest.mark.parametrize("make", ["logistic", "squared"])
def test_a_search_finds_epsilon_and_no_more(dimension: int, make: str) -> None:
    kind = getattr(ObjectivePerturbation, make)(budget=1.0, dimension=dimension)

    def less(pairs: np.ndarray) -> np.ndarray:
        x, y = np.split(pairs.T, 2, axis=-1)
        return -np.abs(kind.center(x) - kind.center(y)).sum(axis=-1) / kind.noise_scale

    found = optimize.differential_evolution(
        less,
        [(-1.0, 1.0)] * (2 * dimension),
        seed=1,
        tol=1e-8,
        maxiter=400,
        vectorized=True,
        updating="deferred",
        polish=False,
    )
    assert -found.fun == pytest.approx(kind.epsilon, rel=1e-3)
    assert -found.fun <= kind.epsilon * (1 + 1e-12)


@pytest.mark.parametrize("dimension", [2, 3, 16, 64])
def test_the_logistic_loss_spends_about_half_its_budget(dimension: int) -> None:
    kind = ObjectivePerturbation.logistic(budget=3.0, dimension=dimension)
    share = (dimension + 2) ** 2 / (2 * dimension * (dimension + 4))
    assert kind.epsilon == pytest.approx(3.0 * share)


def test_without_noise_on_the_quadratic_terms_a_record_is_known_up_to_sign() -> None:
    """Perturbing the linear term alone leaves x x^T in the objective's curvature."""
    kind = ObjectivePerturbation.squared(budget=1.0, dimension=3)
    x = np.array([0.3, -0.9, 0.5])
    noisy = kind.randomize(x, np.random.default_rng(1))
    noisy[3:] = kind.center(x)[3:]
    size = np.sqrt(noisy[[3, 6, 8]])
    np.testing.assert_allclose(size * np.sign(noisy[3:6]), x * np.sign(x[0]))
