"""Tests of proofs from code: their epsilon is exact, and code that cannot be traced is sampled."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.exact.fit import CheckStatus
from fedrec_auditor.auditor.tracing import trace
from fedrec_auditor.auditor.tracing.paths import NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK_NAME, Trace
from fedrec_auditor.auditor.verification import Verification
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.base import Mechanism
from tests.contracts.test_mechanisms import CASES

Rng = np.random.Generator


def coin(bit: int, rng: Rng) -> int:
    return bit if rng.random() < 0.75 else 1 - bit


def verify(randomizer: Callable[..., Any], **settings: Any) -> tuple[Verification, str]:
    """Verification of a randomizer, and the reason of its proof check."""
    usual: dict[str, Any] = {"epsilon": 2.0, "inputs": [0, 1], "samples": 4_000}
    found = verify_ldp(randomizer, **usual | settings)
    (check,) = (check for check in found.checks if check.name == PROOF_CHECK_NAME)
    assert (check.status is CheckStatus.PASSED) is found.method.startswith("proved from the code")
    return found, check.reason


def test_a_true_claim_is_proved_and_a_false_one_refuted_exactly() -> None:
    kept, _ = verify(coin, epsilon=math.log(3.0))
    assert (kept.verdict, kept.samples) == (Verdict.CONSISTENT, None)
    broken, _ = verify(coin, epsilon=1.0)
    assert broken.verdict is Verdict.VIOLATED
    assert broken.epsilon_lower == pytest.approx(math.log(3.0), rel=1e-12)
    assert broken.witness is not None
    assert "Probabilities 3/4 against 1/4" in broken.witness.note
    assert "random() in (0, 0.75)" in broken.witness.note


def test_a_leak_of_one_in_a_million_is_exact() -> None:
    found, _ = verify(lambda x, rng: x if rng.random() < 1e-6 else int(rng.integers(0, 2)))
    assert found.epsilon_lower == pytest.approx(math.log((0.5 + 5e-7) / (0.5 - 5e-7)), rel=1e-9)
    clear, _ = verify(lambda x, rng: x if rng.random() < 1e-6 else 2)
    assert math.isinf(clear.epsilon_lower)


def test_a_claim_missed_by_rounding_of_constants_holds() -> None:
    keep = math.e / (1.0 + math.e)
    found, _ = verify(lambda x, rng: x ^ int(rng.random() >= keep), epsilon=1.0)
    assert found.verdict is Verdict.CONSISTENT


def test_an_unbounded_loop_is_cut_at_paths_rarer_than_2_to_minus_100() -> None:
    def rejecting(x: int, rng: Rng) -> int:
        while (report := int(rng.integers(0, 4))) == 3:
            pass
        return x if report == 2 else report

    found, _ = verify(rejecting)
    assert found.epsilon_lower == pytest.approx(math.log(2.0), rel=1e-12)
    assert "rarer than 2^-100 each are left out" in found.method


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_at_a_delta_the_bound_is_on_the_gaussian_curve(delta: float) -> None:
    found, _ = verify(lambda x, rng: x + rng.normal(0.0, 2.0), delta=delta)
    cdf = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2.0)))
    epsilon, mu = found.epsilon_lower, 0.5
    delta_at_epsilon = cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)
    assert float(delta_at_epsilon) == pytest.approx(delta, rel=1e-5)


def send_memoised(x: int, rng: Rng) -> list[int]:
    """Ten reports of one client, which repeats its first output."""
    known: dict[int, int] = {}
    return [known.setdefault(x, coin(x, rng)) if t == 0 else known[x] for t in range(10)]


def send_randomized_twice(x: int, rng: Rng) -> list[Any]:
    """Four reports that randomize a permanent output again."""
    permanent = coin(x, rng)
    return [np.where(rng.random() < 0.8, permanent, 1 - permanent) for _ in range(4)]


def test_a_constant_expression_is_proved() -> None:
    found, _ = verify(lambda x, rng: 2 * 3, epsilon=0.1)
    assert found.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("device", "epsilon"),
    [
        (send_memoised, math.log(3.0)),
        (lambda x, rng: [coin(x, rng) for _ in range(3)], 3 * math.log(3.0)),
        (
            send_randomized_twice,
            math.log((0.75 * 0.8**4 + 0.25 * 0.2**4) / (0.25 * 0.8**4 + 0.75 * 0.2**4)),
        ),
    ],
)
def test_several_reports_of_a_client_are_traced_together(
    device: Callable[..., Any], epsilon: float
) -> None:
    found, _ = verify(device, epsilon=4.0)
    assert found.epsilon_lower == pytest.approx(epsilon, rel=1e-12)
    assert found.exact


def leak_every_thousandth() -> Callable[..., Any]:
    calls = 0

    def report(x: int, rng: Rng) -> int:
        nonlocal calls
        calls += 1
        return x if calls % 1000 == 0 else coin(x, rng)

    return report


def leak_by_iterator() -> Callable[..., Any]:
    calls = itertools.count()
    return lambda x, rng: x if next(calls) % 1000 == 0 else coin(x, rng)


def draw_from_hidden() -> Callable[..., Any]:
    own = np.random.default_rng(0)
    return lambda x, rng: x if own.random() < 0.001 else coin(x, rng)


def add_noise_to_time(x: int, rng: Rng) -> float:
    """Noise of scale 1 added to a time in milliseconds."""
    return 1.7e12 + (x + rng.laplace())


def differ_by_rounding(x: int, rng: Rng) -> list[float]:
    noise = rng.laplace()
    return [noise + x / 3, 3 * noise + x]


def lattice_and_row(x: int, rng: Rng) -> list[int]:
    noise = rng.geometric(0.5)
    return [3, 3] if x and rng.random() < 0.1 else [noise, noise]


def lattices_of_two_places(x: int, rng: Rng) -> list[int]:
    noise = int(rng.geometric(0.5)) - 1
    if x:
        return [noise, 0] if rng.random() < 0.5 else [0, noise + 1]
    return [noise + 1, 0] if rng.random() < 0.5 else [0, noise]


@pytest.mark.parametrize(
    ("randomizer", "message"),
    [
        (leak_every_thousandth(), "the code assigns to calls, which keeps its value between calls"),
        (leak_by_iterator(), "the code calls next on an iterator that this call did not create"),
        (draw_from_hidden(), "tracing does not know numpy.random._generator.Generator.random"),
        (
            lambda x, rng: x * rng.random() * rng.random(),
            "the code multiplies one noise by another",
        ),
        (lambda x, rng: [x, rng.pareto(1)], "tracing does not support Generator.pareto"),
        (add_noise_to_time, "the noise is too small relative to the number to which it is added"),
        (differ_by_rounding, "two output numbers differ only by rounding"),
        (lattice_and_row, "several output numbers hold the same integer noise"),
        (lattices_of_two_places, "several output numbers hold the same integer noise"),
    ],
)
def test_code_that_cannot_be_traced_is_sampled_with_a_reason(
    randomizer: Callable[..., Any], message: str
) -> None:
    found, reason = verify(randomizer)
    assert reason.startswith(f"Tested by samples instead: {message}")
    assert not found.exact


def test_real_draws_that_differ_from_the_trace_refuse_the_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Trace.log_prob
    monkeypatch.setattr(Trace, "log_prob", lambda self, output, value: right(self, output, 1))
    found, reason = verify(coin, epsilon=1.0)
    assert not found.exact
    assert "real draws do not follow" in reason


def test_inputs_of_a_strategy_are_not_the_whole_domain() -> None:
    found, _ = verify(coin, inputs=st.sampled_from([0, 1]))
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert found.exact


# Mechanisms that draw bytes, or an unbounded number of draws, in ways that are not traced.
_SAMPLED = {"bit-flip", "repeated", "discrete-laplace", "discrete-gaussian", "snapped-laplace"}
_SAMPLED |= {"noise-replacement", "revealed-gaussian"}
_SAMPLED_CASES = {("product", 0)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_built_in_mechanisms_have_their_stated_epsilon(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, case in enumerate(CASES[name][:2]):
        sampled = name in _SAMPLED or (name, place) in _SAMPLED_CASES
        mechanism: Mechanism = case.mechanism
        shape, worst = mechanism.domain.shape, mechanism.worst_case()
        if worst is None:
            ends = max(mechanism.domain.low, -1.0), min(mechanism.domain.high, 1.0)
            inputs: list[Any] = [np.full(shape, end) if shape else end for end in ends]
        else:
            inputs = [np.broadcast_to(value, shape).copy() for value in worst.inputs[:4]]

        def one(value: Any, rng: Rng, mechanism: Mechanism = mechanism) -> Any:
            return mechanism.randomize(value, rng, (1,))[0]

        if sampled:
            monkeypatch.setattr(trace, "StepBudget", lambda: StepBudget(100_000))
            with pytest.raises(NotTraced):
                Trace.from_function(one, inputs, takes_size=False)
            continue
        monkeypatch.setattr(trace, "StepBudget", StepBudget)
        found = Trace.from_function(one, inputs, takes_size=False).compute_bound(0.0)
        assert found.tight
        expected = find_exact_bound(mechanism, REPORT_SCOPE).epsilon
        assert found.epsilon == pytest.approx(expected, rel=1e-9), mechanism


def test_the_global_generator_is_traced_by_any_name() -> None:
    def hidden_coin(x: int, rng: Rng) -> int:
        return 100 + x if np.random.mtrand._rand.random_sample() < 1e-6 else coin(x, rng)

    found, reason = verify(hidden_coin)
    assert math.isinf(found.epsilon_lower)
    assert "by the same interpreter" in reason


def test_omitted_rare_paths_prevent_a_proof() -> None:
    def rarely_clear(x: int, rng: Rng) -> int:
        runs = 0
        while rng.random() < 0.5:
            runs += 1
        return x + 2 if runs >= 120 else 0

    found, _ = verify(rarely_clear)
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert "left out" in found.method


@pytest.mark.parametrize(("width", "epsilon"), [(0, math.log(20)), (1, math.log(10))])
def test_outputs_of_rare_paths_are_not_called_impossible(width: int, epsilon: float) -> None:
    def two_sided(x: int, rng: Rng) -> float:
        runs = 0
        while rng.random() < 0.1:
            runs += 1
        return x + (1 if rng.random() < 0.5 else -1) * (runs + width * rng.random())

    found, _ = verify(two_sided, epsilon=3.0)
    assert found.epsilon_lower == pytest.approx(epsilon, rel=1e-9)
    assert found.verdict is Verdict.UNSUBSTANTIATED


def test_outputs_of_omitted_paths_are_not_called_impossible() -> None:
    """Noise returns the number into its bounds from far outside with probability e^-90 / 2."""

    def clamped(x: int, rng: Rng) -> float:
        noisy = 10.0 * x + rng.laplace(0, 0.1)
        return 0.0 if noisy < 0 else 1.0 if noisy > 1 else noisy

    found, _ = verify(clamped, epsilon=1.0)
    assert found.verdict is Verdict.VIOLATED
    assert math.isfinite(found.epsilon_lower)
    assert found.epsilon_lower <= 100.0
    assert all("impossible" not in check.reason for check in found.faults)


def test_a_branch_on_the_input_with_noise_at_a_delta() -> None:
    """The branches have different probabilities, which shift the epsilon of each below 0."""

    def flagged(x: int, rng: Rng) -> list[float]:
        noise = rng.normal() * 2 + x
        return [0.0, noise] if rng.random() < 0.3 + 0.2 * x else [1.0, noise]

    found, _ = verify(flagged, delta=0.01)
    y = np.linspace(-40.0, 40.0, 400_001)

    def density(flag: int, x: int) -> Any:
        share = 0.3 + 0.2 * x
        return (1 - share if flag else share) * stats.norm.pdf(y, x, 2.0)

    ratio, cell = math.exp(found.epsilon_lower), y[1] - y[0]

    def delta(a: int, b: int) -> float:
        rest = [np.maximum(density(f, a) - ratio * density(f, b), 0.0).sum() for f in (0, 1)]
        return float(sum(rest) * cell)

    assert max(delta(0, 1), delta(1, 0)) == pytest.approx(0.01, rel=1e-4)


def test_rounded_normal_noise_is_not_proved_at_delta_0() -> None:
    """Its ratio is unbounded, although bounded over outputs whose probability fits a double."""

    def rounded(x: int, rng: Rng) -> float:
        noisy = np.round(x + rng.normal())
        return float(noisy) if rng.random() < 0.5 else float(noisy) + 0.5

    found, _ = verify(rounded, epsilon=100.0)
    assert found.verdict is Verdict.UNSUBSTANTIATED
    assert "beyond 38 standard deviations" in found.method
    kept, _ = verify(rounded, epsilon=5.0, delta=1e-3)
    assert kept.verdict is Verdict.CONSISTENT


def test_code_with_a_different_first_call_is_not_proved() -> None:
    """The plain call before the trace must not hide the change that it makes."""
    called: list[int] = []

    def plain_at_first(x: int, rng: Rng) -> int:
        called.append(x)
        return coin(x, rng) if called else x

    def once(x: int, rng: Rng) -> int:
        if not called:
            called.append(x)
            return x
        return coin(x, rng)

    for randomizer in (plain_at_first, once):
        called.clear()
        _, reason = verify(randomizer)
        assert "keeps its value between calls" in reason


def test_a_module_imported_in_the_call_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import of the module draws random numbers, which the trace must not follow."""
    (tmp_path / "drawing_module.py").write_text(
        "import random\nSALT = [random.gauss(0, 1) for _ in range(3)]\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def randomizer(x: int, rng: Rng) -> int:
        import drawing_module

        return coin(x, rng) if drawing_module.WHOLE else x

    found, _ = verify(randomizer, epsilon=1.2)
    assert found.epsilon_lower <= math.log(3.0) * 1.001
    assert sys.modules.pop("drawing_module").WHOLE
