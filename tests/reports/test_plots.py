"""Drawings: bars end where their values are, infinity beyond the break, no string of a record."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.reports import plots
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import Finding
from tests.reports.conftest import findings


def bars(drawing: str, colour: str) -> list[float]:
    found = ET.fromstring(drawing).iter("rect")
    return [float(r.attrib["width"]) for r in found if r.attrib["fill"] == f"var(--{colour})"]


def test_bars_grow_with_the_logarithm(record: Record) -> None:
    drawing = plots.ladder(record["fmf-ldp"].findings)
    report, round_, training, shuffled = bars(drawing, "leak")
    decades = [math.log10(epsilon / 1.87) for epsilon in (2.5, 250.0, 5000.0)]
    steps = [width - shuffled for width in (report, round_, training)]
    per = steps[2] / decades[2]
    assert steps == pytest.approx([per * each for each in decades], abs=0.3)
    for value in ("5,000", "250", "2.5", "432", "1.87"):
        assert f">{value}</text>" in drawing


def test_infinity_runs_over_the_break_and_a_finite_value_does_not(record: Record) -> None:
    assert "<polygon" in plots.ladder(record["fcf"].findings)
    assert "<polygon" not in plots.ladder(record["fmf-ldp"].findings)


@settings(max_examples=60)
@given(st.lists(findings(st.just("<it>")), min_size=1, max_size=3))
def test_any_findings_are_drawn_within_the_picture(found: list[Finding]) -> None:
    drawing = plots.ladder(found)
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter("rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    assert not re.search("nan|inf", drawing)
    assert "id=" not in drawing
