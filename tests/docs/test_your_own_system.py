"""docs/your-own-system.md is as short as it says and complete, and the examples run."""

from __future__ import annotations

import os
import re
import runpy

import pytest

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from tests.docs.blocks import ROOT
from tests.specimens.clients import PLANTED

PAGE = (ROOT / "docs" / "your-own-system.md").read_text(encoding="utf-8")


def test_the_ten_lines_are_ten() -> None:
    block, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10


@pytest.mark.calibration
def test_the_example_in_torch_finds_its_bug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Synthetic(n_users=40, n_items=20, profile=6).load()
    monkeypatch.setattr(Synthetic, "load", lambda *_: few)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # workers take longer to start than it takes
    runpy.run_path(str(ROOT / "examples" / "own_torch.py"), run_name="__main__")
    assert "VIOLATED" in capsys.readouterr().out


def test_the_bugs_of_the_page_are_those_that_are_planted() -> None:
    (count,) = re.findall(r"^(\d+) mistakes, planted", PAGE, re.MULTILINE)
    assert int(count) == len(PLANTED)
