"""Any record is stored completely, and is printable, unambiguous and escaped in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from rich.console import Console

from fedrec_auditor.reports.documents.figures import draw_all_figures
from fedrec_auditor.reports.record import store
from fedrec_auditor.reports.record.comparison import Comparison
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.sections import RESERVED_HTML_IDS, assign_html_ids
from fedrec_auditor.reports.record.store import RECORD_SCHEMA_URN
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, html, markdown, terminal
from fedrec_auditor.reports.writers.files import CSV_TABLE_NAMES, format_csv_table
from fedrec_auditor.reports.writers.terminal import print_comparison, print_system
from tests.reports.conftest import records, vary
from tests.reports.record.test_gate import check_sarif
from tests.reports.schema import schema


def check_files(record: Record, folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the extra `dev` has it")
    store.write_run_files(record, folder)
    again = Record.read(folder)
    assert store.encode_record(again) == (folder / "report.json").read_bytes()
    assert vary(again, plan=record.plan) == record
    assert sorted(path.name for path in folder.iterdir()) == sorted(store.RUN_FILE_NAMES)
    pages = (html.render_html(record), markdown.render_markdown(record))
    for page in (*pages, ci.render_junit(record).decode()):
        assert not re.search("<script|\x00|\x1b", page, re.IGNORECASE)
    raw = json.loads(store.encode_record(record))
    fits = jsonschema.Draft202012Validator(schema()).validate
    fits(raw)
    assert raw["$schema"] == RECORD_SCHEMA_URN
    del raw["$schema"], raw["severity"]  # earlier records had neither
    fits(raw)


def check_terminal(record: Record, folder: Path) -> None:
    """The terminal output is printable, and a record has no changes against itself."""
    compared = Comparison.compare(record, record)
    assert not compared.changes
    for fancy in (True, False):
        console = Console(file=io.StringIO(), width=60, force_terminal=fancy, color_system=None)
        terminal.print_audit(record, console)
        for glance in summarize_systems(record):
            print_system(record, glance, console)
        print_comparison(compared, console)
        assert all(sign.isprintable() for sign in console.file.getvalue().replace("\n", ""))


def check_page(record: Record, folder: Path) -> None:
    """HTML ids are distinct words; drawings have no string of the record."""
    found = assign_html_ids(record).values()
    names = [name for each in found for name in (each.section_id, *each.finding_ids)]
    assert len({*names, *RESERVED_HTML_IDS}) == len(names) + len(RESERVED_HTML_IDS)
    drawn = list(draw_all_figures(record))
    assert len({figure.name for figure in drawn}) == len(drawn)
    names += [figure.name for figure in drawn]
    assert all(re.fullmatch(r"[a-z0-9._-]+", name) for name in names)
    for figure in drawn:
        assert ET.fromstring(figure.svg).tag == "svg"
        assert not re.search(r"\bid=|nan|<script", figure.svg)


def check_ci(record: Record, folder: Path) -> None:
    check_sarif(json.loads(ci.render_sarif(record)))
    assert not re.search(r"[\x00\x1b]", str(record))


def check_tables(record: Record, folder: Path) -> None:
    """Rows have as many cells as the head; attack tables have one row per figure, or per attack."""
    for name in CSV_TABLE_NAMES:
        read = list(csv.reader(io.StringIO(format_csv_table(record, name))))
        if name not in ("attacks", "advantages"):
            assert len(read) == len(getattr(record, name)) + 1
        assert len({len(row) for row in read}) == 1


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(record=records())
def test_any_record_is_sound_in_every_format(record: Record, tmp_path: Path) -> None:
    for check_format in (check_files, check_terminal, check_page, check_ci, check_tables):
        check_format(record, tmp_path)
