"""Calibration of the exit code of processes that read a table, under load by threads of pyarrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Number of runs, of which 1% aborted while threads used Python's memory.
RUNS, AT_ONCE = 400, 12
PROGRAM = f"""
import os, sys
from pathlib import Path
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.table import Table

ends, running = [], 0
for run in range({RUNS}):
    if running == {AT_ONCE}:
        ends.append(os.waitstatus_to_exitcode(os.wait()[1]))
        running -= 1
    if os.fork() == 0:
        try:
            Table().load(Path(sys.argv[1 + run % 2]))
        except InputError:
            sys.exit(2)
        sys.exit(0)
    running += 1
ends += [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(running)]
print(sorted(set(ends)), ends.count(0), ends.count(2))
"""


@pytest.mark.calibration
@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="there is no fork")
def test_processes_end_with_0_or_2_under_load(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    rows = "".join(f"u{at % 30},i{at % 41},{at % 5 + 1}\n" for at in range(360))
    good.write_text(f"user,item,rating\n{rows}")
    bad.write_text(f"user,item,rating\n{rows}u1,i1,x\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, good, bad], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"[0, 2] {RUNS // 2} {RUNS // 2}\n"
