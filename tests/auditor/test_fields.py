"""Structured answers: what they are made of is read, one by one and together."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import verify_ldp
from fedrec_auditor.auditor.fields import Fields

Rng = np.random.Generator


def said(x: int, rng: Rng, epsilon: float = 3.0) -> int:
    return int(x if rng.random() < 1 / (1 + math.exp(-epsilon)) else 1 - x)


def salt(rng: Rng) -> str:
    return bytes(rng.integers(0, 256, 8).tolist()).hex()


FORMS = {
    "JSON": lambda x, rng: json.dumps({"salt": salt(rng), "bit": said(x, rng)}),
    "dictionary": lambda x, rng: {"salt": salt(rng), "bit": said(x, rng)},
    "nested": lambda x, rng: {"user": {"id": salt(rng), "bits": [said(x, rng), None]}},
    "words in an object array": lambda x, rng: np.array([salt(rng), said(x, rng)], dtype=object),
    "tuple of both": lambda x, rng: (salt(rng), bool(said(x, rng))),
    "null": lambda x, rng: None if said(x, rng) else 1.5,
    "ragged": lambda x, rng: [0] * (1 + said(x, rng)),
    "absent keys": lambda x, rng: {"a": 1} if said(x, rng) else {"b": 1},
    "numbers in text": lambda x, rng: f"{said(x, rng) + 0.2 * rng.random():.12f}",
    "a number's spelling": lambda x, rng: ("0.5", "0.500")[said(x, rng)],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_the_epsilon_of_the_bit_in_it(form: str) -> None:
    found = verify_ldp(FORMS[form], epsilon=3.0, samples=6_000)
    assert 2.6 < found.epsilon_lower <= 3.0
    assert found.verdict == "UNSUBSTANTIATED"
    assert found.witness is not None
    assert found.witness.output.startswith("fields, each as its kind")
    assert verify_ldp(FORMS[form], epsilon=2.0, samples=6_000).verdict == "VIOLATED"


def test_a_field_that_comes_seldom_is_seen_among_the_rest() -> None:
    def seldom(x: int, rng: Rng) -> Any:
        return {"bit": said(x, rng, 0.5), **({f"debug{x}": x} if rng.random() < 5e-3 else {})}

    assert verify_ldp(seldom, epsilon=1.0, samples=20_000).verdict == "VIOLATED"


def test_numbers_and_plain_words_are_left_alone() -> None:
    for answers in ([1, 2.5], ["yes", "no"], [b"1"], [np.zeros(3)], [(1, 2)], [["a", "b"]], []):
        assert Fields.of(answers) is None
    for odd in ([object()], [{"a": object()}], [math.nan]):
        assert Fields.of(odd) is None


def test_what_is_read() -> None:
    fields = Fields.of([{"a": 1, "b": "2.50"}, {"a": None, "c": []}])
    assert fields is not None
    assert fields.paths == ("['a']", "['b']", "['c']")
    rows = fields.read([{"a": 1, "b": "2.50"}, {"a": True}, {"z": 7}, {"z": 8}])
    assert rows[0, :5].tolist() == [3.0, 1.0, 0.0, 4.0, 2.5]
    assert rows[1, :4].tolist() == [2.0, 1.0, 0.0, 0.0]
    assert rows[2, -1] != rows[3, -1] != 0.0
    assert rows[0, -1] == 0.0
