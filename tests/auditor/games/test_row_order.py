"""Tests of the row order of messages: found by the truth, or by code of clients alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fedrec_auditor import RecordingWriter, attack_recording, audit_system
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.auditor.games.row_order import ClientRowOrder, OrderedRecording, SimulatedClient
from fedrec_auditor.reports.record.leaks import Severity
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems import LcfSp as Lcf
from fedrec_auditor.targets.recorded.recording import Recording
from fedrec_auditor.targets.recorded.recording_writer import GroundTruth
from fedrec_auditor.targets.transcript import Payload, RefusedHistoriesError, RoundView
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem
from tests.attacks.parts.test_shadow_reader import ITEMS, USERS, Device, Parts, draw_users, observe

N_SENDERS, N_ITEMS = 24, 30
ROWS = np.arange(N_ITEMS)
SHUFFLED = np.random.default_rng(5).permutation(N_ITEMS)


def draw_interactions(users: int = N_SENDERS) -> NDArray[np.bool_]:
    rng = np.random.default_rng(0)
    return rng.permuted(np.tile(ROWS < 6, (users, 1)), axis=1)


def save_log(
    folder: Path, held: NDArray[np.bool_], rows: NDArray[np.int64], count: int, **manifest: Any
) -> Path:
    """Writes a recording of one round in which each client changes the rows of its items."""
    model = np.ones((count, 2), np.float32)
    with RecordingWriter(folder, **({"n_items": count, "kinds": "model"} | manifest)) as writer:
        writer.round(1, {"item": model})
        for user, own in enumerate(held):
            sent = model.copy()
            sent[rows[own]] += 1 + user
            writer.upload(user, {"item": sent})
    return folder


def find_order(
    folder: Path, held: NDArray[np.bool_], items: NDArray[np.int64] = ROWS
) -> OrderedRecording:
    data = Interactions(
        name="truth",
        users=np.arange(len(held)),
        items=items,
        ratings=Interactions.create(held).ratings,
    )
    return OrderedRecording.infer_item_rows(Recording.open(folder), GroundTruth(data), None)


@pytest.mark.parametrize(
    ("rows", "count", "manifest", "items"),
    [
        (ROWS + 1, N_ITEMS + 1, {}, ROWS),  # a padding row
        (ROWS + 1, N_ITEMS + 1, {"n_items": N_ITEMS}, ROWS),
        (ROWS + 3, N_ITEMS + 5, {}, ROWS),
        (ROWS, N_ITEMS, {}, ROWS + 1),  # numbers from 1
        (ROWS, N_ITEMS, {}, 7 * ROWS + 100),
        (np.argsort(np.argsort(ROWS.astype(str))), N_ITEMS, {}, ROWS),  # sorted as strings
        (SHUFFLED, N_ITEMS, {}, ROWS),
        (SHUFFLED + 1, N_ITEMS + 1, {}, ROWS),
        (SHUFFLED, N_ITEMS, {"items": ROWS.tolist()}, ROWS),  # wrong manifest
    ],
)
def test_rows_are_assigned_to_the_items_that_fit_the_messages(
    tmp_path: Path,
    rows: NDArray[np.int64],
    count: int,
    manifest: dict[str, Any],
    items: NDArray[np.int64],
) -> None:
    held = draw_interactions()
    found = find_order(save_log(tmp_path, held, rows, count, **manifest), held, items)
    named = np.array(found.recording.manifest.items)
    for item, row in enumerate(rows):  # items of the same users are interchangeable
        alike = (held == held[:, [item]]).all(axis=0)
        assert named[row] in items[alike]
    assert found.assumption.startswith("Assumed: row ")
    assert not found.caveat


@pytest.mark.parametrize("manifest", [{}, {"items": ROWS.tolist()}])
def test_rows_in_the_order_of_the_manifest_keep_it(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    held = draw_interactions()
    found = find_order(save_log(tmp_path, held, ROWS, N_ITEMS, **manifest), held)
    assert (found.notes, found.assumption, found.caveat) == ((), "", "")
    assert found.recording.manifest == Recording.open(tmp_path).manifest


@pytest.mark.parametrize("seed", range(6))
def test_no_order_fits_messages_independent_of_the_truth(tmp_path: Path, seed: int) -> None:
    """Messages have the popularity of the items, but are those of other users."""
    rng = np.random.default_rng(seed)
    held, sent = rng.random((2, N_SENDERS, N_ITEMS)) < 0.8 / np.sqrt(1 + ROWS)
    found = find_order(save_log(tmp_path / "a", sent, ROWS, N_ITEMS), held)
    assert found.caveat.startswith("It is not known which item each row is")
    assert not found.assumption
    found = find_order(save_log(tmp_path / "b", sent, ROWS, N_ITEMS, items=ROWS.tolist()), held)
    assert found.caveat.startswith("Messages tell items for sure")  # the senders may be other users
    assert not found.assumption


def test_a_padding_row_does_not_hide_a_leak(tmp_path: Path) -> None:
    held = draw_interactions()
    save_log(tmp_path, held, ROWS + 1, N_ITEMS + 1)
    record = attack_recording(
        tmp_path, truth=held.astype(float), attacks=["interaction-reconstruction"], jobs=1
    )
    (row,) = [row for row in record.attacks if row.metric == "interaction F1"]
    assert row.value == 1.0
    assert "Assumed: row 1 is item 0, row 2 is item 1, and so on (of 31 rows 1" in row.note
    assert any(note.startswith("Assumed: row 1 is item 0") for note in record.notes)
    (summary,) = summarize_systems(record)
    assert summary.severity is Severity.CRITICAL


def test_failures_are_not_assessed_for_rows_of_unknown_items(tmp_path: Path) -> None:
    """A failure of attacks on noise counts only if the manifest names the item of each row."""
    held, rng = draw_interactions(), np.random.default_rng(0)
    levels = []
    for items in (None, ROWS.tolist()):
        folder = tmp_path / str(items is None)
        with RecordingWriter(folder, n_items=N_ITEMS, kinds="change", items=items) as writer:
            writer.round(1, {"item": np.zeros((N_ITEMS, 4))})
            for user in range(N_SENDERS):
                writer.upload(user, {"item": rng.normal(size=(N_ITEMS, 4))})
        names = ["interaction-reconstruction", "interaction-membership"]
        record = attack_recording(folder, truth=held.astype(float), attacks=names, jobs=1)
        levels.append(summarize_systems(record)[0].severity)
        told = [row.reason for row in record.skipped if row.attack in names]
        assert len(told) == (2 if items is None else 0)
        assert all('Give "items": [...] in ' in reason for reason in told)
    assert levels == [Severity.NOT_ASSESSED, Severity.LOW]


OWN = np.arange(ITEMS)
MIXED = np.random.default_rng(5).permutation(ITEMS)
PAIRS = OWN ^ 1  # each item in the row of its neighbour


def send_vector(rows: NDArray[np.intp], count: int = ITEMS) -> Callable[..., Parts]:
    """A client that sends noise plus 1 in the row of each of its items."""

    def message(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
        sent = 0.3 * rng.normal(size=count)
        sent[rows[items]] += 1.0
        return {"values": sent}

    return message


def send_table(rows: NDArray[np.intp], count: int = ITEMS) -> Callable[..., Parts]:
    """A client that changes the rows of its items in random directions, with noise in all rows."""

    def message(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
        sent = 0.3 * rng.normal(size=(count, 4))
        sent[rows[items]] += rng.normal(size=(len(items), 4))
        return {"item": sent}

    return message


@pytest.mark.parametrize(
    ("form", "rows", "count"),
    [
        (send_vector, MIXED, ITEMS),
        (send_vector, PAIRS, ITEMS),
        (send_vector, np.roll(OWN, -1), ITEMS),  # shifted by one, cyclically
        (send_vector, OWN + 1, ITEMS + 1),  # a padding row
        (send_table, PAIRS, ITEMS),
        (send_table, MIXED + 2, ITEMS + 3),
    ],
)
def test_rows_in_another_order_are_found_from_client_code(
    form: Callable[..., Callable[..., Parts]], rows: NDArray[np.intp], count: int
) -> None:
    seen = observe(Device(form(rows, count), call_seconds=0.0))
    found = ClientRowOrder.find_order(seen)
    ((name, order),) = found.item_rows.items()
    assert order.tolist() == rows.tolist()
    assert f"stand in the rows of {name!r}: {rows[0]}, {rows[1]}, ..." in found.assumption
    assert not found.caveat
    log_ratio = reading.read_evidence(found.reorder(seen), np.arange(USERS)).log_ratio
    assert log_ratio is not None
    assert roc_auc_score(draw_users().ravel(), log_ratio.ravel()) > 0.9


def send_activity(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    return {"values": rng.normal(size=ITEMS) + len(items) * np.sin(OWN)}


def send_noise(items: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    return {"values": rng.normal(size=ITEMS)}


@pytest.mark.parametrize("message", [send_vector(OWN), send_table(OWN), send_activity, send_noise])
def test_ordered_items_and_messages_without_items_are_unchanged(
    message: Callable[..., Parts],
) -> None:
    """A message that depends on the number of items, or on nothing, has no order and no caveat."""
    assert ClientRowOrder.find_order(observe(Device(message, call_seconds=0.0))) == ClientRowOrder()


def test_clients_receive_and_send_models_in_item_order() -> None:
    """Clients receive a model with its padding row as it was broadcast."""
    received = []
    raw = np.concatenate([[7.0], OWN])[:, None]

    class Listening(Device):
        def __call__(self, met, broadcast, rng):  # type: ignore[no-untyped-def]
            received.append(broadcast)
            return super().__call__(met, broadcast, rng)

    device = Listening(send_table(OWN + 1, ITEMS + 1), call_seconds=0.0)
    seen = observe(device)
    rounds = tuple(replace(one, broadcast={"item": raw}) for one in seen.rounds)
    order = ClientRowOrder({"item": OWN + 1})
    read = order.reorder(replace(seen, rounds=rounds))
    first: RoundView = read.rounds[0]
    assert first.broadcast is not None
    assert first.broadcast["item"].tolist() == OWN[:, None].tolist()
    assert read.public.device_code is not None
    sent = read.public.device_code(draw_users(), first.broadcast, np.random.default_rng(0))
    assert sent.components["item"].shape == (ITEMS, 4)
    assert received[-1]["item"].tolist() == raw.tolist()


def test_failures_are_not_assessed_for_an_unknown_order() -> None:
    """No permutation is fitted to more than 2,000 rows, so that a failed attack proves nothing."""
    count = 2_100
    rows, rng = np.random.default_rng(5).permutation(count), np.random.default_rng(0)

    def client(history, model, rng):  # type: ignore[no-untyped-def]
        sent = np.zeros(count)
        sent[rows[history.items]] = 1.0
        return sent + 0.1 * rng.normal(size=count)

    record = audit_system(
        client,
        data=(rng.random((12, count)) < 0.01).astype(float),
        games=["local"],
        attacks=["interaction-reconstruction"],
        runs=40,
        jobs=1,
        upload_seconds=0.3,
    )
    (glance,) = summarize_systems(record)
    assert glance.severity is Severity.NOT_ASSESSED
    told = [row.reason for row in record.skipped if row.attack == "interaction-reconstruction"]
    assert any("a failure proves nothing. Give rows=FUNCTION" in reason for reason in told)


def test_simulated_clients_use_public_data_only() -> None:
    data = Synthetic(n_users=30, n_items=20, profile=8).load()
    system = WrappedSystem(client=lambda history, model, rng: history.dense())
    client = SimulatedClient.from_data(system, data)
    assert client.catalogue.n_users == client.catalogue.ratings.nnz == 0
    held = np.random.default_rng(0).random((50, 20)) < 0.4
    (sent,) = client(held, None, np.random.default_rng(1)).components.values()
    ratings = sent.to_dense(np.arange(50))
    np.testing.assert_array_equal(ratings != 0, held)
    assert set(np.unique(ratings[held])) == set(np.unique(data.ratings.data))


class NegativeSampler(Lcf):
    """Clients that sample an item of no interaction, and fail if all items have one."""

    def upload(self, profiles: Any, *given: Any, **more: Any) -> Any:
        if np.diff(profiles.ratings.indptr).max() == profiles.n_items:
            raise ValueError("'a' cannot be empty")
        return super().upload(profiles, *given, **more)


class NanClient(WrappedSystem):
    """Clients whose training diverges to NaN for a history of all items."""

    def upload(self, profiles: Any, *given: Any, **more: Any) -> Any:
        sent = super().upload(profiles, *given, **more)
        (part,) = sent.components.values()
        values = part.to_dense(np.arange(profiles.n_users)).astype(float)
        values[np.diff(profiles.ratings.indptr) == profiles.n_items] = np.nan
        return replace(sent, components={"sent": Dense(values, Payload.CHANGE)})


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (NegativeSampler(), "ValueError: 'a' cannot be empty"),
        (NanClient(client=lambda history, model, rng: history.dense()), "above 1e\\+13 or NaN"),
    ],
)
def test_histories_that_a_target_refuses_are_identified(target: Any, reason: str) -> None:
    client = SimulatedClient.from_data(target, Synthetic(n_users=30, n_items=20, profile=8).load())
    held = np.random.default_rng(0).random((5, 20)) < 0.4
    held[3] = True
    with pytest.raises(RefusedHistoriesError, match=reason) as refused:
        client(held, None, np.random.default_rng(1))
    np.testing.assert_array_equal(refused.value.is_accepted, [True, True, True, False, True])
