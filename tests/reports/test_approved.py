"""Every writer reproduces its approved output of the sample record, byte by byte.

``python -m tests.reports.test_approved`` writes the files anew: review their diff.
"""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

from rich.console import Console

from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports.documents.catalogue import build_catalogue_document
from fedrec_auditor.reports.documents.figures import draw_all_figures
from fedrec_auditor.reports.record.comparison import Comparison
from fedrec_auditor.reports.record.record import GateOutcome, Record
from fedrec_auditor.reports.say import links
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.reports.writers import ci, html, markdown, terminal
from fedrec_auditor.reports.writers.files import CSV_TABLE_NAMES, format_csv_table
from fedrec_auditor.reports.writers.svg import make_svg_text
from tests.reports.conftest import sample, vary
from tests.reports.documents.test_catalogue import ROWS
from tests.reports.documents.test_catalogue import TABLES as CELLS
from tests.reports.printing import capture
from tests.reports.writers.test_sweep_page import SWEEPS

FOLDER = Path(__file__).with_name("approved")


def print_all(record: Record, console: Console) -> None:
    """Prints every terminal output of a record, and of a comparison with an earlier one."""
    terminal.print_audit(record, console)
    for glance in summarize_systems(record):
        terminal.print_system(record, glance, console)
    terminal.print_findings(record.findings, console)
    refuted, *rest = record.attacks
    earlier = vary(record, attacks=(vary(refuted, value=0.1, ci_low=0.0, ci_high=0.2), *rest))
    earlier = vary(earlier, findings=record.findings[:-1], plan={"quick": True})
    for gate in (Gate(FailOn.LEAK), Gate(FailOn.MEDIUM)):
        terminal.print_gate(GateOutcome.evaluate_gate(record, gate, earlier), gate, console)
    terminal.print_comparison(Comparison.compare(record, earlier), console)
    terminal.print_details_command(record, Path("run"), console)


def _unstyled(page: str) -> str:
    return re.sub("<style>.*?</style>", "", page, flags=re.DOTALL)


def render_all(record: Record) -> dict[str, str]:
    """Output of every writer by file name; pages without their styles."""
    with mock.patch.object(links, "_find_site", return_value="https://docs.example"):
        return _written(record)


def _written(record: Record) -> dict[str, str]:
    return {
        "report.html": _unstyled(html.render_html(record)),
        "report.md": markdown.render_markdown(record),
        "junit.xml": ci.render_junit(record, Gate(FailOn.LEAK)).decode(),
        "report.sarif": ci.render_sarif(record).decode(),
        "figures.txt": "\n".join(
            f"{each.name}: {each.alt_text}" for each in draw_all_figures(record)
        ),
        "log.txt": f"{record}\n{record!r}\n",
        "terminal.txt": capture(lambda console: print_all(record, console), width=100),
        "sweep.html": _unstyled(SWEEPS[1].page()),
        "sweep.txt": "".join(
            capture(
                lambda console, swept=swept: terminal.print_sweep_tables(swept, console), width=160
            )
            for swept in SWEEPS
        ),
        "frontier.svg": make_svg_text(SWEEPS[2].figure()),
        "catalogue.md": markdown.format_document(build_catalogue_document(ROWS, CELLS)),
        "catalogue.txt": "".join(
            capture(lambda console: terminal.print_catalogue(ROWS, console), terminal=tty)
            for tty in (True, False)
        ),
        **{f"{name}.csv": format_csv_table(record, name) for name in CSV_TABLE_NAMES},
    }


def test_outputs_are_those_approved(record: Record) -> None:
    approved = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    found = render_all(record)
    assert found.keys() == approved.keys()
    for name, text in found.items():
        assert text == approved[name], name


if __name__ == "__main__":
    for name, text in render_all(sample()).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
