"""Protocols of a target: what it claims, what its training costs, how it runs."""

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
    from fedrec_auditor.targets.settings import Knob
    from fedrec_auditor.targets.transcript import Broadcast, Transcript, Uploads


RATE = 1e8
"""Numbers of a model that one thread updates in a second, as FedRec does on MovieLens 1M."""
_PASS = 1e3
"""As many as these a pass takes, however little it updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a training takes, as its system declares it: roughly, and none of it is proved.

    In each of ``rounds`` rounds ``senders`` send a message of so many ``numbers``, which is kept in
    so many ``bytes``. Beside messages ``held`` numbers of 4 bytes are in memory: tables of the
    model, examples of the largest device. So many numbers of a model are updated (``updates``).
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
        """By what a system says of itself; what it does not say is as in most systems.

        Parameters
        ----------
        width : numbers of a user or an item in the model.
        passes : over all interactions, and ``negatives`` for each; by default one a round.
        reports : of one randomized number each, in a message.
        dense : numbers of a message beside rows of the items that its sender trained on; by
            default a message is a table of all items, kept as a number an interaction.
        numbers, bytes : of a message, where they are not as said.
        held : more numbers of 4 bytes in memory.
        made : numbers that are calculated to make a message, beside training.
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
        """Messages of the whole training."""
        return self.rounds * self.senders

    @property
    def seconds(self) -> float:
        """Of one thread."""
        return self.updates / RATE


Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all)."""


class Unscored(InputError):
    """A target that scores no items, so that how well it recommends is not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """How many users take part and how many items they choose from: what an epsilon depends on.

    ``n_features`` is the length of a user's features where a system has them (``features``): 44 on
    MovieLens, 18 of the ratings and 2, 21 and 3 of gender, occupation and age.
    """

    n_users: int
    n_items: int
    n_features: int = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedClaim:
    """A claim and the scope in which it is to be judged, at which delta.

    ``note`` says in a sentence why a reader would ask it. ``outside_model`` names what is asked
    that the paper does not speak of in any scope, such as a budget that it does not print: such a
    claim refutes no claim. ``curve`` gives epsilon at any delta, where the claim is a formula.
    """

    claim: Claim
    scope: Scope
    delta: float = 0.0
    note: str = ""
    outside_model: str = ""
    curve: Callable[[float], float] | None = None

    def at(self, delta: float) -> ScopedClaim | None:
        """What the claim's formula gives at another delta; None where it holds at its own only."""
        if self.curve is None:
            return None
        epsilon = self.curve(delta)
        statement = f"By the formula of the claim at delta {self.claim.delta:g}, at {delta:g}."
        basis = Basis.weaker(self.claim.basis, Basis.COMPUTED)
        claim = replace(self.claim, epsilon=epsilon, delta=delta, statement=statement, basis=basis)
        return replace(self, claim=claim, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedPair:
    """Two neighbouring users and a broadcast at which their messages differ by all that is allowed.

    ``profiles`` are two users over a small catalogue, the two worlds, which ``names`` put in words;
    ``broadcast`` is what the server sends them (a malicious server may send anything). ``target``
    is the system at the size of this small catalogue. ``scope`` is what a bound measured on their
    messages speaks of: of whole messages, or of what ``read`` gives of messages, (n, f).
    """

    target: Target
    profiles: Interactions
    broadcast: Broadcast | None
    scope: Scope
    names: tuple[str, str]
    read: Callable[[Mapping[str, Component]], NDArray[np.float64]] | None = None


class Split(StrEnum):
    """What the papers hold out to measure how well a system recommends."""

    LEAVE_LAST_OUT = "leave last out"  # the latest interaction of every user
    HELD_OUT_USERS = "held-out users"  # some users, whose devices fine-tune on half their history
    HELD_OUT_RATINGS = "held-out ratings"  # some ratings of every user, predicted: MSE
    NOTHING = "nothing"  # what was trained on is given as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A paper's protocol: what is held out, and the K of its HR@K and NDCG@K."""

    split: Split = Split.LEAVE_LAST_OUT
    cutoffs: tuple[int, ...] = (10,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A figure of utility printed in the paper, and the setting it was reached in."""

    metric: str
    protocol: str
    value: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What scoring on the device needs after training; ``arrays`` are the target's own."""

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a training leaves: the transcript, and the model with which clients score items.

    ``user_vectors`` (n_users, F), where a system gives them, are those behind each user's
    last upload, zeros for users who sent nothing. They never leave the devices and are in no view:
    guesses of them are scored against them.
    """

    transcript: Transcript
    model: Model
    user_vectors: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a target comes from, as far as an audit has to know.

    Claims on a system of ``others`` are numbers that somebody states, the same for any population,
    or for one of so many ``users``. Its clients are ``at_hand`` if they can be asked for messages:
    of a recording there are those it holds, and maybe ``code`` that makes such messages. In a round
    a ``share`` of the users sends, drawn anew. ``assumed`` is a sentence on what its messages are
    read by that nobody states; ``doubt`` one on why an attack that fails on them proves nothing.
    ``unread`` is the number of messages left out beforehand, for numbers that are not finite.
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
    """Where a target comes from; one that does not say its ``origin`` computes its claims."""
    return getattr(target, "origin", Origin())


class Claimant(Protocol):
    """What claims are judged of without a run: they, and what an accountant charges.

    Whoever extends it need not say again what holds of most.
    """

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """What its events rest on beside its code, in words: somebody's say-so."""
        return ()

    @property
    def unproved(self) -> str:
        """What is missing where its events prove nothing and do not say why; "" if they do."""
        return ""

    @property
    def sizes(self) -> Sizes:
        """Rounds of a training, reports of a user and round, ratings of a user, where known."""
        ...

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """The claims, each in its own scope and in the scopes it would be taken for."""
        ...

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """All randomness between the unit and the vantage of ``scope``; None if unknown.

        Also where no distribution covers every pair of the unit's values.
        """
        return None

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """What an accountant charges in ``scope``: that nothing is bounded and noisy."""
        from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity

        return Identity().event()


class Target(Claimant, Protocol):
    """A federated recommender as a black box: claims, events, runs, and the client alone.

    Targets are frozen dataclasses whose fields are the paper's settings, checked on construction.
    """

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of settings on the command line, such as the paper's; the class has them."""
        ...

    @property
    def paper(self) -> str:
        """Which paper describes it."""
        ...

    @property
    def reported(self) -> tuple[Reported, ...]:
        """What the paper reports of its utility, for the reader to compare."""
        ...

    @property
    def unprotected(self) -> str:
        """The name of the same system without protection, "" where there is none."""
        ...

    @property
    def privacy(self) -> Knob | None:
        """The settings that buy privacy, None where none does."""
        return None

    @property
    def learning(self) -> Mapping[str, Any]:
        """The settings under which it learns, empty where those printed do or none are known."""
        return {}

    @property
    def evaluation(self) -> Evaluation:
        """How the paper measures utility."""
        ...

    @property
    def steerable(self) -> bool:
        """Whether all clients send in every round, what depends on data and broadcast alone.

        Then a server that chooses its broadcasts makes a training of independent rounds. Most keep
        a state, or are drawn by lot.
        """
        return False

    @property
    def trains_on_device(self) -> bool:
        """Whether clients are trained on ``Compute.device``; if not, they are on the CPU."""
        return False

    @property
    def catalogue(self) -> int | None:
        """Number of items that its model is made for; None where it takes any."""
        return None

    @property
    def upload_seconds(self) -> float:
        """What one client's message costs, where it is much, as said or counted; else 0."""
        return 0.0

    def cost(self, interactions: Interactions) -> Cost:
        """What a training on these data takes."""
        ...

    def shortened(self, rounds: int) -> Target:
        """The same system with a training of at most so many rounds."""
        ...

    def designed_pairs(self) -> tuple[DesignedPair, ...]:
        """Worst cases of one message, for the local game to sample the client's own code in.

        None where no client's own randomizer promises a pure epsilon.
        """
        return ()

    def client_code(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, np.random.Generator], Any], list[Any]] | None:
        """What makes a device's message of its history, and the history of each of ``profiles``.

        For who runs every path of its coins; None where devices keep state, or have no code.
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
        """Train and keep what crossed a boundary. Explicit and implicit ratings alike.

        With ``keep`` the transcript has the last so many rounds only. ``progress`` is called after
        every round. InputError if the data lack what the system needs.
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
        """The client alone: each profile's message, ``size`` times over, profile by profile."""
        ...

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Scores of all items for these users, (len(users), n_items), as their devices compute.

        ``interactions`` are what the devices hold; where devices fine-tune, they do so on these.
        Raises Unscored where a target scores no items.
        """
        ...
