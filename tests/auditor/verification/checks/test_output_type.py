"""What answers are made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.exact.fit import Status
from fedrec_auditor.auditor.verification.checks.support import output_type
from tests.auditor.verification.checks.evidence import evidence

Rng = np.random.Generator


def lie(rng: Rng) -> bool:
    return bool(rng.random() < 0.3)


class Tagged(np.ndarray):
    raw: Any


def tagged(x: int, rng: Rng, size: int) -> Any:
    array = rng.laplace(x, 1.0, size).view(Tagged)
    array.raw = x
    return array


def fields(x: int, rng: Rng, size: int) -> Any:
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
        (tagged, ".raw"),
        (fields, "['id']"),
        (lambda x, rng, size: np.ma.masked_array(rng.laplace(x, 1.0, size), mask=bool(x)), "mask"),
        (lambda x, rng: [0.0] * (3 + x), "length"),
        (lambda x, rng: 1 - x if lie(rng) else float(x), "type and value"),
    ],
    ids=["dtype", "shape", "tuple", "dictionary", "keys", "object", "attribute", "fields", "mask",
         "length", "type tells the truth"],
)  # fmt: skip
def test_forms_that_tell_the_input_are_found(f: Any, word: str) -> None:
    found = output_type(evidence(f))
    assert found.status is Status.FAILED
    assert word in found.reason


def one_of(x: Any, rng: Rng) -> Any:
    """Randomized response over things of different types, at epsilon 1: honest."""
    truth = rng.random() < 1.0 / (1.0 + np.exp(-1.0))
    return {True: None, False: 7}[bool(x) == truth]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, rng, size: x + rng.laplace(size=size),
        lambda x, rng: x + rng.laplace(),
        lambda x, rng: "yes" if lie(rng) ^ bool(x) else "no",
        lambda x, rng, size: np.where((rng.random(size) < 0.3) ^ bool(x), "yes", "no"),
        lambda x, rng: (x + rng.laplace(), rng.random()),
        lambda x, rng: [x ^ lie(rng) for _ in range(3)],
        lambda x, rng: [0.0] * int(rng.integers(1, 4)),
        lambda x, rng, size: np.ma.masked_array(rng.random(size), mask=rng.random(size) < 0.5),
        one_of,
    ],
    ids=["numbers", "one number", "words", "array of words", "pair", "bits", "lengths", "masks",
         "things"],
)  # fmt: skip
def test_honest_answers_pass(f: Any) -> None:
    assert output_type(evidence(f)).status is Status.PASSED


def test_the_type_of_many_outputs_is_not_held_against_one() -> None:
    """Four reports in one list are whole numbers only if all are: e^4 for a claim of 1 a report."""

    def f(x: float, rng: Rng, size: int) -> Any:
        kept = rng.random(size) < 1.0 / (1.0 + np.exp(-1.0))
        return np.array([0 if (x == 0) == bool(k) else 0.5 for k in kept])

    assert output_type(evidence(f, (0.0, 0.5))).status is Status.PASSED


def test_types_of_the_inputs_themselves_are_no_fault() -> None:
    def f(x: float, rng: Rng, size: int) -> Any:
        return np.where(rng.random(size) < 0.7, x, 1 - x)

    assert output_type(evidence(f, (0, 0.5))).status is Status.PASSED


def test_a_large_claim_is_left_open() -> None:
    found = output_type(evidence(lambda x, rng: None if x else 7, epsilon=20.0))
    assert found.status is Status.NOT_RUN
