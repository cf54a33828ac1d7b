"""Tests of the methods of accountants.

Optimal composition is compared with the loss accountant, which shares no code with it; accountants
with closed forms, each other, and the fault of dp-accounting; the Rényi accountant at the ends of
the doubles; and the clone bound with brute force over every small shuffle, and with its known
range.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
    ShuffledDpEvent,
)
from fedrec_auditor.accountants.losses import composition, pairs
from fedrec_auditor.accountants.losses.pairs import ClonePair, make_dominating_pair
from fedrec_auditor.accountants.losses.pure import ThreePointPair
from fedrec_auditor.accountants.methods import accounting_methods
from fedrec_auditor.accountants.methods.accounting_methods import Optimal, Pld, Pure, Rdp, Shuffle
from fedrec_auditor.accountants.statements import Adjacency
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from tests.contracts.events import SCOPE, gaussian, response, response_event


def cost(accountant: object, event: DpEvent, delta: float) -> float:
    return accountant.bound(event, delta=delta, scope=SCOPE).epsilon


@settings(max_examples=60)
@given(st.floats(0.001, 30), st.integers(1, 3000), st.floats(-12, -0.05).map(lambda x: 10**x))
def test_two_methods_agree_on_equal_responses(local: float, count: int, delta: float) -> None:
    event = SelfComposedDpEvent(PureDpEvent(local), count)
    opt, pld = (cost(Optimal(), event, delta), cost(Pld(), event, delta))
    assert opt == pytest.approx(pld, rel=1e-9, abs=1e-9)


def test_two_methods_agree_on_different_responses() -> None:
    event = ComposedDpEvent(
        [
            SelfComposedDpEvent(response_event(0.25), 500),
            SelfComposedDpEvent(PureDpEvent(1.0), 20),
            SelfComposedDpEvent(BitFlipDpEvent(0.6, 0.4), 30),
        ]
    )
    for delta in (1e-8, 1e-5, 1e-2):
        one, two = cost(Optimal(), event, delta), cost(Pld(), event, delta)
        assert one * (1 - 1e-9) <= two <= one * 1.001


def test_optimal_composition_ignores_shuffling() -> None:
    shuffled, alone = ShuffledDpEvent(1.5, 10_000), PureDpEvent(1.5)
    for delta in (0.0, 1e-6):
        assert cost(Optimal(), shuffled, delta) == cost(Optimal(), alone, delta)


def test_a_pure_epsilon_whose_exponential_overflows() -> None:
    event = SelfComposedDpEvent(PureDpEvent(1e5), 1000)
    assert cost(Optimal(), event, 0.0) == 1e8
    assert cost(Optimal(), event, 1e-6) == pytest.approx(1e8 + math.log1p(-1e-6), rel=1e-15)


def test_the_library_still_ignores_the_count_of_a_repeated_response() -> None:
    """If this fails, dp-accounting is repaired: update the docstring of ``Pld``."""
    one = RandomizedResponseDpEvent(0.5, 2)
    raw = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    assert raw.compose(SelfComposedDpEvent(one, 10)).get_epsilon(1e-6) == pytest.approx(
        math.log(3), abs=1e-3
    )
    ours = cost(Pld(), SelfComposedDpEvent(one, 10), 1e-6)
    assert ours == pytest.approx(response(math.log(3))(10, 1e-6), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize(("local", "count"), [(0.01, 2000), (0.25, 2000), (2.5, 2000), (8.0, 3)])
def test_responses_equal_the_exact_binomial_sum(local: float, count: int, delta: float) -> None:
    event = SelfComposedDpEvent(response_event(local), count)
    truth = response(local)(count, delta)
    assert cost(Pld(), event, delta) == pytest.approx(truth, rel=1e-9, abs=1e-9)


def test_the_grid_agrees_with_the_exact_path_from_above() -> None:
    """A second kind of leaf with epsilon 0 puts the same responses on the grid."""
    weak = RandomizedResponseDpEvent(1.0, 2)
    for delta in (1e-8, 1e-6, 1e-3):
        responses = SelfComposedDpEvent(response_event(0.25), 2000)
        truth = response(0.25)(2000, delta)
        grid = cost(Pld(), ComposedDpEvent([responses, weak]), delta)
        assert truth - 1e-9 <= grid <= truth * 1.001


def test_opposite_flips_are_dominated() -> None:
    """The reference enumerates bits flipped in one direction and in the opposite one, together."""
    p, q, each = 0.7, 0.05, 3
    up, down = np.array([1 - p, p]), np.array([1 - q, q])
    laws = []
    for first, second in ((up, down), (down, up)):
        law = np.ones(1)
        for one in [first] * each + [second] * each:
            law = np.outer(law, one).ravel()
        laws.append(law)
    for delta in (1e-4, 0.01, 0.2):
        bound = cost(Pld(), SelfComposedDpEvent(BitFlipDpEvent(p, q), 2 * each), delta)
        assert np.maximum(laws[0] - math.exp(bound) * laws[1], 0).sum() <= delta + 1e-12


@pytest.mark.parametrize(("p", "q"), [(0.7, 0.2), (0.2, 0.7), (0.9, 0.3), (1.0, 0.4), (0.3, 0.3)])
def test_the_three_point_pair_is_the_larger_of_both_directions(p: float, q: float) -> None:
    pair = ThreePointPair.from_event(BitFlipDpEvent(p, q))
    rest = pair.p_uninformative
    for a in np.geomspace(1e-3, 1e3, 61):
        ours = sum(
            max(0.0, x - a * y)
            for x, y in ((pair.p_own, pair.p_other), (rest, rest), (pair.p_other, pair.p_own))
        )
        both = [max(0.0, x - a * y) + max(0.0, 1 - x - a * (1 - y)) for x, y in ((p, q), (q, p))]
        assert ours == pytest.approx(max(both), abs=1e-12)


def test_the_asymmetric_flip_is_proved_from_its_leak_probability() -> None:
    flip = BitFlipDpEvent(1.0, math.exp(-1))
    disclosed = 1 - math.exp(-1)
    assert math.isinf(cost(Pld(), flip, disclosed - 1e-9))
    assert cost(Pld(), flip, disclosed + 1e-9) == 0.0


def test_accountants_bound_the_sampled_events_they_support() -> None:
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    able = []
    for noise in (GaussianDpEvent(2.0), LaplaceDpEvent(2.0), RandomizedResponseDpEvent(0.5, 2)):
        event = PoissonSampledDpEvent(0.1, noise)
        accountants = [a for a in (Pure(), Pld(), Rdp()) if a.supports(event)]
        able.append([type(a) for a in accountants])
        for accountant in accountants:
            assert 0 < accountant.bound(event, delta=1e-5, scope=scope).epsilon < math.inf
    assert able == [[Pld], [Pld], [Pld]]


def test_the_gaussian_reference_equals_its_integral() -> None:
    """The reference curve is compared with the definition, integrated numerically."""
    eps, x = 1.3, np.linspace(-12, 13, 400_001)
    p, q = stats.norm.pdf(x, 1), stats.norm.pdf(x)
    delta = float(np.maximum(p - math.exp(eps) * q, 0).sum() * (x[1] - x[0]))
    assert gaussian(1.0)(1, delta) == pytest.approx(eps, abs=1e-6)


@pytest.mark.parametrize("local", [0.3, 2.0, 50.0])
def test_a_sampled_pure_epsilon_has_its_closed_form_at_delta_0(local: float) -> None:
    """ln(1 + q (e^eps - 1)): Balle, Barthe and Gaboardi 2018, at delta 0."""
    pure = PureDpEvent(local)
    for event, adjacency in (
        (PoissonSampledDpEvent(0.1, pure), Adjacency.ADD_REMOVE),
        (SampledWithoutReplacementDpEvent(50, 5, pure), Adjacency.REPLACE),
    ):
        scope = replace(SCOPE, adjacency=adjacency)
        at_zero = Pld().bound(event, delta=0.0, scope=scope).epsilon
        assert at_zero == pytest.approx(math.log(1 + 0.1 * math.expm1(local)), rel=1e-12)
        tiny = Pld().bound(event, delta=1e-14, scope=scope).epsilon
        assert at_zero - 1e-6 <= tiny <= at_zero


@pytest.mark.parametrize(
    "event",
    [
        RandomizedResponseDpEvent(1.0, 2),
        RandomizedResponseDpEvent(0.4, 5),
        BitFlipDpEvent(0.3, 0.3),
        BitFlipDpEvent(1.0, 0.4),
        PureDpEvent(0.0),
        PureDpEvent(2e3),
        LaplaceDpEvent(0.7),
        GaussianDpEvent(0.7),
    ],
)
def test_the_pair_of_every_leaf_has_masses_of_1(event: DpEvent) -> None:
    """Masses under P and under Q sum to 1, also for every kind of sampling."""
    edges = np.concatenate([[-np.inf], np.linspace(-3e3, 3e3, 6001), [np.inf]])
    seen = [event, RevealedSamplingDpEvent(0.3, event), PoissonSampledDpEvent(0.3, event)]
    for one in (*seen, SampledWithoutReplacementDpEvent(10, 3, event)):
        pair = make_dominating_pair(one)
        log_p, log_q = pair.bin_losses(edges)
        assert np.exp(log_p).sum() + pair.infinite_mass == pytest.approx(1, abs=1e-12)
        told_by_q = 0.0 if isinstance(pair, pairs.PoissonSamplePair) else pair.infinite_mass
        assert np.exp(log_q).sum() + told_by_q == pytest.approx(1, abs=1e-12)


def test_a_sampled_one_sided_flip_equals_its_enumeration() -> None:
    """Only a user with a one reports a one: the outcomes of four Poisson samples are enumerated."""
    rate, q, uses = 0.3, 0.4, 4
    holds, lacks = np.array([1.0, 0.0]), np.array([q, 1 - q])
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, BitFlipDpEvent(1.0, q)), uses)
    for one, other in ((holds, lacks), (lacks, holds)):
        mixed = (1 - rate) * other + rate * one
        law, twin = np.ones(1), np.ones(1)
        for _ in range(uses):
            law, twin = np.outer(law, mixed).ravel(), np.outer(twin, other).ravel()
        for delta in (0.01, 0.5, 0.6, 0.7):
            found = Pld().bound(event, delta=delta, scope=scope).epsilon
            for p, r in ((law, twin), (twin, law)):
                told = np.maximum(p - math.exp(min(found, 700)) * r, 0)
                assert math.isinf(found) or told.sum() <= delta + 1e-9


@pytest.mark.parametrize(
    ("each", "count", "delta", "truth"),
    [
        (1.0, 10**5, 1e-6, 47540.251660494513),
        (0.1, 10**5, 1e-6, 648.74373620044062),
        (0.01, 10**5, 1e-9, 23.406220450743824),
    ],
)
def test_rounding_of_log_factorials_is_included(
    each: float, count: int, delta: float, truth: float
) -> None:
    """The reference has 40 digits."""
    found = cost(Pld(), SelfComposedDpEvent(PureDpEvent(each), count), delta)
    assert truth <= found <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize("noise", [1e-3, 1e-4, 1e-6])
def test_tiny_noise_with_sampling_fits_into_memory(noise: float) -> None:
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(noise))
    scope = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
    found = Pld().bound(event, delta=1e-3, scope=scope).epsilon
    assert 0.5 / noise**2 < found < 0.6 / noise**2
    assert Pld().bound(event, delta=0.5, scope=scope).epsilon == 0.0


def test_hidden_sampling_is_a_stated_assumption() -> None:
    noise = GaussianDpEvent(2.0)
    hidden = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, noise), 3)
    for event, is_stated in (
        (hidden, True),
        (noise, False),
        (RevealedSamplingDpEvent(0.1, noise), False),
    ):
        bound = Pld().bound(event, delta=1e-5, scope=replace(SCOPE, adjacency=Adjacency.ADD_REMOVE))
        assert any("who was sampled" in line for line in bound.assumptions) is is_stated


def test_a_fixed_sample_states_its_number_of_candidates() -> None:
    """A user who knows that they were not sampled has one candidate fewer."""
    event = SampledWithoutReplacementDpEvent(942, 30, GaussianDpEvent(2.0))
    bound = Pld().bound(event, delta=1e-5, scope=replace(SCOPE, adjacency=Adjacency.REPLACE))
    assert bound.assumptions == ("the adversary does not learn who of 942 candidates was sampled",)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-8, 1e-4, 0.5, 5.0, 36.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6])
def test_small_divergences_are_not_rounded_to_0(epsilon: float, delta: float) -> None:
    flip = BitFlip.symmetric(epsilon)
    lower = find_exact_bound(flip, REPORT_SCOPE, delta).epsilon
    upper = Rdp().bound(flip.event(), delta=delta, scope=REPORT_SCOPE).epsilon
    assert upper >= lower
    assert upper <= lower + 1e-3


def compute_moment(log_density: Callable[[float], float], order: float) -> float:
    """E_Q[(P/Q)^order] for noise of this density around 1 and around 0, by quadrature."""

    def weighted(x: float) -> float:
        return math.exp(order * log_density(x - 1.0) + (1.0 - order) * log_density(x))

    ends = [-120.0, 0.0, 1.0, order, 120.0]
    return sum(
        integrate.quad(weighted, low, high, limit=200, epsrel=1e-11)[0]
        for low, high in itertools.pairwise(ends)
    )


def sum_moment(order: float, *chances: tuple[float, float]) -> float:
    """E_Q[(P/Q)^order] over outputs, for the order of the two inputs with the larger moment."""
    return max(
        sum(p**order * q ** (1 - order) for p, q in each)
        for each in (chances, [(q, p) for p, q in chances])
    )


@pytest.mark.parametrize("order", [1.001, 1.3, 2.0, 7.5, 15.0])
def test_renyi_curves_equal_their_integrals(order: float) -> None:
    """Each curve equals the moment of the worst pair, for one use of each kind."""
    truth = 1 / (1 + math.exp(-1.2))
    seen = {
        LaplaceDpEvent(0.8): compute_moment(stats.laplace(scale=0.8).logpdf, order),
        LaplaceDpEvent(3.0): compute_moment(stats.laplace(scale=3.0).logpdf, order),
        GaussianDpEvent(1.3): compute_moment(stats.norm(scale=1.3).logpdf, order),
        RandomizedResponseDpEvent(0.4, 4): sum_moment(order, (0.7, 0.1), (0.1, 0.7), (0.2, 0.2)),
        PureDpEvent(1.2): sum_moment(order, (truth, 1 - truth), (1 - truth, truth)),
        BitFlipDpEvent(0.6, 0.4): sum_moment(order, (0.6, 0.4), (0.4, 0.6)),
    }
    for event, expected in seen.items():
        found = accounting_methods._renyi_curve(event, np.array([order]))[0]
        assert found == pytest.approx(math.log(expected) / (order - 1), rel=1e-6), event


Law = dict[tuple, float]
FEW, MANY = ShuffledDpEvent(1.0, 100, True), ShuffledDpEvent(2.0, 2000, True)


def bound_shuffle(local: float, users: int, times: int, delta: float, binary: bool = True) -> float:
    event = SelfComposedDpEvent(ShuffledDpEvent(local, users, binary), times)
    return Shuffle().bound(event, delta=delta, scope=SCOPE).epsilon


def report(epsilon: float, vector: tuple[float, ...]) -> Law:
    """Distribution of (coordinate, bit), from Minto et al. 2021, Algorithm 1, line 5."""
    d, e = len(vector), math.exp(epsilon)
    law: Law = {}
    for c, v in enumerate(vector):
        one = (v * (e - 1) + e + 1) / (2 * e + 2)
        law[(c, 1)], law[(c, 0)] = one / d, (1 - one) / d
    return law


def shuffle(laws: list[Law]) -> Law:
    """Distribution of the multiset of all reports, by enumeration."""
    total: Law = defaultdict(float)
    for outputs in itertools.product(*laws):
        total[tuple(sorted(outputs))] += math.prod(
            law[o] for law, o in zip(laws, outputs, strict=True)
        )
    return total


def divergence(p: Law, q: Law, epsilon: float) -> float:
    return sum(max(0.0, v - math.exp(epsilon) * q.get(o, 0.0)) for o, v in p.items())


def pair_delta(pair: ClonePair, epsilon: float) -> float:
    listed = pair.make_array_pair()
    leaks = -np.expm1(np.minimum(epsilon - listed.losses, 0.0))
    return float(np.exp(listed.log_p) @ leaks) + pair.infinite_mass


@pytest.mark.parametrize("local", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(("users", "dimension"), [(1, 1), (2, 1), (4, 1), (6, 1), (2, 2), (3, 2)])
def test_clones_dominate_every_shuffle_of_bits(local: float, users: int, dimension: int) -> None:
    """Enumerates every pair of corners of one user, and all corners and 0 of the other users."""
    corners = list(itertools.product([-1.0, 1.0], repeat=dimension))
    inner = [*corners, (0.0,) * dimension]
    best = dict.fromkeys((0.0, 0.2, 0.7, 1.5, 2.4), 0.0)
    for others in itertools.combinations_with_replacement(inner, users - 1):
        rest = [report(local, v) for v in others]
        worlds = [shuffle([report(local, v), *rest]) for v in corners]
        for p, q in itertools.permutations(worlds, 2):
            for eps in best:
                best[eps] = max(best[eps], divergence(p, q, eps))
    for eps, reached in best.items():
        bound = pair_delta(ClonePair(local, users, binary=True), eps)
        assert bound >= reached - 1e-12
        assert pair_delta(ClonePair(local, users), eps) >= bound - 1e-12
    if users == 1:
        assert pair_delta(ClonePair(local, users, binary=True), 0.2) == pytest.approx(best[0.2])


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=3, max_size=3),
    st.sampled_from([0.5, 1.5]),
)
def test_the_general_clone_pair_dominates_random_shuffles(
    levels: list[list[float]], local: float
) -> None:
    """Distributions are random and e^eps-close over three outputs; three users, one per input."""
    # Rows within [1, e^(eps/2)] before normalization are within e^eps of each other after it.
    weights = np.exp(np.array(levels) * local / 2)
    laws = [dict(zip([(0,), (1,), (2,)], row / row.sum(), strict=True)) for row in weights]
    for first, second in itertools.permutations(laws, 2):
        p, q = (shuffle([law, laws[2], laws[0]]) for law in (first, second))
        for eps in (0.0, 0.1, 0.4):
            assert pair_delta(ClonePair(local, 3), eps) >= divergence(p, q, eps) - 1e-12


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.floats(0.05, 3.0),
    st.data(),
    st.sampled_from([0.3, 1e-2, 1e-4]),
)
def test_the_bound_is_above_small_shuffles_of_responses(
    users: int, times: int, local: float, data: st.DataObject, delta: float
) -> None:
    """The reference is the exact divergence of composed shuffles of up to four users."""
    p: Law = {(): 1.0}
    q: Law = {(): 1.0}
    for _ in range(times):
        rest = [report(local, (v,)) for v in data.draw(corners(users - 1))]
        one, two = (shuffle([report(local, (v,)), *rest]) for v in (1.0, -1.0))
        p, q = (
            {(*a, b): x * y for a, x in old.items() for b, y in new.items()}
            for old, new in ((p, one), (q, two))
        )
    for binary in (True, False):
        bound = bound_shuffle(local, users, times, delta, binary)
        assert max(divergence(p, q, bound), divergence(q, p, bound)) <= delta + 1e-12


def corners(count: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.sampled_from([1.0, -1.0]), min_size=count, max_size=count)


def test_a_composition_is_computed_once() -> None:
    composition._cached.cache_clear()
    for _ in range(3):
        for events in ([FEW, MANY], [MANY, FEW]):
            Shuffle().bound(ComposedDpEvent(events), delta=1e-6, scope=SCOPE)
    assert composition._cached.cache_info().misses == 1


def clear_caches() -> None:
    composition._cached.cache_clear()
    pairs._tabulate_clones.cache_clear()


@pytest.mark.parametrize(
    ("local", "users", "binary"),
    [(2.5, 100_000, True), (1.0, 20_000, False), (0.1, 10_000, True), (2.5, 1_000, True)],
)
def test_rounding_clones_raises_epsilon_slightly(
    local: float, users: int, binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with every number of clones, epsilon is not less, and at most 1e-3 larger."""
    pair = ClonePair(local, users, binary)
    shares = (0.0, 0.1, 0.3, 0.6)
    coarse = bound_shuffle(local, users, 5, 1e-6, binary)
    found = [pair_delta(pair, share * coarse) for share in shares]
    monkeypatch.setattr(pairs, "_COARSE", 0.0)
    clear_caches()
    exact = [pair_delta(pair, share * coarse) for share in shares]
    assert all(more >= less - 1e-12 for more, less in zip(found, exact, strict=True))
    fine = bound_shuffle(local, users, 5, 1e-6, binary)
    clear_caches()
    assert fine * (1 - 1e-5) <= coarse <= fine * (1 + 1e-3)


@pytest.mark.parametrize(
    "users", [10**6, 10**15, pytest.param(10**9, marks=pytest.mark.calibration)]
)
@pytest.mark.parametrize("times", [1, 5, 2000])
def test_shuffling_millions_lowers_epsilon(users: int, times: int) -> None:
    """Epsilon still falls with the number of users, up to 10^10 users."""
    found = bound_shuffle(2.5, users, times, 1e-6)
    assert 0.0 < found < bound_shuffle(2.5, 100_000, times, 1e-6)


def test_the_clone_pair_has_masses_of_1() -> None:
    for local, users, binary in ((2.5, 943, True), (0.1, 50, False), (4.0, 100_000, True)):
        pair = ClonePair(local, users, binary).make_array_pair()
        mass, loss = np.exp(pair.log_p), pair.losses
        assert mass.sum() == pytest.approx(1.0, abs=1e-11)
        assert (mass * np.exp(-loss)).sum() == pytest.approx(1.0, abs=1e-11)
        assert np.abs(loss).max() <= local + 1e-12
        assert 0 < ClonePair(local, users, binary).infinite_mass < 1e-15


def test_more_than_a_million_shuffles_are_near_their_mean_loss() -> None:
    """The bound is a few per cent above the mean loss, which dominates."""
    composed = bound_shuffle(1.0, 100, 3000, 1e-6)
    found = bound_shuffle(1.0, 100, 10**9, 1e-6)
    assert found > 10**5 * composed / 3
    pair = ClonePair(1.0, 100, True).make_array_pair()
    mean = 10**9 * float(np.exp(pair.log_p) @ pair.losses)
    assert mean <= found <= 1.1 * mean


@pytest.mark.parametrize("binary", [True, False])
def test_shuffling_never_raises_epsilon_and_users_lower_it(binary: bool) -> None:
    bounds = [bound_shuffle(2.5, users, 200, 1e-6, binary) for users in (1, 2, 30, 1000, 30_000)]
    assert all(a >= b for a, b in itertools.pairwise(bounds))
    assert bounds[0] <= 500.0
    assert bound_shuffle(2.5, 1000, 200, 0.0, binary) == 500.0
    assert bound_shuffle(2.5, 1000, 200, 1e-6, True) <= bound_shuffle(2.5, 1000, 200, 1e-6, False)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("local", [499.0, 501.0, 800.0])
def test_shuffling_does_not_help_at_huge_epsilon(local: float, binary: bool) -> None:
    assert bound_shuffle(local, 1000, 20, 1e-6, binary) == pytest.approx(20 * local)


def test_different_shuffles_compose() -> None:
    def bound(*events: ShuffledDpEvent) -> float:
        event = SelfComposedDpEvent(ComposedDpEvent(list(events)), 50)
        return Shuffle().bound(event, delta=1e-6, scope=SCOPE).epsilon

    assert max(bound(FEW), bound(MANY)) < bound(FEW, MANY) < bound(FEW) + bound(MANY)
