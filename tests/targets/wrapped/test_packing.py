"""Messages are kept as the rows that moved, and read as they were sent."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.targets.components import Dense, Kind, Rows
from fedrec_auditor.targets.wrapped.client import Packing

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
