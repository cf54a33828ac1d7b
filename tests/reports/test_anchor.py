"""Places in the page: permanent, plain, and all different whatever systems are called."""

from __future__ import annotations

from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import anchors


def test_a_finding_is_named_by_its_scope(record: Record) -> None:
    found = anchors(record)
    assert found["dplcf-ap"].findings == ("dplcf-ap-interaction-server-report",)
    assert found["fcf"].page == "fcf"


def test_a_system_called_like_a_finding_takes_another_place(record: Record) -> None:
    first, *rest = record.findings
    bold = first.model_copy(update={"target": "dplcf-ap-interaction-server-report"})
    found = anchors(record.model_copy(update={"findings": (bold, *rest)}))
    assert found["dplcf-ap"].findings == ("dplcf-ap-interaction-server-report-2",)
