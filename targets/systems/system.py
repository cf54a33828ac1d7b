"""Systems that train in rounds: the one loop, and uploads that are sent once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Sizes, Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats, Ints
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Paper, paper_of
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Repeated, Shuffled
from fedrec_auditor.targets.mechanisms.parts.uses import RateOrNone
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.own_modules import member_name
from fedrec_auditor.targets.settings import Checked, Knob, Whole, numbers
from fedrec_auditor.targets.spill import Spill
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import (
    DEFAULT,
    Cost,
    Evaluation,
    Model,
    Population,
    Progress,
    Reported,
    Run,
    ScopedClaim,
    Target,
)
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Transcript, Uploads


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training ends: what everybody gets, and what scoring on the devices needs.

    ``user_vectors`` (n_users, F) are those behind each user's last upload, where they are kept.
    """

    release: Broadcast | None
    arrays: Mapping[str, Any]
    user_vectors: Floats | None = None


Messages = dict[str, Component]
"""What clients send, a component each of all of them."""


@dataclass(frozen=True)
class Calls:
    """Messages that clients are asked for, ``size`` of each profile, and what they are sent.

    A client's coins are its own: ``streams`` has a seed a message, drawn from ``rng`` once.
    """

    profiles: Interactions
    size: int
    broadcast: Broadcast | None
    rng: np.random.Generator
    compute: Compute = DEFAULT

    @cached_property
    def owners(self) -> Ints:
        """Which of the profiles each message is of."""
        return np.repeat(np.arange(self.profiles.n_users), self.size)

    @cached_property
    def clients(self) -> Interactions:
        """The history behind each message."""
        return self.profiles.take(self.owners)

    @cached_property
    def streams(self) -> Streams:
        """The randomness of each message."""
        return Streams.spawn(self.rng, len(self.owners))


Training = Generator[Round | None, Round | None, Trained]
"""A training, a round at a time.

It yields what crosses in a round, or None where nothing does, and is sent that round as it is kept
(mapped from disk where memory is short).
"""


@dataclass(frozen=True, kw_only=True)
class System(Checked, Target, ABC):
    """A ``Target`` with the training loop.

    A system says what happens in a round (``train``), what a client sends (``messages``) and how
    scores are computed. What is claimed, and what is printed of its utility, stands in the folder
    of its paper. ``central`` says that all rounds happen within a server that holds the
    data, so that none is kept.
    """

    evaluation: ClassVar[Evaluation]
    unprotected: ClassVar[str] = ""
    privacy: ClassVar[Knob | None] = None
    learning: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    central: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name on the command line: that of the file, or what the class says it is ``called``."""
        return _called(type(self))

    @property
    def paper(self) -> str:
        """Which paper describes it: the title in whose folder it is."""
        paper, _ = self._described()
        return paper.heading.title

    @property
    def reported(self) -> tuple[Reported, ...]:
        """The figures of utility in the tables of the paper."""
        paper, name = self._described()
        return paper.reported(name)

    @property
    def rounds(self) -> int | None:
        """How many rounds a training has, None where it is a single upload."""
        return None

    @property
    def shown(self) -> Vantage:
        """The strongest vantage of which a run holds what is seen."""
        return Vantage.SERVER

    @property
    def sizes(self) -> Sizes:
        """The number of rounds; a system adds what else its settings say."""
        return Sizes(rounds=self.rounds)

    def cost(self, interactions: Interactions) -> Cost:
        """A message a round from every user, and what the system says that it ``takes``."""
        usual = {
            "rounds": self.length,
            "senders": 0 if self.central else interactions.n_users,
            "reports": self.sizes.reports or 0,
        }
        return Cost.of(interactions, **usual | self.takes(interactions))

    def tried(self, interactions: Interactions) -> tuple[Self, tuple[str, ...]]:
        """The system as it is audited on these data, and what is to be told of it: as it is."""
        return self, ()

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """What is not as usual in the cost of a training: arguments of ``Cost.of``."""
        return {}

    def uses(self, horizon: Horizon) -> int:
        """How often the mechanism of one round is used within ``horizon``."""
        return (self.rounds or 1) if horizon is Horizon.TRAINING else 1

    def shortened(self, rounds: int) -> Self:
        """The same system with a training of at most so many rounds."""
        if self.rounds is None or self.rounds <= rounds:
            return self
        return replace(self, **{"rounds": rounds})

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """The claims of the paper, each in its own scope and in those it would be taken for."""
        paper, name = self._described()
        return paper.scoped_claims(name, self, population)

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
        keep: int | None = None,
    ) -> Run:
        """Train and keep what crossed a boundary, in the last ``keep`` steps only if it is given.

        Messages are kept in memory up to ``compute.memory`` bytes, beyond that on disk.
        ``progress`` is told after every step of ``train``. InputError if the data lack what the
        system needs, or if the training diverges.
        """
        training, spill = self.train(interactions, rng, compute), Spill(compute)
        rounds: list[Round] = []
        kept, number, total = None, 0, self.length
        first = 0 if keep is None else total - keep
        while True:
            try:
                crossed = training.send(kept)
            except StopIteration as end:
                trained: Trained = end.value
                break
            kept = crossed if crossed is None or number < first else spill.keep(crossed)
            del crossed  # it may be on disk now
            if kept is not None and number >= first and not self.central:
                rounds.append(kept)
            number += 1
            if progress is not None:
                progress(number, total)
        transcript = Transcript(
            public=self.public(interactions),
            rounds=tuple(rounds),
            release=trained.release,
            shown=self.shown,
        )
        return Run(
            transcript=transcript,
            model=Model(arrays=trained.arrays),
            user_vectors=trained.user_vectors,
        )

    @property
    def length(self) -> int:
        """How many steps ``train`` has."""
        return self.rounds or 1

    @abstractmethod
    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """The training, a round at a time; all randomness comes from ``rng``."""

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows of a run."""
        return Public(
            algorithm=self.name,
            n_users=interactions.n_users,
            n_items=interactions.n_items,
            settings=numbers(self),
            features=interactions.genres,
        )

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """The client alone: each profile's message, ``size`` times over, profile by profile."""
        calls = Calls(profiles, size, broadcast, rng, compute)
        return Uploads(calls.owners, self.messages(calls))

    def messages(self, calls: Calls) -> Messages:
        """What clients send, a component each; none where they send nothing."""
        return {}

    @abstractmethod
    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Scores of all items for these users, (len(users), n_items)."""

    @classmethod
    def _described(cls) -> tuple[Paper, str]:
        """The paper in whose folder the class, or one that it extends, is; and its name there."""
        for kind in cls.__mro__:
            if (paper := paper_of(kind.__module__)) is not None:
                return paper, _called(kind)
        raise InputError(
            f"Expected {cls.__name__} to say what is claimed (paper, reported, scoped_claims), or "
            "to be in the folder of a paper, got neither. Write these three."
        )


def _called(kind: type) -> str:
    """The name of a class on the command line, which none has from those that it extends."""
    module = kind.__module__.rpartition(".")[2]
    own = member_name(kind.__name__) if module.endswith("_systems") else module.replace("_", "-")
    return str(vars(kind).get("called", own))


class Unperturbed(System):
    """A system whose messages carry no noise."""

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The identity before the server, of all that a message depends on.

        None for weaker vantages, which see functions of messages, and for what is not sent.
        """
        return Identity() if scope.vantage is Vantage.SERVER and self.sends(scope) else None

    def sends(self, scope: Scope) -> bool:
        """Whether messages depend on the unit of ``scope``: not on attributes."""
        return scope.unit is not Unit.ATTRIBUTE


class Central(System):
    """A server that is given everybody's data: devices send nothing, the model is published."""

    central = True

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the release has no distribution that could be written down for every pair."""
        return None

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: only the release is seen."""
        return replace(super().public(interactions), route=Vantage.RELEASE)

    def messages(self, calls: Calls) -> Messages:
        """None."""
        return {}


class Silent(Central):
    """Devices or parties that keep everything: nothing is sent, and nothing is published."""

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """An event that costs nothing: nothing is released."""
        return dp.NoOpDpEvent()


def received(broadcast: Broadcast | None, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The broadcast's table of this name; InputError unless it has this shape."""
    table = None if broadcast is None else broadcast.get(name)
    if table is None or table.shape != shape:
        raise InputError(
            f'Expected a broadcast matrix "{name}" of shape {shape}, got '
            f"{None if table is None else table.shape}. Send one row an item or user, one column "
            "a factor."
        )
    return table


@dataclass(frozen=True, slots=True)
class ReportDistribution(Checked):
    """P(symbol | v) of one report: 2 coordinate + bit, at entry v in [-1, 1] of that coordinate.

    With one coordinate the symbol is the bit. Algorithm 1 of the paper.
    """

    epsilon: RateOrNone
    dimension: Whole = 1

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of the symbol ``output`` given the entry ``value``, broadcast."""
        coordinate, bit = np.divmod(np.asarray(output), 2)
        one = OneCoordinate(self.epsilon, 1).log_prob(
            np.stack([np.zeros_like(bit), bit], axis=-1), np.asarray(value)[..., None]
        )
        return np.where(coordinate < self.dimension, one - math.log(self.dimension), -np.inf)


class Reporting(System):
    """Clients send reports of one randomized coordinate each, ``uses`` of them in a horizon."""

    @abstractmethod
    def report(self, n_items: int) -> OneCoordinate:
        """The randomizer of one report."""

    def hidden(self, population: Population) -> int:
        """Among how many users' reports a shuffle hides one: all of them."""
        return population.n_users

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Reports of two users at opposite corners, before the server or in its shuffle.

        Behind a shuffle it is the distribution of one user's reports among those of all others at
        the opposite corner. None for units below a report, for a history that comes or goes (users
        without one are in no corner), and from other vantages.
        """
        units = (Unit.REPORT, Unit.USER)
        if scope.unit not in units or scope.adjacency is Adjacency.ADD_REMOVE:
            return None
        one: Mechanism = self.report(population.n_items)
        if scope.vantage is Vantage.SHUFFLED:
            one = Shuffled(self.report(1).epsilon, self.hidden(population))
        elif scope.vantage is not Vantage.SERVER:
            return None
        return Repeated(one, self.uses(scope.horizon))

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Each report once a use; behind the shuffle, one shuffle of a report a user each.

        A shuffle that mixes the k reports of all users in one pool is post-processing of k
        separate shuffles, and so is what is seen behind it. Who takes part is not hidden.
        """
        if scope.is_presence:
            return dp.NonPrivateDpEvent()
        one = self.report(population.n_items).event()
        if scope.vantage is not Vantage.SERVER:
            n_users = self.hidden(population)
            one = dp.ShuffledDpEvent(self.report(1).epsilon, n_users, binary=True)
        return dp.SelfComposedDpEvent(one, self.uses(scope.horizon))
