"""Sets of the largest expected F1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.attacks.interaction_reconstruction import best_f1_sets


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_best_f1_sets_against_all_sets(row: list[float]) -> None:
    posterior = np.array([row])
    chosen = best_f1_sets(posterior)[0]
    total = posterior.sum()

    def worth(mask: np.ndarray) -> float:
        return (
            2 * posterior[0][mask].sum() / (mask.sum() + total)
            if mask.any()
            else float(np.prod(1 - posterior[0]))
        )

    subsets = (np.arange(2 ** len(row))[:, None] >> np.arange(len(row))) & 1
    assert worth(chosen) == pytest.approx(max(worth(s.astype(bool)) for s in subsets), abs=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = np.random.default_rng(0).random((11, 30))
    whole = best_f1_sets(posterior)
    monkeypatch.setattr("fedrec_auditor.attacks.interaction_reconstruction._BLOCK", 70)
    np.testing.assert_array_equal(best_f1_sets(posterior), whole)
