"""The notebooks of examples/ run, print their stored output, and are linked.

If one fails, ``python -m tests.docs.notebooks`` stores today's output.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from tests.docs.alike import alike
from tests.docs.blocks import ROOT
from tests.docs.notebooks import NOTEBOOKS, outputs

# Check of each notebook's final names, besides its printed output.
FINAL_CHECKS = {
    "mechanism_test": lambda names: names["found"].verdict is Verdict.CONSISTENT,
    "paper_audit": lambda names: not names["mended"].violated and len(names["record"].violated),
    "your_own_system": lambda names: names["again"] == names["record"] and names["record"].violated,
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_its_stored_output(path: Path, tmp_path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found, names = outputs(notebook, tmp_path)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, outputs_of_cell in zip(code, found, strict=True):
        assert alike(json.dumps(cell["outputs"]), json.dumps(outputs_of_cell)), outputs_of_cell
    assert FINAL_CHECKS[path.stem](names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_linked(path: Path) -> None:
    assert path.stat().st_size < 16_384
    assert f"examples/{path.name}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f" examples/{path.stem}.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
