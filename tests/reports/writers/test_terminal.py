"""Markdown, JUnit and terminal output: parsers read it, and no string is read as markup."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from fedrec_auditor.accountants.verdict import FailOn, Gate, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, markdown, terminal
from fedrec_auditor.reports.writers.terminal import print_system
from tests.reports.conftest import get_summary, vary
from tests.reports.printing import capture

EVIL = "a|b\n<b>*x*</b> `c` [l](http://x) \x1b[31m\x00\x9b\ud8ff]]> [bold red]"


def parse_junit(record: Record, fail_on: str = "violated") -> ET.Element:
    root = ET.fromstring(ci.render_junit(record, Gate(FailOn(fail_on))))
    assert root.tag == "testsuites"
    found = root.find("testsuite")
    return found


@pytest.mark.parametrize(
    ("fail_on", "failures"), [("violated", 1), ("unsubstantiated", 2), ("never", 1)]
)
def test_junit_counts_are_those_of_its_cases(record: Record, fail_on: str, failures: int) -> None:
    first, second, *rest = record.findings
    changed = vary(
        record,
        findings=(
            vary(first, verdict=Verdict.UNSOUND),
            vary(second, verdict=Verdict.UNSUBSTANTIATED),
            *rest,
            vary(rest[-1], verdict=Verdict.CONSISTENT),
        ),
        errors=("ran out of memory",),
    )
    found = parse_junit(changed, fail_on)
    assert found.attrib["failures"] == str(len(found.findall(".//failure"))) == str(failures)
    assert found.attrib["errors"] == str(len(found.findall(".//error"))) == "2"
    assert found.attrib["tests"] == str(len(record.findings) + 2)
    names = [(case.attrib["classname"], case.attrib["name"]) for case in found.iter("testcase")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("verdict", "gate", "tag"),
    [
        (Verdict.NO_CLAIM, Gate(), "skipped"),
        (Verdict.NO_CLAIM, Gate(FailOn.NO_CLAIM), "failure"),
        (Verdict.INCONCLUSIVE, Gate(), "error"),
        (Verdict.INCONCLUSIVE, Gate(allow=("inconclusive",)), "skipped"),
        (Verdict.UNSOUND, Gate(FailOn.NEVER), "error"),
    ],
)
def test_junit_distinguishes_inconclusive_from_no_claim(
    record: Record, verdict: Verdict, gate: Gate, tag: str
) -> None:
    changed = vary(record, findings=(vary(record.findings[0], verdict=verdict),))
    found = ET.fromstring(ci.render_junit(changed, gate)).find("testsuite")
    assert [child.tag for child in found.findall("testcase/*")] == [tag, "system-out"]
    totals = {"skipped": "skipped", "failure": "failures", "error": "errors"}
    assert found.attrib[totals[tag]] == "1"


def test_strings_are_escaped_in_every_format(record: Record) -> None:
    claim = replace(record.findings[0].claim, statement=EVIL, source=EVIL)
    finding = vary(record.findings[0], target=EVIL, claim=claim, reason=EVIL, note=EVIL)
    attack = vary(record.attacks[0], target=EVIL, attack=EVIL, metric=EVIL)
    evil = vary(record, findings=(finding,), attacks=(attack,), errors=(EVIL,))
    (case, _) = parse_junit(evil).iter("testcase")
    assert case.attrib["classname"] == say.replace_unsafe_chars(EVIL)
    text = markdown.render_markdown(evil)
    assert "<b>" not in text
    assert "\x1b" not in text
    assert "](http" not in text
    for fancy in (True, False):
        expected = print_record(evil, 120, fancy=fancy)
        assert "\x00" not in expected
        assert "\x1b[31m" not in expected
        assert "[bold red]" in re.sub(r"\x1b\[[0-9;]*m|\s", " ", expected).replace("│", "") or fancy


@settings(max_examples=300)
@given(st.text(st.sampled_from("ab1_*~`|\\\\<>&[](){}#+-=!:.@ /^\\n"), max_size=24))
def test_escaped_markdown_parses_to_its_text(text: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    md, plain = markdown.escape_markdown(text), " ".join(text.split())
    for page, place in ((md, 0), (f"- {md}", 0), (f"a | b\n--- | ---\nc | {md}\n", 3)):
        inline = [token.children or [] for token in parser.parse(page) if token.type == "inline"]
        read = inline[place] if plain or place else []
        assert {leaf.type for leaf in read} <= {"text"}, page
        assert "".join(leaf.content for leaf in read) == plain, page


def print_record(record: Record, width: int, *, fancy: bool) -> str:
    return capture(lambda c: terminal.print_audit(record, c), width=width, terminal=fancy)


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160, 200])
def test_lines_fit_the_terminal_and_are_indented(record: Record, width: int) -> None:
    lines = print_record(record, width, fancy=True).split("\n")
    assert max(cell_len(line) for line in lines) <= width
    body, join_lines = "\n".join(lines), " ".join(" ".join(lines).split())
    for glance in summarize_systems(record):
        assert body.count(f"\n{glance.severity.value:<8}  {glance.section.target}") == 1
        for part in (glance.headline, glance.scope_phrase, glance.advice):
            assert part in join_lines
    heads = ("Critical", "High", "PRIVACY", "Targets", "Attacks", "")
    wrapped = [line for line in lines if not line.startswith((" ", *heads))]
    assert wrapped == [] or width == 40


def test_words_are_not_cut(record: Record) -> None:
    words_ = list_words(print_record(record, 200, fancy=False))
    for width in (40, 60, 81):
        assert list_words(print_record(record, width, fancy=True)) == words_


def list_words(text: str) -> set[str]:
    """The words of all lines, except lines of the epsilon axis, which has a break."""
    return {word for line in text.split("\n") if "│" not in line for word in line.split()}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_each_system_has_a_row_of_marks_on_one_axis(record: Record, width: int) -> None:
    first = record["fmf-ldp"].findings[0]
    near, far = (replace(first.measured, epsilon=epsilon) for epsilon in (2.500001, math.inf))
    wide = {"claim": replace(first.claim, epsilon=1e9)}
    cases = {
        "·+►▼◄·*│·": {},
        "━+▼◄·*│·": {"measured": None},
        "━+▼━+│━": {"measured": None, "accounted": None},
        "·+▼►━+│━": {"measured": near, "accounted": None},
        "·+▼·+│►": {"measured": far, "accounted": None},
        "·+►◄·+▼│·": wide,
    }
    found = [vary(first, target=f"s{i}", **each) for i, each in enumerate(cases.values())]
    changed = vary(record, findings=tuple(found), attacks=(), skipped=(), utility=())
    lines = [line for line in print_record(changed, width, fancy=True).split("\n") if "│" in line]
    assert len({line.index("│") for line in lines}) == 1
    rows = dict(line.split(maxsplit=1) for line in lines)
    for number, pattern in enumerate(cases):
        assert re.fullmatch(pattern, rows[f"s{number}"]), rows[f"s{number}"]
    bars = print_record(record, width, fancy=False).count("█")
    assert bars == sum(int(11 * gain) for gain in (0.563, 0.928, 0.393))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (1.0, "1"), (5000.0, "5,000"), (2.5, "2.5"), (0.6321205588, "0.632121"),
     (1e-6, "1e-06"), (float("inf"), "∞"), (1682.0, "1,682"), (0.0001234567, "0.000123457"),
     (123456789.0, "123,456,789")],
)  # fmt: skip
def test_numbers_are_short(value: float, expected: str) -> None:
    assert say.format_number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.650859, "0.651"), (1.0, "1"), (0.99996, "0.99996"), (0.0063716, "0.00637"), (-0.5, "-0.5")],
)
def test_figures_are_brief_but_never_rounded_up_to_one(value: float, expected: str) -> None:
    assert say.format_short(value) == expected


def test_the_schema_imports_no_renderer() -> None:
    code = (
        "import sys; from fedrec_auditor.reports.record import record, store;"
        "from fedrec_auditor.reports.writers import terminal;"
        "print({'jinja2', 'rich', 'torch', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


TARGETS = ("fcf", "fmf-ldp", "dplcf-sp", "dplcf-ap")


def print_target(record: Record, target: str, width: int = 80, *, tty: bool = True) -> str:
    glance = get_summary(record, target)
    return capture(lambda c: print_system(record, glance, c), width=width, terminal=tty)


def join_lines(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [50, 80, 160])
def test_systems_fit_the_terminal_with_whole_words(record: Record, target: str, width: int) -> None:
    text = print_target(record, target, width)
    assert max(map(cell_len, text.split("\n"))) <= width
    assert text.split() == print_target(record, target, 400).split()
    assert 100 < max(map(cell_len, print_target(record, target, 400).split("\n"))) <= 160


def test_logs_have_no_terminal_codes(record: Record) -> None:
    file = io.StringIO()
    print_system(record, get_summary(record, "dplcf-ap"), Console(file=file, width=7))
    assert "\x1b" not in file.getvalue()
    assert 80 < max(map(len, file.getvalue().split("\n"))) <= 100
