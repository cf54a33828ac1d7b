"""The item of each row of a recording: found where messages bear it out, else not assessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor import RecordingWriter, attack_recording
from fedrec_auditor.auditor.games.row_order import ItemOrder
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.severity import Severity
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import Recording
from fedrec_auditor.targets.recorded.recording_writer import Truth

USERS, ITEMS = 24, 30
ROWS = np.arange(ITEMS)
MIXED = np.random.default_rng(5).permutation(ITEMS)


def histories(users: int = USERS) -> NDArray[np.bool_]:
    rng = np.random.default_rng(0)
    return rng.permuted(np.tile(ROWS < 6, (users, 1)), axis=1)


def recorded(
    folder: Path, met: NDArray[np.bool_], rows: NDArray[np.int64], count: int, **manifest: Any
) -> Path:
    """A log of one round in which each device moves the rows of its items, of ``count`` rows."""
    model = np.ones((count, 2), np.float32)
    with RecordingWriter(folder, **({"n_items": count, "kinds": "model"} | manifest)) as writer:
        writer.round(1, {"item": model})
        for user, own in enumerate(met):
            sent = model.copy()
            sent[rows[own]] += 1 + user
            writer.upload(user, {"item": sent})
    return folder


def order(folder: Path, met: NDArray[np.bool_], items: NDArray[np.int64] = ROWS) -> ItemOrder:
    data = Interactions(
        name="truth", users=np.arange(len(met)), items=items, ratings=Interactions.of(met).ratings
    )
    return ItemOrder.of(Recording.open(folder), Truth(data), None)


@pytest.mark.parametrize(
    ("rows", "count", "manifest", "items"),
    [
        (ROWS + 1, ITEMS + 1, {}, ROWS),  # a padding row
        (ROWS + 1, ITEMS + 1, {"n_items": ITEMS}, ROWS),
        (ROWS + 3, ITEMS + 5, {}, ROWS),
        (ROWS, ITEMS, {}, ROWS + 1),  # numbers from 1
        (ROWS, ITEMS, {}, 7 * ROWS + 100),
        (np.argsort(np.argsort(ROWS.astype(str))), ITEMS, {}, ROWS),  # sorted as texts
        (MIXED, ITEMS, {}, ROWS),
        (MIXED + 1, ITEMS + 1, {}, ROWS),
        (MIXED, ITEMS, {"items": ROWS.tolist()}, ROWS),  # said wrongly
    ],
)
def test_rows_are_read_as_the_items_that_messages_bear_out(
    tmp_path: Path,
    rows: NDArray[np.int64],
    count: int,
    manifest: dict[str, Any],
    items: NDArray[np.int64],
) -> None:
    met = histories()
    found = order(recorded(tmp_path, met, rows, count, **manifest), met, items)
    named = np.array(found.recording.manifest.items)
    for item, row in enumerate(rows):  # items that the same users met are alike
        alike = (met == met[:, [item]]).all(axis=0)
        assert named[row] in items[alike]
    assert found.assumed.startswith("Assumed: row ")
    assert not found.doubt


@pytest.mark.parametrize("manifest", [{}, {"items": ROWS.tolist()}])
def test_rows_in_the_order_of_the_manifest_are_left_as_they_are(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    met = histories()
    found = order(recorded(tmp_path, met, ROWS, ITEMS, **manifest), met)
    assert (found.notes, found.assumed, found.doubt) == ((), "", "")
    assert found.recording.manifest == Recording.open(tmp_path).manifest


@pytest.mark.parametrize("seed", range(6))
def test_no_order_fits_messages_that_tell_nothing_of_their_senders(
    tmp_path: Path, seed: int
) -> None:
    """As popular as the items are, but of others' histories: a control by permuted truths."""
    rng = np.random.default_rng(seed)
    met, sent = rng.random((2, USERS, ITEMS)) < 0.8 / np.sqrt(1 + ROWS)
    found = order(recorded(tmp_path / "a", sent, ROWS, ITEMS), met)
    assert found.doubt.startswith("It is not known which item each row is")
    assert not found.assumed
    found = order(recorded(tmp_path / "b", sent, ROWS, ITEMS, items=ROWS.tolist()), met)
    assert found.doubt.startswith("Messages tell items for sure")  # the senders may be others
    assert not found.assumed


def test_a_padding_row_hides_no_leak(tmp_path: Path) -> None:
    met = histories()
    recorded(tmp_path, met, ROWS + 1, ITEMS + 1)
    record = attack_recording(
        tmp_path, truth=met.astype(float), attacks=["interaction-reconstruction"], jobs=1
    )
    (row,) = [row for row in record.attacks if row.metric == "interaction F1"]
    assert row.value == 1.0
    assert "Assumed: row 1 is item 0, row 2 is item 1, and so on (of 31 rows 1" in row.note
    assert any(note.startswith("Assumed: row 1 is item 0") for note in record.notes)
    (glance,) = glances(record)
    assert glance.severity is Severity.CRITICAL


def test_a_failure_on_rows_that_may_be_any_items_is_not_assessed(tmp_path: Path) -> None:
    """Of noise too, unless the manifest says which item each row is."""
    met, rng = histories(), np.random.default_rng(0)
    levels = []
    for items in (None, ROWS.tolist()):
        folder = tmp_path / str(items is None)
        with RecordingWriter(folder, n_items=ITEMS, kinds="change", items=items) as writer:
            writer.round(1, {"item": np.zeros((ITEMS, 4))})
            for user in range(USERS):
                writer.upload(user, {"item": rng.normal(size=(ITEMS, 4))})
        names = ["interaction-reconstruction", "interaction-membership"]
        record = attack_recording(folder, truth=met.astype(float), attacks=names, jobs=1)
        levels.append(glances(record)[0].severity)
        told = [row.reason for row in record.skipped if row.attack in names]
        assert len(told) == (2 if items is None else 0)
        assert all('Give "items": [...] in ' in reason for reason in told)
    assert levels == [Severity.NOT_ASSESSED, Severity.LOW]
