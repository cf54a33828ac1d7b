"""docs/your-own-system.md is as short as it says and complete, and the examples run."""

from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from tests.specimens.clients import PLANTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-system.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers take longer to start than these audits."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def test_the_ten_lines_are_ten() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10


def test_the_example_in_torch_finds_its_bug(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_torch.py"), run_name="__main__")
    assert "VIOLATED" in capsys.readouterr().out


def test_the_bugs_of_the_page_are_those_that_are_planted() -> None:
    (listed,) = re.findall(r"which is not accused:\n(.*?)\.\n\n", PAGE, re.DOTALL)
    assert len(listed.split(";")) == len(PLANTED)


def test_the_notebook_runs_and_is_stored_without_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "your_own_system.ipynb").read_text("utf-8"))
    assert "examples/your_own_system.ipynb" in PAGE
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec("".join(cell["source"]), names)
    assert [finding.verdict for finding in names["record"].violated] == [Verdict.VIOLATED]
    assert names["again"] == names["record"]
    assert names["found"].verdict is Verdict.UNSUBSTANTIATED
