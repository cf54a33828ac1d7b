from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.attacks.readers.rank_one_gradients import directions
from fedrec_auditor.auditor.games.metrics import set_f1
from tests.attacks.made import SKEWED, fcf, reconstructed


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 16),
    st.sampled_from([1.0, 10.0, 40.0]),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_clean_upload_gives_everything_back(
    seed: int, factors: int, alpha: float, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.02, 0.7, 25)
    truth = rng.random((25, 200)) < share[:, None]
    truth[np.arange(25), rng.integers(200, size=25)] = True
    view, vectors = fcf(truth, rng, factors=factors, alpha=alpha, dtype=dtype)
    found = reconstructed(view)
    np.testing.assert_array_equal(found.items, truth)
    error = np.linalg.norm(found.vectors - vectors, axis=1) / np.linalg.norm(vectors, axis=1)
    assert error.max() < (1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("touched", [1, 150, 240, 268])
def test_few_untouched_items_suffice(touched: int) -> None:
    """Up to about nine tenths of 300 items touched; the docstring states where it breaks down."""
    rng = np.random.default_rng(touched)
    truth = rng.permuted(np.tile(np.arange(300) < touched, (20, 1)), axis=1)
    view, _ = fcf(truth, rng)
    np.testing.assert_array_equal(reconstructed(view).items, truth)


def test_noise_costs_little() -> None:
    """F1 at noise of .1, .3 and 1.0 standard deviations of the entries is no less than the .999,
    .980 and .642 that a first prototype of the rank-one attack reached.
    """
    wide = np.tile(SKEWED, (1, 6))
    wide[:, 150:] &= np.random.default_rng(1).random((120, 750)) < 0.2
    for noise, reached in ((0.1, 0.999), (0.3, 0.98), (1.0, 0.642)):
        view, _ = fcf(wide, np.random.default_rng(2), noise=noise)
        assert set_f1(reconstructed(view).items, wide).mean() > reached


def test_a_user_without_items_has_none() -> None:
    truth = np.zeros((3, 40), dtype=bool)
    truth[1, [3, 5]] = True
    view, _ = fcf(truth, np.random.default_rng(0))
    found = reconstructed(view)
    np.testing.assert_array_equal(found.items, truth)
    assert not found.vectors[0].any()


def test_directions_are_singular_vectors() -> None:
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(6, 30, 4))
    found = directions(matrices)
    for matrix, direction in zip(matrices, found, strict=True):
        expected = np.linalg.svd(matrix)[2][0]
        assert abs(direction @ expected) == pytest.approx(1, abs=1e-10)
