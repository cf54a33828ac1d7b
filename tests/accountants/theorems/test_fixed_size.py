"""Tests of samples of fixed size under replacement: both bounds, and the pairs behind them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.losses.pairs import (
    AtomicPair,
    FixedSizeSamplePair,
    GaussianPair,
    LaplacePair,
    Pair,
    PoissonSamplePair,
    ReversedPair,
)
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency, Scope
from fedrec_auditor.accountants.theorems.neighbours import compute_attained_epsilon, convert_event
from tests.contracts.events import PRESENCE, REPLACED


def training(n_users: int, sample: int, rounds: int, multiplier: float) -> DpEvent:
    """Event of Gaussian noise on samples; the multiplier is for replacing one record."""
    one = SampledWithoutReplacementDpEvent(n_users, sample, GaussianDpEvent(multiplier))
    return SelfComposedDpEvent(one, rounds)


def proved(event: DpEvent, delta: float, scope: Scope = REPLACED) -> float:
    return Pld().bound(event, delta=delta, scope=scope).epsilon


@pytest.mark.parametrize(
    ("sample", "n_users", "low", "high"), [(30, 4800, 1.298, 1.524), (15, 760, 4.382, 5.235)]
)
def test_exact_epsilons_of_the_privrec_tables(
    sample: int, n_users: int, low: float, high: float
) -> None:
    """At T = 1000, z = 1 and delta = 1e-6, Tables 3 and 4 print 16.6081 and 45.5485."""
    event = training(n_users, sample, 1000, 1.0)
    assert compute_attained_epsilon(event, 1e-6) == pytest.approx(low, abs=1e-3)
    assert proved(event, 1e-6) == pytest.approx(high, abs=1e-3)


def test_the_attained_epsilon_equals_the_librarys_for_poisson() -> None:
    """The reference is the epsilon of this pair of distributions by dp-accounting."""
    other = library.from_gaussian_mechanism(
        1.2, sampling_prob=0.02, value_discretization_interval=1e-4
    ).self_compose(300)
    for delta in (1e-8, 1e-5, 1e-2):
        below = compute_attained_epsilon(training(100, 2, 300, 1.2), delta)
        assert below <= other.get_epsilon_for_delta(delta)
        assert below == pytest.approx(other.get_epsilon_for_delta(delta), rel=2e-3)


def make_curve(pair: Pair, edges: np.ndarray) -> Callable[[float], float]:
    """Divergence of a pair, accurate to the width of the cells."""
    log_p, log_q = pair.bin_losses(edges)
    p, q = np.exp(log_p), np.exp(log_q)
    return lambda x: float(np.maximum(p - x * q, 0).sum()) + pair.infinite_mass


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize(
    ("pair", "curve"),
    [
        (
            GaussianPair(0.8),
            lambda y: (
                stats.norm.sf(np.log(y) / 0.8 - 0.4) - y * stats.norm.sf(np.log(y) / 0.8 + 0.4)
            ),
        ),
        (LaplacePair(1.5), lambda y: max(0.0, 1 - math.sqrt(y) * math.exp(-0.75))),
        (AtomicPair.from_epsilon(1.2), lambda y: max(0.0, 0.768524783 - y * 0.231475217)),
        (AtomicPair.from_atoms((0.0, 0.6), infinite=0.4), lambda y: 0.4 + max(0.0, 0.6 - 0.6 * y)),
    ],
)
def test_the_pair_has_the_amplified_curve(
    pair: Pair, curve: Callable[[float], float], rate: float
) -> None:
    """The curve is q delta_M(ln(1 + (x - 1)/q)) at x >= 1, mirrored by 1 - x + x H(1/x) below."""
    edges = np.concatenate([[-np.inf], np.linspace(-12, 12, 480_001), [np.inf]])
    found = make_curve(FixedSizeSamplePair(pair, rate), edges)
    for x in (1.0, 1.02, 1.4, 3.0):
        amplified = rate * curve(1 + (x - 1) / rate)
        assert found(x) == pytest.approx(amplified, abs=1e-6)
        assert found(1 / x) == pytest.approx(1 - 1 / x + amplified / x, abs=1e-6)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_both_distributions_of_the_pair_have_mass_1(rate: float) -> None:
    edges = np.concatenate([[-np.inf], np.linspace(-40, 40, 8001), [np.inf]])
    for pair in (GaussianPair(2.0), LaplacePair(3.0), AtomicPair.from_epsilon(0.7)):
        for log_mass in FixedSizeSamplePair(pair, rate).bin_losses(edges):
            assert np.exp(log_mass).sum() == pytest.approx(
                1, abs=1e-3 if pair.find_loss_range(0)[1] < 1 else 1e-9
            )


KEEP = 0.75
CELLS = np.concatenate([[-np.inf], np.linspace(-3, 3, 60_001), [np.inf]])


def sampled(data: tuple[int, ...]) -> np.ndarray:
    """Distribution of randomized responses of two sampled bits, in order, by an unknown sample."""
    flip, found = np.array([[KEEP, 1 - KEEP], [1 - KEEP, KEEP]]), np.zeros((2, 2))
    for one, two in itertools.permutations(data, 2):
        found += np.outer(flip[one], flip[two])
    return found.ravel() / math.perm(len(data), 2)


def test_every_pair_of_data_sets_is_dominated_in_both_directions() -> None:
    """Enumerates all samples of 2 of 4 records, with one bit replaced."""
    pair = FixedSizeSamplePair(AtomicPair.from_epsilon(math.log(KEEP / (1 - KEEP))), 2 / 4)
    dominating = make_curve(pair, CELLS)
    for rest in itertools.product((0, 1), repeat=3):
        laws = sampled((0, *rest)), sampled((1, *rest))
        for p, q in (laws, laws[::-1]):
            for x in np.geomspace(0.1, 10, 41):
                assert np.maximum(p - x * q, 0).sum() <= dominating(x) + 1e-6


def test_removal_is_dominated_by_a_poisson_sample() -> None:
    """Enumerates all samples of 2, of 4 records or of 3."""
    pair = PoissonSamplePair(AtomicPair.from_epsilon(math.log(KEEP / (1 - KEEP))), 2 / 4)
    curves = make_curve(pair, CELLS), make_curve(ReversedPair(pair), CELLS)
    for rest in itertools.product((0, 1), repeat=3):
        with_it, without = sampled((1, *rest)), sampled(rest)
        for (p, q), dominating in zip(
            ((with_it, without), (without, with_it)), curves, strict=True
        ):
            for x in np.geomspace(0.1, 10, 41):
                assert np.maximum(p - x * q, 0).sum() <= dominating(x) + 1e-6


def test_a_poisson_accountant_undercounts_batches_of_fixed_size() -> None:
    """Records are clipped to C, with noise C: replacing one has half that multiplier."""
    event = convert_event(training(1000, 10, 100, 1.0), Adjacency.ADD_REMOVE)
    said = library.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(100)
    reached, found = compute_attained_epsilon(event, 1e-5), proved(event, 1e-5, PRESENCE)
    assert said.get_epsilon_for_delta(1e-5) < 1.0 < 3.0 < reached
    assert reached <= found <= reached * 1.001
    assert found <= proved(training(1000, 10, 100, 0.5), 1e-5)


@settings(max_examples=12)
@given(
    sample=st.integers(1, 50),
    rounds=st.integers(1, 300),
    multiplier=st.floats(0.5, 8.0),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_attained_epsilons_are_below_proved_ones(
    sample: int, rounds: int, multiplier: float, delta: float
) -> None:
    event = training(50, sample, rounds, multiplier)
    below, above = compute_attained_epsilon(event, delta), proved(event, delta)
    assert 0 <= below <= above
    if sample == 50:
        assert below == pytest.approx(above, rel=5e-3, abs=5e-3)


@pytest.mark.parametrize("multiplier", [0.0, 1e-300])
def test_without_noise_a_record_is_revealed_if_it_is_drawn(multiplier: float) -> None:
    """The probability is 1e-6, which delta may cover."""
    event = training(10**6, 1, 1, multiplier)
    for found in (proved(event, 1e-3), compute_attained_epsilon(event, 1e-3)):
        assert found == 0.0
    assert math.isinf(proved(event, 1e-7))
