"""One statement of a paper about privacy: its place, its claim, and the reason of the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from string import ascii_lowercase, digits
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Basis, Claim, Scope, Side, StatementKind
from fedrec_auditor.accountants.verdict import Arithmetic, judge_number
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim


class Declaration(BaseModel):
    """Base class of declarations in a paper's TOML files; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Pair = tuple[float, float] | tuple[float, float, Mapping[str, Any]]
"""A number as claimed and as computed here, and values of names in its description."""


class StatedNumber(Declaration):
    """A number that a paper states or relies on, to be compared with the number computed here.

    what: name of the number; names in braces stand for values of the pair
    how: a sentence on how the right number was computed, also with names in braces
    tolerance: relative difference up to which the claimed and the right number count as equal
    below: whether the paper states only that the number is below the claimed one
    upper: whether the number is an upper bound (an epsilon, a sensitivity), which holds, loosely,
        if it is larger than the right number
    side: the side of the right number on which the truth may lie, if the right number is a bound
    """

    what: str
    how: str
    tolerance: float = 1e-9
    below: bool = False
    upper: bool = False
    side: Side | None = None

    def of(self, pair: Pair, basis: Basis = Basis.PRINTED) -> ComputedNumber:
        """The number with these values; names of the pair fill the braces in its texts."""
        claimed, right, *rest = pair
        names: Mapping[str, Any] = rest[0] if rest else {}
        texts = {"what": self.what.format_map(names), "how": self.how.format_map(names)}
        return ComputedNumber(**{**dict(self), **texts}, claimed=claimed, right=right, basis=basis)


class ComputedNumber(StatedNumber):
    """A ``StatedNumber`` with its value as claimed and its value as computed here."""

    claimed: float
    right: float
    basis: Basis = Basis.PRINTED

    @property
    def word(self) -> Arithmetic:
        """Verdict on the claimed number, by comparison with the right number."""
        return judge_number(
            self.claimed,
            self.right,
            tolerance=self.tolerance,
            below=self.below,
            upper=self.upper,
            basis=self.basis,
        )


def _several(value: Any) -> Any:
    """The value as a list, even if it is a single one."""
    return value if isinstance(value, list | tuple) else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""One name or several names."""


class Sentence(Declaration):
    """A sentence of a note, used only if the system has the settings ``when``."""

    text: str
    when: Mapping[str, Any] = {}


class Entry(Declaration):
    """A statement of a paper: a claim on its systems, a statement of the catalogue, or both.

    A claim on systems has these fields:

    system: names of the systems that the claim is about
    epsilon: a number, or a formula: the name of the system's attribute, or of its method that takes
        the population (and delta if there is a ``curve``)
    scope, delta: scope and delta of the claim; with a scope but neither epsilon nor ``of``, the
        claim follows from the system's parts
    curve: whether the formula gives epsilon at any other delta, too
    of: numbers or names of other entries; the claim of the first of them that is about the system
        is compared in this entry's scope, and, if that claim has a curve, at this entry's delta
    when: settings of the system for which the claim holds
    note: why a reader would compare the claim in this scope
    statement: the statement in words
    source: the place of the statement in the paper

    Names in braces in ``statement``, ``source`` and ``note`` stand for attributes of the system,
    sizes of the population, ``epsilon`` and ``delta``.

    A statement of the catalogue has these fields:

    number: "7" or "22b": the number of a heading, from 1 on, and the letter of its part from the
        second part on
    settings: settings of the first system with which the statement is evaluated, if they differ
        from the defaults: the minimum that shows the value of the claim. ``n_users`` and
        ``n_items`` are the population, by default that of MovieLens 100K
    repeats: an entry of which this one is the statement at other settings; both count once, and the
        system has one claim
    computed: a function in the paper's ``numbers`` that returns pairs of numbers
    numbers: descriptions of these pairs, by turns
    claimed, provable: formulas in plain text
    reason: one sentence on why they differ or agree
    basis: whether the authors print the statement, whether its number is their formula at settings
        that they do not print, or whether it is a reading that nobody states; an entry of the last
        kind is never false of the authors
    computed_at: the settings of the numbers, if they are far from those that a reader of the paper
        would assume
    repaired: settings with which the finding goes away; None if nothing has to be repaired, or if
        no setting can repair it

    An entry on released code that is not a system here has these fields:

    draws: the mechanism that hides the data in this scope; its fields are the ``settings``, apart
        from ``entries`` (for how many numbers it draws), ``times`` (how often for the same numbers)
        and ``rounds`` of a training; "nothing" if an adversary sees nothing, "anything" if no
        bound on the revealed data is known
    assumes: sentences that state the assumptions of ``draws``

    The ``numbers`` of such an entry contain the claimed and the computed values.
    """

    number: str = ""
    name: str = ""
    system: Names
    statement: str = ""
    source: str = ""
    scope: Annotated[Scope | None, BeforeValidator(Scope.parse)] = None
    epsilon: float | str | None = None
    delta: float | str | None = None
    curve: bool = False
    of: Names = ()
    when: Mapping[str, Any] = {}
    note: Annotated[tuple[str | Sentence, ...], BeforeValidator(_several)] = ()
    kind: StatementKind = StatementKind.PRIVACY
    basis: Basis = Basis.PRINTED
    settings: Mapping[str, Any] = {}
    claimed: str = ""
    provable: str = ""
    reason: str = ""
    computed_at: str = ""
    repeats: str = ""
    computed: str = ""
    numbers: tuple[ComputedNumber | StatedNumber, ...] = ()
    draws: str = ""
    assumes: Names = ()
    repaired: Mapping[str, Any] | None = None

    @property
    def heading(self) -> int:
        """The entry's number without the letter of its part."""
        return int(self.number.rstrip(ascii_lowercase))

    @property
    def part(self) -> str:
        """The letter of the part, "" for the first part."""
        return self.number.lstrip(digits)

    def speaks_of(self, name: str, system: Claimant) -> bool:
        """Whether the entry is about the system of this name, at the system's settings."""
        return name in self.system and _holds(self.when, system)

    def claim(self, title: str, words: Words, at: float | str | None = None) -> Claim:
        """The claim in the paper of this title; if there is a curve, ``at`` is its delta."""
        assert self.scope is not None
        assert self.epsilon is not None
        delta = words.number((at if self.curve else None) or self.delta or 0.0)
        epsilon = words.number(self.epsilon, *((delta,) if self.curve else ()))
        words = replace(words, epsilon=epsilon, delta=delta)
        return Claim(
            epsilon=epsilon,
            delta=delta,
            scope=self.scope,
            statement=words.fill(self.statement),
            source=f"{title}, {words.fill(self.source)}",
            basis=Basis.weaker(self.basis, Basis.COMPUTED) if self.curve else self.basis,
        )

    def rescope(self, claim: Claim, words: Words, stating: Entry) -> ScopedClaim:
        """The claim of the entry ``stating`` in this entry's scope, at its delta, with its note."""
        delta = claim.delta if self.delta is None else words.number(self.delta)
        words = replace(words, epsilon=claim.epsilon, delta=delta)
        notes = (
            sentence if isinstance(sentence, str) else sentence.text
            for sentence in self.note
            if isinstance(sentence, str) or _holds(sentence.when, words.system)
        )
        return ScopedClaim(
            claim=claim,
            scope=self.scope or claim.scope,
            delta=delta,
            note=words.fill(" ".join(notes)),
            curve=partial(words.number, stating.epsilon or 0.0) if self.curve else None,
        )


@dataclass(frozen=True, slots=True)
class Words:
    """Values of the names in statements and formulas.

    The names are attributes of a system, sizes of a population, ``epsilon`` and ``delta``.
    """

    system: Claimant
    population: Population
    epsilon: float = 0.0
    delta: float = 0.0

    def __getitem__(self, name: str) -> Any:
        for holder in (self.population, self if name in ("epsilon", "delta") else self.system):
            if hasattr(holder, name):
                value = getattr(holder, name)
                return value(self.population) if callable(value) else value
        raise InputError(
            f"Expected an attribute of {self.system.name} or of a population, got {name!r}. "
            "Mend the claim that names it."
        )

    def number(self, formula: float | str, *at: float) -> float:
        """The number itself, or the value of the system's attribute or method ``formula``.

        A method takes the population, and ``at`` (a delta) if it is given.
        """
        if not isinstance(formula, str):
            return formula
        value = getattr(self.system, formula)
        return float(value(self.population, *at) if callable(value) else value)

    def fill(self, text: str) -> str:
        """The text with the values of the names in braces."""
        return text.format_map(self)


def _holds(when: Mapping[str, Any], system: Claimant) -> bool:
    """Whether the system has these settings."""
    return all(
        getattr(system, name) in (value if isinstance(value, list) else [value])
        for name, value in when.items()
    )
