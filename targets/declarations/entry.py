"""One statement of a paper about privacy: where it stands, what it claims, and what holds."""

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


class Declared(BaseModel):
    """What a TOML file of a paper declares: keys that it does not know are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Pair = tuple[float, float] | tuple[float, float, Mapping[str, Any]]
"""A number as it is claimed and as it is computed here, and names in what is said of it."""


class StatedNumber(Declared):
    """A number that a paper states or relies on, held against the one computed here.

    ``what`` names it; the claimed one and the right one are equal, to ``tolerance`` relative, if
    the paper is right; where it says only that the number is ``below`` the claimed one, it must be
    that. An ``upper`` bound (an epsilon, a sensitivity) that is larger than the right one holds,
    loosely. ``how`` says in a sentence how the right one was found; with a ``side`` the truth may
    lie on one side of it.
    """

    what: str
    how: str
    tolerance: float = 1e-9
    below: bool = False
    upper: bool = False
    side: Side | None = None

    def of(self, pair: Pair, basis: Basis = Basis.PRINTED) -> Computed:
        """The number with these values; names stand in braces in ``what`` and ``how``."""
        claimed, right, *rest = pair
        names: Mapping[str, Any] = rest[0] if rest else {}
        said = {"what": self.what.format_map(names), "how": self.how.format_map(names)}
        return Computed(**{**dict(self), **said}, claimed=claimed, right=right, basis=basis)


class Computed(StatedNumber):
    """A ``StatedNumber`` as it is claimed and as it is computed here."""

    claimed: float
    right: float
    basis: Basis = Basis.PRINTED

    @property
    def word(self) -> Arithmetic:
        """Whether the claimed number comes out."""
        return judge_number(
            self.claimed,
            self.right,
            tolerance=self.tolerance,
            below=self.below,
            upper=self.upper,
            basis=self.basis,
        )


def _several(value: Any) -> Any:
    """A list, also where there is one only."""
    return value if isinstance(value, list | tuple) else [value]


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""A name, or several."""


class Sentence(Declared):
    """A sentence of a note that holds ``when`` the system has these settings."""

    text: str
    when: Mapping[str, Any] = {}


class Entry(Declared):
    """A statement of a paper: a claim of its systems, a statement of the catalogue, or both.

    With an ``epsilon``, a number or a formula, it is a claim of every ``system`` that it names,
    where their settings are as ``when`` says: of ``scope``, at ``delta``, and with ``curve`` at
    any other delta, too. A formula is the name of an attribute of the system, or of a method that
    takes the population, and delta if there is a ``curve``. With ``of``, numbers or names of other
    entries, it is the claim of the one that the system has, asked in this ``scope``, and if that
    one has a curve at this ``delta``. ``note`` says why a reader would ask it. Names in braces in
    ``statement``, ``source`` and ``note`` stand for attributes of the system, sizes of the
    population, ``epsilon`` and ``delta``.

    A ``number``, "7" or "22b", makes it a statement of the catalogue: a heading, 1 on, and a
    part of it from the second on. It is judged on the first system, with ``settings`` where they
    differ from its defaults: the least that shows what the claim is worth. ``n_users`` and
    ``n_items`` among them are the population, by default MovieLens 100K's. What ``repeats``
    another entry is its statement at other settings: both count once, and the system has one
    claim. Where an entry has a ``scope`` alone, the claim follows from the system's parts.
    ``source`` is where it stands in the paper. ``computed`` names a function of the paper's
    ``numbers``, which gives pairs of numbers; ``numbers`` say what they are, by turns.

    ``claimed`` and ``provable`` are formulas in plain text, ``reason`` one sentence on why they
    differ or agree. ``basis`` says whether the authors print the statement, its number is their
    formula at settings that they do not print, or it is a reading that nobody states: such an entry
    is never false of them. ``computed_at`` says of what the numbers are, where
    that is far from what a reader of the paper would take. ``repaired`` are the settings with
    which the finding goes away, None where nothing has to be or can be repaired by a switch.

    Of released code that is no system here, ``draws`` names what hides the data in this scope: a
    mechanism, whose fields the ``settings`` are, beside ``entries`` (how many numbers it draws
    for), ``times`` (how often for the same ones) and ``rounds`` of a training; "nothing" where
    nothing is seen, "anything" where nothing is known to bound what is. ``assumes`` are sentences
    on which that rests. Its ``numbers`` say themselves what is claimed and what was computed.
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
    numbers: tuple[Computed | StatedNumber, ...] = ()
    draws: str = ""
    assumes: Names = ()
    repaired: Mapping[str, Any] | None = None

    @property
    def heading(self) -> int:
        """The number without its part."""
        return int(self.number.rstrip(ascii_lowercase))

    @property
    def part(self) -> str:
        """The letter of the part, "" for the first."""
        return self.number.lstrip(digits)

    def speaks_of(self, name: str, system: Claimant) -> bool:
        """Whether it is said of the system of this name, at its settings."""
        return name in self.system and _holds(self.when, system)

    def claim(self, title: str, words: Words, at: float | str | None = None) -> Claim:
        """What is claimed in the paper of this title; where there is a curve, ``at`` a delta."""
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

    def asked(self, claim: Claim, words: Words, stating: Entry) -> ScopedClaim:
        """The claim of ``stating`` in the scope of this entry, at its delta, with its note."""
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
    """What names stand for in statements and formulas.

    They are attributes of a system, sizes of a population, and an epsilon and a delta.
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
        """A number as it is, or that of an attribute of the system, at a delta if one is given."""
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
