"""The words of the catalogue: an entry in plain language, its numbers, and how to ask it again."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.statements.bound import guess_probability
from fedrec_auditor.accountants.statements.kind import StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.reports.catalogue import CatalogueRow, Figure
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.words import (
    UNITS,
    delta_words,
    found_words,
    often,
    settings_words,
    short,
)

_MEANINGS = {
    StatementKind.PRIVACY: {
        Arithmetic.RIGHT: "What the paper says here of a user's privacy is right.",
        Arithmetic.LOOSE: "A user gives away less than the paper says.",
        Arithmetic.WRONG: "A user who relies on the paper's number or sentence is misled.",
    },
    StatementKind.ESTIMATOR: {
        Arithmetic.RIGHT: "The server learns what the paper says that it learns.",
        Arithmetic.LOOSE: "The server's error is smaller than the paper says.",
        Arithmetic.WRONG: "As printed, the server computes something else than the paper says: "
        "recommendations suffer, privacy does not.",
    },
    StatementKind.UTILITY: {
        Arithmetic.RIGHT: "The comparison is made as the paper says.",
        Arithmetic.LOOSE: "The comparison holds, by more than the paper says.",
        Arithmetic.WRONG: "The comparison is not between equals; nobody's data leak by it.",
    },
    StatementKind.TYPO: {
        Arithmetic.RIGHT: "The text is right.",
        Arithmetic.LOOSE: "The text is on the safe side.",
        Arithmetic.WRONG: "A slip of the text: it harms whoever builds the system by the letter.",
    },
}


def claimed_words(row: CatalogueRow) -> str:
    """The claimed formula with its value; without, where several numbers stand for it."""
    if row.claimed_epsilon is None:
        figure = _chosen(row)
        value = f"< {short(figure.claimed)}" if figure.below else short(figure.claimed)
    else:
        value = "no epsilon" if math.isinf(row.claimed_epsilon) else short(row.claimed_epsilon)
        if row.delta:
            value += f", {delta_words(row.delta)}"
        if row.ours:
            value += ", by the paper's formula at our settings"
    return _with(row, row.claimed, value)


def holds_words(row: CatalogueRow) -> str:
    """The formula of what holds with its value; without, where several numbers stand for it."""
    value = short(_chosen(row).right) if row.finding is None else found_words(row.finding)
    return _with(row, row.provable, value)


def assumed_words(row: CatalogueRow) -> str:
    """Who is assumed to do what, and where the paper says so."""
    paper = row.paper
    return f"against {paper.adversary}; trusted: {paper.trusted} ({paper.place})"


def plain_words(row: CatalogueRow) -> str:
    """What the verdict means for a user, in a sentence or two."""
    said = []
    if row.finding is not None:
        said.append(_plainly(row.finding))
    if row.arithmetic is not None:
        said.append(_MEANINGS[row.kind][row.arithmetic])
    return " ".join(said)


def rest_words(row: CatalogueRow) -> str:
    """How many numbers are not listed, and whether they agree; a sentence after a blank."""
    left = [figure for figure in row.figures if figure not in row.listed_figures]
    poor = sum(figure in row.poor_figures for figure in left)
    agreeing = len(left) - poor
    parts = [f"{poor} more are wrong"] if poor else []
    if agreeing:
        parts.append(f"{agreeing} more agree" if agreeing > 1 else "1 more agrees")
    text = ", ".join(parts)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def command_words(row: CatalogueRow) -> str:
    """The command that asks the entry's questions again."""
    parts = ["auditor account", row.target, settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _plainly(finding: Finding) -> str:
    """A verdict on an epsilon in plain words: what is promised, what is so, what a guess gains."""
    what, claimed = UNITS[finding.scope.unit], finding.claim.epsilon
    lower = None if finding.measured is None else finding.measured.epsilon
    boundless = lower is not None and math.isinf(lower)
    known = "no epsilon holds" if boundless else f"epsilon is {found_words(finding)}"
    if finding.verdict is Verdict.VIOLATED and lower is not None:
        text = f"The promise is broken: epsilon {short(claimed)} is promised for {what}, and"
        has = "none holds" if boundless else f"it is at least {short(lower)}"
        return f"{text} {has}. {_stakes(finding, lower)}"
    if finding.verdict is Verdict.CONSISTENT and finding.accounted is not None:
        text = f"The promise holds: epsilon {short(claimed)} is promised for {what}, and"
        return f"{text} {short(finding.accounted.epsilon)} is proved. {_stakes(finding, None)}"
    if finding.verdict is Verdict.INCOMPARABLE:
        return f"Nothing is promised here for {what}: {known}. {_told(lower)}".strip()
    if finding.verdict is Verdict.NO_CLAIM:
        return f"No number is promised for {what}: {known}."
    return f"Open: epsilon {short(claimed)} is promised for {what}, and {known}."


def _stakes(finding: Finding, lower: float | None) -> str:
    """How often one bit is guessed right, at the claim and on the most telling outputs."""
    allowed = often("up to", guess_probability(finding.claim.epsilon, finding.claim.delta))
    if lower is None:
        return f"That allows a guess at one bit to be right {allowed}."
    told = _told(lower).removesuffix(".")
    return (
        f"{told}; the promise allows as much."
        if told.endswith(allowed)
        else f"{told}, where the promise allows {allowed}."
    )


def _told(lower: float | None) -> str:
    """How often a guess is right on the most telling outputs, by a lower bound; "" without one."""
    if lower is None:
        return ""
    shown = "every time" if math.isinf(lower) else often("at least", guess_probability(lower))
    return f"On the outputs that tell the most, a guess at one bit is right {shown}."


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    several = row.finding is None and len(row.figures) > 1
    return formula if several or formula == value else f"{formula} ({value})"


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.poor_figures, *row.figures)[0]
