"""Linear discriminants from few known rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from fedrec_auditor.auditor.worlds.estimators.parts.discriminant import contrast, discriminants


@pytest.mark.parametrize("columns", [2, 30, 59, 60, 61, 400])
def test_scores_are_those_of_the_inverted_covariance(columns: int) -> None:
    """Of fewer rows than columns too, where another matrix is solved."""
    rng = np.random.default_rng(columns)
    rows = rng.uniform(-1, 1, size=(60, columns)) @ rng.normal(size=(columns, columns))
    labels = rng.random(20) < 0.5
    weights = contrast(60, np.arange(20), labels)
    found = discriminants(rows, weights[:, None])[:, 0]
    x = np.clip(rows, *np.quantile(rows, (0.005, 0.995), axis=0, method="nearest"))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    shift = x[:20][labels].mean(axis=0) - x[:20][~labels].mean(axis=0)
    slow = x @ np.linalg.inv(LedoitWolf(assume_centered=True).fit(x).covariance_) @ shift
    assert np.corrcoef(found, slow)[0, 1] == pytest.approx(1.0, abs=1e-9)
    assert found @ slow > 0


def test_one_kind_of_row_tells_nothing() -> None:
    weights = contrast(5, np.arange(3), np.ones(3, dtype=bool))
    assert not weights.any()
    assert not discriminants(np.eye(5), weights[:, None]).any()


def test_equal_columns_are_left_out() -> None:
    rows = np.stack([np.ones(10), np.arange(10.0), np.full(10, np.inf)], axis=1)
    weights = contrast(10, np.array([0, 9]), np.array([False, True]))
    found = discriminants(rows, weights[:, None])[:, 0]
    assert (np.diff(found)[1:-1] > 0).all()
