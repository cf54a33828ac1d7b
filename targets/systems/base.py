"""Protocols of a target: its claims, the cost of its training, and its runs."""

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


RATE = 1e8
"""Model parameters that one thread updates per second, measured on FedRec with MovieLens 1M."""
_PASS = 1e3
"""Minimum cost of a pass over the data, in updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a training, as its system declares it: a rough estimate, which nothing proves.

    rounds: number of rounds
    senders: clients that send a message in a round
    numbers: numbers in a message
    bytes: bytes in which a message is stored
    held: further numbers of 4 bytes in memory: tables of the model, examples of the largest device
    updates: updates of single model parameters in the whole training
    """

    rounds: float
    senders: float
    numbers: float
    bytes: float
    held: float
    updates: float

    @classmethod
    def of(
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
        """Estimates the cost from a system's declarations; the defaults fit most systems.

        Parameters
        ----------
        rounds, senders : see the class.
        width : numbers per user or item in the model.
        passes : passes over all interactions and ``negatives`` examples for each of them; by
            default one pass per round.
        reports : reports in a message, of one randomized number each.
        dense : numbers of a message in addition to the rows of items that its sender trained on;
            by default a message is a table of all items, stored as one number per interaction.
        numbers, bytes : size of a message, if it differs from the estimate by the other arguments.
        held : additional numbers of 4 bytes in memory.
        made : numbers that are computed to make a message, not counting the training.
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
        return self.updates / RATE


Progress = Callable[[int, int], None]
"""Callback with the arguments (rounds done, number of rounds)."""


class NoScores(InputError):
    """Raised by a target that scores no items, so that its utility cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Numbers of users and items, on which the epsilon of a system may depend.

    ``n_features`` is the number of a user's features in systems that use them (``features``): 44 on
    MovieLens, of which 18 describe ratings, 2 gender, 21 occupation and 3 age.
    """

    n_users: int
    n_items: int
    n_features: int = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedClaim:
    """A claim, with the scope and the delta at which an audit compares it with bounds.

    note: a sentence on why a reader would compare the claim in this scope
    outside_model: part of the comparison that the paper does not address in any scope, such as a
        budget that it does not print; a bound then refutes no claim of the paper
    curve: epsilon as a function of delta, if the claim is a formula
    """

    claim: Claim
    scope: Scope
    delta: float = 0.0
    note: str = ""
    outside_model: str = ""
    curve: Callable[[float], float] | None = None

    def at(self, delta: float) -> ScopedClaim | None:
        """The claim at another delta, by its formula; None if the claim is not a formula."""
        if self.curve is None:
            return None
        epsilon = self.curve(delta)
        statement = f"By the formula of the claim at delta {self.claim.delta:g}, at {delta:g}."
        basis = Basis.weaker(self.claim.basis, Basis.COMPUTED)
        claim = replace(self.claim, epsilon=epsilon, delta=delta, statement=statement, basis=basis)
        return replace(self, claim=claim, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedPair:
    """Two neighbouring users and a broadcast for which their messages differ as much as allowed.

    target: the system, with the size of the small catalogue
    profiles: the two users over a small catalogue, one per world
    broadcast: the model that the server sends them (a malicious server may send anything)
    scope: scope of a bound that is measured on the messages
    names: the two worlds in words
    read: reduces messages to the numbers that are measured (n, f); if None, a bound is measured on
        whole messages
    """

    target: Target
    profiles: Interactions
    broadcast: Broadcast | None
    scope: Scope
    names: tuple[str, str]
    read: Callable[[Mapping[str, Component]], NDArray[np.float64]] | None = None


class Split(StrEnum):
    """The part of the data that a paper holds out to measure the utility of a system."""

    LEAVE_LAST_OUT = "leave last out"  # the latest interaction of every user
    HELD_OUT_USERS = "held-out users"  # some users, whose devices fine-tune on half their history
    HELD_OUT_RATINGS = "held-out ratings"  # some ratings of every user, predicted: MSE
    NOTHING = "nothing"  # the training data are used as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A paper's protocol of utility: its split of the data, and the K of its HR@K and NDCG@K."""

    split: Split = Split.LEAVE_LAST_OUT
    cutoffs: tuple[int, ...] = (10,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFigure:
    """A figure of utility that the paper prints, with the setting in which it was reached."""

    metric: str
    protocol: str
    value: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The trained parameters that devices need to score items; names in ``arrays`` are free."""

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Result of a training: the transcript, and the model with which clients score items.

    ``user_vectors`` (n_users, F), if the system gives them, are the vectors from which each user's
    last upload was computed, zeros for users who sent nothing. They never leave the devices and are
    in no view; they are the truth with which an attack's guesses are compared.
    """

    transcript: Transcript
    model: Model
    user_vectors: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Origin of a target: the facts about its code and its messages on which an audit depends.

    others: whether somebody else wrote the system; its claims are then stated numbers, the same for
        every population or, if ``users`` is given, for a population of this size
    at_hand: whether its clients can be run to make messages; a recording only has stored messages
    code: client code that makes messages like those of a recording, if somebody gave such code
    users: number of users for which the claims are stated
    share: share of the users who send in a round, drawn anew in every round
    assumed: a sentence on an assumption about its messages that nobody states
    doubt: a sentence on why an attack that fails on its messages proves nothing
    unread: number of messages that were left out because their numbers are not finite
    """

    others: bool = False
    at_hand: bool = True
    code: Target | None = None
    users: int | None = None
    share: float = 1.0
    assumed: str = ""
    doubt: str = ""
    unread: int = 0


def origin_of(target: Target) -> Origin:
    """The target's ``origin``; a target without one is our code and computes its claims."""
    return getattr(target, "origin", Origin())


class Claimant(Protocol):
    """The part of a target that verdicts need without a run: its claims and its events.

    Members that are not abstract have defaults that hold for most targets.
    """

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions of its events that the code does not show, in words: somebody states them."""
        return ()

    @property
    def unproved(self) -> str:
        """Reason why its events prove nothing, if the events do not state it; else ""."""
        return ""

    @property
    def sizes(self) -> Sizes:
        """Rounds of a training, reports per user and round, ratings per user, if known."""
        ...

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """The claims, each in its own scope and in the scopes that a reader may take it for."""
        ...

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """All randomness between the unit and the vantage of ``scope``.

        None if it is unknown, or if no distribution covers every pair of the unit's values.
        """
        return None

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """The accountant's event in ``scope``; by default messages are unbounded and noiseless."""
        from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity

        return Identity().event()


class Target(Claimant, Protocol):
    """A federated recommender as a black box: its claims, events and runs, and its client alone.

    Targets are frozen dataclasses whose fields are the paper's settings, checked on construction.
    """

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of settings on the command line, such as the paper's (a class attribute)."""
        ...

    @property
    def paper(self) -> str:
        """The paper that describes the system."""
        ...

    @property
    def reported(self) -> tuple[ReportedFigure, ...]:
        """Figures of utility that the paper reports, for the reader to compare."""
        ...

    @property
    def unprotected(self) -> str:
        """Name of the system without its protection; "" if there is none."""
        ...

    @property
    def privacy(self) -> NoiseSetting | None:
        """The settings that set how much noise is added; None if no setting does."""
        return None

    @property
    def learning(self) -> Mapping[str, Any]:
        """Settings under which the system learns; empty if the printed ones do, or if unknown."""
        return {}

    @property
    def evaluation(self) -> Evaluation:
        """The paper's protocol of utility."""
        ...

    @property
    def steerable(self) -> bool:
        """Whether all clients send in every round, and messages depend only on data and broadcast.

        Then the rounds of a training are independent if the server chooses its broadcasts. In most
        systems clients keep a state, or only some clients, drawn at random, send in a round.
        """
        return False

    @property
    def trains_on_device(self) -> bool:
        """Whether clients are trained on ``Compute.device``; otherwise on the CPU."""
        return False

    @property
    def catalogue(self) -> int | None:
        """Number of items for which the model is built; None if any number is possible."""
        return None

    @property
    def upload_seconds(self) -> float:
        """Time to compute one client's message, in seconds, stated or counted; 0 if negligible."""
        return 0.0

    def cost(self, interactions: Interactions) -> Cost:
        """Estimated cost of a training on these data."""
        ...

    def shortened(self, rounds: int) -> Target:
        """The system with a training of at most this number of rounds."""
        ...

    def designed_pairs(self) -> tuple[DesignedPair, ...]:
        """Worst-case pairs for one message, on which the local game runs the client's own code.

        Empty unless a client's own randomizer promises a pure epsilon.
        """
        return ()

    def client_code(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, np.random.Generator], Any], list[Any]] | None:
        """The function that computes a device's message, and the histories of ``profiles``.

        The message is a function of one history and a generator. It serves a test that runs every
        outcome of the randomness. None if devices keep a state, or if no code is given.
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

        If ``keep`` is given, the transcript has only this number of last rounds. ``progress`` is
        called after every round. Raises InputError if the data lack a part that the system needs.
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
        """Runs the client alone: ``size`` messages of each profile, profile by profile."""
        ...

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Scores of all items for these users, (len(users), n_items), as their devices compute.

        ``interactions`` are the data on the devices; devices that fine-tune do so on these data.
        Raises Unscored if the target scores no items.
        """
        ...
