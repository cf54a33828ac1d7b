"""Drawings: marks are at their values and inside the picture, and strings are escaped."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements import Basis, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.documents import figures, overview
from fedrec_auditor.reports.documents.document import Picture
from fedrec_auditor.reports.documents.drawing import place_labels
from fedrec_auditor.reports.record.leaks import DISTINGUISHER
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import Finding, RocRow
from fedrec_auditor.reports.record.sections import Section, group_by_system
from fedrec_auditor.reports.say import describe_judged_scope
from fedrec_auditor.reports.say.exposure import CellTone, find_exposure
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers.files import write_pictures
from fedrec_auditor.reports.writers.svg import __file__, make_svg_text, read_light_palette
from tests.reports.conftest import findings, get_summary, roc, rocs, vary


def points(drawing: str, tag: str, colour: str) -> list[list[float]]:
    root = ET.fromstring(drawing)
    found = [
        each.attrib["points"]
        for each in root.iter(tag)
        if f"var(--{colour})" in (each.attrib.get("stroke"), each.attrib["fill"])
    ]
    return [[float(v) for pair in found[0].split() for v in pair.split(",")]]


def draw_points(curve: RocRow) -> tuple[list[float], list[float]]:
    """Drawn coordinates (x, y) of a ROC curve."""
    (flat,) = points(figures.draw_roc_curve(curve, {}, {}), "polyline", "leak")
    return flat[::2], flat[1::2]


def test_both_axes_stop_at_the_resolution() -> None:
    curve = roc(0.75, negatives=640)
    assert figures.find_min_positive_fpr(curve) == pytest.approx(1 / 640)
    drawing = figures.draw_roc_curve(curve, {0.1: 0.5, 0.001: None}, {0.1: 0.2})
    assert "1 in 640" in drawing
    assert "0.1%: too few data" in drawing
    assert "10%: 50%" in drawing
    assert drawing.count("<circle") == 1
    x, _ = draw_points(curve)
    box = ET.fromstring(drawing)
    axis = [float(each.attrib["x1"]) for each in box.iter("line")]
    assert min(x) == pytest.approx(min(v for v in axis if v > 50))


def test_tpr_is_read_at_the_largest_fpr_within_the_rate() -> None:
    curve = RocRow(fpr=(0.01, 0.1, 1.0), tpr=(0.2, 0.6, 1.0), low=(0, 0, 1), high=(1, 1, 1))
    rates = (0.001, 0.01, 0.05, 0.1)
    assert [figures.read_tpr(curve, rate) for rate in rates] == [None, 0.2, 0.2, 0.6]


def check_inside(drawing: str) -> None:
    """Asserts that all marks lie within the drawing, without NaN and identifiers."""
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    corners = []
    for each in (*root.iter("polyline"), *root.iter("polygon")):
        corners += [tuple(map(float, pair.split(","))) for pair in each.attrib["points"].split()]
    for rect in root.iter("rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        corners += [(x, y), (x + w, y + h)]
    corners += [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter("circle")]
    assert all(0 <= x <= width and 0 <= y <= height for x, y in corners)
    assert not re.search("nan|id=", drawing)


@settings(max_examples=60)
@given(rocs(), st.dictionaries(st.sampled_from(figures.MARKED_FALSE_ALARM_RATES), st.floats(0, 1)))
def test_any_curve_is_drawn_within_the_picture(curve: RocRow, guessed: dict[float, float]) -> None:
    if figures.find_min_positive_fpr(curve) is not None:
        rates = figures.MARKED_FALSE_ALARM_RATES
        found = {rate: figures.read_tpr(curve, rate) for rate in rates}
        check_inside(figures.draw_roc_curve(curve, found, guessed))


@settings(max_examples=60)
@given(st.lists(findings(st.just("<it>")), min_size=1, max_size=3))
def test_any_findings_are_drawn_within_the_picture(findings: list[Finding]) -> None:
    drawing = overview.draw_claims(findings)
    check_inside(drawing)
    assert not re.search(r'="[^"]*inf', drawing)
    labels = [(row.name, row.scope_label) for row in overview.make_claim_rows(findings)]
    assert len(labels) == len(set(labels))


@settings(max_examples=200)
@given(findings(st.just("it")))
def test_all_marks_of_a_row_have_its_scope_and_delta(finding: Finding) -> None:
    """Absent claims and proofs have no mark, nor have bounds under assumptions."""
    row = overview.EpsilonRow("it", "", finding)
    shown, claim, proof = row.epsilon_marks
    if shown is not None:
        assert finding.scope.covers(shown.scope)
        assert (shown.delta >= finding.delta, shown.assumptions) == (True, ())
    for limit in filter(None, (claim, proof)):
        assert math.isfinite(limit.epsilon)
        covers = limit.scope.covers(finding.scope) and limit.delta <= finding.delta
        assert covers or (limit is claim and finding.verdict is Verdict.VIOLATED)
    for mark, colour in zip(row.epsilon_marks, ("leak", "claim", "ink"), strict=True):
        assert len(find_tips(overview.draw_claims([finding]), colour)) == (mark is not None)
    missing = [word in row.epsilons_text for word in ("nothing shown", "not claimed", "nothing p")]
    assert missing == [mark is None for mark in row.epsilon_marks]


def find_tips(drawing: str, colour: str) -> list[float]:
    """Horizontal positions of the tips of the triangles of a colour, from left to right."""
    polygons = ET.fromstring(drawing).iter("polygon")
    corners = [e.attrib["points"].split() for e in polygons if f"--{colour})" in e.attrib["fill"]]
    return [float(each[2 if colour == "claim" else 1].split(",")[0]) for each in corners]


def test_marks_are_ordered_and_infinity_lies_beyond_the_axis(record: Record) -> None:
    first = record["fmf-ldp"].findings[0]
    drawn = [
        overview.draw_claims([vary(first, measured=replace(first.measured, epsilon=epsilon))])
        for epsilon in (0.5, 9.0, math.inf)
    ]
    one, two, beyond = (find_tips(each, "leak")[0] for each in drawn)
    assert one < find_tips(drawn[0], "claim")[0] == find_tips(drawn[0], "ink")[0] < two
    axis = next(ET.fromstring(drawn[2]).iter("line"))
    assert two < float(axis.attrib["x2"]) < beyond


def test_absent_claims_have_no_mark_and_tiny_ones_keep_the_axis(record: Record) -> None:
    first = record["fmf-ldp"].findings[0]
    other = vary(first, outside_model="a budget that is not printed")
    derived = vary(first, claim=replace(first.claim, basis=Basis.DERIVED))
    for each in (other, derived):
        assert "not claimed" in overview.draw_claims([each])
        assert find_tips(overview.draw_claims([each]), "claim") == []
    assumed = {"assumptions": ("nobody colludes",)}
    for name, colour, more in (("measured", "leak", {}), ("accounted", "ink", {"epsilon": 1.0})):
        lost = vary(first, **{name: replace(getattr(first, name), **assumed, **more)})
        assert find_tips(overview.draw_claims([lost]), colour) == []  # assumed, or refuted by 2.5
    tiny = vary(first, claim=replace(first.claim, epsilon=1e-9))
    assert "≤ 0.1<" in overview.draw_claims([tiny])


def test_the_overview_quotes_the_largest_gain_and_untested_systems(record: Record) -> None:
    glance = get_summary(record, "fcf")
    best = overview.make_overview_row(glance)
    assert best.attack_advantage == max(leak.advantage for leak in glance.leaks)
    assert best.attack_text == "membership (≥ 92.8% of the gap)"
    games = (vary(row, family=DISTINGUISHER) for row in record["fcf"].attacks)
    others = (vary(row, target="fcf") for row in record["dplcf-sp"].attacks)
    mixed = overview.make_overview_row(get_summary(vary(record, attacks=(*games, *others)), "fcf"))
    assert 0.3 < mixed.attack_advantage < 0.4  # that of dplcf-sp
    none = overview.make_overview_row(get_summary(record, "fmf-ldp"))
    assert none.attack_text == "none shown to beat guessing"
    untested = vary(record, attacks=(), skipped=())
    none = overview.make_overview_row(get_summary(untested, "fcf"))
    assert none.attack_text == "none shown, hardly tested"


def test_the_overview_has_every_system_and_scope_on_one_axis(record: Record) -> None:
    summaries = summarize_systems(record)
    for drawn, glance in itertools.product(overview.draw_overview(summaries), summaries):
        assert f">{glance.section.target}<" in drawn.svg
        for text in (drawn.svg, drawn.alt_text):
            assert describe_judged_scope(glance.section.headline_finding) in text
    heads = [
        re.findall(r">([^<]+)</text>", overview.draw_overview(part, summaries)[0].svg)[:5]
        for part in (summaries[:1], summaries[1:])
    ]
    assert heads[0] == heads[1] == ["infinite", "≤ 0.1", "1", "10", "100"]


def test_shown_epsilons_of_a_cell_are_at_most_those_proved(record: Record) -> None:
    systems = group_by_system(record)
    cells = [find_exposure(section, each) for section in systems for each in Vantage]
    told = [asked for cell in cells if cell for asked in (*cell.main_bounds, *cell.other_bounds)]
    both = [asked for asked in told if asked.lower_bound and asked.upper_bound]
    assert both
    for asked in both:
        if asked.lower_bound.delta >= asked.upper_bound.delta:
            assert asked.lower_bound.epsilon <= asked.upper_bound.epsilon * (1 + 1e-9)


def test_calm_cells_are_proved_in_every_scope(record: Record) -> None:
    one, every = record["dplcf-sp"].findings
    calm = find_exposure(Section("it", (one,)), Vantage.SERVER)
    assert calm.cell_tone is CellTone.CALM
    unknown = vary(every, measured=None)
    both = find_exposure(Section("it", (one, unknown)), Vantage.SERVER)
    assert both.cell_tone is CellTone.UNDECIDED


def test_proofs_of_small_games_do_not_count_for_the_data(record: Record) -> None:
    one, _ = record["dplcf-sp"].findings
    assert math.isfinite(one.accounted.epsilon)
    game = vary(one, game="local game over 36 items")
    found = find_exposure(Section("it", (game,)), Vantage.SERVER)
    assert all(each.upper_bound is None for each in found.main_bounds)
    assert found.cell_tone is CellTone.UNDECIDED


SVG = "{http://www.w3.org/2000/svg}"


def test_each_figure_is_self_contained(record: Record) -> None:
    drawn = list(figures.draw_all_figures(record))
    assert len(drawn) >= 4
    for each in drawn:
        text = make_svg_text(each)
        assert not re.search(r"var\(|class=", text)
        root = ET.fromstring(text)
        assert root.findtext(f"{SVG}title") == each.alt_text
        assert len(list(root.iter())) == len(list(ET.fromstring(each.svg).iter())) + 2


def test_figures_use_the_light_palette_of_the_page() -> None:
    palette = read_light_palette()
    style = (Path(__file__).parent / "templates" / "glance.css").read_text()
    used = set(re.findall(r"var\(--([\w-]+)\)", style))
    assert used <= set(palette)
    assert palette["page"] == "#ffffff"


def test_titles_are_escaped(record: Record) -> None:
    empty = '<svg viewBox="0 0 1 1"></svg>'
    evil = Picture(empty, "</title><script>&\x00", name="x")
    (title,) = ET.fromstring(make_svg_text(evil)).iter(f"{SVG}title")
    assert title.text == "</title><script>&�"


def test_figures_are_written_under_their_names(record: Record, tmp_path: Path) -> None:
    written = write_pictures(record, tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"{n}.svg" for n in written}


FRAME = (0.0, 0.0, 150.0, 120.0)


def are_disjoint(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("spread", [0.0, 2.0, 20.0])
def test_labels_cover_neither_each_other_nor_points(spread):
    rng = np.random.default_rng(3)
    for _ in range(50):
        middle = rng.uniform((30.0, 30.0), (120.0, 90.0))
        near = middle + spread * rng.normal(size=(5, 2))
        points = list(map(tuple, near.clip(0.0, FRAME[2:]).tolist()))
        boxes = place_labels(points, ["0.0625", "0.25", "1", "4", "16"], 10.5, FRAME)
        assert all(are_disjoint(one, other) for one, other in itertools.combinations(boxes, 2))
        dots = [(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in points]
        assert all(are_disjoint(box, dot) for box in boxes for dot in dots)
        assert all(FRAME[0] <= box[0] and box[2] <= FRAME[2] for box in boxes)


def test_a_label_avoids_a_line_if_free_space_is_near():
    (box,) = place_labels([(50.0, 50.0)], ["1"], 10.0, FRAME, lines=[(0.0, 30.0, 150.0, 50.0)])
    assert box[1] >= 49.0
