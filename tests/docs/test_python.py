"""docs/python.md: its lines run, and it names all that is public."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import fedrec_auditor
from fedrec_auditor.auditor import testing

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_lines_print_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # workers take longer to start than this audit
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "the page", "exec"), {})
    assert capsys.readouterr().out == shown


def test_every_public_name_has_a_row() -> None:
    named = [
        name
        for first in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", first)
    ]
    assert sorted(named) == sorted([*fedrec_auditor.__all__, *testing.__all__])
