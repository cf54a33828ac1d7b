"""Statements about privacy: a ``Bound`` on epsilon at a delta, its ``Scope``, and a ``Claim``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self, SupportsFloat

from fedrec_auditor.accountants.errors import InputError


class StatementKind(StrEnum):
    """What is at stake if the statement does not hold."""

    PRIVACY = "privacy"  # what a user gives away
    ESTIMATOR = "estimator"  # what the server makes of what it is sent
    UTILITY = "utility"  # how systems or settings compare
    TYPO = "typo"  # the text: who follows it to the letter builds something else


class Basis(StrEnum):
    """Authorship of a statement, from its authors to nobody; a derived one cannot be false of them.

    >>> Basis.weaker(Basis.DERIVED, Basis.COMPUTED)
    <Basis.DERIVED: 'derived'>
    """

    PRINTED = "printed"  # the authors, as it stands
    COMPUTED = (
        "computed"  # the authors' formula, at settings, rounds or a delta that they do not print
    )
    DERIVED = "derived"  # nobody: a reading of what they say or release
    UNKNOWN = "unknown"  # not recorded, as in records of earlier versions

    @staticmethod
    def weaker(first: Basis, second: Basis) -> Basis:
        """The basis of a statement that rests on both."""
        return max(first, second, key=list(Basis).index)


# Scope of a privacy statement: the unit, the adjacency, the vantage and the horizon.
#
# An epsilon means nothing without its scope. ``Scope.covers`` is the partial order in which an
# upper bound may be carried from one scope to another at the same epsilon, and so the order in
# which a lower bound may refute it.


class Unit(StrEnum):
    """Whose data, or how much of it, is protected."""

    BIT = "bit"  # one bit of one upload
    INTERACTION = "interaction"  # the presence of one (user, item) pair
    RATING = "rating"  # one (user, item) pair with its value
    COORDINATE = "coordinate"  # whatever of a user's data one entry of an upload encodes
    REPORT = "report"  # whatever of a user's data one report encodes
    ATTRIBUTE = "attribute"  # one attribute of a user, such as gender
    USER = "user"  # all data of one user


class Adjacency(StrEnum):
    """Which change of the unit must stay hidden."""

    REPLACE = "replace"  # another value of the same kind
    ADD_REMOVE = "add-remove"  # present or absent
    ANY_PAIR = "any pair"  # any two values at all, an empty history too: the local model


class Vantage(StrEnum):
    """Who looks, and therefore what is seen: each is a function of what the one before sees.

    So models that are broadcast or released are made of what the aggregate carries.
    """

    SERVER = "server"  # every upload, linked to its user
    SHUFFLED = "shuffled"  # the same reports, unlinked and permuted
    AGGREGATE = "aggregate"  # their sum only, behind secure aggregation
    PEERS = "peers"  # the broadcast models
    RELEASE = "release"  # the published model only

    def shows(self, other: Vantage) -> bool:
        """Whether whoever stands here sees all that is seen from ``other``."""
        return _covers(self, other)


class Horizon(StrEnum):
    """For how long the adversary looks; a round is any one round of the training."""

    REPORT = "report"
    ROUND = "round"
    TRAINING = "training"


# For each value, the values right below it: whoever is protected above is protected below.
_BELOW: dict[StrEnum, tuple[StrEnum, ...]] = {
    Unit.USER: (Unit.REPORT, Unit.COORDINATE, Unit.ATTRIBUTE, Unit.RATING, Unit.INTERACTION),
    Unit.INTERACTION: (Unit.BIT,),
    Adjacency.ANY_PAIR: (Adjacency.REPLACE, Adjacency.ADD_REMOVE),
    Vantage.SERVER: (Vantage.SHUFFLED,),
    Vantage.SHUFFLED: (Vantage.AGGREGATE,),
    Vantage.AGGREGATE: (Vantage.PEERS,),
    Vantage.PEERS: (Vantage.RELEASE,),
    Horizon.TRAINING: (Horizon.ROUND,),
    Horizon.ROUND: (Horizon.REPORT,),
}


def _covers(above: StrEnum, below: StrEnum) -> bool:
    return above == below or any(_covers(step, below) for step in _BELOW.get(above, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """For this unit, under this adjacency, seen from this vantage, over this horizon.

    >>> user = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> bit = any_pair(Unit.BIT, Vantage.SERVER, Horizon.ROUND)
    >>> user.covers(bit), bit.covers(user), bit.uncovered(user)
    (True, False, ('unit', 'horizon'))
    """

    unit: Unit
    adjacency: Adjacency
    vantage: Vantage
    horizon: Horizon

    def covers(self, other: Scope) -> bool:
        """Whether an upper bound in this scope holds, at the same epsilon, in ``other`` too.

        A partial order: reflexive, antisymmetric, transitive. Narrower units, weaker vantages
        and shorter horizons never cover wider ones. A user's presence and a user's data do not
        vouch for each other: changing one interaction of a user who stays is a removal and an
        addition, at twice epsilon; and a local randomizer hides what a user sends, not who does.
        """
        return not self.uncovered(other)

    def uncovered(self, other: Scope) -> tuple[str, ...]:
        """Names of the fields in which this scope does not reach as far as ``other``."""
        presence, asked = self.is_presence, other.is_presence
        return tuple(
            field.name
            for field in fields(self)
            if not _covers(getattr(self, field.name), getattr(other, field.name))
            or (presence and field.name == "unit" and other.unit is not Unit.USER)
            or (asked and not presence and field.name == "adjacency")
        )

    @property
    def is_value(self) -> bool:
        """Whether it asks for the value of a rating that is there in any case."""
        return self.unit is Unit.RATING and self.adjacency is Adjacency.REPLACE

    @property
    def is_presence(self) -> bool:
        """Whether it asks if a user takes part at all."""
        return self.unit is Unit.USER and self.adjacency is Adjacency.ADD_REMOVE

    def __str__(self) -> str:
        return f"{self.unit} / {self.adjacency} / {self.vantage} / {self.horizon}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The scope that ``str`` writes so; ValueError if it is none.

        >>> print(Scope.parse("user / replace / peers / training").vantage)
        peers
        """
        unit, adjacency, vantage, horizon = text.split(" / ")
        return cls(
            unit=Unit(unit),
            adjacency=Adjacency(adjacency),
            vantage=Vantage(vantage),
            horizon=Horizon(horizon),
        )


def any_pair(unit: Unit, vantage: Vantage, horizon: Horizon) -> Scope:
    """A scope of the local model: any two values of the unit."""
    return Scope(unit=unit, adjacency=Adjacency.ANY_PAIR, vantage=vantage, horizon=horizon)


class UnknownSize(InputError):
    """A size is needed that is not given; ``size`` names it."""

    def __init__(self, message: str, size: str = "") -> None:
        super().__init__(message)
        self.size = size


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many of the narrower a wider unit or horizon holds, at most; None where unknown.

    ``items``: bits of an upload, or interactions of a user. ``ratings``: of a user. ``coordinates``
    of an upload; ``reports`` of a user and round; ``rounds`` of a training.
    """

    items: int | None = None
    ratings: int | None = None
    coordinates: int | None = None
    reports: int | None = None
    rounds: int | None = None

    def get(self, name: str, purpose: str) -> int:
        """The size of this name; InputError where it is unknown."""
        size: int | None = getattr(self, name)
        if size is None:
            raise UnknownSize(
                f"Expected the number of {name}, to carry a bound from {purpose}, got none. "
                f"Give {name} in the sizes.",
                name,
            )
        return size


class Side(StrEnum):
    """Whether epsilon is bounded from above (a promise, a proof) or below (a measured leak)."""

    UPPER = "upper"
    LOWER = "lower"


def _number(value: object) -> float:
    """``value`` as a float; NaN, which is in no interval, if it is no number."""
    return float(value) if isinstance(value, (float, SupportsFloat)) else math.nan


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` if it is a number in [0, inf]; InputError otherwise."""
    if not _number(epsilon) >= 0:
        raise InputError(
            f"Expected epsilon in [0, inf], got epsilon={epsilon!r}. "
            "Give a number that is not negative."
        )
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Return ``delta`` if it is a number in [0, 1); InputError otherwise."""
    if not 0 <= _number(delta) < 1:
        raise InputError(
            f"Expected delta in [0, 1), got delta={delta!r}. Give 0 for pure differential privacy."
        )
    return float(delta)


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` if it is a number in (0, 1); InputError otherwise."""
    if not 0 < _number(confidence) < 1:
        raise InputError(
            f"Expected confidence in (0, 1), got confidence={confidence!r}. Give 0.95, say."
        )
    return float(confidence)


def guess_probability(epsilon: float, delta: float = 0.0) -> float:
    """Best success rate of an adversary who guesses one fair bit under (epsilon, delta)-DP.

    (e^eps + delta) / (1 + e^eps), after Kairouz, Oh and Viswanath 2015, Theorem 2.1: the point of
    the (eps, delta) trade-off region where both kinds of error are equal.
    """
    return 1.0 - (1.0 - delta) / (1.0 + math.exp(epsilon)) if epsilon < 700 else 1.0


def rounded(value: float, towards: Callable[[float], int], digits: int = 3) -> float:
    """``value`` in so many significant digits, up or down, but for what doubles lose."""
    if not value or math.isinf(value):
        return value
    exponent = math.floor(math.log10(abs(value))) + 1 - digits
    if exponent <= -300:
        return value
    scaled = value / 10.0**exponent
    near = round(scaled)
    whole = near if math.isclose(scaled, near, rel_tol=1e-9) else towards(scaled)
    return whole * 10.0**exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The pair of inputs and the output (or event) that show a lower bound.

    ``probability_a`` and ``probability_b`` are the probabilities (or densities; for a measured
    bound the confidence limits or the shares seen, as ``note`` says) of ``output`` on either input.
    ``copies`` is the number of independent reports or coordinates that take this pair at once: the
    log-ratio adds up over them.
    """

    input_a: str
    input_b: str
    output: str
    probability_a: float
    probability_b: float
    copies: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("probability_a", "probability_b"):
            if not getattr(self, name) >= 0:
                raise InputError(
                    f"Expected a {name} of at least 0, got {getattr(self, name)!r}. Mend it."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An upper or a lower bound on epsilon, with everything that makes it a statement.

    ``confidence`` is 1 for a proof or an exact calculation. ``source`` says who says so: a paper
    and place, a theorem, or an estimator. ``samples`` is the number of simulated uploads behind a
    measured bound, None for a proof; ``largest`` the largest epsilon that they could have shown,
    infinite for a calculation. ``tight`` says of a calculated lower bound that epsilon is no larger
    in its scope. InputError unless epsilon is in [0, inf], delta in [0, 1) and confidence in
    (0, 1].

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    >>> bound = Bound(epsilon=1.0, side=Side.UPPER, scope=scope, source="a proof")
    >>> f"{bound.side} bound of {bound.epsilon} for [{bound.scope}]"
    'upper bound of 1.0 for [user / any pair / server / round]'
    """

    epsilon: float
    side: Side
    scope: Scope
    source: str
    delta: float = 0.0
    confidence: float = 1.0
    assumptions: tuple[str, ...] = ()
    samples: int | None = None
    largest: float = math.inf
    tight: bool = False
    witness: Witness | None = field(default=None)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.confidence != 1.0:
            check_confidence(self.confidence)

    @property
    def told(self) -> float:
        """Epsilon as it is printed: in six digits, or whole, on the side on which it holds."""
        towards = math.ceil if self.side is Side.UPPER else math.floor
        usual = 1e-4 <= self.epsilon < 1e9
        return rounded(self.epsilon, towards, max(6, len(f"{self.epsilon:.0f}")) if usual else 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An upper bound said by authors, in our words, with where it stands.

    An infinite ``epsilon`` means that no epsilon is promised. ``statement`` is ours, never the
    paper's sentence; ``source`` names paper, section and equation. ``basis`` says whether the
    authors state this epsilon, it follows from their formula, or it is a reading that nobody
    states. InputError unless epsilon is in [0, inf] and delta in [0, 1).

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> Claim(epsilon=2.5, scope=scope, statement="A report is 2.5-LDP.", source="Theorem 1").delta
    0.0
    """

    epsilon: float
    scope: Scope
    statement: str
    source: str
    delta: float = 0.0
    basis: Basis = Basis.PRINTED

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
