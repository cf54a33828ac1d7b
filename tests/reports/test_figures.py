"""The figures of a record: one list, names fit for files, drawings that stand alone."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import given, settings

from fedrec_auditor.reports.figures import figures
from fedrec_auditor.reports.record import Record
from tests.reports.conftest import records


def test_every_judged_system_has_a_ladder(record: Record) -> None:
    found = {figure.name: figure for figure in figures(record)}
    assert {"fcf-ladder", "fmf-ldp-ladder", "dplcf-sp-ladder", "dplcf-ap-ladder"} <= set(found)
    assert "fmf-ldp" in found["fmf-ldp-ladder"].title


@settings(max_examples=40, deadline=None)
@given(records())
def test_names_differ_and_drawings_hold_no_string_of_the_record(record: Record) -> None:
    found = list(figures(record))
    assert len({figure.name for figure in found}) == len(found)
    for figure in found:
        assert re.fullmatch(r"[a-z0-9._-]+", figure.name)
        assert ET.fromstring(figure.svg).tag == "svg"
        assert not re.search(r"\bid=|nan|<script", figure.svg)
