"""What a client of others is given of its user."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.wrapped.client import History

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
