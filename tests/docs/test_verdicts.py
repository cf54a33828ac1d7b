"""Every page and help that defines a verdict takes its words from ``accountants/verdict.py``."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.auditor.commands.command_line import app
from tests.docs.blocks import ROOT


def defined(page: str) -> dict[str, str]:
    """What a page's table of verdicts says of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([A-Z]+(?: [A-Z]+)?) \| (.*) \|$", text, re.MULTILINE))


def test_the_page_on_the_command_line_defines_every_verdict() -> None:
    assert defined("docs/command-line.md") == {word.value: word.meaning for word in Verdict}


def test_it_names_every_word_for_a_number() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert all(word.value in text for word in Arithmetic)


@pytest.mark.parametrize("command", ["run", "claims", "account", "verify", "attack"])
def test_the_help_defines_every_verdict(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    said = " ".join(re.sub(r"[│|]", " ", done.stdout).split())
    for word in (*Verdict, *(Arithmetic if command == "claims" else ())):
        assert f"{word.value}: {word.meaning}" in said
