"""The HTML page: well-formed, self-contained, escaped, accessible, without praise, and quick."""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.plan.plan import Plan, make_plan
from fedrec_auditor.reports.documents.overview import draw_claims
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.say.links import find_rule_address
from fedrec_auditor.reports.writers import html
from fedrec_auditor.reports.writers.html import format_plan
from tests.reports.conftest import vary
from tests.texts import LETTERS

VOID = {"meta", "br", "img", "input", "hr", "link"}
EVIL = '<script>alert("x")</script>&\'"><img src=x onerror=alert(1)>$x_1$'


class Page(HTMLParser):
    """Parsed page: tags with attributes, and the text; asserts that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


@pytest.fixture(scope="module")
def page(record: Record) -> Page:
    return Page(html.render_html(record))


def poison(value: Any) -> Any:
    """A copy with EVIL appended to every free string."""
    if isinstance(value, dict):
        return {key: poison(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [poison(entry) for entry in value]
    return f"{value}{EVIL}" if type(value) is str and value != "inf" else value


# Links of the page: only to the documentation that the package's metadata name.
LEARN_MORE = {("a", find_rule_address(verdict.value)) for verdict in Verdict}


def test_the_page_is_self_contained(page: Page) -> None:
    assert page.count("script") == page.count("link") == page.count("img") == 0
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in {"href", "src", "xlink:href"}:
                assert value.startswith("#") or (tag, value) in LEARN_MORE, (tag, value)
    for name in ("glance.css", "report.css"):
        css = (Path(html.__file__).parent / "templates" / name).read_text()
        assert "url(" not in css
        assert "@import" not in css


def test_ids_are_unique_and_links_resolve(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"] for tag, a in page.tags if tag == "a"}
    assert links <= {f"#{name}" for name in ids} | {address for _, address in LEARN_MORE}
    assert {"#dplcf-ap", "#dplcf-ap-interaction-server-report"} <= links


def test_headings_descend_one_level_at_a_time(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(now <= before + 1 for before, now in pairwise(levels))


def test_tables_have_captions_and_scopes(page: Page) -> None:
    assert page.count("table") == page.count("caption") > 0
    assert all(a.get("scope") in {"row", "col"} for tag, a in page.tags if tag == "th")


def test_every_string_is_escaped_in_page_and_drawings(record: Record) -> None:
    raw = poison(record.model_dump(mode="python"))
    evil = Record.model_validate(raw)
    assert EVIL in evil.findings[0].target
    assert EVIL in evil.provenance.machine["platform"]
    text = html.render_html(evil)
    page = Page(text)
    assert page.count("script") == page.count("img") == 0
    assert "<script" not in text.lower()
    assert "alert(" in page.words
    assert "<script" not in draw_claims(evil.findings)


def test_systems_are_not_called_safe_private_or_secure(page: Page) -> None:
    assert not re.search(
        r"\b(safe|is private|are private)\b|secure(?! aggregation)", page.words.lower()
    )


def test_notes_are_shown(record: Record) -> None:
    noted = vary(record, notes=("Left out: <b>theirs</b>.",))
    assert "Left out: &lt;b&gt;theirs&lt;/b&gt;." in html.render_html(noted)


def test_errors_are_shown_first(record: Record) -> None:
    broken = vary(record, errors=("fcf membership: out of memory",))
    said = Page(html.render_html(broken)).words
    assert said.index("out of memory") < said.index("At a glance")


def test_the_picture_is_first_and_timing_is_one_sentence(record: Record) -> None:
    timing = {"wall": 152.0, "fcf training": 60.0, "fcf bounds": 30.0}
    text = html.render_html(vary(record, provenance=vary(record.provenance, timing=timing)))
    assert text.index("<svg") < text.index("<table")
    total, slowest = "took 1 min 30 s in total", "The slowest task, “fcf training”, took 1 min."
    assert (
        f"The audit took 2 min 32 s. The 2 tasks of the audit {total}. {slowest}"
        in Page(text).words
    )
    assert "fcf bounds" not in text


def repeat_targets(record: Record, times: int) -> Record:
    """A copy with ``times`` as many targets, each with all rows."""

    def repeat_rows(name: str) -> tuple[Any, ...]:
        return tuple(
            vary(row, target=f"{row.target}-{i}")
            for i in range(times)
            for row in getattr(record, name)
        )

    names = ("findings", "measurements", "attacks", "skipped", "utility")
    return record.model_copy(update={name: repeat_rows(name) for name in names})


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_colours_have_enough_contrast_in_light_dark_and_print() -> None:
    css = (Path(html.__file__).parent / "templates" / "glance.css").read_text()
    themes = [
        dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"^ *\.privacy-audit \{(.*?)\}", css, re.DOTALL | re.MULTILINE)
    ]
    assert len(themes) == 3
    for theme in themes:
        for text in ("--ink", "--muted", "--accent"):
            assert contrast(theme[text], theme["--page"]) >= 4.5
            assert contrast(theme[text], theme["--card"]) >= 4.5
        for name in ("bad", "warn", "open", "calm"):
            assert contrast(theme[f"--{name}-ink"], theme[f"--{name}"]) >= 4.5
        for mark in ("--leak", "--claim"):  # WCAG 1.4.11: graphics need 3 to 1
            assert contrast(theme[mark], theme["--page"]) >= 3.0
            assert contrast(theme[mark], theme["--shade"]) >= 3.0


NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
LEAVES = NUMBERS | st.text(LETTERS)
ANY = st.recursive(
    LEAVES, lambda part: st.lists(part) | st.dictionaries(st.text(LETTERS), part), max_leaves=6
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(LETTERS), ANY))
def test_plans_survive_toml(plan: dict[str, object]) -> None:
    assert tomllib.loads(format_plan(plan)) == plan


def test_plans_of_records_are_read_back() -> None:
    plan = Plan(
        targets=("fcf", "fmf-ldp"), settings={"fcf": {"rounds": 5}}, quick=True, seed=7
    ).resolve()
    text = format_plan(plan.model_dump(mode="json"))
    assert make_plan(tomllib.loads(text)) == plan
