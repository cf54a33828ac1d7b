"""The catalogue of claims as rows: what each statement of a paper is worth, and on what numbers.

``auditor.catalogue`` makes the rows, ``auditor account`` and ``docs/claims.md`` show them.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record import Epsilon, Finding, Row, ScopeRow

Setting = bool | int | float | str


def _read(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf") else value


def _write(value: float) -> float | str:
    return str(value) if math.isinf(value) else value


Signed = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_read),
    PlainSerializer(_write, return_type=float | str),
]
"""Any number; the infinities are the strings "inf" and "-inf"."""


class Arithmetic(StrEnum):
    """Whether the numbers that a statement rests on come out; no statement about epsilon."""

    RIGHT = "RIGHT"
    WRONG = "WRONG"


class Figure(Row):
    """A number that a paper states or relies on, beside the one computed here.

    ``below`` says that the paper only has it below ``claimed``.
    """

    what: str
    claimed: Signed
    right: Signed
    below: bool
    holds: bool
    how: str


class CatalogueRow(Row):
    """One judged entry of the catalogue.

    ``claimed`` and ``provable`` are formulas; ``finding`` has the numbers of a statement about
    epsilon, and ``figures`` those of any other. ``repaired`` is the same question put to the target
    with ``repaired_settings`` over its own. ``target``, ``settings``, ``n_users`` and ``n_items``
    are what was judged: `auditor account TARGET --set ... --users ... --items ...` asks it again.
    ``demonstration_target`` is the system that ``demonstration`` runs on, if it is another one.
    """

    number: str
    heading: int
    target: str
    settings: dict[str, Setting | dict[str, Setting]]
    n_users: int
    n_items: int
    statement: str
    source: str
    scope: ScopeRow | None
    delta: float | None
    claimed: str
    claimed_epsilon: Epsilon | None
    provable: str
    proved_epsilon: Epsilon | None
    proof: str
    exact_lower_epsilon: Epsilon | None
    verdict: Verdict | None
    arithmetic: Arithmetic | None
    reason: str
    finding: Finding | None
    figures: tuple[Figure, ...]
    repaired_settings: dict[str, Setting | dict[str, Setting]] | None
    repaired: Finding | None
    demonstration: str | None
    demonstration_target: str | None = None

    @property
    def shown_by(self) -> str:
        """The command that runs the demonstration."""
        return f"auditor run {self.demonstration_target or self.target} --only claims"

    @property
    def judgement(self) -> str:
        """The verdict, and whether the numbers come out, where there are any."""
        return ", ".join(word for word in (self.verdict, self.arithmetic) if word is not None)

    @property
    def wrong_figures(self) -> tuple[Figure, ...]:
        """The numbers that do not come out."""
        return tuple(figure for figure in self.figures if not figure.holds)

    @property
    def vacuous(self) -> bool:
        """Whether the claim would say next to nothing even if it held."""
        return self.finding is not None and self.finding.vacuous and not self.promises_nothing

    @property
    def promises_nothing(self) -> bool:
        """Whether no epsilon is claimed at all."""
        return self.claimed_epsilon is not None and math.isinf(self.claimed_epsilon)


class TableRow(Row):
    """One printed entry of PrivRec's Tables 3 and 4 beside what it should be.

    ``counted`` is what the authors' counting gives; the epsilon of the same training lies between
    ``lower`` and ``upper``.
    """

    table: int
    clients: int
    n_users: int
    delta: float
    printed: float
    counted: float
    lower: Epsilon
    upper: Epsilon
