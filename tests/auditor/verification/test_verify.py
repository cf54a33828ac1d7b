"""Tests of verify_ldp: the exact method, the measurement, and refused arguments."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification import Density
from fedrec_auditor.auditor.verification.verify import verify_ldp
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Product, Repeated
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from tests.points import later

TRUTH = math.e / (1 + math.e)


def response(x: int, rng: np.random.Generator, size: int) -> np.ndarray:
    return np.where(rng.random(size) < TRUTH, x, 1 - x)


def respond_once(x: int, rng: np.random.Generator) -> str:
    return "yes" if (rng.random() < TRUTH) == bool(x) else "no"


def test_mechanisms_are_verified_exactly() -> None:
    tight = verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=1_000)
    assert tight.verdict is Verdict.CONSISTENT
    assert tight.exact
    assert tight.epsilon_lower == pytest.approx(1.0)
    broken = verify_ldp(BitFlip.asymmetric(1.0), epsilon=1.0, samples=1_000)
    assert broken.verdict is Verdict.VIOLATED
    assert math.isinf(broken.epsilon_lower)
    assert min(broken.witness.probability_a, broken.witness.probability_b) == 0.0
    report = verify_ldp(OneCoordinate(epsilon=2.5, dimension=30), epsilon=2.5, samples=1_000)
    assert report.verdict is Verdict.UNSUBSTANTIATED  # too many vectors to enumerate
    assert report.epsilon_lower == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (None, Verdict.CONSISTENT),
        ([1.0, 0.0], Verdict.CONSISTENT),
        ([np.int64(0), np.int64(1), np.int64(0)], Verdict.CONSISTENT),
        (st.sampled_from([0, 1]), Verdict.UNSUBSTANTIATED),
    ],
)
def test_a_proof_needs_every_input_of_the_domain(inputs: Any, expected: Verdict) -> None:
    found = verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, inputs=inputs, samples=1_000)
    assert found.verdict is expected


def test_a_list_of_inputs_is_the_domain_if_none_is_stated() -> None:
    flip = BitFlip.symmetric(1.0)
    pair = Product(flip, 2)
    corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
    for given, expected in ((corners, "CONSISTENT"), (corners[::3], "UNSUBSTANTIATED")):
        assert verify_ldp(pair, epsilon=2.0, inputs=given, samples=1_000).verdict == expected
    bare = Density(
        sample=lambda bit, rng, size: flip.randomize(bit, rng, (size,)), log_prob=flip.log_prob
    )
    assert verify_ldp(bare, epsilon=1.0, inputs=[0, 1], samples=1_000).verdict == "CONSISTENT"


def test_the_ratio_of_ones_is_not_enough() -> None:
    """p/q = e, as the DPLCF paper requires, but (1-q)/(1-p) = 3.44: not 1-private."""
    p = 0.8
    found = verify_ldp(BitFlip(p, p / math.e), epsilon=1.0, samples=1_000)
    assert found.verdict is Verdict.VIOLATED
    assert found.epsilon_lower == pytest.approx(math.log((1 - p / math.e) / (1 - p)))


def test_mechanisms_are_verified_exactly_at_a_delta() -> None:
    for delta, verdict in ((1 - math.exp(-1), "CONSISTENT"), (0.6, "VIOLATED")):
        found = verify_ldp(BitFlip.asymmetric(1.0), epsilon=1.0, delta=delta, samples=1_000)
        assert found.verdict == verdict


@pytest.mark.parametrize("randomizer", [response, respond_once])
def test_callables_are_verified_by_samples(randomizer: Any) -> None:
    honest = verify_ldp(randomizer, epsilon=1.0, samples=20_000, trace=False)
    assert honest.verdict is Verdict.UNSUBSTANTIATED
    assert not honest.exact
    assert honest.samples == 40_000
    assert 0.85 < honest.epsilon_lower <= 1.0
    accused = verify_ldp(randomizer, epsilon=0.7, samples=20_000, trace=False)
    assert accused.verdict is Verdict.VIOLATED
    assert accused.witness is not None


def test_equal_seeds_give_equal_results() -> None:
    assert verify_ldp(response, epsilon=1.0, seed=5, samples=1_000) == verify_ldp(
        response, epsilon=1.0, seed=5, samples=1_000
    )


def test_a_verification_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="not refuted is not thereby proved"):
        bool(verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=1_000))


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"epsilon": -1.0}, "epsilon=-1"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"epsilon": math.inf}, "finite"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1"),
        ({"epsilon": 1.0, "confidence": 0.0}, "confidence=0"),
        ({"epsilon": 1.0, "inputs": [1]}, "list 2 to 64 values"),
        ({"epsilon": 1.0, "inputs": [1, 1]}, r"got 2 \(1 distinct\)"),
        ({"epsilon": 1.0, "inputs": 1}, "Expected inputs as a list or a Hypothesis strategy"),
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"epsilon": 1.0, "seed": -1}, "seed=-1"),
        ({"epsilon": 1.0, "samples": 5}, "samples=5"),
        ({"epsilon": 1.0, "samples": 10**20}, "samples from 100 to 10,000,000,000"),
        ({"epsilon": 1.0, "samples": 1000.5}, "as a whole number"),
        ({"epsilon": 1.0, "samples": "1000"}, "as a whole number"),
        ({"epsilon": 1.0, "seed": 1.5}, "as a whole number"),
        ({"epsilon": 1.0, "seconds": -1.0}, "seconds=-1"),
    ],
)
def test_bad_numbers_are_refused(keywords: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        verify_ldp(response, **keywords)


def raises(x: int, rng: Any, size: int) -> Any:
    raise ZeroDivisionError("oh")


@pytest.mark.parametrize(
    ("randomizer", "match"),
    [
        (raises, "ZeroDivisionError"),
        (lambda x, rng, size: np.zeros(3), r"\d+ outputs"),
        (lambda x, rng, size: np.zeros((size, 1 + rng.integers(2))), "one shape"),
        (lambda x, rng, size: np.full(size, np.nan), "NaN"),
        (lambda x, rng, size: np.array([object()] * size), "got object. "),
        (3, "callable"),
    ],
)
def test_bad_callables_are_refused(randomizer: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        verify_ldp(randomizer, epsilon=1.0, samples=1_000)


def test_a_third_parameter_with_a_default_is_size_only_by_name() -> None:
    def setting(x: int, rng: np.random.Generator, keep: float = 0.6) -> int:
        return int((rng.random() < keep) == x)

    def sized(x: int, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        return (rng.random(size) < 0.6) == x

    for randomizer in (setting, sized):
        found = verify_ldp(randomizer, epsilon=1.0, samples=2000, trace=False)
        assert (found.verdict, found.samples) == ("UNSUBSTANTIATED", 4000)


def test_the_class_of_a_mechanism_is_refused() -> None:
    with pytest.raises(InputError, match="class BitFlip"):
        verify_ldp(BitFlip, epsilon=1.0)


def test_a_distribution_without_computable_divergence_is_sampled() -> None:
    noise = Product(Laplace(scale=2.0, low=0, high=1), 2)
    found = verify_ldp(noise, epsilon=1.0, delta=1e-3, inputs=[[0, 0], [1, 1]], samples=20_000)
    assert not found.exact
    assert found.verdict == "UNSUBSTANTIATED"


def test_a_shape_that_reveals_the_input_refutes_any_claim() -> None:
    found = verify_ldp(
        lambda x, rng, size: np.zeros((size, 1 + x)), epsilon=5.0, samples=50_000, trace=False
    )
    assert found.verdict is Verdict.VIOLATED
    assert "an output of shape" in found.witness.output
    assert "output type" in {check.name for check in found.faults}


def test_a_refutation_is_measured_twice() -> None:
    """The bound of a tight mechanism at confidence 1/2 exceeds the true epsilon in half of the
    runs.
    """
    accused = [
        verify_ldp(response, epsilon=1.0, samples=2_000, confidence=0.5, seed=seed).verdict
        for seed in range(30)
    ].count(Verdict.VIOLATED)
    assert accused <= 15  # one in four is expected: above 15 of 30 with probability 8e-4


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_calls_cannot_change_the_inputs_of_later_calls(as_list: bool, sized: bool) -> None:
    """Otherwise a callable that wipes its input after the first use would seem to leak nothing."""

    def sent(value: Any, rng: np.random.Generator, size: int) -> Any:
        bits = np.where(rng.random(size) < 0.9, value[0], 1 - value[0])
        value[0] = 0
        return bits

    inputs: list[Any] = [[0], [1]] if as_list else [np.array([0]), np.array([1])]
    found = verify_ldp(
        sent if sized else lambda value, rng: sent(value, rng, 1)[0],
        epsilon=1.0,
        inputs=inputs,
        samples=4000,
    )
    assert found.verdict == "VIOLATED"
    assert [int(value[0]) for value in inputs] == [0, 1]


@pytest.mark.parametrize(("width", "draws"), [(200, 100_000), later(30_000, 10_000)])
def test_wide_outputs_have_fewer_draws(width: int, draws: int) -> None:
    """The number of draws for narrow outputs would take hours for whole uploads of a user."""
    report = np.zeros(width, dtype=np.int8)
    found = verify_ldp(lambda x, rng: report, epsilon=1.0, trace=False)
    assert found.samples == 2 * draws


def test_predictable_noise_refutes_a_proof_by_log_prob() -> None:
    """The stated distribution is irrelevant if the code always draws from the same seed."""
    flip = BitFlip.symmetric(1.0)

    def sample(bit: int, rng: np.random.Generator, size: int) -> Any:
        return flip.randomize(bit, np.random.default_rng(7), (size,))

    coded = Density(sample=sample, log_prob=flip.log_prob, domain=flip.domain)
    found = verify_ldp(coded, epsilon=1.0, samples=2_000)
    assert found.verdict is Verdict.VIOLATED
    assert math.isinf(found.epsilon_lower)
    assert (found.exact, found.confidence) == (False, 1 - 1e-6)
    assert found.method.startswith("the check of determinism")
    assert found.searched.tight
    assert found.waiving(["determinism"]).verdict is Verdict.CONSISTENT
    assert found.waiving(["support"]) == found


def test_predictable_noise_equal_for_all_inputs_is_not_a_leak() -> None:
    def sample(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.random.default_rng(7).random(size) < 0.5

    found = verify_ldp(sample, epsilon=1.0, samples=2_000)
    assert [check.name for check in found.faults] == ["determinism"]
    assert found.verdict is Verdict.UNSUBSTANTIATED


def test_an_output_that_excludes_an_input_refutes() -> None:
    def leaky(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < 0.05, 2 + x, response(x, rng, size))

    found = verify_ldp(leaky, epsilon=2.0, samples=200_000, trace=False)
    assert found.verdict is Verdict.VIOLATED
    (support,) = found.faults
    assert support.name == "support"
    assert 2.0 < support.bound.epsilon <= found.epsilon_lower < math.inf
    waived = found.waiving(["support"])
    assert waived.epsilon_lower == found.searched.epsilon


def test_support_is_counted_if_draws_do_not_fit_the_distribution() -> None:
    """The stated distribution allows outputs that the code never returns."""

    def sample(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < 0.3, 0, x)

    flip = BitFlip.symmetric(1.0)
    found = verify_ldp(
        Density(sample=sample, log_prob=flip.log_prob), epsilon=1.0, inputs=[0, 1], samples=5_000
    )
    assert {"support", "fit to the claimed distribution"} <= {c.name for c in found.faults}
    assert found.verdict is Verdict.VIOLATED


def test_tensors_bytes_and_empty_outputs_are_read() -> None:
    """Tensors may have gradients, and bytes may be outside of ASCII."""

    class Tensor:
        """A stand-in for a torch tensor with a gradient."""

        def __init__(self, values: Any) -> None:
            self.values = values

        def detach(self) -> Tensor:
            return Tensor(self.values)

        def cpu(self) -> Any:
            return self.values

        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    for randomizer in (
        lambda x, rng, size: Tensor(response(x, rng, size)),
        lambda x, rng: Tensor(np.array([response(x, rng, 1)[0]])),
        lambda x, rng: b"\xff\xe9" if response(x, rng, 1)[0] else b"a",
    ):
        found = verify_ldp(randomizer, epsilon=1.0, samples=2_000)
        assert 0.5 < found.epsilon_lower <= 1.0
    nothing = verify_ldp(lambda x, rng: [], epsilon=1.0, samples=200)
    assert (nothing.epsilon_lower, nothing.faults) == (0.0, ())

    class Broken:
        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no array")

    with pytest.raises(InputError, match="RuntimeError: no array"):
        verify_ldp(lambda x, rng, size: Broken(), epsilon=1.0, samples=200)


def test_whole_numbers_may_be_floats() -> None:
    assert verify_ldp(response, epsilon=1.0, samples=1e3, trace=False).samples == 2_000  # type: ignore[arg-type]


def test_outputs_that_hardly_repeat_are_fitted() -> None:
    """A hundred flips have 2^100 outputs, so no cell of the fit check has draws."""
    flips = Repeated(BitFlip.symmetric(1.0), count=100)
    found = verify_ldp(flips, epsilon=47.98, delta=1e-3, samples=1_000)
    assert found.checks[0].name == "fit to the claimed distribution"


@pytest.mark.parametrize(("sized", "samples", "looks"), [(False, 100, 50), (True, 1_000, 200)])
def test_calls_are_bounded_by_the_requested_draws(sized: bool, samples: int, looks: int) -> None:
    drawn = 0

    def counted(x: float, rng: np.random.Generator, size: int) -> Any:
        nonlocal drawn
        drawn += size
        return x + rng.normal(size=size)

    called = counted if sized else lambda x, rng: float(counted(x, rng, 1)[0])
    found = verify_ldp(called, epsilon=50.0, samples=samples, inputs=[0.0, 1.0])
    assert found.samples == 2 * samples
    assert drawn <= 3 * samples + looks


class Clock:
    """A clock that advances only when a callable takes time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.begun = self.now

    def __call__(self) -> float:
        return self.now

    @property
    def passed(self) -> float:
        return self.now - self.begun


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "perf_counter", found)
    return found


@pytest.mark.parametrize(
    ("cost", "per_output"), [(0.2, 0.0), (0.2, 1e-4), (0.02, 1e-5), (2e-3, 1e-3)]
)
@pytest.mark.parametrize("claimed", [0.1, 1.0])
def test_calls_of_a_large_fixed_cost_are_fewer_with_a_note(
    clock: Clock, cost: float, per_output: float, claimed: float
) -> None:
    def slow(x: int, rng: np.random.Generator, size: int) -> Any:
        clock.now += cost + per_output * size
        return response(x, rng, size)

    found = verify_ldp(slow, epsilon=claimed, seconds=60.0)
    assert found.verdict == ("VIOLATED" if claimed < 0.5 else "UNSUBSTANTIATED")
    assert clock.passed < 72.0
    assert ("so each call was for 512 outputs" in found.method) is (cost > 100 * per_output)


def test_a_time_limit_too_short_for_clock_detection_is_refused(clock: Clock) -> None:
    def slow(x: int, rng: np.random.Generator, size: int) -> Any:
        clock.now += 0.5  # seconds per call, for any number of outputs
        return response(x, rng, size)

    with pytest.raises(InputError, match=r"4096 draws.*512 takes 0\.5 s. Set seconds to 48"):
        verify_ldp(slow, epsilon=0.1, seconds=30.0)
    assert clock.passed < 20.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("inputs", [None, st.sampled_from([0, 1])])
@pytest.mark.parametrize("sized", [False, True])
def test_the_time_limit_includes_checks_and_search(
    clock: Clock, sized: bool, inputs: Any, epsilon: float
) -> None:
    def slow(x: int, rng: np.random.Generator, size: int) -> Any:
        clock.now += 0.02 * size
        return response(x, rng, size)

    def slow_alone(x: int, rng: np.random.Generator) -> Any:
        return slow(x, rng, 1)[0]

    found = verify_ldp(slow if sized else slow_alone, epsilon=epsilon, seconds=60.0, inputs=inputs)
    assert 20.0 < clock.passed < 70.0
    assert found.verdict == ("VIOLATED" if epsilon < 0.5 else "UNSUBSTANTIATED")
    assert any("Raise samples, or seconds" in check.reason for check in found.checks)


@pytest.mark.parametrize("later", [0.0, 1e-4, 1.0])
def test_all_planned_draws_are_made_under_any_load(clock: Clock, later: float) -> None:
    """The result equals that of this number of samples, for any load after the timed draws."""
    calls = 0

    def slower(x: int, rng: np.random.Generator) -> int:
        nonlocal calls
        calls += 1
        clock.now += 0.02 if calls < 400 else later
        return int(rng.random() < 0.8) ^ x

    words = {"epsilon": 1.0, "trace": False}
    found = verify_ldp(slower, seconds=60.0, **words)
    assert found.epsilon_lower > 0.5
    said = re.search(r"; 60 seconds became ([\d,]+) draws per input", found.method)
    assert said is not None
    count = int(said[1].replace(",", ""))
    again = verify_ldp(slower, samples=count, **words)
    assert (again.epsilon_lower, again.samples) == (found.epsilon_lower, found.samples)


def test_results_without_a_time_limit_ignore_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jumping clock does not change the result; tracing has a clock of its own."""
    calm = verify_ldp(response, epsilon=1.0, samples=2_000, trace=False)
    jumps = iter(range(0, 10**9, 10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: next(jumps))
    monkeypatch.setattr(time, "monotonic", lambda: next(jumps))
    assert verify_ldp(response, epsilon=1.0, samples=2_000, trace=False) == calm


def test_the_time_limit_bounds_the_draws(clock: Clock) -> None:
    def slow(x: int, rng: np.random.Generator) -> int:
        clock.now += 1e-3
        return int(rng.random() < 0.5) ^ x

    found = verify_ldp(slow, epsilon=1.0, seconds=3.0)
    assert 400 <= found.samples < 2_000
    assert clock.passed < 3.5
    few = verify_ldp(response, epsilon=1.0, samples=500, seconds=60.0, trace=False)
    assert few == verify_ldp(response, epsilon=1.0, samples=500, trace=False)
    with pytest.raises(InputError, match=r"one draw takes 0\.00"):
        verify_ldp(slow, epsilon=1.0, seconds=0.05)


def fair_bits(rng: np.random.Generator, size: int) -> Any:
    return rng.integers(0, 2, (size, 8))


def two_entries(x: int, rng: np.random.Generator, size: int) -> Any:
    """Two randomized responses at epsilon 1 among fair bits, with a joint epsilon of 2."""
    bits = fair_bits(rng, size)
    bits[:, 2], bits[:, 5] = response(x, rng, size), response(x, rng, size)
    return bits


def exclusive_or(x: int, rng: np.random.Generator, size: int) -> Any:
    """A randomized response at epsilon 1 as an exclusive or, which no single entry reveals."""
    bits = fair_bits(rng, size)
    bits[:, 6] = bits[:, 1] ^ response(x, rng, size)
    return bits


@pytest.mark.parametrize(
    ("randomizer", "epsilon", "entries", "samples"),
    [
        (two_entries, 2.0, {2, 5}, 4_000),
        later(two_entries, 2.0, {2, 5}, 40_000),
        later(exclusive_or, 1.0, {1, 6}, 4_000),
        (lambda x, rng, size: two_entries(x, rng, size)[:, 3:6], 1.0, {2}, 4_000),
        later(lambda x, rng, size: two_entries(x, rng, size).astype(float), 2.0, {2, 5}, 4_000),
    ],
)
def test_the_event_names_few_entries(
    randomizer: Any, epsilon: float, entries: set[int], samples: int
) -> None:
    """With few draws a rule on all entries may seem as good, as with one seed in three."""
    named, epsilons = [], []
    for seed in range(4):
        found = verify_ldp(
            randomizer, epsilon=0.6 * epsilon, samples=samples, seed=seed, trace=False
        )
        assert found.verdict is Verdict.VIOLATED
        assert found.epsilon_lower <= epsilon
        epsilons.append(found.epsilon_lower)
        named.append(set(map(int, re.findall(r"output\[(\d)\]", found.witness.output))))
    assert entries in named
    assert np.median(epsilons) > 0.75 * epsilon


class WarmsUp:
    """A randomizer that returns its input without noise in its first call."""

    def __init__(self) -> None:
        self.warm = False

    def report(self, bit: int, rng: np.random.Generator) -> int:
        first, self.warm = not self.warm, True
        return bit if first or rng.random() < 0.6 else 1 - bit


def test_a_leak_of_the_first_call_of_a_new_client_refutes() -> None:
    found = verify_ldp(lambda bit, rng: WarmsUp().report(bit, rng), epsilon=1.0, samples=1_000)
    assert found.verdict is Verdict.VIOLATED
    assert verify_ldp(WarmsUp().report, epsilon=1.0, samples=1_000).verdict is not Verdict.VIOLATED


def respond_plainly_at(place: int) -> Callable[..., Any]:
    """Randomized response, except that one output of each larger batch is the input."""

    def respond(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
        answers = np.where(rng.random(size) < 0.75, x, 1 - x)
        if size > 1:
            answers[place] = x
        return answers

    return respond


@pytest.mark.parametrize("place", [0, -1])
def test_a_leak_at_one_position_of_a_batch_refutes(place: int) -> None:
    found = verify_ldp(respond_plainly_at(place), epsilon=1.2, samples=20_000)
    assert found.verdict is Verdict.VIOLATED
    assert found.epsilon_lower > 4
    assert found.checks[0].name == "places in a call"


def test_row_numbers_are_not_a_fault_and_proofs_cover_one_output() -> None:
    def respond(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
        return np.where(rng.random(size) < 0.75, x, 1 - x)

    def numbered(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
        return np.stack([respond(x, rng, size), np.arange(size)], axis=1)

    found = verify_ldp(respond, epsilon=1.2, samples=20_000)
    assert found.verdict is Verdict.CONSISTENT
    assert found.method.endswith("size=1")
    assert verify_ldp(numbered, epsilon=1.2, samples=20_000).verdict is not Verdict.VIOLATED
