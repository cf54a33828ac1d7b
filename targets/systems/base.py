"""Protocols of an audited system (``Claimant``, ``Target``), and the records of their methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Basis, Claim, Scope, Sizes
from fedrec_auditor.targets.compute import DEFAULT as DEFAULT
from fedrec_auditor.targets.compute import Compute as Compute

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedrec_auditor.targets.components import Component, Floats, Ints
    from fedrec_auditor.targets.datasets.base import Interactions
    from fedrec_auditor.targets.mechanisms.base import Mechanism
    from fedrec_auditor.targets.settings import NoiseSetting
    from fedrec_auditor.targets.transcript import Broadcast, Transcript, Uploads


# Model parameters that one thread updates per second, measured on FedRec with MovieLens 1M.
THROUGHPUT = 1e8
# Minimum cost of one pass over the data, in parameter updates.
_PASS = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Rough estimate of the cost of one training, computed from the sizes that the system declares.

    rounds: number of rounds.
    senders: number of clients that send a message in one round.
    numbers: number of values in one message.
    bytes: bytes in which one message is stored.
    held: number of further values of 4 bytes in memory, such as the model's tables and the training
        examples of the largest device.
    updates: number of updates of single model parameters in the whole training.
    """

    rounds: float
    senders: float
    numbers: float
    bytes: float
    held: float
    updates: float

    @classmethod
    def estimate(
        cls,
        interactions: Interactions,
        *,
        rounds: float,
        senders: float,
        width: float = 1,
        passes: float | None = None,
        negatives: float = 0,
        reports: float = 0,
        dense: float | None = None,
        numbers: float | None = None,
        bytes: float | None = None,
        held: float = 0,
        made: float = 0,
    ) -> Cost:
        """Estimates the cost from the sizes that a system declares; the defaults fit most systems.

        Parameters
        ----------
        interactions : training data; they give the numbers of users, items and interactions.
        rounds, senders : see the class.
        width : number of model parameters per user and per item.
        passes : number of passes over the training examples in the whole training; by default one
            pass per round.
        negatives : number of negative examples per interaction.
        reports : number of reports in one message; a report holds one randomized number.
        dense : number of values in a message besides the rows of the items that its sender trained
            on. If None, a message is a table of all items, and its storage grows with the sender's
            interactions.
        numbers, bytes : size of one message as in the class, in place of the estimate.
        held : number of further values of 4 bytes in memory.
        made : number of values that are computed to make one message, not counting the passes over
            the data.
        """
        import numpy as np

        users, items = interactions.n_users, interactions.n_items
        profiles = np.diff(interactions.ratings.indptr)
        examples = float(profiles.sum()) * (1 + negatives)
        table = width * items
        usual = 12 * profiles.sum() / max(1, users) + 4 * width + 5 * reports
        if dense is not None:
            table += dense
            usual = 4 * dense + (4 * width + 8) * min(items, examples / max(1, users))
        each_pass = max(examples * width, _PASS)
        largest = 3 * float(profiles.max(initial=0)) * (1 + negatives)
        return cls(
            rounds=rounds,
            senders=senders,
            numbers=table if numbers is None else numbers,
            bytes=usual if bytes is None else bytes,
            held=width * users + table + largest + held,
            updates=(rounds if passes is None else passes) * each_pass
            + rounds * senders * (made + 30 * reports),
        )

    @property
    def messages(self) -> float:
        """Number of messages in the whole training."""
        return self.rounds * self.senders

    @property
    def seconds(self) -> float:
        """Estimated time of the training in one thread, in seconds."""
        return self.updates / THROUGHPUT


# Callback that is called with the number of finished rounds and the number of all rounds.
Progress = Callable[[int, int], None]


class NoScores(InputError):
    """Raised by a target that computes no item scores, so that its utility cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Numbers of users, items and features, on which the epsilon of a system may depend.

    n_users: number of users.
    n_items: number of items.
    n_features: number of features per user, for systems that train on features. MovieLens has 44:
        18 describe ratings, 2 gender, 21 occupation and 3 age.
    """

    n_users: int
    n_items: int
    n_features: int = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedClaim:
    """A claim, with the scope and the delta at which an audit compares it with bounds.

    claim: the stated epsilon and its source.
    scope: unit, adjacency, vantage and horizon of the comparison.
    delta: delta of the comparison.
    note: a sentence that explains why a reader would apply the claim to this scope.
    outside_model: a part of the comparison that the paper does not address, such as a budget that
        it does not print. If given, a bound above the claim does not refute the paper.
    curve: epsilon as a function of delta, if the claim is a formula.
    """

    claim: Claim
    scope: Scope
    delta: float = 0.0
    note: str = ""
    outside_model: str = ""
    curve: Callable[[float], float] | None = None

    def at_delta(self, delta: float) -> ScopedClaim | None:
        """Returns the claim at another delta, computed from ``curve``; None if the claim is not a
        formula.
        """
        if self.curve is None:
            return None
        epsilon = self.curve(delta)
        statement = f"By the formula of the claim at delta {self.claim.delta:g}, at {delta:g}."
        basis = Basis.weaker(self.claim.basis, Basis.COMPUTED)
        claim = replace(self.claim, epsilon=epsilon, delta=delta, statement=statement, basis=basis)
        return replace(self, claim=claim, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedPair:
    """Two neighbouring users and a broadcast for which their messages differ as much as the system
    allows.

    target: the system, built for the small catalogue of ``profiles``.
    profiles: the interactions of the two users, one user per world.
    broadcast: the model that the server sends to both users; a malicious server may send any
        values.
    scope: scope of a bound that is measured on the messages.
    world_names: descriptions of the two worlds, for reports.
    reducer: function that reduces n messages to an array of numbers, shape (n, f), on which the
        bound is measured. If None, whole messages are measured.
    """

    target: Target
    profiles: Interactions
    broadcast: Broadcast | None
    scope: Scope
    world_names: tuple[str, str]
    reducer: Callable[[Mapping[str, Component]], NDArray[np.float64]] | None = None


class Split(StrEnum):
    """The part of the data that a paper holds out to measure the utility of its system."""

    LEAVE_LAST_OUT = "leave last out"  # the latest interaction of every user
    HELD_OUT_USERS = "held-out users"  # some users, whose devices fine-tune on half their history
    HELD_OUT_RATINGS = "held-out ratings"  # some ratings of every user, predicted: MSE
    NOTHING = "nothing"  # the training data are used as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A paper's protocol for measuring utility.

    split: the part of the data that is held out.
    cutoffs: values of K at which HR@K and NDCG@K are computed.
    """

    split: Split = Split.LEAVE_LAST_OUT
    cutoffs: tuple[int, ...] = (10,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFigure:
    """A utility figure that a paper prints.

    metric: name of the metric, such as HR@10.
    protocol: name of the evaluation protocol.
    value: the printed value.
    note: the setting in which the paper reached the value.
    """

    metric: str
    protocol: str
    value: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The trained parameters that devices need to score items.

    arrays: arrays by name; every system chooses its own names.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Result of one training: the transcript, and the model with which clients score items.

    transcript: all recorded messages, with the public knowledge.
    model: the trained parameters.
    user_vectors: for each user the vector from which the last upload was computed, shape (n_users,
        F); zeros for users who sent nothing. They never leave the devices and no vantage shows
        them. They are the truth with which the guesses of an attack are compared. None if the
        system does not keep them.
    """

    transcript: Transcript
    model: Model
    user_vectors: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Facts about the source of a target and of its messages, on which an audit depends.

    is_external: whether somebody else wrote the system. Its claims are then stated numbers, which
        hold for every population or, if ``n_users`` is given, for a population of this size.
    at_hand: whether the clients can be run to make new messages; a recording has only stored
        messages.
    client: client code that makes messages like those of a recording; None if nobody gave it.
    n_users: number of users for which the claims are stated.
    send_rate: probability that a user sends in a round, drawn anew in every round.
    assumption: a sentence that states an assumption about the messages which no source confirms.
    caveat: a sentence that explains why the failure of an attack on these messages proves nothing.
    n_dropped: number of messages that were left out because their values are not finite.
    """

    is_external: bool = False
    at_hand: bool = True
    client: Target | None = None
    n_users: int | None = None
    send_rate: float = 1.0
    assumption: str = ""
    caveat: str = ""
    n_dropped: int = 0


def origin_of(target: Target) -> Origin:
    """Returns ``target.origin``; by default the origin of a system of this package, which computes
    its claims.
    """
    return getattr(target, "origin", Origin())


class Claimant(Protocol):
    """The part of a target that an audit needs to judge claims without a run: its claims and its
    events.

    Members that are not abstract have defaults that hold for most targets.
    """

    @property
    def name(self) -> str:
        """Name of the target on the command line."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """Sentences that state the assumptions of ``event`` which the code cannot confirm."""
        return ()

    @property
    def why_unproved(self) -> str:
        """Reason why the events of this target prove no epsilon; "" if they prove one or state the
        reason themselves.
        """
        return ""

    @property
    def sizes(self) -> Sizes:
        """Number of rounds in a training, reports per user and round, and ratings per user, as far
        as known.
        """
        ...

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the claims, each in its own scope and in every other scope to which a reader may
        apply it.
        """
        ...

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomized function from the unit of ``scope`` to the output that its vantage
        sees.

        None if the function is unknown, or if no single distribution covers all pairs of the unit's
        values.
        """
        return None

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event from which accountants compute epsilon in ``scope``.

        By default it is non-private, because messages are neither clipped nor noisy.
        """
        from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity

        return Identity().event()


class Target(Claimant, Protocol):
    """A federated recommender under audit: its claims and events, its whole training, and one
    client's code.

    Targets are frozen dataclasses. Their fields are the paper's settings, which are checked on
    construction.
    """

    @property
    def aliases(self) -> Mapping[str, str]:
        """Alternative names of settings on the command line, such as the paper's symbols, mapped to
        field names.
        """
        ...

    @property
    def paper(self) -> str:
        """Title of the paper that describes the system."""
        ...

    @property
    def reported(self) -> tuple[ReportedFigure, ...]:
        """Utility figures that the paper prints, shown next to the measured ones."""
        ...

    @property
    def unprotected(self) -> str:
        """Name of the same system without its protection; "" if there is no such system."""
        ...

    @property
    def noise_setting(self) -> NoiseSetting | None:
        """The settings that determine how much noise is added; None if no setting does."""
        return None

    @property
    def learning(self) -> Mapping[str, Any]:
        """Values of settings with which the training converges, where the printed values do not; by
        default empty.
        """
        return {}

    @property
    def evaluation(self) -> Evaluation:
        """The paper's protocol for measuring utility."""
        ...

    @property
    def is_steerable(self) -> bool:
        """Whether all clients send in every round, and their messages depend only on their data and
        the broadcast.

        The rounds of a training are then independent if the server chooses its broadcasts. In most
        systems clients keep a state, or only a random sample of clients sends in a round.
        """
        return False

    @property
    def trains_on_device(self) -> bool:
        """Whether clients are trained on ``Compute.device`` instead of the CPU."""
        return False

    @property
    def required_items(self) -> int | None:
        """Number of items that the model requires; None if it works with any number."""
        return None

    @property
    def upload_seconds(self) -> float:
        """Estimated time to compute one client's message, in seconds; 0 if it is negligible."""
        return 0.0

    def cost(self, interactions: Interactions) -> Cost:
        """Returns the estimated cost of a training on these interactions."""
        ...

    def limit_rounds(self, rounds: int) -> Target:
        """Returns a copy of the system whose training has at most ``rounds`` rounds."""
        ...

    def designed_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns the worst-case pairs for one message, on which the local game runs the client's
        own code.

        The tuple is empty unless a client's own randomizer guarantees a pure epsilon.
        """
        return ()

    def client_code(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, np.random.Generator], Any], list[Any]] | None:
        """Returns the function that computes a device's message, and the users' histories as its
        inputs.

        The function takes one history and a random generator. A test runs it for every outcome of
        the randomness. None if devices keep a state, or if the code is not available.
        """
        return None

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
        keep: int | None = None,
    ) -> Run:
        """Trains the system and records all messages; ratings may be explicit or implicit.

        ``rng`` is the source of all randomness. If ``keep`` is given, the transcript has only the
        last ``keep`` rounds. ``progress`` is called after every round. Raises InputError if the
        data lack a part that the system needs.
        """
        ...

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Runs only the client's code and returns ``size`` independent messages per profile,
        grouped by profile.
        """
        ...

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items for the given users as their devices do, shape
        (len(users), n_items).

        ``interactions`` are the data on the devices. Devices that fine-tune the model do so on
        these data. Raises NoScores if the target computes no item scores.
        """
        ...
