"""Answers that are no arrays, beside probabilities that they are said to have."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification import Density
from fedrec_auditor.auditor.worlds.fields import Fields
from tests.auditor.worlds.test_fields import said, salt
from tests.texts import LETTERS

KEPT = 1 / (1 + math.exp(-3.0))


def chance(bit: int, x: int) -> float:
    return math.log(KEPT if bit == x else 1 - KEPT)


LAWS = {
    "dictionary": Density(
        sample=lambda x, rng: {"bit": said(x, rng), "user": None},
        log_prob=lambda answer, x: chance(answer["bit"], x),
    ),
    "ragged lists": Density(
        sample=lambda x, rng: [7] * (1 + said(x, rng)),
        log_prob=lambda answer, x: chance(len(answer) - 1, x),
    ),
    "null": Density(
        sample=lambda x, rng: None if said(x, rng) else 2.5,
        log_prob=lambda answer, x: chance(answer is None, x),
    ),
    "text beside numbers": Density(
        sample=lambda x, rng: ("bit", said(x, rng)),
        log_prob=lambda answer, x: chance(answer[1], x),
    ),
    "a salt beside an array": Density(
        sample=lambda x, rng: {"salt": salt(rng), "bits": np.array([said(x, rng)])},
        log_prob=lambda answer, x: chance(answer["bits"].sum(), x) - 32 * math.log(2),
    ),
}


@pytest.mark.parametrize(
    ("form", "inputs"),
    [*((form, [0, 1]) for form in LAWS), ("ragged lists", st.sampled_from([0, 1]))],
)
def test_probabilities_of_structures_are_searched(form: str, inputs: Any) -> None:
    found = verify_ldp(LAWS[form], epsilon=2.0, samples=1_000, inputs=inputs)
    assert (found.verdict, found.exact) == ("VIOLATED", True)
    assert found.epsilon_lower == pytest.approx(3.0)
    assert found.checks[0].status == "passed"
    assert verify_ldp(LAWS[form], epsilon=3.0, samples=1_000, inputs=inputs).verdict != "VIOLATED"


def test_a_witness_names_the_field() -> None:
    witness = verify_ldp(LAWS["dictionary"], epsilon=2.0, samples=1_000, inputs=[0, 1]).witness
    assert witness.output == "{'bit': 0, 'user': None}"


def test_a_law_that_the_structures_do_not_follow_is_not_believed() -> None:
    wrong = Density(
        sample=lambda x, rng: {"bit": int(rng.random() < 0.5)},
        log_prob=LAWS["dictionary"].log_prob,
    )
    found = verify_ldp(wrong, epsilon=2.0, samples=2_000, inputs=[0, 1])
    assert [check.name for check in found.faults] == ["fit to the claimed distribution"]
    assert not found.exact


def test_densities_in_structures_are_no_probabilities() -> None:
    """At delta 0 their ratio is searched; at delta > 0 their sum says nothing: measured."""
    law = Density(
        sample=lambda x, rng: {"noisy": x + rng.laplace(scale=1e4), "user": None},
        log_prob=lambda answer, x: -abs(answer["noisy"] - x) / 1e4 - math.log(2e4),
    )
    exact = verify_ldp(law, epsilon=1.0, samples=1_000, inputs=[0, 10_000])
    assert (exact.exact, exact.epsilon_lower) == (True, pytest.approx(1.0))
    measured = verify_ldp(law, epsilon=1.0, delta=1e-3, samples=1_000, inputs=[0, 10_000])
    assert not measured.exact
    assert measured.verdict == "UNSUBSTANTIATED"


def test_all_structures_can_be_listed() -> None:
    law = Density(
        sample=LAWS["dictionary"].sample,
        log_prob=LAWS["dictionary"].log_prob,
        outputs=[{"bit": 0, "user": None}, {"bit": 1, "user": None}],
    )
    found = verify_ldp(law, epsilon=3.0, delta=1e-3, samples=1_000, inputs=[0, 1])
    assert found.verdict == "CONSISTENT"


def test_what_cannot_be_spelt_is_refused_with_a_hint() -> None:
    law = Density(sample=lambda x, rng: {"bit": object()}, log_prob=lambda answer, x: 0.0)
    with pytest.raises(InputError, match=r"got dict\. Return an encoding of it"):
        verify_ldp(law, epsilon=1.0, inputs=[0, 1])


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(LETTERS)
PARTS = st.recursive(
    LEAVES | st.binary(),
    lambda part: st.lists(part) | st.tuples(part, part) | st.dictionaries(st.text(LETTERS), part),
)


@settings(max_examples=40)
@given(PARTS, PARTS)
def test_equal_answers_and_no_others_have_equal_words(one: Any, other: Any) -> None:
    fields = Fields()
    words = fields.read([one, other, copy.deepcopy(one)])
    assert words[0] == words[2]
    assert (words[0] == words[1]) == (repr(one) == repr(other))
    assert fields.answer(words[0]) == one


def test_arrays_and_numbers_of_numpy_are_told_apart_and_kept() -> None:
    answers = [
        {"a": np.array([1.5, -0.0]), "b": np.int64(3), "c": -0.0, "d": "x\0"},
        {"a": np.array([1.5, 0.0]), "b": np.int64(3), "c": -0.0, "d": "x\0"},
        {"a": np.array([1.5, -0.0], np.float32), "b": np.int64(3), "c": -0.0, "d": "x\0"},
    ]
    fields = Fields()
    words = fields.read(answers)
    assert len(set(words.tolist())) == 3
    back = fields.answer(words[2])
    assert (back["a"].tobytes(), type(back["b"])) == (answers[2]["a"].tobytes(), np.int64)


def test_what_a_law_does_to_an_answer_does_not_reach_the_next() -> None:
    law = Density(
        sample=LAWS["dictionary"].sample, log_prob=lambda answer, x: chance(answer.pop("bit"), x)
    )
    found = verify_ldp(law, epsilon=2.0, samples=1_000, inputs=[0, 1])
    assert (found.verdict, found.exact) == ("VIOLATED", True)


class Report(NamedTuple):
    bit: int
    user: str | None


def test_a_law_is_asked_about_answers_as_they_came() -> None:
    """A named tuple was made a plain one, which has no names."""
    law = Density(
        sample=lambda x, rng: Report(said(x, rng), None),
        log_prob=lambda answer, x: chance(answer.bit, x),
    )
    found = verify_ldp(law, epsilon=2.0, samples=1_000, inputs=[0, 1])
    assert (found.verdict, found.exact) == ("VIOLATED", True)


def test_numbers_and_words_are_left_alone() -> None:
    for answers in ([1, 2.5], ["yes", '{"bit": 1}'], [b"1"], [np.zeros(3)], [(1, 2)], []):
        assert Fields.of(answers, whole=True) is None
