"""Places in the page: permanent, plain, and all different whatever systems are called."""

from __future__ import annotations

import re

from hypothesis import given, settings

from fedrec_auditor.reports.anchor import TAKEN, anchors
from fedrec_auditor.reports.record import Record
from tests.reports.conftest import records


def test_a_finding_is_named_by_its_scope(record: Record) -> None:
    found = anchors(record)
    assert found["dplcf-ap"].findings == ("dplcf-ap-interaction-server-report",)
    assert found["fcf"].page == "fcf"


def test_a_system_called_like_a_finding_takes_another_place(record: Record) -> None:
    first, *rest = record.findings
    bold = first.model_copy(update={"target": "dplcf-ap-interaction-server-report"})
    found = anchors(record.model_copy(update={"findings": (bold, *rest)}))
    assert found["dplcf-ap"].findings == ("dplcf-ap-interaction-server-report-2",)


@settings(max_examples=40)
@given(records())
def test_places_are_words_and_differ(record: Record) -> None:
    found = anchors(record).values()
    names = [name for each in found for name in (each.page, *each.findings)]
    assert len({*names, *TAKEN}) == len(names) + len(TAKEN)
    assert all(re.fullmatch(r"[a-z0-9._-]+", name) for name in names)
