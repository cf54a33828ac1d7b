"""The words of the catalogue: an entry in plain language, its numbers, and how to ask it again."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.reports.catalogue import CatalogueRow, Figure
from fedrec_auditor.reports.words import (
    BASES,
    WORDS,
    delta_words,
    found_words,
    guess_words,
    number,
    settings_words,
    short,
    short_least,
    short_most,
)

_MEANINGS = {
    StatementKind.PRIVACY: {
        Arithmetic.RIGHT: "The statement is right.",
        Arithmetic.LOOSE: "The statement is on the safe side: a user gives away less than the "
        "paper says.",
        Arithmetic.WRONG: "The statement is wrong: whoever relies on it is misled about a user's "
        "privacy.",
    },
    StatementKind.ESTIMATOR: {
        Arithmetic.RIGHT: "The statement is right: the server computes what the paper says.",
        Arithmetic.LOOSE: "The statement is on the safe side: the server's error is smaller than "
        "the paper says.",
        Arithmetic.WRONG: "The statement is wrong: as printed, the server computes something else "
        "than the paper says. Recommendations suffer, privacy does not.",
    },
    StatementKind.UTILITY: {
        Arithmetic.RIGHT: "The comparison is made as the paper says.",
        Arithmetic.LOOSE: "The comparison holds, by more than the paper says.",
        Arithmetic.WRONG: "The statement is wrong: the comparison is not between equals. Nobody's "
        "data leak by it.",
    },
    StatementKind.TYPO: {
        Arithmetic.RIGHT: "The text is right.",
        Arithmetic.LOOSE: "The text is on the safe side.",
        Arithmetic.WRONG: "The text has a slip, which harms whoever builds the system by the "
        "letter.",
    },
}
"""What it means that the numbers of a statement come out or not, where no epsilon is judged."""
_NUMBERS = {
    Arithmetic.RIGHT: "The numbers that the paper gives for it come out.",
    Arithmetic.LOOSE: "A number that the paper gives for it is larger than it need be.",
    Arithmetic.WRONG: "A number that the paper gives for it is wrong.",
}
"""The same beside a verdict on an epsilon."""
_DERIVED = {
    Arithmetic.RIGHT: "What was derived comes out.",
    Arithmetic.LOOSE: "What was derived is on the safe side: a user gives away less.",
    Arithmetic.UNSTATED: "Nobody states this: it was derived here, to be measured, and does not "
    "come out.",
}
"""Sentences on numbers that the audit derived."""


def judgement_words(row: CatalogueRow) -> str:
    """What became of the claim, and whether the numbers come out, where there are any."""
    said = [] if row.verdict is None else [WORDS[row.verdict]]
    if row.arithmetic is not None:
        said.append(f"numbers {WORDS[row.arithmetic]}" if said else WORDS[row.arithmetic])
    return ", ".join(said)


def claimed_words(row: CatalogueRow) -> str:
    """The claimed formula with its value; without, where several numbers stand for it."""
    if row.claimed_epsilon is None:
        value = stated_words(_chosen(row))
    else:
        value = "no epsilon" if math.isinf(row.claimed_epsilon) else short(row.claimed_epsilon)
        if row.delta:
            value += f", {delta_words(row.delta)}"
        value += f", {BASES[row.whose]}" if row.whose is Basis.COMPUTED else ""
    return _with(row, row.claimed, value)


def figure_words(row: CatalogueRow) -> str:
    """The claimed figure with its basis, where no label beside it says whose it is."""
    return f"{'derived: ' if row.whose is Basis.DERIVED else ''}{claimed_words(row)}"


def holds_words(row: CatalogueRow) -> str:
    """The formula of what holds with its value; without, where several numbers stand for it."""
    value = right_words(_chosen(row)) if row.finding is None else found_words(row.finding)
    return _with(row, row.provable, value)


def stated_words(figure: Figure, exactly: Callable[[float], str] = short) -> str:
    """The number that a paper states or relies on."""
    if figure.word is Arithmetic.LOOSE and math.isinf(figure.claimed):
        return "no bound"
    return f"{'below ' if figure.below else ''}{exactly(figure.claimed)}"


def right_words(figure: Figure, exactly: Callable[[float], str] = short) -> str:
    """The number computed here; where it is a bound, from which side."""
    if figure.side is Side.UPPER:
        return f"at most {short_most(figure.right)}"
    return f"at least {short_least(figure.right)}" if figure.side else exactly(figure.right)


def assumed_words(row: CatalogueRow) -> str:
    """Who is assumed to do what, and where the paper says so."""
    paper = row.paper
    return f"against {paper.adversary}; trusted: {paper.trusted} ({paper.place})"


def plain_words(row: CatalogueRow) -> str:
    """What the verdict means for a user, in a sentence or two."""
    said = []
    if row.finding is not None:
        said.append(guess_words(row.finding))
        said += ["So large an epsilon promises next to nothing."] if row.finding.vacuous else []
    if row.computed_at:
        said.append(f"Computed {row.computed_at}.")
    if row.arithmetic is not None:
        alone = row.finding is None
        meanings = _MEANINGS[row.kind] if alone else _NUMBERS
        said.append((_DERIVED if row.basis is Basis.DERIVED else meanings)[row.arithmetic])
        if alone and row.poor_figures:
            agreeing = len(row.figures) - len(row.poor_figures)
            if agreeing and _chosen(row).below:
                said.append(f"It holds at {agreeing} of {len(row.figures)} settings.")
            said.append(_corrected(row, _chosen(row)))
    return " ".join(said)


def rest_words(row: CatalogueRow) -> str:
    """How many numbers are not listed, and whether they agree; a sentence after a blank."""
    left = [figure for figure in row.figures if figure not in row.listed_figures]
    poor = sum(figure in row.poor_figures for figure in left)
    agreeing = len(left) - poor
    parts = [f"{poor} more do not come out"] if poor else []
    if agreeing:
        parts.append(f"{agreeing} more agree" if agreeing > 1 else "1 more agrees")
    text = ", ".join(parts)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def command_words(row: CatalogueRow) -> str:
    """The command that asks the entry's questions again: of a system, or of released code."""
    if row.paper.code:
        return f"auditor claims {row.number}"
    parts = ["auditor claims", row.target, settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _corrected(row: CatalogueRow, figure: Figure) -> str:
    """A number that does not come out, beside the right one, with digits that tell them apart."""
    said = short if short(figure.claimed) != short(figure.right) else number
    stated, right = stated_words(figure, said), right_words(figure, said)
    return f"In numbers, {figure.what}: {stated} {by_words(row)}, {right} computed here."


def by_words(row: CatalogueRow) -> str:
    """By whose words a number is what it is held against."""
    return "as derived" if row.basis is Basis.DERIVED else "by its statement"


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    """The formula with its value, which of another statement than on privacy needs its unit."""
    apart = row.finding is None and (len(row.figures) > 1 or row.kind is not StatementKind.PRIVACY)
    return formula if apart or formula == value else f"{formula} ({value})"


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.poor_figures, *row.figures)[0]
