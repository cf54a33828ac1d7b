"""What readers have in common: what is evidence, and how rounds of one user are pooled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers.base import Evidence
from fedrec_auditor.attacks.readers.small_readers import UserRows
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import Public, RoundView, View
from tests.attacks.made import sent, told, view_of

USERS, ITEMS = 30, 40
RNG = np.random.default_rng(0)


def test_evidence_that_is_no_number_is_a_fault_of_its_reader() -> None:
    with pytest.raises(ArithmeticError, match="Repair the reader"):
        Evidence(users=np.arange(1), log_ratio=np.array([[0.0, np.nan]]))


def rows(own: np.ndarray) -> np.ndarray:
    """Changes of an item table, of own rows."""
    return own[:, :, None] * RNG.normal(size=(len(own), 1, 8))


def columns(own: np.ndarray) -> np.ndarray:
    """Changes of the weights of own items."""
    return RNG.normal(size=(len(own), 8, 1)) * own[:, None]


@pytest.mark.parametrize(
    ("reader", "change", "negatives", "pool"),
    [
        ("ItemRows", rows, 0, np.maximum),
        ("ItemRows", rows, 4, np.add),
        ("InputWeights", columns, 0, np.maximum),
    ],
)
def test_rounds_of_one_user_are_pooled(
    reader: str,
    change: Callable[[np.ndarray], np.ndarray],
    negatives: int,
    pool: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> None:
    """Both rounds of some users together tell what each of them tells.

    But for rows that stay, where either round moves others: see ``ItemRows``.
    """
    some = np.arange(0, USERS, 2)
    rounds = []
    for _ in range(2):
        moved = change(RNG.random((len(some), ITEMS)) < 0.2).astype(np.float32)
        part = {"v": Dense(moved, Kind.CHANGE)}
        rounds.append(sent(part, {"v": np.zeros(moved.shape[1:])}, some))

    def seen(*those: int) -> np.ndarray:
        settings = {"negatives": negatives}
        view = view_of(*(rounds[n] for n in those), users=USERS, items=ITEMS, settings=settings)
        readers, ratio = told(view)
        assert readers == [reader]
        return ratio

    together, expected = seen(0, 1), pool(seen(0), seen(1))
    moved = (expected > 0) | (pool is np.add)
    np.testing.assert_allclose(together[moved], expected[moved], rtol=1e-5)
    assert (together[~moved] <= 0).all()


@pytest.mark.parametrize(("count", "read"), [(USERS, True), (USERS - 1, False)])
def test_a_table_of_users_has_a_row_of_each(count: int, read: bool) -> None:
    public = Public(algorithm="made", n_users=USERS, n_items=ITEMS)
    model = {"items": np.ones((ITEMS, 2)), "users": np.ones((count, 2))}
    view = View(vantage=Vantage.PEERS, public=public, rounds=(RoundView(broadcast=model),))
    assert UserRows().reads(view) is read
