"""Recordings are read as written, even if several processes write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedrec_auditor import RecordingWriter
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import Manifest, Recording
from fedrec_auditor.targets.transcript import Round

CLIENT = """
import sys
import numpy as np
from fedrec_auditor import RecordingWriter
with RecordingWriter(sys.argv[1], n_items=4, kinds="model") as writer:
    writer.round(1)
    writer.upload(sys.argv[2], {"item": np.full((4, 2), float(sys.argv[2]))})
"""


def read(path: Path, users: int) -> tuple[Round, ...]:
    recording = Recording.open(path)
    data = Interactions.create(np.ones((users, recording.manifest.n_items)))
    rows, rounds = np.arange(len(recording.senders)), len(recording.rounds)
    system = RecordedSystem(
        recording=recording, sender_rows=rows, user_ids=data.users, rounds=rounds
    )
    return system.run(data, np.random.default_rng(0)).transcript.rounds


def test_client_processes_write_to_one_recording(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path, n_items=4, kinds="model") as server:
        server.round(1, {"item": np.zeros((4, 2))})
        clients = [
            subprocess.Popen([sys.executable, "-c", CLIENT, str(tmp_path), str(n)])
            for n in range(3)
        ]
        assert [client.wait() for client in clients] == [0, 0, 0]
    (one,) = read(tmp_path, 3)
    assert Recording.open(tmp_path).senders.tolist() == ["0", "1", "2"]
    assert one.uploads.components["item"].to_dense(np.arange(3))[:, 0, 0].tolist() == [0, 1, 2]


def test_tables_with_few_moved_rows_are_written_by_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = rng.normal(size=(1000, 4)).astype(np.float32)
    with RecordingWriter(tmp_path, n_items=1000, kinds="model") as writer:
        writer.round(1, {"item": model})
        for user in range(4):
            sent = model.copy()
            sent[user : 2 * user] += 1
            writer.upload(user, {"item": sent, "bias": np.float32(user)})
    sizes = [p.stat().st_size for p in (tmp_path / "rounds" / "1").glob("uploads-*")]
    assert max(sizes) < 1000
    (one,) = read(tmp_path, 4)
    found = one.uploads.components["item"].to_dense(np.array([3]))[0]
    assert np.array_equal(found, sent)
    assert one.uploads.components["bias"].to_dense(np.arange(4)).tolist() == [0, 1, 2, 3]


def test_sent_rows_are_distinguished_from_zeros(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path, n_items=6, shapes={"item": (6, 2)}) as writer:
        writer.round(3)
        writer.upload("b", {"item": (np.array([4, 1]), np.array([[4.0, 4.0], [0.0, 0.0]]))})
        writer.upload("a", {"item": (np.array([], dtype=int), np.zeros((0, 2)))})
    (one,) = read(tmp_path, 2)
    item = one.uploads.components["item"]
    assert item.flag_sent_rows(np.arange(2)).nonzero()[1].tolist() == [1, 4]
    assert item.to_dense(np.array([1]))[0, 4].tolist() == [4, 4]


def test_batches_are_split_into_files_and_keep_their_senders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedrec_auditor.targets.recorded.recording_writer._BLOCK", 3 * 5)
    bits = np.random.default_rng(0).random((10, 5)) < 0.5
    with RecordingWriter(tmp_path, n_items=5, kinds="bits") as writer:
        writer.round(1)
        writer.uploads(np.arange(10)[::-1], {"bits": Dense(bits, Payload.BITS)})
    assert len(list((tmp_path / "rounds" / "1").iterdir())) == 4
    (one,) = read(tmp_path, 10)
    assert np.array_equal(one.uploads.components["bits"].to_dense(np.arange(10)), bits[::-1])


def test_manifests_have_the_given_content(tmp_path: Path) -> None:
    settings = {"epsilon": float("inf"), "rounds": 3.0}
    items = ["x", "ý", "z"]
    channel = {"name": "bit-flip", "p": 0.75, "q": 0.25}
    with RecordingWriter(
        tmp_path,
        n_items=3,
        items=items,
        rows=[[7, 1], [2**40, 2], [0, 1]],
        settings=settings,
        channel=channel,
        route="shuffled",
    ) as writer:
        assert Manifest.read(tmp_path) == writer.manifest
    places = writer.manifest.item_rows
    assert places is not None
    assert places.tolist() == [[7, 1], [2**40, 2], [0, 1]]
    assert writer.manifest.items == ("x", "ý", "z")
    assert writer.manifest.settings == settings


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda w: w.upload("a", {"item": np.ones(3)}), "Begin the next round"),
        (lambda w: w.upload("b", {"item": ["x"]}), "Expected a numeric array"),
        (lambda w: w.upload("b", {"item:rows": [1.0]}), "without colons"),
        (lambda w: w.upload("b", {"senders": [1.0]}), "without colons"),
        (lambda w: w.round(-1), "Expected number in"),
        (lambda w: w.round(1, {"item": np.ones(3)}), "a second one"),
        (lambda w: RecordingWriter(w.path, n_items=4), "other settings"),
        (lambda w: RecordingWriter(w.path, n_items=3, kinds="gossip"), "kind='gossip'"),
        (lambda w: RecordingWriter(w.path, n_items=3, places=1), "got 'places'"),
    ],
)
def test_unrecordable_messages_are_refused(tmp_path: Path, wrong: object, expected: str) -> None:
    assert callable(wrong)
    with RecordingWriter(tmp_path, n_items=3) as writer:
        with pytest.raises(InputError, match="Call round"):
            writer.upload("a", {"item": np.ones(3)})
        writer.round(1, {"item": np.ones(3)})
        writer.upload("a", {"item": np.ones(3)})
        with pytest.raises(InputError, match=r"Expected|refused") as caught:
            wrong(writer)
    assert expected in str(caught.value)
    assert not list(tmp_path.rglob(".*"))
