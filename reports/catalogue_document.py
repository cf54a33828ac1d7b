"""The catalogue as a document: all entries in a table, and each in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports.catalogue import CatalogueRow, EpsilonTables
from fedrec_auditor.reports.catalogue_words import (
    assumed_words,
    claimed_words,
    command_words,
    figure_words,
    holds_words,
    judgement_words,
    plain_words,
    rest_words,
    right_words,
    stated_words,
)
from fedrec_auditor.reports.document import Block, Facts, Grid, Listing, Paragraph, Passage, Text
from fedrec_auditor.reports.say import say_measured, say_proved
from fedrec_auditor.reports.words import (
    CLAIMED,
    WORDS,
    counted,
    found_words,
    number,
    pair_scope_words,
    settings_words,
    short,
    short_least,
    short_most,
)

_AGREES = {
    Arithmetic.RIGHT: "yes",
    Arithmetic.LOOSE: "loose",
    Arithmetic.UNSTATED: "no",
    Arithmetic.WRONG: "no",
}
_COLUMN = {Basis.PRINTED: "Paper", Basis.COMPUTED: "Their formula", Basis.DERIVED: "Derived"}
"""Heads the numbers that those computed here are held against."""
_COLUMNS = ("Table", "q = M/N", "Delta", "Printed", "Counted", "Holds")


def catalogue_document(rows: Sequence[CatalogueRow], tables: Sequence[EpsilonTables]) -> Passage:
    """What papers claim and what holds, with their tables of epsilons."""
    words: list[Word] = [*Verdict, *Arithmetic]
    meanings = tuple(f"{WORDS[word]} ({word}): {word.meaning}" for word in words)
    papers = {row.paper.title: row.paper for row in rows}.values()
    about = tuple(
        (
            paper.title,
            f"privacy is promised against {paper.adversary}; trusted: {paper.trusted} "
            f"({paper.place}). Symbols: "
            + "; ".join(f"{name}: {meaning}" for name, meaning in paper.symbols.items()),
        )
        for paper in papers
    )
    listed = Grid(
        "",
        ("No.", "Target", "Basis", "Statement", "Its figure", "Holds", "Verdict"),
        tuple(
            (
                row.number,
                row.target,
                row.basis.value,
                row.statement,
                figure_words(row),
                holds_words(row),
                judgement_words(row),
            )
            for row in rows
        ),
    )
    return Passage(
        "What papers claim, and what holds",
        (
            Paragraph(counts(rows)),
            Listing(meanings),
            Passage("Papers", (Facts(about),)),
            Passage("All entries", (listed,)),
            *map(entry_part, rows),
            *map(table_part, tables),
        ),
    )


def entry_part(row: CatalogueRow) -> Passage:
    """One entry: what its verdict means, then the numbers, then how they follow."""
    derived = ", derived" if row.basis is Basis.DERIVED else ""
    blocks: list[Block] = [Paragraph(plain_words(row)), Facts(tuple(_facts(row)))]
    if listed := row.listed_figures:
        cells = tuple(
            (
                figure.what,
                stated_words(figure, number),
                right_words(figure, number),
                _AGREES[figure.word],
                figure.how,
            )
            for figure in listed
        )
        heads = ("Number", _COLUMN.get(row.basis, "Stated"), "Here", "Agrees", "How")
        blocks.append(Grid("", heads, cells))
    if rest := rest_words(row).strip():
        blocks.append(Paragraph(rest))
    return Passage(
        f"{row.number} {row.target}: {judgement_words(row)}{derived}",
        tuple(blocks),
        colour=row.verdict or row.arithmetic,
        place=row.number,
    )


def table_part(tables: EpsilonTables) -> Passage:
    """Tables of epsilons beside the counting that gives them, and the truth."""
    rows = tuple(
        (
            str(row.table),
            f"{row.clients} / {row.n_users}",
            number(row.delta),
            f"{row.printed:.4f}",
            f"{row.counted:.4f}",
            f"{short_least(row.lower)} to {short_most(row.upper)}",
        )
        for row in tables.rows
    )
    note = (Paragraph(tables.note),) if tables.note else ()
    return Passage(f"{tables.title}, entry by entry", (*note, Grid("", _COLUMNS, rows)))


def counts(rows: Sequence[CatalogueRow]) -> str:
    """How many statements have which verdict: what is printed first, then what is derived.

    Entries on one statement count once. Those about something else than privacy are told apart.
    """
    order: list[Word] = [*Verdict, *Arithmetic]
    said = []
    for basis in Basis:
        mine = [row for row in rows if row.basis is basis]
        kinds: dict[Word, dict[str, StatementKind]] = {}
        for row in mine:
            for word in (row.verdict, row.arithmetic):
                if word is not None:
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
    return f"{len(kinds)} {WORDS[word]}{known}"


def _facts(row: CatalogueRow) -> Iterator[tuple[str, Text]]:
    yield "Reading" if row.basis is Basis.DERIVED else "Claim", row.statement
    yield "Source", f"{row.paper.title}, {row.source} ({row.kind}, {row.basis})"
    yield CLAIMED[row.whose].capitalize(), claimed_words(row)
    yield "Holds", holds_words(row)
    if row.finding is not None:
        yield "Proved", say_proved(row.finding)
        yield "Shown", say_measured(row.finding)
    if row.repaired is not None and row.repaired_settings is not None:
        claim, found = short(row.repaired.claim.epsilon), found_words(row.repaired)
        settings = settings_words(row.repaired_settings)
        if row.paper.code:  # of what is drawn, which no command sets
            settings = settings.replace("--set ", "")
        word = WORDS[row.repaired.verdict]
        yield "Repaired", f"with {settings} the claim is {claim}, and {found} holds: {word}"
    yield "Why", row.reason
    for name, meaning in row.symbols.items():
        yield "Symbol", f"{name}: {meaning}"
    if row.scope is not None:
        yield "Scope", pair_scope_words(row.scope)
    yield "Assumed", assumed_words(row)
    if row.finding is not None:
        yield "Verdict", row.finding.reason
    yield "Ask again", command_words(row)
