"""Whatever is made of arrays is taken apart and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.structure import take_apart


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (np.zeros((2, 3)), ["values"]),
        ([np.zeros(2), np.ones((2, 2))], ["0", "1"]),
        ((np.zeros(2),), ["0"]),
        ({"a": np.zeros(2), "b": {"c": np.ones(1)}}, ["a", "b.c"]),
        ({"item.weight": torch.ones(2, 2), "n": 3}, ["item.weight", "n"]),
        ([1.0, 2.0], ["values"]),
    ],
)
def test_it_comes_back_as_it_was(value: Any, names: list[str]) -> None:
    arrays, structure = take_apart(value, "a message")
    assert list(arrays) == names
    again, _ = take_apart(structure.build(arrays), "a message")
    assert list(again) == names
    for name in names:
        np.testing.assert_array_equal(again[name], arrays[name])


def test_tensors_come_back_as_tensors_of_their_type() -> None:
    arrays, structure = take_apart({"w": torch.ones(2, dtype=torch.bfloat16)}, "a message")
    built = structure.build(arrays)["w"]
    assert built.dtype is torch.bfloat16
    assert built.tolist() == [1.0, 1.0]


def test_a_sparse_matrix_is_made_dense() -> None:
    arrays, _ = take_apart(sparse.eye_array(3), "a message")
    np.testing.assert_array_equal(arrays["values"], np.eye(3))


def test_a_dictionary_without_keys_is_a_part_that_is_there() -> None:
    arrays, structure = take_apart({"user-37": {}, "values": np.ones(2)}, "a message")
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "user-37.": [0.0],
        "values": [1.0, 1.0],
    }
    assert structure.build(arrays)["user-37"] == {}


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        {"a": "text"},
        {"a": {3, 4}},
        {},
        None,
        [np.zeros(2), ["x"]],
        {1: np.zeros(2), "1": np.ones(2)},
        {"a": {"b": 1.0}, "a.b": 2.0},
        sparse.csr_array((np.zeros(1), np.array([2]), np.array([0, 1])), shape=(1, 4)),
        {"a": np.ma.masked_array(np.zeros(3), [True, False, False])},
    ],
)
def test_what_is_no_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError, match=r"(of|in) a message"):
        take_apart(value, "a message")
