"""Tests of auditor new: templates pass an audit and tests, and no file is overwritten."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record.record import Record
from tests.command import cli, refusal

PLAN = 'attacks = ["linkage"]\ngames = ["local"]\nruns = 200\n'
FAST = ("--data", "synthetic", "--quick", "--jobs", "1", "--plan", "plan.toml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_users: None) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # two workers take longer to start than to work
    importlib.invalidate_caches()
    (tmp_path / "plan.toml").write_text(PLAN)
    yield tmp_path
    for name in ("my_own", "test_my_own"):
        sys.modules.pop(name, None)


def test_a_new_system_is_consistent_and_passes_its_test(folder: Path) -> None:
    code, out, _ = cli("new", "system", "my-own")
    assert code == 0
    assert "auditor run my_own:system" in out
    data = ("--claim", "claim.toml", "--data", "ratings.csv", "--users", "users.csv")
    fast = ("--quick", "--jobs", "1", "--plan", "plan.toml")
    code, _, err = cli("run", "my_own:system", *data, *fast, "--out", folder / "audit")
    assert code == 0, err
    record = Record.read(folder / "audit")
    assert {finding.verdict for finding in record.findings} == {Verdict.CONSISTENT}
    assert {finding.target for finding in record.findings} == {"my-own"}
    test = importlib.import_module("test_my_own")
    test.test_the_claim_of_my_own_is_not_refuted()


def test_claims_of_a_file_replace_those_of_the_system(folder: Path) -> None:
    assert cli("new", "system", "my-own")[0] == 0
    (folder / "plan.toml").write_text("attacks = []\ngames = []\n")
    (folder / "claim.toml").write_text("epsilon = 0.001\nhorizon = 'round'\n")
    words = ("run", "my_own:system", *FAST, "--claim", "claim.toml", "--out", folder / "audit")
    code, _, _ = cli(*words)
    record = Record.read(folder / "audit")
    assert {finding.claim.epsilon for finding in record.findings} == {0.001}
    assert code in (0, 1, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "nowhere:system"), "Expected a module 'nowhere'"),
        (("run", "my_own:none"), "Expected 'none' in my_own, got"),
        (("run", "my_own:np"), "module without"),
        (("run", "my_own:server"), "to make a system without arguments"),
        (("run", "my_own:system", "--claim", "none.toml"), "a readable file of claims"),
        (("run", "fcf", "--claim", "claim.toml"), "your own system (MODULE:OBJECT) with --claim"),
        (("new", "system", "my-own"), "got the existing my_own.py"),
        (("new", "system", "../x"), "Expected NAME as a letter, then"),
        (("new", "system", "x", "--folder", "none"), "Expected an existing --folder"),
    ],
)
def test_bad_arguments_are_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    assert cli("new", "system", "my-own")[0] == 0
    (folder / "claim.toml").write_text("epsilon = 1\n")
    assert message in refusal(*words)
    assert not (folder / "audit").exists()
