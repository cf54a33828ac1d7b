"""The JSON Schema of report.json, for programs in other languages.

``python -m tests.reports.schema > docs/report.schema.json`` writes it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fedrec_auditor.reports.record.leaks import Severity
from fedrec_auditor.reports.record.rows import RECORD_SCHEMA_VERSION, Contents
from fedrec_auditor.reports.record.store import RECORD_SCHEMA_URN

_NUMBER = {
    "description": "A number; JSON has no infinity.",
    "anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}],
}


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of report.json in the current version."""
    result: dict[str, Any] = _written(Contents.model_json_schema())
    result["properties"] |= {
        "$schema": {"const": RECORD_SCHEMA_URN, "description": "The schema of this file."},
        "severity": {
            "description": "How bad each target is at least, by the rule of this number; worse is "
            "not excluded of those not_assessed, for the reason there.",
            "type": "object",
            "additionalProperties": False,
            "required": ["not_assessed", "rule", "targets"],
            "properties": {
                "not_assessed": {"type": "object", "additionalProperties": {"type": "string"}},
                "rule": {"type": "integer", "minimum": 1},
                "targets": {
                    "type": "object",
                    "additionalProperties": {"enum": [str(level) for level in Severity]},
                },
            },
        },
    }
    result["required"] = sorted({*result["required"], "schema_version"})
    return {
        **result,
        "$defs": {**result["$defs"], "Number": _NUMBER},
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": RECORD_SCHEMA_URN,
        "title": f"Record of a privacy audit (report.json), schema version {RECORD_SCHEMA_VERSION}",
    }


def schema_text() -> str:
    """The schema as docs/report.schema.json has it."""
    return json.dumps(schema(), indent=2, sort_keys=True, allow_nan=False) + "\n"


def _written(part: Any) -> Any:
    """A part of the schema with numbers in their JSON form, and descriptions without examples."""
    if isinstance(part, list):
        return [_written(each) for each in part]
    if isinstance(part, float) and math.isinf(part):
        return "inf" if part > 0 else "-inf"
    if not isinstance(part, dict):
        return part
    told = {name: _written(each) for name, each in part.items() if name != "title"}
    if isinstance(text := part.get("description"), str):
        told["description"] = _prose(text)
    if part.get("type") == "number":
        told = {"$ref": "#/$defs/Number", **told}
        del told["type"]
    return told


def _prose(text: str) -> str:
    """A docstring without its example, with one paragraph per line."""
    paragraphs = re.split(r"\n\s*\n", text.split(">>>", 1)[0].strip())
    return "\n".join(" ".join(each.split()) for each in paragraphs).replace("``", "`")


if __name__ == "__main__":
    print(schema_text(), end="")
