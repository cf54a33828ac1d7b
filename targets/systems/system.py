"""Base classes of systems: the training loop, and clients that upload once or every round."""

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
from fedrec_auditor.targets.memory_mapping import Spill
from fedrec_auditor.targets.own_modules import member_name
from fedrec_auditor.targets.settings import Checked, NoiseSetting, Whole, numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import (
    DEFAULT,
    Cost,
    Evaluation,
    Model,
    Population,
    Progress,
    ReportedFigure,
    Run,
    ScopedClaim,
    Target,
)
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Transcript, Uploads


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a training: the published model, and the arrays that devices need to score items.

    ``user_vectors`` (n_users, F), if the system keeps them, are the vectors from which each user's
    last upload was computed.
    """

    release: Broadcast | None
    arrays: Mapping[str, Any]
    user_vectors: Floats | None = None


Messages = dict[str, Component]
"""Components by name, each with one message per client."""


@dataclass(frozen=True)
class UploadRequest:
    """A request for ``size`` messages of each profile, with the broadcast that clients receive.

    Every message has its own randomness: ``streams`` has one seed per message, drawn once from
    ``rng``.
    """

    profiles: Interactions
    size: int
    broadcast: Broadcast | None
    rng: np.random.Generator
    compute: Compute = DEFAULT

    @cached_property
    def owners(self) -> Ints:
        """Index of the profile of each message."""
        return np.repeat(np.arange(self.profiles.n_users), self.size)

    @cached_property
    def clients(self) -> Interactions:
        """The history behind each message."""
        return self.profiles.take(self.owners)

    @cached_property
    def streams(self) -> Streams:
        """The randomness of each message."""
        return Streams.spawn(self.rng, len(self.owners))


Training = Generator[Round | None, Round | None, TrainingResult]
"""A training as a generator, one round at a time.

The generator yields each round's messages, or None for a step without messages, and is sent the
same round as it is stored (mapped from disk if memory is short).
"""


@dataclass(frozen=True, kw_only=True)
class System(Checked, Target, ABC):
    """A ``Target`` with the training loop.

    A system implements its training (``train``), the client's uploads (``messages``) and the scores
    of items (``score``). The folder of its paper declares the claims and the printed utility. If
    ``central``, all rounds run within a server that holds the data, and the transcript has none.
    """

    evaluation: ClassVar[Evaluation]
    unprotected: ClassVar[str] = ""
    privacy: ClassVar[NoiseSetting | None] = None
    learning: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    central: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name on the command line: the class's ``called``, or by default the file's name."""
        return _called(type(self))

    @property
    def paper(self) -> str:
        """Title of the paper that describes the system and whose folder contains it."""
        paper, _ = self._described()
        return paper.heading.title

    @property
    def reported(self) -> tuple[ReportedFigure, ...]:
        """Figures of utility in the paper's tables."""
        paper, name = self._described()
        return paper.reported(name)

    @property
    def rounds(self) -> int | None:
        """Number of rounds of a training; None if it is a single upload."""
        return None

    @property
    def shown(self) -> Vantage:
        """The strongest vantage whose view a run contains."""
        return Vantage.SERVER

    @property
    def sizes(self) -> Sizes:
        """The number of rounds; a system adds other sizes that its settings determine."""
        return Sizes(rounds=self.rounds)

    def cost(self, interactions: Interactions) -> Cost:
        """Estimated cost: one message per user and round, unless the system's ``takes`` differs."""
        usual = {
            "rounds": self.length,
            "senders": 0 if self.central else interactions.n_users,
            "reports": self.sizes.reports or 0,
        }
        return Cost.of(interactions, **usual | self.takes(interactions))

    def tried(self, interactions: Interactions) -> tuple[Self, tuple[str, ...]]:
        """The system as it is audited on these data, and notes on changes; by default unchanged."""
        return self, ()

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Arguments of ``Cost.of`` that differ from the defaults for this system."""
        return {}

    def uses(self, horizon: Horizon) -> int:
        """Number of uses of one round's mechanism within ``horizon``."""
        return (self.rounds or 1) if horizon is Horizon.TRAINING else 1

    def shortened(self, rounds: int) -> Self:
        """The system with a training of at most this number of rounds."""
        if self.rounds is None or self.rounds <= rounds:
            return self
        return replace(self, **{"rounds": rounds})

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """The paper's claims, each in its own scope and in scopes that readers may take it for."""
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
        """Trains the system and records all messages, or only those of the last ``keep`` steps.

        Messages are stored in memory up to ``compute.memory`` bytes, beyond that on disk.
        ``progress`` is called after every step of ``train``. Raises InputError if the data lack a
        part that the system needs, or if the training diverges.
        """
        training, spill = self.train(interactions, rng, compute), Spill(compute)
        rounds: list[Round] = []
        stored, number, total = None, 0, self.length
        first = 0 if keep is None else total - keep
        while True:
            try:
                crossed = training.send(stored)
            except StopIteration as end:
                trained: TrainingResult = end.value
                break
            stored = crossed if crossed is None or number < first else spill.keep(crossed)
            del crossed  # it may be on disk now
            if stored is not None and number >= first and not self.central:
                rounds.append(stored)
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
        """Number of steps of ``train``."""
        return self.rounds or 1

    @abstractmethod
    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """The training, one round at a time; all randomness comes from ``rng``."""

    def public(self, interactions: Interactions) -> Public:
        """Public knowledge of a run."""
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
        """Runs the client alone: ``size`` messages of each profile, profile by profile."""
        calls = UploadRequest(profiles, size, broadcast, rng, compute)
        return Uploads(calls.owners, self.messages(calls))

    def messages(self, calls: UploadRequest) -> Messages:
        """Messages of the clients, by component; empty if they send nothing."""
        return {}

    @abstractmethod
    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Scores of all items for these users, (len(users), n_items)."""

    @classmethod
    def _described(cls) -> tuple[Paper, str]:
        """The paper whose folder contains the class or a base class, and that class's name."""
        for kind in cls.__mro__:
            if (paper := paper_of(kind.__module__)) is not None:
                return paper, _called(kind)
        raise InputError(
            f"Expected {cls.__name__} to define paper, reported and scoped_claims, or to be in the "
            "folder of a paper, got neither. Write these three."
        )


def _called(kind: type) -> str:
    """The name of a class on the command line, which base classes do not pass on."""
    module = kind.__module__.rpartition(".")[2]
    own = member_name(kind.__name__) if module.endswith("_systems") else module.replace("_", "-")
    return str(vars(kind).get("called", own))


class NoiselessSystem(System):
    """A system whose messages have no noise."""

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The identity for the server, if messages depend on the unit of ``scope``; else None.

        None also for weaker vantages, which see only functions of the messages.
        """
        return Identity() if scope.vantage is Vantage.SERVER and self.sends(scope) else None

    def sends(self, scope: Scope) -> bool:
        """Whether messages depend on the unit of ``scope``; they do not depend on attributes."""
        return scope.unit is not Unit.ATTRIBUTE


class Central(System):
    """A server that holds all users' data and publishes the model; devices send nothing."""

    central = True

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: no distribution of the release is known for every pair of inputs."""
        return None

    def public(self, interactions: Interactions) -> Public:
        """Public knowledge of a run, of which an adversary sees only the release."""
        return replace(super().public(interactions), route=Vantage.RELEASE)

    def messages(self, calls: UploadRequest) -> Messages:
        """No messages."""
        return {}


class NoUploads(Central):
    """A system whose devices or silos send nothing, and which publishes nothing."""

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """An event of epsilon 0, because nothing is released."""
        return dp.NoOpDpEvent()


def received(broadcast: Broadcast | None, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The broadcast's table of this name; InputError unless it exists and has this shape."""
    table = None if broadcast is None else broadcast.get(name)
    if table is None or table.shape != shape:
        raise InputError(
            f'Expected a broadcast matrix "{name}" of shape {shape}, got '
            f"{None if table is None else table.shape}. Send one row per item or user, one column "
            "per factor."
        )
    return table


@dataclass(frozen=True, slots=True)
class ReportDistribution(Checked):
    """Distribution P(symbol | v) of one report, for an entry v in [-1, 1] of its coordinate.

    The symbol is 2 coordinate + bit; with one coordinate it is the bit. Source: Algorithm 1 of the
    paper.
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


class ReportingSystem(System):
    """A system whose clients send ``uses`` reports of one randomized coordinate in a horizon."""

    @abstractmethod
    def report(self, n_items: int) -> OneCoordinate:
        """The randomizer of one report."""

    def hidden(self, population: Population) -> int:
        """Number of users among whose reports a shuffle hides one report; by default all users."""
        return population.n_users

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Reports of two users at opposite corners, as the server or the shuffler's output gives.

        Behind a shuffle, the mechanism is that of one user's reports, mixed with the reports of all
        other users at the opposite corner. None for units below a report, for histories that are
        added or removed (users without a history are in no corner), and for other vantages.
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
        """One report per use; behind a shuffle, one shuffle of one report per user for each use.

        A shuffle of the k reports of all users in one pool is post-processing of k separate
        shuffles, and so are weaker vantages. The event does not hide which users take part.
        """
        if scope.is_presence:
            return dp.NonPrivateDpEvent()
        one = self.report(population.n_items).event()
        if scope.vantage is not Vantage.SERVER:
            n_users = self.hidden(population)
            one = dp.ShuffledDpEvent(self.report(1).epsilon, n_users, binary=True)
        return dp.SelfComposedDpEvent(one, self.uses(scope.horizon))
