"""Tests of outputs that are not arrays, encoded by field or as a whole."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor import verify_ldp
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification import Density
from fedrec_auditor.auditor.worlds import fields as module
from fedrec_auditor.auditor.worlds.fields import OutputEncoder
from tests.points import later
from tests.texts import LETTERS

Rng = np.random.Generator


def flip(x: int, rng: Rng, epsilon: float = 3.0) -> int:
    return int(x if rng.random() < 1 / (1 + math.exp(-epsilon)) else 1 - x)


def salt(rng: Rng) -> str:
    return bytes(rng.integers(0, 256, 4).tolist()).hex()


FORMS = {
    "JSON": lambda x, rng: json.dumps({"salt": salt(rng), "bit": flip(x, rng)}),
    "dictionary": lambda x, rng: {"salt": salt(rng), "bit": flip(x, rng)},
    "nested": lambda x, rng: {"user": {"id": salt(rng), "bits": [flip(x, rng), None]}},
    "words in an object array": lambda x, rng: np.array([salt(rng), flip(x, rng)], dtype=object),
    "tuple of both": lambda x, rng: (salt(rng), bool(flip(x, rng))),
    "null": lambda x, rng: None if flip(x, rng) else 1.5,
    "ragged": lambda x, rng: [0] * (1 + flip(x, rng)),
    "absent keys": lambda x, rng: {"a": 1} if flip(x, rng) else {"b": 1},
    "numbers in text": lambda x, rng: f"{flip(x, rng) + 0.2 * rng.random():.12f}",
    "a NUL at the end": lambda x, rng: "word" + "\0" * flip(x, rng),
    "bytes with a NUL": lambda x, rng: b"word" + b"\0" * flip(x, rng),
    "the sign of a zero": lambda x, rng: {"n": (0.0, -0.0)[flip(x, rng)]},
    "a number's spelling": lambda x, rng: ("0.5", "0.500")[flip(x, rng)],
    "values behind commas": lambda x, rng: f"{salt(rng)},{flip(x, rng)}",
    "a query": lambda x, rng: f"id={salt(rng)}&bit={flip(x, rng)}",
    "a line of a log": lambda x, rng: f"12:{rng.integers(60):02d} {salt(rng)} bit={flip(x, rng)}",
    "XML": lambda x, rng: f"<r><s>{salt(rng)}</s><bit>{flip(x, rng)}</bit></r>",
    "behind any number of words": lambda x, rng: (
        f"{salt(rng)} " * rng.integers(4) + f"{flip(x, rng)}"
    ),
    "text in a dictionary": lambda x, rng: {"message": f"{salt(rng)};{flip(x, rng)}"},
    "hexadecimal digits": lambda x, rng: f"{salt(rng)}{flip(x, rng):02x}",
    "digits": lambda x, rng: f"{rng.integers(10**12)}{flip(x, rng)}",
    "packed bytes": lambda x, rng: struct.pack("<qB", rng.integers(2**62), flip(x, rng)),
    "a packed integer": lambda x, rng: int(rng.integers(2**60) & ~(1 << 20) | flip(x, rng) << 20),
    "the order of keys": lambda x, rng: dict(
        [("a", 1), ("b", rng.random())][:: 1 - 2 * flip(x, rng)]
    ),
    "NaN": lambda x, rng: math.nan if flip(x, rng) else rng.normal(),
    "a call that raises": lambda x, rng: [0.5][flip(x, rng)],
}


EVENTS = {
    "JSON": "output.bit = ",
    "dictionary": "output.bit = ",
    "nested": "output.user.bits[0] = ",
    "words in an object array": "output[1] = ",
    "tuple of both": "output[1] = ",
    "null": "output = ",
    "ragged": "output[1] = ",
    "absent keys": "output.",
    "numbers in text": "",  # a cut of the number, or a statistic learned from its bits
    "a NUL at the end": "output = 'word",
    "bytes with a NUL": "output = b'word",
    "the sign of a zero": "output.n = ",
    "a number's spelling": "output = '0.5",
    "values behind commas": "output piece 1 = ",
    "a query": "output piece 3 = ",
    "a line of a log": "output piece ",  # 4 from the start, or the last one
    "XML": "output piece 5 = ",
    "behind any number of words": "output piece -1 = ",
    "text in a dictionary": "output.message piece 1 = ",
    "hexadecimal digits": "output piece 9 = ",
    "digits": "output piece ",
    "packed bytes": "output piece 8 = ",
    "a packed integer": "bit 20 of the output",
    "the order of keys": "output (order of keys) = ",
    "NaN": "",
    "a call that raises": "output",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_epsilon_of_its_bit(form: str) -> None:
    found = verify_ldp(FORMS[form], epsilon=3.0, samples=2_000, trace=False)
    assert 2.6 < found.epsilon_lower <= 3.0
    assert found.verdict == "UNSUBSTANTIATED"
    assert found.witness.output.startswith(EVENTS[form])


def test_a_claim_below_that_epsilon_is_refuted() -> None:
    assert verify_ldp(FORMS["JSON"], epsilon=2.0, samples=2_000, trace=False).verdict == "VIOLATED"


def test_values_of_one_input_only_are_named_by_their_field() -> None:
    def leaky(x: int, rng: Rng) -> Any:
        word = f"debug {x}" if rng.random() < 0.01 else ""
        return {"salt": salt(rng), "word": word, "bit": flip(x, rng, 0.5)}

    witness = verify_ldp(leaky, epsilon=1.0, samples=2_500, trace=False).witness
    assert "output.word" in witness.output
    assert "'debug " in witness.output


def test_a_rare_field_is_found() -> None:
    def seldom(x: int, rng: Rng) -> Any:
        return {"bit": flip(x, rng, 0.5), **({f"debug{x}": x} if rng.random() < 5e-3 else {})}

    assert verify_ldp(seldom, epsilon=1.0, samples=8_000, trace=False).verdict == "VIOLATED"


def test_numbers_and_plain_strings_are_not_encoded() -> None:
    for answers in ([1, 2.5], ["yes", "no"], [b"1"], [np.zeros(3)], [(1, 2)], [["a", "b"]], []):
        assert OutputEncoder.fit(answers) is None
    for odd in ([object()], [{"a": object()}], [math.nan]):
        assert OutputEncoder.fit(odd) is None


@pytest.mark.parametrize("odd", [None, [], [0, 0], "none", math.nan])
def test_a_rare_form_is_an_event(odd: Any) -> None:
    """Regression: eight answers per input set the form; half of the seeds ended as bad input."""

    def report(x: int, rng: Rng) -> Any:
        answer = [flip(x, rng, 0.5)] if isinstance(odd, list) else flip(x, rng, 0.5)
        return odd if rng.random() < (0.002, 0.02)[x] else answer

    found = verify_ldp(report, epsilon=1.0, samples=8_000, trace=False)
    assert found.verdict == "VIOLATED"
    assert 1.0 < found.epsilon_lower < math.log(10)


@pytest.mark.parametrize("odd", [None, [0, 0], "none", math.nan, RuntimeError()])
def test_an_unseen_form_is_an_event(odd: Any) -> None:
    """Regression: a form too rare for the first answers ended as bad input."""

    def report(x: int, rng: Rng) -> Any:
        answer = [flip(x, rng, 0.5)] if isinstance(odd, list) else flip(x, rng, 0.5)
        if x and rng.random() < 0.003:
            if isinstance(odd, Exception):
                raise odd
            return odd
        return answer

    found = verify_ldp(report, epsilon=1.0, samples=8_000, trace=False)
    assert found.verdict == "VIOLATED", found.reason


@pytest.mark.parametrize("sized", [True, False])
def test_arrays_of_different_lengths_are_read(sized: bool) -> None:
    def draw_one(x: int, rng: Rng) -> Any:
        return np.zeros(3 if x and rng.random() < 0.01 else 2)

    def many(x: int, rng: Rng, size: int) -> Any:
        return [draw_one(x, rng) for _ in range(size)]

    assert (
        verify_ldp(many if sized else draw_one, epsilon=1.0, samples=4_000, trace=False).verdict
        == "VIOLATED"
    )


def test_a_failing_call_for_many_is_repeated_one_by_one() -> None:
    def report(x: int, rng: Rng, size: int) -> Any:
        if x and (rng.random(size) < 0.01).any():
            raise OverflowError("too large")
        return rng.random(size)

    found = verify_ldp(report, epsilon=1.0, samples=4_000, trace=False)
    assert found.verdict == "VIOLATED"
    assert "OverflowError" in found.witness.output


def test_an_input_that_always_raises_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"input 1, got ZeroDivisionError"):
        verify_ldp(lambda x, rng: 1 / (1 - x), epsilon=1.0, samples=1000, trace=False)
    with pytest.raises(InputError, match=r"input 1, got ZeroDivisionError"):
        verify_ldp(
            lambda x, rng, size: [1 / (1 - x)] * size, epsilon=1.0, samples=1000, trace=False
        )


@pytest.mark.parametrize("width", [(), (3,)])
def test_nan_under_one_input_is_an_event(width: tuple[int, ...]) -> None:
    def broken(x: int, rng: Rng, size: int) -> Any:
        return np.full((size, *width), np.nan) if x else rng.normal(size=(size, *width))

    assert verify_ldp(broken, epsilon=1.0, samples=4_000, trace=False).verdict == "VIOLATED"


@pytest.mark.parametrize("width", [(), (3,)])
def test_nan_alone_is_bad_input(width: tuple[int, ...]) -> None:
    def broken(x: int, rng: Rng, size: int) -> Any:
        return np.full((size, *width), np.nan)

    with pytest.raises(InputError, match="without NaN"):
        verify_ldp(broken, epsilon=1.0, samples=1_000, trace=False)


def test_numbers_in_text_that_never_repeat_are_tested() -> None:
    found = verify_ldp(
        lambda x, rng: f"{rng.normal():.12f}", epsilon=1.0, samples=6_000, trace=False
    )
    assert found.verdict == "UNSUBSTANTIATED"


@pytest.mark.parametrize("samples", [1_000, later(6_000), later(20_000)])
def test_unique_uninformative_texts_are_inconclusive(samples: int) -> None:
    def sealed(x: int, rng: Rng) -> str:
        return hashlib.sha256(f"{salt(rng)}{flip(x, rng)}".encode()).hexdigest()

    found = verify_ldp(sealed, epsilon=1.0, samples=samples, trace=False)
    assert found.verdict == "INCONCLUSIVE"
    assert found.needed is None
    text = " ".join(str(found).split())
    assert "no two texts are equal" in text
    assert "before it is encoded" in text


def test_encoded_fields() -> None:
    fields = OutputEncoder.fit([{"a": 1, "b": "2.50"}, {"a": None, "c": []}])
    assert fields.paths == (".a", ".b", ".c", " (order of keys)")
    rows = fields.encode([{"a": 1, "b": "2.50"}, {"a": True}, {"z": 7}, {"z": 8}])
    assert rows[0, :5].tolist() == [3.0, 1.0, 0.0, 4.0, 2.5]
    assert rows[1, :4].tolist() == [2.0, 1.0, 0.0, 0.0]
    assert rows[0, 11] != rows[1, 11] == 0.0  # a single key has no order
    assert rows[2, -1] != rows[3, -1] != 0.0
    assert rows[0, -1] == 0.0
    assert [fields.describe(rows[0], column) for column in (0, 3, 6)] == ["1", "'2.50'", "absent"]
    assert [fields.describe(rows[1], column) for column in (0, 12)] == ["True", "none"]
    assert fields.describe(rows[2], 12) == ".z=7;"
    names = [fields.name_column(column) for column in (0, 4, 8, 12)]
    assert names == [
        "kind of output.a",
        "output.b",
        "checksum of output.c",
        "checksum of output's other fields",
    ]


def test_bytes_of_a_number_with_a_separator_are_read() -> None:
    """Regular expressions treat \\x1c as a space; ``float`` does not."""
    fields = OutputEncoder.fit([b"8\x1c", b"1 "])
    assert fields.encode([b"8\x1c", b"1 "])[:, 1].tolist() == [0.0, 1.0]


def test_only_the_last_outputs_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OUTPUTS", 3)
    whole, by_field = OutputEncoder(), OutputEncoder.fit([{"a": "x y"}])
    words = whole.encode([{"a": 1}, {"a": 2}, {"a": 1}, {"a": 3}, {"a": 4}])
    assert [whole.decode(word) for word in words[[2, 3, 4]]] == [{"a": 1}, {"a": 3}, {"a": 4}]
    with pytest.raises(KeyError):
        whole.decode(words[1])
    rows = by_field.encode([{"a": "one"}, {"a": "two"}, {"a": "three"}, {"a": "four"}])
    assert [by_field.describe(row, 0) for row in rows[[0, 3]]] == ["a text", "'four'"]
    assert len(whole.stored_outputs) == len(by_field.stored_outputs) == 3


KEPT = 1 / (1 + math.exp(-3.0))


def chance(bit: int, x: int) -> float:
    return math.log(KEPT if bit == x else 1 - KEPT)


LAWS = {
    "dictionary": Density(
        sample=lambda x, rng: {"bit": flip(x, rng), "user": None},
        log_prob=lambda answer, x: chance(answer["bit"], x),
    ),
    "ragged lists": Density(
        sample=lambda x, rng: [7] * (1 + flip(x, rng)),
        log_prob=lambda answer, x: chance(len(answer) - 1, x),
    ),
    "null": Density(
        sample=lambda x, rng: None if flip(x, rng) else 2.5,
        log_prob=lambda answer, x: chance(answer is None, x),
    ),
    "text beside numbers": Density(
        sample=lambda x, rng: ("bit", flip(x, rng)), log_prob=lambda answer, x: chance(answer[1], x)
    ),
    "a salt beside an array": Density(
        sample=lambda x, rng: {"salt": salt(rng), "bits": np.array([flip(x, rng)])},
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


def test_a_wrong_log_prob_of_structures_is_not_trusted() -> None:
    wrong = Density(
        sample=lambda x, rng: {"bit": int(rng.random() < 0.5)}, log_prob=LAWS["dictionary"].log_prob
    )
    found = verify_ldp(wrong, epsilon=2.0, samples=2_000, inputs=[0, 1])
    assert [check.name for check in found.faults] == ["fit to the claimed distribution"]
    assert not found.exact


def test_densities_of_structures_are_not_probabilities() -> None:
    """At delta 0 their ratio is searched; at delta > 0 their sum is meaningless, so draws count."""
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


def test_objects_that_cannot_be_encoded_are_refused_with_a_hint() -> None:
    law = Density(sample=lambda x, rng: {"bit": object()}, log_prob=lambda answer, x: 0.0)
    with pytest.raises(InputError, match=r"got dict\. Encode each output"):
        verify_ldp(law, epsilon=1.0, inputs=[0, 1])


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(LETTERS)
PARTS = st.recursive(
    LEAVES | st.binary(),
    lambda part: st.lists(part) | st.tuples(part, part) | st.dictionaries(st.text(LETTERS), part),
)


@settings(max_examples=40)
@given(PARTS, PARTS)
def test_only_equal_outputs_have_equal_codes(first: Any, second: Any) -> None:
    fields = OutputEncoder()
    words = fields.encode([first, second, copy.deepcopy(first)])
    assert words[0] == words[2]
    assert (words[0] == words[1]) == (repr(first) == repr(second))
    assert fields.decode(words[0]) == first


def test_numpy_arrays_and_numbers_are_encoded_exactly() -> None:
    answers = [
        {"a": np.array([1.5, -0.0]), "b": np.int64(3), "c": -0.0, "d": "x\0"},
        {"a": np.array([1.5, 0.0]), "b": np.int64(3), "c": -0.0, "d": "x\0"},
        {"a": np.array([1.5, -0.0], np.float32), "b": np.int64(3), "c": -0.0, "d": "x\0"},
    ]
    fields = OutputEncoder()
    words = fields.encode(answers)
    assert len(set(words.tolist())) == 3
    back = fields.decode(words[2])
    assert (back["a"].tobytes(), type(back["b"])) == (answers[2]["a"].tobytes(), np.int64)


def test_log_prob_cannot_change_stored_outputs() -> None:
    law = Density(
        sample=LAWS["dictionary"].sample, log_prob=lambda answer, x: chance(answer.pop("bit"), x)
    )
    found = verify_ldp(law, epsilon=2.0, samples=1_000, inputs=[0, 1])
    assert (found.verdict, found.exact) == ("VIOLATED", True)


class Report(NamedTuple):
    bit: int
    user: str | None


def test_log_prob_receives_outputs_unchanged() -> None:
    """Regression: a named tuple was converted to a plain tuple, which has no names."""
    law = Density(
        sample=lambda x, rng: Report(flip(x, rng), None),
        log_prob=lambda answer, x: chance(answer.bit, x),
    )
    found = verify_ldp(law, epsilon=2.0, samples=1_000, inputs=[0, 1])
    assert (found.verdict, found.exact) == ("VIOLATED", True)


def test_numbers_and_strings_are_not_encoded_as_strings() -> None:
    for answers in ([1, 2.5], ["yes", '{"bit": 1}'], [b"1"], [np.zeros(3)], [(1, 2)], []):
        assert OutputEncoder.fit(answers, as_string=True) is None
