"""Tests of exact lower bounds, against a slow double loop over the definition."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Horizon, Side, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.exact import compute_delta, find_exact_bound
from fedrec_auditor.targets.mechanisms.base import Mechanism, WorstCase
from fedrec_auditor.targets.mechanisms.composed_mechanisms import (
    Identity,
    Product,
    Repeated,
    Shuffled,
)
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from tests.auditor.exact.densities import assert_least, draw_tables, slow_delta, slow_epsilon
from tests.contracts.events import response

SCOPE = make_local_scope(Unit.BIT, Vantage.SERVER, Horizon.REPORT)


@dataclass(frozen=True)
class Table:
    """A mechanism given by its probabilities, inputs by outputs."""

    law: Any
    copies: int = 1

    def log_prob(self, output: np.ndarray, value: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.array(self.law))[value, output]

    def worst_case(self) -> WorstCase:
        return WorstCase(
            inputs=np.arange(len(self.law)),
            outputs=np.arange(len(self.law[0])),
            n_copies=self.copies,
            exhaustive=True,
        )


@given(draw_tables(), st.integers(1, 1000))
def test_the_largest_log_ratio_equals_the_double_loop(law: np.ndarray, copies: int) -> None:
    bound = find_exact_bound(Table(law, copies), SCOPE)
    assert bound.epsilon == pytest.approx(copies * slow_epsilon(law), abs=1e-9)
    assert (bound.side, bound.confidence, bound.samples) == (Side.LOWER, 1.0, None)
    witness = bound.witness
    a, b, o = int(witness.input_a), int(witness.input_b), int(witness.output)
    assert witness.probability_a == pytest.approx(law[a][o])
    assert witness.probability_b == pytest.approx(law[b][o])
    assert witness.copies == copies
    if 0 < bound.epsilon < math.inf:
        ratio = math.log(witness.probability_a / witness.probability_b)
        assert copies * ratio == pytest.approx(bound.epsilon)


@given(draw_tables(), st.floats(0, 5))
def test_the_hockey_stick_equals_the_double_loop(law: np.ndarray, epsilon: float) -> None:
    assert compute_delta(Table(law), epsilon) == pytest.approx(slow_delta(law, epsilon), abs=1e-12)


@given(draw_tables(), st.floats(1e-6, 0.999))
def test_epsilon_at_delta_is_the_smallest_valid(law: np.ndarray, delta: float) -> None:
    assert_least(find_exact_bound(Table(law), SCOPE, delta).epsilon, law, delta)


def test_the_asymmetric_flip_is_refuted_by_an_uploaded_zero() -> None:
    flip = BitFlip.asymmetric(1.0)
    bound = find_exact_bound(flip, SCOPE)
    assert math.isinf(bound.epsilon)
    witness = bound.witness
    assert (witness.input_a, witness.input_b, witness.output) == (
        "a bit whose true value is 0",
        "a bit whose true value is 1",
        "the uploaded bit is 0",
    )
    assert witness.probability_b == 0.0
    assert "never gives" in witness.note
    assert compute_delta(flip, 1.0) == pytest.approx(1 - math.exp(-1))


def test_a_claim_that_holds_with_equality_survives_rounding() -> None:
    for epsilon in np.linspace(0.05, 5, 200):
        delta = 1 - math.exp(-epsilon)
        assert find_exact_bound(BitFlip.asymmetric(epsilon), SCOPE, delta).epsilon <= epsilon
        less = find_exact_bound(BitFlip.asymmetric(epsilon), SCOPE, delta - 1e-9)
        assert math.isinf(less.epsilon)
    for p, q, copies in ((0.75, 0.087, 100), (0.9, 0.4, 7), (0.51, 0.5, 1000)):
        flips = Repeated(BitFlip(p, q), copies)
        for epsilon in (0.3, 1.0, 3.0):
            found = find_exact_bound(flips, SCOPE, compute_delta(flips, epsilon)).epsilon
            assert found <= epsilon + 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 8.0])
def test_sound_mechanisms_reach_their_epsilon_exactly(epsilon: float) -> None:
    width = 3.0
    for mechanism, times in (
        (BitFlip.symmetric(epsilon), 1),
        (OneCoordinate(epsilon, 7), 1),
        (Laplace(scale=width / epsilon, low=-1, high=2), 1),
        (Product(BitFlip.symmetric(epsilon), 1682), 1682),
        (Repeated(OneCoordinate(epsilon, 7), 2000), 2000),
        (Repeated(Product(BitFlip.symmetric(epsilon), 3), 5), 15),
    ):
        assert find_exact_bound(mechanism, SCOPE).epsilon == pytest.approx(times * epsilon)


def test_no_epsilon_holds_for_gaussian_noise_or_none_at_all() -> None:
    noise = Gaussian(sigma=1.0, low=0, high=1)
    for mechanism in (noise, Identity(), Product(noise, 4)):
        assert math.isinf(find_exact_bound(mechanism, SCOPE).epsilon)
    assert find_exact_bound(noise, SCOPE).witness is None


def test_densities_without_a_curve_have_no_finite_sum_at_delta() -> None:
    with pytest.raises(InputError, match="finitely many outputs"):
        find_exact_bound(Product(Laplace(scale=1.0, low=0, high=1), 2), SCOPE, 0.01)


RATES = st.sampled_from([0.0, 0.001, 0.1, 0.375, 0.5, 0.625, 0.875, 0.9, 1.0])
KINDS = st.sampled_from(
    [
        lambda flip: Repeated(flip, 2),
        lambda flip: Repeated(flip, 6),
        lambda flip: Product(flip, 3),
        lambda flip: Product(flip, 5),
        lambda flip: Repeated(Product(flip, 3), 2),
        lambda flip: Product(Repeated(flip, 2), 3),
        lambda flip: Product(Product(flip, 2), 2),
    ]
)


def _joint_distribution(mechanism: Mechanism) -> np.ndarray:
    """Probabilities of all outputs under every input of bits (inputs by outputs)."""

    def vectors(shape: tuple[int, ...]) -> np.ndarray:
        flat = list(itertools.product([0, 1], repeat=math.prod(shape)))
        return np.array(flat).reshape(-1, *shape)

    inputs, outputs = vectors(mechanism.domain.shape), vectors(mechanism.output_shape)
    place = inputs.ndim - len(mechanism.domain.shape)
    return np.exp(mechanism.log_prob(outputs[None], np.expand_dims(inputs, place)))


@given(RATES, RATES, KINDS, st.floats(0, 3))
def test_the_curve_of_bit_vectors_is_that_of_the_worst_pair(
    p: float, q: float, kind: Callable[[BitFlip], Mechanism], epsilon: float
) -> None:
    """The reference is the maximum over all pairs, also those whose entries differ both ways."""
    mechanism = kind(BitFlip(p, q))
    law = _joint_distribution(mechanism)
    slow = np.maximum(law[:, None] - math.exp(epsilon) * law[None], 0.0).sum(axis=-1).max()
    assert compute_delta(mechanism, epsilon) == pytest.approx(slow, abs=1e-13)
    if 1e-9 < slow < 1:
        assert find_exact_bound(mechanism, SCOPE, slow).epsilon <= epsilon + 1e-9
        above = find_exact_bound(mechanism, SCOPE, slow * (1 - 1e-6)).epsilon
        assert above >= epsilon * (1 - 1e-9)


def test_the_worst_vectors_of_asymmetric_bits_differ_either_way() -> None:
    flips = Product(BitFlip(0.875, 0.375), 3)
    assert compute_delta(flips, 0.0) == pytest.approx(0.703125)
    one_way = compute_delta(Repeated(BitFlip(0.875, 0.375), 3), 0.0)
    assert one_way == pytest.approx(0.640625)
    bound = find_exact_bound(flips, SCOPE, 0.66)
    assert bound.epsilon > 0 == find_exact_bound(Repeated(flips.mechanism, 3), SCOPE, 0.66).epsilon
    assert "exchanged in 1 of 3" in bound.witness.note


def test_millions_of_fair_coins_have_epsilon_0() -> None:
    coins = Repeated(BitFlip(0.5, 0.5), 2**20 + 1)
    assert find_exact_bound(coins, SCOPE, 1e-3).epsilon == 0.0


def test_bounds_that_are_not_exact_are_not_called_exact() -> None:
    long = Product(BitFlip(0.7, 0.2), 4000)
    assert "lower bound" in find_exact_bound(long, SCOPE, 1e-6).source
    near, far = np.array([math.e, 1.0]) / (math.e + 2.0)  # outputs 0 and 1 of the three are merged
    unlike = Product(Table(((near + far, far), (near + far, far), (2 * far, near))), 4)
    assert "lower bound" in find_exact_bound(unlike, SCOPE, 1e-6).source
    for mechanism in (long, unlike):
        with pytest.raises(InputError, match="copies"):
            compute_delta(mechanism, 1.0)
    for mechanism in (
        Product(BitFlip.asymmetric(1e-3), 10**5),
        Product(BitFlip.symmetric(1.0), 10**4),
    ):
        assert "below" not in find_exact_bound(mechanism, SCOPE, 1e-6).source
        assert 0.0 <= compute_delta(mechanism, 1.0) <= 1.0


def test_a_finite_distribution_with_a_curve_has_a_witness() -> None:
    class Curved(Table):
        def delta(self, epsilon: float) -> float:
            return slow_delta(self.law, epsilon)

    law = ((0.6, 0.3, 0.1), (0.2, 0.3, 0.5))
    bound = find_exact_bound(Curved(law), SCOPE, 0.05)
    assert bound.epsilon == pytest.approx(math.log(0.45 / 0.1))
    assert bound.witness.output == "2"
    many = find_exact_bound(Curved(law, copies=2), SCOPE, 0.05)
    assert (many.witness, many.source) == (
        None,
        "exact hockey-stick divergence: the privacy curve of the mechanism",
    )


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.3])
@pytest.mark.parametrize(
    "noise",
    [
        *(Gaussian(sigma=1.0, low=0, high=width) for width in (1e-6, 1e-2, 1.4, 1e3, 1e5)),
        *(Laplace(scale=scale, low=-1, high=1) for scale in (1e-200, 1e-5, 0.5)),
    ],
    ids=str,
)
def test_curves_of_noise_equal_the_accountant(noise: Any, delta: float) -> None:
    lower = find_exact_bound(noise, SCOPE, delta).epsilon
    upper = Pld().bound(noise.event(), delta=delta, scope=SCOPE).epsilon
    close = 1e-9 if isinstance(noise, Gaussian) else 1e-4
    assert lower * (1 - 1e-9) - 1e-9 <= upper == pytest.approx(lower, rel=close, abs=close)
    if 0 < lower < 1e3:
        assert compute_delta(noise, lower) == pytest.approx(delta, rel=1e-6)


def test_a_curve_equals_its_integral() -> None:
    """The privacy curve equals the hockey-stick divergence by quadrature."""
    for mechanism in (Gaussian(sigma=0.7, low=0, high=1), Laplace(scale=0.5, low=-1, high=1)):
        low, high = mechanism.domain.low, mechanism.domain.high
        x = np.linspace(-12, 12, 400_001)
        p, q = (np.exp(mechanism.log_prob(x, end)) for end in (low, high))
        for epsilon in (0.0, 0.5, 2.0):
            area = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
            assert mechanism.delta(epsilon) == pytest.approx(area, abs=1e-8)


@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=4),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(2, 4),
    st.floats(1e-6, 0.3),
)
def test_copies_with_many_ratios_have_a_tight_lower_bound(
    ps: list[int], qs: list[int], copies: int, delta: float
) -> None:
    """The reference enumerates every output of all copies."""
    p, q = np.array(ps) / sum(ps), np.array(qs[: len(ps)]) / sum(qs[: len(ps)])
    mechanism = Table((tuple(p), tuple(q)), copies=copies)
    found = find_exact_bound(mechanism, SCOPE, delta).epsilon
    joint = [functools.reduce(np.multiply.outer, [law] * copies).ravel() for law in (p, q)]
    truth = bisect_threshold(lambda epsilon: slow_delta(joint, epsilon) <= delta, precision=1e-12)
    assert truth - 0.11 <= found <= truth + 1e-9


def test_more_than_two_ratios_in_copies_have_no_exact_delta() -> None:
    law = ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5))
    with pytest.raises(InputError, match="at most 2 distinct likelihood ratios"):
        compute_delta(Table(law, copies=3), 1.0)


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_deltas_outside_0_to_1_are_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta"):
        find_exact_bound(Identity(), SCOPE, delta)


def test_many_copies_at_delta_do_not_underflow_to_an_infinite_bound() -> None:
    """The second input makes the typical output e^-4500 likely, less than the smallest double."""
    reports = Repeated(BitFlip.symmetric(2.5), 2000)
    bound = find_exact_bound(reports, SCOPE, 1e-6)
    assert bound.epsilon == pytest.approx(response(2.5)(2000, 1e-6), rel=1e-9)
    owed = Pld().bound(reports.event(), delta=1e-6, scope=SCOPE)
    assert owed.epsilon == pytest.approx(bound.epsilon, rel=1e-9)


def test_shuffles_of_millions_omit_outputs_below_double_range() -> None:
    """The distribution of the number of ones keeps its mass, and both ends."""
    law = Shuffled(2.5, 10**6 + 1)
    worst_case = law.worst_case()
    assert len(worst_case.outputs) < 10**5
    chance = np.exp(law.log_prob(worst_case.outputs[:, None], worst_case.inputs))
    assert chance.sum(axis=0) == pytest.approx(1.0, rel=1e-10)
    assert find_exact_bound(law, SCOPE).epsilon == pytest.approx(2.5)
    lower = find_exact_bound(law, SCOPE, 1e-6).epsilon
    fewer = find_exact_bound(Shuffled(2.5, 10**6), SCOPE, 1e-6).epsilon
    assert lower == pytest.approx(fewer, rel=1e-4)
