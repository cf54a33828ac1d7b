"""The catalogue in the terminal: blocks, a table or plain lines; and an entry in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports.catalogue import CatalogueRow, EpsilonTables
from fedrec_auditor.reports.catalogue_words import (
    assumed_words,
    claimed_words,
    command_words,
    holds_words,
    plain_words,
    rest_words,
    right_words,
    stated_words,
)
from fedrec_auditor.reports.paragraph import print_line, print_paragraph, width_of
from fedrec_auditor.reports.words import (
    STYLES,
    counted,
    found_words,
    number,
    printable,
    scope_words,
    short,
    short_least,
    short_most,
)

if TYPE_CHECKING:
    from rich.console import Console

_TABLE = 120
"""Columns from which a table is easier to read than blocks."""
_HANG = 11
"""Columns of the longest name of an entry's parts, and blanks."""
_VERDICT = max(map(len, (*Verdict, *Arithmetic))) + 1
_AGREES = {Arithmetic.RIGHT: "agrees", Arithmetic.LOOSE: "loose", Arithmetic.WRONG: "wrong"}


def render_catalogue(
    rows: Sequence[CatalogueRow], console: Console, only: Collection[Word] = ()
) -> None:
    """Print the entries paper by paper, in the order of their numbers, then how many of each kind.

    On a terminal a block an entry, or a line of a table if it is wide; elsewhere a plain line. Of
    ``only`` some words, entries that have one of them; how many are hidden is said.
    """
    shown = [row for row in rows if row.is_any_of(only)]
    width = width_of(console)
    if not console.is_terminal:
        for row in shown:
            said = f"{row.number} {row.target}: {row.statement} claimed {claimed_words(row)}"
            print_line(console, f"{said}; holds {holds_words(row)}; verdict {row.judgement}")
    elif width >= _TABLE:
        _render_table(shown, console, width)
    else:
        _render_blocks(shown, console)
    told = [counts(shown)] if shown else []
    if only:
        kept = " --only ".join(word.lower().replace(" ", "-") for word in only)
        hidden = [row for row in rows if row not in shown]
        told.append(f"Hidden, as --only {kept} asks: {counts(hidden) or 'none.'}")
    if shown and console.is_terminal:
        told.append(f"An entry in full: `auditor claims {shown[0].number}`.")
    print_paragraph(" ".join(told), console)


def _render_blocks(rows: Sequence[CatalogueRow], console: Console) -> None:
    from rich.text import Text

    for title, group in groupby(rows, key=lambda row: row.paper.title):
        print_paragraph(title, console, style="bold")
        for row in group:
            head = Text(f"  {row.number:<5}{row.judgement:<{_VERDICT}} ", style=_style(row))
            console.print(head.append(printable(row.target), style="default not bold"))
            print_paragraph(row.statement, console, indent=7)
            said = f"claimed {claimed_words(row)}; holds {holds_words(row)}"
            print_paragraph(said, console, indent=7, style="dim")
        console.print()


def _render_table(rows: Sequence[CatalogueRow], console: Console, width: int) -> None:
    """A table a paper, all of the same columns, wide enough for the longest of their words."""
    from rich.table import Table
    from rich.text import Text

    cells = [(row.number, row.target, *_said(row)) for row in rows]
    number, target = (max((len(each[k]) for each in cells), default=0) for k in (0, 1))
    left = width - number - target - _VERDICT - 10
    claimed = holds = left * 3 // 10
    for title, group in groupby(rows, key=lambda row: row.paper.title):
        table = Table.grid(padding=(0, 2, 0, 0))
        for column in (number, _VERDICT, target, left - claimed - holds, claimed, holds):
            table.add_column(width=column)
        heads = ("No.", "Verdict", "Target", "Statement", "Claimed", "Holds")
        table.add_row(*(Text(head, style="dim") for head in heads))
        for row in group:
            verdict = Text(row.judgement.replace(", ", ",\n"), style=_style(row))
            said = (Text(printable(cell)) for cell in _said(row))
            table.add_row(row.number, verdict, Text(printable(row.target)), *said)
        print_paragraph(title, console, style="bold")
        console.print(table)
        console.print()


def render_entry(row: CatalogueRow, console: Console) -> None:
    """Print one entry: what its verdict means, then the numbers, then how they were found."""
    print_line(console, f"{row.number} {row.target} {row.judgement}", style=_style(row) or "bold")
    print_paragraph(plain_words(row), console, indent=2)
    for heading, parts in entry_parts(row):
        if console.is_terminal:
            print_line(console, f"  {heading}", style="bold")
        for name, text in parts:
            print_paragraph(text, console, label=name, indent=2, hang=_HANG)
    if console.is_terminal:
        console.print()


def _style(row: CatalogueRow) -> str:
    word = row.verdict or row.arithmetic
    return "" if word is None else STYLES[word]


def _said(row: CatalogueRow) -> tuple[str, str, str]:
    return row.statement, claimed_words(row), holds_words(row)


def render_tables(tables: Sequence[EpsilonTables], console: Console) -> None:
    """Print tables of epsilons beside the counting that gives them, and the truth."""
    for row in chain.from_iterable(table.rows for table in tables):
        print_line(
            console,
            f"Table {row.table}, q = {row.clients}/{row.n_users}, delta {number(row.delta)}: "
            f"printed {row.printed:.4f}; counted as printed {row.counted:.4f}; "
            f"holds {short_least(row.lower)} to {short_most(row.upper)}",
        )


def entry_parts(row: CatalogueRow) -> tuple[tuple[str, list[tuple[str, str]]], ...]:
    """An entry's named parts below headings, in the order in which a reader asks for them."""
    return (
        ("The statement", list(_stated(row))),
        ("The numbers", list(_numbers(row))),
        ("How they follow", list(_derivation(row))),
    )


def _stated(row: CatalogueRow) -> Iterable[tuple[str, str]]:
    yield "Claim", row.statement
    yield "Source", f"{row.paper.title}, {row.source} ({row.kind}, {row.basis})"


def _numbers(row: CatalogueRow) -> Iterable[tuple[str, str]]:
    yield "Claimed", claimed_words(row)
    yield "Holds", holds_words(row)
    if row.finding is not None:
        accounted, measured = row.finding.accounted, row.finding.measured
        if accounted is not None:
            yield "Proved", f"at most {number(accounted.told)}, by {accounted.source}"
        if measured is not None:
            yield "Shown", f"at least {number(measured.told)}, by {measured.source}"
    hows = [figure.how for figure in row.listed_figures]
    for place, figure in enumerate(row.listed_figures):
        how = "as before" if place and hows[place - 1] == figure.how else figure.how
        yield (
            "Number",
            f"{figure.what}: paper {stated_words(figure, number)}, "
            f"here {right_words(figure, number)} ({_AGREES[figure.word]}; {how})",
        )
    if rest := rest_words(row):
        yield "Number", rest.strip()
    if row.repaired is not None and row.repaired_settings is not None:
        settings = ", ".join(f"{name} = {value}" for name, value in row.repaired_settings.items())
        yield (
            "Repaired",
            f"with {settings} the claim is {short(row.repaired.claim.epsilon)}, and "
            f"{found_words(row.repaired)} holds: {row.repaired.verdict}",
        )


def _derivation(row: CatalogueRow) -> Iterable[tuple[str, str]]:
    yield "Why", row.reason
    for name, meaning in row.symbols.items():
        yield "Symbol", f"{name}: {meaning}"
    if row.scope is not None:
        yield "Scope", scope_words(row.scope)
    yield "Assumed", assumed_words(row)
    if row.finding is not None:
        yield "As judged", row.finding.claim.statement
    if row.verdict is not None and row.finding is not None:
        yield "Verdict", f"{row.verdict}. {row.finding.reason}"
    if row.arithmetic is not None:
        yield "Numbers", f"{row.arithmetic}. {row.arithmetic.meaning}"
    if row.demonstration is not None:
        yield "Watch it", f"{row.shown_by} (demonstration {row.demonstration})"
    yield "Ask again", command_words(row)


def counts(rows: Sequence[CatalogueRow]) -> str:
    """How many statements have which verdict: what is printed first, then what is derived.

    Entries on one statement count once. Those about something else than privacy are told apart.
    """
    order: list[Word] = [*Verdict, *Arithmetic]
    said = []
    for basis in Basis:
        mine = [row for row in rows if row.basis is basis]
        kinds: dict[str, dict[str, StatementKind]] = {}
        for row in mine:
            for word in row.judgement.split(", "):
                kinds.setdefault(word, {})[row.repeats or row.number] = row.kind
        if mine:
            words = ", ".join(_count(word, kinds[word]) for word in order if word in kinds)
            several = len({row.repeats or row.number for row in mine})
            entries = f", in {len(mine)} entries" if several < len(mine) else ""
            said.append(f"{counted(several, f'{basis} statement')}{entries}: {words}.")
    return " ".join(said)


def _count(word: Word, kinds: Mapping[str, StatementKind]) -> str:
    tally = Counter(kinds.values())
    apart = [f"{tally[kind]} {kind}" for kind in StatementKind if kind in tally]
    known = f" ({', '.join(apart)})" if set(tally) - {StatementKind.PRIVACY} else ""
    return f"{len(kinds)} {word}{known}"
