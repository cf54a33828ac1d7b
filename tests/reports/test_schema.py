"""The JSON Schema of report.json: published, and every file that is written fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedrec_auditor.reports import store
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import SCHEMA_VERSION
from fedrec_auditor.reports.store import IDENTIFIER
from tests.reports.schema import schema, schema_text

PUBLISHED = Path(__file__).parents[2] / "docs" / "report.schema.json"
Validator = Callable[[Any], list[str]]


@pytest.fixture(scope="module")
def faults() -> Validator:
    """What of a value does not fit the schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="the extra `dev` has it")
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    return lambda value: [error.json_path for error in validator.iter_errors(value)]


def test_it_is_published() -> None:
    """``python -m tests.reports.schema > docs/report.schema.json`` writes it."""
    assert schema_text() == PUBLISHED.read_text(encoding="utf-8")


def test_it_is_versioned_and_is_json() -> None:
    told = json.loads(schema_text(), parse_constant=lambda name: pytest.fail(name))
    assert told["$id"] == IDENTIFIER == f"urn:fedrec-auditor:report:{SCHEMA_VERSION}"
    assert f"schema version {SCHEMA_VERSION}" in told["title"]
    assert ">>>" not in schema_text()
    assert told["$defs"]["Bound"]["properties"]["largest"]["default"] == "inf"


def edited(record: Record, edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(store.encode(record))
    edit(raw)
    return raw


@pytest.mark.parametrize(
    ("place", "edit"),
    [
        ("$", lambda raw: raw.update(extra=1)),
        ("$", lambda raw: raw.pop("plan")),
        ("$.schema_version", lambda raw: raw.update(schema_version=2)),
        ("$.findings[0].verdict", lambda raw: raw["findings"][0].update(verdict="SAFE")),
        ("$.findings[0].delta", lambda raw: raw["findings"][0].update(delta="infinite")),
        ("$.attacks[0].value", lambda raw: raw["attacks"][0].update(value=None)),
        ("$.severity.targets.fcf", lambda raw: raw["severity"]["targets"].update(fcf="Bad")),
    ],
)
def test_what_is_no_record_does_not(
    record: Record, faults: Validator, place: str, edit: Callable[[dict[str, Any]], None]
) -> None:
    assert faults(edited(record, edit)) == [place]
