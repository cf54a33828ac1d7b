"""Types, shapes, the order of keys and signs of zero are a part of what is answered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact.fit import Status
from fedrec_auditor.auditor.tracing.answers import NAME
from fedrec_auditor.auditor.tracing.trace import NAME as PROOF
from tests.auditor.tracing.laws import epsilon, traced

Rng = np.random.Generator


def coin(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


def seldom(x: int, rng: Rng) -> bool:
    return bool(x and rng.random() < 1e-7)


TELLING: dict[str, Callable[[int, Rng], Any]] = {
    "type": lambda x, rng: float(coin(x, rng)) if seldom(x, rng) else coin(x, rng),
    "numpy's type": lambda x, rng: np.int64(coin(x, rng)) if seldom(x, rng) else coin(x, rng),
    "truth": lambda x, rng: bool(coin(x, rng)) if seldom(x, rng) else coin(x, rng),
    "type of an entry": lambda x, rng: [1, 2.0 if seldom(x, rng) else 2, coin(x, rng)],
    "container": lambda x, rng: (1,) if seldom(x, rng) else [1],
    "dtype": lambda x, rng: np.zeros(2, np.int8 if seldom(x, rng) else np.int64) + 0,
    "sign of zero": lambda x, rng: -0.0 if seldom(x, rng) else 0.0,
    "sign in an array": lambda x, rng: np.array([1.0, -0.0 if seldom(x, rng) else 0.0]),
    "array or list": lambda x, rng: np.array([1, 2]) if seldom(x, rng) else [1, 2],
    "type of a value": lambda x, rng: {"a": 1.0 if seldom(x, rng) else 1},
}


@pytest.mark.parametrize("function", TELLING.values(), ids=TELLING)
def test_a_form_that_tells_fails_a_check_however_seldom(function: Any) -> None:
    check = traced(function, [0, 1]).check_forms(0.0)
    assert check is not None
    assert (check.name, check.status) == (NAME, Status.FAILED)


def test_the_check_stands_in_a_verification() -> None:
    found = verify_ldp(TELLING["type"], epsilon=2.0, inputs=[0, 1], samples=2_000)
    assert NAME in [check.name for check in found.checks if check.status is Status.FAILED]


@pytest.mark.parametrize("share", [1.0, 1e-7])
def test_the_order_of_keys_is_a_part_of_the_answer(share: float) -> None:
    def ordered(x: int, rng: Rng) -> Any:
        if x and rng.random() < share:
            return {"a": coin(0, rng), "b": 1}
        return {"b": 1, "a": coin(0, rng)}

    assert math.isinf(epsilon(ordered, [0, 1]))
    found = verify_ldp(ordered, epsilon=2.0, inputs=[0, 1], samples=2_000)
    assert found.verdict is Verdict.VIOLATED


def test_several_forms_of_one_value_are_not_compared() -> None:
    def mixed(x: int, rng: Rng) -> Any:
        value = coin(0, rng)
        return float(value) if rng.random() < 0.1 + 0.8 * x else value

    found = verify_ldp(mixed, epsilon=1.0, inputs=[0, 1], samples=2_000)
    (proof,) = (check for check in found.checks if check.name == PROOF)
    assert "by chances that are not compared" in proof.reason


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (coin, [0, 1]),
        (lambda x, rng: {"b": coin(x, rng), "a": 1.5}, [0, 1]),
        (lambda x, rng: x + rng.laplace(), [0.0, 1.0]),
        (lambda x, rng: x, [0, 1.0]),
        (lambda x, rng: [x + rng.laplace(), coin(int(x), rng)], [0.0, 1.0]),
        (lambda x, rng: float(np.clip(x + rng.laplace(), 0, 1)), [0.0, 1.0]),
    ],
)
def test_one_form_tells_nothing(function: Any, inputs: list[Any]) -> None:
    assert traced(function, inputs).check_forms(0.0) is None
