"""Post-processing and shuffling of finite reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.methods.shuffle import Shuffle
from fedrec_auditor.auditor.exact import delta_at, exact_lower_bound
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from fedrec_auditor.targets.mechanisms.k_ary import KAry
from fedrec_auditor.targets.mechanisms.laplace import Laplace
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate
from fedrec_auditor.targets.mechanisms.parts.finite import which
from fedrec_auditor.targets.mechanisms.post_processed import PostProcessed
from fedrec_auditor.targets.mechanisms.product import Product
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.mechanisms.shuffled import Shuffled
from fedrec_auditor.targets.mechanisms.shuffled_reports import ShuffledReports
from fedrec_auditor.targets.mechanisms.symmetric_unary import SymmetricUnary
from tests.contracts.mechanisms import SCOPE


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_outputs_are_found_in_a_list_as_by_looking(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    listed = rng.permutation(np.unique(rng.integers(-1, 2, (9, width)), axis=0)) / 2
    wanted = rng.integers(-1, 2, (2, 5, width)) / 2
    slow = [
        next((i for i, one in enumerate(listed) if (one == row).all()), len(listed))
        for row in wanted.reshape(-1, width)
    ]
    np.testing.assert_array_equal(which(wanted, listed).ravel(), slow)


@given(
    rates=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)),
    table=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_a_function_of_the_output_never_tells_more(
    rates: tuple[float, float], table: list[int]
) -> None:
    inner = Product(BitFlip(*rates), 3)
    outer = PostProcessed(inner, lambda bits: np.array(table)[bits @ np.array([4, 2, 1])])
    whole = PostProcessed(inner, lambda bits: bits @ np.array([4, 2, 1]))
    for delta in (0.2, 0.01, 0.0):
        less = exact_lower_bound(outer, SCOPE, delta).epsilon
        assert less <= exact_lower_bound(whole, SCOPE, delta).epsilon + 1e-9
    assert less <= exact_lower_bound(inner, SCOPE).epsilon + 1e-9
    vectors = [*itertools.product([0, 1], repeat=3)]
    for value in ((0, 0, 0), (0, 1, 1)):
        law = np.exp(inner.log_prob(vectors, value))
        for image in range(4):
            slow = sum(p for p, found in zip(law, table, strict=True) if found == image)
            assert math.exp(outer.log_prob(image, value)) == pytest.approx(slow, rel=1e-12)


def test_the_worst_pair_may_change() -> None:
    """Of the categories 0 and 1 nothing is left; 0 and 2 are still told apart."""
    outer = PostProcessed(KAry(1.0, 3), lambda category: category // 2)
    witness = exact_lower_bound(outer, SCOPE).witness
    assert witness is not None
    assert {witness.input_a, witness.input_b} in ({"0", "2"}, {"1", "2"})
    first, second = outer.log_prob([[0], [1]], [0, 1]).T
    np.testing.assert_allclose(first, second)


def test_a_constant_tells_nothing() -> None:
    outer = PostProcessed(BitFlip.asymmetric(1.0), np.zeros_like)
    assert exact_lower_bound(outer, SCOPE).epsilon < 1e-15


def test_functions_of_repeats_and_unary_reports_see_all_of_them() -> None:
    twice = PostProcessed(Repeated(BitFlip(0.8, 0.3), 2), lambda bits: bits.any(axis=-1))
    assert math.exp(twice.log_prob(1, 1)) == pytest.approx(1 - 0.2**2)
    unary = PostProcessed(SymmetricUnary(2.0, 3), lambda bits: bits[:, 2])
    flip = SymmetricUnary(2.0, 3).missed
    np.testing.assert_allclose(np.exp(unary.log_prob(1, [0, 1, 2])), [flip, flip, 1 - flip])
    assert exact_lower_bound(unary, SCOPE).epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda bits: 1.0, "outputs along the first axis"),
        (lambda bits: bits[:1], "outputs along the first axis"),
        (lambda bits: np.array(["yes"] * len(bits)), "numbers"),
    ],
)
def test_a_function_that_does_not_map_outputs_is_refused(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        PostProcessed(Product(BitFlip(0.8, 0.3), 2), function)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "mechanism",
    [
        OneCoordinate(1.0, 2),
        Laplace(scale=1, low=0, high=1),
        Gaussian(sigma=1, low=0, high=1),
        Product(BitFlip(0.8, 0.3), 20),
    ],
    ids=str,
)
def test_infinitely_many_inputs_are_refused(mechanism: OneCoordinate) -> None:
    for make in (lambda m: PostProcessed(m, np.negative), lambda m: ShuffledReports(m, (0, 0))):
        with pytest.raises(InputError, match="inputs"):
            make(mechanism)


@pytest.mark.parametrize("others", [(), (0,), (2, 1, 1), (0, 1, 2, 2)])
def test_the_law_of_a_shuffle_is_the_sum_over_all_reports(others: tuple[int, ...]) -> None:
    inner = KAry(1.2, 3)
    shuffle = ShuffledReports(inner, others)
    histograms = shuffle.critical().outputs
    assert len(histograms) == math.comb(len(others) + 3, 2)
    for value in range(3):
        slow = dict.fromkeys(map(tuple, histograms.tolist()), 0.0)
        for reports in itertools.product(range(3), repeat=len(others) + 1):
            law = inner.log_prob(reports, (value, *others)).sum()
            slow[tuple(np.bincount(reports, minlength=3).tolist())] += math.exp(law)
        found = np.exp(shuffle.log_prob(histograms, value))
        np.testing.assert_allclose(found, list(slow.values()), rtol=1e-12)


@pytest.mark.parametrize("n_users", [1, 2, 30])
def test_shuffled_bits_have_the_closed_form_of_their_count(n_users: int) -> None:
    flip, epsilon = BitFlip.symmetric(1.3), 1.3
    mine = ShuffledReports(flip, (0,) * (n_users - 1))
    ones = np.arange(n_users + 1)
    law = mine.log_prob(np.stack([n_users - ones, ones], axis=-1)[:, None], [1, 0])
    theirs = Shuffled(epsilon, n_users).log_prob(ones[:, None], [1.0, -1.0])
    np.testing.assert_allclose(law, theirs, rtol=1e-9)


def test_rare_histograms_do_not_vanish_among_doubles() -> None:
    """A probability below the least double would look impossible, and epsilon infinite."""
    mine = ShuffledReports(BitFlip.symmetric(30.0), (0,) * 60)
    assert mine.log_prob([0, 61], 0) < -800
    assert exact_lower_bound(mine, SCOPE).epsilon <= 30.0 + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_clones_dominate_the_shuffle_of_any_others(epsilon: float) -> None:
    inner = KAry(epsilon, 3)
    for others in itertools.combinations_with_replacement(range(3), 5):
        shuffle = ShuffledReports(inner, others)
        event = shuffle.event()
        assert isinstance(event, ShuffledDpEvent)
        assert event.epsilon == pytest.approx(epsilon)
        assert event.n_users == 6
        for delta in (1e-4, 1e-2):
            proved = Shuffle().bound(event, delta=delta, scope=SCOPE).epsilon
            assert delta_at(shuffle, proved) <= delta * (1 + 1e-9)


def test_a_shuffle_of_reports_without_privacy_is_charged_as_such() -> None:
    shuffle = ShuffledReports(BitFlip.asymmetric(1.0), (0, 1))
    assert isinstance(shuffle.event(), NonPrivateDpEvent)
    assert math.isinf(exact_lower_bound(shuffle, SCOPE).epsilon)


def test_what_is_no_histogram_has_no_probability() -> None:
    shuffle = ShuffledReports(KAry(1.0, 3), (0, 1))
    impossible = [[1, 1, 0], [4, 0, 0], [-1, 2, 2], [0.5, 1.5, 1]]
    assert np.isneginf(shuffle.log_prob(impossible, 0)).all()


def test_senseless_shuffles_are_refused() -> None:
    with pytest.raises(InputError, match="few users"):
        ShuffledReports(KAry(1.0, 20), (0,) * 40)
    with pytest.raises(InputError, match="input in"):
        ShuffledReports(KAry(1.0, 3), (0, 7))
