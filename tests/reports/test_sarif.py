"""report.sarif: what SARIF 2.1.0 asks of a log, and the level of each result.

sarif-2.1.0-schema.json is the schema 2.1.0-rtm.5 of the npm package @microsoft/jest-sarif
1.0.0-beta.0 (MIT licence, Microsoft), without its descriptions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.reports import sarif
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.leaks import leaks
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.severity import Severity

FITS = jsonschema.Draft4Validator(
    json.loads(Path(__file__).with_name("sarif-2.1.0-schema.json").read_text())
)


def check(log: dict[str, Any]) -> None:
    """What the schema asks of a log, and that results name their rule and stand at one place."""
    assert [error.message for error in FITS.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        level = rule["defaultConfiguration"]["level"]
        assert (result["ruleId"], result["level"]) == (rule["id"], level)
        assert result["partialFingerprints"]
        (place,) = result["locations"]
        assert set(place) == {"logicalLocations", "physicalLocation"}


def read(record: Record, gate: Gate | None = None) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render(record, gate or Gate()))
    check(log)
    return log


def exposed(record: Record) -> list[str]:
    """The systems of which a large epsilon is shown, and no attack beat guessing."""
    worst = (Severity.CRITICAL, Severity.HIGH)
    seen = [each for each in glances(record) if each.leak.severity in worst]
    return [each.section.target for each in seen if not each.leaking]


def test_every_refuted_claim_and_every_leak_is_a_result(record: Record) -> None:
    results = read(record)["runs"][0]["results"]
    found = [(r["ruleId"], r["level"]) for r in results]
    refuted = sum(f.verdict is Verdict.VIOLATED for f in record.findings)
    assert found.count(("VIOLATED", "error")) == refuted > 0
    assert found.count(("LEAK", "warning")) == len(leaks(record)) + len(exposed(record)) > 0
    assert exposed(record)
    assert {rule for rule, _ in found} <= {"VIOLATED", "LEAK", "UNSUBSTANTIATED"}
    places = {r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for r in results}
    assert "dplcf-ap" in places


@pytest.mark.parametrize(("verdict", "level"), [*sarif.LEVELS.items()])
def test_each_verdict_has_its_level(record: Record, verdict: Verdict, level: str) -> None:
    finding = record.findings[0].model_copy(update={"verdict": verdict})
    only = record.model_copy(update={"findings": (finding,), "attacks": ()})
    apart = ("LEAK", "NOT ASSESSED")
    (result,) = (r for r in read(only)["runs"][0]["results"] if r["ruleId"] not in apart)
    assert (result["ruleId"], result["level"]) == (verdict, level)


def test_what_was_not_completed_is_no_success(record: Record) -> None:
    failed = record.model_copy(update={"errors": ("no {memory} [left](here)",)})
    (invocation,) = read(failed)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (told,) = invocation["toolExecutionNotifications"]
    assert told["message"]["text"] == "no {{memory}} [left] (here)"
    assert read(record)["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_a_result_keeps_its_fingerprint_when_the_figure_moves(record: Record) -> None:
    def marks(one: Record) -> set[str]:
        results = read(one)["runs"][0]["results"]
        return {r["partialFingerprints"]["audit/v1"] for r in results if r["ruleId"] == "LEAK"}

    moved = tuple(row.model_copy(update={"value": row.value - 1e-3}) for row in record.attacks)
    assert marks(record) == marks(record.model_copy(update={"attacks": moved}))
    assert len(marks(record)) == len(leaks(record)) + len(exposed(record))


def test_what_is_no_log_is_told(record: Record) -> None:
    log = read(record)
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not FITS.is_valid(log)
