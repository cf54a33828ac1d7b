"""Recorded messages equal arrays in memory, in every format and number of files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import Component, Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import Manifest, Recording
from fedrec_auditor.targets.systems.base import TrainingRun

USERS, ITEMS, WIDTH = 7, 5, 3
Save = Callable[[Path, NDArray[Any], dict[str, NDArray[Any]]], None]


def safetensors(path: Path, senders: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> None:
    save_file({"senders": senders, **arrays}, path.with_suffix(".safetensors"))


def npz(path: Path, senders: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> None:
    named: dict[str, Any] = {"senders": senders.astype(str), **arrays}
    np.savez_compressed(path.with_suffix(".npz"), **named)


def save_fortran_order(path: Path, senders: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> None:
    npz(path, senders, {name: np.asfortranarray(array) for name, array in arrays.items()})


FORMATS = {"safetensors": safetensors, "npz": npz, "columns first": save_fortran_order}


def open_log(
    folder: Path, part: dict[str, Any], users: int = USERS, **manifest: Any
) -> tuple[RecordedSystem, Interactions]:
    text = Manifest.create(
        "test", **{"algorithm": "ours", "n_items": ITEMS, "components": {"item": part}} | manifest
    ).to_json()
    (folder / "manifest.json").write_text(text)
    recording = Recording.open(folder)
    data = Interactions.create(np.ones((users, ITEMS)))
    system = RecordedSystem(
        recording=recording,
        sender_rows=recording.senders.astype(np.int64),
        user_ids=data.users,
        rounds=len(recording.rounds),
    )
    return system, data


def train(system: RecordedSystem, data: Interactions) -> TrainingRun:
    return system.run(data, np.random.default_rng(0))


def forms(rng: np.random.Generator) -> dict[str, tuple[Component, dict[str, Any], Any]]:
    """Components in memory, their description in the manifest, and writers of some messages."""
    whole = rng.normal(size=(USERS, ITEMS, WIDTH)).astype(np.float32)
    base = rng.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    counts = np.array([2, 0, 5, 1, 3, 1, 2])
    ids = np.concatenate([np.sort(rng.permutation(ITEMS)[:n]) for n in counts])
    starts = np.append(0, np.cumsum(counts))
    values = rng.normal(size=(len(ids), WIDTH)).astype(np.float32)

    def some(form: str, mine: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        entries = np.concatenate([np.arange(starts[u], starts[u + 1])[::-1] for u in mine])
        return {"item": values[entries], f"item:{form}": ids[entries], "item:counts": counts[mine]}

    def rows(rest: NDArray[np.float32] | None, kind: Payload = Payload.CHANGE) -> SparseRows:
        return SparseRows(starts, ids, values, ITEMS, kind, broadcast=rest)

    return {
        "whole": (Dense(whole, Payload.MODEL), {"kind": "model"}, lambda u: {"item": whole[u]}),
        "rows": (
            rows(None),
            {"kind": "change", "shape": [ITEMS, WIDTH]},
            lambda u: some("rows", u),
        ),
        "moved": (rows(base, Payload.MODEL), {"kind": "model"}, lambda u: some("moved", u)),
        "moved by a change": (
            rows(np.zeros_like(base)),
            {"kind": "change", "shape": [ITEMS, WIDTH]},
            lambda u: some("moved", u),
        ),
    }


@pytest.mark.parametrize("form", ["whole", "rows", "moved", "moved by a change"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("batches", [1, 3, USERS])
def test_recorded_messages_equal_those_in_memory(
    tmp_path: Path, form: str, name: str, batches: int
) -> None:
    expected, part, written = forms(np.random.default_rng(0))[form]
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    for number, users in enumerate(
        np.array_split(np.random.default_rng(1).permutation(USERS), batches)
    ):
        FORMATS[name](folder / f"uploads-{number}", users, written(users))
    if isinstance(expected, SparseRows) and expected.broadcast is not None:
        # A change excludes the broadcast: omitted rows are zero.
        base = expected.broadcast
        model = base if expected.kind is Payload.MODEL else np.ones_like(base)
        save_file({"item": model}, folder / "broadcast.safetensors")
    (one,) = train(*open_log(tmp_path, part)).transcript.rounds
    stored = one.uploads.components["item"]
    assert one.uploads.users.tolist() == list(range(USERS))
    assert (stored.shape, stored.kind, len(stored)) == (expected.shape, expected.kind, USERS)
    for clients in (np.arange(USERS), np.array([5, 1, 1]), np.array([], dtype=np.int64)):
        assert np.array_equal(stored.to_dense(clients), expected.to_dense(clients))
        assert np.array_equal(stored.flag_sent_rows(clients), expected.flag_sent_rows(clients))
        assert np.array_equal(stored.take(clients).sum_all(), expected.take(clients).sum_all())
    picked = np.array([[4, 0], [2, 2]])
    assert np.array_equal(
        stored.select_rows(np.array([3, 0]), picked), expected.select_rows(np.array([3, 0]), picked)
    )
    assert np.array_equal(
        stored.drop_rows(2).to_dense(np.arange(3)), expected.drop_rows(2).to_dense(np.arange(3))
    )


def test_only_positions_are_held_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    values = np.random.default_rng(0).random((USERS, ITEMS, 10_000))
    safetensors(folder / "uploads", np.arange(USERS), {"item": values})
    (one,) = train(*open_log(tmp_path, {"kind": "change"})).transcript.rounds
    component = one.uploads.components["item"]
    assert len(pickle.dumps(component)) < 4_000
    assert np.array_equal(component.to_dense(np.array([3])), values[[3]])


def test_reports_are_signs_of_coordinates(tmp_path: Path) -> None:
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    signs = np.array([1, -1, 1, 1, -1, -1], np.int8)
    index = np.array([14, 0, 2, 2, 3, 1])
    arrays = {"item": signs, "item:rows": index, "item:counts": np.array([3, 3])}
    safetensors(folder / "uploads", np.array([1, 0]), arrays)
    part = {"kind": "reports", "shape": [ITEMS, WIDTH], "magnitude": 6.0}
    (one,) = train(*open_log(tmp_path, part, 2)).transcript.rounds
    sent = one.uploads.components["item"].to_dense(np.arange(2)).reshape(2, -1)
    expected = np.zeros((2, ITEMS * WIDTH))
    expected[0, [2, 3, 1]] = [2.0, -2.0, -2.0]
    expected[1, [14, 0, 2]] = [2.0, -2.0, 2.0]
    assert np.array_equal(sent, expected)


def test_logs_without_senders_start_at_the_shuffler(tmp_path: Path) -> None:
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    save_file({"item": np.eye(4, ITEMS)}, folder / "uploads.safetensors")
    system, data = open_log(tmp_path, {"kind": "bits"})
    run = train(system, data)
    assert run.transcript.max_vantage is run.transcript.public.protocol_vantage is Vantage.SHUFFLED
    (seen,) = run.transcript.view(Vantage.SHUFFLED, np.random.default_rng(0)).rounds
    assert seen.uploads is None
    assert seen.shuffled["item"].sum_all().tolist() == [1, 1, 1, 1, 0]


def test_logs_of_sums_start_at_the_aggregator(tmp_path: Path) -> None:
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    sums = np.arange(ITEMS * WIDTH, dtype=np.float64).reshape(ITEMS, WIDTH)
    senders = np.array([2, 0])
    save_file({"item": sums, "senders": senders}, folder / "aggregate.safetensors")
    run = train(*open_log(tmp_path, {"kind": "gradient"}))
    (seen,) = run.transcript.view(Vantage.AGGREGATE).rounds
    assert run.transcript.max_vantage is Vantage.AGGREGATE
    assert np.array_equal(seen.aggregate["item"], sums)
    assert seen.senders_in_sum.tolist() == [0, 2]


def test_quick_attacks_read_the_first_rounds_and_next_model(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        folder = tmp_path / "rounds" / str(number)
        folder.mkdir(parents=True)
        save_file({"item": np.full((ITEMS,), number)}, folder / "broadcast.safetensors")
        safetensors(folder / "uploads", np.arange(2), {"item": np.full((2, ITEMS), 7 * number)})
    save_file({"item": np.zeros(ITEMS)}, tmp_path / "release.safetensors")
    system, data = open_log(tmp_path, {"kind": "change"})
    short, whole = (train(system.limit_rounds(2), data).transcript, train(system, data).transcript)
    told = [[int((t.broadcast or {})["item"][0]) for t in x.rounds] for x in (short, whole)]
    assert told == [[1, 2], [1, 2, 10]]
    assert (short.published_model["item"][0], whole.published_model["item"][0]) == (10, 0)


def test_recorded_sums_cannot_be_restricted_to_users(tmp_path: Path) -> None:
    folder = tmp_path / "rounds" / "1"
    folder.mkdir(parents=True)
    values = np.eye(USERS, ITEMS)
    safetensors(folder / "uploads", np.arange(USERS), {"item": values})
    save_file({"item": np.full(ITEMS, 9.0)}, folder / "aggregate.safetensors")
    (one,) = train(*open_log(tmp_path, {"kind": "change"})).transcript.rounds
    item = one.uploads.components["item"]
    assert item.sum_all().tolist() == [9.0] * ITEMS
    assert item.take(np.array([2, 3])).sum_all().tolist() == [0, 0, 1, 1, 0]


def test_bfloat16_is_read_as_single_precision(tmp_path: Path) -> None:
    """bfloat16, which numpy lacks, in messages, in some of their rows, and in the broadcast."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    place = tmp_path / "rounds" / "1"
    place.mkdir(parents=True)
    sent = torch.arange(USERS * ITEMS * WIDTH).reshape(USERS, ITEMS, WIDTH).to(torch.bfloat16)
    model = {"item": sent[0].contiguous(), "bias": torch.tensor(1.5, dtype=torch.bfloat16)}
    save_torch({"item": sent, "senders": torch.arange(USERS)}, place / "uploads-a.safetensors")
    save_torch(model, place / "broadcast.safetensors")
    (seen,) = train(*open_log(tmp_path, {"kind": "model"})).transcript.rounds
    found = seen.uploads.components["item"].to_dense(np.array([5, 0, 6]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, sent[[5, 0, 6]].float().numpy())
    assert seen.broadcast is not None
    np.testing.assert_array_equal(seen.broadcast["item"], sent[0].float().numpy())
    assert seen.broadcast["bias"] == 1.5
