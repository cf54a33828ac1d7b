"""Interaction sets from local training on all items, whatever the loss is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from fedrec_auditor.attacks.readers.small_readers import RankOneChanges
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import sent, told, view_of

ITEMS, USERS, D = 50, 20, 6
SETS = np.random.default_rng(0).random((USERS, ITEMS)) < 0.2
LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "squared error": lambda score: score,
    "cross entropy": expit,
}


def trained(
    predicted: Callable[[np.ndarray], np.ndarray],
    steps: int = 3,
    *,
    kind: Kind = Kind.MODEL,
    noise: float = 0.0,
    negatives: float = 0.0,
) -> View:
    """Models, or changes, after steps of a device's vector and the items on (r, V u)."""
    rng = np.random.default_rng(1)
    table = 0.3 * rng.normal(size=(ITEMS, D))
    moved = []
    for own in SETS.astype(float):
        items, user = table.copy(), 0.3 * rng.normal(size=D)
        for _ in range(steps):
            error = own - predicted(items @ user)
            items, user = items + 0.1 * np.outer(error, user), user + 0.1 * error @ items
        items += noise * rng.normal(size=items.shape)
        moved.append(items if kind is Kind.MODEL else items - table)
    one = sent({"a": Dense(np.stack(moved), kind)}, {"a": table})
    return view_of(one, users=USERS, items=ITEMS, settings={"negatives": negatives})


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.CHANGE])
def test_sets_are_read_from_training_on_all_items(loss: str, kind: Kind) -> None:
    readers, found = told(trained(LOSSES[loss], kind=kind))
    assert readers == ["RankOneChanges"]
    np.testing.assert_array_equal(found > 0, SETS)


def test_noise_that_hides_the_direction_is_for_another_reader() -> None:
    assert told(trained(LOSSES["squared error"], noise=0.1))[0] == ["NoisyRows"]


def test_where_negatives_are_drawn_the_sets_are_not_cut_in_two() -> None:
    view = trained(LOSSES["squared error"], negatives=4.0)
    assert "move along one direction" in RankOneChanges().refusal(view)


@pytest.mark.parametrize(
    ("uphill", "rate"), [(False, None), (True, None), (False, 1.0), (True, -1.0)]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_gradient_is_read_whatever_its_loss_and_sign(
    loss: str, uphill: bool, rate: float | None
) -> None:
    """Sent by a device that says nothing but "gradient", or which way it points."""
    view = trained(LOSSES[loss], steps=1, kind=Kind.CHANGE)
    (one,) = view.rounds
    values = (-10.0 if uphill else 10.0) * one.uploads.components["a"].dense(np.arange(USERS))
    view = view_of(
        sent({"a": Dense(values, Kind.GRADIENT, rate)}, one.broadcast), users=USERS, items=ITEMS
    )
    readers, found = told(view)
    assert readers == ["RankOneGradients" if loss == "squared error" else "RankOneChanges"]
    np.testing.assert_array_equal(found > 0, SETS)
