"""Tests of work under a time limit: it ends in time, and its children end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import AuditError, IncompleteError, InputError
from fedrec_auditor.auditor.machine.workers import run_with_timeout

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")


def test_a_long_result_is_returned_whole() -> None:
    text = "∞\n" * 500_000
    assert run_with_timeout(60, lambda: (1, text)) == (1, text)


def _spin() -> tuple[int, str]:
    while True:
        pass


def _spin_deaf() -> tuple[int, str]:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    return _spin()


def _spin_in_c() -> tuple[int, str]:
    return 0, str((10**9) ** (10**8))


@pytest.mark.parametrize("hang", [_spin, _spin_deaf, _spin_in_c])
def test_hanging_work_is_stopped(hang: Callable[[], tuple[int, str]]) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=r"within 0\.2 s"):
        run_with_timeout(0.2, hang)
    assert time.monotonic() - start < 60


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_child_processes_of_the_work_end_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def start() -> tuple[int, str]:
        note.write_text(str(subprocess.Popen(["sleep", "60"]).pid))
        return _spin()

    with pytest.raises(InputError):
        run_with_timeout(2, start)
    deadline = time.monotonic() + 5
    while _is_alive(int(note.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(int(note.read_text()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc here")
def test_an_interrupt_during_the_start_ends_the_work() -> None:
    code = (
        "import os, signal, sys, time\n"
        "from fedrec_auditor.auditor.machine.workers import run_with_timeout\n"
        "interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.register_at_fork(after_in_parent=interrupt)\n"
        "try:\n"
        "    run_with_timeout(600, lambda: time.sleep(600))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(len(open(f'/proc/self/task/{os.getpid()}/children').read().split()))\n"
        "sys.exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("kind", [InputError, AuditError])
def test_refusals_are_raised_again(kind: type[AuditError]) -> None:
    def refuse() -> tuple[int, str]:
        raise kind("Expected this, got that.")

    with pytest.raises(AuditError, match="got that") as caught:
        run_with_timeout(60, refuse)
    assert type(caught.value) is kind


def test_a_fault_of_the_auditor_is_not_an_input_error() -> None:
    with pytest.raises(IncompleteError, match="fault of ours"):
        run_with_timeout(60, lambda: (1 // 0, ""))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os._exit(0), "exit code 0"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
    ],
)
def test_a_process_without_a_result_is_reported(end: Callable[[], None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_with_timeout(60, lambda: (end(), (0, ""))[1])  # type: ignore[func-returns-value]


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), 1e7])
def test_a_bad_timeout_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="timeout="):
        run_with_timeout(seconds, lambda: (0, ""))


def test_work_prints_to_standard_error_and_has_no_input() -> None:
    code = (
        "import os, sys\n"
        "from fedrec_auditor.auditor.machine.workers import run_with_timeout\n"
        "def work():\n"
        "    print('printed'); os.system('echo echoed')\n"
        "    return 0, repr(sys.stdin.readline())\n"
        "print('before')\n"
        "print(run_with_timeout(60, work)[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="x\n", capture_output=True, text=True, check=True
    )
    assert done.stdout == "before\n''\n"
    assert sorted(done.stderr.split()) == ["echoed", "printed"]


def test_without_forks_a_watchdog_ends_the_process() -> None:
    code = (
        "import os; del os.fork\n"
        "from fedrec_auditor.auditor.machine.workers import run_with_timeout\n"
        "print(run_with_timeout(60, lambda: (1, 'in time'))[1], flush=True)\n"
        "def spin():\n"
        "    while True: pass\n"
        "run_with_timeout(0.2, spin)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "in time\n", 1)
    assert done.stderr.startswith("auditor: Expected a result within 0.2 s")


def _run(code: str) -> subprocess.Popen[str]:
    """Starts a process that runs ``code``."""
    lines, pipe = f"import ctypes, os, signal, sys, time\n{code}", subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", lines], stdout=pipe, stderr=pipe, text=True)


SLEEPING_WORK = (
    "from fedrec_auditor.auditor.machine.workers import run_in_child, run_with_timeout\n"
    "out = os.dup(1)\n"
    "def work():\n    os.write(out, f'{os.getpid()}\\n'.encode())\n    time.sleep(600)\n"
)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("call", ["run_with_timeout(600, work)", "run_in_child(work)"])
def test_the_child_of_a_killed_process_ends_within_seconds(call: str) -> None:
    running = _run(SLEEPING_WORK + call)
    assert running.stdout is not None
    child = int(running.stdout.readline())
    assert child != running.pid
    running.kill()
    deadline = time.monotonic() + 120  # the child sleeps five times as long
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(child)
    running.communicate()


def test_a_forged_result_is_not_accepted() -> None:
    code = (
        "import contextlib\n"
        "from fedrec_auditor.auditor.machine.workers import run_with_timeout\n"
        "def forge():\n"
        "    for number in range(3, 60):\n"
        "        with contextlib.suppress(OSError):\n"
        '            os.write(number, b\'\\0\\0\\0\\x0b["", 0, ""]\')\n'
        "    os._exit(0)\n"
        "run_with_timeout(60, forge)\n"
    )
    assert "wrote into its pipe" in _run(code).communicate(timeout=60)[1]


@pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="signals are not waited for here")
@pytest.mark.parametrize(
    ("work", "code", "message"),
    [
        ("lambda: 3", 3, ""),
        ("lambda: ctypes.CDLL(None)._exit(0)", 1, "ended with exit code 0"),
        ("lambda: os.kill(os.getppid(), signal.SIGTERM) or time.sleep(60)", 1, "by SIGTERM"),
    ],
)
def test_an_exit_that_bypasses_handlers_is_an_error(work: str, code: int, message: str) -> None:
    import_ = "from fedrec_auditor.auditor.machine.workers import run_in_child\n"
    running = _run(f"{import_}sys.exit(run_in_child({work}))")
    assert message in running.communicate(timeout=60)[1]
    assert running.returncode == code


def test_standard_output_is_opened_again_after_foreign_code() -> None:
    code = "from fedrec_auditor.targets.wrapped.client import block_exits\nwith block_exits():\n"
    running = _run(f"{code}    sys.stdout.close(); os.close(1)\nprint('there')")
    assert running.communicate(timeout=60) == ("there\n", "")
