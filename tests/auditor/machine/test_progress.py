"""Tests of progress: running tasks with their stage, and finished tasks; no remaining time."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import fedrec_auditor
from fedrec_auditor.auditor.machine import progress
from fedrec_auditor.auditor.machine.progress import (
    TRAINING_STAGE,
    ProgressReport,
    ProgressTracker,
    display_on_console,
    format_log_line,
    note_progress,
    report_step,
    show_progress,
    write_progress_note,
)
from fedrec_auditor.auditor.plan.plan import read_plan
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.runner import run_plan


def make_report(**changes: Any) -> ProgressReport:
    values: dict[str, Any] = {
        "done": 1,
        "total": 4,
        "running": ("fcf training, round 12 of 300",),
        "last_task": "fcf bounds",
        "elapsed": 60.0,
    }
    return ProgressReport(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "fcf bounds; 1 min so far"),
        ({"elapsed": 0.4}, "fcf bounds; under 1 s so far"),
        ({"done": 4}, "fcf bounds; 1 min so far"),
    ],
)
def test_a_log_gets_a_line_when_a_task_ends(changes: dict[str, Any], line: str) -> None:
    file = io.StringIO()
    with display_on_console(Console(file=file)) as observe:
        observe(make_report(last_task=None))
        observe(make_report(**changes))
    assert file.getvalue() == f"[{changes.get('done', 1)}/4] {line}\n"


def test_a_log_names_running_tasks_if_none_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    file = io.StringIO()
    with display_on_console(Console(file=file)) as observe:
        for second in range(100):
            clock[0] = float(second)
            observe(make_report(last_task=None))
    line = "[1/4] fcf training, round 12 of 300; 1 min so far"
    assert file.getvalue().splitlines() == [line] * 3


@pytest.mark.parametrize("width", [40, 60])
def test_a_terminal_names_running_tasks_below_the_bar(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    runs = tuple(f"target-{number} training, round 12 of 300" for number in range(9))
    with display_on_console(console) as observe:
        observe(make_report(running=runs, total=44))
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    first = "target-0 training, round 12 of 300"
    for said in ("1/44 0:00:00", first, "and 5 more"):
        assert said in text
    assert "target-4" not in text


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_reported_once_by_name(tmp_path: Path, jobs: int) -> None:
    """Each report adds one finished task, also for tasks that share a job, while the job runs."""
    (tmp_path / "plan.toml").write_text(
        'targets = ["fcf"]\ndata = "synthetic"\nmin_user = 70\nquick = true\n'
        'attacks = ["attribute-tree", "interaction-reconstruction"]\n'
        "[settings.fcf]\nrounds = 2\n"
    )
    reports: list[ProgressReport] = []
    run_plan(read_plan(tmp_path / "plan.toml"), make_resources(jobs), observe=reports.append)
    ended = [each for each in reports if each.last_task]
    assert [each.done for each in ended] == [1, 2, 3, 4, 5]
    steps = ("attribute-tree", "bounds", "interaction-reconstruction", "local", "utility")
    assert sorted(each.last_task or "" for each in ended) == [f"fcf {step}" for step in steps]
    assert reports[-1].running == ()


def test_progress_is_not_shown_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with show_progress(None) as observe:
        assert observe is None
    with show_progress(False) as observe:
        assert observe is None
    with show_progress(print) as observe:
        assert observe is print
    with show_progress(True) as observe:
        observe(make_report())
    assert capfd.readouterr().err.startswith("[1/4] fcf bounds; ")


def test_a_notebook_shows_progress_by_default(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    console = Console(stderr=True, force_jupyter=True)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    with show_progress(None) as observe:
        assert observe is not None
        observe(make_report())
    assert capfd.readouterr().err == "[1/4] fcf bounds; 1 min so far\n"


def test_python_callers_get_reports_by_callback() -> None:
    reports: list[ProgressReport] = []
    fedrec_auditor.audit(
        "dplcf-sp", data="synthetic", quick=True, attacks=(), jobs=1, progress=reports.append
    )
    assert (reports[-1].done, reports[-1].total) == (3, 3)


def test_a_long_verification_counts_its_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PULSE", 0.0)
    reports: list[ProgressReport] = []

    def flip(bit: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        return np.where(rng.random(size) < 0.75, bit, 1 - bit)

    asked: dict[str, Any] = {"epsilon": 1.2, "samples": 40_000}
    found = fedrec_auditor.verify_ldp(flip, **asked, progress=reports.append, trace=False)
    assert re.fullmatch(r"verifying, draw [\d,]+ of [\d,]+", reports[0].running[0])
    assert repr(fedrec_auditor.verify_ldp(flip, **asked, progress=False, trace=False)) == repr(
        found
    )


def make_tracker() -> tuple[ProgressTracker, list[ProgressReport]]:
    reports: list[ProgressReport] = []
    return ProgressTracker(reports.append, done=3, total=5), reports


def test_running_tasks_are_shown_with_their_round() -> None:
    watch, reports = make_tracker()

    def record_step(task: str, *at: Any) -> tuple[str, ...]:
        watch.record_step(task, *at)
        watch.notify_observer()
        return reports[-1].running

    bounds, utility = "fcf bounds", "fcf utility"
    assert record_step("fcf training", TRAINING_STAGE, 5, 300) == ("fcf training, round 6 of 300",)
    assert record_step("fcf training", TRAINING_STAGE, 1, 1) == ()
    assert record_step(bounds, "", 0, 1) == (bounds,)
    assert record_step(bounds, "draw", 65536, 10**6) == ("fcf bounds, draw 65,536 of 1,000,000",)
    assert record_step(bounds, "", 1, 1) == ()
    assert (reports[-2].last_task, reports[-2].done, reports[-2].total) == (bounds, 4, 5)
    assert record_step(utility, "", 0, 1) == (utility,)
    assert record_step(utility, TRAINING_STAGE, 11, 300) == ("fcf training, round 12 of 300",)
    assert record_step(utility, TRAINING_STAGE, 300, 300) == (utility,)
    record_step(utility, "", 1, 1)
    assert (reports[-1].done, reports[-1].running) == (5, ())
    assert record_step("fcf training", "", 0, 1) == ("fcf training",)
    assert record_step("fcf training", TRAINING_STAGE, 1, 1) == ()  # shared by several workers


@pytest.mark.parametrize("seconds", [1.0, 60.0, 3600.0])
def test_remaining_time_is_not_estimated(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """For short, long and uneven tasks, progress counts finished tasks only."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    reports: list[ProgressReport] = []
    watch = ProgressTracker(reports.append, done=0, total=4)
    for step, share in enumerate((1, 2, 100, 1)):
        watch.record_step(f"fcf step{step}", "", 0, 1)
        for done in range(11):
            clock[0] += seconds * share
            watch.record_step(f"fcf step{step}", "draw", done, 10)
            watch.notify_observer()
        watch.record_step(f"fcf step{step}", "", 1, 1)
    lines = [format_log_line(each) for each in reports]
    assert [each.elapsed for each in reports] == sorted(each.elapsed for each in reports)
    assert all(re.fullmatch(r"\[\d/4\] fcf step.*; [\d,hmins ]+ so far", said) for said in lines)
    assert {field.name for field in fields(ProgressReport)} == {
        "done", "total", "running", "last_task", "elapsed",
    }  # fmt: skip


def test_notes_of_another_process_are_read_as_they_come() -> None:
    """Notes are read before the process ends, all of them and in order."""
    watch, reports = make_tracker()
    code = (
        "import sys; from pathlib import Path\n"
        "from fedrec_auditor.auditor.machine.progress import write_progress_note\n"
        "for k in range(50): write_progress_note(Path(sys.argv[1]), f'step{k}', '', 1, 1)\n"
        "sys.stdin.read(); write_progress_note(Path(sys.argv[1]), 'step50', '', 1, 1)"
    )

    def ended() -> list[str]:
        return [each.last_task for each in reports if each.last_task]

    with watch.open_notes_file() as path:
        other = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE)
        until = time.monotonic() + 60
        while len(ended()) < 50 and time.monotonic() < until:
            time.sleep(0.05)
        assert ended() == [f"step{number}" for number in range(50)]
        other.communicate()
    assert ended()[50:] == ["step50"]
    assert not path.parent.exists()
    write_progress_note(path, "step0", "", 1, 1)  # lost, without an error
    assert not path.exists()


def test_a_loop_is_noted_at_its_ends_and_sometimes_between(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.touch()
    with note_progress(path, "fcf utility"):
        for done in range(1001):
            report_step(TRAINING_STAGE, done, 1000)
        report_step("draw", 5, 10)
    lines = [json.loads(line)[1:] for line in path.read_text("utf-8").splitlines()]
    assert lines[:2] == [["", 0, 1], [TRAINING_STAGE, 0, 1000]]
    assert lines[-2:] == [[TRAINING_STAGE, 1000, 1000], ["draw", 5, 10]]
    assert len(lines) < 20


def test_a_failing_observer_does_not_stop_an_audit(caplog: pytest.LogCaptureFixture) -> None:
    def broken(standing: ProgressReport) -> None:
        raise RuntimeError("no screen")

    watch = ProgressTracker(broken, done=0, total=1)
    watch.notify_observer()
    watch.notify_observer()
    assert [record.message for record in caplog.records] == [
        "The progress observer failed; it is not called again"
    ]
