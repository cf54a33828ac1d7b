"""Compiled local steps against their slow reading."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.attacks.parts.local_steps import distances


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 9), st.floats(0.01, 3))
def test_it_is_the_step_of_the_paper(seed: int, steps: int, d: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    rows, after = rng.random((2, 3, 4, d)).astype(np.float32)
    vectors = rng.random((3, d)).astype(np.float32)
    rates = np.full(3, rate, np.float32)
    ratings = np.arange(1, 6, dtype=np.float32)
    out = np.empty((3, 4, 5), np.float32)
    distances(rows, after, vectors, rates, ratings, steps, np.float32(5), out)
    now = np.repeat(rows[:, :, None], 5, axis=2).astype(float)
    u = vectors[:, None, None].astype(float)
    for _ in range(steps):
        now = now + 2 * rate * (ratings - (now * u).sum(axis=3))[..., None] * u
        now = np.maximum(now, 0)
        size = (now**2).sum(axis=3, keepdims=True)
        now = now * np.sqrt(5 / np.maximum(size, 5))
    expected = ((now - after[:, :, None]) ** 2).sum(axis=3)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)
