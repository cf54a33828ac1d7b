"""The words of the catalogue: an entry in plain language, its numbers, and how to ask it again."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedrec_auditor.accountants.statements.bound import Side, guess_probability
from fedrec_auditor.accountants.statements.kind import StatementKind
from fedrec_auditor.accountants.statements.scope import Horizon, Unit
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.reports.catalogue import CatalogueRow, Figure
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.words import (
    HORIZONS,
    VIEWS,
    WORDS,
    assumption_words,
    delta_words,
    found_words,
    number,
    often,
    proved_beside_claim,
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
_PER = {
    Unit.BIT: "per bit sent",
    Unit.INTERACTION: "per item",
    Unit.RATING: "per rating",
    Unit.COORDINATE: "per entry of an upload",
    Unit.REPORT: "per report",
    Unit.ATTRIBUTE: "per attribute",
    Unit.USER: "per user",
}


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
        if row.ours:
            value += ", at our settings"
    return _with(row, row.claimed, value)


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
        said.append(judged_words(row.finding))
    if row.computed_at:
        said.append(f"Computed {row.computed_at}.")
    if row.arithmetic is not None:
        alone = row.finding is None
        said.append((_MEANINGS[row.kind] if alone else _NUMBERS)[row.arithmetic])
        if alone and row.poor_figures:
            agreeing = len(row.figures) - len(row.poor_figures)
            if agreeing and _chosen(row).below:
                said.append(f"It holds at {agreeing} of {len(row.figures)} settings.")
            said.append(_corrected(_chosen(row)))
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
    parts = ["auditor claims", row.target, settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _corrected(figure: Figure) -> str:
    """A number that is loose or wrong, beside the right one, with digits that tell them apart."""
    said = short if short(figure.claimed) != short(figure.right) else number
    stated, right = stated_words(figure, said), right_words(figure, said)
    return f"In numbers, {figure.what}: {stated} by its statement, {right} computed here."


def judged_words(finding: Finding) -> str:
    """A verdict on an epsilon in plain words: what is claimed, what is so, what a guess gains."""
    lower = None if finding.shown is None else finding.shown.epsilon
    claim = f"The claim of epsilon {short(finding.claim.epsilon)} {_extent(finding)}"
    if finding.verdict is Verdict.VIOLATED and lower is not None:
        so = "no epsilon holds" if math.isinf(lower) else f"it is at least {short_least(lower)}"
        return f"{claim} is false: {so}. {_stakes(finding, lower)}"
    if finding.verdict is Verdict.CONSISTENT and finding.accounted is not None:
        proved = f"{proved_beside_claim(finding, short_most, short)} is proved"
        return f"{claim} holds: {proved}{_if_so(finding)}. {_stakes(finding, None)}"
    if finding.verdict is Verdict.INCOMPARABLE:
        said = f"No epsilon is claimed {_extent(finding)}: {_known(finding)}. {_told(lower)}"
        return said.strip()
    if finding.verdict is Verdict.NO_CLAIM:
        return f"No number is claimed {_extent(finding)}: {_known(finding)}."
    if finding.verdict is Verdict.UNSOUND:
        return f"{claim} cannot be judged: our own proof and what was shown contradict each other."
    return f"{claim} is neither proved nor refuted: {_known(finding)}."


def _extent(finding: Finding) -> str:
    """For what an epsilon is asked: per user over the whole training against the server."""
    scope, delta = finding.scope, finding.delta
    spoken = finding.claim.scope.covers(scope)
    if finding.verdict is Verdict.VIOLATED and finding.measured is not None and not spoken:
        scope = finding.measured.scope  # asked in a wider one, of which the claim does not speak
    lasting = "" if scope.horizon is Horizon.REPORT else f" {HORIZONS[scope.horizon]}"
    at = f" ({delta_words(delta)})" if delta else ""
    return f"{_PER[scope.unit]}{lasting} {VIEWS[scope.vantage]}{at}"


def _known(finding: Finding) -> str:
    """What is proved and shown of an epsilon, as a clause."""
    if finding.shown is not None and math.isinf(finding.shown.epsilon):
        return "no epsilon holds"
    found = found_words(finding).replace("≤", "at most").replace("≥", "at least")
    return f"epsilon is {found}{_if_so(finding)}"


def _if_so(finding: Finding) -> str:
    """What the finding's proof assumes, behind a comma."""
    assumed = assumption_words(finding.accounted)
    return f", {assumed}" if assumed else ""


def _stakes(finding: Finding, lower: float | None) -> str:
    """How often one bit is guessed right, at the claim and on the most telling outputs."""
    allowed = often("up to", guess_probability(finding.claim.epsilon, finding.claim.delta))
    little = " A claim so large protects next to nothing." if finding.vacuous else ""
    if lower is None:
        return f"The claim allows a guess at one bit to be right {allowed}.{little}"
    told = _told(lower).removesuffix(".")
    return (
        f"{told}; the claim allows as much.{little}"
        if told.endswith(allowed)
        else f"{told}, where the claim allows {allowed}.{little}"
    )


def _told(lower: float | None) -> str:
    """How often a guess is right on the most telling outputs, by a lower bound; "" without one."""
    if lower is None:
        return ""
    shown = "every time" if math.isinf(lower) else often("at least", guess_probability(lower))
    return f"On the outputs that tell the most, a guess at one bit is right {shown}."


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    """The formula with its value, which of another statement than on privacy needs its unit."""
    apart = row.finding is None and (len(row.figures) > 1 or row.kind is not StatementKind.PRIVACY)
    return formula if apart or formula == value else f"{formula} ({value})"


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.poor_figures, *row.figures)[0]
