"""Data model of ``claims.toml``: a paper's privacy statements, and how they are checked."""

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


class TomlTable(BaseModel):
    """Base class of the tables in a paper's TOML files; unknown keys are errors.

    model_config: settings of pydantic: objects are immutable, and unknown keys are errors
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


# A number as the paper claims it, the number as computed here, and optionally the values of the
# names in braces in the number's description.
ClaimedAndComputed = tuple[float, float] | tuple[float, float, Mapping[str, Any]]


class NumberDescription(TomlTable):
    """Description of one or several numbers in a paper that this project also computes.

    Each number is a pair: the claimed number, which is in the paper, and the right number, which is
    computed here.

    what: phrase that names the number; a name in braces stands for a value that comes with the pair
    how: sentence on how the right number was computed; names in braces as in ``what``
    tolerance: difference up to which the two numbers count as equal: relative to the right number,
        or absolute if the right number is below 1 in size
    below: True if the paper states only that the number is below the claimed number; False if it
        states the claimed number itself
    upper: True if the claimed number is an upper bound, such as an epsilon. A claimed number above
        the right number is then "loose", and not "wrong"
    side: whether the right number is an upper or a lower bound of the true value; None if it is
        exact
    """

    what: str
    how: str
    tolerance: float = 1e-9
    below: bool = False
    upper: bool = False
    side: Side | None = None

    def fill_in(self, pair: ClaimedAndComputed, basis: Basis = Basis.PRINTED) -> ComputedNumber:
        """Creates a ``ComputedNumber`` from this description and the two values in ``pair``.

        pair: the paper's number, the number computed here, and optionally values for the names in
            braces in ``what`` and ``how``
        basis: whether the authors print the number
        """
        claimed, right, *rest = pair
        names: Mapping[str, Any] = rest[0] if rest else {}
        texts = {"what": self.what.format_map(names), "how": self.how.format_map(names)}
        return ComputedNumber(**{**dict(self), **texts}, claimed=claimed, right=right, basis=basis)


class ComputedNumber(NumberDescription):
    """A number in a paper, with the value that the paper claims and the value computed here.

    claimed: the value in the paper
    right: the right value, which is computed here
    basis: origin of the claimed value: printed, computed by the authors' formula, or derived from
        their text
    """

    claimed: float
    right: float
    basis: Basis = Basis.PRINTED

    @property
    def word(self) -> NumberLabel:
        """Judgement of the claimed value: right, loose, wrong or unstated.

        - "right": the claimed value equals ``right`` up to ``tolerance``. If ``below`` is true: it
          is above ``right``.
        - "loose": the claimed value is above ``right``, and ``upper`` is true.
        - "wrong": the values differ otherwise, and the authors state the claimed value.
        - "unstated": the values differ otherwise, and this project derived the claimed value from
          the paper.
        """
        return judge_number(
            self.claimed,
            self.right,
            tolerance=self.tolerance,
            is_below_claimed=self.below,
            is_upper_bound=self.upper,
            basis=self.basis,
        )


def _to_list(value: Any) -> Any:
    """Returns ``value`` if it is a list, and otherwise a list with this single value."""
    return value if isinstance(value, list | tuple) else [value]


# One or several names; in TOML a text or a list of texts.
NameOrNames = Annotated[tuple[str, ...], BeforeValidator(_to_list)]


class NoteSentence(TomlTable):
    """A sentence of an entry's note that holds only for some settings of the system.

    text: the sentence
    when: the settings for which the sentence is part of the note, by name; a list allows any of its
        values
    """

    text: str
    when: Mapping[str, Any] = {}


class PaperEntry(TomlTable):
    """A statement of a paper: a claim on a system's epsilon, an item of the catalogue, or both.

    The catalogue is the list of checked statements that ``auditor claims`` prints. The fields have
    four groups.

    Fields of a claim:

    name: name by which other entries may refer to this entry
    system: names of the systems that the claim is about
    epsilon: the claimed epsilon: a number, or the name of an attribute or method of the system. A
        method takes the population, and delta if ``curve`` is true
    scope, delta: scope (unit, adjacency, adversary's view, period) and delta of the claim. Without
        ``epsilon`` and ``of``, they select a claim that the system's method ``get_claims`` returns
    curve: whether epsilon is a function of delta
    of: numbers or names of other entries, if this entry applies another entry's claim to a further
        scope. The first of them that is about the system counts
    when: settings of the system for which the claim holds, by name; a list allows any of its values
    note: sentences for reports on the claim or its scope. A ``NoteSentence`` holds only for some
        settings
    statement: the statement in words
    source: the place of the statement in the paper

    Names in braces in ``statement``, ``source`` and ``note`` stand for attributes of the system,
    sizes of the population, ``epsilon`` and ``delta``.

    Fields of an item of the catalogue:

    number: number of the catalogue's heading (from 1); further entries under a heading have a
        letter, as in "22b"
    settings: settings of the first system that differ from the defaults, and ``n_users`` and
        ``n_items`` of the population, by default that of MovieLens 100K
    repeats: number or name of the entry whose statement this entry repeats at other settings. The
        two count as one statement
    kind: topic of the statement, such as privacy or utility
    claimed, provable: formulas, as text, of the value that the paper claims and of the value that
        can be proved
    reason: sentence on why ``claimed`` and ``provable`` differ or agree
    basis: origin of the statement. "printed": the authors print it. "computed": their formula gives
        it at other settings. "derived": an interpretation by this project, which never counts as a
        false statement of the authors
    repaired: settings that make the statement true; None if it is true, or if no settings make it
        true

    Fields of the numbers in a statement:

    computed: name of the function, in the paper's module ``numbers``, that returns pairs of a
        claimed and a computed value
    numbers: descriptions of the pairs, in order. They are used again from the first if there are
        more pairs. Without ``computed``, they contain the two values
    computed_at: text on the settings of the computed values, if a reader would assume other
        settings

    Fields of an entry on released code, which is not run here:

    draws: name of the mechanism whose output the adversary sees, or "nothing", or "anything" if no
        bound on the revealed data is known. ``settings`` then has the mechanism's settings,
        ``entries`` (number of randomized numbers), ``times`` (how often each is randomized) and
        ``rounds``
    assumes: sentences that state the assumptions of ``draws``
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
    note: Annotated[tuple[str | NoteSentence, ...], BeforeValidator(_to_list)] = ()
    kind: StatementKind = StatementKind.PRIVACY
    basis: Basis = Basis.PRINTED
    settings: Mapping[str, Any] = {}
    claimed: str = ""
    provable: str = ""
    reason: str = ""
    computed_at: str = ""
    repeats: str = ""
    computed: str = ""
    numbers: tuple[ComputedNumber | NumberDescription, ...] = ()
    draws: str = ""
    assumes: NameOrNames = ()
    repaired: Mapping[str, Any] | None = None

    @property
    def heading_number(self) -> int:
        """Number of the entry's heading in the catalogue: 22 if ``number`` is "22b"."""
        return int(self.number.rstrip(ascii_lowercase))

    @property
    def number_suffix(self) -> str:
        """Letter at the end of ``number``: "b" if it is "22b", and "" if it is "22"."""
        return self.number.lstrip(digits)

    def applies_to(self, name: str, system: Claimant) -> bool:
        """Whether the claim is about the system ``name``, at the settings of ``system``."""
        return name in self.system and _has_settings(self.when, system)

    def make_claim(
        self, title: str, name_values: FormulaValues, judged_delta: float | str | None = None
    ) -> Claim:
        """Returns the claim that this entry states, with epsilon and delta as numbers.

        title: title of the paper, a part of the claim's source
        name_values: values of the names in formulas and texts
        judged_delta: delta of the claim, if epsilon is a function of delta (``curve``); None for
            the entry's own delta
        """
        assert self.scope is not None
        assert self.epsilon is not None
        delta = name_values.evaluate((judged_delta if self.curve else None) or self.delta or 0.0)
        epsilon = name_values.evaluate(self.epsilon, *((delta,) if self.curve else ()))
        name_values = replace(name_values, epsilon=epsilon, delta=delta)
        return Claim(
            epsilon=epsilon,
            delta=delta,
            scope=self.scope,
            statement=name_values.fill_text(self.statement),
            source=f"{title}, {name_values.fill_text(self.source)}",
            basis=Basis.pick_less_direct(self.basis, Basis.COMPUTED) if self.curve else self.basis,
        )

    def rescope_claim(
        self, claim: Claim, name_values: FormulaValues, stating_entry: PaperEntry
    ) -> ScopedClaim:
        """Returns ``claim`` with the scope and delta to which this entry applies it, and a note.

        claim: the claim, which another entry may state
        name_values: values of the names in formulas and texts
        stating_entry: the entry that states ``claim``
        """
        delta = claim.delta if self.delta is None else name_values.evaluate(self.delta)
        name_values = replace(name_values, epsilon=claim.epsilon, delta=delta)
        notes = (
            sentence if isinstance(sentence, str) else sentence.text
            for sentence in self.note
            if isinstance(sentence, str) or _has_settings(sentence.when, name_values.system)
        )
        curve = partial(name_values.evaluate, stating_entry.epsilon or 0.0) if self.curve else None
        return ScopedClaim(
            claim=claim,
            scope=self.scope or claim.scope,
            delta=delta,
            note=name_values.fill_text(" ".join(notes)),
            epsilon_by_delta=curve,
        )


@dataclass(frozen=True, slots=True)
class FormulaValues:
    """Mapping from the names in a paper's texts and formulas to their values.

    A name is looked up among the sizes of the population, then ``epsilon`` and ``delta``, then the
    attributes of the system. A method is called with the population.

    system: the system that a statement is about
    population: numbers of users and items
    epsilon, delta: the values of the claim
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
            f"Expected {{{name}}} in a claim to name an attribute of {self.system.name} or of "
            f"Population, got {name!r}. Correct the name in braces."
        )

    def evaluate(self, formula: float | str, *delta: float) -> float:
        """Returns the value of ``formula``: a number, or the name of an attribute or method of
        ``system``.

        A method is called with the population and, if it is given, with ``delta``.
        """
        if not isinstance(formula, str):
            return formula
        value = getattr(self.system, formula)
        return float(value(self.population, *delta) if callable(value) else value)

    def fill_text(self, text: str) -> str:
        """Replaces the names in braces in ``text`` by their values."""
        return text.format_map(self)


def _has_settings(when: Mapping[str, Any], system: Claimant) -> bool:
    """Whether the system has the settings ``when``; a list allows any of its values."""
    return all(
        getattr(system, name) in (value if isinstance(value, list) else [value])
        for name, value in when.items()
    )
