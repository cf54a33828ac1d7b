"""Tables as files: CSV reads back as the record, LaTeX has nothing in it that breaks a document."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.table_files import csv_table, latex, latex_table, write_tables
from tests.texts import LETTERS

NAMES = ("findings", "attacks", "utility", "measurements", "skipped")
PRINTED = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~",
    r"\textquotedbl{}": '"', r"\textasciigrave{}": "`", r"\ensuremath{<}": "<",
    r"\ensuremath{>}": ">", r"\ensuremath{|}": "|",
}  # fmt: skip


def printed(text: str) -> str:
    """What LaTeX prints of an escaped text of ASCII, read token by token."""
    said, at = "", 0
    while at < len(text):
        rest = text[at:]
        known = next((name for name in PRINTED if rest.startswith(name)), None)
        if known:
            said, at = said + PRINTED[known], at + len(known)
        elif rest.startswith("{}"):
            at += 2
        elif rest[0] == "\\":
            assert rest[1] in "{}$&#%_", rest
            said, at = said + rest[1], at + 2
        else:
            assert rest[0] not in "{}$&#%_^~\\", rest
            said, at = said + rest[0], at + 1
    return said


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_escaped_text_prints_as_it_is(text: str) -> None:
    escaped = latex(text)
    assert printed(escaped) == " ".join(text.split())
    assert not re.search(r"--|''|,,|``|<<|>>", escaped)


@given(st.text(LETTERS))
def test_whatever_is_escaped_is_known_to_latex(text: str) -> None:
    escaped = latex(text)
    assert re.fullmatch("[ -~À-ÖØ-öø-ÿ]*", escaped)
    assert escaped.replace(r"\{", "").count("{") == escaped.replace(r"\}", "").count("}")


def test_signs_of_the_reports_are_printed() -> None:
    assert latex("≤ 2, ≥ ∞, ε, Müller, Łukasz, 漢") == (
        r"\ensuremath{\le} 2, \ensuremath{\ge} \ensuremath{\infty}, \ensuremath{\varepsilon}, "
        "Müller, ?ukasz, ?"
    )


def test_csv_reads_back(record: Record) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(record, "findings"))))
    assert [row["target"] for row in rows] == [f.target for f in record.findings]
    assert [float(row["claim.epsilon"]) for row in rows] == [
        f.claim.epsilon for f in record.findings
    ]
    rows = list(csv.DictReader(io.StringIO(csv_table(record, "attacks"))))
    assert [float(row["value"]) for row in rows] == [a.value for a in record.attacks]
    assert "roc.fpr" not in rows[0]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r@", " ="])
def test_no_text_is_a_formula_to_a_spreadsheet(record: Record, sign: str) -> None:
    row = record.findings[0].model_copy(update={"target": f"{sign}cmd|' /C calc'!A0"})
    (read,) = csv.DictReader(
        io.StringIO(csv_table(record.model_copy(update={"findings": (row,)}), "findings"))
    )
    assert read["target"] == f"'{sign.strip()}cmd|' /C calc'!A0"
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in read.values())


def test_all_are_written(record: Record, tmp_path: Path) -> None:
    assert write_tables(record, tmp_path / "new") == NAMES
    files = {path.name for path in (tmp_path / "new").iterdir()}
    assert files == {f"{name}.{kind}" for name in NAMES for kind in ("csv", "tex")}
    text = (tmp_path / "new" / "findings.tex").read_text()
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    assert "dplcf-ap & " in text


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_table_is_a_table(record: Record, name: str) -> None:
    empty = record.model_copy(update=dict.fromkeys(NAMES, ()))
    assert csv_table(empty, name) == "target\n"
    assert r"\bottomrule" in latex_table(empty, name)
