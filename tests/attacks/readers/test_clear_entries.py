"""Numbers an item, sent as they are or with noise of no known distribution."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.auditor.games.metrics import auc
from fedrec_auditor.targets.components import Dense, Kind
from tests.attacks.made import sent, told, view_of

N, M = 30, 50


@pytest.mark.parametrize("zeros", [0, 5])
@pytest.mark.parametrize("silent", [0, 1])
def test_a_few_zeros_and_a_silent_user_leave_the_order_of_noisy_ratings(
    zeros: int, silent: int
) -> None:
    rng = np.random.default_rng(0)
    own = rng.random((N, M)) < 0.2
    values = own + 0.3 * rng.normal(size=(N, M))
    values.flat[rng.permutation(N * M)[:zeros]] = 0
    rated = sent({"r": Dense(values[: N - silent], Kind.RATINGS)})
    other = sent({"b": Dense(rng.normal(size=(N, 4)), Kind.CHANGE)})
    view = view_of(rated, other, users=N, items=M)
    readers, found = told(view)
    assert readers == ["ClearEntries"]
    assert auc(found[: N - silent].ravel(), own[: N - silent].ravel()) > 0.97
    assert not found[N - silent :].any()


def test_of_several_rows_of_an_item_none_is_empty() -> None:
    """A Bloom filter without coins proves by a single 0 that an item was not met."""
    rng = np.random.default_rng(0)
    own, rows = rng.random((N, M)) < 0.1, rng.permutation(3 * M).reshape(M, 3)
    bits = np.zeros((N, 3 * M), np.int8)
    for column in rows.T:
        bits[:, column] = own
    bits[:, rows[:, 0]] |= rng.random((N, M)) < 0.2  # of another item
    seen = view_of(sent({"b": Dense(bits, Kind.BITS)}), users=N, items=M, rows=rows).by_item()
    readers, found = told(seen)
    assert readers == ["ClearEntries"]
    assert ((found > 0) == own).all()


def test_what_fills_an_items_places_in_one_round_is_there() -> None:
    """Devices that fill in some of their items anew each round: places of several rounds differ."""
    rng = np.random.default_rng(0)
    own, rows = rng.random((N, M)) < 0.1, rng.permutation(2 * M).reshape(M, 2)
    rounds = []
    for _ in range(4):
        bits = np.zeros((N, 2 * M), np.int8)
        some = own & (rng.random(own.shape) < 0.7)
        for column in rows.T:
            bits[:, column] = some
        rounds.append(sent({"b": Dense(bits, Kind.BITS)}))
    _, found = told(view_of(*rounds, users=N, items=M, rows=rows).by_item())
    assert not (found > 0)[~own].any()
    assert (found > 0)[own].mean() > 0.97
