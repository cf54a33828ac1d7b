"""Tests of filtering a view: uninformative messages are counted and removed, others unchanged."""

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


def make_view(*rounds: Uploads, n_users: int = 6) -> View:
    model = {"table": BASE, "bias": np.zeros(2, np.float32)}
    return synthetic.make_view(*(Round(model, sent) for sent in rounds), users=n_users, items=20)


def make_changes(row: int, size: float = 1.0) -> np.ndarray:
    """Six messages: the second and the fifth are zero, the others change one row."""
    sent = np.zeros((6, 20, 3), np.float32)
    sent[[0, 2, 3, 5], row] = size
    return sent


def make_component(sent: np.ndarray, kind: Payload) -> Component:
    if kind is Payload.MODEL:
        return Dense(BASE + sent, kind)
    moved = np.argwhere(sent.any(axis=2))
    indptr = np.searchsorted(moved[:, 0], np.arange(7))
    return SparseRows(indptr, moved[:, 1], sent[tuple(moved.T)], 20, kind)


@pytest.mark.parametrize("kind", [Payload.MODEL, Payload.CHANGE, Payload.GRADIENT])
@pytest.mark.parametrize("row", [0, 19])
def test_messages_that_change_nothing_are_removed(kind: Payload, row: int) -> None:
    sent = {
        "table": make_component(make_changes(row), kind),
        "bias": Dense(np.zeros((6, 2), np.float32), Payload.CHANGE),
        "bit": Dense(np.ones(6, np.float32), Payload.BITS),
    }
    filtered = filter_view(make_view(Uploads(np.arange(6), sent)))
    assert (filtered.n_messages, filtered.n_no_effect, filtered.n_oversized) == (6, 2, 0)
    ((uploads, left),) = filtered.view.find_linked_rounds("table")
    np.testing.assert_array_equal(uploads.users, [0, 2, 3, 5])
    expected = sent["table"].to_dense(np.array([0, 2, 3, 5]))
    np.testing.assert_array_equal(left.to_dense(np.arange(4)), expected)
    assert filtered.removal_note == "Attacks skip messages (of 6): 2 without effect on the model."


def test_messages_with_another_changed_component_or_bits_are_kept() -> None:
    bias = np.zeros((6, 2), np.float32)
    bias[1, 1] = 1e-9
    moved = {"table": Dense(make_changes(3), Payload.CHANGE), "bias": Dense(bias, Payload.CHANGE)}
    assert filter_view(make_view(Uploads(np.arange(6), moved))).n_no_effect == 1
    bits = moved | {"bits": Dense(np.zeros((6, 20), np.float32), Payload.BITS)}
    assert filter_view(make_view(Uploads(np.arange(6), bits))).n_no_effect == 0


@pytest.mark.parametrize("number", [3e38, -3e38, 2 * MAX_USABLE_NUMBER])
@pytest.mark.parametrize("kind", [Payload.CHANGE, Payload.RATINGS])
def test_messages_with_numbers_too_large_are_removed(number: float, kind: Payload) -> None:
    sent = np.ones((6, 20, 3), np.float32)
    sent[4, 17, 2] = number
    filtered = filter_view(make_view(Uploads(np.arange(6), {"table": Dense(sent, kind)})))
    assert (filtered.n_no_effect, filtered.n_oversized) == (0, 1)
    ((uploads, _),) = filtered.view.find_linked_rounds("table")
    assert 4 not in uploads.users


def test_messages_without_senders_are_filtered() -> None:
    seen = make_view(Uploads(np.arange(6), {"table": Dense(make_changes(3), Payload.CHANGE)}))
    (one,) = seen.rounds
    assert one.uploads is not None
    hidden = replace(one, uploads=None, shuffled=one.uploads.components)
    filtered = filter_view(replace(seen, vantage=Vantage.SHUFFLED, rounds=(hidden,)))
    assert (filtered.n_messages, filtered.n_no_effect) == (6, 2)
    (left,) = filtered.view.rounds
    assert left.uploads is None
    assert left.shuffled is not None
    assert len(left.shuffled["table"]) == 4


def test_a_view_of_empty_messages_is_refused_with_that_reason() -> None:
    still = Uploads(np.arange(6), {"table": Dense(np.zeros((6, 20, 3)), Payload.CHANGE)})
    filtered = filter_view(make_view(still, still))
    assert filtered.refusal == filtered.removal_note
    assert "12" in filtered.refusal
    assert not len(find_senders(filtered.view))


def make_rounds(rows: int, silent_after: int) -> list[Uploads]:
    """1,000 rounds of two users each, who change their row of two up to round ``silent_after``."""
    found: list[Uploads] = []
    for number in range(1000):
        users = np.array([2 * number, 2 * number + 1]) % rows
        sent = np.zeros((2, 20, 3), np.float32)
        if number < silent_after:
            sent[np.arange(2), 10 + users % 2] = 1.0
        found.append(Uploads(users, {"table": Dense(sent, Payload.CHANGE)}))
    return found


def test_the_first_round_is_read_if_all_later_ones_are_empty() -> None:
    filtered = filter_view(make_view(*make_rounds(40, silent_after=1), n_users=40))
    assert (filtered.n_messages, filtered.n_no_effect) == (2000, 1998)
    view = replace(filtered.view, public=replace(filtered.view.public, n_items=5))
    found = AttributeRows().infer(view, Background(n_classes=2), np.random.default_rng(0))
    np.testing.assert_array_equal(found.users, [0, 1])
    assert found.is_proved is not None
    assert found.is_proved.all()


def test_the_first_and_the_last_rounds_are_read() -> None:
    view = make_view(*make_rounds(10, silent_after=1000), n_users=10)
    read = [uploads for _, uploads, _ in select_rounds(view, "table")]
    expected = [view.rounds[place].uploads for place in (0, 1, 997, 998, 999)]
    assert list(map(id, read)) == list(map(id, expected))


def test_users_who_change_no_category_row_are_not_proved() -> None:
    sent: dict[str, Any] = {
        "table": Dense(make_changes(11), Payload.CHANGE),
        "bias": Dense(np.ones((6, 2), np.float32), Payload.CHANGE),
    }
    sent["table"].values[2] = 0
    sent["table"].values[2, 12] = 1
    view = make_view(Uploads(np.arange(6), sent))
    view = replace(view, public=replace(view.public, n_items=5))
    found = AttributeRows().infer(view, Background(n_classes=20), np.random.default_rng(0))
    np.testing.assert_array_equal(found.classes, [11, 11, 12, 11, 11, 11])
    np.testing.assert_array_equal(found.is_proved, [1, 0, 1, 1, 0, 1])


def test_messages_stored_as_factors_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors bound the size of the numbers, so that no message is computed."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(6, 3)), sparse.csr_array(rng.normal(size=(6, 20)))
    made = RankOneMessages(first, BASE, second)

    def read(*given: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(RankOneMessages, "to_dense", read)
    for part in (made, made.drop_rows(1)):
        filtered = filter_view(make_view(Uploads(np.arange(6), {"table": part})))
        assert (filtered.n_messages, filtered.n_oversized) == (6, 0)
