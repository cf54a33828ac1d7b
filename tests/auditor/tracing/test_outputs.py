"""Tests of outputs with structure: arrays are read as nested lists.

Types, shapes, the order of keys and signs of zero are part of an output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.exact.fit import CheckStatus
from fedrec_auditor.auditor.tracing.outputs import FORM_CHECK_NAME, split_output
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK_NAME
from tests.auditor.tracing.distributions import compute_epsilon, follow

Rng = np.random.Generator

KINDS = st.sampled_from(["?", "i1", "u8", "f2", "f4", "f8", "c16", "U2"])
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)


@given(array=KINDS.flatmap(lambda kind: arrays.arrays(kind, SHAPES)))
def test_an_array_is_read_as_its_list(array: NDArray[Any]) -> None:
    ours, lists = split_output(array), split_output(array.tolist())
    assert ours.structure == lists.structure
    assert repr(ours.leaves) == repr(lists.leaves)


@pytest.mark.parametrize("answer", [{"a": np.zeros((2, 3))}, [np.zeros(3), np.zeros(3)]])
def test_nested_arrays_are_read_as_lists(answer: Any) -> None:
    def listed(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: listed(value) for key, value in part.items()}
        return [entry.tolist() for entry in part] if isinstance(part, list) else part.tolist()

    assert split_output(answer) == split_output(listed(answer))


@dataclass
class Report:
    bit: int
    tags: Any = ()


@dataclass(frozen=True, slots=True)
class Sealed:
    bit: int


class Pair(NamedTuple):
    bit: int
    noise: float


class Renamed(NamedTuple):
    bit: int
    noise: float


class Listed(list):  # type: ignore[type-arg]
    """A list that can have attributes besides its entries."""


def noisy(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


def written_into(x: int, rng: Rng) -> Any:
    report = Report(noisy(x, rng))
    report.seen = x  # type: ignore[attr-defined]
    return report


def in_another_order(x: int, rng: Rng) -> Any:
    bit = noisy(x, rng)
    return {"a": bit, "b": 1} if x else {"b": 1, "a": bit}


ANSWERS: list[tuple[Callable[..., Any], float]] = [
    (lambda x, rng: {noisy(x, rng), 7}, 1.0),
    (lambda x, rng: frozenset([noisy(x, rng), 7, 10**9, -3]), 1.0),
    (lambda x, rng: {"k": {frozenset({noisy(x, rng), 3}), frozenset({9, 5})}}, 1.0),
    (lambda x, rng: Report(noisy(x, rng), [noisy(x, rng)]), 2.0),
    (lambda x, rng: Sealed(noisy(x, rng)), 1.0),
    (lambda x, rng: [Sealed(noisy(x, rng)), Sealed(noisy(x, rng))], 2.0),
    (lambda x, rng: Pair(noisy(x, rng), 0.5), 1.0),
    (lambda x, rng: (Pair if noisy(x, rng) else Renamed)(1, 0.5), 1.0),
    (lambda x, rng: (Pair if x else Renamed)(1, 0.5), math.inf),
    (lambda x, rng: {1} if x else frozenset({1}), math.inf),
    (lambda x, rng: {1, 2} if noisy(x, rng) else {2, 1}, 0.0),
    (lambda x, rng: {1, 2, 3} if rng.random() < 0.5 else {1, 2 + x}, math.inf),
    (written_into, math.inf),
    (in_another_order, math.inf),
]


@pytest.mark.parametrize(("function", "times"), ANSWERS, ids=map(str, range(len(ANSWERS))))
def test_sets_records_and_key_orders_are_outputs(
    function: Callable[..., Any], times: float
) -> None:
    found = verify_ldp(function, epsilon=5.0, inputs=[0, 1], samples=4_000)
    assert found.method.startswith("proved from the code"), found.checks[0].reason
    assert found.epsilon_lower == pytest.approx(times * math.log(3) if times else 0.0, abs=1e-12)


def test_a_sampled_set_is_measured_by_its_elements() -> None:
    found = verify_ldp(
        lambda x, rng: {noisy(x, rng), 7}, epsilon=0.5, inputs=[0, 1], samples=4_000, trace=False
    )
    assert found.verdict is Verdict.VIOLATED
    assert found.witness is not None
    assert re.match(r"output\[[01]\] = ", found.witness.output)


def test_a_container_with_attributes_is_refused() -> None:
    def report(x: int, rng: Rng) -> Any:
        answer = Listed([noisy(x, rng)])
        answer.seen = x  # type: ignore[attr-defined]
        return answer

    with pytest.raises(NotTraced, match=r"the code calls .*Listed"):
        follow(report, [0, 1])


def test_log_probabilities_of_many_outputs_equal_single_ones() -> None:
    trace = follow(lambda x, rng: {"bit": noisy(x, rng)} if noisy(x, rng) else [x], [0, 1])
    answers: list[Any] = [{"bit": 1}, [0], {"bit": 0}, "no answer", [1]]
    expected = [trace.log_prob(answer, trace.inputs[1]) for answer in answers]
    assert trace.log_probs(answers, trace.inputs[1]).tolist() == expected
    assert np.exp(expected) == pytest.approx([0.75**2, 0.0, 0.75 * 0.25, 0.0, 0.25])


def coin(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


def seldom(x: int, rng: Rng) -> bool:
    return bool(x and rng.random() < 1e-7)


LEAKING_FORMS: dict[str, Callable[[int, Rng], Any]] = {
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


@pytest.mark.parametrize("function", LEAKING_FORMS.values(), ids=LEAKING_FORMS)
def test_a_form_that_leaks_fails_a_check_however_rare(function: Any) -> None:
    check = follow(function, [0, 1]).check_output_forms(0.0)
    assert check is not None
    assert (check.name, check.status) == (FORM_CHECK_NAME, CheckStatus.FAILED)


def test_a_verification_has_the_form_check() -> None:
    found = verify_ldp(LEAKING_FORMS["type"], epsilon=2.0, inputs=[0, 1], samples=2_000)
    assert FORM_CHECK_NAME in [check.name for check in found.faults]


@pytest.mark.parametrize("share", [1.0, 1e-7])
def test_the_order_of_keys_is_part_of_the_output(share: float) -> None:
    def ordered(x: int, rng: Rng) -> Any:
        if x and rng.random() < share:
            return {"a": coin(0, rng), "b": 1}
        return {"b": 1, "a": coin(0, rng)}

    assert math.isinf(compute_epsilon(ordered, [0, 1]))
    found = verify_ldp(ordered, epsilon=2.0, inputs=[0, 1], samples=2_000)
    assert found.verdict is Verdict.VIOLATED


def test_several_forms_of_one_value_are_not_compared() -> None:
    def mixed(x: int, rng: Rng) -> Any:
        value = coin(0, rng)
        return float(value) if rng.random() < 0.1 + 0.8 * x else value

    found = verify_ldp(mixed, epsilon=1.0, inputs=[0, 1], samples=2_000)
    (proof,) = (check for check in found.checks if check.name == PROOF_CHECK_NAME)
    assert "Return them in one form" in proof.reason


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
def test_a_single_form_has_no_check(function: Any, inputs: list[Any]) -> None:
    assert follow(function, inputs).check_output_forms(0.0) is None
