"""Interfaces of a system under audit (``Claimant``, ``Target``), and the types of their arguments
and results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Basis, Claim, Scope, Sizes
from fedrec_auditor.targets.compute import DEFAULT_MACHINE as DEFAULT_MACHINE
from fedrec_auditor.targets.compute import Machine as Machine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedrec_auditor.targets.components import Component, Floats, Ints
    from fedrec_auditor.targets.datasets.base import Interactions
    from fedrec_auditor.targets.mechanisms.base import Mechanism
    from fedrec_auditor.targets.settings import NoiseSetting
    from fedrec_auditor.targets.transcript import Broadcast, Transcript, Uploads


# Assumed speed of a training in one thread: number of updates of single model parameters per second
# (measured with the system FedRec on MovieLens 1M).
UPDATES_PER_SECOND = 1e8
# Minimum cost of one pass over the data, in parameter updates.
_PASS = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """Rough estimate of the cost of one training, in messages, memory and computation.

    rounds: number of rounds.
    senders_per_round: number of clients that send a message in one round.
    n_message_values: number of numeric values in one message.
    message_bytes: storage of one message, in bytes.
    n_memory_values: number of values of 4 bytes in memory besides the messages, such as model
        tables.
    n_updates: number of updates of single model parameters in the whole training.
    """

    rounds: float
    senders_per_round: float
    n_message_values: float
    message_bytes: float
    n_memory_values: float
    n_updates: float

    @classmethod
    def estimate(
        cls,
        interactions: Interactions,
        *,
        rounds: float,
        senders_per_round: float,
        width: float = 1,
        passes: float | None = None,
        negatives: float = 0,
        n_reports_per_message: float = 0,
        n_dense_values: float | None = None,
        n_message_values: float | None = None,
        message_bytes: float | None = None,
        n_other_memory_values: float = 0,
        n_computed_values: float = 0,
    ) -> TrainingCost:
        """Estimates the cost of one training from the sizes of the system and its data.

        Parameters
        ----------
        interactions : training data; they give the numbers of users, items and interactions.
        rounds : number of rounds.
        senders_per_round : number of clients that send a message in one round.
        width : number of model parameters per user and per item.
        passes : number of passes over the training examples in the whole training; None: one per
            round.
        negatives : number of negative examples per interaction.
        n_reports_per_message : number of reports in one message; a report is one randomized number.
        n_dense_values : number of values in a message besides the item table. The table is stored
            as the sender's rows. None: the message is the item table alone, stored as rank-one
            factors.
        n_message_values : number of values in one message; None: estimated from ``width`` and
            ``n_dense_values``.
        message_bytes : storage of one message in bytes; None: estimated from ``width`` and
            ``n_dense_values``.
        n_other_memory_values : number of further values of 4 bytes in memory, besides tables and
            training examples.
        n_computed_values : number of values that a client computes for one message, besides the
            passes over the data.
        """
        import numpy as np

        users, items = interactions.n_users, interactions.n_items
        profiles = np.diff(interactions.ratings.indptr)
        examples = float(profiles.sum()) * (1 + negatives)
        table = width * items
        # Factors: a vector of ``width`` values, and 12 bytes for each of the sender's interactions.
        usual = 12 * profiles.sum() / max(1, users) + 4 * width + 5 * n_reports_per_message
        if n_dense_values is not None:
            table += n_dense_values
            usual = 4 * n_dense_values + (4 * width + 8) * min(items, examples / max(1, users))
        largest = 3 * float(profiles.max(initial=0)) * (1 + negatives)
        return cls(
            rounds=rounds,
            senders_per_round=senders_per_round,
            n_message_values=table if n_message_values is None else n_message_values,
            message_bytes=usual if message_bytes is None else message_bytes,
            n_memory_values=width * users + table + largest + n_other_memory_values,
            n_updates=(rounds if passes is None else passes) * max(examples * width, _PASS)
            + rounds * senders_per_round * (n_computed_values + 30 * n_reports_per_message),
        )

    @property
    def n_messages(self) -> float:
        """Number of messages in the whole training."""
        return self.rounds * self.senders_per_round

    @property
    def seconds(self) -> float:
        """Estimated time of the training in one thread, in seconds."""
        return self.n_updates / UPDATES_PER_SECOND


# Function that a training calls after every round, with the number of finished rounds and the
# number of all rounds.
ProgressCallback = Callable[[int, int], None]


class NoScoresError(InputError):
    """Error of a system that computes no item scores, so that its utility cannot be measured."""


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
    """A claim, with the scope and the delta at which an audit compares its epsilon with bounds.

    claim: the stated epsilon and its source.
    scope: scope of the comparison: protected data (unit), their change (adjacency), adversary's
        position (vantage) and period (horizon).
    delta: delta of the comparison.
    note: a sentence that explains why a reader of the paper would apply the claim to this scope.
    unstated_quantity: name of a quantity, such as a budget, that the comparison needs and the paper
        does not state; "" if there is none. A bound above the claim then does not refute the paper.
    epsilon_by_delta: function from delta to epsilon, if the claim is a formula; None otherwise.
    """

    claim: Claim
    scope: Scope
    delta: float = 0.0
    note: str = ""
    unstated_quantity: str = ""
    epsilon_by_delta: Callable[[float], float] | None = None

    def convert_to_delta(self, delta: float) -> ScopedClaim | None:
        """Returns the claim at another delta, with the epsilon that ``epsilon_by_delta`` gives at
        this delta.

        None if the claim has no ``epsilon_by_delta``.
        """
        if self.epsilon_by_delta is None:
            return None
        epsilon = self.epsilon_by_delta(delta)
        stated = f"The claim states its formula for delta {self.claim.delta:g}"
        statement = f"{stated}; this audit evaluates it at delta {delta:g}."
        basis = Basis.pick_less_direct(self.claim.basis, Basis.COMPUTED)
        claim = replace(self.claim, epsilon=epsilon, delta=delta, statement=statement, basis=basis)
        return replace(self, claim=claim, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedPair:
    """Two neighbouring users and a broadcast, designed so that the users' messages differ most.

    target: the system, built for the small item catalogue of ``profiles``.
    profiles: interaction histories of the two users, one row per user.
    broadcast: arrays that a malicious server sends to the two users, by name; None if the server
        sends nothing.
    scope: scope of a bound that is measured on the messages: data, adversary and period.
    world_names: descriptions of the two users' inputs, for printed results.
    reducer: function that reduces each of n messages to f numbers, shape (n, f), before the bound
        is measured; None: the whole messages are used.
    """

    target: Target
    profiles: Interactions
    broadcast: Broadcast | None
    scope: Scope
    world_names: tuple[str, str]
    reducer: Callable[[Mapping[str, Component]], NDArray[np.float64]] | None = None


class HoldOut(StrEnum):
    """Part of the data that a paper holds out of the training to measure utility."""

    LEAVE_LAST_OUT = "leave last out"  # the latest interaction of every user
    HELD_OUT_USERS = "held-out users"  # some users, whose devices fine-tune on half their history
    HELD_OUT_RATINGS = "held-out ratings"  # some ratings of every user, predicted: MSE
    NOTHING = "nothing"  # the training data are used as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityTest:
    """A paper's protocol for measuring utility.

    split: the part of the data that is held out for the test.
    cutoffs: lengths K of the recommendation lists for which HR@K and NDCG@K are computed; empty for
        systems that predict ratings.
    """

    split: HoldOut = HoldOut.LEAVE_LAST_OUT
    cutoffs: tuple[int, ...] = (10,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMetric:
    """A utility value that a paper prints, such as an HR@10.

    metric: name of the metric, such as HR@10.
    protocol: name of the evaluation protocol by which the paper measured the value.
    value: the printed value.
    note: the paper's data and settings for this value.
    """

    metric: str
    protocol: str
    value: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Trained parameters with which devices score items.

    arrays: arrays by name; every system chooses its own names.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Result of one training: the recorded messages, and the model that scores items.

    transcript: messages of the recorded rounds, the published model, and the public knowledge.
    model: the trained parameters.
    user_vectors: private vector of each user at the last upload, shape (n_users, F), with zeros for
        users who sent nothing; None if the system does not keep them. An audit compares attacks'
        guesses with them.
    """

    transcript: Transcript
    model: Model
    user_vectors: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOrigin:
    """Origin of a system and of its messages, which limits what an audit may conclude from them.

    is_external: whether the caller supplies the system, not this package. The caller then states
        the claims as numbers.
    is_runnable: whether the client code can be run to make new messages; False for a recording of
        messages.
    client_system: system whose client code makes messages like the recorded ones; None if no such
        code was given.
    n_users: number of users for which the claims are stated; None for any number.
    send_rate: probability that a user sends in a round, drawn anew in every round.
    assumption: a sentence that states an assumption about the messages which no source confirms.
    caveat: a sentence that explains why the failure of an attack on these messages proves nothing.
    n_nonfinite_messages: number of messages left out because of infinite or NaN values.
    """

    is_external: bool = False
    is_runnable: bool = True
    client_system: Target | None = None
    n_users: int | None = None
    send_rate: float = 1.0
    assumption: str = ""
    caveat: str = ""
    n_nonfinite_messages: int = 0


def get_origin(target: Target) -> SystemOrigin:
    """Returns the origin of a system: who wrote it, and whether its messages are recorded.

    The result is ``target.origin``. For a target without this attribute, such as a system of this
    package, it is the default ``SystemOrigin``.
    """
    return getattr(target, "origin", SystemOrigin())


class Claimant(Protocol):
    """Interface of a system with claims that an audit compares with proved bounds.

    The system need not be runnable: released code of a paper has this interface, too. Members with
    a body return defaults that are right for most systems.
    """

    @property
    def name(self) -> str:
        """Name of the system on the command line."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions of the proof of epsilon that the code cannot confirm, one sentence each."""
        return ()

    @property
    def unproved_reason(self) -> str:
        """Reason why no finite epsilon is proved for this system.

        Empty if a finite epsilon is proved, or if the accounting events state the reason.
        """
        return ""

    @property
    def sizes(self) -> Sizes:
        """Numbers of rounds, of reports per user and round, and of ratings per user.

        A report is a message of one randomized number. Unknown numbers are None.
        """
        ...

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the system's claims, each with a scope in which an audit compares it with bounds.

        A claim occurs once for each scope (protected data, adversary, period) to which a reader
        might apply it. An epsilon may depend on the numbers of users and items in ``population``.
        """
        ...

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomized function from the protected data to the adversary's view.

        ``scope`` states the protected data (unit) and the adversary (vantage). None if the function
        is unknown, or if no single function describes all neighbouring inputs.
        """
        return None

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event from which accountants compute the epsilon of ``scope``.

        By default ``NonPrivateDpEvent`` (dp-accounting), which has no finite epsilon: the default
        is for systems whose messages are neither clipped nor noisy.
        """
        from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity

        return Identity().event()


class Target(Claimant, Protocol):
    """Interface of a federated recommender under audit: its claims, its training and its clients.

    Targets are frozen dataclasses. Their fields are the system's settings, with the paper's values
    as defaults; the values are checked on construction.
    """

    @property
    def aliases(self) -> Mapping[str, str]:
        """Map from other names of settings, such as the paper's symbols, to their field names.

        Users may write these names on the command line.
        """
        ...

    @property
    def paper(self) -> str:
        """Title of the paper that describes the system."""
        ...

    @property
    def reported_metrics(self) -> tuple[ReportedMetric, ...]:
        """Utility values that the paper prints, to be shown next to the measured values."""
        ...

    @property
    def unprotected_name(self) -> str:
        """Command-line name of the same system without protection; "" if there is none."""
        ...

    @property
    def noise_setting(self) -> NoiseSetting | None:
        """Names of the settings that determine the amount of noise; None if there are none."""
        return None

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Values of settings, by name, with which the training converges.

        They replace the paper's values on request. Empty if the training converges with the paper's
        values.
        """
        return {}

    @property
    def evaluation(self) -> UtilityTest:
        """Protocol for measuring utility: held-out data, and lengths of recommendation lists."""
        ...

    @property
    def has_independent_rounds(self) -> bool:
        """Whether the rounds of a training are independent if the server chooses all broadcasts.

        This requires that all clients send in every round, and that a message depends only on its
        sender's data and on the broadcast.
        """
        return False

    @property
    def uses_compute_device(self) -> bool:
        """Whether clients are trained on ``Machine.device``, which may be a GPU, instead of the
        CPU.
        """
        return False

    @property
    def n_required_items(self) -> int | None:
        """Number of items that the model requires; None if it works with any number."""
        return None

    @property
    def upload_seconds(self) -> float:
        """Estimated time to compute one client's message, in seconds; 0 if it is negligible."""
        return 0.0

    def estimate_cost(self, interactions: Interactions) -> TrainingCost:
        """Estimates time, memory and messages of a training on these interactions."""
        ...

    def limit_rounds(self, rounds: int) -> Target:
        """Returns a copy of the system whose training has at most ``rounds`` rounds."""
        ...

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns neighbouring users whose messages differ most, for a measurement of epsilon.

        An audit runs the client's code on these users. The result is empty if the client's own
        randomness does not guarantee a finite epsilon at delta 0.
        """
        return ()

    def get_message_function(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, np.random.Generator], Any], list[Any]] | None:
        """Returns the function that computes one device's message, and a list of its inputs.

        The function takes an interaction history (one row of ``profiles``) and a random generator.
        None if devices keep a state, or if the code is not available.
        """
        return None

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: ProgressCallback | None = None,
        compute: Machine = DEFAULT_MACHINE,
        n_kept_rounds: int | None = None,
    ) -> TrainingRun:
        """Trains the system, and returns the recorded messages and the final model.

        ``interactions``: training data.
        ``rng``: source of all randomness.
        ``progress``: function that is called after every round.
        ``compute``: threads, memory and device of the computation.
        ``n_kept_rounds``: number of last rounds whose messages are recorded; None for all rounds.

        Raises InputError if the data lack a part that the system needs.
        """
        ...

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
        ...

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items on the users' devices, shape (len(users), n_items).

        ``interactions`` are the data on the devices, on which a device may fine-tune the model.
        ``users`` are row indices of ``interactions``.

        Raises NoScoresError if the system computes no item scores.
        """
        ...
