"""What a privacy statement speaks of: the unit, the adjacency, the vantage and the horizon.

An epsilon means nothing without its scope. ``Scope.covers`` is the partial order in which an
upper bound may be carried from one scope to another at the same epsilon, and so the order in
which a lower bound may refute it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Self


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
