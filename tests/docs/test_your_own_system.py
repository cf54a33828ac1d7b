"""What the page on systems of one's own shows runs, and says what it says; so do the examples."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.stated_claim import read_claims
from tests.specimens.clients import PLANTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-system.md").read_text(encoding="utf-8")


def printed(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_ten_lines_refute() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10
    assert printed("-c", block) == "VIOLATED\n"


def test_the_claim_of_the_page_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "claim.toml").write_text(block, encoding="utf-8")
    (claim,) = read_claims(tmp_path / "claim.toml")
    assert str(claim.scoped().scope) == "user / replace / server / round"


def test_the_example_in_torch_finds_its_bug() -> None:
    assert "VIOLATED" in printed("examples/own_torch.py")


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
