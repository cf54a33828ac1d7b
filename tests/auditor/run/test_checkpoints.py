"""Tests of finished tasks on disk: reused only if complete, otherwise run again."""

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

AuditRun = tuple[Audit, dict[Task, TaskResult]]
Entry = tuple[Checkpoints, Task, Path, TaskResult]


@pytest.fixture(scope="module")
def audit_run() -> AuditRun:
    audit = Audit.from_plan(PLAN)
    target = AuditedTarget(audit, "dplcf-sp")
    return audit, {task: target.run_step(task.step) for task in audit.list_tasks()}


@pytest.fixture
def entry(audit_run: AuditRun, tmp_path: Path) -> Entry:
    """Checkpoints of an audit, one of its tasks, the task's file, and its result."""
    audit, results = audit_run
    task, result = next(iter(results.items()))
    checkpoints = Checkpoints.open(tmp_path, audit)
    checkpoints.put(task, result)
    (path,) = (tmp_path / TASKS_FOLDER).iterdir()
    return checkpoints, task, path, result


def test_a_stored_result_is_returned(entry: Entry) -> None:
    checkpoints, task, _, result = entry
    assert checkpoints.get(task) == result
    assert checkpoints.get(Task("dplcf-sp", "nothing")) is None


@pytest.mark.parametrize(("name", "value"), [("hash_source", "edited"), ("get_versions", {"a": 2})])
def test_results_of_other_code_are_not_reused(
    entry: Entry, audit_run: AuditRun, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    _, task, path, _ = entry
    monkeypatch.setattr(module, name, lambda: value)
    assert Checkpoints.open(path.parents[1], audit_run[0]).get(task) is None


def test_the_file_of_one_task_is_not_read_for_another(entry: Entry) -> None:
    checkpoints, task, path, _ = entry
    other_task = Task(task.target, "utility")
    (path.parent / path.name.replace(task.step, other_task.step)).write_bytes(path.read_bytes())
    assert checkpoints.get(task) is not None
    assert checkpoints.get(other_task) is None


def test_every_flipped_bit_is_detected(entry: Entry, caplog: pytest.LogCaptureFixture) -> None:
    """Flips 40 bits, from the first to the last of the file, in the digest and in numbers."""
    checkpoints, task, path, _ = entry
    content = path.read_bytes()
    bits = [round(at * (8 * len(content) - 1) / 39) for at in range(40)]
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert checkpoints.get(task) is None, bit
    assert len(set(bits)) == len(caplog.messages) == 40
    assert all(message.endswith("It is run again.") for message in caplog.messages)


def write_signed(path: Path, text: str) -> None:
    signed = hashlib.sha256(f"{path.name}\n{text}".encode()).hexdigest()
    path.write_bytes(f"{signed}\n{text}".encode())


def write_nan(path: Path) -> None:
    text = path.read_text().partition("\n")[2]
    assert '"seconds":0.0' in text
    write_signed(path, text.replace('"seconds":0.0', '"seconds":NaN'))


def make_too_large(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(module.MAX_TASK_FILE_BYTES + 1)


def replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def replace_by_link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "SHA-256"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-2]), "SHA-256"),
    "digest of another": (
        lambda path: path.write_bytes(b"0" * 64 + path.read_bytes()[64:]),
        "SHA-256",
    ),
    "no result": (lambda path: write_signed(path, "[]"), "another form"),
    "NaN": (write_nan, "another form"),
    "failed": (lambda path: write_signed(path, '{"errors":["x"]}'), "a task that failed"),
    "directory": (replace_by(lambda path: (path / "inner").mkdir(parents=True)), "a directory"),
    "FIFO": (replace_by(os.mkfifo), "a FIFO"),
    "endless device": (replace_by(lambda path: path.symlink_to("/dev/zero")), "a link"),
    "link": (replace_by_link, "a link"),
    "dangling link": (replace_by(lambda path: path.symlink_to("nowhere")), "a link"),
    "large": (make_too_large, f"more than {module.MAX_TASK_FILE_BYTES:,} bytes"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_task_file_is_ignored_and_replaced(
    entry: Entry, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], message: str
) -> None:
    checkpoints, task, path, result = entry
    damage(path)
    assert checkpoints.get(task) is None
    (message,) = caplog.messages
    assert str(path) in message
    assert message in message
    checkpoints.put(task, result)
    assert checkpoints.get(task) == result


def test_a_stored_result_with_nan_is_run_again(
    entry: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows admit NaN and the record refuses it: a reused result would stop every resumption."""
    checkpoints, task, _, result = entry
    finding = result.findings[0].model_copy(update={"claimed_guess": float("nan")})
    checkpoints.put(task, result.model_copy(update={"findings": (finding,)}))
    assert checkpoints.get(task) is None
    assert "findings[0].claimed_guess, got NaN" in caplog.text


def test_a_link_in_place_of_the_folder_is_refused(audit_run: AuditRun, tmp_path: Path) -> None:
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
        Checkpoints.open(out, audit_run[0])


def test_a_failed_task_is_run_again_and_a_full_restart_is_named(
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


def test_a_result_that_the_record_refuses_is_an_error_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audit_run: AuditRun
) -> None:
    """The reports are written, and the result is not stored."""
    result = next(iter(audit_run[1].values()))
    broken = result.findings[0].model_copy(update={"claimed_guess": float("nan")})

    def nan(self: AuditedTarget, step: str) -> TaskResult:
        return TaskResult(findings=(broken,)) if step == "utility" else result

    monkeypatch.setattr(AuditedTarget, "run_step", nan)
    record = runner.run_plan(PLAN, Resources(jobs=1), out=tmp_path)
    (error,) = record.errors
    assert error.startswith("dplcf-sp utility: Expected a number at findings[0].claimed_guess")
    assert Record.read(tmp_path) == record
    assert len(list((tmp_path / TASKS_FOLDER).iterdir())) == 3
