"""Base classes of the federated recommenders in this package.

There are classes for systems in general, systems without noise, systems whose server holds all
data, and systems whose clients send randomized bits.
"""

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
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Paper, find_paper
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Repeated, Shuffled
from fedrec_auditor.targets.mechanisms.parts.bases import EpsilonOrZero
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.memory_mapping import RoundStore
from fedrec_auditor.targets.own_modules import get_choice_name
from fedrec_auditor.targets.settings import Checked, Count, NoiseSetting, get_numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import base
from fedrec_auditor.targets.systems.base import DEFAULT_MACHINE, Model, Population, Target
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Transcript, Uploads


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a training without its messages: the published model, and the scoring model.

    release: the published model, as arrays by name; None if nothing is published.
    scoring_arrays: the arrays that devices need to score items, by name.
    user_vectors: private vector of each user at the time of the user's last upload, shape (n_users,
        vector length); None if the system does not keep them.
    """

    release: Broadcast | None
    scoring_arrays: Mapping[str, Any]
    user_vectors: Floats | None = None


# Messages of several clients: named arrays (components), each with one row per client.
Messages = dict[str, Component]


@dataclass(frozen=True)
class UploadRequest:
    """A request for messages: which clients send how many messages, after which broadcast.

    profiles: interaction histories, one row per client.
    messages_per_client: number of independent messages per client.
    broadcast: arrays that clients receive from the server, by name; None if they receive nothing.
    rng: generator from which the seeds of ``streams`` are drawn.
    compute: threads, memory and device of the computation.
    """

    profiles: Interactions
    messages_per_client: int
    broadcast: Broadcast | None
    rng: np.random.Generator
    compute: Machine = DEFAULT_MACHINE

    @cached_property
    def sender_rows(self) -> Ints:
        """Sender of each message: index of its row in ``profiles``, shape (n_messages,)."""
        return np.repeat(np.arange(self.profiles.n_users), self.messages_per_client)

    @cached_property
    def interactions(self) -> Interactions:
        """Interaction history of each message's sender, one row per message.

        Every client's row is repeated ``messages_per_client`` times.
        """
        return self.profiles.take_users(self.sender_rows)

    @cached_property
    def streams(self) -> Streams:
        """One random stream per message, seeded from ``rng`` on first use."""
        return Streams.spawn(self.rng, len(self.sender_rows))


# Generator of a training: it yields each round's messages, is sent the stored ones, and returns the
# result.
TrainingRounds = Generator[Round | None, Round | None, TrainingResult]
"""A training as a generator that runs one round per step.

The generator yields each round's messages, or None for a step without messages. It receives the
same round back as it is stored, which is on disk if memory is short.
"""


@dataclass(frozen=True, kw_only=True)
class System(Checked, Target, ABC):
    """Base class of federated recommenders under audit: training loop, messages and claims.

    A subclass implements its training (``train``), the client's uploads (``make_messages``) and the
    scores of items (``score``). The TOML files in its paper's folder declare its claims and the
    printed utility. Class attributes, which are the same for all settings:

    evaluation: the paper's protocol for measuring utility.
    unprotected_name: command-line name of the same system without protection; "" if there is none.
    noise_setting: names of the settings that determine the amount of noise; None without noise.
    tuned_values: values of settings, by name, with which the training converges; empty if it
        converges with the paper's values.
    aliases: map from other names of settings, such as the paper's symbols, to their field names.
    is_central: whether all rounds run within a server that holds the data; the transcript then has
        no rounds.
    """

    evaluation: ClassVar[base.UtilityTest]
    unprotected_name: ClassVar[str] = ""
    noise_setting: ClassVar[NoiseSetting | None] = None
    tuned_values: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    is_central: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the system on the command line.

        The name is that of the class's file or, if the file's name ends in "systems", of the class.
        A class attribute ``called`` replaces both; subclasses do not inherit it.
        """
        return _get_name(type(self))

    @property
    def paper(self) -> str:
        """Title of the paper that describes the system."""
        paper, _ = self._find_paper_and_name()
        return paper.heading.title

    @property
    def reported_metrics(self) -> tuple[base.ReportedMetric, ...]:
        """Utility values that the paper prints for this system, such as HR@10."""
        paper, name = self._find_paper_and_name()
        return paper.get_reported_metrics(name)

    @property
    def rounds(self) -> int | None:
        """Number of rounds in a training; None if each client uploads only once."""
        return None

    @property
    def max_vantage(self) -> Vantage:
        """Strongest adversary whose view of the messages a run records; by default the server."""
        return Vantage.SERVER

    @property
    def sizes(self) -> Sizes:
        """Rounds per training, reports per user and round, ratings per user, and other sizes.

        A field is None if no setting determines it.
        """
        return Sizes(rounds=self.rounds)

    def estimate_cost(self, interactions: Interactions) -> base.TrainingCost:
        """Estimates time, memory and messages of a training on these interactions.

        By default every user sends one message per round, and the users of a central system send
        nothing. ``get_training_cost_args`` replaces these defaults.
        """
        usual = {
            "rounds": self.n_training_steps,
            "senders_per_round": 0 if self.is_central else interactions.n_users,
            "n_reports_per_message": self.sizes.reports or 0,
        }
        changed = usual | self.get_training_cost_args(interactions)
        return base.TrainingCost.estimate(interactions, **changed)

    def adapt_to_data(self, interactions: Interactions) -> tuple[Self, tuple[str, ...]]:
        """Returns the system with the settings that these data require, and notes on the changes.

        By default the system is unchanged and there are no notes. For code written by somebody
        else, trial calls may determine some settings.
        """
        return self, ()

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate`` that replace the usual ones.

        ``estimate_cost`` has the usual ones. By default the result is empty.
        """
        return {}

    def count_randomizer_uses(self, horizon: Horizon) -> int:
        """Counts how often a client randomizes the same data within ``horizon``.

        The horizon is one round or the whole training. By default a client applies its randomizer
        (random flips or noise) once per round.
        """
        return (self.rounds or 1) if horizon is Horizon.TRAINING else 1

    def limit_rounds(self, rounds: int) -> Self:
        """Returns a copy of the system whose training has at most ``rounds`` rounds."""
        if self.rounds is None or self.rounds <= rounds:
            return self
        return replace(self, **{"rounds": rounds})

    def get_claims(self, population: Population) -> tuple[base.ScopedClaim, ...]:
        """Returns the paper's claims, each with a scope in which an audit compares it with bounds.

        A claim occurs once for each scope (protected data, adversary, period) to which a reader
        might apply it. An epsilon may depend on the numbers of users and items in ``population``.
        """
        paper, name = self._find_paper_and_name()
        return paper.get_claims(name, self, population)

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: base.ProgressCallback | None = None,
        compute: Machine = DEFAULT_MACHINE,
        n_kept_rounds: int | None = None,
    ) -> base.TrainingRun:
        """Trains the system, and returns the final model and the messages of the training.

        ``interactions``: training data.
        ``rng``: source of all randomness.
        ``progress``: function that is called after every step of ``train``.
        ``compute``: threads, memory and device. Messages beyond ``compute.memory`` bytes are stored
            on disk.
        ``n_kept_rounds``: number of last steps whose messages are returned; None for all steps.

        Raises InputError if the data lack a part that the system needs, or if the training
        diverges.
        """
        training, spill = self.train(interactions, rng, compute), RoundStore(compute)
        rounds: list[Round] = []
        stored, number, total = None, 0, self.n_training_steps
        first = 0 if n_kept_rounds is None else total - n_kept_rounds
        while True:
            try:
                crossed = training.send(stored)
            except StopIteration as end:
                trained: TrainingResult = end.value
                break
            stored = crossed if crossed is None or number < first else spill.store(crossed)
            del crossed  # it may be on disk now
            if stored is not None and number >= first and not self.is_central:
                rounds.append(stored)
            number += 1
            if progress is not None:
                progress(number, total)
        transcript = Transcript(
            public=self.get_public_info(interactions),
            rounds=tuple(rounds),
            published_model=trained.release,
            max_vantage=self.max_vantage,
        )
        model, vectors = Model(arrays=trained.scoring_arrays), trained.user_vectors
        return base.TrainingRun(transcript=transcript, model=model, user_vectors=vectors)

    @property
    def n_training_steps(self) -> int:
        """Number of steps of a training: its rounds, or 1 if each client uploads only once."""
        return self.rounds or 1

    @abstractmethod
    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Machine
    ) -> TrainingRounds:
        """Returns a generator that trains one round per step and yields the messages of the round.

        At the end the generator returns the result of the training. ``rng`` is the source of all
        randomness. ``compute`` sets threads, memory and device.
        """

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the public knowledge of a run, without any message.

        The result has the system's name and settings, the sizes of the data, and the items' genres.
        """
        return PublicInfo(
            algorithm=self.name,
            n_users=interactions.n_users,
            n_items=interactions.n_items,
            settings=get_numbers(self),
            item_features=interactions.genres,
        )

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        messages_per_client: int = 1,
        compute: Machine = DEFAULT_MACHINE,
    ) -> Uploads:
        """Runs the clients' code without a training: independent messages of every client.

        ``profiles``: interaction histories, one row per client.
        ``broadcast``: arrays that clients receive from the server, by name; None if there are none.
        ``rng``: source of all randomness.
        ``messages_per_client``: number of messages of every client, which follow one another.
        ``compute``: threads, memory and device of the computation.
        """
        request = UploadRequest(profiles, messages_per_client, broadcast, rng, compute)
        return Uploads(request.sender_rows, self.make_messages(request))

    def make_messages(self, request: UploadRequest) -> Messages:
        """Computes the requested messages, and returns them as named arrays (components).

        By default clients send nothing.
        """
        return {}

    @abstractmethod
    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items for ``users``, shape (len(users), n_items).

        ``users`` are row indices of ``interactions``, the data on the devices.
        """

    @classmethod
    def _find_paper_and_name(cls) -> tuple[Paper, str]:
        """Returns the paper in whose folder the class is defined, and the class's name.

        For a class outside the folders of papers, its nearest base class in such a folder counts.
        Raises InputError if there is no such base class.
        """
        for kind in cls.__mro__:
            if (paper := find_paper(kind.__module__)) is not None:
                return paper, _get_name(kind)
        raise InputError(
            f"Expected the class {cls.__name__} to define paper, reported_metrics and get_claims, "
            "or to be in the folder of a paper, got neither. Define these three members."
        )


def _get_name(kind: type) -> str:
    """Returns the name of a class on the command line, as ``System.name`` describes it."""
    module = kind.__module__.rpartition(".")[2]
    own = get_choice_name(kind.__name__) if module.endswith("systems") else module.replace("_", "-")
    return str(vars(kind).get("called", own))


class NoiselessSystem(System):
    """A system whose messages have no noise."""

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the identity function as the mechanism: the server sees every upload as it is.

        None if the adversary of ``scope`` sees less than the server, or if messages do not depend
        on the data that ``scope`` protects.
        """
        return Identity() if scope.vantage is Vantage.SERVER and self.depends_on(scope) else None

    def depends_on(self, scope: Scope) -> bool:
        """Whether messages depend on the data that ``scope`` protects.

        By default this is true of all data except user attributes, such as gender.
        """
        return scope.unit is not Unit.ATTRIBUTE


class CentralSystem(System):
    """A system whose server holds all users' data and publishes only the model; devices send
    nothing.
    """

    is_central = True

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns None, because the distribution of the published model is unknown."""
        return None

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the public knowledge of a run: adversaries see at most the published model."""
        return replace(super().get_public_info(interactions), protocol_vantage=Vantage.RELEASE)

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns no messages, because devices send nothing."""
        return {}


class NoUploadSystem(CentralSystem):
    """A system in which devices or organisations send nothing, and nothing is published."""

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of epsilon 0, because no adversary sees any output."""
        return dp.NoOpDpEvent()


def get_broadcast_array(
    broadcast: Broadcast | None, name: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Returns the array ``name`` of a broadcast.

    Raises InputError if the broadcast has no array of this name and ``shape``.
    """
    table = None if broadcast is None else broadcast.get(name)
    if table is None or table.shape != shape:
        raise InputError(
            f'Expected a broadcast array "{name}" of shape {shape}, got '
            f"{None if table is None else table.shape}. Give the broadcast an array of this name "
            "and shape."
        )
    return table


@dataclass(frozen=True, slots=True)
class ReportDistribution(Checked):
    """Distribution of one report: a random coordinate of a client's vector, and one random bit.

    The coordinate is uniform. The bit is a randomized sign of the vector's entry at this
    coordinate, a number in [-1, 1]. A report is coded as the integer 2 coordinate + bit. Source:
    Minto et al. 2021, Algorithm 1.

    epsilon: epsilon of one report.
    dimension: number of coordinates of the vector.
    """

    epsilon: EpsilonOrZero
    dimension: Count = 1

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-probability of the report ``output``, if the vector's entry is ``value``.

        ``output`` is the integer 2 coordinate + bit, and ``value`` the entry at this coordinate.
        The result is -inf if the coordinate is not below ``dimension``.
        """
        coordinate, bit = np.divmod(np.asarray(output), 2)
        report = np.stack([np.zeros_like(bit), bit], axis=-1)
        one = OneCoordinate(self.epsilon, 1).log_prob(report, np.asarray(value)[..., None])
        return np.where(coordinate < self.dimension, one - math.log(self.dimension), -np.inf)


class ReportingSystem(System):
    """A system whose clients send reports: randomized bits for random coordinates of a vector.

    The method ``count_randomizer_uses`` counts the reports that one client sends within a horizon
    (a round or the training).
    """

    @abstractmethod
    def make_randomizer(self, n_items: int) -> OneCoordinate:
        """Returns the randomizer of one report, for a catalogue of ``n_items`` items."""

    def count_shuffled_users(self, population: Population) -> int:
        """Counts the users whose reports are shuffled together; by default all users."""
        return population.n_users

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomized function from one user's vector to the reports that an adversary
        sees.

        - The server sees the user's own reports.
        - Behind a shuffler, they are mixed with the reports of all other users.

        None in these cases:

        - The protected unit is neither a report nor a user.
        - Histories are added or removed: users without a history have no vector.
        - The adversary sees less than the shuffled reports.
        """
        units = (Unit.REPORT, Unit.USER)
        if scope.unit not in units or scope.adjacency is Adjacency.ADD_REMOVE:
            return None
        one: Mechanism = self.make_randomizer(population.n_items)
        if scope.vantage is Vantage.SHUFFLED:  # the others' vectors are one corner of [-1, 1]^d
            one = Shuffled(self.make_randomizer(1).epsilon, self.count_shuffled_users(population))
        elif scope.vantage is not Vantage.SERVER:
            return None
        return Repeated(one, self.count_randomizer_uses(scope.horizon))

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all reports of a user within the horizon.

        The event composes one event per report:

        - For the server: the client's randomization of the report.
        - For all other adversaries: a shuffle of one report of every user.

        The result is ``NonPrivateDpEvent`` if the scope protects whether a user takes part.
        """
        if scope.protects_user_presence:
            return dp.NonPrivateDpEvent()
        one = self.make_randomizer(population.n_items).event()
        # A shuffle of all users' k reports in one pool is post-processing of k shuffles of one
        # report per user, and a view weaker than the shuffler's is post-processing of its output.
        if scope.vantage is not Vantage.SERVER:
            n_users = self.count_shuffled_users(population)
            one = dp.ShuffledDpEvent(self.make_randomizer(1).epsilon, n_users, binary=True)
        return dp.SelfComposedDpEvent(one, self.count_randomizer_uses(scope.horizon))
