"""The catalogue as text, in columns and as a page."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from fedrec_auditor.accountants.statements import (
    Basis,
    Bound,
    Claim,
    Horizon,
    Side,
    StatementKind,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import LabelEnum, NumberLabel, Verdict
from fedrec_auditor.reports.documents import catalogue
from fedrec_auditor.reports.documents.catalogue import CatalogueRow, StatedNumber
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import format_4_digits, format_limits, format_settings
from fedrec_auditor.reports.writers.terminal import print_catalogue, print_sections
from tests.reports.conftest import vary
from tests.reports.printing import capture

SCOPE = make_local_scope(Unit.RATING, Vantage.SERVER, Horizon.ROUND)
PAPER = catalogue.PaperRow(
    title="A paper",
    place="section 1",
    adversary="the server",
    trusted="the device",
    symbols={"z": "a multiplier", "T": "rounds"},
)


def figure(right: float, holds: bool) -> StatedNumber:
    word = NumberLabel.RIGHT if holds else NumberLabel.WRONG
    return StatedNumber(
        what="a|b", claimed=1.0, right=right, below=False, word=word, how="counting"
    )


ROW = CatalogueRow(
    number="3b", heading=3, paper=PAPER, kind=StatementKind.PRIVACY, basis=Basis.PRINTED,
    target="fmf-ldp", settings={"reports": 250}, n_users=943, n_items=1682,
    statement="A statement that is about as long as the longest that a table has to hold.",
    source="section 1", scope=None, delta=None, claimed="x | y", claimed_epsilon=None,
    provable="z", proved_epsilon=None, proof="", exact_lower_epsilon=None, verdict=None,
    arithmetic=NumberLabel.WRONG, reason="Because.", finding=None, repaired=None,
    figures=(figure(2.0, False), figure(1.0, True)), repaired_settings=None,
)  # fmt: skip


def row(**changes: Any) -> CatalogueRow:
    return CatalogueRow(**(dict(ROW) | changes))


def derived_row(**changes: Any) -> CatalogueRow:
    words = {"verdict": Verdict.NO_CLAIM, "arithmetic": NumberLabel.UNSTATED}
    return row(basis=Basis.DERIVED, claimed_epsilon=1.0, **words, **changes)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, None, "unknown"),
        (None, math.inf, "not bounded"),
        (None, 2.0, "≤ 2"),
        (1.5, math.inf, "≥ 1.5"),
        (1.5, None, "≥ 1.5"),
        (math.inf, math.inf, "∞"),
        (2.9168, 4.1798, "2.916 to 4.18"),
        (5000.0, 5000.000000001, "5,000"),
        (1682e4, 1682e4, "16,820,000"),
    ],
)
def test_limits_of_an_epsilon(lower: float | None, upper: float | None, expected: str) -> None:
    assert format_limits(lower, upper) == expected


def test_numbers_are_short() -> None:
    assert [format_4_digits(x) for x in (3.13884, 12500.0, -math.inf, 2.5e9, 0.0)] == [
        "3.139",
        "12,500",
        "−∞",
        "2.500e+09",
        "0",
    ]


def test_settings_print_as_command_line_options() -> None:
    settings = {"as_published": False, "protection": {"name": "laplace", "epsilon": 3.0}}
    expected = "--set as_published=false --set protection=laplace --set protection.epsilon=3.0"
    assert format_settings(settings) == expected
    assert catalogue.format_command(row(n_users=30)) == (
        "auditor claims fmf-ldp --set reports=250 --users 30 --items 1682"
    )


def print_list(
    terminal: bool, *rows: CatalogueRow, width: int = 140, only: tuple[LabelEnum, ...] = ()
) -> str:
    return capture(
        lambda console: print_catalogue(rows, console, only), width=width, terminal=terminal
    )


@pytest.mark.parametrize("width", [50, 80, 160])
def test_a_terminal_is_filled_and_no_word_is_cut(width: int) -> None:
    long = row(
        number="12b",
        target="fedlightgcn-apm",
        verdict=Verdict.UNSUBSTANTIATED,
        claimed="the epsilon of Kasiviswanathan's composition of subsampled Gaussians",
    )
    text = print_list(True, row(), long, width=width)
    assert max(map(len, text.splitlines())) <= width
    words = [*long.statement.split(), *long.claimed.split(), *PAPER.title.split(), "12b", "wrong"]
    assert set(words) <= set(text.split())


@pytest.mark.parametrize("terminal", [True, False])
def test_entries_left_out_are_counted(terminal: bool) -> None:
    rows = [row(), row(number="12", verdict=Verdict.VIOLATED, arithmetic=None)]
    text = " ".join(print_list(terminal, *rows, only=(Verdict.VIOLATED,)).split())
    assert "3b" not in text
    assert "1 printed statement: 1 false. Hidden by --only false: 1 printed" in text
    assert "Hidden by --only no-claim: 2 printed" in " ".join(
        print_list(terminal, *rows, only=(Verdict.NO_CLAIM,)).split()
    )


def print_rows(*rows: CatalogueRow, terminal: bool, width: int = 80) -> str:
    def render(console: Console) -> None:
        print_sections(map(catalogue.build_entry_section, rows), console)

    return capture(render, terminal=terminal, width=width)


@pytest.mark.parametrize("width", [80, 160])
def test_an_entry_begins_with_its_verdict_and_is_indented(width: int) -> None:
    lines = print_rows(row(reason="A reason. " * 40), terminal=True, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "3b fmf-ldp: wrong"
    assert lines[1].startswith("  The statement is wrong: it misleads whoever relies on it")
    why = next(
        place for place, line in enumerate(lines) if line.startswith("  Reason:          A reason")
    )
    assert lines[why + 1].startswith((" " * 19 + "A reason", " " * 19 + "reason"))


def test_derived_entries_are_labelled_and_name_no_author() -> None:
    apart = vary(figure(2.0, False), word=NumberLabel.UNSTATED)
    derived = derived_row(figures=(apart,), finding=finding(Verdict.NO_CLAIM, basis=Basis.DERIVED))
    full = " ".join(print_rows(derived, terminal=False).split())
    brief = print_list(False, derived)
    assert full.startswith("3b fmf-ldp: no claim, numbers not stated, derived")
    assert "Nobody states this" in full
    assert "Reading: A statement" in full
    assert "Derived: 1; Computed here: 2" in full
    assert "derived x | y (1)" in brief
    for expected in (full, brief):
        assert not re.search(r"\bPaper 1|misled|wrong|false|[Cc]laimed:| claimed x", expected)


@pytest.mark.parametrize("word", [{"verdict": Verdict.VIOLATED}, {"arithmetic": NumberLabel.WRONG}])
def test_derived_rows_cannot_be_labelled_false(word: dict[str, LabelEnum]) -> None:
    with pytest.raises(ValidationError, match="Expected no refutation of derived entry 3b"):
        row(**{"basis": Basis.DERIVED, "arithmetic": None, **word})


def finding(verdict: Verdict, **changes: Any) -> Finding:
    """A finding with this verdict: by default a claim of 1 and a lower bound of 3."""
    basis = changes.pop("basis", Basis.PRINTED)
    claim = Claim(epsilon=1.0, scope=SCOPE, statement="s", source="p", basis=basis)
    bounds = {"accounted": bound(3.0, Side.UPPER), "measured": bound(3.0, Side.LOWER)} | changes
    return vary(Finding.from_bounds("t", claim, SCOPE, delta=0.0, **bounds), verdict=verdict)


def bound(epsilon: float, side: Side) -> Bound:
    return Bound(epsilon=epsilon, side=side, scope=SCOPE, source="a law")


def vary_figure(**changes: Any) -> tuple[StatedNumber, ...]:
    return (vary(figure(2.00003, False), **changes),)


below = tuple(vary(figure(x, x < 1.0), below=True) for x in (0.5, 0.6, 5.0))
loose = {"claimed": math.inf, "right": 1.0, "word": NumberLabel.LOOSE}
far = finding(Verdict.VIOLATED)
computed = finding(Verdict.VIOLATED, basis=Basis.COMPUTED)
SET = {"as_published": False}
# An entry of every kind; its comment or key says which part of the text it shows.
ROWS = (
    row(),
    row(number="3c", repeats="3b"),
    row(number="a statement counts once, a typo apart", kind=StatementKind.TYPO),
    row(number="wrong numbers first", figures=(figure(2.0, False), *[figure(1.0, True)] * 7)),
    row(number="symbols of listed numbers", figures=vary_figure(how="over T rounds")),
    row(number="from above", figures=vary_figure(side=Side.UPPER)),
    row(number="from below", figures=vary_figure(side=Side.LOWER)),
    row(number="where a comparison holds", figures=below),
    row(number="no infinite claim", figures=vary_figure(**loose), arithmetic=NumberLabel.LOOSE),
    row(number="far settings", finding=far, computed_at="at a rate of 1e-15"),
    row(
        number="ours",
        claimed_epsilon=2.0,
        basis=Basis.COMPUTED,
        finding=computed,
        verdict=Verdict.VIOLATED,
    ),
    row(number="unproved", verdict=Verdict.UNSUBSTANTIATED, repaired=far, repaired_settings=SET),
    derived_row(number="derived", finding=finding(Verdict.NO_CLAIM, basis=Basis.DERIVED)),
)
CELL = catalogue.EpsilonTableRow(
    table=3, clients=30, n_users=4800, delta=1e-6, printed=16.6081, counted=16.6081,
    lower=1.2976, upper=1.5244,
)  # fmt: skip
TABLES = (catalogue.EpsilonTables(title="Tables", note="A note.", rows=(CELL,)),)
