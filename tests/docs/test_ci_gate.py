"""docs/ci-gate.md: its levels, files, figures and hooks are the code's."""

from __future__ import annotations

import re
import shlex

from scipy import stats
from typer.testing import CliRunner

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, FailOn
from fedrec_auditor.auditor.commands.command_line import app
from fedrec_auditor.reports import store
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "ci-gate.md").read_text(encoding="utf-8")
WIDE = {"COLUMNS": "200", "TERM": "dumb"}
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")


def test_every_level_and_every_file_is_explained() -> None:
    assert set(re.findall(r"^\| `([a-z][a-z-]+)`", PAGE, re.MULTILINE)) == set(FailOn)
    listed = re.findall(r"^\| ([a-z]+\.[a-z]+) \|", PAGE, re.MULTILINE)
    assert set(listed) <= set(store.FILES)
    assert len(listed) == 4


def test_the_figures_of_the_page() -> None:
    assert f"`--leak-margin` ({LEAK_MARGIN})" in PAGE
    normal = stats.norm.isf(0.025 / 54) / stats.norm.isf(0.025)
    assert f"{normal:.2f} times as far for 54 rows at 95%" in PAGE


def test_hooks_are_the_commands_that_they_name() -> None:
    entries = re.findall(r"^  entry: (.*)$", HOOKS, re.MULTILINE)
    assert len(entries) == 2
    for line in entries:
        _, command, *words = shlex.split(line)
        told = CliRunner().invoke(app, [command, "--help"], env=WIDE).stdout
        assert all(word in told for word in words)
    assert set(re.findall(r"- id: (\S+)", PAGE)) == set(re.findall(r"- id: (\S+)", HOOKS))
