"""The catalogue in the terminal: one table, or one plain line an entry; and an entry in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.kind import Basis
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports.catalogue import CatalogueRow, TableRow
from fedrec_auditor.reports.catalogue_words import (
    assumed_words,
    claimed_words,
    command_words,
    holds_words,
    plain_words,
    rest_words,
)
from fedrec_auditor.reports.terminal import new_table, print_line
from fedrec_auditor.reports.words import (
    STYLES,
    found_words,
    number,
    printable,
    scope_words,
    short,
)

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 100
_AGREES = {Arithmetic.RIGHT: "agrees", Arithmetic.LOOSE: "loose", Arithmetic.WRONG: "wrong"}


def render_catalogue(rows: Sequence[CatalogueRow], console: Console) -> None:
    """Print a table of at most 100 columns; without boxes and colours if not a terminal."""
    if not console.is_terminal:
        for row in rows:
            said = f"{row.number} {row.target}: {row.statement} claimed {claimed_words(row)}"
            print_line(console, f"{said}; holds {holds_words(row)}; verdict {row.judgement}")
        return
    from rich.text import Text

    table = new_table("Claims")
    table.width = min(_WIDTH, console.width)
    widths = {"No.": 4, "Target": 10, "Claim": None, "Claimed": 16, "Holds": 19, "Verdict": 15}
    for name, width in widths.items():
        table.add_column(name, overflow="fold", width=width)
    for row in rows:
        cells = (row.number, row.target, row.statement, claimed_words(row), holds_words(row))
        word = row.verdict or row.arithmetic
        style = "" if word is None else STYLES[word]
        verdict = Text(row.judgement.replace(", ", "\n"), style=style)
        table.add_row(*(Text(printable(cell)) for cell in cells), verdict)
    console.print(table)
    print_line(console, counts(rows))


def render_entry(row: CatalogueRow, console: Console) -> None:
    """Print one entry in full: the verdict first, then what was claimed, what holds and why."""
    print_line(console, f"{row.number}  {row.target}  {row.judgement}", style="bold")
    print_line(console, f"  {plain_words(row)}")
    for name, text in derivation(row):
        print_line(console, f"  {name}: {text}")


def render_tables(rows: Sequence[TableRow], console: Console) -> None:
    """Print PrivRec's Tables 3 and 4 beside the counting that gives them, and the truth."""
    for row in rows:
        print_line(
            console,
            f"Table {row.table}, q = {row.clients}/{row.n_users}, delta {number(row.delta)}: "
            f"printed {row.printed:.4f}; counted as printed {row.counted:.4f}; "
            f"holds {short(row.lower)} to {short(row.upper)}",
        )


def derivation(row: CatalogueRow) -> Iterable[tuple[str, str]]:
    """An entry's parts by name, in the order in which a reader asks for them."""
    yield "Claim", row.statement
    yield "Source", f"{row.paper.title}, {row.source} ({row.kind}, {row.basis})"
    if row.scope is not None:
        yield "Scope", scope_words(row.scope)
    yield "Assumed", assumed_words(row)
    yield "Claimed", claimed_words(row)
    yield "Holds", holds_words(row)
    if row.finding is not None:
        yield "As judged", row.finding.claim.statement
        accounted, measured = row.finding.accounted, row.finding.measured
        if accounted is not None:
            yield "Upper bound", f"{number(accounted.epsilon)}, by {accounted.source}"
        if measured is not None:
            yield "Lower bound", f"{number(measured.epsilon)}, by {measured.source}"
    for figure in row.listed_figures:
        sign = "below " if figure.below else ""
        yield (
            "Number",
            f"{figure.what}: paper {sign}{number(figure.claimed)}, "
            f"here {number(figure.right)} ({_AGREES[figure.word]}; {figure.how})",
        )
    if rest := rest_words(row):
        yield "Number", rest.strip()
    yield "Why", row.reason
    if row.symbols:
        yield "Symbols", "; ".join(f"{name}: {meaning}" for name, meaning in row.symbols.items())
    if row.verdict is not None and row.finding is not None:
        yield "Verdict", f"{row.verdict}. {row.finding.reason}"
    if row.arithmetic is not None:
        yield "Numbers", f"{row.arithmetic}. {row.arithmetic.meaning}"
    if row.repaired is not None and row.repaired_settings is not None:
        settings = ", ".join(f"{name} = {value}" for name, value in row.repaired_settings.items())
        yield (
            "Repaired",
            f"with {settings}: claimed {number(row.repaired.claim.epsilon)}, holds "
            f"{found_words(row.repaired)}: {row.repaired.verdict}",
        )
    if row.demonstration is not None:
        yield "Demonstration", f"{row.demonstration}: {row.shown_by}"
    yield "Ask again", command_words(row)


def counts(rows: Sequence[CatalogueRow]) -> str:
    """How many entries have which verdict: of what is printed first, then of what is derived."""
    order: list[Word] = [*Verdict, *Arithmetic]
    said = []
    for basis in Basis:
        words = Counter(w for row in rows if row.basis is basis for w in row.judgement.split(", "))
        if words:
            counted = ", ".join(f"{words[word]} {word}" for word in order if word in words)
            said.append(f"{sum(row.basis is basis for row in rows)} {basis}: {counted}.")
    return " ".join(said)
