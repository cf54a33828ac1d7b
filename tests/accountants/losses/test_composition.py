"""Tests of composed losses against closed forms, dp-accounting, and bounds from both sides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.losses import composition
from fedrec_auditor.accountants.losses.composition import (
    PairCounts,
    compute_lower_curve,
    compute_lower_epsilon,
    compute_upper_epsilon,
    convolve_distributions,
)
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.losses.pairs import (
    ArrayPair,
    AtomicPair,
    FixedSizeSamplePair,
    GaussianPair,
    LaplacePair,
    PoissonSamplePair,
    RevealedSamplingPair,
    ReversedPair,
)
from tests.contracts.events import response

STEP = 1e-4
responses = AtomicPair.from_epsilon


@pytest.mark.parametrize("delta", [1e-100, 1e-30, 1e-9, 1e-2, 0.4])
@pytest.mark.parametrize(
    ("mu", "count"), [(1.0, 1), (0.2, 300), (0.01, 10), (10.0, 1), (1.0, 1000), (1e-3, 10**5)]
)
def test_gaussians_are_bracketed_at_any_delta(mu: float, count: int, delta: float) -> None:
    uses = ((GaussianPair(mu), count),)
    truth = find_gaussian_epsilon(delta, mu * math.sqrt(count))
    above, below = compute_upper_epsilon(uses, delta), compute_lower_epsilon(uses, delta)
    assert below <= truth * (1 + 1e-9) <= above * (1 + 2e-9) + 1e-12
    assert above <= truth * (1 + 2e-3) + 1e-4
    assert below >= truth * (1 - 1e-2) - 1e-3


@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.2])
@pytest.mark.parametrize(("local", "count"), [(0.01, 2000), (0.25, 2000), (2.5, 200), (8.0, 3)])
def test_responses_are_bracketed(local: float, count: int, delta: float) -> None:
    uses = ((responses(local), count),)
    truth = response(local)(count, delta)
    assert compute_lower_epsilon(uses, delta) <= truth * (1 + 1e-9) + 1e-9
    assert truth <= compute_upper_epsilon(uses, delta) <= truth * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(0.01, 1.0, 500), (0.2, 3.0, 100), (0.5, 0.8, 1)]
)
def test_poisson_samples_agree_with_the_library(rate: float, noise: float, count: int) -> None:
    slow = library.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=STEP
    ).self_compose(count)
    assert_equal_costs(slow, PoissonSamplePair(GaussianPair(1 / noise), rate), count)


def assert_equal_costs(slow: Any, pair: PoissonSamplePair, count: int) -> None:
    ways = (pair, ReversedPair(pair))
    for delta in (1e-8, 1e-5, 1e-2):
        ours = max(compute_upper_epsilon(((way, count),), delta) for way in ways)
        assert ours == pytest.approx(slow.get_epsilon_for_delta(delta), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_laplace_noise_agrees_with_the_library(rate: float) -> None:
    slow = library.from_laplace_mechanism(
        1.5, sampling_prob=rate, value_discretization_interval=STEP
    ).self_compose(40)
    assert_equal_costs(slow, PoissonSamplePair(LaplacePair(1 / 1.5), rate), 40)


def test_different_leaves_agree_with_the_library() -> None:
    slow = library.from_laplace_mechanism(3.0, value_discretization_interval=STEP).self_compose(40)
    slow = slow.compose(library.from_gaussian_mechanism(1.3, value_discretization_interval=STEP))
    uses = ((LaplacePair(1 / 3.0), 40), (GaussianPair(1 / 1.3), 1))
    for delta in (1e-8, 1e-5, 1e-2):
        truth = slow.get_epsilon_for_delta(delta)
        assert compute_upper_epsilon(uses, delta) == pytest.approx(truth, rel=1e-3, abs=1e-3)


PAIRS = st.sampled_from(
    [
        GaussianPair(0.3),
        LaplacePair(0.5),
        responses(0.7),
        AtomicPair.from_atoms(
            (0.4, 0.3), (0.0, 0.7 - 0.3 * math.exp(-0.4)), (-0.4, 0.3 * math.exp(-0.4))
        ),
        PoissonSamplePair(GaussianPair(0.9), 0.1),
        ReversedPair(PoissonSamplePair(GaussianPair(0.9), 0.1)),
        FixedSizeSamplePair(LaplacePair(1.0), 0.2),
        RevealedSamplingPair(GaussianPair(0.5), 0.3),
    ]
)


@settings(max_examples=15)
@given(
    uses=st.lists(st.tuples(PAIRS, st.integers(1, 60)), min_size=1, max_size=3).map(tuple),
    delta=st.sampled_from([1e-12, 1e-6, 1e-3, 0.1]),
)
def test_lower_and_upper_bounds_are_close(uses: PairCounts, delta: float) -> None:
    below, above = compute_lower_epsilon(uses, delta), compute_upper_epsilon(uses, delta)
    assert below <= above
    assert above - below <= 0.05 * above + 0.05
    more = tuple((pair, count + 1) for pair, count in uses)
    assert compute_upper_epsilon(more, delta) >= above - 1e-3
    assert compute_upper_epsilon(uses, 2 * delta) <= above


@pytest.mark.parametrize(
    "uses",
    [
        ((LaplacePair(700.0), 1),),
        ((LaplacePair(60.0), 64 * 1682),),
        ((LaplacePair(1e6), 3), (GaussianPair(1e-3), 10**6)),
        ((GaussianPair(1e-5), 10**9),),
        ((PoissonSamplePair(GaussianPair(100.0), 1e-6), 10**6),),
        ((PoissonSamplePair(GaussianPair(0.01), 1e-5), 10**7),),
        ((FixedSizeSamplePair(GaussianPair(1.0), 1e-3), 10**5),),
        ((responses(1e-6), 10**9), (responses(60.0), 100), (responses(0.1), 77)),
    ],
)
def test_extremes_are_bracketed(uses: PairCounts) -> None:
    above = compute_upper_epsilon(uses, 1e-6)
    assert compute_lower_epsilon(uses, 1e-6) <= above < math.inf


def test_an_impossible_output_leaks_with_its_probability() -> None:
    pair = AtomicPair.from_atoms((0.0, 0.99), infinite=0.01)
    assert math.isinf(compute_upper_epsilon(((pair, 3),), 0.0297))
    assert math.isinf(compute_lower_epsilon(((pair, 3),), 0.0297))
    assert compute_upper_epsilon(((pair, 3),), 0.0298) == pytest.approx(0, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(-3, 3)), min_size=1, max_size=8),
    st.floats(0.01, 0.7),
    st.floats(0, 3),
)
def test_the_grid_dominates_and_keeps_mass_and_moment(
    outputs: list[tuple[int, float]], step: float, epsilon: float
) -> None:
    mass = np.array([float(w) for w, _ in outputs])
    mass /= mass.sum()
    loss = np.array([at for _, at in outputs])
    pair = ArrayPair.from_losses(loss, np.log(mass))
    (grid,) = composition._discretize(((pair, 1),), [(loss.min(), loss.max())], step, True)
    exact = float(mass @ -np.expm1(np.minimum(epsilon - loss, 0.0)))
    points = (grid.low + np.arange(len(grid.mass))) * step
    assert grid.mass @ -np.expm1(np.minimum(epsilon - points, 0.0)) >= exact - 1e-12
    assert grid.mass.sum() == pytest.approx(1.0)
    assert grid.mass @ np.exp(-points) == pytest.approx(mass @ np.exp(-loss))


@pytest.mark.parametrize(
    "uses",
    [
        ((GaussianPair(0.4), 30),),
        ((PoissonSamplePair(GaussianPair(1.0), 0.1), 200),),
        ((LaplacePair(0.5), 12), (GaussianPair(0.3), 5)),
        ((AtomicPair.from_atoms((0.0, 0.9), (0.3, 0.09), infinite=0.01), 3),),
    ],
)
def test_the_lower_curve_agrees_with_bounds_at_every_delta(uses: PairCounts) -> None:
    """The curve is below the proof at the same delta, and within 2% of the bound for that delta."""
    curve = compute_lower_curve(uses)
    for delta in (1e-7, 1e-4, 1e-2, 0.2):
        above, below = compute_upper_epsilon(uses, delta), compute_lower_epsilon(uses, delta)
        if math.isfinite(above):
            assert curve.compute_delta(above) <= delta
        if math.isfinite(below) and below > 0.1:
            assert curve.compute_delta(0.98 * below - 0.02) >= delta


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(-3, 3),
)
def test_sums_of_integers_have_convolved_distributions(
    weights_a: list[float], weights_b: list[float], count: int, low: int
) -> None:
    first, second = np.array(weights_a) / sum(weights_a), np.array(weights_b) / sum(weights_b)
    slow = second
    for _ in range(count):
        slow = np.convolve(slow, first)
    found = convolve_distributions(
        [(first, low, count), (second, -1, 1)], count * low - 1, len(slow) + 5
    )
    assert found[: len(slow)] == pytest.approx(slow, abs=1e-14)
    assert found[len(slow) :] == pytest.approx(np.zeros(5), abs=1e-14)


@pytest.mark.parametrize(
    "pair", [GaussianPair(0.7), LaplacePair(2.0), PoissonSamplePair(GaussianPair(1.0), 0.1)]
)
def test_masses_of_losses_equal_those_of_draws(
    pair: GaussianPair | LaplacePair | PoissonSamplePair,
) -> None:
    """Masses of cells equal a histogram of draws; six standard deviations are allowed (1e-8)."""
    rng, n = np.random.default_rng(5), 400_000
    if isinstance(pair, LaplacePair):
        x = rng.laplace(size=n)
        loss = np.abs(x - pair.shift) - np.abs(x)
    else:
        noise = pair if isinstance(pair, GaussianPair) else pair.pair
        rate = 1.0 if isinstance(pair, GaussianPair) else pair.rate
        x = rng.standard_normal(n) + noise.mu * (rng.random(n) < rate)
        loss = np.log1p(rate * np.expm1(noise.mu * x - noise.mu**2 / 2))
    edges = np.array([-np.inf, -2.1, -1.0, -0.06, 0.01, 0.3, 1.5, 2.1, np.inf])
    expected = np.exp(pair.bin_losses(edges)[0])
    seen = np.histogram(loss, np.nan_to_num(edges, posinf=1e9, neginf=-1e9))[0] / n
    assert np.all(np.abs(seen - expected) <= 6 * np.sqrt(expected * (1 - expected) / n) + 1e-9)
