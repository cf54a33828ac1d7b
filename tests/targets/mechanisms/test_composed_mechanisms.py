"""Composed mechanisms: clipping, repetition, a private average, a shuffle."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Shuffle
from fedrec_auditor.auditor.exact import compute_delta, find_exact_bound, has_exact_bound
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE as SCOPE
from fedrec_auditor.targets.mechanisms import composed_mechanisms
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product, Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian, VectorGaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate


def test_events_have_the_sensitivity_of_the_range() -> None:
    assert Laplace(scale=1.5, low=-1, high=2).event() == LaplaceDpEvent(0.5)
    assert Laplace(scale=1.5, low=-1, high=2).epsilon == pytest.approx(2.0)
    assert Gaussian(sigma=1.5, low=-1, high=2).event() == GaussianDpEvent(0.5)


def test_identity_returns_the_value_without_draws() -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    bits = np.array([[0, 1], [1, 1]])
    np.testing.assert_array_equal(composed_mechanisms.Identity().randomize(bits, rng), bits)
    assert rng.bit_generator.state == before
    np.testing.assert_array_equal(
        composed_mechanisms.Identity().log_prob([0, 1], [[0], [1]]), [[0, -np.inf], [-np.inf, 0]]
    )


def test_compositions_charge_every_use() -> None:
    one = OneCoordinate(1.0, 4)
    event = Repeated(Product(one, 3), 5).event()
    assert event == SelfComposedDpEvent(SelfComposedDpEvent(one.event(), 3), 5)
    worst_case = Repeated(Product(one, 3), 5).worst_case()
    assert worst_case.n_copies == 15
    assert worst_case.inner_mechanism is one


LAPLACE = Laplace(scale=0.5, low=-0.5, high=0.5)


def test_epsilon_is_that_of_a_coordinate_times_their_number() -> None:
    assert find_exact_bound(Clipped(LAPLACE), SCOPE).epsilon == pytest.approx(2.0)
    upload = Clipped(Product(LAPLACE, 100))
    assert find_exact_bound(upload, SCOPE).epsilon == pytest.approx(200.0)
    ends = np.array([[9.0] * 100, [-9.0] * 100])
    table = upload.log_prob(ends, ends[:, None])
    assert table[0, 0] - table[1, 0] == pytest.approx(200.0)


def test_the_curve_is_known_if_the_inner_curve_is() -> None:
    curved = Clipped(Gaussian(sigma=1.0, low=0.0, high=1.0))
    assert isinstance(curved, PrivacyCurve)
    assert compute_delta(curved, 0.5) == compute_delta(curved.mechanism, 0.5)
    blunt = Clipped(Product(LAPLACE, 2))
    assert not isinstance(blunt, PrivacyCurve)
    assert not has_exact_bound(blunt, 0.1)
    reports = Clipped(OneCoordinate(1.0, 3))
    assert has_exact_bound(reports, 0.1)
    assert find_exact_bound(reports, SCOPE).epsilon == pytest.approx(1.0)


BOUND, BATCH = 2.0, 5


UPDATES = arrays(np.float64, 3, elements=st.floats(-10, 10))


WORST = np.array([[0.0, BOUND, 0.0], [0.0, -1.5 * BOUND, 0.0]])


def average(z: float = 0.8, h: float = 0.3, **more: float) -> composed_mechanisms.PrivateAverage:
    return composed_mechanisms.PrivateAverage(
        multiplier=z, clip=BOUND, batch=BATCH, dimension=3, balance=h, **more
    )


@given(UPDATES, UPDATES)
def test_no_pair_exceeds_the_sensitivities(x: np.ndarray, y: np.ndarray) -> None:
    apart = average().compute_noiseless(x) - average().compute_noiseless(y)
    assert math.hypot(*apart[:-1]) <= 2 * BOUND / BATCH + 1e-12
    assert abs(apart[-1]) <= 1 / BATCH + 1e-12


@pytest.mark.parametrize("step", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.05, 0.5, 0.95])
def test_one_pair_attains_both_and_so_the_joint_distance(h: float, step: float) -> None:
    one = average(h=h, step=step)
    first, second = one.compute_noiseless(WORST)
    assert math.hypot(*(first - second)[:-1]) == pytest.approx(step * 2 * BOUND / BATCH)
    assert (first - second)[-1] == pytest.approx(1 / BATCH)
    assert math.hypot(*((first - second) / one.noise_scale)) == pytest.approx(one.mu)
    assert one.event() == GaussianDpEvent(1 / one.mu)


@given(st.floats(0.01, 0.99), st.floats(0.1, 10.0))
def test_the_algorithms_noise_has_multiplier_z(h: float, z: float) -> None:
    """The paper's sensitivities 2S/M, 2/M over the algorithm's noise give 1/z, too large."""
    sigma = average(z, h).noise_scale
    doubled = math.hypot(2 * BOUND / BATCH / sigma[0], 2 / BATCH / sigma[-1])
    assert doubled == pytest.approx(1 / z)
    assert average(z, h).mu == pytest.approx(math.sqrt(1 - 0.75 * h) / z)


@pytest.mark.parametrize(("z", "h", "step"), [(1.0, 0.5, 1.0), (0.7, 0.2, 3.0), (2.0, 0.9, 0.4)])
def test_the_queries_are_composed_gaussians(z: float, h: float, step: float) -> None:
    """The accountant's composition is the independent method."""
    alone = (z / (step * math.sqrt(1 - h)), 2 * z / math.sqrt(h))
    event = ComposedDpEvent([GaussianDpEvent(one) for one in alone])
    composed = Pld().bound(event, delta=1e-6, scope=SCOPE).epsilon
    found = find_gaussian_epsilon(1e-6, average(z, h, step=step).mu)
    assert found == pytest.approx(composed, rel=1e-9)


@given(st.floats(0.05, 0.95), st.floats(0.2, 8.0), st.floats(0.1, 6.0))
def test_the_repaired_round_keeps_the_multiplier_and_the_printed_one_need_not(
    h: float, z: float, step: float
) -> None:
    repaired, printed = average(z, h), average(z, h, step=step, counts_clipped=True)
    assert 1 / repaired.mu >= z * (1 - 1e-12)
    assert 1 / printed.mu == pytest.approx(z / (step * math.sqrt(1 - h)))
    assert average(z, h, step=step).mu >= printed.mu


def test_the_share_counted_after_clipping_is_uninformative() -> None:
    printed = average(counts_clipped=True)
    assert (printed.compute_noiseless(np.concatenate([WORST, 1e6 * WORST]))[:, -1] == 1.0).all()
    first, second = printed.compute_noiseless(WORST)
    assert math.hypot(*((first - second) / printed.noise_scale)) == pytest.approx(printed.mu)
    assert printed.mu < average().mu


def test_without_the_share_the_vector_has_sensitivity_2s_over_m() -> None:
    printed = average(counts_clipped=True, h=0.36)
    alone = VectorGaussian(sigma=2 * BOUND * 0.8 / 0.8 / BATCH, clip=BOUND / BATCH, dimension=3)
    assert printed.noise_scale[0] == pytest.approx(alone.sigma)
    assert printed.delta(1.0) == pytest.approx(alone.delta(1.0))


def test_vectors_at_the_bound_count_as_unclipped() -> None:
    changes = np.array([[BOUND, 0, 0], [math.nextafter(BOUND, 9), 0, 0]])
    shares = average().compute_noiseless(changes)[:, -1]
    np.testing.assert_allclose(shares, [1.0, 1.0 - 1 / BATCH])


def get_histogram_law(epsilon: float, k: int, values: Sequence[int]) -> Counter[tuple[int, ...]]:
    """Probabilities of the counts of each report, for users with these values.

    The mechanism is k-ary randomized response: the true report is e^epsilon times as likely as any
    other.
    """
    law = Counter({(0,) * k: 1.0})
    for value in values:
        odds = np.where(np.arange(k) == value, math.exp(epsilon), 1.0)
        chances = odds / odds.sum()
        after: Counter[tuple[int, ...]] = Counter()
        for counts, before in law.items():
            for report, chance in enumerate(chances):
                more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                after[more] += before * chance
        law = after
    return law


@pytest.mark.parametrize("n_users", [1, 2, 30])
def test_shuffled_bits_have_the_distribution_of_their_count(n_users: int) -> None:
    ones = np.arange(n_users + 1)
    theirs = composed_mechanisms.Shuffled(1.3, n_users).log_prob(ones[:, None], [1.0, -1.0])
    for value, column in ((1, 0), (0, 1)):
        law = get_histogram_law(1.3, 2, (value, *(0,) * (n_users - 1)))
        mine = [math.log(law[n_users - count, count]) for count in ones]
        np.testing.assert_allclose(mine, theirs[:, column], rtol=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_clones_dominate_the_shuffle_of_any_others(epsilon: float) -> None:
    event = ShuffledDpEvent(epsilon, 6)
    proved = {d: Shuffle().bound(event, delta=d, scope=SCOPE).epsilon for d in (1e-4, 1e-2)}
    for others in itertools.combinations_with_replacement(range(3), 5):
        laws = [get_histogram_law(epsilon, 3, (value, *others)) for value in range(3)]
        for delta, bound in proved.items():
            for one, two in itertools.permutations(laws, 2):
                excess = sum(max(0.0, p - math.exp(bound) * two[key]) for key, p in one.items())
                assert excess <= delta * (1 + 1e-9)
