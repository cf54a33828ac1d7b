"""Tests of attacks on recordings: the rows of a live audit, and metrics against a given truth."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import Claim, RecordingWriter, attack_recording, record_uploads, wrap_system
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.auditor.own.recorded_uploads import record_training
from fedrec_auditor.auditor.plan.objects import compute_fingerprint, is_built_in
from fedrec_auditor.auditor.plan.plan import make_plan
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.runner import run_plan
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import TRUTH_FILE, Recording
from tests.auditor.own.test_your_system import send_recommendations
from tests.points import later
from tests.targets.recorded.test_hostile import declared

ATTACKS = (
    "attribute-rows",
    "attribute-svc",
    "interaction-membership",
    "interaction-reconstruction",
    "linkage",
)
SETTINGS: dict[str, Any] = {
    "fcf": {"rounds": 2},
    "fedrec": {"rounds": 3, "share": 0.5},
    "dplcf-sp": {},
    "fmf-ldp": {"rounds": 2},
    "lfl-sgdmf": {"rounds": 2},
    "local-only": {"rounds": 3},
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return Synthetic(n_users=40, n_items=30, profile=6).load()


@pytest.mark.parametrize(
    "name", ["fcf", "dplcf-sp", *map(later, ("fmf-ldp", "fedrec", "lfl-sgdmf", "local-only"))]
)
def test_a_recording_gives_the_rows_of_the_live_run(
    tmp_path: Path, data: Interactions, name: str
) -> None:
    """The rows are equal byte for byte, except for evidence that needs the devices' code."""
    values = {"targets": (name,), "quick": True, "settings": {name: SETTINGS[name]}}
    plan = make_plan(values | {"attacks": ATTACKS})
    live = run_plan(plan, make_resources(1), interactions=data)
    record_training(plan, make_resources(1), tmp_path / "run", with_truth=True, interactions=data)
    found = attack_recording(tmp_path / "run", attacks=ATTACKS, quick=True, jobs=1)
    assert not found.errors
    inferred = [row for row in live.attacks if row.attack in ATTACKS]  # a recording has no client
    assert sum("devices' code" not in row.note for row in inferred) > 3
    for row, same in zip(found.attacks, inferred, strict=True):
        assert "devices' code" in same.note or row.model_dump_json() == same.model_dump_json()
    skipped = [r for r in found.skipped if r.attack != "utility"]
    assert skipped == [row for row in live.skipped if row.attack in ATTACKS]


def write_recording(
    folder: Path, senders: list[Any], items: list[Any] | None = None
) -> Interactions:
    """Writes a recording of whole histories as bits (12 users, 9 items); returns the histories."""
    bits = np.random.default_rng(0).random((12, 9)) < 0.4
    bits[:, 0], bits[:, 1] = True, False
    with RecordingWriter(folder, n_items=9, kinds="bits", items=items) as writer:
        for number in (1, 2):
            writer.round(number)
            for sender, row in zip(senders, bits, strict=True):
                writer.upload(sender, {"bits": row})
    return Interactions.create(bits.astype(float))


def get_exact_share(record: Record) -> float:
    (row,) = [r for r in record.attacks if r.metric == "users reconstructed exactly"]
    return row.value


def run_attacks(path: Path, **more: Any) -> Record:
    return attack_recording(path, attacks=["interaction-reconstruction", "linkage"], jobs=1, **more)


def test_a_table_maps_senders_to_users_of_the_truth(tmp_path: Path) -> None:
    """The truth has string ids; a table that permutes the senders gives only wrong guesses."""
    names = [f"Ü{n}" for n in range(12)]
    shuffled = np.random.default_rng(1).permutation(12)
    items = [f"film {n}" for n in np.random.default_rng(2).permutation(9)]
    data = write_recording(tmp_path / "run", [f"p{n}" for n in range(12)], items)
    rows = [(names[u], items[i]) for u, i in zip(*data.ratings.nonzero(), strict=True)]
    lines = [
        f"{rows[at][0]},{rows[at][1]}" for at in np.random.default_rng(3).permutation(len(rows))
    ]
    (tmp_path / "truth.csv").write_text("user,item\n" + "\n".join([*lines, "Ü3,another"]))
    for order, right in ((np.arange(12), 1.0), (shuffled, 0.0)):
        table = "".join(f"p{n},{names[order[n]]}\n" for n in range(12))
        (tmp_path / "senders.csv").write_text("sender,user\n" + table)
        record = run_attacks(
            tmp_path / "run", truth=tmp_path / "truth.csv", senders=tmp_path / "senders.csv"
        )
        assert any("1 are of items" in note for note in record.notes)
        if right:
            assert get_exact_share(record) == 1.0
    (told,) = [r.reason for r in record.skipped if r.attack == "interaction-reconstruction"]
    assert "Messages tell items for sure, and in no order" in told
    assert "see that senders are users of the truth" in told


def test_without_a_truth_only_linkage_is_run(tmp_path: Path) -> None:
    write_recording(tmp_path, list(range(12)))
    record = run_attacks(tmp_path)
    assert {row.attack for row in record.attacks} == {"linkage"}
    (reason,) = [r.reason for r in record.skipped if r.attack == "interaction-reconstruction"]
    assert reason.startswith("No true interactions are given")
    assert not record.findings


def test_senders_outside_the_truth_are_omitted_with_a_note(tmp_path: Path) -> None:
    data = write_recording(tmp_path, [*range(10), 77, 78])
    record = run_attacks(tmp_path, truth=data)
    assert get_exact_share(record) == 1.0
    (row,) = [r for r in record.attacks if r.metric == "users reconstructed exactly"]
    assert row.n == 10
    assert record.notes[1:] == (
        "2 of 12 senders, such as '77', are not in the truth: their messages are left out.",
    )


def test_float16_models_need_a_broadcast(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for blind, folder in ((True, tmp_path / "a"), (False, tmp_path / "b")):
        model = rng.normal(size=(9, 4)).astype(np.float16)
        with RecordingWriter(folder, n_items=9, kinds="model", items=list(range(9))) as writer:
            writer.round(1, None if blind else {"item": model})
            for user in range(12):
                sent = model.copy()
                sent[user % 9] += np.float16(1)
                writer.upload(user, {"item": sent})
        record = run_attacks(folder, truth=np.eye(9)[np.arange(12) % 9])
        assert len(record.notes) == 1 + blind
        assert [get_exact_share(record)] == [1.0] if not blind else not record.attacks


@pytest.mark.parametrize("route", ["shuffled", "aggregate"])
def test_mixed_senders_outside_the_truth_are_refused(tmp_path: Path, route: str) -> None:
    with RecordingWriter(tmp_path, n_items=3, kinds="bits", route=route) as writer:
        writer.round(1)
        for sender in (0, 1, 2):
            writer.upload(sender, {"bits": np.eye(3)[sender] > 0})
    run_attacks(tmp_path, truth=np.eye(3))
    with pytest.raises(InputError, match="no user for 1 of 3 senders, such as '2'"):
        run_attacks(tmp_path, truth=np.eye(3)[:2])


def test_a_truth_of_other_users_or_items_is_refused(tmp_path: Path) -> None:
    data = write_recording(tmp_path, list(range(12)), [100 + n for n in range(9)])
    with pytest.raises(InputError, match="the recording's items, such as 100, got others"):
        run_attacks(tmp_path, truth=Interactions.create(np.eye(12, 9)))
    write_recording(tmp_path / "b", [f"p{n}" for n in range(12)])
    with pytest.raises(InputError, match="no user for 12 of 12 senders, such as 'p0'"):
        run_attacks(tmp_path / "b", truth=data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,sender\n1,2\n", "columns sender,user"),
        ("sender,user\n1\n", "in line 2"),
        ("sender,user\n1,2\n1,3\n", "in line 3"),
        ('sender,user\n"1,2\n', "a CSV file in UTF-8"),
    ],
)
def test_a_table_of_senders_is_checked(tmp_path: Path, text: str, message: str) -> None:
    data = write_recording(tmp_path / "run", list(range(12)))
    (tmp_path / "senders.csv").write_text(text)
    with pytest.raises(InputError, match="Expected") as caught:
        run_attacks(tmp_path / "run", truth=data, senders=tmp_path / "senders.csv")
    assert message in str(caught.value)


def test_a_recording_leaves_a_claim_inconclusive(tmp_path: Path) -> None:
    data = write_recording(tmp_path, list(range(12)))
    record = run_attacks(tmp_path, truth=data, claim=Claim(epsilon=1, unit="interaction"))
    (finding,) = record.findings
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.measured is None
    assert "bounds no epsilon from below" in finding.reason
    assert "auditor run MODULE:OBJECT" in finding.reason
    (seen,) = summarize_systems(record)
    assert "audit the client itself (auditor run MODULE:OBJECT)" in seen.log_line
    assert record.exit_code(Gate()) == 3
    assert record.exit_code(Gate(allow=("inconclusive",))) == 0
    nothing = run_attacks(tmp_path, truth=data, claim=Claim(epsilon=math.inf))
    assert [f.verdict for f in nothing.findings] == [Verdict.NO_CLAIM]


def write_tables(folder: Path, n_items: int, **more: Any) -> Path:
    """Writes a recording of tables of 20 items x 3."""
    with RecordingWriter(folder, n_items=n_items, **more) as writer:
        writer.round(1)
        for sender in range(3):
            writer.upload(sender, {"item": np.full((20, 3), sender)})
    return folder


def test_n_items_that_fits_no_component_is_noted(tmp_path: Path) -> None:
    """A note, not a refusal: items may be hashed, and messages may have no rows of items."""
    *_, note = run_attacks(write_tables(tmp_path / "wrong", 21)).notes
    assert "n_items=21 rows or columns (item: 20 x 3)" in note
    assert f"correct n_items in {tmp_path / 'wrong' / 'manifest.json'}" in note
    assert not any(
        "n_items" in note for note in run_attacks(write_tables(tmp_path / "right", 20)).notes
    )


@pytest.mark.parametrize(
    ("n_items", "more"), [(2**31 - 1, {}), (20, {"shapes": {"o": [2**30, 9]}})]
)
def test_arrays_beyond_memory_are_refused_before_reading(
    tmp_path: Path, n_items: int, more: dict[str, Any]
) -> None:
    folder = write_tables(tmp_path, n_items, kinds={"item": "change", "o": "change"}, **more)
    message = (
        r"within 2 GiB of memory, got (n_items=2147483647|shape 1073741824 x 9 of 'o') in .*json"
    )
    with pytest.raises(InputError, match=message):
        run_attacks(folder, memory=2)


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("uploads-b.npz", {"item": ((3, 2**30), "<f4")}),
        ("broadcast.npz", {"item": ((2**30,), "<f4")}),
        ("aggregate.npz", {"item": ((2**30,), "<f4")}),
    ],
)
def test_small_files_with_huge_arrays_are_refused_before_reading(
    tmp_path: Path, name: str, heads: dict[str, tuple[tuple[int, ...], str]]
) -> None:
    RecordingWriter(tmp_path, n_items=20, kinds="change").close()
    (tmp_path / "rounds" / "1").mkdir(parents=True)
    declared(tmp_path / "rounds" / "1" / name, **heads)
    assert (tmp_path / "rounds" / "1" / name).stat().st_size < 2**10
    with pytest.raises(InputError, match=rf"within 2 GiB of memory.*{name}, which takes 16 GiB"):
        run_attacks(tmp_path, memory=2)


def test_a_column_order_array_beyond_memory_is_refused(tmp_path: Path) -> None:
    """An array stored in column order is read completely for each message."""
    RecordingWriter(tmp_path, n_items=20, kinds="change").close()
    place = tmp_path / "rounds" / "1"
    place.mkdir(parents=True)
    np.savez(place / "uploads-a.npz", item=np.zeros((2**17, 16), order="F"))
    with pytest.raises(InputError, match=r"2,097,152 numbers of 'item' at once in .*a.npz"):
        run_attacks(tmp_path, memory=2**-6)


def test_a_changed_file_is_another_recording(tmp_path: Path) -> None:
    """A finished task on old files is not reused for new files."""
    write_recording(tmp_path, list(range(12)))

    def opened() -> RecordedSystem:
        return RecordedSystem(
            recording=Recording.open(tmp_path), sender_rows=np.arange(12), user_ids=np.arange(12)
        )

    before = opened()
    assert compute_fingerprint(opened()) == compute_fingerprint(before)
    with RecordingWriter(tmp_path, n_items=9, kinds="bits") as writer:
        writer.round(3)
        writer.upload(1, {"bits": np.ones(9, dtype=bool)})
    assert compute_fingerprint(opened()) != compute_fingerprint(before)
    after = opened()
    (path,) = (tmp_path / "rounds" / "3").iterdir()
    path.unlink()
    with RecordingWriter(tmp_path, n_items=9, kinds="bits") as writer:
        writer.round(3)
        writer.upload(1, {"bits": np.zeros(9, dtype=bool)})
    assert compute_fingerprint(opened()) != compute_fingerprint(after)
    assert not is_built_in(before)


def test_recordings_without_senders_are_attacked_at_weaker_vantages(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).random((12, 9)) < 0.4
    shuffled, summed = tmp_path / "shuffled", tmp_path / "summed"
    with RecordingWriter(shuffled, n_items=9, kinds="bits") as writer:
        for number in (1, 2):
            writer.round(number, {"item": np.zeros(9)})
            writer.uploads(None, {"bits": Dense(bits, Payload.BITS)})
    items = list(range(9))  # sums do not confirm this order
    with RecordingWriter(summed, n_items=9, kinds="change", items=items) as writer:
        for number in range(1, 9):
            some = np.flatnonzero(np.random.default_rng(number).random(12) < 0.5)
            writer.round(number, {"item": np.zeros((9, 2))})
            writer.aggregate({"item": np.repeat(bits[some].sum(axis=0)[:, None], 2, axis=1)}, some)
    for path, vantage in ((shuffled, "shuffled"), (summed, "aggregate")):
        record = attack_recording(path, truth=bits, quick=True, jobs=1)
        assert not record.errors
        seen = {row.vantage for row in record.attacks}
        assert vantage in seen
        assert "server" not in seen
        assert "linkage" not in {row.attack for row in record.attacks}
        (told,) = [r.reason for r in record.skipped if r.attack == "linkage"]
        assert told
    found = run_attacks(shuffled, truth=bits)
    (row,) = [r for r in found.attacks if r.metric.endswith("without names")]
    assert row.value == 1.0
    (told,) = [r.reason for r in found.skipped if r.attack == "linkage"]
    assert "does not name the senders" in told


def test_a_recording_is_not_trained_again(tmp_path: Path, data: Interactions) -> None:
    out = record_uploads(
        "fcf", data=data, out=tmp_path / "run", settings={"rounds": 2}, with_truth=True
    )
    record = attack_recording(out, attacks=["user-membership"], quick=True, jobs=1)
    assert not record.attacks
    (reason,) = [r.reason for r in record.skipped if r.attack == "user-membership"]
    assert "cannot be trained again" in reason


def test_a_user_system_is_recorded_without_its_truth(tmp_path: Path, data: Interactions) -> None:
    system = wrap_system(lambda history, model, rng: history.dense() > 0, title="plain-bits")
    out = record_uploads(system, data=data, out=tmp_path / "run")
    assert not (out / "truth.npz").exists()
    assert Recording.open(out).manifest.algorithm == "plain-bits"
    with pytest.raises(InputError, match="Expected out to be an empty or new directory"):
        record_uploads(system, data=data, out=out)
    for targets in ((), ("all",), ("fcf", "fedrec")):
        with pytest.raises(InputError, match="one target"):
            record_training(make_plan({"targets": targets}), make_resources(1), tmp_path / "b")


def test_silos_are_numbered(tmp_path: Path) -> None:
    for sender in (1, 2, "north"):
        with RecordingWriter(tmp_path / str(sender), n_items=3, parties=2) as writer:
            writer.round(1)
            writer.upload(sender, {"item": np.ones(3)})
        if sender == 1:
            record = run_attacks(tmp_path / "1", truth=np.eye(3))
            assert any("come from parties" in row.reason for row in record.skipped)
            assert not run_attacks(tmp_path / "1").attacks
        else:
            with pytest.raises(InputError, match="party numbers 0 to 1"):
                run_attacks(tmp_path / str(sender))


def test_messages_of_any_form_are_read_by_client_code(tmp_path: Path, data: Interactions) -> None:
    system = wrap_system(send_recommendations)
    folder = record_uploads(system, data=data, out=tmp_path / "run", with_truth=True)
    settings: dict[str, Any] = {"attacks": ["interaction-reconstruction"], "quick": True, "jobs": 1}
    bare = attack_recording(folder, **settings)
    assert not bare.attacks
    assert "needs the client's code" in bare.skipped[0].reason
    read = attack_recording(folder, client=system, **settings)
    (sets,) = (row for row in read.attacks if row.metric == "interaction F1")
    assert sets.value > 0.95
    assert "by the devices' code" in sets.note
    with pytest.raises(InputError, match="client='fcf' to accept the first recorded model"):
        attack_recording(folder, client="fcf", **settings)
    with pytest.raises(InputError, match="client='dplcf-sp' to send the recorded parts"):
        attack_recording(folder, client="dplcf-sp", **settings)
    (folder / TRUTH_FILE).unlink()
    with pytest.raises(InputError, match="the true data, with client"):
        attack_recording(folder, client=system, **settings)


def hash_items(items: Any) -> Any:
    return items * 2_654_435_761 % 2**31


def test_item_codes_are_read_by_a_public_hash_or_by_frequency(
    tmp_path: Path, data: Interactions
) -> None:
    def coded(history: Any, model: Any, rng: np.random.Generator) -> Any:
        filled = np.append(hash_items(history.items), np.full(history.n_items, -1))
        return {"codes": filled[: history.n_items]}

    settings: dict[str, Any] = {"attacks": ["interaction-reconstruction"], "quick": True, "jobs": 1}
    rows_by_hash = {}
    for rows in (hash_items, None):
        system = wrap_system(coded, kinds="codes", rows=rows)
        folder = tmp_path / str(rows is None)
        record_uploads(system, data=data, out=folder, with_truth=True)
        read = attack_recording(folder, **settings)
        (rows_by_hash[rows],) = (row for row in read.attacks if row.metric == "interaction F1")
    assert rows_by_hash[hash_items].value == 1.0
    assert rows_by_hash[None].baseline is not None
    assert rows_by_hash[None].baseline < rows_by_hash[None].value < 1.0
    matched = "Matches codes to items by how many users have each."
    assert [matched in row.note for row in rows_by_hash.values()] == [False, True]


def test_a_recording_with_other_client_code_is_another_audit(
    tmp_path: Path, data: Interactions
) -> None:
    folder = record_uploads("fcf", data=data, out=tmp_path / "run", quick=True, with_truth=True)
    users = data.users
    bare = RecordedSystem(
        recording=Recording.open(folder), sender_rows=np.arange(len(users)), user_ids=users
    )
    codes = (None, wrap_system(send_recommendations), wrap_system(lambda history, model, rng: 0.0))
    made = [compute_fingerprint(replace(bare, simulator=code)) for code in codes]
    assert len(set(made)) == 3
    assert compute_fingerprint(replace(bare, simulator=codes[1])) == made[1]


@pytest.mark.parametrize(("bad", "rounds"), [(np.nan, (1,)), (-np.inf, (1, 2)), (np.nan, (1, 2))])
def test_nonfinite_messages_are_omitted_and_counted(
    tmp_path: Path, bad: float, rounds: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    held, model = rng.random((12, 20)) < 0.3, rng.normal(size=(20, 2)).astype(np.float32)
    with RecordingWriter(tmp_path, n_items=20, kinds="model") as writer:
        for number in (1, 2):
            writer.round(number, {"item": model})
            for user, own in enumerate(held):
                sent = model + own[:, None]
                sent[4, 0] = bad if user == 3 and number in rounds else sent[4, 0]
                writer.upload(user, {"item": sent})
    record = attack_recording(
        tmp_path, truth=held.astype(float), attacks=["interaction-reconstruction"], jobs=1
    )
    (row,) = [row for row in record.attacks if row.metric == "interaction F1"]
    assert (row.value, row.n) == (1.0, 12 - (len(rounds) == 2))
    assert f"skip messages (of 24): {len(rounds)} with numbers above 1e+13 or NaN." in row.note
    (messages,) = record.messages
    assert (messages.sent, messages.n_unusable) == (24, len(rounds))
    assert f"{len(rounds)} of 24 messages hold NaN or infinities: left out." in record.notes
    assert any("1 of 12 senders, such as 3, sent no" in n for n in record.notes) is (
        rounds == (1, 2)
    )


def test_nonfinite_models_and_sums_are_omitted_and_counted(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path, n_items=4, kinds="change") as writer:
        for number, bad in enumerate((0.0, 0.0, np.nan), 1):
            writer.round(number, {"item": np.full((4, 2), bad)})
            writer.upload(0, {"item": np.ones((4, 2))})
            writer.upload(1, {"item": np.full((4, 2), bad)})
            writer.aggregate({"item": np.full((4, 2), 1 + bad)}, [0, 1])
    recording, notes = Recording.open(tmp_path).drop_nonfinite_data()
    assert [each.broadcast is None for each in recording.rounds] == [False, False, True]
    assert [each.aggregate is None for each in recording.rounds] == [False, False, True]
    counts = {"1 of 6 messages", "1 of 3 models", "1 of 3 sums"}
    assert {f"{each} hold NaN or infinities: left out." for each in counts} == set(notes)
    for number in (4, 5, 6):
        with RecordingWriter(tmp_path, n_items=4, kinds="change") as writer:
            writer.round(number)
            for user in range(2):
                writer.upload(user, {"item": np.full((4, 2), np.inf)})
    with pytest.raises(
        InputError, match=r"in at least half of the messages of .* NaN or infinities in 7 of 12"
    ):
        Recording.open(tmp_path).drop_nonfinite_data()
