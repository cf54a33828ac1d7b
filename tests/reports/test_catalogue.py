"""What the catalogue says in words, in columns and as a page."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.reports import catalogue_markdown as catalogue_markdown
from fedrec_auditor.reports import catalogue_terminal as catalogue_terminal
from fedrec_auditor.reports.catalogue import CatalogueRow, Figure, TableRow
from fedrec_auditor.reports.words import between, command_words, settings_words, short


def row(**changes: Any) -> CatalogueRow:
    values: dict[str, Any] = {
        "number": "3b",
        "heading": 3,
        "target": "fmf-ldp",
        "settings": {"reports": 250},
        "n_users": 943,
        "n_items": 1682,
        "statement": "A statement that is about as long as the longest that a table has to hold.",
        "source": "A paper, section 1",
        "scope": None,
        "delta": None,
        "claimed": "x | y",
        "claimed_epsilon": None,
        "provable": "z",
        "proved_epsilon": None,
        "proof": "",
        "exact_lower_epsilon": None,
        "verdict": None,
        "arithmetic": Arithmetic.WRONG,
        "reason": "Because.",
        "finding": None,
        "figures": (figure(2.0, False), figure(1.0, True)),
        "repaired_settings": None,
        "repaired": None,
        "demonstration": "a-demonstration",
    }
    return CatalogueRow(**(values | changes))


def figure(right: float, holds: bool) -> Figure:
    word = Arithmetic.RIGHT if holds else Arithmetic.WRONG
    return Figure(what="a|b", claimed=1.0, right=right, below=False, word=word, how="counting")


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (None, None, "unknown"),
        (None, math.inf, "not bounded"),
        (None, 2.0, "≤ 2"),
        (1.5, math.inf, "≥ 1.5"),
        (1.5, None, "≥ 1.5"),
        (math.inf, math.inf, "∞"),
        (2.9168, 4.1798, "2.917 to 4.18"),
        (5000.0, 5000.000000001, "5000"),
        (1682e4, 1682e4, "16,820,000"),
    ],
)
def test_what_is_known_of_an_epsilon(lower: float | None, upper: float | None, said: str) -> None:
    assert between(lower, upper) == said


def test_numbers_are_short() -> None:
    assert [short(x) for x in (3.13884, 12500.0, -math.inf, 2.5e9, 0.0)] == [
        "3.139",
        "12,500",
        "−∞",
        "2.500e+09",
        "0",
    ]


def test_settings_are_said_as_the_command_line_takes_them() -> None:
    settings = {"as_published": False, "protection": {"name": "laplace", "epsilon": 3.0}}
    said = "--set as_published=false --set protection=laplace --set protection.epsilon=3.0"
    assert settings_words(settings) == said
    assert command_words(row(n_users=30)) == (
        "auditor account fmf-ldp --set reports=250 --users 30 --items 1682"
    )


def printed(terminal: bool, *rows: CatalogueRow) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=140, no_color=True)
    catalogue_terminal.render_catalogue(rows, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_gets_a_table_of_100_columns_and_a_pipe_one_line_an_entry() -> None:
    rows = [row(), row(number="12", target="fedlightgcn-apm", verdict=Verdict.UNSUBSTANTIATED)]
    plain = [line.split("\x1b")[0] for line in printed(True, *rows).splitlines()]
    assert max(map(len, plain)) <= 100
    lines = printed(False, *rows).splitlines()
    assert len(lines) == 2
    assert "claimed x | y (1); holds z (2); " in printed(False, row(figures=[figure(2.0, False)]))
    assert lines[0].startswith("3b fmf-ldp: A statement")
    assert lines[0].endswith("claimed x | y; holds z; verdict WRONG")


def test_an_entry_in_full_says_both_kinds_of_numbers() -> None:
    parts = dict(catalogue_terminal.derivation(row()))
    assert parts["Number"].endswith("(agrees; counting)")
    assert parts["Demonstration"].endswith("auditor run fmf-ldp --only claims")
    assert catalogue_terminal.counts([row(), row()]) == "2 entries: 2 WRONG."


def test_a_page_has_a_row_and_a_section_an_entry_and_the_tables() -> None:
    cell = TableRow(
        table=3,
        clients=30,
        n_users=4800,
        delta=1e-6,
        printed=16.6081,
        counted=16.6081,
        lower=1.2976,
        upper=1.5244,
    )
    page = catalogue_markdown.render([row()], [cell])
    assert "| [3b](#3b) | `fmf-ldp` | " in page
    assert "## 3b. fmf-ldp: WRONG" in page
    assert "| a\\|b | 1 | 2 |" in page
    assert "1 more agrees." in page
    assert "| 3 | 30 / 4800 | 1e-06 | 16.6081 | 16.6081 | 1.298 to 1.524 |" in page
    assert all(len(line.split(" | ")) == 6 for line in page.splitlines() if "[3b]" in line)
