"""Sampled sums: curves from below, beside a proof from above and plain integrals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import RevealedGaussian, SampledGaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import AtLeast
from tests.contracts.laws import check_ranges


def made(
    z: float = 1.0, rate: float = 0.3, rounds: int = 1, steps: int = 1, opposite: float = 0.0
) -> SampledGaussian:
    return SampledGaussian(
        noise_multiplier=z,
        sampling_probability=rate,
        rounds=rounds,
        local_steps=steps,
        opposite=opposite,
    )


def integral(mechanism: SampledGaussian, epsilon: float) -> float:
    """The divergence of one round by quadrature, of densities written out."""
    z = mechanism.noise_multiplier * math.sqrt(mechanism.local_steps)
    q, n = mechanism.sampling_probability, mechanism.local_steps

    def density(shift: float) -> np.ndarray:
        return sum(
            math.comb(n, k) * q**k * (1 - q) ** (n - k) * stats.norm.pdf(x, k * shift, z)
            for k in range(n + 1)
        )

    x = np.linspace(-n * mechanism.opposite - 10 * z, n + 10 * z, 400_001)
    excess = np.maximum(density(1.0) - math.exp(epsilon) * density(-mechanism.opposite), 0.0)
    return float(integrate.simpson(excess, x=x))


@pytest.mark.parametrize(
    ("z", "rate", "steps", "opposite"),
    [(1.0, 0.3, 1, 0.0), (0.7, 0.2, 3, 0.0), (1.3, 0.5, 2, 0.8), (0.4, 0.1, 1, 1.0)],
)
def test_one_round_is_the_integral_from_below(
    z: float, rate: float, steps: int, opposite: float
) -> None:
    mechanism = made(z, rate, 1, steps, opposite)
    for epsilon in (0.0, 0.5, 2.0):
        exact = integral(mechanism, epsilon)
        assert exact - 0.01 <= mechanism.delta(epsilon) <= exact + 1e-9


@given(
    z=st.floats(0.6, 4.0),
    rate=st.floats(0.01, 0.6),
    rounds=st.integers(1, 40),
    delta=st.sampled_from([1e-6, 1e-3, 0.05]),
)
@settings(max_examples=8)
def test_single_steps_stay_just_below_the_proof(
    z: float, rate: float, rounds: int, delta: float
) -> None:
    """dp-accounting's distribution of the Poisson-sampled Gaussian, from above."""
    grid = 1e-3
    proof = privacy_loss_distribution.from_gaussian_mechanism(
        z, sampling_prob=rate, value_discretization_interval=grid
    ).self_compose(rounds)
    epsilon = proof.get_epsilon_for_delta(delta)
    mechanism = made(z, rate, rounds)
    assert mechanism.delta(epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0.1:
        assert mechanism.delta(epsilon - 0.05) > delta


@given(
    z=st.floats(0.5, 4.0),
    rate=st.floats(0.01, 1.0),
    rounds=st.integers(1, 20),
    steps=st.integers(1, 4),
    epsilon=st.floats(0.0, 4.0),
)
@settings(max_examples=20)
def test_seeing_less_tells_less(
    z: float, rate: float, rounds: int, steps: int, epsilon: float
) -> None:
    """Sums instead of steps, and steps whose drawing is not told."""
    sums = made(z, rate, rounds, steps).delta(epsilon)
    parts = made(z, rate, rounds * steps).delta(epsilon)
    told = RevealedGaussian(
        noise_multiplier=z, sampling_probability=rate, count=rounds * steps
    ).delta(epsilon)
    slack = parts - made(z, rate, rounds * steps).delta(epsilon + 0.05)  # of either's grid
    assert sums <= parts + slack + 1e-9
    assert parts <= told + 1e-9


def test_where_every_row_is_drawn_it_is_one_gaussian_in_sums_too() -> None:
    for steps in (1, 4):
        mechanism = made(2.0, 1.0, 5, steps, 0.5)
        exact = gaussian_divergence(1.5 * math.sqrt(5 * steps) / 2.0, 1.0)
        assert exact - 0.01 <= mechanism.delta(1.0) <= exact


def test_a_large_shift_shows_by_itself_when_rows_are_drawn() -> None:
    """At most as if that were told, at twice the distance; and at least at the distance from 0,
    less -ln q for every row drawn, for it is a row drawn or an outlier of one that was not."""
    mechanism = made(0.1, 0.01, 1000, 1, 1.0)
    near, far = (
        RevealedGaussian(noise_multiplier=z, sampling_probability=0.01, count=1000)
        for z in (0.1, 0.05)
    )
    for epsilon in (300.0, 600.0, 1000.0):
        assert mechanism.delta(epsilon) <= far.delta(epsilon)
        assert mechanism.delta(epsilon) >= near.delta(epsilon + 5.0 * epsilon / 40) > 1e-4


def test_the_curve_falls_and_ends() -> None:
    mechanism = made(1.0, 0.1, 20, 2)
    curve = [mechanism.delta(epsilon) for epsilon in np.linspace(0, 30, 200)]
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert mechanism.delta(1e4) == 0.0


def test_accidents_and_shares_are_taken_off() -> None:
    law = RevealedGaussian(noise_multiplier=1.0, sampling_probability=0.5, count=3)
    whole = law.delta(1.0)
    less = AtLeast(mechanism=law, share=0.5, given_away=1e-3, mistaken=1e-4)
    assert less.delta(1.0) == pytest.approx(0.5 * whole - 1e-3 - math.e * 1e-4)
    assert AtLeast(mechanism=law, given_away=1.0).delta(0.0) == 0.0
    assert AtLeast(mechanism=law, mistaken=1e-300).delta(1e6) == 0.0
    assert AtLeast(mechanism=law).delta(1.0) == whole
    assert less.event() == law.event()


def test_only_probabilities_are_given_away() -> None:
    law = RevealedGaussian(noise_multiplier=1.0, sampling_probability=0.5, count=3)
    check_ranges(AtLeast(mechanism=law))
    with pytest.raises(InputError, match="knows its curve"):
        AtLeast(mechanism=Repeated(Laplace(scale=1.0, low=0.0, high=1.0), 3))
