"""Tests of all checks together: names, order, seeds, and checks that are not run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.verification.checks import shared_evidence
from fedrec_auditor.auditor.verification.checks.run import CHECK_FUNCTIONS, run_checks
from fedrec_auditor.auditor.verification.checks.shared_evidence import ClaimUnderTest
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate
from tests.auditor.verification.checks.evidence import collect

Rng = np.random.Generator
NAMES = ["determinism", "shared noise", "support", "output type", "floating point"]


FAULTS = {
    "determinism": lambda x, rng, size: np.full(size, x // 4),
    "shared noise": lambda x, rng, size: rng.laplace(size=(size, 1)) * [1, 1] + [0, x],
    "support": lambda x, rng, size: x + rng.random(size),
    "floating point": lambda x, rng, size: x + 0.3 * rng.laplace(size=size),
}


def run(f: Any, inputs: Any = (0, 1), **more: Any) -> tuple[CheckResult, ...]:
    return run_checks(collect(f, inputs, **{"samples": 100_000, "seed": 4, **more}))


def response(x: int, rng: Rng, size: int) -> Any:
    return np.where(rng.random(size) < 1.0 / (1.0 + np.exp(-1.0)), x, 1 - x)


@pytest.mark.parametrize(
    "f",
    [
        response,
        lambda x, rng: {"value": x},
        lambda x, rng, size: np.full(size, rng.random()),
        lambda x, rng, size: np.full(size, np.nan),
        lambda x, rng, size: rng.random((size, x + 1)),
    ],
)
def test_names_and_order_never_change(f: Any) -> None:
    assert [check.name for check in run(f)] == NAMES


def test_honest_callables_and_mechanisms_pass() -> None:
    for checks in (
        run(response),
        run(BitFlip.symmetric(1.0), law=True),
        run(
            OneCoordinate(epsilon=1.0, dimension=3), [[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], law=True
        ),
    ):
        assert not [check for check in checks if check.status is CheckStatus.FAILED]


def test_every_fault_is_found_under_its_name() -> None:
    found = run(lambda x, rng, size: np.full(size, x + rng.laplace()))
    by_name = {check.name: check for check in found}
    assert by_name["shared noise"].status is CheckStatus.FAILED
    assert by_name["support"].status is CheckStatus.NOT_RUN
    assert "share noise" in by_name["support"].reason
    failed = [c.name for c in run(lambda x, rng, size: x + rng.laplace(size=size))
              if c.status is CheckStatus.FAILED]  # fmt: skip
    assert failed == ["floating point"]


def test_unreadable_outputs_are_reported_without_raising() -> None:
    checks = run(lambda x, rng, size: np.full(size, np.nan))
    assert all(check.status is not CheckStatus.FAILED for check in checks)
    assert "NaN" in checks[0].reason


def test_draws_for_many_inputs_and_long_vectors_are_bounded() -> None:
    drawn = 0

    def f(x: Any, rng: Rng, size: int) -> Any:
        nonlocal drawn
        drawn += size * np.size(x)
        return np.asarray(x) + rng.integers(-5, 5, (size, np.size(x)))

    run(f, [np.full(2000, i) for i in range(60)])
    assert drawn < 1 << 25


@pytest.mark.parametrize("samples", [100, 1_000, 20_000])
def test_single_calls_are_at_most_half_of_the_draws(samples: int) -> None:
    """The checks of any mechanism draw at most half of ``samples`` per input."""
    calls = 0

    def noisy(x: float, rng: Rng) -> float:
        nonlocal calls
        calls += 1
        return x + rng.laplace()

    run(noisy, [0.5, 1.5], samples=samples)
    assert calls <= shared_evidence.MAX_CHECK_SHARE * samples * 2 + 16


def test_enough_draws_run_every_check_of_single_calls() -> None:
    checks = run(lambda x, rng: round(x + rng.laplace(), 2), [0.5, 1.5])
    not_run = [check.name for check in checks if check.status is CheckStatus.NOT_RUN]
    assert not not_run


@pytest.mark.parametrize("name", ["determinism", "shared noise", "support", "floating point"])
def test_all_pairs_of_inputs_share_the_false_alarm_rate(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All events of a check share the error ``MAX_FALSE_ALARM_PROB``, divided by its pairs."""
    n_tests: list[int] = []
    for method in ("compute_lower_epsilon", "compute_lower_prob"):
        real = getattr(ClaimUnderTest, method)

        def counted(claim: ClaimUnderTest, *counts: int, real: Any = real) -> float:
            n_tests.append(claim.n_tests)
            return float(real(claim, *counts))

        monkeypatch.setattr(ClaimUnderTest, method, counted)
    inputs = range(8)
    CHECK_FUNCTIONS[name](collect(FAULTS[name], inputs, samples=20_000, epsilon=0.1))
    assert n_tests
    assert min(n_tests) >= math.comb(len(inputs), 2)
