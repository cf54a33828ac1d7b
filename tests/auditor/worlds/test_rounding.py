"""Numbers in steps that no processor's order of adding reaches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.auditor.worlds.rounding import STEP, rounded


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_sums_in_another_order_are_one_number(seed: int, width: int) -> None:
    """But for one in a million that lies between two steps."""
    rng = np.random.default_rng(seed)
    x, weights = rng.integers(0, 2, (50, width)) / 3.0, rng.normal(size=width)
    order = rng.permutation(width)
    size = np.abs(weights).sum()
    one, other = rounded(x @ weights, size), rounded(x[:, order] @ weights[order], size)
    assert (one == other).mean() > 0.9
    np.testing.assert_allclose(one, x @ weights, rtol=0, atol=STEP * 2 * size)


def test_what_has_no_step_stays() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(rounded(values), values)
    assert not np.signbit(rounded(-1e-12))
    assert rounded(3.0, np.array([0.0, 1.0, 1e300])).tolist() == [3.0, 3.0, 0.0]
    single = np.array([0.0, 1.5, -0.1], np.float32)  # 1e-250 is 0 there, and 0 / 0 no number
    np.testing.assert_allclose(rounded(single, np.abs(single)), single, rtol=1e-9)


def test_numbers_of_any_size_that_differ_by_rounding_are_one() -> None:
    values = np.array([0.1, 1.1 - 1.0, 1e100 * 0.1, 1e100 * (1.1 - 1.0), -np.inf, 0.0, 1e-300])
    one = rounded(values, np.abs(values))
    assert one[0] == one[1]
    assert one[2] == one[3]
    np.testing.assert_allclose(one[:-1], values[:-1], rtol=1e-9)
    spread = np.linspace(0.0, 1.0, 100_000)
    assert len(np.unique(rounded(spread, spread))) == len(spread)


def test_numbers_of_half_and_single_precision_stay() -> None:
    """Their own precision holds no such small step, and single precision no such small size."""
    for kind in (np.float16, np.float32):
        values = np.array([0.0, 0.1, -3.5, 1000.0], dtype=kind)
        np.testing.assert_array_equal(rounded(values, np.abs(values)).astype(kind), values)
