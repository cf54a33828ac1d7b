"""A diary: what any process notes is read as it comes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from fedrec_auditor.auditor.diary import StageNotes, diary, note


def test_what_another_process_notes_is_read_as_it_comes() -> None:
    """Before the process ends, and all of it in order."""
    lines: list[str] = []
    pulses: list[float] = []
    code = (
        "import sys, time; from pathlib import Path\n"
        "from fedrec_auditor.auditor.diary import note\n"
        "for number in range(50): note(Path(sys.argv[1]), f'line {number}')\n"
        "sys.stdin.read(); note(Path(sys.argv[1]), 'last')"
    )
    with diary(lines.append, lambda: pulses.append(time.monotonic())) as path:
        other = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE)
        until = time.monotonic() + 60
        while len(lines) < 50 and time.monotonic() < until:
            time.sleep(0.05)
        assert lines == [f"line {number}" for number in range(50)]
        other.communicate()
    assert lines[-1] == "last"
    assert pulses
    assert not path.parent.exists()
    note(path, "too late")  # lost, and no error
    assert not path.exists()


def test_a_loop_is_noted_at_its_ends_and_now_and_then(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.touch()
    notes = StageNotes(path, "fcf utility")
    for done in range(1001):
        notes("rounds", done, 1000)
    notes("draw", 5, 10)
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == "at\tfcf utility\trounds\t0\t1000"
    assert lines[-2:] == ["at\tfcf utility\trounds\t1000\t1000", "at\tfcf utility\tdraw\t5\t10"]
    assert len(lines) < 20
