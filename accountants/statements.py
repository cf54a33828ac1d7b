"""Types of privacy statements: ``Bound`` (an upper or lower bound on epsilon), ``Claim`` (an
epsilon that authors state) and ``Scope``.

A scope is the protected data, the change of these data that stays hidden, the adversary's view, and
the period.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self, SupportsFloat

from fedrec_auditor.accountants.errors import InputError


class StatementKind(StrEnum):
    """Subject of a statement in a paper.

    - ``PRIVACY``: information about users that leaks.
    - ``ESTIMATOR``: the server's estimate from the uploads.
    - ``UTILITY``: the comparison of systems or settings.
    - ``TYPO``: a printed formula or step that differs from the method that the authors mean.
    """

    PRIVACY = "privacy"  # the information that leaks about a user
    ESTIMATOR = "estimator"  # the server's estimate from the uploads
    UTILITY = "utility"  # the comparison of systems or settings
    TYPO = "typo"  # the text: an implementation that follows it literally differs


class Basis(StrEnum):
    """Origin of a stated number: printed by the authors, computed from their formula, derived by
    the audit, or not recorded.

    Authors are not blamed for a wrong number that the audit derived.

    >>> Basis.pick_less_direct(Basis.DERIVED, Basis.COMPUTED)
    <Basis.DERIVED: 'derived'>
    """

    PRINTED = "printed"  # stated by the authors
    COMPUTED = (
        "computed"  # by the authors' formula, at settings, rounds or a delta that they do not print
    )
    DERIVED = "derived"  # by the audit, from the authors' text or release; stated by nobody
    UNKNOWN = "unknown"  # not recorded, as in records of earlier versions

    @staticmethod
    def pick_less_direct(first: Basis, second: Basis) -> Basis:
        """Returns the less direct of two origins, which is the origin of a number computed from two
        other numbers.

        From direct to indirect, the order is: printed, computed, derived, unknown.
        """
        return max(first, second, key=list(Basis).index)


# Scope of a privacy statement: the unit, the adjacency, the vantage and the horizon.
#
# An epsilon has no meaning without its scope. ``Scope.covers`` is a partial order: an upper bound
# holds at the same epsilon in every scope that its own scope covers, so a lower bound in such a
# scope may refute it.


class Unit(StrEnum):
    """Part of a user's data that a privacy statement protects.

    - ``BIT``: one bit of one upload.
    - ``INTERACTION``: the presence of one (user, item) pair.
    - ``RATING``: one (user, item) pair with its value.
    - ``COORDINATE``: the part that one entry of an upload encodes.
    - ``REPORT``: the part that one report encodes.
    - ``ATTRIBUTE``: one attribute of the user, such as gender.
    - ``USER``: all data of the user.
    """

    BIT = "bit"
    INTERACTION = "interaction"
    RATING = "rating"
    COORDINATE = "coordinate"
    REPORT = "report"
    ATTRIBUTE = "attribute"
    USER = "user"


class Adjacency(StrEnum):
    """Change between two neighbouring inputs that a privacy statement hides.

    - ``REPLACE``: another value of the protected part of a user's data.
    - ``ADD_REMOVE``: the addition or removal of this part.
    - ``ANY_PAIR``: a change between any two values, including an empty history (the local model of
      privacy).
    """

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"
    ANY_PAIR = "any pair"


class Vantage(StrEnum):
    """Position of the adversary, which determines what the adversary sees.

    - ``SERVER``: every upload, linked to its user.
    - ``SHUFFLED``: every report, in random order and without its sender.
    - ``AGGREGATE``: only the sum of the reports, as secure aggregation reveals it.
    - ``PEERS``: the broadcast models.
    - ``RELEASE``: only the published model.

    The positions are ordered from the strongest to the weakest. An adversary at one position can
    compute everything that weaker positions see.
    """

    # For example, broadcast and published models are functions of the sum of all reports.

    SERVER = "server"
    SHUFFLED = "shuffled"
    AGGREGATE = "aggregate"
    PEERS = "peers"
    RELEASE = "release"

    def sees_all_of(self, other: Vantage) -> bool:
        """Whether an adversary at this vantage sees, or can compute, everything that an adversary
        at the ``other`` vantage sees.
        """
        return _covers(self, other)


class Horizon(StrEnum):
    """Period that the adversary observes: one report, any single round, or the whole training."""

    REPORT = "report"
    ROUND = "round"
    TRAINING = "training"


# For each value, the values directly below it: protection at a value implies protection below it.
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
    """Scope of a statement on epsilon.

    - ``unit``: the protected part of a user's data.
    - ``adjacency``: the change of this part that is hidden.
    - ``vantage``: the position of the adversary.
    - ``horizon``: the period that the adversary observes.

    >>> user = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> bit = make_local_scope(Unit.BIT, Vantage.SERVER, Horizon.ROUND)
    >>> user.covers(bit), bit.covers(user), bit.list_uncovered_fields(user)
    (True, False, ('unit', 'horizon'))
    """

    unit: Unit
    adjacency: Adjacency
    vantage: Vantage
    horizon: Horizon

    def covers(self, inner: Scope) -> bool:
        """Whether an upper bound on epsilon in this scope implies an equal bound in the ``inner``
        scope.

        Every field of the inner scope must be covered:

        - unit (protected data): equal or narrower;
        - vantage (position of the adversary): equal or weaker;
        - horizon (period): equal or shorter;
        - adjacency: equal, or included in this scope's adjacency.

        A scope that hides whether a user takes part does not cover changes of a present user's
        data, and vice versa.
        """
        # A change of the data is a removal and an addition, so its epsilon may be twice the epsilon
        # of presence. A local randomizer hides the data that a user sends, but not that the user
        # sends.
        return not self.list_uncovered_fields(inner)

    def list_uncovered_fields(self, inner: Scope) -> tuple[str, ...]:
        """Lists the names of the fields, such as "unit", because of which this scope does not cover
        the ``inner`` scope.

        The tuple is empty if this scope covers the inner one.
        """
        presence, asked = self.protects_user_presence, inner.protects_user_presence
        return tuple(
            field.name
            for field in fields(self)
            if not _covers(getattr(self, field.name), getattr(inner, field.name))
            or (presence and field.name == "unit" and inner.unit is not Unit.USER)
            or (asked and not presence and field.name == "adjacency")
        )

    @property
    def protects_rating_value(self) -> bool:
        """Whether the scope protects the value of a rating, but not whether the rating exists."""
        return self.unit is Unit.RATING and self.adjacency is Adjacency.REPLACE

    @property
    def protects_user_presence(self) -> bool:
        """Whether the scope protects the fact that a user takes part: its unit is the user, and its
        adjacency is add-remove.
        """
        return self.unit is Unit.USER and self.adjacency is Adjacency.ADD_REMOVE

    def __str__(self) -> str:
        return f"{self.unit} / {self.adjacency} / {self.vantage} / {self.horizon}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a scope from text such as "user / replace / peers / training": unit, adjacency,
        vantage and horizon. Raises ValueError if the text is invalid.

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


def make_local_scope(unit: Unit, vantage: Vantage, horizon: Horizon) -> Scope:
    """Returns a scope of the local model of privacy, in which any two values of the ``unit`` are
    neighbouring inputs.

    ``unit`` is the protected part of a user's data, ``vantage`` the position of the adversary, and
    ``horizon`` the period that the adversary observes.
    """
    return Scope(unit=unit, adjacency=Adjacency.ANY_PAIR, vantage=vantage, horizon=horizon)


class UnknownSizeError(InputError):
    """Error for the conversion of a bound to another scope if a needed size, such as the number of
    rounds, is unknown.

    ``size_name``: name of the size, a field of ``Sizes``.
    """

    def __init__(self, message: str, size_name: str = "") -> None:
        super().__init__(message)
        self.size_name = size_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of a system, for the conversion of a bound to another scope; None if unknown.

    - ``items``: number of items, which limits the bits per upload and the interactions per user.
    - ``ratings``: largest number of ratings per user.
    - ``coordinates``: largest number of coordinates per upload.
    - ``reports``: largest number of reports per user and round.
    - ``rounds``: number of rounds per training.
    """

    items: int | None = None
    ratings: int | None = None
    coordinates: int | None = None
    reports: int | None = None
    rounds: int | None = None

    def require(self, name: str, purpose: str) -> int:
        """Returns the field ``name``, a number. Raises UnknownSizeError, an InputError, if the
        field is None.

        ``purpose`` names the two scopes between which a bound is converted, for the error message.
        """
        size: int | None = getattr(self, name)
        if size is None:
            raise UnknownSizeError(
                f"Expected the number of {name}, to convert a bound from {purpose}, got None. "
                f"Give this number as the field {name} of sizes.",
                name,
            )
        return size


class Side(StrEnum):
    """Whether a bound on epsilon is an upper bound (claimed or proved) or a lower bound (measured
    or calculated).
    """

    UPPER = "upper"
    LOWER = "lower"


def _to_float(value: object) -> float:
    """``value`` as a float, or NaN if it is not a number. NaN lies in no interval."""
    return float(value) if isinstance(value, (float, SupportsFloat)) else math.nan


def check_epsilon(epsilon: float) -> float:
    """Returns ``epsilon`` as a float. Raises InputError if it is not a number in [0, inf]."""
    if not _to_float(epsilon) >= 0:
        raise InputError(f"Expected epsilon in [0, inf], got epsilon={epsilon!r}. Give 1.0, e.g.")
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Returns ``delta`` as a float. Raises InputError if it is not a number in [0, 1)."""
    if not 0 <= _to_float(delta) < 1:
        raise InputError(
            f"Expected delta in [0, 1), got delta={delta!r}. Give 0 for pure differential privacy."
        )
    return float(delta)


def check_confidence(confidence: float) -> float:
    """Returns ``confidence`` as a float. Raises InputError if it is not a number in (0, 1)."""
    if not 0 < _to_float(confidence) < 1:
        raise InputError(
            f"Expected confidence in (0, 1), got confidence={confidence!r}. Give 0.95, for example."
        )
    return float(confidence)


def compute_guess_probability(epsilon: float, delta: float = 0.0) -> float:
    """Returns the largest probability of guessing a uniformly random bit correctly under (epsilon,
    delta)-DP.

    The value is (e^eps + delta) / (1 + e^eps) (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    # The point of the (eps, delta) trade-off region at which both error rates are equal.
    return 1.0 - (1.0 - delta) / (1.0 + math.exp(epsilon)) if epsilon < 700 else 1.0


def round_to_digits(value: float, towards: Callable[[float], int], digits: int = 3) -> float:
    """Rounds ``value`` up or down to ``digits`` significant digits.

    ``towards`` is math.ceil or math.floor. A value that already has this number of digits is
    returned unchanged.
    """
    # Floating-point error does not count as a further digit.
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
    """Evidence for a lower bound on epsilon: two neighbouring inputs, and an output or event that
    distinguishes them.

    - ``input_a``, ``input_b``: the two inputs, as text.
    - ``output``: the output or event, as text.
    - ``probability_a``, ``probability_b``: probabilities or densities of ``output`` under
      ``input_a`` and ``input_b``. For a measured bound they are confidence limits or observed
      frequencies, as ``note`` states.
    - ``copies``: number of independent reports or coordinates that can all have this pair of
      inputs. Their log-ratios add up.
    - ``note``: further explanation.
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
                raise InputError(f"Expected {name} >= 0, got {getattr(self, name)}. Give, e.g., 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Upper or lower bound on epsilon, with the scope, delta, source and confidence for which it
    holds.

    - ``epsilon``: value of the bound.
    - ``side``: upper or lower.
    - ``scope``: protected data, hidden change, adversary and period.
    - ``source``: origin of the bound: a place in a paper, a theorem, or an estimator.
    - ``delta``: delta at which the bound holds.
    - ``confidence``: confidence level of a measured bound; 1 for a proof or an exact calculation.
    - ``assumptions``: conditions under which the bound holds, as sentences.
    - ``samples``: number of simulated uploads of a measured bound; None for a proof or a
      calculation.
    - ``largest``: largest lower bound that this number of samples can give; infinite if the bound
      is not measured.
    - ``tight``: true if a calculated lower bound is known to equal the true epsilon in its scope.
    - ``witness``: two inputs and an output that show a lower bound, or None.

    Raises InputError unless epsilon is in [0, inf], delta in [0, 1) and confidence in (0, 1].

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
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
    def rounded_epsilon(self) -> float:
        """Epsilon rounded for printing, up for an upper bound and down for a lower bound.

        The number of significant digits is at least six, or three if epsilon is below 1e-4 or at
        least 1e9.
        """
        towards = math.ceil if self.side is Side.UPPER else math.floor
        usual = 1e-4 <= self.epsilon < 1e9
        digits = max(6, len(f"{self.epsilon:.0f}")) if usual else 3
        return round_to_digits(self.epsilon, towards, digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Upper bound on epsilon that authors state, with its scope and its place in their text.

    - ``epsilon``: the claimed bound; infinite if the authors claim no epsilon.
    - ``scope``: protected data, hidden change, adversary and period.
    - ``statement``: the claim in our words, never the paper's sentence.
    - ``source``: paper, section and equation.
    - ``delta``: the claimed delta.
    - ``basis``: origin of the epsilon: printed by the authors, computed from their formula, or
      derived by the audit.

    Raises InputError unless epsilon is in [0, inf] and delta in [0, 1).

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
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
