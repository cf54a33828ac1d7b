"""Messages read as what they say of the model, by kind and shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.uploads import item_messages, kept, model_messages
from fedrec_auditor.targets.transcript import Kind, View, Wire
from tests.attacks.made import scored, sent, view_of

BASE = np.arange(10.0).reshape(5, 2)
STEP = np.zeros((3, 5, 2))
STEP[:, 1] = 0.5
STEP[1, 4] = -0.25


def seen(*messages: Wire, users: int = 3) -> View:
    model = {"V": BASE, "other": np.zeros((2, 2))}
    return view_of(*(sent({"sent": wire}, model) for wire in messages), users=users, items=5)


@pytest.mark.parametrize(
    ("wire", "sign"),
    [
        (Wire.of(BASE + STEP, Kind.MODEL, 0.1), 1),
        (Wire.of(STEP, Kind.CHANGE, 0.1), 1),
        (Wire.of(STEP, Kind.GRADIENT, 0.5), 1),  # downhill already
        (Wire.of(STEP, Kind.GRADIENT, -1.0), -1),
    ],
)
def test_every_kind_says_how_the_model_would_move(wire: Wire, sign: int) -> None:
    (table,) = item_messages(seen(wire))
    ((_, change, moved),) = table.changes()
    np.testing.assert_array_equal(change, sign * STEP)
    np.testing.assert_array_equal(moved, STEP != 0)


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (Wire.of(np.zeros((3, 5, 3)), Kind.MODEL), "sent (model, 5 x 3)"),  # of no known part
        (Wire.of(STEP, "hashes"), "sent (hashes, 5 x 2)"),
    ],
)
def test_what_nobody_reads_is_refused_and_not_guessed_at(wire: Wire, said: str) -> None:
    assert not model_messages(seen(wire))
    assert said in reading.refusal(seen(wire))


def test_as_many_rounds_are_read_as_bring_no_more_messages_than_users() -> None:
    wires = [Wire.of(STEP, Kind.CHANGE) for _ in range(5)]
    for users, rounds in ((2, 1), (3, 1), (8, 2), (15, 5)):
        assert len(kept(seen(*wires, users=users), "sent")) == rounds
    bits = [Wire.of(np.ones((3, 5)), Kind.BITS) for _ in range(5)]
    assert len(kept(seen(*bits), "sent")) == 5


def test_ratings_are_read_as_they_are() -> None:
    ratings = Wire.of(np.array([[0, 5, 0, 3, 0]] * 3), Kind.RATINGS)
    pairs = np.array([[0, 1], [2, 0], [1, 3]])
    found = scored(seen(ratings), pairs)
    assert found[0] == found[2] > found[1]
    rated = reading.evidence(seen(ratings), np.array([0])).ratings
    np.testing.assert_array_equal(rated, [[0, 5, 0, 3, 0]])


def test_messages_that_move_nothing_score_nothing() -> None:
    still = seen(Wire.of(np.zeros((3, 5, 2)), Kind.CHANGE))
    pairs = np.array([[0, 1], [2, 0]])
    for negatives in (0, 1, 4):
        public = replace(still.public, settings={"negatives": negatives})
        assert np.ptp(scored(replace(still, public=public), pairs)) == 0
