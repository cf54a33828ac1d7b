"""``auditor schema``: the JSON Schema of report.json."""

from __future__ import annotations


def command() -> None:
    """Print the JSON Schema of report.json: what its fields are, for other programs."""
    from fedrec_auditor.reports.schema import schema_text

    print(schema_text(), end="")
