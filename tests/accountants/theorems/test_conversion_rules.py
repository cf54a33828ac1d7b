"""Tests of conversion rules against enumerated mechanisms; explicit pairs refute wrong rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.theorems.conversions import CompositionRule, GroupPrivacyRule

Law = NDArray[np.float64]
EPSILONS = st.floats(0.0, 3.0)
KINDS = (GroupPrivacyRule, CompositionRule)


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def either_way(p: Law, q: Law, epsilon: float) -> float:
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def response(epsilon: float) -> tuple[Law, Law]:
    """Distributions of randomized response on a bit."""
    truth = 1 / (1 + math.exp(-epsilon))
    return np.array([truth, 1 - truth]), np.array([1 - truth, truth])


def product(laws: list[Law]) -> Law:
    """Distribution of all outputs of independent mechanisms, by enumeration."""
    out = np.ones(1)
    for law in laws:
        out = np.outer(out, law).ravel()
    return out


@st.composite
def laws(draw: st.DrawFn, count: int) -> list[Law]:
    """Arbitrary distributions over a few outputs, some of which may be impossible."""
    size = draw(st.integers(2, 4))
    weights = st.lists(
        st.one_of(st.just(0.0), st.floats(0.01, 1)), min_size=size, max_size=size
    ).filter(lambda row: sum(row) > 0)
    rows = [np.array(draw(weights)) for _ in range(count)]
    return [row / row.sum() for row in rows]


@given(st.data(), st.integers(1, 4), EPSILONS)
def test_group_privacy_bounds_a_chain_of_changes(
    data: st.DataObject, size: int, epsilon: float
) -> None:
    """Each distribution of a chain is within (eps, delta) of the next, with the exact delta."""
    chain = data.draw(laws(size + 1))
    delta = max(either_way(p, q, epsilon) for p, q in itertools.pairwise(chain))
    if delta >= 1.0:
        return
    total, grown = GroupPrivacyRule(size).convert_to_whole(epsilon, delta)
    assert total == pytest.approx(size * epsilon)
    assert either_way(chain[0], chain[-1], total) <= grown + 1e-12


@given(st.integers(1, 6), EPSILONS)
def test_bits_flipped_together_have_exactly_the_group_epsilon(size: int, epsilon: float) -> None:
    """k randomized responses with all inputs changed attain k eps at delta 0."""
    zero, one = response(epsilon)
    p, q = product([zero] * size), product([one] * size)
    for rule in (GroupPrivacyRule(size), CompositionRule(size)):
        total, delta = rule.convert_to_whole(epsilon, 0.0)
        assert delta == 0.0
        assert either_way(p, q, total) <= 1e-12
        assert math.log(p.max() / q[p.argmax()]) == pytest.approx(total, abs=1e-9)


@given(st.data(), st.integers(1, 4), EPSILONS)
def test_compositions_are_bounded_by_sums(data: st.DataObject, count: int, epsilon: float) -> None:
    """The mechanisms differ, have finitely many outputs, and are each within (eps, delta)."""
    pairs = [data.draw(laws(2)) for _ in range(count)]
    delta = max(either_way(p, q, epsilon) for p, q in pairs)
    if delta >= 1.0:
        return
    total, grown = CompositionRule(count).convert_to_whole(epsilon, delta)
    p, q = (product([pair[world] for pair in pairs]) for world in (0, 1))
    assert either_way(p, q, total) <= grown + 1e-12


@given(st.integers(2, 8), st.floats(0.05, 3.0), st.sampled_from([1e-6, 1e-3, 0.1]))
def test_pure_epsilons_compose_optimally(count: int, epsilon: float, delta: float) -> None:
    """The exact epsilon of composed randomized responses is attained, and not exceeded."""
    zero, one = response(epsilon)
    p, q = product([zero] * count), product([one] * count)
    total, reached = CompositionRule(count, delta).convert_to_whole(epsilon, 0.0)
    assert reached == delta
    assert total <= count * epsilon
    assert hockey_stick(p, q, total) <= delta + 1e-12
    if total > 0:
        assert hockey_stick(p, q, total * (1 - 1e-6)) >= delta * (1 - 1e-5)
    # A part with its own delta is composed by sums.
    assert CompositionRule(count, delta).convert_to_whole(epsilon, 1e-9)[0] == count * epsilon


def staircase(size: int, epsilon: float, delta: float) -> list[Law]:
    """Worlds 0 to k in which one event has probability d (1 + e^eps + ...), with k to 0 terms."""
    event = [delta * sum(math.exp(j * epsilon) for j in range(size - i)) for i in range(size + 1)]
    return [np.array([p, 1 - p]) for p in event]


@given(st.integers(2, 5), st.floats(0.01, 1.0), st.floats(1e-6, 1e-3))
def test_the_delta_of_a_group_is_attained_and_exceeds_k_delta(
    size: int, epsilon: float, delta: float
) -> None:
    """One mechanism is (eps, delta) for one change, and attains the rule for every group size."""
    chain = staircase(size, epsilon, delta)
    for p, q in itertools.pairwise(chain):
        assert either_way(p, q, epsilon) <= delta * (1 + 1e-9)
    total, grown = GroupPrivacyRule(size).convert_to_whole(epsilon, delta)
    assert hockey_stick(chain[0], chain[-1], total) == pytest.approx(grown)
    assert grown > size * delta  # so that k delta would be wrong


@given(st.sampled_from(KINDS), st.integers(1, 4), EPSILONS, st.floats(1e-9, 0.5))
def test_narrowing_inverts_widening(kind: type, size: int, epsilon: float, delta: float) -> None:
    rule = kind(size)
    total, grown = rule.convert_to_whole(epsilon, delta)
    if grown < 1.0:
        back = rule.convert_to_single(total, grown)
        assert back == pytest.approx((epsilon, delta), rel=1e-9, abs=1e-300)
    assert rule.convert_to_single(total, 0.0) == pytest.approx((epsilon, 0.0))


@pytest.mark.parametrize(
    "rule", [GroupPrivacyRule(7), CompositionRule(7), CompositionRule(7, 1e-6)]
)
def test_extremes_print_and_do_not_crash(rule: GroupPrivacyRule | CompositionRule) -> None:
    assert rule.convert_to_whole(0.0, 0.0)[0] == 0.0
    assert rule.convert_to_whole(1e6, 0.0)[0] == pytest.approx(7e6)
    assert rule.convert_to_whole(math.inf, 0.0)[0] == math.inf
    assert rule.convert_to_whole(math.inf, 1e-5)[0] == math.inf
    assert GroupPrivacyRule(7).convert_to_whole(1e6, 1e-5) == (7e6, 1.0)
    assert GroupPrivacyRule(7).convert_to_whole(0.0, 1e-5) == pytest.approx((0.0, 7e-5))
    assert GroupPrivacyRule(7).convert_to_whole(1e-300, 1e-5)[1] == pytest.approx(7e-5)
    assert str(rule)


def test_invalid_counts_and_numbers_are_refused() -> None:
    for count in (0, -1, 1.5, True, math.nan):
        for kind in KINDS:
            with pytest.raises(InputError, match="whole number >= 1"):
                kind(count)
    for rule in (GroupPrivacyRule(2), CompositionRule(2)):
        for move in (rule.convert_to_whole, rule.convert_to_single):
            with pytest.raises(InputError, match="epsilon"):
                move(-1.0, 0.0)
            with pytest.raises(InputError, match="delta"):
                move(1.0, 1.0)
