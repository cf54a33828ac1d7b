"""report.sarif: what SARIF 2.1.0 asks of a log, and the level of each result.

sarif-2.1.0-schema.json is the schema 2.1.0-rtm.5 of the npm package @microsoft/jest-sarif
1.0.0-beta.0 (MIT licence, Microsoft), without its descriptions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.reports import sarif
from fedrec_auditor.reports.glance import glances
from fedrec_auditor.reports.leaks import leaks
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.severity import Severity

ALLOWED = {
    "log": {"$schema", "version", "runs"},
    "run": {"tool", "invocations", "results"},
    "driver": {"name", "version", "rules"},
    "rule": {"id", "shortDescription", "defaultConfiguration"},
    "result": {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"},
    "invocation": {"executionSuccessful", "toolExecutionNotifications"},
}
"""The properties that are written, all of which the schema has; it refuses others."""


def check(log: dict[str, Any]) -> None:
    """What the schema asks of the objects that are written: names, types and required members."""
    assert set(log) == ALLOWED["log"]
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == ALLOWED["run"]
    driver = run["tool"]["driver"]
    assert set(driver) == ALLOWED["driver"]
    assert driver["name"]
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(set(identifiers)) == len(identifiers)
    for rule in driver["rules"]:
        assert set(rule) == ALLOWED["rule"]
        assert set(rule["shortDescription"]) == {"text"}
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    for result in run["results"]:
        assert set(result) == ALLOWED["result"]
        assert identifiers[result["ruleIndex"]] == result["ruleId"]
        assert (
            result["level"] == driver["rules"][result["ruleIndex"]]["defaultConfiguration"]["level"]
        )
        assert isinstance(result["message"]["text"], str)
        (place,) = result["locations"]
        assert set(place) == {"logicalLocations", "physicalLocation"}
        assert set(place["physicalLocation"]) == {"artifactLocation", "region"}
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert all(isinstance(text, str) for text in result["partialFingerprints"].values())
    for invocation in run["invocations"]:
        assert set(invocation) <= ALLOWED["invocation"]
        assert isinstance(invocation["executionSuccessful"], bool)
        for told in invocation.get("toolExecutionNotifications", ()):
            assert set(told) == {"level", "message"}


def read(record: Record, gate: Gate | None = None) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render(record, gate or Gate()))
    check(log)
    return log


def exposed(record: Record) -> list[str]:
    """The systems of which a large epsilon is shown, and no attack beat guessing."""
    worst = (Severity.CRITICAL, Severity.HIGH)
    seen = [each for each in glances(record) if each.leak_severity in worst]
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
    (result,) = (r for r in read(only)["runs"][0]["results"] if r["ruleId"] != "LEAK")
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


def test_the_schema_agrees(record: Record) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(Path(__file__).with_name("sarif-2.1.0-schema.json").read_text())
    validator = jsonschema.Draft4Validator(schema)
    failed = record.model_copy(update={"errors": ("no memory",)})
    for log in (read(record), read(failed)):
        assert [error.message for error in validator.iter_errors(log)] == []
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(log)
