"""Tests of `auditor compare`: exit code 1 for worse audits, and a note on different plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from tests.command import cli, refusal
from tests.reports.conftest import sample


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Records of two runs: one without refuted findings, one with them and another seed."""
    whole = sample()
    rest = tuple(f for f in whole.findings if f.verdict is not Verdict.VIOLATED)
    before = whole.model_copy(update={"findings": rest})
    plan = {**whole.plan, "seed": 1}
    root = tmp_path_factory.mktemp("runs")
    whole = whole.model_copy(update={"plan": plan})
    return before.save(root / "before"), whole.save(root / "now")


def test_a_new_violation_exits_with_1_and_its_loss_with_0(runs: tuple[Path, Path]) -> None:
    before, now = runs
    code, text, _ = cli("compare", before, now / "report.json")
    assert code == 1
    assert text.startswith("The audits differ")
    assert text.index("Differences of the plan: seed = 1, was ") < text.index("Worse (1)")
    assert "dplcf-ap: the verdict is false: epsilon 1" in text
    assert text.rstrip().endswith("1 worse, 0 better.")
    assert max(map(len, text.split("\n"))) <= 100
    code, text, _ = cli("compare", now, before)
    assert (code, "Nothing is worse." in text) == (0, True)
    assert "This audit lacks 1 finding of the baseline" in text
    code, text, _ = cli("compare", now, now)
    assert (code, text.startswith("Both audits have the same plan, data")) == (0, True)


def test_json_has_the_same_changes(runs: tuple[Path, Path]) -> None:
    code, text, _ = cli("compare", *runs, "--json")
    assert code == 1
    printed = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    names = {"changes", "differences", "incomparable", "n_findings", "n_rows", "has_claims"}
    assert set(printed) == {*names, "is_complete", "unassessed", "newly_unassessed"}
    (worst,) = (each for each in printed["changes"] if each["trend"] == "worse")
    assert (worst["subject"], worst["target"], worst["now"]) == ("verdict", "dplcf-ap", "VIOLATED")


def test_a_folder_without_a_record_is_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert "report.json" in refusal("compare", runs[0], tmp_path)
