"""What the page on systems of one's own shows runs, and says what it says; so do the examples."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

from fedrec_auditor.auditor.stated_claim import read_claims
from tests.specimens.clients import PLANTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-system.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers take longer to start than these audits."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def test_the_ten_lines_refute(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10
    exec(compile(block, "the page", "exec"), {})
    assert capsys.readouterr().out == "VIOLATED\n"


def test_the_claim_of_the_page_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "claim.toml").write_text(block, encoding="utf-8")
    (claim,) = read_claims(tmp_path / "claim.toml")
    assert str(claim.scoped().scope) == "user / replace / server / round"


@pytest.mark.parametrize("name", ["own_client.py", "own_torch.py"])
def test_an_example_finds_its_bug(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    assert "VIOLATED" in capsys.readouterr().out


def test_the_bugs_of_the_page_are_those_that_are_planted() -> None:
    (listed,) = re.findall(r"which is not accused:\n(.*?)\.\n\n", PAGE, re.DOTALL)
    assert len(listed.split(";")) == len(PLANTED)
