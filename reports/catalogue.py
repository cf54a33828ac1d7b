"""The catalogue of claims as rows: what each statement of a paper is worth, and on what numbers.

``auditor.catalogue`` makes the rows, ``auditor claims`` and the site show them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Self

from pydantic import model_validator

from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.statements.kind import Basis, StatementKind
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.verdict import Arithmetic, Verdict, Word
from fedrec_auditor.reports.rows import Finding, Row

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
    """What all entries of one paper share: who is assumed to do what, and what symbols mean.

    ``place`` is where the paper says whom it defends against (``adversary``) and whom it relies on
    (``trusted``). Of released code, ``code`` is the repository and commit that is described.
    """

    title: str
    code: str = ""
    place: str
    adversary: str
    trusted: str
    symbols: dict[str, str]


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
