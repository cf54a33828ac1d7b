"""A sample of fixed size under replacement: both bounds, and the pairs on which they rest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.pairs import (
    AtomicPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    Pair,
    PoissonPair,
    ReversedPair,
)
from fedrec_auditor.accountants.statements import Adjacency
from fedrec_auditor.accountants.theorems.neighbours import fixed_size_lower, fixed_size_upper


@pytest.mark.parametrize(
    ("sample", "n_users", "low", "high"), [(30, 4800, 1.298, 1.524), (15, 760, 4.382, 5.235)]
)
def test_the_truth_of_the_privrec_tables(
    sample: int, n_users: int, low: float, high: float
) -> None:
    """At T = 1000, z = 1, delta = 1e-6, where Tables 3 and 4 print 16.6081 and 45.5485."""
    settings_ = {"n_users": n_users, "sample": sample, "rounds": 1000, "multiplier": 1.0}
    assert fixed_size_lower(**settings_, delta=1e-6) == pytest.approx(low, abs=1e-3)
    assert fixed_size_upper(**settings_, delta=1e-6) == pytest.approx(high, abs=1e-3)


def test_the_reached_figure_is_the_librarys_for_poisson() -> None:
    """The epsilon of this pair of distributions by dp-accounting."""
    rate, noise, rounds = 0.02, 1.2, 300
    other = library.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-4
    ).self_compose(rounds)
    for delta in (1e-8, 1e-5, 1e-2):
        below = fixed_size_lower(
            n_users=100, sample=2, rounds=rounds, multiplier=noise, delta=delta
        )
        assert below <= other.get_epsilon_for_delta(delta)
        assert below == pytest.approx(other.get_epsilon_for_delta(delta), rel=2e-3)


def curve_of(pair: Pair, edges: np.ndarray) -> Callable[[float], float]:
    """The divergence of a pair, to the width of the cells."""
    log_p, log_q = pair.between(edges)
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
        (AtomicPair.of_epsilon(1.2), lambda y: max(0.0, 0.768524783 - y * 0.231475217)),
        (AtomicPair.of_atoms((0.0, 0.6), infinite=0.4), lambda y: 0.4 + max(0.0, 0.6 - 0.6 * y)),
    ],
)
def test_the_pair_has_the_amplified_curve(
    pair: Pair, curve: Callable[[float], float], rate: float
) -> None:
    """q delta_M(ln(1 + (x - 1)/q)) at x >= 1, and its mirror 1 - x + x H(1/x) below."""
    edges = np.concatenate([[-np.inf], np.linspace(-12, 12, 480_001), [np.inf]])
    found = curve_of(FixedSizePair(pair, rate), edges)
    for x in (1.0, 1.02, 1.4, 3.0):
        amplified = rate * curve(1 + (x - 1) / rate)
        assert found(x) == pytest.approx(amplified, abs=1e-6)
        assert found(1 / x) == pytest.approx(1 - 1 / x + amplified / x, abs=1e-6)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_both_laws_of_the_pair_are_laws(rate: float) -> None:
    edges = np.concatenate([[-np.inf], np.linspace(-40, 40, 8001), [np.inf]])
    for pair in (GaussianPair(2.0), LaplacePair(3.0), AtomicPair.of_epsilon(0.7)):
        for log_mass in FixedSizePair(pair, rate).between(edges):
            assert np.exp(log_mass).sum() == pytest.approx(
                1, abs=1e-3 if pair.loss_range(0)[1] < 1 else 1e-9
            )


KEEP = 0.75
CELLS = np.concatenate([[-np.inf], np.linspace(-3, 3, 60_001), [np.inf]])


def sampled(data: tuple[int, ...]) -> np.ndarray:
    """The outputs of randomized response on two sampled bits, in order, sample unknown."""
    flip, found = np.array([[KEEP, 1 - KEEP], [1 - KEEP, KEEP]]), np.zeros((2, 2))
    for one, two in itertools.permutations(data, 2):
        found += np.outer(flip[one], flip[two])
    return found.ravel() / math.perm(len(data), 2)


def test_every_pair_of_data_sets_is_dominated_in_both_directions() -> None:
    """All samples of 2 of 4, one bit replaced, by enumeration."""
    pair = FixedSizePair(AtomicPair.of_epsilon(math.log(KEEP / (1 - KEEP))), 2 / 4)
    dominating = curve_of(pair, CELLS)
    for rest in itertools.product((0, 1), repeat=3):
        laws = sampled((0, *rest)), sampled((1, *rest))
        for p, q in (laws, laws[::-1]):
            for x in np.geomspace(0.1, 10, 41):
                assert np.maximum(p - x * q, 0).sum() <= dominating(x) + 1e-6


def test_presence_costs_what_poisson_does_at_the_price_of_a_replacement() -> None:
    """All samples of 2, of 4 records or of 3, by enumeration."""
    pair = PoissonPair(AtomicPair.of_epsilon(math.log(KEEP / (1 - KEEP))), 2 / 4)
    curves = curve_of(pair, CELLS), curve_of(ReversedPair(pair), CELLS)
    for rest in itertools.product((0, 1), repeat=3):
        with_it, without = sampled((1, *rest)), sampled(rest)
        for (p, q), dominating in zip(
            ((with_it, without), (without, with_it)), curves, strict=True
        ):
            for x in np.geomspace(0.1, 10, 41):
                assert np.maximum(p - x * q, 0).sum() <= dominating(x) + 1e-6


def test_a_poisson_accountant_undercounts_batches_of_fixed_size() -> None:
    """Records clipped to C, noise C: what replacing costs has half that multiplier."""
    given_ = {"n_users": 1000, "sample": 10, "rounds": 100, "delta": 1e-5}
    presence = {**given_, "adjacency": Adjacency.ADD_REMOVE, "multiplier": 0.5}
    said = library.from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(100)
    reached, proved = fixed_size_lower(**presence), fixed_size_upper(**presence)
    assert said.get_epsilon_for_delta(1e-5) < 1.0 < 3.0 < reached
    assert reached <= proved <= reached * 1.001
    assert proved <= fixed_size_upper(**given_, multiplier=0.5)
    with pytest.raises(InputError, match="any pair"):
        fixed_size_upper(**presence | {"adjacency": Adjacency.ANY_PAIR})


@settings(max_examples=12)
@given(
    sample=st.integers(1, 50),
    rounds=st.integers(1, 300),
    multiplier=st.floats(0.5, 8.0),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_what_is_reached_is_never_above_what_is_proved(
    sample: int, rounds: int, multiplier: float, delta: float
) -> None:
    given_ = {"n_users": 50, "rounds": rounds, "multiplier": multiplier, "delta": delta}
    below = fixed_size_lower(sample=sample, **given_)
    above = fixed_size_upper(sample=sample, **given_)
    assert 0 <= below <= above
    if sample == 50:
        assert below == pytest.approx(above, rel=5e-3, abs=5e-3)


def test_nothing_can_be_had_without_noise_or_at_delta_zero() -> None:
    fine = {"n_users": 10, "sample": 2, "rounds": 3, "multiplier": 1.0, "delta": 1e-5}
    for bound in (fixed_size_upper, fixed_size_lower):
        assert math.isinf(bound(**fine | {"delta": 0.0}))
        assert math.isinf(bound(**fine | {"multiplier": 0.0}))
        for wrong in ({"sample": 11}, {"rounds": 0}, {"multiplier": -1.0}, {"delta": 1.0}):
            with pytest.raises(InputError):
                bound(**fine | wrong)


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize(
    ("multiplier", "delta", "truth"),
    [
        (0.0, 1e-3, 0.0),
        (0.0, 1e-7, math.inf),
        (math.inf, 0.0, 0.0),
        (math.inf, 1e-3, 0.0),
        (1e-300, 1e-3, 0.0),
    ],
)
def test_no_noise_and_nothing_but_noise(
    multiplier: float, delta: float, truth: float, adjacency: Adjacency
) -> None:
    """Without noise a record is revealed if drawn, with probability 1e-6, which delta may cover."""
    for bound in (fixed_size_upper, fixed_size_lower):
        found = bound(
            n_users=10**6,
            sample=1,
            rounds=1,
            multiplier=multiplier,
            delta=delta,
            adjacency=adjacency,
        )
        assert found == truth
