"""What the catalogue says in words, in columns and as a page."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.reports import catalogue_markdown as catalogue_markdown
from fedrec_auditor.reports import catalogue_terminal as catalogue_terminal
from fedrec_auditor.reports.catalogue import CatalogueRow, Figure, PaperRow, TableRow
from fedrec_auditor.reports.catalogue_words import claimed_words, command_words, plain_words
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.words import between, settings_words, short

SCOPE = any_pair(Unit.RATING, Vantage.SERVER, Horizon.ROUND)
PAPER = PaperRow(
    title="A paper",
    place="section 1",
    adversary="the server",
    trusted="the device",
    symbols={"z": "a multiplier", "T": "rounds"},
)


def row(**changes: Any) -> CatalogueRow:
    values: dict[str, Any] = {
        "number": "3b",
        "heading": 3,
        "paper": PAPER,
        "kind": StatementKind.PRIVACY,
        "basis": Basis.PRINTED,
        "target": "fmf-ldp",
        "settings": {"reports": 250},
        "n_users": 943,
        "n_items": 1682,
        "statement": "A statement that is about as long as the longest that a table has to hold.",
        "source": "section 1",
        "scope": None,
        "delta": None,
        "claimed": "x | y",
        "claimed_epsilon": None,
        "ours": False,
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
    derived = row(basis=Basis.DERIVED, verdict=Verdict.VIOLATED)
    assert catalogue_terminal.counts([row(), row(), derived]) == (
        "2 printed: 2 WRONG. 1 derived: 1 VIOLATED, 1 WRONG."
    )


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
    assert "1 more agrees." not in page
    assert "**A user who relies on the paper's number or sentence is misled.**" in page
    assert "- Assumed: against the server; trusted: the device (section 1)." in page
    assert "`z` a multiplier; `T` rounds." in page
    assert "| 3 | 30 / 4800 | 1e-06 | 16.6081 | 16.6081 | 1.298 to 1.524 |" in page
    assert all(len(line.split(" | ")) == 6 for line in page.splitlines() if "[3b]" in line)


def test_of_many_numbers_those_that_are_wrong_are_listed() -> None:
    many = row(figures=(figure(2.0, False), *(figure(1.0, True) for _ in range(7))))
    numbers = [text for name, text in catalogue_terminal.derivation(many) if name == "Number"]
    assert len(numbers) == 2
    assert numbers[1] == "7 more agree."
    assert "7 more agree." in catalogue_markdown.render([many], ())


def test_symbols_that_an_entry_uses_are_explained() -> None:
    assert row().symbols == {"z": "a multiplier"}
    assert dict(catalogue_terminal.derivation(row()))["Symbols"] == "z: a multiplier"


def finding(verdict: Verdict, **changes: Any) -> Finding:
    """A claim of 1 against a bound of 3, or whatever ``changes`` say, with this verdict."""
    claim = Claim(epsilon=1.0, scope=SCOPE, statement="s", source="p")
    bounds = {"accounted": bound(3.0, Side.UPPER), "measured": bound(3.0, Side.LOWER)} | changes
    return Finding.of("t", claim, SCOPE, delta=0.0, **bounds).model_copy(
        update={"verdict": verdict}
    )


def bound(epsilon: float, side: Side) -> Bound:
    return Bound(epsilon=epsilon, side=side, scope=SCOPE, source="a law")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            finding(Verdict.VIOLATED),
            "The promise is broken: epsilon 1 is promised for one rating, and it is at least 3. On "
            "the outputs that tell the most, a guess at one bit is right at least 95.3% of the "
            "time, where the promise allows up to 73.1% of the time.",
        ),
        (
            finding(Verdict.VIOLATED, measured=bound(math.inf, Side.LOWER)),
            "and none holds. On the outputs that tell the most, a guess at one bit is right every",
        ),
        (
            finding(Verdict.CONSISTENT, accounted=bound(0.5, Side.UPPER), measured=None),
            "The promise holds: epsilon 1 is promised for one rating, and 0.5 is proved. That "
            "allows a guess at one bit to be right up to 73.1% of the time.",
        ),
        (
            finding(Verdict.INCOMPARABLE),
            "Nothing is promised here for one rating: epsilon is 3. On the outputs that tell the "
            "most, a guess at one bit is right at least 95.3% of the time.",
        ),
        (
            finding(Verdict.UNSUBSTANTIATED, measured=None),
            "Open: epsilon 1 is promised for one rating, and epsilon is ≤ 3.",
        ),
        (finding(Verdict.NO_CLAIM, measured=None), "No number is promised for one rating"),
    ],
    ids=lambda found: found.verdict if isinstance(found, Finding) else "",
)
def test_a_verdict_is_said_first_in_plain_words(found: Finding, said: str) -> None:
    assert said in plain_words(row(finding=found, arithmetic=None))


def test_a_figure_of_ours_is_not_passed_off_as_the_papers() -> None:
    said = claimed_words(row(claimed_epsilon=2.0, ours=True, finding=finding(Verdict.VIOLATED)))
    assert said == "x | y (2, by the paper's formula at our settings)"
