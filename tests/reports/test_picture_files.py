"""Figures as files: they stand alone, in the light palette."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from fedrec_auditor.reports.figures import Drawing, figures
from fedrec_auditor.reports.files import __file__, light_palette, standalone, write_pictures
from fedrec_auditor.reports.record import Record

SVG = "{http://www.w3.org/2000/svg}"


def test_each_figure_stands_alone(record: Record) -> None:
    drawn = list(figures(record))
    assert len(drawn) >= 4
    for each in drawn:
        text = standalone(each)
        assert "var(" not in text
        assert "class=" not in text
        root = ET.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert root.findtext(f"{SVG}title") == each.title
        left, _, width, height = map(float, root.attrib["viewBox"].split())
        assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
        ground = next(iter(root.iter(f"{SVG}rect")))
        assert ground.attrib["fill"] == "#ffffff"
        assert float(ground.attrib["x"]) == left
        assert len(list(root.iter())) == len(list(ET.fromstring(each.svg).iter())) + 2


def test_the_palette_is_that_of_the_page_by_light() -> None:
    palette = light_palette()
    style = (Path(__file__).parent / "templates" / "glance.css").read_text()
    used = set(re.findall(r"var\(--([\w-]+)\)", style))
    assert used <= set(palette)
    assert palette["page"] == "#ffffff"


def test_a_title_cannot_break_out(record: Record) -> None:
    empty = '<svg viewBox="0 0 1 1"></svg>'
    evil = Drawing(name="x", kind="", title="</title><script>&\x00", caption="", svg=empty)
    (title,) = ET.fromstring(standalone(evil)).iter(f"{SVG}title")
    assert title.text == "</title><script>&�"


def test_each_is_written_under_its_name(record: Record, tmp_path: Path) -> None:
    written = write_pictures(record, tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"{n}.svg" for n in written}
