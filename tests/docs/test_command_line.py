"""docs/command-line.md: commands have the options that it gives them, and its plans are read."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrec_auditor.auditor.command_line import app
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.plan import make_target
from fedrec_auditor.auditor.plan_file import read_plan

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^    auditor (.*?)(?: +# .*)?$", re.MULTILINE)
PLAN = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def told(command: str) -> str:
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    done = CliRunner().invoke(app, [command, "--help"], env=wide)
    assert done.exit_code == 0, command
    return done.stdout


@pytest.mark.parametrize("line", [*COMMAND.findall(PAGE), *COMMAND.findall(README)])
def test_commands_have_the_options_that_they_name(line: str) -> None:
    command, *words = shlex.split(line)
    options = [word for word in words if word.startswith("--")]
    assert set(options) <= set(re.findall(r"--[a-z-]+", told(command)))
    if command in ("run", "account") and words and not words[0].startswith("--"):
        assert words[0] in (*FAMILIES["targets"].names(), "all") or ":" in words[0]


def test_every_command_is_shown() -> None:
    shown = {shlex.split(line)[0] for line in COMMAND.findall(PAGE)}
    assert shown == {command.name for command in app.registered_commands}


@pytest.mark.parametrize("text", PLAN.findall(PAGE))
def test_the_plans_make_targets(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    plan = read_plan(path)
    for name in plan.targets:
        assert make_target(name, plan).name == name


def test_make_knows_what_the_page_says() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"`make ([a-z]+)`", PAGE)
    assert named
    assert set(named) <= rules
