"""Records of older versions are read, and judged by today's rules.

record-1.json and record-2.json are parts of audits that auditors of those versions wrote;
record-3.json is the second as the third version has it, with a curve.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import SCHEMA_VERSION

FOLDER = Path(__file__).parent
OLDER = range(1, SCHEMA_VERSION)


@pytest.mark.parametrize("version", OLDER)
def test_every_older_version_is_read_and_written_as_the_present_one(
    version: int, tmp_path: Path
) -> None:
    path = FOLDER / f"record-{version}.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert raw["schema_version"] == version
    record = Record.read(path)
    assert record.schema_version == SCHEMA_VERSION
    assert record.notes[-1].startswith(f"Read from a record of schema version {version}")
    for rows in ("findings", "measurements", "attacks", "utility", "demonstrations"):
        assert len(getattr(record, rows)) == len(raw[rows]) > 0
    for finding, was in zip(record.findings, raw["findings"], strict=True):
        assert finding.outside_model == was["beyond" if version < 3 else "outside_model"]
        assert finding.claim.statement == was["claim"]["statement"]
        for bound, told, side in (
            (finding.accounted, was["accounted"], Side.UPPER),
            (finding.measured, was["measured"], Side.LOWER),
        ):
            assert (bound is None) is (told is None)
            if bound is not None:
                assert (bound.epsilon, bound.side) == (float(told["epsilon"]), side)
                assert bound.source == told.get("method", told.get("source"))
    assert Record.read(record.save(tmp_path)) == record


def test_quantiles_over_users_no_longer_stand_with_a_curve() -> None:
    raw = json.loads((FOLDER / "record-3.json").read_text(encoding="utf-8"))
    was, now = raw["attacks"][-1], Record.read(FOLDER / "record-3.json").attacks[-1]
    assert now.roc is not None
    assert {name: one.value for name, one in now.users.quantiles.items()} == was["roc"]["users"]


def test_verdicts_are_made_again_with_their_reasons() -> None:
    """The first version had no word for a claim of nothing."""
    raw = json.loads((FOLDER / "record-1.json").read_text(encoding="utf-8"))
    record = Record.read(FOLDER / "record-1.json")
    pairs = list(zip(record.findings, raw["findings"], strict=True))
    changed = [(now, was) for now, was in pairs if now.verdict != was["verdict"]]
    assert [(was["verdict"], now.verdict) for now, was in changed] == [
        ("CONSISTENT", Verdict.NO_CLAIM)
    ]
    assert changed[0][0].reason == "No epsilon is claimed, so there is nothing to refute."
    assert math.isinf(changed[0][0].claim.epsilon)
    assert all(now.reason == was["reason"] for now, was in pairs if now.verdict == was["verdict"])


@pytest.mark.parametrize("version", OLDER)
def test_a_whitewashed_older_record_is_judged_all_the_same(version: int, tmp_path: Path) -> None:
    raw = json.loads((FOLDER / f"record-{version}.json").read_text(encoding="utf-8"))
    refuted = [row["verdict"] == "VIOLATED" for row in raw["findings"]]
    for row in raw["findings"]:
        row["verdict"] = "CONSISTENT"
    (tmp_path / "report.json").write_text(json.dumps(raw))
    found = Record.read(tmp_path).findings
    assert [finding.verdict is Verdict.VIOLATED for finding in found] == refuted
    assert any(refuted)


@pytest.mark.parametrize("version", OLDER)
def test_a_damaged_older_record_is_refused_in_a_line(version: int, tmp_path: Path) -> None:
    whole = json.loads((FOLDER / f"record-{version}.json").read_text(encoding="utf-8"))
    for key in ("findings", "measurements", "provenance"):
        damaged = {name: value for name, value in whole.items() if name != key}
        (tmp_path / "report.json").write_text(json.dumps(damaged))
        with pytest.raises(InputError, match=key) as caught:
            Record.read(tmp_path)
        assert "\n" not in str(caught.value)
