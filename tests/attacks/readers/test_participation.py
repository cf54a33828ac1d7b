"""Sums over changing groups, from planted messages of known users."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers.small_readers import Participation
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.targets.transcript import Kind, View, Wire
from tests.attacks.made import sent, told, view_of

USERS, ITEMS, WIDTH = 40, 60, 4


def summed(
    truth: np.ndarray, rng: np.random.Generator, *, rounds: int, share: float, noise: float = 0.0
) -> View:
    """Each user's own rows move by a vector of its own, in each round it is drawn for."""
    items = rng.normal(size=(ITEMS, WIDTH))
    vectors = 1 + rng.normal(size=(USERS, WIDTH))
    own = truth[:, :, None] * vectors[:, None, :]
    seen = []
    for _ in range(rounds):
        users = np.sort(rng.permutation(USERS)[: int(share * USERS)])
        moved = items + own[users] + noise * rng.normal(size=(len(users), ITEMS, WIDTH))
        seen.append(sent({"items": Wire.of(moved, Kind.MODEL)}, {"items": items}, users))
    where = Vantage.AGGREGATE
    return view_of(*seen, users=USERS, items=ITEMS, vantage=where, route=where)


def auc(view: View, truth: np.ndarray) -> float:
    ratio = Participation().read(view, np.arange(USERS)).log_ratio
    assert np.isfinite(ratio).all()
    return metrics.auc(ratio.ravel(), truth.ravel())


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(0).random((USERS, ITEMS)) < 0.05


def test_rows_that_stay_where_a_user_takes_part_are_not_its_own(truth: np.ndarray) -> None:
    """The least evidence of an own item is above 0, and what stayed once is sure to be none."""
    view = summed(truth, np.random.default_rng(1), rounds=40, share=0.2)
    ratio = Participation().read(view, np.arange(USERS)).log_ratio
    assert (ratio[truth] >= 0).all()
    assert not truth[ratio < 0].any()
    assert auc(view, truth) > 0.98


def test_noise_hides_more_and_more(truth: np.ndarray) -> None:
    found = [
        auc(summed(truth, np.random.default_rng(2), rounds=60, share=0.2, noise=noise), truth)
        for noise in (0.3, 1.0, 30.0)
    ]
    assert found[0] > 0.8
    assert found[0] > found[1] > found[2]
    assert abs(found[2] - 0.5) < 0.06


def test_other_participants_tell_nothing(truth: np.ndarray) -> None:
    view = summed(truth, np.random.default_rng(3), rounds=40, share=0.2)
    order = np.roll(np.arange(USERS), 7)
    assert abs(auc(view, truth[order]) - 0.5) < 0.08


def test_where_everybody_takes_part_it_does_not_read(truth: np.ndarray) -> None:
    view = summed(truth, np.random.default_rng(4), rounds=5, share=1.0)
    assert Participation().refusal(view)
    assert told(view)[0] == ["Popularity"]
