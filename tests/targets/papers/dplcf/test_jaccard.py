"""Similarities: matrices, estimator and neighbourhoods agree with slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.papers.dplcf import jaccard
from fedrec_auditor.targets.papers.dplcf import jaccard as _jaccard
from fedrec_auditor.targets.papers.dplcf.jaccard import count_item_pairs, estimate_jaccard
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp, DplcfSp

flips = st.tuples(st.floats(0.51, 1.0), st.floats(0.01, 0.49))


def count_bits(bits: np.ndarray) -> np.ndarray:
    return count_item_pairs(Dense(bits, Payload.BITS))


@given(flips)
def test_inverse_transition_inverts_it(flip: tuple[float, float]) -> None:
    product = jaccard.invert_flip_matrix(*flip) @ jaccard.make_flip_matrix(*flip)
    np.testing.assert_allclose(product, np.eye(4), atol=1e-9)


def test_the_printed_inverse_does_not_invert() -> None:
    """Equation 11 as printed, for p = 1."""
    q = math.exp(-1.0)
    printed = np.array(
        [[1 / (1 - q), 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [-(q**2) / (1 - q), 0, -q, 1 - q]]
    ) / (1 - q)
    np.testing.assert_allclose(jaccard.make_printed_inverse(q), printed)
    assert not np.allclose(printed @ jaccard.make_flip_matrix(1.0, q), np.eye(4), atol=0.01)


@given(st.integers(0, 2**32 - 1), st.sampled_from([DplcfSp, DplcfAp]))
def test_similarity_by_the_printed_matrices_is_equations_7_to_10(seed: int, system: type) -> None:
    """Pair by pair from the four counts of equation 5; blocks of rows give the same result."""
    inverse = system(as_printed=True).misprinted_flip_inverse
    bits = np.random.default_rng(seed).random((30, 4)) < 0.5
    found = _jaccard.estimate_jaccard_by_inverse(count_bits(bits), 30, inverse)
    part = _jaccard.estimate_jaccard_by_inverse(count_bits(bits), 30, inverse, slice(1, 3))
    np.testing.assert_array_equal(part, found[1:3])
    for i, j in np.ndindex(4, 4):
        n00, _, _, n11 = inverse @ np.bincount(2 * bits[:, i] + bits[:, j], minlength=4)
        union = min(max(30 - n00, 1), 30)
        expected = 0 if i == j else min(max(n11, 0), union) / union
        assert found[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_right_inverse_gives_the_estimate_within_its_range() -> None:
    bits = np.random.default_rng(3).random((4000, 5)) < 0.5
    p, q = 0.9, 0.1
    by_pairs = _jaccard.estimate_jaccard_by_inverse(
        count_bits(bits), 4000, jaccard.invert_flip_matrix(p, q)
    )
    np.testing.assert_allclose(by_pairs, estimate_jaccard(count_bits(bits), 4000, p, q), rtol=1e-9)


@given(flips, st.integers(0, 2**32 - 1))
def test_estimated_similarity_is_the_pairwise_oracle(flip: tuple[float, float], seed: int) -> None:
    """All pairs at once, compared with equation 7 pair by pair."""
    p, q = flip
    bits = np.random.default_rng(seed).random((30, 4)) < 0.5
    similarity = estimate_jaccard(count_bits(bits), 30, p, q)
    inverse = jaccard.invert_flip_matrix(p, q)
    for i in range(4):
        for j in range(4):
            if i == j:
                assert similarity[i, j] == 0
                continue
            codes = 2 * bits[:, i] + bits[:, j]
            _, n01, n10, n11 = inverse @ np.bincount(codes, minlength=4)
            first, second = (min(max(n11 + rest, 1), 30) for rest in (n10, n01))
            together = min(max(n11, 0), first, second)
            expected = together / (first + second - together)
            assert similarity[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), flips)
def test_neighbourhoods_are_the_largest_similarities_ties_by_index(
    seed: int, items: int, size: int, flip: tuple[float, float]
) -> None:
    """Compared with a sort of every row, for any blocks."""
    bits = np.random.default_rng(seed).random((12, items)) < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_jaccard, "_BLOCK", 2 * items)  # blocks of two users or two items
        both = count_bits(bits)
        near = jaccard.find_neighbourhoods(both, 12, *flip, size)
    np.testing.assert_array_equal(both, bits.T.astype(int) @ bits.astype(int))
    similarity = estimate_jaccard(both, 12, *flip)
    assert near.item_ids.shape == near.similarities.shape == (items, min(size, items - 1))
    for i in range(items):
        others = [j for j in range(items) if j != i]
        expected = sorted(others, key=lambda j, row=similarity[i]: (-row[j], j))[:size]
        assert near.item_ids[i].tolist() == expected
        np.testing.assert_array_equal(near.similarities[i], similarity[i, expected])
        np.testing.assert_array_equal(
            near.to_matrix().toarray()[i, expected], similarity[i, expected]
        )
    assert (near.to_matrix().toarray().diagonal() == 0).all()
