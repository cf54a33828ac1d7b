"""docs/command-line.md shows every command, and every rule of the Makefile that it names is one."""

from __future__ import annotations

import re

from fedrec_auditor.auditor.commands.command_line import app
from tests.docs.blocks import ROOT, blocks

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_every_command_is_shown() -> None:
    lines = [line for block in blocks("docs/command-line.md") for line in block.text.splitlines()]
    shown = {line.split()[1] for line in lines if line.startswith("auditor ")}
    assert shown == {command.name for command in app.registered_commands}


def test_make_knows_what_the_page_says() -> None:
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"`make ([a-z-]+)`", PAGE)
    assert named
    assert set(named) <= rules
