"""Finished tasks on disk: believed only whole, run again otherwise, and never for ever."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run import checkpoints as module
from fedrec_auditor.auditor.run import runner
from fedrec_auditor.auditor.run.audited_target import AuditedTarget
from fedrec_auditor.auditor.run.checkpoints import TASKS_FOLDER, Checkpoints
from fedrec_auditor.auditor.run.resources import Resources
from fedrec_auditor.auditor.run.tasks import Audit, Task, TaskResult
from fedrec_auditor.reports.record.record import Record
from tests.command import cli, refusal

PLAN = Plan(
    targets=("dplcf-sp",), attacks=("interaction-reconstruction",), data="synthetic", quick=True
)

Audited = tuple[Audit, dict[Task, TaskResult]]
Kept = tuple[Checkpoints, Task, Path, TaskResult]


@pytest.fixture(scope="module")
def audited() -> Audited:
    audit = Audit.from_plan(PLAN)
    target = AuditedTarget(audit, "dplcf-sp")
    return audit, {task: target.run_step(task.step) for task in audit.list_tasks()}


@pytest.fixture
def kept(audited: Audited, tmp_path: Path) -> Kept:
    """The checkpoints of an audit, one of its tasks, where that is kept, and its result."""
    audit, results = audited
    task, result = next(iter(results.items()))
    checkpoints = Checkpoints.open(tmp_path, audit)
    checkpoints.put(task, result)
    (path,) = (tmp_path / TASKS_FOLDER).iterdir()
    return checkpoints, task, path, result


def test_what_is_kept_is_given_back(kept: Kept) -> None:
    checkpoints, task, _, result = kept
    assert checkpoints.get(task) == result
    assert checkpoints.get(Task("dplcf-sp", "nothing")) is None


@pytest.mark.parametrize(("what", "value"), [("hash_source", "edited"), ("get_versions", {"a": 2})])
def test_what_other_code_found_is_not_resumed(
    kept: Kept, audited: Audited, monkeypatch: pytest.MonkeyPatch, what: str, value: object
) -> None:
    _, task, path, _ = kept
    monkeypatch.setattr(module, what, lambda: value)
    assert Checkpoints.open(path.parents[1], audited[0]).get(task) is None


def test_the_result_of_a_task_is_not_taken_for_anothers(kept: Kept) -> None:
    checkpoints, task, path, _ = kept
    other = Task(task.target, "utility")
    (path.parent / path.name.replace(task.step, other.step)).write_bytes(path.read_bytes())
    assert checkpoints.get(task) is not None
    assert checkpoints.get(other) is None


def test_no_single_flipped_bit_is_believed(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """40 bits, from the first to the last of the file, in the digest and in numbers alike."""
    checkpoints, task, path, _ = kept
    content = path.read_bytes()
    bits = [round(at * (8 * len(content) - 1) / 39) for at in range(40)]
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert checkpoints.get(task) is None, bit
    assert len(set(bits)) == len(caplog.messages) == 40
    assert all(message.endswith("It is run again.") for message in caplog.messages)


def _sign(path: Path, text: str) -> None:
    signed = hashlib.sha256(f"{path.name}\n{text}".encode()).hexdigest()
    path.write_bytes(f"{signed}\n{text}".encode())


def _nan(path: Path) -> None:
    text = path.read_text().partition("\n")[2]
    assert '"seconds":0.0' in text
    _sign(path, text.replace('"seconds":0.0', '"seconds":NaN'))


def _large(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(module.MAX_TASK_FILE_BYTES + 1)


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _linked(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "SHA-256"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-2]), "SHA-256"),
    "digest of another": (
        lambda path: path.write_bytes(b"0" * 64 + path.read_bytes()[64:]),
        "SHA-256",
    ),
    "no result": (lambda path: _sign(path, "[]"), "another form"),
    "NaN": (_nan, "another form"),
    "failed": (lambda path: _sign(path, '{"errors":["x"]}'), "a task that failed"),
    "directory": (_instead(lambda path: (path / "inner").mkdir(parents=True)), "a directory"),
    "FIFO": (_instead(os.mkfifo), "a FIFO"),
    "endless device": (_instead(lambda path: path.symlink_to("/dev/zero")), "a link"),
    "link": (_linked, "a link"),
    "dangling link": (_instead(lambda path: path.symlink_to("nowhere")), "a link"),
    "large": (_large, f"more than {module.MAX_TASK_FILE_BYTES:,} bytes"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_no_whole_finished_task_is_run_again_and_kept_again(
    kept: Kept, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], said: str
) -> None:
    checkpoints, task, path, result = kept
    damage(path)
    assert checkpoints.get(task) is None
    (message,) = caplog.messages
    assert str(path) in message
    assert said in message
    checkpoints.put(task, result)
    assert checkpoints.get(task) == result


def test_nan_in_a_result_that_is_read_is_run_again(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows admit NaN, the record refuses it: once believed it would stop every resumption."""
    checkpoints, task, _, result = kept
    finding = result.findings[0].model_copy(update={"claimed_guess": float("nan")})
    checkpoints.put(task, result.model_copy(update={"findings": (finding,)}))
    assert checkpoints.get(task) is None
    assert "findings[0].claimed_guess, got NaN" in caplog.text


def test_a_link_in_place_of_the_folder_is_refused(audited: Audited, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    out.mkdir()
    (out / TASKS_FOLDER).symlink_to(elsewhere)
    words = ("run", "random", "--data", "synthetic", "--quick", "--jobs", "1", "--out", out)
    assert f"at {out / TASKS_FOLDER}, got a link. Remove it" in refusal(*words)
    assert list(elsewhere.iterdir()) == []
    (out / TASKS_FOLDER).unlink()
    (out / TASKS_FOLDER).touch()
    with pytest.raises(InputError, match="got something else"):
        Checkpoints.open(out, audited[0])


def test_a_failed_task_is_run_again_and_the_way_to_start_afresh_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AuditedTarget.run_step
    ran: list[str] = []

    def faulty(self: AuditedTarget, step: str) -> TaskResult:
        ran.append(step)
        if step == "utility" and ran.count(step) == 1:
            raise ZeroDivisionError("once")
        return real(self, step)

    monkeypatch.setattr(AuditedTarget, "run_step", faulty)
    words = ("run", "random", "--data", "synthetic", "--quick", "--jobs", "1", "--out", tmp_path)
    code, _, err = cli(*words)
    assert code == 3
    assert (
        f"The same command runs what failed again; remove {tmp_path / TASKS_FOLDER} to start" in err
    )
    before = len(ran)
    assert cli(*words)[0] == 0
    assert ran[before:] == ["utility"]
    assert not (tmp_path / TASKS_FOLDER).exists()


def test_a_result_that_no_record_can_hold_is_an_error_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Audited
) -> None:
    """The reports are written all the same, and nothing of it is kept."""
    result = next(iter(audited[1].values()))
    broken = result.findings[0].model_copy(update={"claimed_guess": float("nan")})

    def nan(self: AuditedTarget, step: str) -> TaskResult:
        return TaskResult(findings=(broken,)) if step == "utility" else result

    monkeypatch.setattr(AuditedTarget, "run_step", nan)
    record = runner.run_plan(PLAN, Resources(jobs=1), out=tmp_path)
    (error,) = record.errors
    assert error.startswith("dplcf-sp utility: Expected a number at findings[0].claimed_guess")
    assert Record.read(tmp_path) == record
    assert len(list((tmp_path / TASKS_FOLDER).iterdir())) == 3
