"""Identifiers compared with a list of strings, and distinct numbers with numpy's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedrec_auditor.targets.datasets.parts.columns import IdCollector, factorize, narrow_ints

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)
BATCHES = st.lists(
    st.lists(NUMBERS, min_size=1, max_size=5)
    | st.lists(st.text("a1é", min_size=1, max_size=3), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


@given(BATCHES)
def test_numbers_stay_and_texts_are_ranked(batches: list[list[int] | list[str]]) -> None:
    found = IdCollector()
    for batch in batches:
        if isinstance(batch[0], int):
            found.add_batch(pa.array(np.array(batch, dtype=np.int64)))
        else:
            words = [str(word).encode() for word in batch]
            found.add_batch(pa.array(words, pa.binary()).dictionary_encode())
    rows = [identifier for batch in batches for identifier in batch]
    ids, at, texts = found.encode_ids()
    if all(isinstance(row, int) for row in rows):
        assert ids[at].tolist() == rows
        assert (np.diff(ids.astype(object)) > 0).all()
        assert texts == ()
    else:
        assert [texts[place] for place in at] == [str(row) for row in rows]
        assert list(texts) == sorted(set(texts), key=str.encode)
        assert ids.tolist() == list(range(len(texts)))


@given(
    hnp.arrays(
        np.int64,
        st.integers(1, 30),
        elements=st.integers(0, 40) | st.integers(-5, 10**6) | st.integers(-(2**63), 2**63 - 1),
    )
)
def test_fast_distinct_numbers_equal_those_of_numpy(numbers: np.ndarray) -> None:
    present, at = factorize(numbers)
    np.testing.assert_array_equal(present, np.unique(numbers))
    np.testing.assert_array_equal(present[at], numbers)
    assert present.dtype == np.int64
    np.testing.assert_array_equal(narrow_ints(numbers), numbers)


@pytest.mark.parametrize(
    ("number", "size"), [(2**31 - 1, 4), (-(2**31), 4), (2**31, 8), (-(2**31) - 1, 8)]
)
def test_small_numbers_take_four_bytes(number: int, size: int) -> None:
    assert narrow_ints(np.array([0, number])).itemsize == size
