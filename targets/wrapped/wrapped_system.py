"""A system under audit that consists of a client function and a server function of its owner."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import cloudpickle
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Scope, Vantage
from fedrec_auditor.accountants.theorems.neighbours import convert_event_or_raise
from fedrec_auditor.targets import transcript
from fedrec_auditor.targets.components import Dense, Floats, Ints, Payload
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import (
    SYSTEM_NAME_REGEX,
    SYSTEM_NAME_RULE,
    Count,
    CountOrZero,
    NonNegative,
    Range,
    Share,
    check_settings,
)
from fedrec_auditor.targets.systems import base as systems
from fedrec_auditor.targets.systems.system import System, TrainingResult, TrainingRounds
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads
from fedrec_auditor.targets.wrapped.client import (
    CheckedClient,
    ClientMessage,
    History,
    MessagePacker,
    SystemOwnerFunction,
    check_arrays,
    guard_call,
    locate_source,
    requires_arguments,
    restore_random_state,
)
from fedrec_auditor.targets.wrapped.probe import MessageRepeater, probe_client
from fedrec_auditor.targets.wrapped.structure import ArrayStructure, flatten

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_SEEDS = 2**63
# Default time of a call in seconds, and size in bytes of a message that takes one more second.
_CALL, _BYTES = 1 / 4096, 2.0**28
_TRIED = 20
# Name of a system whose owner gives none.
DEFAULT_SYSTEM_NAME = "your-system"
# Name of a message's array that states whether the device sent the other arrays of the message.
PRESENCE_ARRAY = "presence of the device"
# Note for a system without a proof of an upper bound on epsilon, with the remedy.
NO_PROOF_NOTE = (
    "No proof was given. Give one as proof=EVENT, the dp-accounting event of the release of one "
    "round, such as GaussianDpEvent(deviation of the noise / clipping norm of an upload)."
)
# Assumption about the code on which a caller's proof relies.
PROOF_ASSUMPTION = (
    "clients send only data that the accounting event of the proof covers (each user's or other "
    "unit's contribution is clipped to the norm that the noise multipliers refer to, and has noise "
    "drawn anew in every round)"
)
# Note that no claim fits the proof that the caller gave, with the remedy.
UNUSED_PROOF_NOTE = (
    "The proof was not used, as no claim states its unit for a round or more. State a claim, as "
    'claim=Claim(epsilon=math.inf, delta=1e-5, unit="user", horizon="round").'
)
# Horizons (periods) for which a caller may give a proof.
PROOF_HORIZONS = (Horizon.ROUND, Horizon.TRAINING)


_SEVERAL = Range(
    "[2, inf)", "of at least 2, the population of the claims, or None for any", whole=True
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WrappedSystem(System):
    """A federated recommender whose client and server are functions of the system's owner.

    client: function ``client(history, model, rng)`` that returns an upload: an array, a list or a
        dictionary of arrays. A fourth argument ``state`` is a dictionary that the device keeps
    model: the initial model: an array, a list or a dictionary of arrays, or a function that creates
        it for a number of items; None if the server broadcasts nothing
    server: function ``server(model, uploads)`` or ``server(model, uploads, rng)`` that returns the
        next model. None: the next model is the mean of uploaded models, or the model plus the mean
        of uploaded changes
    rounds: number of rounds
    share: share of the users who send an upload in a round, sampled anew in every round
    n_items: number of items for which model and client are made; None if any number is allowed
    title: name of the system
    stated_claims: privacy claims that the caller states for the system
    kinds: meaning of the numbers of each array of a message (a model, a change of the model, ...),
        by the array's name; the key "" stands for all other arrays
    route: strongest position (server, behind a shuffler, ...) of an adversary if all parties follow
        the protocol
    settings: public parameters of the system, by name
    proof: accounting events (dp-accounting) of a round or of the training, by horizon, for the unit
        and vantage of the claims. Noise multipliers are deviations divided by the clipping norm of
        one unit's contribution; ``get_event`` halves them for claims about replacement. The event
        of a training covers all rounds, even if an audit runs fewer
    scores: function ``scores(model, history)`` that returns the scores of all items; None if
        utility is not measured
    upload_seconds: declared time to compute one message, in seconds; 0 if it is to be estimated
    upload_bytes: size of a message in bytes; 0 if it is not yet known
    obeys: whether devices train on any model that the server sends, even a malicious one
    n_users: number of users for which the claims are stated; None if they hold for any number
    drops_out: whether a device may return None and send no message in a round. An additional array
        ``PRESENCE_ARRAY`` then reveals who sent a message, even under secure aggregation
    rows: public function ``rows(items)`` that returns the rows of these items in item tables, shape
        (k,), or (k, h) if an item has h rows; None without such a function
    part_types: types of a message's arrays and containers by name, in their order; empty if they
        are not yet known
    extra_code: further objects of the code's owner, which ``digest`` covers
    paper: text in place of the title of a paper, because the system has no paper
    evaluation: protocol by which utility is measured (class attribute)
    reported_metrics: always empty, because there is no paper (class attribute)
    """

    client: SystemOwnerFunction
    model: Any = None
    server: SystemOwnerFunction | None = None
    rounds: Count = 1
    share: Share = 1.0
    n_items: int | None = None
    title: str = DEFAULT_SYSTEM_NAME
    stated_claims: tuple[systems.ScopedClaim, ...] = ()
    kinds: Mapping[str, Payload] = field(default_factory=dict)
    route: Vantage = Vantage.SERVER
    settings: Mapping[str, float] = field(default_factory=dict)
    proof: Mapping[Horizon, DpEvent] = field(default_factory=dict)
    scores: SystemOwnerFunction | None = None
    upload_seconds: NonNegative = 0.0
    upload_bytes: CountOrZero = 0
    obeys: bool = False
    n_users: Annotated[int | None, _SEVERAL] = None
    drops_out: bool = False
    rows: SystemOwnerFunction | None = None
    part_types: Mapping[str, str] = field(default_factory=dict)
    extra_code: tuple[Any, ...] = ()
    paper: str = "your own system"
    evaluation: ClassVar[systems.UtilityTest] = systems.UtilityTest()
    reported_metrics: ClassVar[tuple[systems.ReportedMetric, ...]] = ()

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("client", "server", "scores", "rows"):
            value = getattr(self, name)
            if not (callable(value) or (value is None and name != "client")):
                raise InputError(
                    f"Expected a function as {name}, got {value!r:.60}. "
                    f"Give the function itself, such as {name}=my_function."
                )
        if not SYSTEM_NAME_REGEX.fullmatch(self.title):
            raise InputError(
                f"Expected a title of {SYSTEM_NAME_RULE}, got {self.title!r:.60}. Change the title."
            )
        scopes = [scoped.claim.scope for scoped in self.stated_claims]
        claimed = {(scope.unit, scope.adjacency, scope.vantage) for scope in scopes}
        if self.proof and len(claimed) > 1:
            raise InputError(
                "Expected one unit, adjacency and vantage in all claims, for one proof, got "
                f"{'; '.join(sorted(' / '.join(each) for each in claimed))}. "
                "Audit each claim separately, with its own proof."
            )
        for event in self.proof.values():
            for _, adjacency, _ in claimed:
                convert_event_or_raise(event, adjacency)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r}, rounds={self.rounds}, {self.digest[:16]})"

    @property
    def has_independent_rounds(self) -> bool:
        """Whether the rounds of a training are independent if the server chooses all broadcasts.

        True if all devices take part in every round (``share`` 1) and keep no state, and either
        accept any model or receive no model.
        """
        return (
            (self.obeys or self.model is None)
            and self.share == 1
            and not requires_arguments(self.client, 4)
        )

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions of the caller's proof, in one sentence about the messages.

        Empty if no proof is used.
        """
        return (PROOF_ASSUMPTION,) if self.proof and not self.unused_proof_note else ()

    @property
    def unused_proof_note(self) -> str:
        """Note that the caller's proof fits no claim and is not used; otherwise ""."""
        scopes = [scoped.claim.scope for scoped in self.stated_claims]
        proved = ((scope, replace(scope, horizon=at)) for scope in scopes for at in self.proof)
        used = any(scope.covers(each) for scope, each in proved)
        return UNUSED_PROOF_NOTE if self.proof and not used else ""

    @property
    def unproved_reason(self) -> str:
        """Note that no proof was given, and how to give one; "" if there is a proof."""
        return "" if self.proof else NO_PROOF_NOTE

    @property
    def name(self) -> str:
        """Name of the system in reports and errors, which is its title."""
        return self.title

    @property
    def origin(self) -> systems.SystemOrigin:
        """Origin of the system: external code, with claims that the caller states as numbers."""
        return systems.SystemOrigin(is_external=True, n_users=self.n_users, send_rate=self.share)

    def adapt_to_data(self, interactions: Interactions) -> tuple[WrappedSystem, tuple[str, ...]]:
        """Calls the client on trial; returns a copy with the observed properties, and notes on it.

        Raises InputError for a client that cannot be audited, see ``probe_client``.
        """
        facts = probe_client(
            self.client,
            self.make_first_model,
            interactions,
            kinds=self.kinds,
            is_averaged=self.server is None,
            is_fixed=self.n_items is not None or not (self.model is None or callable(self.model)),
            has_claim=any(math.isfinite(scoped.claim.epsilon) for scoped in self.stated_claims),
            drops_out=self.drops_out,
        )
        known = replace(
            self,
            kinds=facts.kinds,
            part_types=facts.part_types,
            n_items=self.n_items if facts.can_enlarge_catalogue else interactions.n_items,
            upload_bytes=facts.upload_bytes,
            upload_seconds=self.upload_seconds
            or getattr(self.client, "upload_seconds", _CALL) + facts.upload_bytes / _BYTES,
        )
        believed, doubt = known.drop_refuted_proofs(facts.message_repeater)
        return believed, (*facts.notes, *filter(None, (doubt, self.unused_proof_note)))

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments for ``TrainingCost.estimate``, which estimates training time.

        They are the number and size of the messages, and the time of the client's calls.
        """
        return {
            "senders_per_round": max(1, round(self.share * interactions.n_users)),
            "n_message_values": self.upload_bytes // 4,
            "message_bytes": self.upload_bytes,
            "n_computed_values": self.upload_seconds * systems.UPDATES_PER_SECOND,
        }

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 digest of the owner's functions, model and source files.

        Covers also the settings ``rounds``, ``share``, ``obeys``, ``n_users`` and ``drops_out``.
        """
        code = self.client, self.server, self.model, self.scores, self.rows
        numbers = self.rounds, self.share, self.obeys, self.n_users, self.drops_out
        digest = hashlib.sha256(cloudpickle.dumps((*code, *numbers)))
        for part in map(inspect.unwrap, (*code, *self.extra_code)):
            try:
                file = inspect.getsourcefile(part if inspect.isroutine(part) else type(part))
            except TypeError:
                continue
            if file is not None and Path(file).is_file():
                digest.update(Path(file).read_bytes())
        return digest.hexdigest()

    @property
    def n_required_items(self) -> int | None:
        """Number of items for which model and client are made; None if any number is allowed."""
        return self.n_items

    def get_claims(self, population: systems.Population) -> tuple[systems.ScopedClaim, ...]:
        """Returns the privacy claims that the caller states; ``population`` is not used."""
        return self.stated_claims

    def get_event(self, scope: Scope, population: systems.Population) -> DpEvent:
        """Returns the caller's accounting event (``proof``) for ``scope``, of a round or else of
        the training.

        An event is used if its period includes that of ``scope``, and a claim covers ``scope`` with
        the event's period. For a claim about replacement, noise multipliers of the event are
        halved. Without such an event, the result is ``NonPrivateDpEvent``. ``population`` is not
        used.
        """
        for horizon in PROOF_HORIZONS:
            wider = replace(scope, horizon=horizon)
            claims = [s.claim.scope for s in self.stated_claims if s.claim.scope.covers(wider)]
            if horizon in self.proof and wider.covers(scope) and claims:
                return convert_event_or_raise(self.proof[horizon], claims[0].adjacency)
        return super().get_event(scope, population)

    def drop_refuted_proofs(self, message_repeater: MessageRepeater) -> tuple[WrappedSystem, str]:
        """Tests the noise of messages; returns the system, without refuted proofs, and a note.

        Here there is no test: the result is the system itself and an empty note. A subclass may
        test the messages that ``message_repeater`` yields, of devices with equal histories.
        """
        return self, ""

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the facts that every adversary knows: name, sizes, settings, route of uploads."""
        return PublicInfo(
            algorithm=self.title,
            n_users=interactions.n_users,
            n_items=interactions.n_items,
            settings={"rounds": float(self.rounds), **self.settings},
            protocol_vantage=self.route,
            item_rows=self._map_rows(interactions.n_items),
        )

    def _map_rows(self, n_items: int) -> NDArray[np.int64] | None:
        """Returns the table rows of all items by the caller's function, indices (n_items, h).

        None if there is no such function. Raises InputError for invalid rows.
        """
        if self.rows is None:
            return None
        with guard_call(f"rows of {n_items} items", self.rows, "Correct rows."):
            rows = np.asarray(self.rows(np.arange(n_items)))
        whole = rows.dtype.kind in "iu" and rows.size and rows.min() >= 0
        if not whole or rows.shape[0] != n_items or rows.ndim > 2:
            raise InputError(
                f"Expected rows to return whole numbers >= 0 of shape ({n_items},) or ({n_items}, "
                f"rows per item), got {rows.ravel()[:3]} of type {rows.dtype}, shape {rows.shape} "
                f"({locate_source(self.rows)}). Correct this function."
            )
        return rows.reshape(n_items, -1).astype(np.int64)

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Trains the system: yields the messages round by round, and returns the last model.

        Every sending device has a separate seed and state.
        """
        model, structure = self.make_first_model(interactions.n_items)
        client = CheckedClient(self.client, part_types=self.part_types, drops_out=self.drops_out)
        n_users = interactions.n_users
        states: dict[int, dict[str, Any]] = {}
        drawn = max(1, round(self.share * n_users))
        with restore_random_state():
            for number in range(self.rounds):
                users = np.sort(rng.permutation(n_users)[:drawn])
                packing, there = MessagePacker(self.get_kind, model), np.ones(drawn, np.bool_)
                seeds = rng.integers(_SEEDS, size=drawn)
                for at, (user, seed) in enumerate(zip(users, seeds, strict=True)):
                    history = History.for_user(interactions, int(user))
                    where = f" in round {number + 1} for a history of {len(history)} items"
                    state = states.setdefault(int(user), {})
                    sent = client(history, model, structure, int(seed), state, where)
                    there[at] = sent is not None
                    if sent is not None:
                        packing.add_message(sent)
                clear = Uploads(users, {PRESENCE_ARRAY: _bits(there)}) if self.drops_out else None
                kept = yield Round(model, Uploads(users[there], packing.pack_components()), clear)
                assert kept is not None
                model = self._update_model(model, structure, kept.uploads, client.structure, rng)
        return TrainingResult(release=model, scoring_arrays=dict(model or {}))

    def make_first_model(self, n_items: int) -> tuple[Broadcast | None, ArrayStructure | None]:
        """Returns the first model for ``n_items`` items, as arrays by name, and its structure.

        The result is (None, None) if the server broadcasts nothing.
        """
        if self.model is None:
            return None, None
        made = self.model
        if callable(made):
            what = f"a model of {n_items} items from your function"
            with guard_call(what, made, "Correct it, or give the first model itself."):
                made = made(n_items)
        elif self.n_items is not None and n_items != self.n_items:
            raise InputError(
                f"Expected data with {self.n_items} items, for which the model is made, got "
                f"{n_items}. Give a function that creates a model for any number of items."
            )
        return flatten(made, "your model")

    def get_kind(self, name: str) -> Payload:
        """Returns the meaning of the numbers in the messages' array ``name``, such as a model.

        If ``kinds`` has no entry ``name``, the result is its entry "", or by default a change of
        the model.
        """
        return self.kinds.get(name, self.kinds.get("", Payload.CHANGE))

    def _update_model(
        self,
        model: Broadcast | None,
        structure: ArrayStructure | None,
        uploads: Uploads,
        like: ArrayStructure | None,
        rng: Generator,
    ) -> Broadcast | None:
        """Computes the next model, by the owner's server function or by averaging the messages.

        model: the present model, which stays if the server broadcasts none or no device has sent a
            message
        structure, like: structures of the model and of a message
        uploads: the messages of the round
        rng: source of the server's randomness
        """
        if model is None or structure is None or like is None:
            return model
        if self.server is None:
            count = len(uploads.users)
            updated = dict(model)
            for name, part in uploads.components.items():
                if name in updated and part.shape == updated[name].shape:
                    mean = part.sum_all() / count
                    old = 0 if part.kind is Payload.MODEL else updated[name]
                    updated[name] = (old + mean).astype(updated[name].dtype)
            return updated
        more = (rng,) if requires_arguments(self.server, 3) else ()
        with guard_call("the next model from your server", self.server, "Mend the server."):
            made = self.server(structure.rebuild(model), ReceivedUploads(uploads, like), *more)
        what = f"the model of your server ({locate_source(self.server)})"
        arrays, _ = flatten(made, what)
        shapes = {name: array.shape for name, array in model.items()}
        check_arrays(arrays, shapes, what, "", "Return a model of the same form as the given one.")
        return arrays

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: Generator,
        messages_per_client: int = 1,
        compute: Machine = DEFAULT_MACHINE,
    ) -> Uploads:
        """Computes messages of clients that have not sent a message before.

        profiles: interaction histories, one row per client
        broadcast: the model that the clients receive; None if nothing is broadcast
        rng: source of the seeds; every message has a separate seed
        messages_per_client: number of messages per client, which follow one another in the result

        Raises RefusedHistoriesError if the client function fails on some of the histories.
        """
        _, structure = self.make_first_model(profiles.n_items)
        client = CheckedClient(self.client, part_types=self.part_types, drops_out=self.drops_out)
        packing = MessagePacker(self.get_kind, broadcast)
        seeds = rng.integers(_SEEDS, size=(profiles.n_users, messages_per_client)).tolist()
        takes, first_error = np.ones(profiles.n_users, np.bool_), ""
        with restore_random_state():
            for user in range(profiles.n_users):
                try:
                    for seed in seeds[user]:
                        history = History.for_user(profiles, user)
                        where = f" for a history of {len(history)} items"
                        packing.add_message(client(history, broadcast, structure, seed, {}, where))
                except InputError as error:
                    takes[user], first_error = False, first_error or str(error)
            if first_error:
                raise transcript.RefusedHistoriesError(first_error, takes)
            sent = packing.pack_components(
                lambda: self._find_example(client, structure, broadcast, history)
            )
        if self.drops_out:
            sent[PRESENCE_ARRAY] = _bits(packing.has_message_by_device)
        return Uploads(np.repeat(np.arange(profiles.n_users), messages_per_client), sent)

    def get_message_function(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, Generator], Any], list[Any]] | None:
        """Returns a function (history, generator) that computes a message, and the list of
        histories.

        Each history is made from one row of ``profiles``. The function calls the client with a
        history and the model ``broadcast``. None if devices may send nothing or keep a state.
        """
        if self.drops_out or requires_arguments(self.client, 4):
            return None
        _, structure = self.make_first_model(profiles.n_items)
        model = None if broadcast is None or structure is None else structure.rebuild(broadcast)

        def make_message(history: History, rng: Generator) -> Any:
            return self.client(history, model, rng)

        return make_message, [History.for_user(profiles, user) for user in range(profiles.n_users)]

    def _find_example(
        self,
        client: CheckedClient,
        structure: ArrayStructure | None,
        broadcast: Broadcast | None,
        like: History,
    ) -> ClientMessage:
        """Returns one message of the client, of which the caller uses only names and shapes.

        ``like`` is the first history on which the client is tried. Raises InputError if the client
        sends no message.
        """
        # The items of ``like``, then all items, then single items.
        every, raised = np.arange(like.n_items), ""
        for items in (like.items, every, *every[:_TRIED, None]):
            times = None if like.timestamps is None else np.zeros(len(items), np.int64)
            ratings = np.ones(len(items), np.float32)
            history = replace(like, items=items, ratings=ratings, timestamps=times)
            try:
                for seed in range(_TRIED):
                    sent = client(history, broadcast, structure, seed, {}, " of invented items")
                    if sent is not None:
                        return sent
            except InputError as error:
                raised = f" It fails on some of them: {error}"
        raise InputError(
            f"Expected a message of at least one device, got None from your client "
            f"({locate_source(self.client)}) "
            f"for {_TRIED} histories. Let some devices send.{raised}"
        )

    def score(self, model: systems.Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items by the caller's function, shape (len(users), n_items).

        ``users`` holds row indices. Raises NoScoresError if there is no such function.
        """
        if self.scores is None:
            raise systems.NoScoresError(
                "Expected a function scores(model, history) to measure utility, got none. "
                "Give a function that returns the scores of all items."
            )
        _, structure = self.make_first_model(interactions.n_items)
        built = None if structure is None else structure.rebuild(model.arrays)
        histories = (History.for_user(interactions, int(user)) for user in users)
        return np.stack([np.asarray(self.scores(built, each), np.float64) for each in histories])


def _bits(values: Sequence[bool] | NDArray[np.bool_]) -> Dense:
    return Dense(np.array(values)[:, None], Payload.BITS)


class ReceivedUploads(Sequence[Any]):
    """The messages of one round as a sequence, which a server function gets as its ``uploads``.

    An element is a message in the form in which the client function returned it, built on access.
    """

    def __init__(self, uploads: Uploads, structure: ArrayStructure) -> None:
        self._uploads, self._structure = uploads, structure

    def __len__(self) -> int:
        return len(self._uploads.users)

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"Expected an index of {len(self)} messages, got {place}. Correct it.")
        client = np.array([place % len(self)])
        parts = {n: c.to_dense(client)[0] for n, c in self._uploads.components.items()}
        return self._structure.rebuild(parts)
