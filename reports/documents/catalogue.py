"""The catalogue of claims: its rows, their words, and the document of all entries.

``auditor.catalogue`` makes the rows, ``auditor claims`` and the site show them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Self

from pydantic import model_validator

from fedrec_auditor.accountants.statements import Basis, Scope, Side, StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import (
    Block,
    Facts,
    Listing,
    Paragraph,
    Passage,
    Text,
    make_grid,
)
from fedrec_auditor.reports.record.rows import Finding, Row

_MOST = 6  # numbers of one entry that a report lists
Setting = bool | int | float | str


class Figure(Row):
    """A number that a paper states or relies on, beside the one computed here.

    ``below`` says that the paper only has it below ``claimed``; ``side`` that ``right`` is a bound
    from this side, not the number itself.
    """

    what: str
    claimed: float
    right: float
    below: bool
    word: Arithmetic
    how: str
    side: Side | None = None


class PaperRow(Row):
    """The part that all entries of one paper share: assumed roles, and meanings of symbols.

    ``place`` is where the paper says whom it defends against (``adversary``) and whom it relies on
    (``trusted``). Of released code, ``code`` is the repository and commit that is described.
    """

    title: str
    code: str = ""
    place: str
    adversary: str
    trusted: str
    symbols: dict[str, str]

    @property
    def roles(self) -> str:
        """The assumed roles, and the place where the paper says so."""
        return f"against {self.adversary}; trusted: {self.trusted} ({self.place})"


class CatalogueRow(Row):
    """One judged entry of the catalogue.

    ``source`` is the place in ``paper``. ``claimed`` and ``provable`` are formulas; ``finding`` has
    the numbers of a statement about epsilon, and ``figures`` those of any other. ``basis`` says who
    states it: what is derived is never VIOLATED or WRONG. ``computed_at`` says what else the
    numbers are of. ``repeats`` is the entry of the same statement, which counts once. ``repaired``
    is the same claim evaluated on the target with ``repaired_settings`` over its own. ``target``,
    ``settings``, ``n_users`` and ``n_items`` are what was judged: `auditor account TARGET --set ...
    --users ... --items ...` asks it again.
    """

    number: str
    heading: int
    paper: PaperRow
    kind: StatementKind
    basis: Basis
    target: str
    settings: dict[str, Setting | dict[str, Setting]]
    n_users: int
    n_items: int
    statement: str
    source: str
    scope: Scope | None
    delta: float | None
    claimed: str
    claimed_epsilon: float | None
    computed_at: str = ""
    repeats: str = ""
    provable: str
    proved_epsilon: float | None
    proof: str
    exact_lower_epsilon: float | None
    verdict: Verdict | None
    arithmetic: Arithmetic | None
    reason: str
    finding: Finding | None
    figures: tuple[Figure, ...]
    repaired_settings: dict[str, Setting | dict[str, Setting]] | None
    repaired: Finding | None

    @model_validator(mode="after")
    def _accuses_nobody_of_what_is_derived(self) -> Self:
        accused = self.verdict is Verdict.VIOLATED or self.arithmetic is Arithmetic.WRONG
        if accused and self.basis is Basis.DERIVED:
            words = f"{self.verdict or self.arithmetic}"
            raise ValueError(f"entry {self.number} is derived, and cannot be {words}")
        return self

    @property
    def whose(self) -> Basis:
        """Basis of its figure: that of the claim, where it is read in another scope."""
        return self.basis if self.finding is None else self.finding.claim.basis

    @property
    def symbols(self) -> dict[str, str]:
        """The paper's symbols that the entry uses, with what they mean."""
        figures = (text for each in self.listed_figures for text in (each.what, each.how))
        said = " ".join((self.statement, self.claimed, self.provable, self.reason, *figures))
        return {
            symbol: meaning
            for symbol, meaning in self.paper.symbols.items()
            if re.search(rf"(?<![\w'.]){re.escape(symbol)}(?![\w'])", said)
        }

    def is_any_of(self, words: Collection[Word]) -> bool:
        """Whether a word of the judgement is among ``words``, or these are none."""
        return not words or self.verdict in words or self.arithmetic in words

    @property
    def poor_figures(self) -> tuple[Figure, ...]:
        """The numbers that do not come out."""
        return tuple(figure for figure in self.figures if figure.word is not Arithmetic.RIGHT)

    @property
    def listed_figures(self) -> tuple[Figure, ...]:
        """The numbers that a report lists: all if they are few, else first those that are poor."""
        if len(self.figures) <= _MOST:
            return self.figures
        return (self.poor_figures or self.figures)[:_MOST]


class TableRow(Row):
    """One epsilon of a printed table beside what it should be.

    ``counted`` is what the authors' counting gives; the epsilon of the same training lies between
    ``lower`` and ``upper``.
    """

    table: int
    clients: int
    n_users: int
    delta: float
    printed: float
    counted: float
    lower: float
    upper: float


class EpsilonTables(Row):
    """The printed tables of epsilons of one paper; ``note`` says how they were calculated."""

    title: str
    note: str
    rows: tuple[TableRow, ...]


def judgement_words(row: CatalogueRow) -> str:
    """The verdict on the claim, and whether the numbers come out, where there are any."""
    said = [] if row.verdict is None else [say.WORDS[row.verdict]]
    if row.arithmetic is not None:
        said.append(f"numbers {say.WORDS[row.arithmetic]}" if said else say.WORDS[row.arithmetic])
    return ", ".join(said)


def claimed_words(row: CatalogueRow) -> str:
    """The claimed formula with its value; without, where several numbers stand for it."""
    if row.claimed_epsilon is None:
        value = stated_words(_chosen(row))
    else:
        value = "no epsilon" if math.isinf(row.claimed_epsilon) else say.short(row.claimed_epsilon)
        if row.delta:
            value += f", {say.delta_words(row.delta)}"
        value += f", {say.BASES[row.whose]}" if row.whose is Basis.COMPUTED else ""
    return _with(row, row.claimed, value)


def figure_words(row: CatalogueRow) -> str:
    """The claimed figure with its basis, where no label beside it says whose it is."""
    return f"{'derived: ' if row.whose is Basis.DERIVED else ''}{claimed_words(row)}"


def holds_words(row: CatalogueRow) -> str:
    """The formula of what holds with its value; without, where several numbers stand for it."""
    value = right_words(_chosen(row)) if row.finding is None else say.found_words(row.finding)
    return _with(row, row.provable, value)


def stated_words(figure: Figure, exactly: Callable[[float], str] = say.short) -> str:
    """The number that a paper states or relies on."""
    if figure.word is Arithmetic.LOOSE and math.isinf(figure.claimed):
        return "no bound"
    return f"{'below ' if figure.below else ''}{exactly(figure.claimed)}"


def right_words(figure: Figure, exactly: Callable[[float], str] = say.short) -> str:
    """The number computed here; where it is a bound, from which side."""
    if figure.side is Side.UPPER:
        return f"at most {say.short_most(figure.right)}"
    return f"at least {say.short_least(figure.right)}" if figure.side else exactly(figure.right)


def plain_words(row: CatalogueRow) -> str:
    """The meaning of the verdict for a user, in a sentence or two."""
    said = []
    if row.finding is not None:
        said.append(say.guess_words(row.finding))
        said += ["So large an epsilon promises next to nothing."] if row.finding.vacuous else []
    if row.computed_at:
        said.append(f"Computed {row.computed_at}.")
    if row.arithmetic is not None:
        alone = row.finding is None
        of = "derived" if row.basis is Basis.DERIVED else row.kind if alone else "numbers"
        said.append(say.TABLES["meaning"][of][row.arithmetic])
        if alone and row.poor_figures:
            agreeing = len(row.figures) - len(row.poor_figures)
            if agreeing and _chosen(row).below:
                said.append(f"It holds at {agreeing} of {len(row.figures)} settings.")
            said.append(_corrected(row, _chosen(row)))
    return " ".join(said)


def rest_words(row: CatalogueRow) -> str:
    """How many numbers are not listed, and whether they agree, in a sentence."""
    left = [figure for figure in row.figures if figure not in row.listed_figures]
    poor = sum(figure in row.poor_figures for figure in left)
    agreeing = len(left) - poor
    agree = "1 more agrees" if agreeing == 1 else f"{agreeing} more agree" if agreeing else ""
    text = say.listed(f"{poor} more do not come out" if poor else "", agree)
    return f"{say.capitalized(text)}." if text else ""


def command_words(row: CatalogueRow) -> str:
    """The command that asks the entry's questions again: of a system, or of released code."""
    if row.paper.code:
        return f"auditor claims {row.number}"
    parts = ["auditor claims", row.target, say.settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _corrected(row: CatalogueRow, figure: Figure) -> str:
    """A number that does not come out, beside the right one, with digits that tell them apart."""
    said = say.short if say.short(figure.claimed) != say.short(figure.right) else say.number
    stated, right = stated_words(figure, said), right_words(figure, said)
    return f"In numbers, {figure.what}: {stated} {by_words(row)}, {right} computed here."


def by_words(row: CatalogueRow) -> str:
    """The words for the author of the number that is compared."""
    return "as derived" if row.basis is Basis.DERIVED else "by its statement"


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    """The formula with its value, which of another statement than on privacy needs its unit."""
    apart = row.finding is None and (len(row.figures) > 1 or row.kind is not StatementKind.PRIVACY)
    return formula if apart or formula == value else f"{formula} ({value})"


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.poor_figures, *row.figures)[0]


_COLUMN = {Basis.PRINTED: "Paper", Basis.COMPUTED: "Their formula", Basis.DERIVED: "Derived"}
"""Heads the numbers that those computed here are held against."""
_LISTED: dict[str, Callable[[CatalogueRow], Text]] = {
    "No.": lambda row: row.number,
    "Target": lambda row: row.target,
    "Basis": lambda row: row.basis.value,
    "Statement": lambda row: row.statement,
    "Its figure": figure_words,
    "Holds": holds_words,
    "Verdict": judgement_words,
}
_EPSILONS: dict[str, Callable[[TableRow], Text]] = {
    "Table": lambda row: str(row.table),
    "q = M/N": lambda row: f"{row.clients} / {row.n_users}",
    "Delta": lambda row: say.number(row.delta),
    "Printed": lambda row: f"{row.printed:.4f}",
    "Counted": lambda row: f"{row.counted:.4f}",
    "Holds": lambda row: f"{say.short_least(row.lower)} to {say.short_most(row.upper)}",
}


def catalogue_document(rows: Sequence[CatalogueRow], tables: Sequence[EpsilonTables]) -> Passage:
    """Document of what papers claim and what holds, with their tables of epsilons."""
    words: list[Word] = [*Verdict, *Arithmetic]
    meanings = tuple(f"{say.WORDS[word]} ({word}): {word.meaning}" for word in words)
    papers = {row.paper.title: row.paper for row in rows}.values()
    about = tuple((paper.title, _about(paper)) for paper in papers)
    blocks = (
        Paragraph(counts(rows)),
        Listing(meanings),
        Passage("Papers", (Facts(about),)),
        Passage("All entries", (make_grid(rows, _LISTED),)),
    )
    parts = (*map(entry_part, rows), *map(table_part, tables))
    return Passage("What papers claim, and what holds", (*blocks, *parts))


def _about(paper: PaperRow) -> str:
    symbols = "; ".join(f"{name}: {meaning}" for name, meaning in paper.symbols.items())
    return f"privacy is promised {paper.roles}. Symbols: {symbols}"


def entry_part(row: CatalogueRow) -> Passage:
    """One entry: what its verdict means, then the numbers, then how they follow."""
    derived = ", derived" if row.basis is Basis.DERIVED else ""
    blocks: list[Block] = [Paragraph(plain_words(row)), Facts(tuple(_facts(row)))]
    if listed := row.listed_figures:
        columns: dict[str, Callable[[Figure], Text]] = {
            "Number": lambda figure: figure.what,
            _COLUMN.get(row.basis, "Stated"): lambda figure: stated_words(figure, say.number),
            "Here": lambda figure: right_words(figure, say.number),
            "Agrees": lambda figure: say.TABLES["agrees"][figure.word],
            "How": lambda figure: figure.how,
        }
        blocks.append(make_grid(listed, columns))
    if rest := rest_words(row):
        blocks.append(Paragraph(rest))
    return Passage(
        f"{row.number} {row.target}: {judgement_words(row)}{derived}",
        tuple(blocks),
        colour=row.verdict or row.arithmetic,
        place=row.number,
    )


def table_part(tables: EpsilonTables) -> Passage:
    """Tables of epsilons beside the counting that gives them, and the truth."""
    note = (Paragraph(tables.note),) if tables.note else ()
    title = f"{tables.title}, entry by entry"
    return Passage(title, (*note, make_grid(tables.rows, _EPSILONS)))


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
            said.append(f"{say.counted(several, f'{basis} statement')}{entries}: {words}.")
    return " ".join(said)


def _count(word: Word, kinds: Mapping[str, StatementKind]) -> str:
    tally = Counter(kinds.values())
    apart = [f"{tally[kind]} {kind}" for kind in StatementKind if kind in tally]
    known = f" ({', '.join(apart)})" if set(tally) - {StatementKind.PRIVACY} else ""
    return f"{len(kinds)} {say.WORDS[word]}{known}"


def _facts(row: CatalogueRow) -> Iterator[tuple[str, Text]]:
    yield "Reading" if row.basis is Basis.DERIVED else "Claim", row.statement
    yield "Source", f"{row.paper.title}, {row.source} ({row.kind}, {row.basis})"
    yield say.CLAIMED[row.whose].capitalize(), claimed_words(row)
    yield "Holds", holds_words(row)
    if row.finding is not None:
        yield "Proved", say.proved(row.finding)
        yield "Shown", say.measured(row.finding)
    if row.repaired is not None and row.repaired_settings is not None:
        claim, found = say.short(row.repaired.claim.epsilon), say.found_words(row.repaired)
        settings = say.settings_words(row.repaired_settings)
        if row.paper.code:  # of what is drawn, which no command sets
            settings = settings.replace("--set ", "")
        word = say.WORDS[row.repaired.verdict]
        yield "Repaired", f"with {settings} the claim is {claim}, and {found} holds: {word}"
    yield "Why", row.reason
    for name, meaning in row.symbols.items():
        yield "Symbol", f"{name}: {meaning}"
    if row.scope is not None:
        yield "Scope", say.pair_scope_words(row.scope)
    yield "Assumed", row.paper.roles
    if row.finding is not None:
        yield "Verdict", row.finding.reason
    yield "Ask again", command_words(row)
