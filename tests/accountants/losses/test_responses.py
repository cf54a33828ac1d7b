"""Tests of composed responses against enumeration in exact arithmetic, and of the grid."""

from __future__ import annotations

import math
import time

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.losses import responses as _responses
from fedrec_auditor.accountants.losses.pure import EpsilonCounts
from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons

EPSILONS = st.floats(-7, 4.5).map(math.exp)
DELTAS = st.one_of(st.floats(-300, -0.01).map(lambda x: 10.0**x), st.floats(1e-6, 0.999))


def draw_kinds(most_kinds: int, most_uses: int) -> st.SearchStrategy[EpsilonCounts]:
    kind_and_uses = st.tuples(EPSILONS, st.integers(1, most_uses))
    return st.lists(
        kind_and_uses, min_size=1, max_size=most_kinds, unique_by=lambda kind: kind[0]
    ).map(lambda kinds: tuple(sorted(kinds)))


def slow_truth(kinds: EpsilonCounts, delta: float) -> float:
    """Largest ln((P(S) - delta)/Q(S)) over leading sets of numbers of flips, in 400 digits."""
    with mpmath.workdps(400):
        laws = [(mpmath.mpf(1), mpmath.mpf(0))]
        for epsilon, count in kinds:
            truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
            law = [
                (
                    mpmath.binomial(count, lies) * (1 - truth) ** lies * truth ** (count - lies),
                    (count - 2 * lies) * mpmath.mpf(epsilon),
                )
                for lies in range(count + 1)
            ]
            laws = [(m * n, x + y) for m, x in laws for n, y in law]
        p = q = least = mpmath.mpf(0)
        for mass, loss in sorted(laws, key=lambda pair: -pair[1]):
            p += mass
            q += mass * mpmath.exp(-loss)
            if p > delta:
                least = max(least, mpmath.log((p - mpmath.mpf(delta)) / q))
        return float(least)


@settings(max_examples=25)
@given(draw_kinds(3, 5), DELTAS)
def test_few_responses_equal_their_enumeration(kinds: EpsilonCounts, delta: float) -> None:
    truth = slow_truth(kinds, delta)
    found = compose_pure_epsilons(kinds, delta)
    assert found >= truth * (1 - 1e-12) - 1e-14
    assert found <= truth + 1e-9 * max(1.0, truth)


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-3, 0.9])
@pytest.mark.parametrize(("epsilon", "count"), [(0.02, 400), (1.0, 300), (9.0, 150)])
def test_many_responses_equal_their_enumeration(epsilon: float, count: int, delta: float) -> None:
    kinds = ((epsilon, count),)
    assert compose_pure_epsilons(kinds, delta) == pytest.approx(slow_truth(kinds, delta), rel=1e-10)


@settings(max_examples=25)
@given(draw_kinds(3, 60), DELTAS)
def test_the_grid_is_slightly_above_the_enumeration(kinds: EpsilonCounts, delta: float) -> None:
    exact = compose_pure_epsilons(kinds, delta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_responses, "_MOST_TOGETHER", 0)
        grid = compose_pure_epsilons.__wrapped__(kinds, delta)
    assert exact * (1 - 1e-12) - 1e-12 <= grid
    assert grid <= exact * (1 + 1e-5) + 1e-5


@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-6])
def test_epsilon_may_be_below_the_losses_of_a_window(delta: float) -> None:
    kinds = ((math.exp(-1), 1), (math.exp(4), 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_responses, "_MOST_TOGETHER", 0)
        grid = compose_pure_epsilons.__wrapped__(kinds, delta)
    assert grid == pytest.approx(slow_truth(kinds, delta), rel=1e-6)


@settings(max_examples=20)
@given(EPSILONS, st.integers(1, 10**7), DELTAS)
def test_chernoff_bounds_are_above_exact_ones(epsilon: float, count: int, delta: float) -> None:
    exact = compose_pure_epsilons(((epsilon, count),), delta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_responses, "_MOST_ALONE", 0)
        rough = compose_pure_epsilons.__wrapped__(((epsilon, count),), delta)
    assert exact * (1 - 1e-12) - 1e-12 <= rough <= epsilon * count * (1 + 1e-12)


def test_two_kinds_of_nearly_one_epsilon_equal_one_kind() -> None:
    """The two numbers are computed differently: different kinds are enumerated, or on the grid."""
    for count in (400, 40_000):
        whole = compose_pure_epsilons(((0.5, 2 * count),), 1e-7)
        halves = compose_pure_epsilons(((0.5, count), (0.5 + 1e-13, count)), 1e-7)
        assert halves == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize(
    "kinds",
    [
        ((60.0, 10**6),),
        ((1e5, 10**3),),
        ((1e-9, 5),),
        ((0.1, 10**10),),
        ((0.1, 10**15),),
        tuple((0.01 * i, 1) for i in range(1, 1001)),
        ((1e-6, 10**9), (0.1, 77), (60.0, 100)),
        ((1e-3, 10**6), (60.0, 10**6)),
    ],
    ids=lambda kinds: f"{len(kinds)} kinds, {kinds[0]}",
)
def test_extremes_are_finite_fast_and_below_the_sum(kinds: EpsilonCounts) -> None:
    for delta in (1e-300, 1e-6, 0.5):
        started = time.process_time()
        found = compose_pure_epsilons(kinds, delta)
        assert time.process_time() - started < 2.0
        assert 0 <= found <= math.fsum(e * n for e, n in kinds)


def test_the_ends_of_delta() -> None:
    kinds = ((0.3, 4), (2.0, 3))
    assert compose_pure_epsilons(kinds, 0.0) == pytest.approx(7.2)
    assert compose_pure_epsilons(kinds, 1 - 1e-12) == 0.0
    assert compose_pure_epsilons((), 0.1) == 0.0
    assert math.isinf(compose_pure_epsilons(((math.inf, 1),), 0.5))


@pytest.mark.parametrize(
    ("count", "left", "truth"),
    [(1000, 1e-9, 287.8291479587296), (1000, 1e-12, 257.224277641), (10**5, 1e-12, 44230.6469416)],
)
def test_bounds_at_a_delta_near_1_are_upper_bounds(count: int, left: float, truth: float) -> None:
    """The references have 40 digits, for responses of epsilon 1 at delta = 1 - left."""
    assert compose_pure_epsilons(((1.0, count),), 1.0 - left) >= truth


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
@pytest.mark.parametrize("count", [10**11, 10**14, 10**16, 10**18, 10**20])
def test_huge_numbers_of_uses_are_near_the_normal_approximation(epsilon: float, count: int) -> None:
    """Chernoff's bound would be half a deviation larger."""
    deviation = math.sqrt(count) * epsilon / math.cosh(epsilon / 2.0)
    normal = count * epsilon * math.tanh(epsilon / 2.0) + 4.753424 * deviation
    found = compose_pure_epsilons(((epsilon, count),), 1e-6)
    assert 0.4 < (found - normal) / deviation < 0.6
