"""What a client of others is given of its user.

Messages are kept as the rows that moved, and read as they were sent.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.targets.components import Dense, Kind, Rows
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.wrapped.client import History, Packing

DATA = Interactions.of(
    sparse.csr_array(np.array([[5.0, 0.0, 3.0, 1.0], [0.0, 4.0, 0.0, 0.0]])),
    timestamps=np.array([30, 10, 20, 5]),
    attributes={"gender": Attribute(codes=np.array([1, 0]), categories=("F", "M"))},
)


def test_a_history_is_in_the_order_of_time() -> None:
    history = History.of(DATA, 0)
    assert history.items.tolist() == [2, 3, 0]
    assert history.ratings.tolist() == [3.0, 1.0, 5.0]
    assert history.timestamps.tolist() == [10, 20, 30]
    assert history.attributes == {"gender": "M"}
    assert history.dense().tolist() == [5.0, 0.0, 3.0, 1.0]


def test_a_client_cannot_write_into_the_data() -> None:
    before = DATA.digest()
    history = History.of(DATA, 0)
    for array in (history.items, history.ratings, history.timestamps):
        array[:] = 7
    assert DATA.digest() == before


def test_a_device_has_one_number_in_every_selection_of_the_data() -> None:
    assert [History.of(DATA, user).device for user in (0, 1)] == DATA.users.tolist()
    assert History.of(DATA.take(np.array([1])), 0).device == DATA.users[1]


RNG = np.random.default_rng(0)
MODEL = RNG.standard_normal((20, 3))


def messages(kind: Kind, moved: int) -> list[np.ndarray]:
    start = MODEL if kind is Kind.MODEL else np.zeros_like(MODEL)
    found = []
    for _ in range(4):
        one = start.copy()
        one[RNG.choice(20, moved, replace=False)] += 1.0
        found.append(one)
    return found


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.CHANGE])
@pytest.mark.parametrize(("moved", "kept"), [(3, Rows), (0, Rows), (20, Dense)])
def test_what_is_read_is_what_was_added(kind: Kind, moved: int, kept: type) -> None:
    sent, packing = messages(kind, moved), Packing(lambda name: kind, {"item": MODEL})
    for one in sent:
        packing.add({"item": one})
    component = packing.components()["item"]
    assert isinstance(component, kept)
    np.testing.assert_array_equal(component.dense(np.arange(4)), np.stack(sent))
    assert component.sent(np.arange(4)).all()
    np.testing.assert_allclose(component.total(), np.sum(sent, axis=0))


def test_few_rows_of_some_and_all_of_others_are_one_batch() -> None:
    sent = [*messages(Kind.CHANGE, 2), *messages(Kind.CHANGE, 20)]
    packing = Packing(lambda name: Kind.CHANGE, None)
    for one in sent:
        packing.add({"item": one, "bias": one[:, 0]})
    found = packing.components()
    np.testing.assert_array_equal(found["item"].dense(np.arange(8)), np.stack(sent))
    assert isinstance(found["bias"], Dense)
