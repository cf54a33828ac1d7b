"""Messages that tell nothing are left out, and counted; what others say is read as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.attribute_attacks import AttributeRows
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.uploads import find_senders, select_rounds
from fedrec_auditor.auditor.games.informative import MAX_USABLE_NUMBER, filter_view
from fedrec_auditor.targets.components import Component, Dense, Payload, RankOneMessages, SparseRows
from fedrec_auditor.targets.transcript import Round, Uploads, View
from tests.attacks import synthetic

BASE = np.arange(60.0, dtype=np.float32).reshape(20, 3)


def view_of(*rounds: Uploads, n_users: int = 6) -> View:
    model = {"table": BASE, "bias": np.zeros(2, np.float32)}
    return synthetic.make_view(*(Round(model, sent) for sent in rounds), users=n_users, items=20)


def changes(row: int, size: float = 1.0) -> np.ndarray:
    """Six messages, of which the second and the fifth are nothing, the others move a row."""
    sent = np.zeros((6, 20, 3), np.float32)
    sent[[0, 2, 3, 5], row] = size
    return sent


def stored(sent: np.ndarray, kind: Payload) -> Component:
    if kind is Payload.MODEL:
        return Dense(BASE + sent, kind)
    moved = np.argwhere(sent.any(axis=2))
    indptr = np.searchsorted(moved[:, 0], np.arange(7))
    return SparseRows(indptr, moved[:, 1], sent[tuple(moved.T)], 20, kind)


@pytest.mark.parametrize("kind", [Payload.MODEL, Payload.CHANGE, Payload.GRADIENT])
@pytest.mark.parametrize("row", [0, 19])
def test_messages_that_move_nothing_are_left_out(kind: Payload, row: int) -> None:
    sent = {
        "table": stored(changes(row), kind),
        "bias": Dense(np.zeros((6, 2), np.float32), Payload.CHANGE),
        "bit": Dense(np.ones(6, np.float32), Payload.BITS),
    }
    told = filter_view(view_of(Uploads(np.arange(6), sent)))
    assert (told.n_messages, told.n_without_effect, told.n_oversized) == (6, 2, 0)
    ((uploads, left),) = told.view.find_linked_rounds("table")
    np.testing.assert_array_equal(uploads.users, [0, 2, 3, 5])
    expected = sent["table"].to_dense(np.array([0, 2, 3, 5]))
    np.testing.assert_array_equal(left.to_dense(np.arange(4)), expected)
    assert told.removal_note == "Attacks skip some of 6 messages: 2 do not change the model."


def test_what_moves_another_part_or_says_more_than_a_number_is_heard() -> None:
    bias = np.zeros((6, 2), np.float32)
    bias[1, 1] = 1e-9
    moved = {"table": Dense(changes(3), Payload.CHANGE), "bias": Dense(bias, Payload.CHANGE)}
    assert filter_view(view_of(Uploads(np.arange(6), moved))).n_without_effect == 1
    bits = moved | {"bits": Dense(np.zeros((6, 20), np.float32), Payload.BITS)}
    assert filter_view(view_of(Uploads(np.arange(6), bits))).n_without_effect == 0


@pytest.mark.parametrize("number", [3e38, -3e38, 2 * MAX_USABLE_NUMBER])
@pytest.mark.parametrize("kind", [Payload.CHANGE, Payload.RATINGS])
def test_a_message_that_nobody_can_compute_with_is_left_out(number: float, kind: Payload) -> None:
    sent = np.ones((6, 20, 3), np.float32)
    sent[4, 17, 2] = number
    told = filter_view(view_of(Uploads(np.arange(6), {"table": Dense(sent, kind)})))
    assert (told.n_without_effect, told.n_oversized) == (0, 1)
    ((uploads, _),) = told.view.find_linked_rounds("table")
    assert 4 not in uploads.users


def test_messages_without_senders_are_looked_at_too() -> None:
    seen = view_of(Uploads(np.arange(6), {"table": Dense(changes(3), Payload.CHANGE)}))
    (one,) = seen.rounds
    assert one.uploads is not None
    hidden = replace(one, uploads=None, shuffled=one.uploads.components)
    told = filter_view(replace(seen, vantage=Vantage.SHUFFLED, rounds=(hidden,)))
    assert (told.n_messages, told.n_without_effect) == (6, 2)
    (left,) = told.view.rounds
    assert left.uploads is None
    assert left.shuffled is not None
    assert len(left.shuffled["table"]) == 4


def test_where_all_is_silence_that_is_the_reason() -> None:
    still = Uploads(np.arange(6), {"table": Dense(np.zeros((6, 20, 3)), Payload.CHANGE)})
    told = filter_view(view_of(still, still))
    assert told.refusal == told.removal_note
    assert "12" in told.refusal
    assert not len(find_senders(told.view))


def rounds_of(rows: int, silent_after: int) -> list[Uploads]:
    """1,000 rounds of two users each, who move their row of two until the model dies."""
    found: list[Uploads] = []
    for number in range(1000):
        users = np.array([2 * number, 2 * number + 1]) % rows
        sent = np.zeros((2, 20, 3), np.float32)
        if number < silent_after:
            sent[np.arange(2), 10 + users % 2] = 1.0
        found.append(Uploads(users, {"table": Dense(sent, Payload.CHANGE)}))
    return found


def test_the_first_round_of_a_thousand_is_read_though_all_later_ones_are_empty() -> None:
    told = filter_view(view_of(*rounds_of(40, silent_after=1), n_users=40))
    assert (told.n_messages, told.n_without_effect) == (2000, 1998)
    view = replace(told.view, public=replace(told.view.public, n_items=5))
    found = AttributeRows().infer(view, Background(n_classes=2), np.random.default_rng(0))
    np.testing.assert_array_equal(found.users, [0, 1])
    assert found.is_proved is not None
    assert found.is_proved.all()


def test_first_and_last_rounds_are_read_by_turns() -> None:
    view = view_of(*rounds_of(10, silent_after=1000), n_users=10)
    read = [uploads for _, uploads, _ in select_rounds(view, "table")]
    expected = [view.rounds[place].uploads for place in (0, 1, 997, 998, 999)]
    assert list(map(id, read)) == list(map(id, expected))


def test_who_moved_no_category_is_guessed_and_not_certain() -> None:
    sent: dict[str, Any] = {
        "table": Dense(changes(11), Payload.CHANGE),
        "bias": Dense(np.ones((6, 2), np.float32), Payload.CHANGE),
    }
    sent["table"].values[2] = 0
    sent["table"].values[2, 12] = 1
    view = view_of(Uploads(np.arange(6), sent))
    view = replace(view, public=replace(view.public, n_items=5))
    found = AttributeRows().infer(view, Background(n_classes=20), np.random.default_rng(0))
    np.testing.assert_array_equal(found.classes, [11, 11, 12, 11, 11, 11])
    np.testing.assert_array_equal(found.is_proved, [1, 0, 1, 1, 0, 1])


def test_messages_that_are_stored_as_factors_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of them is made: their factors tell how large they can be."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(6, 3)), sparse.csr_array(rng.normal(size=(6, 20)))
    made = RankOneMessages(first, BASE, second)

    def read(*given: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(RankOneMessages, "to_dense", read)
    for part in (made, made.drop_rows(1)):
        told = filter_view(view_of(Uploads(np.arange(6), {"table": part})))
        assert (told.n_messages, told.n_oversized) == (6, 0)
