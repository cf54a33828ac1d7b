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
from fedrec_auditor.targets.compute import DEFAULT as DEFAULT
from fedrec_auditor.targets.compute import Machine as Machine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedrec_auditor.targets.components import Component, Floats, Ints
    from fedrec_auditor.targets.datasets.base import Interactions
    from fedrec_auditor.targets.mechanisms.base import Mechanism
    from fedrec_auditor.targets.settings import NoiseSetting
    from fedrec_auditor.targets.transcript import Broadcast, Transcript, Uploads


# Model parameters that one thread updates per second, measured on FedRec with MovieLens 1M.
UPDATES_PER_SECOND = 1e8
# Minimum cost of one pass over the data, in parameter updates.
_PASS = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """Rough estimate of the cost of one training, computed from the sizes that the system declares.

    rounds: number of rounds.
    senders: number of clients that send a message in one round.
    numbers: number of values in one message.
    bytes: storage of one message, in bytes.
    held: number of values of 4 bytes in memory besides the messages, such as the model's tables and
        the training examples of the largest device.
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
    ) -> TrainingCost:
        """Estimates the cost of one training from the sizes that a system declares; the defaults
        fit most systems.

        Parameters
        ----------
        interactions : training data; they give the numbers of users, items and interactions.
        rounds : number of rounds.
        senders : number of clients that send a message in one round.
        width : number of model parameters per user and per item.
        passes : number of passes over the training examples in the whole training; None means one
            pass per round.
        negatives : number of negative examples per interaction.
        reports : number of reports in one message; a report is one randomized number.
        dense : number of values in a message besides the rows of the items that its sender trained
            on. None means that a message is a table of all items, whose storage grows with the
            sender's number of interactions.
        numbers : number of values in one message, in place of the estimate.
        bytes : storage of one message in bytes, in place of the estimate.
        held : number of values of 4 bytes in memory, besides those that are estimated.
        made : number of values that a client computes to make one message, not counting the passes
            over the data.
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
        return self.updates / UPDATES_PER_SECOND


# Callback that is called with the number of finished rounds and the number of all rounds.
ProgressCallback = Callable[[int, int], None]


class NoScores(InputError):
    """Raised by a system that computes no item scores, so that its utility cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Sizes of the data on which the epsilon of a system may depend.

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
    scope: data (unit), their change (adjacency), adversary's position (vantage) and period
        (horizon) of the comparison.
    delta: delta of the comparison.
    note: a sentence that explains why a reader of the paper would apply the claim to this scope.
    outside_model: a quantity in the comparison that the paper does not state, such as a budget. If
        not empty, a bound above the claim does not refute the paper.
    curve: function from delta to epsilon, if the claim is a formula; None otherwise.
    """

    claim: Claim
    scope: Scope
    delta: float = 0.0
    note: str = ""
    outside_model: str = ""
    curve: Callable[[float], float] | None = None

    def at_delta(self, delta: float) -> ScopedClaim | None:
        """Returns the claim at another delta, with the epsilon that ``curve`` gives there; None if
        the claim has no ``curve``.
        """
        if self.curve is None:
            return None
        epsilon = self.curve(delta)
        statement = f"By the formula of the claim at delta {self.claim.delta:g}, at {delta:g}."
        basis = Basis.pick_weaker(self.claim.basis, Basis.COMPUTED)
        claim = replace(self.claim, epsilon=epsilon, delta=delta, statement=statement, basis=basis)
        return replace(self, claim=claim, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedPair:
    """Two neighbouring users and a broadcast for which the users' messages differ as much as the
    system allows.

    target: the system, built for the small catalogue of ``profiles``.
    profiles: interaction histories of the two users, one row per user.
    broadcast: arrays that the server sends to the two users, by name; a malicious server may choose
        any values. None if the server sends nothing.
    scope: what a bound covers that is measured on the messages: data, adversary and period.
    world_names: descriptions of the two users' inputs, for printed results.
    reducer: function that reduces n messages to an array of numbers, shape (n, f), on which the
        bound is measured. None means that whole messages are measured.
    """

    target: Target
    profiles: Interactions
    broadcast: Broadcast | None
    scope: Scope
    world_names: tuple[str, str]
    reducer: Callable[[Mapping[str, Component]], NDArray[np.float64]] | None = None


class HoldOut(StrEnum):
    """The part of the data that a paper holds out to measure utility, such as the last interaction
    of every user.
    """

    LEAVE_LAST_OUT = "leave last out"  # the latest interaction of every user
    HELD_OUT_USERS = "held-out users"  # some users, whose devices fine-tune on half their history
    HELD_OUT_RATINGS = "held-out ratings"  # some ratings of every user, predicted: MSE
    NOTHING = "nothing"  # the training data are used as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A paper's protocol for measuring utility.

    split: the part of the data that is held out.
    cutoffs: lengths K of the recommendation lists for which HR@K and NDCG@K are computed.
    """

    split: HoldOut = HoldOut.LEAVE_LAST_OUT
    cutoffs: tuple[int, ...] = (10,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMetric:
    """A utility value that a paper prints, such as an HR@10.

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
    """Trained parameters with which devices score items.

    arrays: arrays by name; every system chooses its own names.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Result of one training: the recorded messages, and the model with which clients score items.

    transcript: messages of the recorded rounds, the published model, and the public knowledge.
    model: the trained parameters.
    user_vectors: for each user the vector from which the last upload was computed, shape (n_users,
        F); zeros for users who sent nothing. Attacks guess these vectors, and an audit compares the
        guesses with them. No adversary sees them, because they never leave the devices. None if the
        system does not keep them.
    """

    transcript: Transcript
    model: Model
    user_vectors: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOrigin:
    """Source of a system under audit and of its messages, which decides what an audit may conclude
    from them.

    is_external: whether somebody else wrote the system. Its claims are then stated numbers, which
        hold for every population or, if ``n_users`` is given, for a population of this size.
    at_hand: whether the client code can be run to make new messages; False for a recording of
        messages.
    client: client code that makes messages like those of a recording; None if no such code was
        given.
    n_users: number of users for which the claims are stated; None if they hold for any number.
    send_rate: probability that a user sends in a round, drawn anew in every round.
    assumption: a sentence that states an assumption about the messages which no source confirms.
    caveat: a sentence that explains why the failure of an attack on these messages proves nothing.
    n_dropped: number of messages that were left out because some of their values are not finite.
    """

    is_external: bool = False
    is_runnable: bool = True
    client: Target | None = None
    n_users: int | None = None
    send_rate: float = 1.0
    assumption: str = ""
    caveat: str = ""
    n_dropped: int = 0


def get_origin(target: Target) -> SystemOrigin:
    """Returns ``target.origin``: who wrote the system, and where its messages come from.

    For a target without this attribute, returns the default ``SystemOrigin``, a system of this
    package that computes its own claims.
    """
    return getattr(target, "origin", SystemOrigin())


class Claimant(Protocol):
    """Interface of a system whose claims an audit compares with proved bounds, without running the
    system.

    Members that are not abstract have defaults that hold for most systems.
    """

    @property
    def name(self) -> str:
        """Name of the system on the command line."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions, one sentence each, on which the proof of epsilon (``event``) rests and which
        the code cannot confirm.
        """
        return ()

    @property
    def unproved_reason(self) -> str:
        """Reason why no finite epsilon is proved for this system. Empty if one is proved, or if the
        accounting events state the reason.
        """
        return ""

    @property
    def sizes(self) -> Sizes:
        """Number of rounds per training, reports (messages of one randomized number) per user and
        round, and ratings per user; None for an unknown number.
        """
        ...

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the claims for this population, each in its own scope and in every other scope to
        which a reader may apply it.

        A scope is what a claim protects, against whom, and how long.
        """
        ...

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomized function from the data that ``scope`` protects (its unit) to what
        its adversary sees.

        None if the function is unknown, or if no single distribution covers all pairs of the unit's
        values.
        """
        return None

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event (dp-accounting) from which accountants compute the epsilon
        of ``scope``.

        By default ``NonPrivateDpEvent``, because messages are neither clipped nor noisy.
        """
        from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity

        return Identity().event()


class Target(Claimant, Protocol):
    """Interface of a federated recommender under audit: claims, accounting events, training, and
    the code of one client.

    Targets are frozen dataclasses. Their fields are settings from the paper, which are checked on
    construction.
    """

    @property
    def aliases(self) -> Mapping[str, str]:
        """Alternative names of settings on the command line, such as the paper's symbols, each with
        its field name.
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
    def unprotected(self) -> str:
        """Command-line name of this system's counterpart without protection; "" if there is no such
        system.
        """
        ...

    @property
    def noise_setting(self) -> NoiseSetting | None:
        """Names of the settings that determine how much noise is added; None if no setting does."""
        return None

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Values of settings with which the training converges, by name of the setting.

        They replace values from the paper with which the training does not converge. Empty if no
        value has to be replaced.
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

        If so, a server that chooses all broadcasts makes the rounds of a training independent of
        each other. In most systems this is False: clients keep a state, or only a random sample of
        clients sends in a round.
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
        """Returns the estimated cost of a training on these interactions: time, memory and
        messages.
        """
        ...

    def limit_rounds(self, rounds: int) -> Target:
        """Returns a copy of the system whose training has at most ``rounds`` rounds."""
        ...

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns pairs of neighbouring users whose messages differ the most; an audit runs the
        client's own code on them.

        Empty unless a client's own randomizer guarantees an epsilon at delta 0.
        """
        return ()

    def get_client_code(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, np.random.Generator], Any], list[Any]] | None:
        """Returns the function that computes one device's message, and the list of its inputs, one
        interaction history per row of ``profiles``.

        The function takes one history and a random generator, and uses the model ``broadcast``. A
        test runs it for every outcome of the randomness. None if devices keep a state, or if the
        code is not available.
        """
        return None

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: ProgressCallback | None = None,
        compute: Machine = DEFAULT,
        keep: int | None = None,
    ) -> Run:
        """Trains the system, and returns the recorded messages and the final model; ratings may be
        explicit or implicit.

        ``rng`` is the source of all randomness. If ``keep`` is given, only the last ``keep`` rounds
        are recorded. ``progress`` is called after every round. Raises InputError if the data lack a
        part that the system needs.
        """
        ...

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Machine = DEFAULT,
    ) -> Uploads:
        """Returns ``size`` independent messages of every client, computed by the client's code
        without a training.

        ``profiles`` has one row per client: its interaction history. ``broadcast`` is the model
        that they receive. All messages of a client follow one another.
        """
        ...

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items for the given users as their devices do, shape
        (len(users), n_items).

        ``users`` are row indices of ``interactions``, the data on the devices. Devices that
        fine-tune the model do so on these data. Raises NoScores if the system computes no item
        scores.
        """
        ...
