"""Every code block of every page runs, parses or equals today's output.

``python -m tests.docs.test_blocks PAGE ...`` writes today's output of commands into pages.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from fedrec_auditor.auditor.games import local
from fedrec_auditor.auditor.sweep import grid
from tests.docs.alike import alike
from tests.docs.blocks import PAGES, ROOT, blocks
from tests.docs.session import Session, unmet


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_blocks_of_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "UPLOAD_RUNS", 2_000)  # a tenth of the default
    monkeypatch.setattr(grid, "NOISE_FACTORS", grid.NOISE_FACTORS[::4])  # both ends
    skipped = []
    with Session(tmp_path) as session:
        for block in blocks(page):
            if block.mark == "not run":
                continue
            if module := unmet(block):
                skipped.append(f"{block} needs {module}")
                continue
            for shown, output in session.outputs(block):
                assert alike(shown, output), f"{block} prints {output}"
    if skipped:
        pytest.skip(f"all but {', '.join(skipped)}")


def test_blocks_that_are_not_run_give_a_reason() -> None:
    every = [block for page in PAGES for block in blocks(page)]
    assert all(block.reason for block in every if block.mark in ("not run", "needs"))
    assert (len(every) > 50, [block.mark for block in every].count("not run")) == (True, 6)


def _rewrite(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder)) as session:
        for block in blocks(page):
            if block.mark != "not run" and not unmet(block):
                for shown, output in session.outputs(block):
                    text = text.replace(shown, f"{output.rstrip()}\n")
    (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        _rewrite(each)
