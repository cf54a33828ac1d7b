"""A statement of a paper about privacy: its place, its claim, and the reason of the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from string import ascii_lowercase, digits
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Basis, Claim, Scope, Side, StatementKind
from fedrec_auditor.accountants.verdict import NumberLabel, judge_number
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim


class Declaration(BaseModel):
    """Base class of declarations in a paper's TOML files; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# A number as claimed and as computed here, and values for the names in its description.
NumberPair = tuple[float, float] | tuple[float, float, Mapping[str, Any]]


class StatedNumber(Declaration):
    """Description of a number that a paper states or uses, to be compared with the right number.

    This project computes the right number.

    what: name of the number; names in braces stand for values of the pair
    how: a sentence on how the right number was computed, also with names in braces
    tolerance: relative difference up to which the claimed and the right number count as equal
    below: whether the paper states only that the number is below the claimed one
    upper: whether the number is an upper bound (an epsilon, a sensitivity). Such a number holds,
        but is loose, if it is larger than the right number
    side: the side of the right number on which the truth may lie, if the right number is a bound
    """

    what: str
    how: str
    tolerance: float = 1e-9
    below: bool = False
    upper: bool = False
    side: Side | None = None

    def fill_in(self, pair: NumberPair, basis: Basis = Basis.PRINTED) -> ComputedNumber:
        """Creates the number with the values of ``pair``, whose names fill the texts' braces."""
        claimed, right, *rest = pair
        names: Mapping[str, Any] = rest[0] if rest else {}
        texts = {"what": self.what.format_map(names), "how": self.how.format_map(names)}
        return ComputedNumber(**{**dict(self), **texts}, claimed=claimed, right=right, basis=basis)


class ComputedNumber(StatedNumber):
    """A stated number with its claimed value and its value computed here (``right``).

    ``basis`` states whether the authors print the number, or whether it follows from their text.
    """

    claimed: float
    right: float
    basis: Basis = Basis.PRINTED

    @property
    def word(self) -> NumberLabel:
        """Verdict on the claimed number, from its comparison with the right number."""
        return judge_number(
            self.claimed,
            self.right,
            tolerance=self.tolerance,
            below=self.below,
            upper=self.upper,
            basis=self.basis,
        )


def _several(value: Any) -> Any:
    """The value as a list, even if it is a single value."""
    return value if isinstance(value, list | tuple) else [value]


# One or several names.
NameOrNames = Annotated[tuple[str, ...], BeforeValidator(_several)]


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
    scope, delta: scope and delta of the claim; with a scope but neither epsilon nor ``of``,
        the claim follows from the system's parts
    curve: whether the formula also gives epsilon at any other delta
    of: numbers or names of other entries. The claim of the first of them that is about the system
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
        from the defaults; only those that show the value of the claim. ``n_users`` and ``n_items``
        are the population, by default that of MovieLens 100K
    repeats: another entry that makes the same statement at other settings. Both count once, and the
        system has one claim
    computed: a function in the paper's ``numbers`` that returns pairs of numbers
    numbers: descriptions of these pairs, used in turn
    claimed, provable: formulas in text form
    reason: one sentence on why they differ or agree
    basis: whether the authors print the statement, whether its number is their formula at settings
        that they do not print, or whether it is an interpretation that nobody states. An entry of
        the last kind is never counted as a false statement of the authors
    computed_at: the settings of the numbers, if they are far from those that a reader of the paper
        would assume
    repaired: settings with which the statement becomes true; None if nothing has to be repaired, or
        if no setting can repair it

    An entry on released code that is not a system here has these fields:

    draws: the mechanism that hides the data in this scope; its fields are the ``settings``, except
        for ``entries`` (for how many numbers it draws), ``times`` (how often for the same numbers)
        and ``rounds`` of a training. "nothing" means that an adversary sees nothing, and "anything"
        that no bound on the revealed data is known
    assumes: sentences that state the assumptions of ``draws``

    The ``numbers`` of such an entry contain the claimed and the computed values.
    """

    number: str = ""
    name: str = ""
    system: NameOrNames
    statement: str = ""
    source: str = ""
    scope: Annotated[Scope | None, BeforeValidator(Scope.parse)] = None
    epsilon: float | str | None = None
    delta: float | str | None = None
    curve: bool = False
    of: NameOrNames = ()
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
    assumes: NameOrNames = ()
    repaired: Mapping[str, Any] | None = None

    @property
    def base_number(self) -> int:
        """The entry's number without the letter of its part."""
        return int(self.number.rstrip(ascii_lowercase))

    @property
    def letter(self) -> str:
        """The letter of the entry's part; "" for the first part."""
        return self.number.lstrip(digits)

    def applies_to(self, name: str, system: Claimant) -> bool:
        """Whether the entry is about the system ``name``, at the system's settings."""
        return name in self.system and _holds(self.when, system)

    def make_claim(self, title: str, words: Namespace, at: float | str | None = None) -> Claim:
        """Returns the claim of the entry, with the paper's ``title`` as its source.

        ``words`` provides the values of formulas. ``at`` is the delta of the claim if there is a
        curve.
        """
        assert self.scope is not None
        assert self.epsilon is not None
        delta = words.evaluate((at if self.curve else None) or self.delta or 0.0)
        epsilon = words.evaluate(self.epsilon, *((delta,) if self.curve else ()))
        words = replace(words, epsilon=epsilon, delta=delta)
        return Claim(
            epsilon=epsilon,
            delta=delta,
            scope=self.scope,
            statement=words.fill_text(self.statement),
            source=f"{title}, {words.fill_text(self.source)}",
            basis=Basis.weaker(self.basis, Basis.COMPUTED) if self.curve else self.basis,
        )

    def rescope_claim(self, claim: Claim, words: Namespace, stating: Entry) -> ScopedClaim:
        """Returns the claim of the entry ``stating`` for this entry's scope and delta.

        This entry's note explains why a reader would compare the claim in this scope.
        """
        delta = claim.delta if self.delta is None else words.evaluate(self.delta)
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
            note=words.fill_text(" ".join(notes)),
            curve=partial(words.evaluate, stating.epsilon or 0.0) if self.curve else None,
        )


@dataclass(frozen=True, slots=True)
class Namespace:
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
            "Correct the claim that names it."
        )

    def evaluate(self, formula: float | str, *at: float) -> float:
        """Returns the number itself, or the value of the system's attribute or method ``formula``.

        A method takes the population, and ``at`` (a delta) if it is given.
        """
        if not isinstance(formula, str):
            return formula
        value = getattr(self.system, formula)
        return float(value(self.population, *at) if callable(value) else value)

    def fill_text(self, text: str) -> str:
        """Replaces the names in braces in ``text`` by their values."""
        return text.format_map(self)


def _holds(when: Mapping[str, Any], system: Claimant) -> bool:
    """Whether the system has these settings."""
    return all(
        getattr(system, name) in (value if isinstance(value, list) else [value])
        for name, value in when.items()
    )
