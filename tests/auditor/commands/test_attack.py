"""Tests of auditor attack: with an earlier attack as baseline, only worse findings fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec_auditor.auditor.own import recorded_uploads
from fedrec_auditor.reports.record.record import Record
from tests.command import cli
from tests.reports.conftest import sample


def test_only_findings_worse_than_the_baseline_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = sample()
    low = record.attacks[1].model_copy(update={"value": 0.6, "ci_low": 0.59, "ci_high": 0.61})
    attacks = (record.attacks[0], low, *record.attacks[2:])
    before = record.model_copy(update={"attacks": attacks})
    before.save(tmp_path / "before")
    (tmp_path / "manifest.json").write_text('{"algorithm": "mine", "n_items": 3}')
    words = ("attack", tmp_path, "--baseline", tmp_path / "before" / "report.json")
    for found, expected, message in (
        (before, 0, "Comparison with the baseline: Nothing is worse."),
        (record, 1, "worse: fcf: membership (server) reaches AUC = 1 "),
    ):
        monkeypatch.setattr(recorded_uploads, "attack_recording", replace_command(found))
        code, out, _ = cli(*words, "--out", tmp_path / "out")
        assert (code, message in out) == (expected, True), out
    assert cli("attack", tmp_path, "--baseline", tmp_path / "none")[0] == 2


def replace_command(record: Record) -> Callable[..., Record]:
    return lambda *given, **settings: record
