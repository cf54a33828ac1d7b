"""Drawings: dots stand where their values are, infinity beyond the break, no string of a record."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.reports.charts import ladder
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import Finding
from tests.reports.conftest import findings


def dots(drawing: str, colour: str) -> list[float]:
    found = ET.fromstring(drawing).iter("circle")
    return [float(dot.attrib["cx"]) for dot in found if dot.attrib["fill"] == f"var(--{colour})"]


def test_dots_move_with_the_logarithm(record: Record) -> None:
    drawing = ladder(record["fmf-ldp"].findings)
    report, round_, training, shuffled = dots(drawing, "leak")
    decades = [math.log10(epsilon / 1.87) for epsilon in (2.5, 250.0, 5000.0)]
    steps = [place - shuffled for place in (report, round_, training)]
    per = steps[2] / decades[2]
    assert steps == pytest.approx([per * each for each in decades], abs=0.3)
    for value in ("5,000", "250", "2.5", "432", "1.87"):
        assert f">{value}</text>" in drawing


def test_infinity_runs_over_the_break_and_a_finite_value_does_not(record: Record) -> None:
    assert "<polygon" in ladder(record["fcf"].findings)
    assert "<polygon" not in ladder(record["fmf-ldp"].findings)


def test_what_is_not_claimed_has_no_dot_and_a_tiny_claim_does_not_stretch_the_axis(
    record: Record,
) -> None:
    first = record["fmf-ldp"].findings[0]
    other = first.model_copy(update={"outside_model": "a budget that is not printed"})
    assert "not claimed here" in ladder([other])
    assert len(dots(ladder([other]), "claim")) == 0
    tiny = first.model_copy(update={"claim": replace(first.claim, epsilon=1e-9)})
    assert "≤ 0.1<" in ladder([tiny])


@settings(max_examples=60)
@given(st.lists(findings(st.just("<it>")), min_size=1, max_size=3))
def test_any_findings_are_drawn_within_the_picture(found: list[Finding]) -> None:
    drawing = ladder(found)
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter("rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for dot in root.iter("circle"):
        assert 0 <= float(dot.attrib["cx"]) <= width
    assert not re.search("nan|inf", drawing)
    assert "id=" not in drawing
