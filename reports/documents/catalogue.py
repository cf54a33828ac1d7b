"""The catalogue of claims: its rows, their wording, and the document of all entries.

``auditor.catalogue`` makes the rows; ``auditor claims`` and the site show them.
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

_MAX_LISTED = 6  # maximum number of figures of one entry that a report lists
Setting = bool | int | float | str


class Figure(Row):
    """A number that a paper states or relies on, and the one computed here.

    what: the number in words.
    claimed: the paper's number.
    right: the number computed here.
    below: whether the paper only states that the number is below ``claimed``.
    word: the judgement of the paper's number.
    how: how it was computed here.
    side: the side of ``right`` if that is a bound, None if it is the number itself.
    """

    what: str
    claimed: float
    right: float
    below: bool
    word: Arithmetic
    how: str
    side: Side | None = None


class PaperRow(Row):
    """The facts that all entries of one paper share.

    title: the paper's citation.
    code: repository and commit, if the entries describe released code.
    place: where the paper states its adversary and whom it trusts.
    adversary: against whom the paper defends.
    trusted: on whom it relies.
    symbols: meanings of the paper's symbols.
    """

    title: str
    code: str = ""
    place: str
    adversary: str
    trusted: str
    symbols: dict[str, str]

    @property
    def roles(self) -> str:
        """The adversary and the trusted parties, and the place where the paper states them."""
        return f"against {self.adversary}; trusted: {self.trusted} ({self.place})"


class CatalogueRow(Row):
    """One judged entry of the catalogue.

    number, heading: its number, such as "22b", and the heading in it (22).
    paper, source: the paper, and the place in it.
    kind: the kind of statement.
    basis: who states it; a derived statement is never VIOLATED or WRONG.
    target, settings, n_users, n_items: the judged system; `auditor account TARGET --set ...
        --users ... --items ...` judges it again.
    statement, scope, delta: the statement in words, with its scope and delta.
    claimed, claimed_epsilon: the claimed formula and its value.
    computed_at: further conditions of the numbers.
    repeats: number of an entry on the same statement, with which it counts once.
    provable, proved_epsilon, proof: the provable formula, its value and its proof.
    exact_lower_epsilon: an exact lower bound.
    verdict, arithmetic, reason: the judgements of the epsilon and of the numbers, and why.
    finding: numbers of a statement about epsilon.
    figures: numbers of any other statement.
    repaired_settings, repaired: the same claim judged on the target with these settings.
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
        """The basis of its figure, which is the claim's if that was read in another scope."""
        return self.basis if self.finding is None else self.finding.claim.basis

    @property
    def symbols(self) -> dict[str, str]:
        """The meanings of the paper's symbols that occur in the entry."""
        figures = (text for each in self.listed_figures for text in (each.what, each.how))
        text = " ".join((self.statement, self.claimed, self.provable, self.reason, *figures))
        return {
            symbol: meaning
            for symbol, meaning in self.paper.symbols.items()
            if re.search(rf"(?<![\w'.]){re.escape(symbol)}(?![\w'])", text)
        }

    def is_any_of(self, words: Collection[Word]) -> bool:
        """Whether a word of the judgement is among ``words``, or ``words`` is empty."""
        return not words or self.verdict in words or self.arithmetic in words

    @property
    def poor_figures(self) -> tuple[Figure, ...]:
        """The numbers that are not right."""
        return tuple(figure for figure in self.figures if figure.word is not Arithmetic.RIGHT)

    @property
    def listed_figures(self) -> tuple[Figure, ...]:
        """The numbers that a report lists: all if they are few, else those that are not right."""
        if len(self.figures) <= _MAX_LISTED:
            return self.figures
        return (self.poor_figures or self.figures)[:_MAX_LISTED]


class TableRow(Row):
    """One epsilon of a printed table, and its right value.

    table: number of the table.
    clients, n_users: clients per round and users.
    delta: the delta.
    printed: the epsilon that the table prints.
    counted: the epsilon that the authors' counting gives.
    lower, upper: bounds of the epsilon of the same training.
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
    """The printed tables of epsilons of one paper; ``note`` explains their calculation."""

    title: str
    note: str
    rows: tuple[TableRow, ...]


def judgement_words(row: CatalogueRow) -> str:
    """The labels of the verdict on the claim, and of the judgement of its numbers."""
    labels = [] if row.verdict is None else [say.WORDS[row.verdict]]
    if row.arithmetic is not None:
        word = say.WORDS[row.arithmetic]
        labels.append(f"numbers {word}" if labels else word)
    return ", ".join(labels)


def claimed_words(row: CatalogueRow) -> str:
    """The claimed formula with its value, unless several numbers stand for it."""
    if row.claimed_epsilon is None:
        value = stated_words(_chosen(row))
    else:
        value = "no epsilon" if math.isinf(row.claimed_epsilon) else say.short(row.claimed_epsilon)
        if row.delta:
            value += f", {say.delta_words(row.delta)}"
        value += f", {say.BASES[row.whose]}" if row.whose is Basis.COMPUTED else ""
    return _with(row, row.claimed, value)


def figure_words(row: CatalogueRow) -> str:
    """The claimed figure, marked if it is derived; for places without a label of its basis."""
    return f"{'derived: ' if row.whose is Basis.DERIVED else ''}{claimed_words(row)}"


def holds_words(row: CatalogueRow) -> str:
    """The formula that holds with its value, unless several numbers stand for it."""
    value = right_words(_chosen(row)) if row.finding is None else say.found_words(row.finding)
    return _with(row, row.provable, value)


def stated_words(figure: Figure, exactly: Callable[[float], str] = say.short) -> str:
    """The number that a paper states or relies on."""
    if figure.word is Arithmetic.LOOSE and math.isinf(figure.claimed):
        return "no bound"
    return f"{'below ' if figure.below else ''}{exactly(figure.claimed)}"


def right_words(figure: Figure, exactly: Callable[[float], str] = say.short) -> str:
    """The number computed here, with "at most" or "at least" if it is a bound."""
    if figure.side is Side.UPPER:
        return f"at most {say.short_most(figure.right)}"
    return f"at least {say.short_least(figure.right)}" if figure.side else exactly(figure.right)


def plain_words(row: CatalogueRow) -> str:
    """The meaning of the verdict for a user, in a sentence or two."""
    texts = []
    if row.finding is not None:
        texts.append(say.guess_words(row.finding))
        texts += ["So large a claim promises next to nothing."] if row.finding.vacuous else []
    if row.computed_at:
        texts.append(f"Computed {row.computed_at}.")
    if row.arithmetic is not None:
        alone = row.finding is None
        of = "derived" if row.basis is Basis.DERIVED else row.kind if alone else "numbers"
        texts.append(say.TABLES["meaning"][of][row.arithmetic])
        if alone and row.poor_figures:
            agreeing = len(row.figures) - len(row.poor_figures)
            if agreeing and _chosen(row).below:
                texts.append(f"It holds at {agreeing} of {len(row.figures)} settings.")
            texts.append(_corrected(row, _chosen(row)))
    return " ".join(texts)


def rest_words(row: CatalogueRow) -> str:
    """The number of figures that are not listed, and whether they agree, in a sentence."""
    rest = [figure for figure in row.figures if figure not in row.listed_figures]
    poor = sum(figure in row.poor_figures for figure in rest)
    agreeing = len(rest) - poor
    agree = "1 more number agrees" if agreeing == 1 else f"{agreeing} more numbers agree"
    text = say.listed(f"{poor} more do not agree" if poor else "", agree if agreeing else "")
    return f"{say.capitalized(text)}." if text else ""


def command_words(row: CatalogueRow) -> str:
    """The command that judges the entry again, for a system or for released code."""
    if row.paper.code:
        return f"auditor claims {row.number}"
    parts = ["auditor claims", row.target, say.settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _corrected(row: CatalogueRow, figure: Figure) -> str:
    """A number that is not right, and the right one, with enough digits to differ."""
    digits = say.short if say.short(figure.claimed) != say.short(figure.right) else say.number
    stated, right = stated_words(figure, digits), right_words(figure, digits)
    return f"In numbers, {figure.what}: {stated} {by_words(row)}, {right} computed here."


def by_words(row: CatalogueRow) -> str:
    """The author of a compared number: "as derived", or "by its statement"."""
    return "as derived" if row.basis is Basis.DERIVED else "by its statement"


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    """The formula with its value; alone if there are several values, or a unit would be needed."""
    bare = row.finding is None and (len(row.figures) > 1 or row.kind is not StatementKind.PRIVACY)
    return formula if bare or formula == value else f"{formula} ({value})"


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.poor_figures, *row.figures)[0]


_COLUMN = {Basis.PRINTED: "Paper", Basis.COMPUTED: "Their formula", Basis.DERIVED: "Derived"}
"""Head of the column of numbers with which ours are compared."""
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
    """The document of all claims of papers and what holds, with their tables of epsilons."""
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
    return f"the paper promises privacy {paper.roles}. Symbols: {symbols}"


def entry_part(row: CatalogueRow) -> Passage:
    """The document of one entry: the meaning of its verdict, its facts, and its numbers."""
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
    """The section on printed epsilons: how each was accounted for, and the proved epsilon."""
    note = (Paragraph(tables.note),) if tables.note else ()
    title = f"{tables.title}, entry by entry"
    return Passage(title, (*note, make_grid(tables.rows, _EPSILONS)))


def counts(rows: Sequence[CatalogueRow]) -> str:
    """The number of statements per verdict, by basis: first printed statements, then derived ones.

    Entries on the same statement count once. Statements about something else than privacy are
    counted separately.
    """
    order: list[Word] = [*Verdict, *Arithmetic]
    texts = []
    for basis in Basis:
        entries = [row for row in rows if row.basis is basis]
        kinds: dict[Word, dict[str, StatementKind]] = {}
        for row in entries:
            for word in (row.verdict, row.arithmetic):
                if word is not None:
                    kinds.setdefault(word, {})[row.repeats or row.number] = row.kind
        if entries:
            words = ", ".join(_count(word, kinds[word]) for word in order if word in kinds)
            count = len({row.repeats or row.number for row in entries})
            more = f", in {len(entries)} entries" if count < len(entries) else ""
            texts.append(f"{say.count_phrase(count, f'{basis} statement')}{more}: {words}.")
    return " ".join(texts)


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
        yield "Proved", say.proof_fact(row.finding)
        yield "Shown", say.measured_fact(row.finding)
    if row.repaired is not None and row.repaired_settings is not None:
        claim, epsilon = say.short(row.repaired.claim.epsilon), say.found_words(row.repaired)
        settings = say.settings_words(row.repaired_settings)
        if row.paper.code:  # settings of released code, which no command sets
            settings = settings.replace("--set ", "")
        word = say.WORDS[row.repaired.verdict]
        yield "Repaired", f"with {settings} the claim is {claim}, and {epsilon} holds: {word}"
    yield "Why", row.reason
    for name, meaning in row.symbols.items():
        yield "Symbol", f"{name}: {meaning}"
    if row.scope is not None:
        yield "Scope", say.pair_scope_words(row.scope)
    yield "Assumed", row.paper.roles
    if row.finding is not None:
        yield "Verdict", row.finding.reason
    yield "Command", command_words(row)
