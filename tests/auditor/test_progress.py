"""Progress: every task as it ends, and no time left that nothing was seen of."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from fedrec_auditor.auditor.plan import make_resources
from fedrec_auditor.auditor.plan_file import read_plan
from fedrec_auditor.auditor.progress import Pace, diary, note, progress
from fedrec_auditor.auditor.runner import run_plan


def test_a_quick_step_says_nothing_of_a_slow_one() -> None:
    """A bound of .1 s, seven steps to go: no time left, however many bounds have finished."""
    pace = Pace([*["bounds"] * 3, *["attack", "utility"] * 3], workers=1)
    for _ in range(3):
        pace.finish("bounds", 0.1)
        assert pace.left() is None
    pace.finish("attack", 100.0)
    assert pace.left() is None
    pace.finish("utility", 2.0)
    assert pace.left() == pytest.approx(204.0)
    pace.finish("attack", 200.0)
    assert pace.left() == pytest.approx(154.0)


def test_workers_share_what_is_left_but_not_a_step() -> None:
    pace = Pace(["one"] * 4, workers=3)
    pace.finish("one", 6.0)
    assert pace.left() == pytest.approx(6.0)
    pace.finish("one", 6.0)
    pace.finish("one", 6.0)
    assert pace.left() == pytest.approx(6.0)
    pace.finish("one", 6.0)
    assert pace.left() == 0


def test_what_another_process_notes_is_read_as_it_comes() -> None:
    """Before the process ends, and all of it in order."""
    lines: list[str] = []
    code = (
        "import sys, time; from pathlib import Path\n"
        "from fedrec_auditor.auditor.progress import note\n"
        "for number in range(50): note(Path(sys.argv[1]), f'line {number}')\n"
        "sys.stdin.read(); note(Path(sys.argv[1]), 'last')"
    )
    with diary(lines.append) as path:
        other = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE)
        until = time.monotonic() + 60
        while len(lines) < 50 and time.monotonic() < until:
            time.sleep(0.05)
        assert lines == [f"line {number}" for number in range(50)]
        other.communicate()
    assert lines[-1] == "last"
    assert not path.parent.exists()
    note(path, "too late")  # lost, and no error
    assert not path.exists()


@pytest.mark.parametrize(
    ("done", "left", "said"),
    [
        (1, None, "time left not known yet"),
        (1, 42.4, "about 42 s left"),
        (1, 200.0, "about 3 min 20 s left"),
        (1, 7500.0, "about 2 h 5 min left"),
        (4, 0.0, "done"),
    ],
)
def test_a_line_says_what_is_known(done: int, left: float | None, said: str) -> None:
    file = io.StringIO()
    with progress(Console(file=file)) as observe:
        observe(done, 4, "fcf bounds", left)
    assert file.getvalue() == f"[{done}/4] fcf bounds; 0 s so far, {said}\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_told_once_by_name(tmp_path: Path, jobs: int) -> None:
    """Of tasks that share a job too, and while it runs: each line adds one."""
    (tmp_path / "plan.toml").write_text(
        'targets = ["fcf"]\ndata = "synthetic"\nquick = true\n'
        'attacks = ["attribute-tree", "interaction-reconstruction"]\n'
        "[settings.fcf]\nrounds = 2\n"
    )
    seen: list[tuple[int, int, str, float | None]] = []
    run_plan(
        read_plan(tmp_path / "plan.toml"),
        make_resources(jobs),
        observe=lambda *said: seen.append(said),
    )
    assert [done for done, *_ in seen] == [1, 2, 3, 4]
    steps = ("attribute-tree", "bounds", "interaction-reconstruction", "utility")
    assert sorted(what for _, _, what, _ in seen) == [f"fcf {step}" for step in steps]
    assert [left for *_, left in seen] == [None, None, None, 0.0]
    assert all(re.fullmatch(r"fcf [a-z-]+", what) for _, _, what, _ in seen)
