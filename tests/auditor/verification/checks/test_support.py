"""Tests of outputs possible under one input only, and of the types of outputs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.verification.checks.support import check_output_type, check_support
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from tests.auditor.verification.checks.evidence import collect

Rng = np.random.Generator


def check(f: Any, *, samples: int = 187_500, **more: Any) -> CheckResult:
    """Runs the check with 32,768 draws per input, or with a thousand for a stated distribution."""
    return check_support(collect(f, samples=samples, **more))


def check_stated(thing: Any, **more: Any) -> CheckResult:
    return check(thing, law=True, samples=6_000, **more)


def answer_without_lies(x: int, rng: Rng, size: int) -> Any:
    return np.where(x == 1, 1, rng.random(size) < 0.3)


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (answer_without_lies, "such as 0"),
        (lambda x, rng, size: x + rng.geometric(0.5, size), "such as 1"),
        (lambda x, rng, size: x + np.clip(rng.laplace(size=size), -3, 3), "such as"),
        (lambda x, rng, size: x + rng.uniform(-3, 3, size), "outside of"),
        (lambda x, rng, size: 0.1234567 * x + np.round(rng.laplace(size=size), 5), "such as"),
        (lambda x, rng, size: np.stack([rng.laplace(size=size), x + rng.uniform(-3, 3, size)], 1),
         "outside of"),
        (lambda x, rng, size: np.where(rng.random(size) < 0.1, ["no", "yes"][x], "-"), "such as"),
    ],
    ids=["never lies", "one-sided", "clipped noise", "uniform", "off grid", "one entry", "words"],
)  # fmt: skip
def test_impossible_outputs_are_found(f: Any, word: str) -> None:
    found = check(f)
    assert found.status is CheckStatus.FAILED
    assert word in found.reason


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: np.where(rng.random(size) < 0.7, x, 1 - x),
        lambda x, rng, size: x + rng.laplace(size=size),
        lambda x, rng, size: np.clip(x + rng.laplace(size=size), -1, 2),
        lambda x, rng, size: x + rng.geometric(0.6, size) - rng.geometric(0.6, size),
        lambda x, rng, size: x + rng.laplace(0.0, 2.0, (size, 2)),
        lambda x, rng, size: rng.standard_cauchy(size) * np.exp(x),
        lambda x, rng, size: x + np.round(rng.laplace(size=size), 1),
    ],
    ids=["response", "laplace", "clamped", "geometric", "vector", "cauchy", "on a grid"],
)
def test_honest_supports_pass(f: Any) -> None:
    assert all(check(f, seed=seed).status is CheckStatus.PASSED for seed in range(5))


def test_rare_outputs_are_not_called_impossible() -> None:
    """At epsilon 9 a false answer is too rare to occur, which a large claim allows."""

    def f(x: int, rng: Rng, size: int) -> Any:
        return np.where(rng.random(size) < 1e-9, 1 - x, x)

    assert check(f, epsilon=20.0).status is CheckStatus.NOT_RUN
    assert check(f, epsilon=3.0).status is CheckStatus.FAILED


def test_delta_allows_impossible_outputs() -> None:
    def f(x: int, rng: Rng, size: int) -> Any:
        return np.where(rng.random(size) < 0.05, x + 1, 0)

    assert check(f).status is CheckStatus.FAILED
    assert check(f, delta=0.05).status is CheckStatus.PASSED


def test_a_stated_distribution_is_checked_exactly() -> None:
    assert check_stated(BitFlip.symmetric(1.0)).status is CheckStatus.PASSED
    assert check_stated(Laplace(scale=1.0, low=0, high=1)).status is CheckStatus.PASSED
    broken = check_stated(BitFlip.asymmetric(1.0))
    assert broken.status is CheckStatus.FAILED
    assert "By the stated distribution" in broken.reason
    allowed = check_stated(BitFlip.asymmetric(1.0), delta=1 - math.exp(-1))
    assert allowed.status is CheckStatus.PASSED


def test_a_stated_density_is_checked() -> None:
    def log_prob(output: Any, value: Any) -> Any:
        inside = np.abs(np.asarray(output) - value) <= 2.0
        return np.where(inside, -math.log(4.0), -np.inf)

    found = check_stated(
        Density(sample=lambda x, rng, size: x + rng.uniform(-2, 2, size), log_prob=log_prob)
    )
    assert found.status is CheckStatus.FAILED
    assert "the stated distribution calls them impossible" in found.reason


def draw_lie(rng: Rng) -> bool:
    return bool(rng.random() < 0.3)


class Tagged(np.ndarray):
    raw: Any


def add_attribute(x: int, rng: Rng, size: int) -> Any:
    array = rng.laplace(x, 1.0, size).view(Tagged)
    array.raw = x
    return array


def add_field(x: int, rng: Rng, size: int) -> Any:
    record = np.zeros(size, dtype=[("noisy", float), ("id", int)])
    record["noisy"], record["id"] = rng.laplace(x, 1.0, size), x
    return record


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (lambda x, rng, size: rng.laplace(x, 1.0, size).astype(["f8", "f4"][x]), "float32"),
        (lambda x, rng, size: rng.laplace(x, 1.0, (size, x + 1)), "shape"),
        (lambda x, rng: (x + rng.laplace(), x), "[1]"),
        (lambda x, rng: {"value": x + rng.laplace(), "id": x}, "['id']"),
        (lambda x, rng: {"value": 1} if x else {"other": 1}, "absent"),
        (lambda x, rng: SimpleNamespace(value=x + rng.laplace(), raw=x), ".raw"),
        (add_attribute, ".raw"),
        (add_field, "['id']"),
        (lambda x, rng, size: np.ma.masked_array(rng.laplace(x, 1.0, size), mask=bool(x)), "mask"),
        (lambda x, rng: [0.0] * (3 + x), "length"),
        (lambda x, rng: 1 - x if draw_lie(rng) else float(x), "type and value"),
    ],
    ids=["dtype", "shape", "tuple", "dictionary", "keys", "object", "attribute", "fields", "mask",
         "length", "type tells the truth"],
)  # fmt: skip
def test_types_that_depend_on_the_input_are_found(f: Any, word: str) -> None:
    found = check_output_type(collect(f))
    assert found.status is CheckStatus.FAILED
    assert word in found.reason


def answer_by_type(x: Any, rng: Rng) -> Any:
    """Honest randomized response at epsilon 1, with answers of different types."""
    truth = rng.random() < 1.0 / (1.0 + np.exp(-1.0))
    return {True: None, False: 7}[bool(x) == truth]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: x + rng.laplace(size=size),
        lambda x, rng: x + rng.laplace(),
        lambda x, rng: "yes" if draw_lie(rng) ^ bool(x) else "no",
        lambda x, rng, size: np.where((rng.random(size) < 0.3) ^ bool(x), "yes", "no"),
        lambda x, rng: (x + rng.laplace(), rng.random()),
        lambda x, rng: [x ^ draw_lie(rng) for _ in range(3)],
        lambda x, rng: [0.0] * int(rng.integers(1, 4)),
        lambda x, rng, size: np.ma.masked_array(rng.random(size), mask=rng.random(size) < 0.5),
        answer_by_type,
    ],
    ids=["numbers", "one number", "words", "array of words", "pair", "bits", "lengths", "masks",
         "things"],
)  # fmt: skip
def test_honest_types_pass(f: Any) -> None:
    assert check_output_type(collect(f)).status is CheckStatus.PASSED


def test_the_common_type_of_many_outputs_is_not_a_fault() -> None:
    """Four reports in a list have one type: its ratio is e^4, for a claim of 1 per report."""

    def f(x: float, rng: Rng, size: int) -> Any:
        kept = rng.random(size) < 1.0 / (1.0 + np.exp(-1.0))
        return np.array([0 if (x == 0) == bool(k) else 0.5 for k in kept])

    assert check_output_type(collect(f, (0.0, 0.5))).status is CheckStatus.PASSED


def test_types_of_the_inputs_are_not_a_fault() -> None:
    def f(x: float, rng: Rng, size: int) -> Any:
        return np.where(rng.random(size) < 0.7, x, 1 - x)

    assert check_output_type(collect(f, (0, 0.5))).status is CheckStatus.PASSED


def test_a_large_claim_is_left_open() -> None:
    found = check_output_type(collect(lambda x, rng: None if x else 7, epsilon=20.0))
    assert found.status is CheckStatus.NOT_RUN
