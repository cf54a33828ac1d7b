"""Arrays of numbers are read as their lists are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedrec_auditor.auditor.tracing.answers import read

KINDS = st.sampled_from(["?", "i1", "u8", "f2", "f4", "f8", "c16", "U2"])
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)


@given(array=KINDS.flatmap(lambda kind: arrays.arrays(kind, SHAPES)))
def test_an_array_is_read_as_its_list(array: NDArray[Any]) -> None:
    ours, lists = read(array), read(array.tolist())
    assert ours.structure == lists.structure
    assert repr(ours.leaves) == repr(lists.leaves)


@pytest.mark.parametrize("answer", [{"a": np.zeros((2, 3))}, [np.zeros(3), np.zeros(3)]])
def test_arrays_within_are_lists_as_well(answer: Any) -> None:
    def listed(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: listed(value) for key, value in part.items()}
        return [entry.tolist() for entry in part] if isinstance(part, list) else part.tolist()

    assert read(answer) == read(listed(answer))
