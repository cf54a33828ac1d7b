"""Tests of the search for the input pair and output with the largest probability ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.exact.candidates import MAX_RARE_OUTPUT_ENTRIES, inputs_of
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase
from fedrec_auditor.targets.mechanisms.composed_mechanisms import (
    Clipped,
    Product,
    Repeated,
    Shuffled,
)
from fedrec_auditor.targets.mechanisms.discrete_mechanisms import DiscreteGaussian
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from tests.auditor.exact.densities import (
    FEW_EXAMPLES,
    IntegerNoise,
    draw_tables,
    gaussian,
    laplace,
    make_additive,
    make_table,
    search,
    slow_epsilon,
)
from tests.points import later

SETTINGS = settings(max_examples=400, database=None, derandomize=True)
DOMAINS = (
    Domain(low=0, high=1, values=(0.0, 1.0)),
    Domain(low=-1, high=2),
    Domain(low=0.25, high=math.inf),
    Domain(low=-math.inf, high=math.inf, shape=(3,)),
    Domain(low=-1, high=1, shape=(2, 4)),
    Domain(low=0, high=4, shape=(5,), values=(0.0, 2.5, 4.0)),
    Domain(low=-1, high=1, shape=(3000,)),
)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@settings(max_examples=60, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_input_is_one_of_the_domain(domain: Domain, data: Any) -> None:
    value = data.draw(inputs_of(domain))
    assert domain.check(value).shape == domain.shape


@pytest.mark.parametrize("domain", DOMAINS[1:5], ids=str)
def test_inputs_include_both_ends_and_the_interior(domain: Domain) -> None:
    for end in (domain.low, domain.high):
        if math.isfinite(end):
            find(inputs_of(domain), lambda v, end=end: bool(np.all(v == end)), settings=SETTINGS)
    find(
        inputs_of(domain),
        lambda v: bool(np.any((v != domain.low) & (v != domain.high) & (v != np.round(v)))),
        settings=SETTINGS,
    )


def test_entries_differ_and_examples_shrink_to_plain_numbers() -> None:
    apart = find(inputs_of(DOMAINS[4]), lambda v: len(np.unique(v)) > 1, settings=SETTINGS)
    assert set(np.unique(apart)) <= {-1.0, 0.0, 1.0}
    assert repr(find(inputs_of(DOMAINS[0]), lambda v: v > 0, settings=SETTINGS)) == "1"
    assert repr(find(inputs_of(DOMAINS[1]), lambda v: v > 1, settings=SETTINGS)) == "2"


@given(draw_tables())
@FEW_EXAMPLES
def test_few_inputs_and_outputs_are_searched_exhaustively(rows: NDArray[np.float64]) -> None:
    found = search(make_table(rows), 0.5)
    assert found.epsilon == pytest.approx(slow_epsilon(rows), abs=1e-9)
    assert "exhaustive" in found.source
    witness = found.witness
    assert witness.probability_a == pytest.approx(rows[int(witness.input_a), int(witness.output)])
    assert witness.probability_b == pytest.approx(rows[int(witness.input_b), int(witness.output)])


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_witness_of_an_exhaustive_search_is_the_first_pair_above_the_claim(
    delta: float,
) -> None:
    rows = np.array([[0.5, 0.5], [0.55, 0.45], [0.7, 0.3], [0.95, 0.05]])
    worst = math.log((0.5 - delta) / 0.05)
    found = search(make_table(rows), 0.3, delta)
    assert found.epsilon == pytest.approx(worst, abs=1e-9)
    assert {found.witness.input_a, found.witness.input_b} == {"0", "2"}
    first = math.log((0.5 - delta) / 0.3)
    assert first > 0.3 > math.log((0.5 - delta) / 0.45)
    assert found.witness.note.startswith(f"{'epsilon' if delta else 'log-ratio'} {first:.6g}; ")
    assert "the largest is for" in found.witness.note


@pytest.mark.parametrize(
    "mechanism",
    [
        BitFlip(0.7, 0.2),
        later(Product(BitFlip(0.8, 0.3), 3)),
        OneCoordinate(2.5, 3),
        later(Shuffled(1.0, 4)),
        Repeated(BitFlip.symmetric(1.0), 3),
        Laplace(scale=0.7, low=-1, high=2),
        Product(Laplace(scale=2.0, low=-1, high=1), 20),
    ],
    ids=str,
)
def test_the_search_equals_the_worst_case_of_honest_mechanisms(mechanism: Any) -> None:
    known = find_exact_bound(mechanism, REPORT_SCOPE).epsilon
    found = search(mechanism, known)
    assert found.epsilon == pytest.approx(known, rel=1e-9)
    assert not exceeds(found.epsilon, known)


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), epsilon=st.floats(0.01, 50.0))
@settings(FEW_EXAMPLES, max_examples=2)
def test_a_claim_that_holds_with_equality_is_tight_and_not_refuted(
    low: float, width: float, epsilon: float
) -> None:
    domain = Domain(low=low, high=low + width)
    found = search(laplace(width / epsilon, domain), epsilon)
    assert not exceeds(found.epsilon, epsilon + 1e-9)
    assert found.epsilon > 0.999 * epsilon * ((domain.high - domain.low) / width)


def test_a_broken_claim_is_shrunk_to_the_simplest_pair() -> None:
    found = search(laplace(0.5, Domain(low=-7, high=9)), 1.0)
    assert found.epsilon == pytest.approx(32.0)
    witness = found.witness
    assert {witness.input_a, witness.input_b} == {"0", "1"}
    assert "0" in witness.output.split() or "1" in witness.output.split()
    assert math.log(witness.probability_a / witness.probability_b) > 1.0
    assert "the largest is for" in witness.note


# Wrong worst cases of a bit flip: one output alone, copies although the flip has one output, an
# error, and both outputs twice, which doubles every divergence.
WRONG_WORST_CASES: dict[str, Callable[[BitFlip], WorstCase]] = {
    "blind": lambda flip: replace(
        BitFlip.worst_case(flip), outputs=np.array([1]), exhaustive=False
    ),
    "boastful": lambda flip: replace(
        BitFlip.worst_case(flip), n_copies=10, inner_mechanism=BitFlip(flip.p, flip.q)
    ),
    "failing": lambda flip: [][0],
    "twice": lambda flip: replace(BitFlip.worst_case(flip), outputs=np.array([0, 1, 0, 1])),
}


@pytest.mark.parametrize("case", WRONG_WORST_CASES)
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_wrong_worst_cases_do_not_change_the_bound(case: str, delta: float) -> None:
    truth = find_exact_bound(BitFlip(0.9, 0.3), REPORT_SCOPE, delta).epsilon
    wrong = type("Wrong", (BitFlip,), {"worst_case": WRONG_WORST_CASES[case]})(0.9, 0.3)
    assert search(wrong, 1.0, delta).epsilon == pytest.approx(truth)


class OutsideDomain(Laplace):
    """A mechanism whose worst-case inputs are outside its domain, where it claims nothing."""

    def worst_case(self) -> WorstCase:
        ends = np.array([10 * self.low, 10 * self.high])
        return WorstCase(inputs=ends, outputs=ends)

    def log_prob(self, output: Any, value: Any) -> Any:
        return stats.laplace(np.asarray(value), self.scale).logpdf(output)


class NoWorstCase(Laplace):
    """A mechanism whose author knows no worst case, which does not prove an infinite epsilon."""

    def worst_case(self) -> Any:
        return None


@pytest.mark.parametrize("kind", [OutsideDomain, NoWorstCase])
def test_worst_cases_that_log_prob_contradicts_are_ignored(kind: Any) -> None:
    found = search(kind(scale=1.0, low=-1.0, high=1.0), 1.9)
    assert found.epsilon == pytest.approx(2.0)


def test_an_unbounded_ratio_is_infinite_at_any_claim() -> None:
    on_a_grid = DiscreteGaussian(low=0, high=1, step=0.25, sigma=0.9)
    for mechanism in (Gaussian(sigma=1.0, low=0, high=1), on_a_grid):
        assert math.isinf(search(mechanism, 1000.0).epsilon)
    assert (
        search(gaussian(1.0), 5.0).epsilon > 20.0
    )  # this density states no tail behaviour: the search finds far outputs


def test_an_output_impossible_under_one_input_is_infinite() -> None:
    def within(z: Any) -> Any:
        return np.where(np.abs(z) <= 2.0, -math.log(4.0), -np.inf)

    cut = make_additive(within, lambda rng, size: rng.uniform(-2, 2, size))
    found = search(cut, 10.0)
    assert math.isinf(found.epsilon)
    assert found.witness.probability_b == 0.0


def test_log_densities_that_underflow_are_not_impossible_outputs() -> None:
    """log(exp(-800)) is -inf by underflow; the true epsilon is 70, as claimed."""

    def underflows(z: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.exp(-np.abs(z) * 70.0) * 35.0)

    mechanism = make_additive(underflows, lambda rng, size: rng.laplace(0, 1 / 70.0, size))
    found = search(mechanism, 70.0)
    assert found.epsilon == pytest.approx(70.0)
    assert not exceeds(found.epsilon, 70.0)


def make_vector_laplace(length: int, scale: float) -> Density:
    def log_prob(y: Any, x: Any) -> Any:
        return -np.abs(np.asarray(y) - x).sum(axis=-1) / scale - length * math.log(2 * scale)

    return Density(
        sample=lambda x, rng, size: x + rng.laplace(0, scale, (size, length)),
        log_prob=log_prob,
        domain=Domain(low=0, high=1, shape=(length,)),
    )


def test_rounding_of_large_log_probabilities_does_not_refute() -> None:
    found = search(make_vector_laplace(60, 1e-40), 60e40)
    assert not exceeds(found.epsilon, 60e40)
    assert search(make_vector_laplace(60, 0.7), 60 / 0.7).epsilon == pytest.approx(60 / 0.7)


def test_a_budget_spent_on_every_entry_is_refuted() -> None:
    found = search(make_vector_laplace(4, 1.0), 1.0)
    assert found.epsilon == pytest.approx(4.0)
    witness = found.witness
    assert math.log(witness.probability_a / witness.probability_b) > 1.0


def test_infinitely_many_integers_are_not_searched_exhaustively() -> None:
    """Draws cover nearly all mass, but the worst ratio of a discrete Gaussian is in its tail."""
    found = search(IntegerNoise(lambda k: -0.5 * k * k), 12.0)
    assert "exhaustive" not in found.source
    assert found.epsilon > 12.0
    even = search(IntegerNoise(lambda k: -0.5 * abs(int(k))), 1.5)
    assert even.epsilon == pytest.approx(1.5)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_outputs_that_depend_on_the_input_are_not_all_outputs(delta: float) -> None:
    """Every input has three outputs of its own, so that a drawn output identifies its input."""

    def log_prob(output: Any, value: Any) -> Any:
        return np.where(np.abs(np.asarray(output) - value) <= 1, -math.log(3.0), -np.inf)

    moved = Density(sample=lambda x, rng, size: x + rng.integers(-1, 2, size), log_prob=log_prob)
    found = search(moved, 5.0, delta, inputs=st.integers(-(10**6), 10**6))
    assert math.isinf(found.epsilon)


def test_unanswerable_searches_are_refused_with_a_remedy() -> None:
    with pytest.raises(InputError, match="add the method"):
        search(make_vector_laplace(3, 1.0), 1.0, 0.01)
    with pytest.raises(InputError, match="Expected inputs"):
        search(laplace(1.0, domain=None), 1.0)
    with pytest.raises(InputError, match="log_prob"):
        search(lambda x, rng, size: rng.random(size), 1.0)
    doubled = make_additive(
        lambda z: stats.laplace.logpdf(z) + math.log(2.0), lambda rng, size: rng.laplace(0, 1, size)
    )
    with pytest.raises(InputError, match="normaliser"):
        search(doubled, 1.0, 0.01)


def test_inputs_are_checked_against_the_domain() -> None:
    flip, noise = BitFlip(0.9, 0.3), Laplace(scale=1.0, low=-1, high=1)
    for mechanism, inputs in (
        (flip, [0, 2]),
        (noise, [0.0, 1.5]),
        (noise, [[0.0, 0.5], [1.0, 1.0]]),
        (noise, st.floats(0.0, 3.0)),
        (noise, [0.5]),
        (noise, []),
        (noise, st.just(0.5)),
        (flip, ["yes", "no"]),
    ):
        with pytest.raises(InputError, match="Expected"):
            search(mechanism, 1.0, inputs=inputs)


def test_given_inputs_limit_the_search() -> None:
    noise = Laplace(scale=1.0, low=-5, high=5)
    assert search(noise, 9.0, inputs=[0.0, 0.25, 1.0]).epsilon == pytest.approx(1.0)
    # The guided search may stop short of the ends of the range, but stays inside it.
    assert 1.8 < search(noise, 9.0, inputs=st.floats(1.0, 3.0)).epsilon <= 2.0 + 1e-9
    assert search(noise, 9.0, 0.01, inputs=[0.0, 1.0]).epsilon < 1.0
    given_none = search(laplace(1.0, domain=None), 9.0, inputs=[0.0, 2.0])
    assert given_none.epsilon == pytest.approx(2.0)


def test_a_log_prob_of_nan_is_refused() -> None:
    broken = make_additive(
        lambda z: np.where(z > 0, np.nan, stats.laplace.logpdf(z)),
        lambda rng, size: rng.laplace(0, 1, size),
    )
    with pytest.raises(InputError, match="nan"):
        search(broken, 1.0)


def test_string_outputs_and_a_log_prob_of_one_output() -> None:
    def sample(x: int, rng: np.random.Generator) -> str:
        return "yes" if (rng.random() < 0.8) == bool(x) else "no"

    def log_prob(output: Any, value: Any) -> float:
        return math.log(0.8 if (str(output) == "yes") == bool(value) else 0.2)

    found = search(Density(sample=sample, log_prob=log_prob), 1.0, inputs=[0, 1])
    assert found.epsilon == pytest.approx(math.log(4.0))
    assert "exhaustive" in found.source


def test_equal_seeds_give_equal_bounds() -> None:
    first, again = (search(laplace(0.3), 1.0, seed=4) for _ in range(2))
    assert first == again


@given(st.floats(1.0, 2.0))
@settings(FEW_EXAMPLES, max_examples=1)
def test_the_search_runs_inside_a_hypothesis_test(scale: float) -> None:
    assert search(laplace(scale), 1.0).epsilon == pytest.approx(1.0 / scale)


def test_clipped_inputs_do_not_make_outputs_look_finite() -> None:
    found = search(Clipped(Gaussian(sigma=1, low=0, high=1)), epsilon=5.0)
    assert math.isinf(found.epsilon)


def test_a_witness_below_the_smallest_double_shows_one_copy() -> None:
    found = search(Product(BitFlip.symmetric(0.5), 1682), epsilon=841.0)
    assert found.epsilon == pytest.approx(841.0)
    assert (found.witness.copies, found.witness.probability_a > 0) == (1682, True)


def test_an_exhaustive_search_misses_outputs_too_rare_to_draw() -> None:
    """An output of probability 1e-10 under one input refutes any claim at delta 0; it is missed."""

    def log_prob(output: Any, value: int) -> Any:
        rare = 1e-10 * value
        yes = (0.7 if value else 0.3) * (1.0 - rare)
        words = np.asarray(output)
        chance = np.select([words == "yes", words == "no"], [yes, 1.0 - rare - yes], rare)
        with np.errstate(divide="ignore"):
            return np.log(chance)

    def sample(value: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < (0.7 if value else 0.3), "yes", "no")

    found = search(Density(sample=sample, log_prob=log_prob), 1.0, inputs=[0, 1])
    assert found.epsilon == pytest.approx(math.log(7 / 3))
    assert "all 2 outputs but for 1e-09 of probability" in found.source


def test_a_witness_outside_all_draws_is_marked() -> None:
    """The sampler cuts noise off at 1 and log_prob ignores that, so that 3 is not an output."""

    def sample(value: float, rng: np.random.Generator, size: int) -> Any:
        low, high = (special.ndtr(end - value) for end in (-1.0, 1.0))
        return value + special.ndtri(rng.uniform(low, high, (size, 3)))

    def log_prob(output: Any, value: float) -> Any:
        logs = -0.5 * (np.asarray(output) - value) ** 2
        return (logs - np.log(special.ndtr(1.0 - value) - special.ndtr(-1.0 - value))).sum(axis=-1)

    found = search(Density(sample=sample, log_prob=log_prob), 6.0, inputs=[0.0, 0.5])
    assert found.epsilon > 6.0
    assert "if impossible, log_prob must be -inf" in found.witness.note


def make_rare_leak(share: float, listed: bool = False, words: bool = True) -> Density:
    """Randomized response at epsilon 1 that reveals its input with probability ``share``."""
    plain = ["no", "yes", "saw no", "saw yes"] if words else [0, 1, 70, 80]
    names = np.array(plain)
    keep = 1 / (1 + math.exp(-1.0))

    def probabilities(value: int) -> Any:
        row = np.full(4, 0.0)
        row[value], row[1 - value] = (1 - share) * keep, (1 - share) * (1 - keep)
        row[2 + value] = share
        return row

    def sample(value: int, rng: np.random.Generator, size: int) -> Any:
        return names[rng.choice(4, size=size, p=probabilities(value))]

    def log_prob(outputs: Any, value: int) -> Any:
        place = (np.asarray(outputs)[..., None] == names).argmax(axis=-1)
        possible = (np.asarray(outputs)[..., None] == names).any(axis=-1)
        with np.errstate(divide="ignore"):
            return np.where(possible, np.log(probabilities(value))[place], -np.inf)

    return Density(sample=sample, log_prob=log_prob, outputs=names if listed else None)


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize(("share", "listed"), [(1e-5, False), (1e-5, True), (1e-12, True)])
def test_a_rare_leak_in_log_prob_is_found(share: float, listed: bool, words: bool) -> None:
    """Draws find leaks not much rarer than 1 in 100,000; listed outputs find every leak."""
    dist, samples = make_rare_leak(share, listed, words), MAX_RARE_OUTPUT_ENTRIES
    found = search(dist, 1.0, inputs=[0, 1], seed=1, samples=samples)
    assert math.isinf(found.epsilon)
