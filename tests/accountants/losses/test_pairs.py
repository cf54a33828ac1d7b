"""Tests of attained pairs: shuffled bits and flips against their enumeration.

A group of records in a Poisson sample is compared with another library, and with closed forms.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, PoissonSampledDpEvent, ZCDpEvent
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.losses import composition
from fedrec_auditor.accountants.losses.composition import compute_lower_epsilon
from fedrec_auditor.accountants.losses.divergences import find_min_epsilon
from fedrec_auditor.accountants.losses.pairs import (
    GaussianMixturePair,
    GaussianPair,
    PoissonSamplePair,
    ReversedPair,
    find_lower_bound_pairs,
    make_shuffled_pairs,
)


def enumerate_counts(missed: float, unlikely: float, n_users: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the number of ones, by adding one report at a time."""
    found = []
    for one in (1.0 - missed, unlikely):
        counts = np.array([1.0])
        for chance in [one] + [unlikely] * (n_users - 1):
            counts = np.convolve(counts, [1.0 - chance, chance])
        found.append(counts)
    return found[0], found[1]


@settings(max_examples=60)
@given(
    missed=st.floats(0.01, 0.5),
    unlikely=st.floats(0.01, 0.45),
    n_users=st.integers(1, 40),
    delta=st.sampled_from([1e-6, 1e-3, 0.1]),
)
def test_shuffled_bits_equal_their_enumeration(
    missed: float, unlikely: float, n_users: int, delta: float
) -> None:
    p, q = enumerate_counts(missed, unlikely, n_users)
    for pair, (one, other) in zip(
        make_shuffled_pairs(missed, unlikely, n_users), ((p, q), (q, p)), strict=True
    ):
        order = np.argsort(-(one / other))
        exact = find_min_epsilon(np.log(one[order]), np.log(other[order]), delta)
        found = compute_lower_epsilon(((pair, 1),), delta)
        assert found <= exact + 1e-9
        assert found == pytest.approx(exact, rel=1e-3, abs=1e-5)


def test_a_flip_has_a_pair_per_direction() -> None:
    """Neither is the symmetric pair that dominates both directions."""
    pairs = find_lower_bound_pairs(BitFlipDpEvent(0.9, 0.2))
    for pair, (p, q) in zip(pairs, ((0.9, 0.2), (0.2, 0.9)), strict=True):
        exact = max(math.log((a - 0.05) / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0.05)
        assert compute_lower_epsilon(((pair, 1),), 0.05) == pytest.approx(exact, rel=1e-6)
    certain = find_lower_bound_pairs(BitFlipDpEvent(1.0, 0.2))
    assert [pair.infinite_mass for pair in certain] == [0.0, pytest.approx(0.8)]


def test_a_single_report_is_not_hidden_by_shuffling() -> None:
    pairs = find_lower_bound_pairs(ShuffledDpEvent(1.0, 1))
    assert compute_lower_epsilon(((pairs[0], 1),), 1e-9) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "event", [ZCDpEvent(0.1), PoissonSampledDpEvent(0.1, ComposedDpEvent([]))], ids=str
)
def test_other_events_have_no_attained_pair(event: object) -> None:
    assert find_lower_bound_pairs(event) is None


def group(rate: float, size: int, noise: float) -> GaussianMixturePair:
    drawn = np.arange(size + 1)
    weights = stats.binom.logpmf(drawn, size, rate)
    return GaussianMixturePair(tuple((drawn / noise).tolist()), tuple(weights.tolist()))


@pytest.mark.parametrize(
    ("rate", "size", "noise", "uses", "step"),
    [
        pytest.param(0.01, 10, 1.1, 1000, 1e-2, marks=pytest.mark.calibration),
        (0.1, 3, 2, 1, 1e-2),
        (0.1, 3, 2, 20, 1e-2),
    ],
)
def test_groups_have_the_epsilon_of_another_library(
    rate: float, size: int, noise: float, uses: int, step: float
) -> None:
    """The reference is dp-accounting's mixture of Gaussians (Choquette-Choo et al. 2023), rounded
    up.
    """
    other = library.from_mixture_gaussian_mechanism(
        noise,
        np.arange(size + 1.0),
        stats.binom.pmf(np.arange(size + 1), size, rate),
        value_discretization_interval=step,
    ).self_compose(uses)
    pair = group(rate, size, noise)
    for delta in (1e-6, 1e-3):
        theirs = other.get_epsilon_for_delta(delta)
        shown = compute_lower_epsilon(((pair, uses),), delta)
        ways = (pair, ReversedPair(pair))
        proved = max(composition.compute_upper_epsilon(((way, uses),), delta) for way in ways)
        assert shown <= theirs * (1 + 1e-9)
        assert shown <= proved
        assert proved == pytest.approx(shown, rel=1e-3, abs=1e-4)
        assert theirs == pytest.approx(proved, rel=2e-3)


@settings(max_examples=50)
@given(
    rate=st.floats(0.001, 0.9),
    noise=st.floats(0.3, 10.0),
    edges=st.lists(st.floats(-1.0, 8.0), min_size=2, max_size=20, unique=True),
)
def test_a_group_of_one_is_a_sampled_record(rate: float, noise: float, edges: list[float]) -> None:
    points = np.concatenate([[-np.inf], np.sort(edges), [np.inf]])
    ours, known = group(rate, 1, noise), PoissonSamplePair(GaussianPair(1 / noise), rate)
    for found, expected in zip(ours.bin_losses(points), known.bin_losses(points), strict=True):
        assert np.exp(found) == pytest.approx(np.exp(expected), abs=1e-12)


@settings(max_examples=30)
@given(
    rate=st.floats(0.01, 0.9),
    size=st.integers(2, 30),
    noise=st.floats(0.3, 10.0),
    at=st.floats(-5.0, 5.0),
)
def test_masses_below_a_loss_are_those_below_its_output(
    rate: float, size: int, noise: float, at: float
) -> None:
    """The reference computes the loss at x by its definition, and the mass of outputs below x."""
    pair = group(rate, size, noise)
    drawn = np.arange(size + 1)
    weights = stats.binom.pmf(drawn, size, rate)
    centres = drawn / noise
    ratios = weights * np.exp(centres * at - centres**2 / 2)
    loss = math.log(float(ratios.sum()))
    # Weights have errors near 1e-13, which is a step of the output where the loss is flat.
    blur = 1e-13 * float(ratios.sum()) / float(centres @ ratios)
    p, q = (float(np.exp(part[0])) for part in pair.bin_losses(np.array([-np.inf, loss, np.inf])))
    for found, below, density in (
        (q, float(stats.norm.cdf(at)), float(stats.norm.pdf(at))),
        (
            p,
            float(weights @ stats.norm.cdf(at - centres)),
            float(weights @ stats.norm.pdf(at - centres)),
        ),
    ):
        assert found == pytest.approx(below, rel=1e-6, abs=1e-12 + blur * density)


def test_every_group_within_the_norm_is_dominated() -> None:
    """Two records of norm at most 1 in the plane are never better distinguished (integration)."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-9.0, 11.0, 401)
    x, y = np.meshgrid(grid, grid)
    cell, noise, rate = (grid[1] - grid[0]) ** 2, 1.3, 0.3

    def density(at: np.ndarray) -> np.ndarray:
        squares = ((x - at[0]) ** 2 + (y - at[1]) ** 2) / noise**2
        return np.exp(-squares / 2) / (2 * np.pi * noise**2)

    none = density(np.zeros(2))
    worst = group(rate, 2, noise)
    edges = np.concatenate([[-np.inf], np.linspace(-2.0, 6.0, 20_001), [np.inf]])
    masses = [np.exp(part) for part in worst.bin_losses(edges)]
    for _ in range(12):
        angle, norm = rng.uniform(0, 2 * np.pi, 2), np.sqrt(rng.random(2))
        one, two = (norm * np.array([np.cos(angle), np.sin(angle)])).T
        mixed = (
            (1 - rate) ** 2 * none
            + rate * (1 - rate) * (density(one) + density(two))
            + rate**2 * density(one + two)
        )
        for epsilon in (0.0, 0.2, 0.7):
            for forward in (True, False):
                p, q = (mixed, none) if forward else (none, mixed)
                found = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)
                a, b = masses if forward else masses[::-1]
                bound = float(np.maximum(a - math.exp(epsilon) * b, 0).sum())
                assert found <= bound + 1e-4
