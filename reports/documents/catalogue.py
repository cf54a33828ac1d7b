"""Catalogue of papers' privacy claims: entries with their judgement, as text and document.

The package ``auditor.judging`` makes the entries; ``auditor claims`` and the site print them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Self

from pydantic import model_validator

from fedrec_auditor.accountants.statements import Basis, Scope, Side, StatementKind
from fedrec_auditor.accountants.verdict import LabelEnum, NumberLabel, Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import (
    Block,
    BulletList,
    DocSection,
    Facts,
    FactValue,
    Paragraph,
    make_table,
)
from fedrec_auditor.reports.record.rows import Finding, Row

_MAX_LISTED = 6  # maximum number of an entry's stated numbers that a report lists
# Function that formats a number as text.
NumberFormat = Callable[[float], str]
# Value of a system's setting.
CatalogueSettingValue = bool | int | float | str


class StatedNumber(Row):
    """A number that a paper states or relies on, with the correct number as computed here.

    what: name of the quantity, in words.
    claimed: value of the quantity in the paper.
    right: correct value of the quantity, or a bound of it, as computed here.
    below: True if the paper states only that the value is below ``claimed``; False if it states
        the value ``claimed``.
    word: label that judges the paper's value, such as "wrong".
    how: sentence that describes the computation of ``right``.
    side: whether ``right`` is a lower or an upper bound of the correct value; None if it is exact.
    """

    what: str
    claimed: float
    right: float
    below: bool
    word: NumberLabel
    how: str
    side: Side | None = None


class PaperRow(Row):
    """Facts about one paper, common to all its entries in the catalogue.

    title: citation of the paper.
    code: repository and commit, if the entries describe released code.
    place: section of the paper that states the threat model (adversary and trusted parties).
    adversary: adversary against whom the paper promises privacy.
    trusted: parties that the paper trusts.
    symbols: meaning of each symbol in the paper's formulas, by symbol.
    """

    title: str
    code: str = ""
    place: str
    adversary: str
    trusted: str
    symbols: dict[str, str]

    @property
    def threat_model_phrase(self) -> str:
        """Phrase with the adversary, the trusted parties, and the section that states them."""
        return f"against {self.adversary}; trusted parties: {self.trusted} ({self.place})"


class CatalogueRow(Row):
    """One entry of the catalogue: a statement of a paper with our judgement of it.

    number: number of the entry, such as "22b".
    heading: integer under which related entries are grouped, such as 22 for "22b".
    paper: facts about the paper.
    kind: topic of the statement: privacy, estimator, utility or typo.
    basis: origin of the statement: printed in the paper, or computed or derived here. A derived
        statement is never judged as VIOLATED or WRONG.
    target: name of the judged system.
    settings: settings of the system that differ from its defaults, by name.
    n_users, n_items: numbers of users and items for which the claim is judged.
    statement: the statement in words.
    source: place of the statement in the paper.
    scope, delta: scope and delta of the statement; None if it is not about an epsilon.
    claimed: formula that the paper claims, as text.
    claimed_epsilon: value of ``claimed``; None if the statement is not about an epsilon.
    computed_at: phrase with conditions of the computed numbers, such as settings; may be empty.
    repeats: number of another entry with this statement; the two count as one statement. Empty
        without such an entry.
    provable: formula that can be proved, as text.
    proved_epsilon: value of the formula ``provable``; None if no epsilon is proved.
    proof: description of the proof.
    exact_lower_epsilon: exact lower bound of epsilon; None if none is known.
    verdict: judgement of the epsilon; None if the statement is not about an epsilon.
    arithmetic: label that judges ``figures``; None if there are none.
    reason: reason of ``verdict`` and ``arithmetic``.
    finding: judged claim; None if the statement is not about an epsilon.
    figures: numbers in the statement that are not its epsilon, each with the correct number.
    repaired_settings: settings with which the statement becomes true; None without a repair.
    repaired: claim as judged under ``repaired_settings``; None without a repair.
    """

    number: str
    heading: int
    paper: PaperRow
    kind: StatementKind
    basis: Basis
    target: str
    settings: dict[str, CatalogueSettingValue | dict[str, CatalogueSettingValue]]
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
    arithmetic: NumberLabel | None
    reason: str
    finding: Finding | None
    figures: tuple[StatedNumber, ...]
    repaired_settings: dict[str, CatalogueSettingValue | dict[str, CatalogueSettingValue]] | None
    repaired: Finding | None

    @model_validator(mode="after")
    def _check_derived(self) -> Self:
        accused = self.verdict is Verdict.VIOLATED or self.arithmetic is NumberLabel.WRONG
        if accused and self.basis is Basis.DERIVED:
            words = f"got {self.verdict or self.arithmetic}. Change the label or the basis."
            raise ValueError(f"Expected no refutation of derived entry {self.number}, {words}")
        return self

    @property
    def claim_basis(self) -> Basis:
        """Origin of the claimed number: printed in the paper, computed or derived here.

        If a claim was judged, this is the basis of the claim, which may differ from the entry's
        ``basis``.
        """
        return self.basis if self.finding is None else self.finding.claim.basis

    @property
    def meaning_by_symbol(self) -> dict[str, str]:
        """Symbols of the paper that occur in the entry's texts, each with its meaning."""
        figures = (text for each in self.listed_numbers for text in (each.what, each.how))
        text = " ".join((self.statement, self.claimed, self.provable, self.reason, *figures))
        return {
            symbol: meaning
            for symbol, meaning in self.paper.symbols.items()
            if re.search(rf"(?<![\w'.]){re.escape(symbol)}(?![\w'])", text)
        }

    def matches_labels(self, words: Collection[LabelEnum]) -> bool:
        """Whether the entry's verdict, or the judgement of its numbers, is one of ``words``.

        Also True if ``words`` is empty.
        """
        return not words or self.verdict in words or self.arithmetic in words

    @property
    def wrong_numbers(self) -> tuple[StatedNumber, ...]:
        """Numbers of the entry that are not judged as right."""
        return tuple(figure for figure in self.figures if figure.word is not NumberLabel.RIGHT)

    @property
    def listed_numbers(self) -> tuple[StatedNumber, ...]:
        """At most 6 numbers of the entry, for reports.

        If the entry has more, they are the first 6 that are not right, or the first 6 if all are
        right.
        """
        if len(self.figures) <= _MAX_LISTED:
            return self.figures
        return (self.wrong_numbers or self.figures)[:_MAX_LISTED]


class EpsilonTableRow(Row):
    """One epsilon of a table in a paper, with bounds of the correct epsilon.

    table: number of the table in the paper.
    clients: number of clients that are sampled per round.
    n_users: number of users from whom they are sampled.
    delta: delta of the epsilon.
    printed: epsilon in the paper's table.
    counted: epsilon that the authors' method of accounting gives, as computed here.
    lower, upper: lower and upper bound of the correct epsilon.
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
    """The tables of epsilons that one paper prints.

    title: citation of the paper.
    note: text on how the correct epsilons were computed.
    rows: epsilons of all tables.
    """

    title: str
    note: str
    rows: tuple[EpsilonTableRow, ...]


def describe_labels(row: CatalogueRow) -> str:
    """Returns the judgements of an entry as text: of its epsilon, and of its other numbers."""
    labels = [] if row.verdict is None else [row.verdict.label]
    if row.arithmetic is not None:
        word = row.arithmetic.label
        labels.append(f"numbers {word}" if labels else word)
    return ", ".join(labels)


def format_claimed_formula(row: CatalogueRow) -> str:
    """Formats the claimed formula of an entry, with its value in parentheses.

    If the entry has several numbers, the text is the formula without a value.
    """
    if row.claimed_epsilon is None:
        value = format_stated_number(_choose(row))
    else:
        epsilon = row.claimed_epsilon
        value = "no epsilon" if math.isinf(epsilon) else say.format_4_digits(epsilon)
        if row.delta:
            value += f", {say.format_delta(row.delta)}"
        if row.claim_basis is Basis.COMPUTED:
            value += f", {say.BASIS_TEXTS[row.claim_basis]}"
    return _append_value(row, row.claimed, value)


def describe_claim(row: CatalogueRow) -> str:
    """Describes the claim of an entry: its formula and value.

    The prefix "derived: " marks a statement that the authors do not make, but this project derived.
    """
    return f"{'derived: ' if row.claim_basis is Basis.DERIVED else ''}{format_claimed_formula(row)}"


def format_provable(row: CatalogueRow) -> str:
    """Formats the correct formula of an entry, with its value in parentheses.

    If the entry has several numbers, the text is the formula without a value.
    """
    finding = row.finding
    value = format_computed_value(_choose(row)) if finding is None else say.format_range(finding)
    return _append_value(row, row.provable, value)


def format_stated_number(figure: StatedNumber, to_text: NumberFormat = say.format_4_digits) -> str:
    """Formats the number that a paper states or relies on, such as "below 0.5".

    ``to_text`` is the function that formats the bare number.
    """
    if figure.word is NumberLabel.LOOSE and math.isinf(figure.claimed):
        return "no bound"
    return f"{'below ' if figure.below else ''}{to_text(figure.claimed)}"


def format_computed_value(figure: StatedNumber, to_text: NumberFormat = say.format_4_digits) -> str:
    """Formats the correct value of a paper's number, as computed here.

    A bound gets the words "at most" or "at least". ``to_text`` is the function that formats a
    number that is not a bound.
    """
    if figure.side is None:
        return to_text(figure.right)
    if figure.side is Side.UPPER:
        return f"at most {say.format_ceil_4_digits(figure.right)}"
    return f"at least {say.format_floor_4_digits(figure.right)}"


def explain_verdict(row: CatalogueRow) -> str:
    """Returns sentences on the meaning of an entry's verdict for a user of the system."""
    texts = []
    if row.finding is not None:
        texts.append(say.describe_guesses(row.finding))
        texts += ["An epsilon this large guarantees almost nothing."] if row.finding.vacuous else []
    if row.computed_at:
        texts.append(f"The numbers are computed {row.computed_at}.")
    if row.arithmetic is not None:
        alone = row.finding is None
        of = "derived" if row.basis is Basis.DERIVED else row.kind if alone else "numbers"
        texts.append(say.PHRASES["meaning"][of][row.arithmetic])
        if alone and row.wrong_numbers:
            agreeing = len(row.figures) - len(row.wrong_numbers)
            if agreeing and _choose(row).below:
                texts.append(f"The statement holds at {agreeing} of {len(row.figures)} settings.")
            texts.append(_describe_error(row, _choose(row)))
    return " ".join(texts)


def describe_omitted_numbers(row: CatalogueRow) -> str:
    """Returns a sentence that counts the numbers of an entry beyond the at most 6 that are listed.

    The result is "" if all numbers are listed.
    """
    rest = [figure for figure in row.figures if figure not in row.listed_numbers]
    poor = sum(figure in row.wrong_numbers for figure in rest)
    agreeing = len(rest) - poor
    agree = "1 more number agrees" if agreeing == 1 else f"{agreeing} more numbers agree"
    text = say.join_texts(f"{poor} others do not agree" if poor else "", agree if agreeing else "")
    return f"{say.capitalize_first(text)}." if text else ""


def format_command(row: CatalogueRow) -> str:
    """Returns the ``auditor claims`` command that judges an entry again."""
    if row.paper.code:
        return f"auditor claims {row.number}"
    parts = ["auditor claims", row.target, say.format_settings(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _describe_error(row: CatalogueRow, figure: StatedNumber) -> str:
    """Returns a sentence with a number of the paper that is not right, and the correct number."""
    # The numbers are printed with enough digits to differ.
    equal = say.format_4_digits(figure.claimed) == say.format_4_digits(figure.right)
    digits = say.format_number if equal else say.format_4_digits
    stated, right = format_stated_number(figure, digits), format_computed_value(figure, digits)
    said = f"{stated} {describe_origin(row)}"
    return f"For example, {figure.what}: {said}, but {right} as computed here."


def describe_origin(row: CatalogueRow) -> str:
    """Names the origin of the number that an entry judges.

    The text is "as derived" if the authors do not state the number, and otherwise "by its
    statement" (the paper's).
    """
    return "as derived" if row.basis is Basis.DERIVED else "by its statement"


def _append_value(row: CatalogueRow, formula: str, value: str) -> str:
    """Returns the text ``formula``, followed by its value in parentheses."""
    # The text is the formula alone if the entry has several numbers, or if the value would need a
    # unit.
    bare = row.finding is None and (len(row.figures) > 1 or row.kind is not StatementKind.PRIVACY)
    return formula if bare or formula == value else f"{formula} ({value})"


def _choose(row: CatalogueRow) -> StatedNumber:
    """Selects the number that represents an entry in one line: the first incorrect one, if any."""
    return (*row.wrong_numbers, *row.figures)[0]


# Head of the column with the numbers that are compared with those computed here.
_CLAIM_HEADS = {Basis.PRINTED: "Paper", Basis.COMPUTED: "Their formula", Basis.DERIVED: "Derived"}
_LABELS: list[LabelEnum] = [*Verdict, *NumberLabel]
_ENTRY_COLUMNS: dict[str, Callable[[CatalogueRow], FactValue]] = {
    "Number": lambda row: row.number,
    "System": lambda row: row.target,
    "Basis": lambda row: row.basis.value,
    "Statement": lambda row: row.statement,
    "Stated number": describe_claim,
    "Correct number": format_provable,
    "Verdict": describe_labels,
}
_EPSILON_COLUMNS: dict[str, Callable[[EpsilonTableRow], FactValue]] = {
    "Table": lambda row: str(row.table),
    "Sampled clients / users": lambda row: f"{row.clients} / {row.n_users}",
    "Delta": lambda row: say.format_number(row.delta),
    "Printed epsilon": lambda row: f"{row.printed:.4f}",
    "Epsilon by the authors' method": lambda row: f"{row.counted:.4f}",
    "Correct epsilon": lambda row: (
        f"{say.format_floor(row.lower)} to {say.format_ceil_4_digits(row.upper)}"
    ),
}


def build_catalogue_document(
    rows: Sequence[CatalogueRow], tables: Sequence[EpsilonTables]
) -> DocSection:
    """Builds the document of the catalogue: all its entries, and papers' tables of epsilons."""
    meanings = tuple(f"{word.label} ({word}): {word.definition}" for word in _LABELS)
    papers = {row.paper.title: row.paper for row in rows}.values()
    blocks = (
        Paragraph(describe_label_counts(rows)),
        BulletList(meanings),
        DocSection("Papers", (Facts(tuple((paper.title, _describe(paper)) for paper in papers)),)),
        DocSection("All entries", (make_table(rows, _ENTRY_COLUMNS),)),
    )
    parts = (*map(build_entry_section, rows), *map(build_table_section, tables))
    return DocSection("Claims of papers, and the numbers that hold", (*blocks, *parts))


def _describe(paper: PaperRow) -> str:
    symbols = "; ".join(f"{name} = {meaning}" for name, meaning in paper.symbols.items())
    return f"the paper promises privacy {paper.threat_model_phrase}. Symbols: {symbols}"


def build_entry_section(row: CatalogueRow) -> DocSection:
    """Builds the document of one entry: meaning of its verdict, facts on its claim, its numbers."""
    derived = ", derived" if row.basis is Basis.DERIVED else ""
    blocks: list[Block] = [Paragraph(explain_verdict(row)), Facts(tuple(_list_facts(row)))]
    if listed := row.listed_numbers:
        stated = _CLAIM_HEADS.get(row.basis, "Stated")
        columns: dict[str, Callable[[StatedNumber], FactValue]] = {
            "Quantity": lambda figure: figure.what,
            stated: lambda figure: format_stated_number(figure, say.format_number),
            "Computed here": lambda figure: format_computed_value(figure, say.format_number),
            "Agreement": lambda figure: say.PHRASES["agrees"][figure.word],
            "Method": lambda figure: figure.how,
        }
        blocks.append(make_table(listed, columns))
    if rest := describe_omitted_numbers(row):
        blocks.append(Paragraph(rest))
    return DocSection(
        f"{row.number} {row.target}: {describe_labels(row)}{derived}",
        tuple(blocks),
        colour_verdict=row.verdict or row.arithmetic,
        html_id=row.number,
    )


def build_table_section(tables: EpsilonTables) -> DocSection:
    """Builds the section of the epsilons in a paper's tables.

    Beside each printed epsilon are the epsilon by the authors' accounting, computed here, and
    bounds of the correct epsilon.
    """
    note = (Paragraph(tables.note),) if tables.note else ()
    title = f"{tables.title}, entry by entry"
    return DocSection(title, (*note, make_table(tables.rows, _EPSILON_COLUMNS)))


def describe_label_counts(rows: Sequence[CatalogueRow]) -> str:
    """Counts the entries per label (such as "false"), grouped by basis; returns a text.

    The basis is printed, computed or derived. Entries on one statement count as one. Statements
    that are not about privacy are counted separately.
    """

    texts = []
    for basis in Basis:
        entries = [row for row in rows if row.basis is basis]
        kinds: dict[LabelEnum, dict[str, StatementKind]] = {}
        for row in entries:
            for word in (row.verdict, row.arithmetic):
                if word is not None:
                    kinds.setdefault(word, {})[row.repeats or row.number] = row.kind
        if entries:
            words = ", ".join(_format_count(word, kinds[word]) for word in _LABELS if word in kinds)
            count = len({row.repeats or row.number for row in entries})
            more = f", in {len(entries)} entries" if count < len(entries) else ""
            texts.append(f"{say.format_count(count, f'{basis} statement')}{more}: {words}.")
    return " ".join(texts)


def _format_count(word: LabelEnum, kinds: Mapping[str, StatementKind]) -> str:
    tally = Counter(kinds.values())
    apart = [f"{tally[kind]} {kind}" for kind in StatementKind if kind in tally]
    known = f" ({', '.join(apart)})" if set(tally) - {StatementKind.PRIVACY} else ""
    return f"{len(kinds)} {word.label}{known}"


def _list_facts(row: CatalogueRow) -> Iterator[tuple[str, FactValue]]:
    yield "Reading" if row.basis is Basis.DERIVED else "Claim", row.statement
    yield "Source", f"{row.paper.title}, {row.source} ({row.kind}, {row.basis})"
    yield say.CLAIM_LABEL_BY_BASIS[row.claim_basis].capitalize(), format_claimed_formula(row)
    yield "Correct number", format_provable(row)
    if row.finding is not None:
        yield "Proved upper bound", say.make_proved_quantity(row.finding)
        yield "Shown lower bound", say.make_shown_quantity(row.finding)
    if row.repaired is not None and row.repaired_settings is not None:
        claim = say.format_4_digits(row.repaired.claim.epsilon)
        epsilon = say.format_range(row.repaired)
        settings = say.format_settings(row.repaired_settings)
        if row.paper.code:  # settings of released code, which no command sets
            settings = settings.replace("--set ", "")
        word = row.repaired.verdict.label
        yield "Repair", f"with {settings}, epsilon {claim} is claimed and {epsilon} holds: {word}"
    yield "Reason", row.reason
    for name, meaning in row.meaning_by_symbol.items():
        yield "Symbol", f"{name} = {meaning}"
    if row.scope is not None:
        yield "Scope", say.describe_full_scope(row.scope)
    yield "Threat model", row.paper.threat_model_phrase
    if row.finding is not None:
        yield "Verdict", row.finding.reason
    yield "Command", format_command(row)
