"""The how-to's snippets are run, and what it prints is what they print.

``python tests/docs/test_verifying_mechanisms.py`` writes today's output into the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedrec_auditor.auditor.verification import verify_ldp
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip

PAGE = Path(__file__).parents[2] / "docs" / "verifying-mechanisms.md"
FILES = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = {"pytest": "pytest", "auditor": "fedrec_auditor"}


def _output(command: str, folder: Path) -> str:
    """What ``command`` prints in ``folder``, where the page's files are."""
    for name, content in FILES.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(content, encoding="utf-8")
    program, *words = command.split()
    if program == "pytest":
        words += ["-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", MODULES[program], *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80", "PYTEST_ADDOPTS": "", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 1, done.stderr  # both show a failure
    return done.stdout


def _ours(output: str) -> list[str]:
    """The lines that are not pytest's own, whose look changes from version to version."""
    lines = output.splitlines()
    return [line for line in lines if line.startswith("E  ")] or lines


@pytest.mark.parametrize(("command", "shown"), CONSOLE.findall(PAGE.read_text(encoding="utf-8")))
def test_the_page_shows_what_is_printed(command: str, shown: str, tmp_path: Path) -> None:
    assert _ours(_output(command, tmp_path)) == _ours(shown)


def test_the_sessions_of_the_page_are_true(tmp_path: Path) -> None:
    """One after the other: each goes on where the last one ended."""
    sessions = SESSION.findall(PAGE.read_text(encoding="utf-8"))
    assert sessions
    (tmp_path / "sessions.txt").write_text("\n".join(sessions), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "sessions.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_explains_every_check() -> None:
    found = verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=500)
    table = PAGE.read_text(encoding="utf-8").partition("| check |")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted(check.name for check in found.checks)


def _rewrite(folder: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for command, _ in CONSOLE.findall(page):
        output = re.sub(r" in \d+\.\d+s", "", _output(command, folder)).rstrip()
        block = re.compile(rf"(?<=^```console\n\$ {re.escape(command)}\n).*?^```$", re.M | re.S)
        page = block.sub(lambda _, text=output: f"{text}\n```", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        _rewrite(Path(made))
