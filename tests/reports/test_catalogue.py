"""What the catalogue says in words, in columns and as a page."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports import markdown
from fedrec_auditor.reports.catalogue import (
    CatalogueRow,
    EpsilonTables,
    Figure,
    PaperRow,
    TableRow,
    catalogue_document,
    claimed_words,
    command_words,
    counts,
    entry_part,
    plain_words,
)
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.say import between, settings_words, short
from fedrec_auditor.reports.terminal import render_catalogue, write_parts
from tests.reports.conftest import vary
from tests.reports.printing import printed

SCOPE = any_pair(Unit.RATING, Vantage.SERVER, Horizon.ROUND)
PAPER = PaperRow(
    title="A paper",
    place="section 1",
    adversary="the server",
    trusted="the device",
    symbols={"z": "a multiplier", "T": "rounds"},
)


def figure(right: float, holds: bool) -> Figure:
    word = Arithmetic.RIGHT if holds else Arithmetic.WRONG
    return Figure(what="a|b", claimed=1.0, right=right, below=False, word=word, how="counting")


ROW = CatalogueRow(
    number="3b", heading=3, paper=PAPER, kind=StatementKind.PRIVACY, basis=Basis.PRINTED,
    target="fmf-ldp", settings={"reports": 250}, n_users=943, n_items=1682,
    statement="A statement that is about as long as the longest that a table has to hold.",
    source="section 1", scope=None, delta=None, claimed="x | y", claimed_epsilon=None,
    provable="z", proved_epsilon=None, proof="", exact_lower_epsilon=None, verdict=None,
    arithmetic=Arithmetic.WRONG, reason="Because.", finding=None, repaired=None,
    figures=(figure(2.0, False), figure(1.0, True)), repaired_settings=None,
)  # fmt: skip


def row(**changes: Any) -> CatalogueRow:
    return CatalogueRow(**(dict(ROW) | changes))


def derived_row(**changes: Any) -> CatalogueRow:
    words = {"verdict": Verdict.NO_CLAIM, "arithmetic": Arithmetic.UNSTATED}
    return row(basis=Basis.DERIVED, claimed_epsilon=1.0, **words, **changes)


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
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
        "auditor claims fmf-ldp --set reports=250 --users 30 --items 1682"
    )


def listed(
    terminal: bool, *rows: CatalogueRow, width: int = 140, only: tuple[Word, ...] = ()
) -> str:
    return printed(
        lambda console: render_catalogue(rows, console, only), width=width, terminal=terminal
    )


@pytest.mark.parametrize("width", [50, 80, 160])
def test_a_terminal_is_filled_and_no_word_is_cut(width: int) -> None:
    long = row(
        number="12b",
        target="fedlightgcn-apm",
        verdict=Verdict.UNSUBSTANTIATED,
        claimed="the epsilon of Kasiviswanathan's composition of subsampled Gaussians",
    )
    text = listed(True, row(), long, width=width)
    assert max(map(len, text.splitlines())) <= width
    words = [*long.statement.split(), *long.claimed.split(), *PAPER.title.split(), "12b", "wrong"]
    assert set(words) <= set(text.split())


def test_a_pipe_gets_one_line_an_entry_and_how_many_there_are() -> None:
    rows = [row(), row(number="12", target="fedlightgcn-apm", verdict=Verdict.UNSUBSTANTIATED)]
    lines = listed(False, *rows).splitlines()
    assert len(lines) == 3
    assert "claimed x | y (1); holds z (2); " in listed(False, row(figures=[figure(2.0, False)]))
    assert lines[0].startswith("3b fmf-ldp: A statement")
    assert lines[0].endswith("claimed x | y; holds z; wrong")
    assert lines[1].endswith("holds z; unproved, numbers wrong")
    assert lines[2] == "2 printed statements: 1 unproved, 2 wrong."


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_not_asked_for_is_counted(terminal: bool) -> None:
    rows = [row(), row(number="12", verdict=Verdict.VIOLATED, arithmetic=None)]
    text = " ".join(listed(terminal, *rows, only=(Verdict.VIOLATED,)).split())
    assert "3b" not in text
    assert "1 printed statement: 1 false. Hidden, as --only violated asks: 1 printed" in text
    assert "Hidden, as --only no-claim asks: 2 printed" in " ".join(
        listed(terminal, *rows, only=(Verdict.NO_CLAIM,)).split()
    )


def shown(*rows: CatalogueRow, terminal: bool, width: int = 80) -> str:
    def render(console: Console) -> None:
        write_parts(map(entry_part, rows), console)

    return printed(render, terminal=terminal, width=width)


@pytest.mark.parametrize("width", [80, 160])
def test_an_entry_hangs_and_says_first_what_its_verdict_means(width: int) -> None:
    lines = shown(row(reason="A reason. " * 40), terminal=True, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "3b fmf-ldp: wrong"
    assert lines[1].startswith("  The statement is wrong: whoever relies on it is misled")
    why = next(
        place for place, line in enumerate(lines) if line.startswith("  Why:             A reason")
    )
    assert lines[why + 1].startswith((" " * 19 + "A reason", " " * 19 + "reason"))


def test_an_entry_in_full_says_both_kinds_of_numbers() -> None:
    text = " ".join(shown(row(), terminal=False).split())
    assert "- a|b: Paper 1; Here 2; Agrees no; How counting" in text
    assert "- a|b: Paper 1; Here 1; Agrees yes; How counting" in text
    computed = row(basis=Basis.COMPUTED, verdict=Verdict.VIOLATED)
    assert counts([row(), row(number="4"), computed, derived_row()]) == (
        "2 printed statements: 2 wrong. 1 computed statement: 1 false, 1 wrong. "
        "1 derived statement: 1 no claim, 1 not stated."
    )


def test_what_is_derived_is_called_so_and_accuses_nobody() -> None:
    apart = vary(figure(2.0, False), word=Arithmetic.UNSTATED)
    derived = derived_row(figures=(apart,), finding=finding(Verdict.NO_CLAIM, basis=Basis.DERIVED))
    full = " ".join(shown(derived, terminal=False).split())
    brief = listed(False, derived)
    assert full.startswith("3b fmf-ldp: no claim, numbers not stated, derived")
    assert "Nobody states this" in full
    assert "Reading: A statement" in full
    assert "Derived 1; Here 2" in full
    assert "derived x | y (1)" in brief
    for said in (full, brief):
        assert not re.search(r"\bPaper 1|misled|wrong|false|[Cc]laimed:| claimed x", said)


@pytest.mark.parametrize("word", [{"verdict": Verdict.VIOLATED}, {"arithmetic": Arithmetic.WRONG}])
def test_no_row_that_is_derived_can_accuse(word: dict[str, Word]) -> None:
    with pytest.raises(ValidationError, match="entry 3b is derived"):
        row(**{"basis": Basis.DERIVED, "arithmetic": None, **word})


def test_a_statement_counts_once_and_a_typo_is_told_apart() -> None:
    again = row(number="3c", repeats="3b")
    typo = row(number="4", kind=StatementKind.TYPO)
    assert counts([row(), again, typo]) == (
        "2 printed statements, in 3 entries: 2 wrong (1 privacy, 1 typo)."
    )


def test_a_page_has_a_row_and_a_section_an_entry_and_the_tables() -> None:
    cell = TableRow(
        table=3, clients=30, n_users=4800, delta=1e-6, printed=16.6081, counted=16.6081,
        lower=1.2976, upper=1.5244,
    )  # fmt: skip
    tables = [EpsilonTables(title="Tables", note="A note.", rows=(cell,))]
    page = markdown.write(catalogue_document([row()], tables))
    assert "| 3b | fmf-ldp | " in page
    assert '<a id="3b"></a>\n\n## 3b fmf-ldp: wrong\n' in page
    assert "| a\\|b | 1 | 2 | no | counting |" in page
    assert "1 more agrees." not in page
    assert (
        "The statement is wrong: whoever relies on it is misled about a user's privacy. In "
        "numbers, a\\|b: 1 by its statement, 2 computed here." in page
    )
    assert "- **Assumed**: against the server; trusted: the device (section 1)" in page
    assert "Symbols: z: a multiplier; T: rounds" in page
    assert "| 3 | 30 / 4800 | 1e-06 | 16.6081 | 16.6081 | 1.297 to 1.525 |" in page
    assert all(len(line.split(" | ")) == 7 for line in page.splitlines() if "| 3b |" in line)


def test_of_many_numbers_those_that_are_wrong_are_listed() -> None:
    many = row(figures=(figure(2.0, False), *(figure(1.0, True) for _ in range(7))))
    text = shown(many, terminal=False)
    assert text.count("- a|b") == 1
    assert "7 more agree." in text
    assert "7 more agree." in markdown.write(catalogue_document([many], ()))


def test_symbols_that_an_entry_uses_are_explained() -> None:
    """Those in the numbers that it lists, too."""
    assert row().symbols == {"z": "a multiplier"}
    counted = vary(figure(2.0, False), how="over T rounds")
    assert row(figures=(counted,)).symbols == PAPER.symbols
    assert "  Symbol:          z: a multiplier\n" in shown(row(), terminal=False)


def finding(verdict: Verdict, **changes: Any) -> Finding:
    """A claim of 1 against a bound of 3, or whatever ``changes`` say, with this verdict."""
    basis = changes.pop("basis", Basis.PRINTED)
    claim = Claim(epsilon=1.0, scope=SCOPE, statement="s", source="p", basis=basis)
    bounds = {"accounted": bound(3.0, Side.UPPER), "measured": bound(3.0, Side.LOWER)} | changes
    return vary(Finding.of("t", claim, SCOPE, delta=0.0, **bounds), verdict=verdict)


def bound(epsilon: float, side: Side) -> Bound:
    return Bound(epsilon=epsilon, side=side, scope=SCOPE, source="a law")


@pytest.mark.parametrize(
    ("side", "said"),
    [
        (None, "1 by its statement, 2.00003 computed here"),
        (Side.UPPER, "1 by its statement, at most 2.001 computed here"),
        (Side.LOWER, "1 by its statement, at least 2 computed here"),
    ],
)
def test_a_bound_is_not_passed_off_as_the_number(side: Side | None, said: str) -> None:
    one = vary(figure(2.00003, False), side=side)
    exactly = said.replace("2.00003", "2")
    assert exactly in plain_words(row(figures=(one,)))
    assert f"Here {said.split(', ')[1].removesuffix(' computed here')}; Agrees no" in shown(
        row(figures=(one,)), terminal=False
    )


def test_a_comparison_says_first_where_it_holds() -> None:
    below = {"below": True}
    figures = (figure(0.5, True), figure(0.6, True), figure(5.0, False))
    compared = row(figures=[vary(each, **below) for each in figures])
    assert "It holds at 2 of 3 settings. In numbers, a|b: below 1" in plain_words(compared)


def test_what_is_above_what_is_promised_is_no_infinite_claim() -> None:
    loose = vary(figure(1.0, True), claimed=math.inf, word=Arithmetic.LOOSE)
    assert "no bound by its statement, 1 computed" in plain_words(
        row(figures=(loose,), arithmetic=Arithmetic.LOOSE)
    )
    assert claimed_words(row(figures=(loose,))) == "x | y (no bound)"


def test_settings_far_from_the_papers_stand_in_the_headline() -> None:
    said = plain_words(row(finding=finding(Verdict.VIOLATED), computed_at="at a rate of 1e-15"))
    assert "time. Computed at a rate of 1e-15. A number" in said


def test_a_figure_of_ours_is_not_passed_off_as_the_papers() -> None:
    judged = finding(Verdict.VIOLATED, basis=Basis.COMPUTED)
    said = claimed_words(row(claimed_epsilon=2.0, basis=Basis.COMPUTED, finding=judged))
    assert said == "x | y (2, their formula, computed here)"
