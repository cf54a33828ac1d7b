"""Tests of workers: results, faults, and no process left behind by an ended audit."""

from __future__ import annotations

import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import IncompleteError
from fedrec_auditor.auditor.machine import workers
from tests.points import later


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_those_of_a_loop(jobs: int) -> None:
    found = workers.run_parallel(operator.mul, ((number, number) for number in range(5)), jobs=jobs)
    assert sorted(found) == [0, 1, 4, 9, 16]


def test_a_killed_worker_is_reported_in_one_line() -> None:
    with pytest.raises(IncompleteError, match="--jobs"):
        list(workers.run_parallel(signal.raise_signal, [(signal.SIGKILL,)] * 2, jobs=2))


def list_session_pids(session: int) -> list[int]:
    """Process ids of the live processes of a session, from /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of, *_ = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.append(int(entry.parent.name))
    return found


def restore_interrupts() -> None:
    """Restores the default interrupt handler, which a shell disables for background commands."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("ending", [signal.SIGTERM, later(signal.SIGINT), later(signal.SIGKILL)])
def test_an_ended_audit_leaves_no_report_and_no_process(
    tmp_path: Path, ending: signal.Signals
) -> None:
    names = ["dplcf-sp", "fcf", "fmf-ldp"]
    words = ["run", *names, "--quick", "--data", "synthetic", "--jobs", "2", "--out"]
    with (tmp_path / "err").open("w") as err:
        running = subprocess.Popen(
            [sys.executable, "-m", "fedrec_auditor", *words, str(tmp_path / "out")],
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
            preexec_fn=restore_interrupts,
        )
    wait = time.monotonic() + 240
    while not (tmp_path / "err").read_text().startswith("[1/"):
        assert running.poll() is None
        assert time.monotonic() < wait
        time.sleep(0.05)
    running.send_signal(ending)
    code = running.wait(timeout=120)
    while list_session_pids(running.pid):
        assert time.monotonic() < wait
        time.sleep(0.1)
    assert not (tmp_path / "out" / "report.json").exists()
    if ending != signal.SIGKILL:
        assert code == 3
        said = [line for line in (tmp_path / "err").read_text().splitlines() if line[0] != "["]
        assert len(said) == 1
        assert "Repeat the command to resume" in said[0]


def test_processes_of_the_user_are_not_ended() -> None:
    own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    own.start()
    found = workers.run_parallel(operator.mul, ((number, number) for number in range(9)), jobs=2)
    assert isinstance(found, Generator)
    next(found)
    ours = [child for child in multiprocessing.active_children() if child.pid != own.pid]
    found.close()
    for child in ours:
        child.join(120)
    alive = [child.is_alive() for child in (own, *ours)]
    own.kill()
    own.join()
    assert ours
    assert alive == [True] + [False] * len(ours)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_a_second_interrupt_does_not_hang(tmp_path: Path) -> None:
    """A second interrupt may end ``pgrep``, by which joblib finds the children of its workers."""
    (tmp_path / "pgrep").write_text("#!/bin/sh\nkill -INT $$\n")
    (tmp_path / "pgrep").chmod(0o755)
    work = (
        "import time; from fedrec_auditor.auditor.machine import workers\n"
        "print('begun', flush=True)\n"
        "list(workers.run_parallel(time.sleep, [(60,)] * 3, jobs=2))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", work],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=restore_interrupts,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    running.stdout.readline()
    while len(list_session_pids(running.pid)) < 4:  # the audit, two workers and a resource tracker
        assert running.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    try:
        assert running.wait(timeout=120) != 0
    finally:
        running.kill()
    running.stdout.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("after", [0.0, later(0.3), 1.0])
def test_idle_workers_end_with_their_parent(after: float) -> None:
    work = (
        "import time; from fedrec_auditor.auditor.machine import workers\n"
        "list(workers.run_parallel(time.sleep, [(600,)] * 2, jobs=2))\n"
    )
    running = subprocess.Popen([sys.executable, "-c", work], start_new_session=True)
    while len(list_session_pids(running.pid)) < 3:  # the audit, a worker and a resource tracker
        assert running.poll() is None
        time.sleep(0.005)
    time.sleep(after)
    running.kill()
    running.wait(timeout=60)
    wait = time.monotonic() + 60
    while (left := list_session_pids(running.pid)) and time.monotonic() < wait:
        time.sleep(0.1)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left


def test_workers_restart_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old workers would not find a module of the user that this process finds."""
    here = os.getcwd()
    assert set(workers.run_parallel(os.getcwd, [()] * 4, jobs=2)) == {here}
    monkeypatch.chdir(tmp_path)
    assert set(workers.run_parallel(os.getcwd, [()] * 4, jobs=2)) == {str(tmp_path)}
