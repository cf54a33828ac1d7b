"""Damaged or hostile recordings cause a one-line error, and none of their code runs."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.recorded.recording import Recording
from fedrec_auditor.targets.recorded.recording_writer import GroundTruth
from tests.targets.recorded.test_messages import ITEMS, open_log, safetensors, train

ROWS = {"item": np.ones((3, 2)), "item:rows": np.array([0, 3, 1]), "item:counts": np.array([2, 1])}


def record_users(folder: Path) -> Path:
    """A recording of two users; returns the folder of its round."""
    place = folder / "rounds" / "1"
    place.mkdir(parents=True)
    safetensors(place / "uploads-a", np.arange(2), {"item": np.ones((2, ITEMS, 2))})
    return place


def read(folder: Path, part: dict[str, Any] | None = None, **manifest: Any) -> None:
    """Reads all numbers of the recording."""
    for one in train(*open_log(folder, part or {"kind": "change"}, **manifest)).transcript.rounds:
        for sent in (one.uploads, one.cleartext):
            for each in sent.components.values() if sent is not None else ():
                each.to_dense(np.arange(len(each)))
                each.flag_sent_rows(np.arange(len(each)))


def cut(path: Path, left: int = 40) -> None:
    path.write_bytes(path.read_bytes()[:left])


def save(place: Path, **arrays: Any) -> None:
    named = {name.replace("__", ":"): array for name, array in arrays.items()}
    save_file({"senders": np.array([2, 3]), **named}, place / "uploads-b.safetensors")


def pack(place: Path, **arrays: Any) -> None:
    np.savez(place / "uploads-b.npz", senders=np.array([2, 3]), **arrays)


def declared(path: Path, **heads: tuple[tuple[int, ...], str]) -> None:
    """An npz file whose headers declare arrays of these shapes and types, without numbers."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (shape, dtype) in heads.items():
            head = io.BytesIO()
            text = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(head, text)
            archive.writestr(f"{name}.npy", head.getvalue())
            size = math.prod(shape) * np.dtype(dtype).itemsize
            archive.getinfo(f"{name}.npy").file_size = len(head.getvalue()) + size


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("harmed",))


def save_pickle(place: Path) -> None:
    np.savez(place / "uploads-b.npz", item=np.array([Harmful(), Harmful()], dtype=object))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut safetensors": (lambda p: cut(p / "uploads-a.safetensors"), "complete file of arrays"),
    "cut after the head": (lambda p: cut(p / "uploads-a.safetensors", 250), "complete file of"),
    "no file": (lambda p: (p / "uploads-b.safetensors").mkdir(), "got something else"),
    "fifo": (lambda p: os.mkfifo(p / "uploads-b.npz"), "got something else"),
    "link": (lambda p: (p / "uploads-b.npz").symlink_to("/etc/passwd"), "got a link"),
    "linked round": (lambda p: (p.parent / "2").symlink_to(p), "got a link"),
    "stray file": (lambda p: (p / "notes.txt").touch(), "got 'notes.txt'"),
    "stray file outside": (lambda p: (p.parents[1] / "run.sh").touch(), "got 'run.sh'"),
    "round by name": (lambda p: (p.parent / "first").mkdir(), "round's number"),
    "round twice": (lambda p: (p.parent / "01").mkdir(), "distinct rounds"),
    "two broadcasts": (
        lambda p: [save_file({}, p / f"broadcast{e}.safetensors") for e in ("", "-2")],
        "Remove one of them",
    ),
    "another shape": (lambda p: save(p, item=np.ones((2, ITEMS, 3))), "of shape (5, 2)"),
    "another component": (lambda p: save(p, mlp=np.ones((2, 3))), "the components item"),
    "a single number": (lambda p: save(p, item=np.array(1.0)), "one entry per message"),
    "fewer messages": (lambda p: save(p, item=np.ones((1, ITEMS, 2))), "equal numbers of messages"),
    "stray array": (lambda p: save(p, item__more=np.ones(2)), "X:counts"),
    "rows without counts": (
        lambda p: save(p, item=np.ones((1, 2)), item__rows=np.array([0])),
        "item:rows and item:counts",
    ),
    "same sender": (
        lambda p: safetensors(p / "uploads-b", np.array([1]), {"item": np.ones((1, ITEMS, 2))}),
        "got two of 1",
    ),
    "pickle": (save_pickle, "never unpickled"),
    "half": (
        lambda p: (pack(p, item=np.ones((2, ITEMS, 2))), cut(p / "uploads-b.npz", 300)),
        "complete file of arrays",
    ),
    "text": (lambda p: pack(p, item=np.array(["a", "b"])), "not of numbers"),
    "a GiB of senders": (
        lambda p: declared(p / "uploads-b.npz", senders=((2**27,), "<i8")),
        "1,073,741,824 bytes of 'senders', above limit 268,435,456",
    ),
    "a GiB of counts": (
        lambda p: declared(p / "uploads-b.npz", **{"item:counts": ((2**27,), "<i8")}),
        "1,073,741,824 bytes of 'item:counts'",
    ),
    "a sender of 2,000 letters": (
        lambda p: np.savez(p / "uploads-b.npz", senders=np.array(["2", "3" * 2000])),
        "at most 1,024 characters",
    ),
    "no arrays": (lambda p: (p / "uploads-b.parquet").write_text("a,b\n"), "safetensors or npz"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_causes_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.chdir(tmp_path)
    harm, expected = DAMAGES[damage]
    run = tmp_path / "run"
    place = record_users(run)
    read(run)
    harm(place)
    with pytest.raises(InputError) as caught:
        read(run)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "harmed").exists()


def test_senders_are_limited_by_the_given_memory(tmp_path: Path) -> None:
    place = record_users(tmp_path)
    for name in ("b", "c"):
        safetensors(place / f"uploads-{name}", np.arange(2), {"item": np.ones((2, ITEMS, 2))})
    open_log(tmp_path, {"kind": "change"})
    assert len(Recording.open(tmp_path, 3 * 16).rounds[0].uploads) == 3
    with pytest.raises(InputError, match=r"a recording whose senders fit into memory.*uploads-c"):
        Recording.open(tmp_path, 2 * 16)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"item:rows": np.array([0, 9, 1])}, "below 5"),
        ({"item:rows": np.array([3, 3, 1])}, "distinct row indices"),
        ({"item:rows": np.array([-1, 3, 1])}, "distinct row indices"),
        ({"item:counts": np.array([2, 2])}, "3 indices of 'item' and counts"),
        ({"item:counts": np.array([-1, 4])}, "3 indices of 'item' and counts"),
        ({"item": np.ones((3, 4))}, "of shape (5, 2)"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    place = tmp_path / "rounds" / "1"
    place.mkdir(parents=True)
    part = {"kind": "change", "shape": [ITEMS, 2]}
    safetensors(place / "uploads", np.arange(2), ROWS)
    read(tmp_path, part)
    safetensors(place / "uploads", np.arange(2), ROWS | change)
    with pytest.raises(InputError, match="Expected") as caught:
        read(tmp_path, part)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "listed", "expected"),
    [
        ("items", [[0, 4, -1], [3, 2, 5]], "item indices from 0 to 4, or -1 as"),
        ("items", [[0, 4, -2], [3, 2, 1]], "got -2"),
        ("items", [[0.0, 1.0], [2.0, 3.0]], "integers in the component 'item' of the kind 'items'"),
        ("codes", [[0.5, 1.0], [2.0, 3.0]], "integers in the component 'item' of the kind 'codes'"),
    ],
)
def test_invalid_lists_are_refused(
    tmp_path: Path, kind: str, listed: list[list[float]], expected: str
) -> None:
    place = tmp_path / "rounds" / "1"
    place.mkdir(parents=True)
    safetensors(place / "uploads", np.arange(2), {"item": np.array(listed)})
    with pytest.raises(InputError, match="Expected") as caught:
        read(tmp_path, {"kind": kind})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rows": [1, 2]}, "rows of unequal or zero length"),
        ({"rows": [[1], [2], [3], [4], [5, 6]]}, "rows of unequal or zero length"),
        ({"rows": [1, 2, 3, 4, -5]}, "rows"),
        ({"version": 2}, "version=2: Input"),
        ({"code": 3}, "got 'code'"),
        ({"algorithm": "../ours"}, "letters, digits"),
        ({"algorithm": "a" * 101}, "at most 100 letters, digits"),
        ({"n_items": 0}, "n_items=0"),
        ({"items": [1, 2]}, "items with 2 entries, not n_items=5"),
        ({"items": [1, 1, 2, 3, 4]}, "twice"),
        ({"route": "post"}, "route='post'"),
        ({"channel": {"name": "os.system", "p": 1}}, "bit-flip, report"),
        ({"channel": {"name": "bit-flip", "p": 2.0, "q": 0.1}}, "p in [0, 1]"),
        ({"channel": {"name": "bit-flip", "p": 0.5, "shape": 1}}, "allowed: numbers for p, q"),
        (
            {"channel": {"name": "report", "epsilon": -1}},
            "where doubles hold its rates, got epsilon=-1",
        ),
        (
            {"channel": {"name": "report", "epsilon": 1.0, "dimension": 0}},
            "dimension to be a whole number",
        ),
        ({"components": {"item": {"kind": "change", "shape": [1] * 100_000}}}, "at most 32 items"),
        ({"components": {"item": {"kind": "reports"}}}, "magnitude"),
        ({"components": {"item": {"kind": "secret"}}}, "kind='secret'"),
        ({"components": {"other": {"kind": "model"}}}, "got 'item'"),
    ],
)
def test_manifests_are_checked(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    record_users(tmp_path)
    with pytest.raises(InputError) as caught:
        read(tmp_path, **change)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"algorithm": "a"}'])
def test_manifests_are_json(tmp_path: Path, text: str) -> None:
    from fedrec_auditor.targets.recorded.recording import Manifest

    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="Expected"):
        Manifest.read(tmp_path)


def test_routes_stronger_than_the_log_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "rounds" / "1"
    place.mkdir(parents=True)
    save_file({"item": np.ones((2, ITEMS))}, place / "uploads.safetensors")
    with pytest.raises(InputError, match="Give route shuffled"):
        read(tmp_path, route="server")


def test_unsupported_number_types_are_named(tmp_path: Path) -> None:
    place = record_users(tmp_path)
    head = {"item": {"dtype": "F8_E5M2", "shape": [4], "data_offsets": [0, 4]}}
    text = json.dumps(head).encode()
    (place / "uploads-b.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"1234")
    with pytest.raises(InputError, match="'item' as F8_E5M2"):
        read(tmp_path)


def test_interactions_are_restored_without_unpickling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data, vectors = Synthetic(n_users=9, n_items=8, profile=3).load(), np.eye(9, 2)
    GroundTruth(data, vectors).write(tmp_path / "truth.npz")
    found = GroundTruth.read(tmp_path / "truth.npz")
    assert found.interactions.digest() == data.digest()
    assert (found.interactions.name, found.interactions.titles) == (data.name, data.titles)
    assert np.array_equal(found.user_vectors, vectors)
    np.savez(tmp_path / "bad.npz", users=np.array([Harmful()], dtype=object))
    with pytest.raises(InputError, match="Make a new recording"):
        GroundTruth.read(tmp_path / "bad.npz")
    (tmp_path / "worse.npz").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(InputError, match="Make a new recording"):
        GroundTruth.read(tmp_path / "worse.npz")
    assert not (tmp_path / "harmed").exists()
