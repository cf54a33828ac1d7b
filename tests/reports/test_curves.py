"""Curves: axes stop at the resolution, dots and lines are where the numbers are."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.reports.charts import RATES, TradeOff, read_curve, resolution, roc_curve
from fedrec_auditor.reports.rows import RocRow
from tests.reports.conftest import roc, rocs


def points(drawing: str, tag: str, colour: str) -> list[list[float]]:
    root = ET.fromstring(drawing)
    found = [
        each.attrib["points"]
        for each in root.iter(tag)
        if f"var(--{colour})" in (each.attrib.get("stroke"), each.attrib["fill"])
    ]
    return [[float(v) for pair in found[0].split() for v in pair.split(",")]]


def ends(curve: RocRow) -> tuple[list[float], list[float]]:
    """x and y of a drawn curve."""
    (flat,) = points(roc_curve(curve, {}, {}), "polyline", "leak")
    return flat[::2], flat[1::2]


def test_a_power_of_the_false_alarms_is_a_straight_line_in_logarithms() -> None:
    x, y = ends(roc(0.8))
    slopes = np.diff(y) / np.diff(x)
    assert slopes == pytest.approx(np.full(len(slopes), slopes.mean()), abs=0.05)


def test_both_axes_stop_at_the_resolution() -> None:
    curve = roc(0.75, negatives=640)
    assert resolution(curve) == pytest.approx(1 / 640)
    drawing = roc_curve(curve, {0.1: 0.5, 0.001: None}, {0.1: 0.2})
    assert "1 in 640" in drawing
    assert "0.1%: not resolvable" in drawing
    assert "10%: 50%" in drawing
    assert drawing.count("<circle") == 1
    x, _ = ends(curve)
    box = ET.fromstring(drawing)
    axis = [float(each.attrib["x1"]) for each in box.iter("line")]
    assert min(x) == pytest.approx(min(v for v in axis if v > 50))


def test_a_share_is_read_at_the_finest_point_that_is_not_beyond_it() -> None:
    curve = RocRow(fpr=(0.01, 0.1, 1.0), tpr=(0.2, 0.6, 1.0), low=(0, 0, 1), high=(1, 1, 1))
    assert [read_curve(curve, rate) for rate in (0.001, 0.01, 0.05, 0.1)] == [None, 0.2, 0.2, 0.6]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (2.3, 0.1), (9.0, 1e-5)])
def test_the_corners_are_those_of_the_two_inequalities(epsilon: float, delta: float) -> None:
    """Both errors obey P(S) <= e^eps Q(S) + delta, for the test and for its opposite."""
    line = TradeOff("claimed", epsilon, delta, "claim", 1.0)
    (x, y) = zip(*line.corners, strict=True)
    for alarms in np.linspace(0.0, 1.0, 21):
        grown = math.exp(epsilon)
        least = max(0.0, 1 - delta - grown * alarms, (1 - delta - alarms) / grown)
        assert np.interp(alarms, x, y) == pytest.approx(least, abs=1e-9)


def test_randomized_response_is_on_the_line_of_its_epsilon() -> None:
    """Keep a bit with e^eps / (1 + e^eps): both errors are then 1 / (1 + e^eps)."""
    (_, knee, _) = TradeOff("shown", 1.0, 0.0, "leak", 1.0).corners
    assert knee == pytest.approx((1 / (1 + math.e),) * 2)
    assert TradeOff("shown", 1e6, 0.25, "leak", 1.0).corners[1] == (0.0, 0.0)


@settings(max_examples=60)
@given(rocs(), st.dictionaries(st.sampled_from(RATES), st.floats(0, 1)))
def test_any_curve_is_drawn_within_the_picture(curve: RocRow, guessed: dict[float, float]) -> None:
    if resolution(curve) is None:
        return
    found = {rate: read_curve(curve, rate) for rate in RATES}
    drawing = roc_curve(curve, found, guessed)
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for each in (*root.iter("polyline"), *root.iter("polygon")):
        for pair in each.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    assert "nan" not in drawing
