"""Tables as files: CSV reads back as the record."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from fedrec_auditor.reports.files import TABLES, csv_table, write_tables
from fedrec_auditor.reports.record import Record


def test_csv_reads_back(record: Record) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(record, "findings"))))
    assert [row["target"] for row in rows] == [f.target for f in record.findings]
    claimed = [f"{f.claim.epsilon}" if f.is_claimed else "" for f in record.findings]
    assert [row["claim.epsilon"] for row in rows] == claimed
    assert "" in claimed
    assert set(claimed) - {""}
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
    assert write_tables(record, tmp_path / "new") == TABLES
    files = {path.name for path in (tmp_path / "new").iterdir()}
    assert files == {f"{name}.csv" for name in TABLES}


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_is_a_table(record: Record, name: str) -> None:
    empty = record.model_copy(update=dict.fromkeys(TABLES, ()))
    assert csv_table(empty, name) == "target\n"
