"""Pairs counted from packed bits are those of a product of matrices, to the last user."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.papers.dplcf.systems.parts import jaccard
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import (
    PackedCounts,
    neighbourhoods,
    pair_counts,
)


@given(st.integers(0, 2**32), st.integers(0, 300), st.integers(1, 9))
def test_rows_of_pairs_are_those_of_the_product(seed: int, users: int, items: int) -> None:
    """Whatever the chunks, with users left over in the last word."""
    rng = np.random.default_rng(seed)
    bits = rng.random((users, items)) < rng.random()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaccard, "_WORDS", int(rng.integers(1, 4)))
        patch.setattr(jaccard, "_BLOCK", 64 * items)
        counts = PackedCounts(Dense(bits, Kind.BITS))
    expected = bits.T.astype(int) @ bits.astype(int)
    rows = rng.permutation(items)
    np.testing.assert_array_equal(counts[rows], expected[rows])
    np.testing.assert_array_equal(counts.diagonal(), expected.diagonal())
    assert len(counts) == items


def test_neighbours_are_the_same_from_either_table(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = Dense(np.random.default_rng(3).random((500, 90)) < 0.4, Kind.BITS)
    whole = pair_counts(bits)
    monkeypatch.setattr(jaccard, "_WORK", 0)
    monkeypatch.setattr(jaccard, "_BLOCK", 1000)
    packed = pair_counts(bits)
    assert isinstance(whole, np.ndarray)
    assert isinstance(packed, PackedCounts)
    one, other = (neighbourhoods(each, 500, 0.7, 0.3, 20) for each in (whole, packed))
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.similarity, other.similarity)


def test_no_table_of_pairs_is_kept_of_many_items() -> None:
    """Of 5,000 items a table takes 100 MB; all that is made here takes a quarter of it."""
    bits = Dense(np.random.default_rng(0).random((100, 5000)) < 0.5, Kind.BITS)
    tracemalloc.start()
    try:
        counts = pair_counts(bits)
        assert counts[np.arange(50)].shape == (50, 5000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 25e6
