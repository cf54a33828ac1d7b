"""Groups among the rows that a meta-gradient moves."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.attacks.parts.meta_gradient import own_probability
from fedrec_auditor.auditor.games.metrics import auc


def planted(halves: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Changes (6, 200, 16) of 100 rows each, 20 of own items, and which those are.

    Rows of the second half move by a part that does not depend on the label, and one that does.
    """
    change, own = np.zeros((6, 200, 16)), np.zeros((6, 200), dtype=bool)
    for user in range(6):
        line, other = np.linalg.qr(rng.normal(size=(16, 2)))[0].T
        moved = rng.permutation(200)[:100]
        own[user, moved[:20]] = True
        for place, item in enumerate(moved):
            label, second = (0.8 if own[user, item] else -0.2), place % halves
            row = 0.1 * (abs(label) * line + label * other) if second else label * line
            noise = 0.05 * abs(label) * rng.normal(size=16) * (0.1 if second else 1.0)
            change[user, item] = row * rng.lognormal(0, 0.15) + noise
    return change, own


@pytest.mark.parametrize("halves", [1, 2])
def test_own_items_are_the_smaller_half_of_the_groups(halves: int) -> None:
    change, own = planted(halves, np.random.default_rng(halves))
    found = own_probability(change)
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-9
    assert not found[~change.any(axis=2)].any()
    for user in range(6):
        moved = change[user].any(axis=1)
        assert auc(found[user, moved], own[user, moved]) > 0.95


def test_company_does_not_matter() -> None:
    change, _ = planted(2, np.random.default_rng(0))
    change[0, 100:] = 0.0  # so that senders moved different numbers of rows
    np.testing.assert_allclose(own_probability(change)[3], own_probability(change[3:4])[0])


def test_nothing_moved_is_nothing_own() -> None:
    assert not own_probability(np.zeros((2, 5, 3))).any()
