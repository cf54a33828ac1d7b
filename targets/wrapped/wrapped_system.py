"""A system of others, by its client and its server as callables, as a target."""

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
from fedrec_auditor.accountants.theorems.neighbours import charge
from fedrec_auditor.targets.components import Dense, Floats, Ints, Kind
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import (
    TITLE,
    TITLED,
    NotNegative,
    Range,
    Share,
    Whole,
    WholeOrNone,
    check,
)
from fedrec_auditor.targets.systems.base import (
    RATE,
    Evaluation,
    Model,
    Origin,
    Population,
    Reported,
    ScopedClaim,
    Unscored,
)
from fedrec_auditor.targets.systems.system import System, Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, HistoriesRefused, Public, Round, Uploads
from fedrec_auditor.targets.wrapped.client import (
    Client,
    Function,
    History,
    Message,
    Packing,
    check_parts,
    expecting,
    own_randomness,
    place,
    takes,
)
from fedrec_auditor.targets.wrapped.probe import Repeated, probe
from fedrec_auditor.targets.wrapped.structure import Structure, take_apart

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_SEEDS = 2**63
_CALL, _BYTES = 1 / 4096, 2.0**28
"""Seconds of a call whose client says no other, and bytes of a message that take another one."""
_TRIED = 20
UNTITLED = "your-system"
PRESENCE = "presence of the device"
"""What the part of a message is called that says whether there is one."""
NO_PROOF = (
    "no proof was given. Give one as proof=EVENT, the dp-accounting event of what one round "
    "releases, such as GaussianDpEvent(deviation / norm that an upload is clipped to)."
)
RELEASED = (
    "what is sent is no more than the event of its proof says: each unit's contribution is clipped "
    "to the norm that multipliers are of, and all of it has that noise, new in every round"
)
"""The assumption of a caller's proof about the code."""
NOT_USED = (
    "The proof was not used, as no claim says of whom it speaks, for a round or more. State one, "
    'such as claim=Claim(epsilon=math.inf, delta=1e-5, unit="user", horizon="round").'
)
PROVED = (Horizon.ROUND, Horizon.TRAINING)
"""The horizons of which a proof may speak."""


_SEVERAL = Range(
    "[2, inf)", "of at least 2, of which the claims speak, or None where of any", whole=True
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WrappedSystem(System):
    """A federated recommender of which only callables are known.

    ``client(history, model, rng)``, with a fourth parameter for the device's own ``state``, gives
    what a device uploads: an array, a list or a dictionary of arrays, of numpy or torch.
    ``model`` is the first one, of the same kinds, or a function of the number of items that makes
    it; None where nothing is broadcast. ``server(model, uploads)``, with a third parameter for a
    generator, gives the next model; without it messages of ``kinds`` model are averaged, changes
    are averaged and added. ``share`` of the users, drawn anew, send in every round.
    ``n_items`` is the number of items that model and client are made for, None for any.

    ``kinds`` say what the parts of a message are, ``stated`` what is claimed, ``route`` what the
    protocol shows to the strongest adversary, ``settings`` the numbers that are public. ``proof``
    are events of the claims' unit, to their vantage, by horizon, as dp-accounting documents them: a
    multiplier of noise is over the norm that the unit's contribution is clipped to, so under
    replacement it counts half (``theorems.neighbours.charge``). They are of the system at its full
    length, however much a game shortens it. ``scores(model, history)`` are those of all items.
    ``upload_seconds`` are what a message costs, as declared, or by its ``upload_bytes`` where they
    are 0; ``obeys`` says that devices take any model from the server. ``users`` is the number of
    users that ``stated`` speaks of, None for any. A device that ``drops_out`` sends None: in a
    training no message that round, and ``PRESENCE`` tells who sent one, even beside a secure sum;
    ``upload`` gives it as a part of messages, whose other parts move nothing then. ``rows(items)``
    are the rows of these items in tables, (k,) or (k, h), by a function that is public. ``form``
    are the types of a message's parts, in their order. ``written`` is what else the owner wrote.
    """

    client: Function
    model: Any = None
    server: Function | None = None
    rounds: Whole = 1
    share: Share = 1.0
    n_items: int | None = None
    title: str = UNTITLED
    stated: tuple[ScopedClaim, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    route: Vantage = Vantage.SERVER
    settings: Mapping[str, float] = field(default_factory=dict)
    proof: Mapping[Horizon, DpEvent] = field(default_factory=dict)
    scores: Function | None = None
    upload_seconds: NotNegative = 0.0
    upload_bytes: WholeOrNone = 0
    obeys: bool = False
    users: Annotated[int | None, _SEVERAL] = None
    drops_out: bool = False
    rows: Function | None = None
    form: Mapping[str, str] = field(default_factory=dict)
    written: tuple[Any, ...] = ()
    paper: str = "your own system"
    evaluation: ClassVar[Evaluation] = Evaluation()
    reported: ClassVar[tuple[Reported, ...]] = ()

    def __post_init__(self) -> None:
        check(self)
        for name in ("client", "server", "scores", "rows"):
            value = getattr(self, name)
            if not (callable(value) or (value is None and name != "client")):
                raise InputError(
                    f"Expected a function as {name}, got {value!r:.60}. "
                    "Give for example a lambda of (history, model, rng)."
                )
        if not TITLE.fullmatch(self.title):
            raise InputError(
                f"Expected a title of {TITLED}, got {self.title!r:.60}. Give another one."
            )
        scopes = [scoped.claim.scope for scoped in self.stated]
        spoken = {(scope.unit, scope.adjacency, scope.vantage) for scope in scopes}
        if self.proof and len(spoken) > 1:
            raise InputError(
                "Expected claims of one unit, adjacency and vantage beside a proof, got "
                f"{'; '.join(sorted(' / '.join(each) for each in spoken))}. "
                "Audit each with its own proof."
            )
        for event in self.proof.values():
            for _, adjacency, _ in spoken:
                charge(event, adjacency)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r}, rounds={self.rounds}, {self.digest[:16]})"

    @property
    def steerable(self) -> bool:
        """Devices obey, if they hear a model; all are asked in every round, and keep nothing."""
        return (self.obeys or self.model is None) and self.share == 1 and not takes(self.client, 4)

    @property
    def assumes(self) -> tuple[str, ...]:
        """The assumption that no more is sent than the caller's proof says."""
        return (RELEASED,) if self.proof and not self.unused else ()

    @property
    def unused(self) -> str:
        """The note on a proof that is not used; empty where one is, or none was given."""
        scopes = [scoped.claim.scope for scoped in self.stated]
        proved = ((scope, replace(scope, horizon=at)) for scope in scopes for at in self.proof)
        used = any(scope.covers(each) for scope, each in proved)
        return NOT_USED if self.proof and not used else ""

    @property
    def unproved(self) -> str:
        """That the caller gave no proof, and how to give one."""
        return "" if self.proof else NO_PROOF

    @property
    def name(self) -> str:
        """Its title."""
        return self.title

    @property
    def origin(self) -> Origin:
        """Callables of others."""
        return Origin(others=True, users=self.users, share=self.share)

    def tried(self, interactions: Interactions) -> tuple[WrappedSystem, tuple[str, ...]]:
        """The system with what calls of its client show, and what an auditor should know of them.

        InputError for a client that cannot be audited, see ``probe``.
        """
        found = probe(
            self.client,
            self.opening,
            interactions,
            kinds=self.kinds,
            averaged=self.server is None,
            fixed=self.n_items is not None or not (self.model is None or callable(self.model)),
            claimed=any(math.isfinite(scoped.claim.epsilon) for scoped in self.stated),
            drops_out=self.drops_out,
        )
        known = replace(
            self,
            kinds=found.kinds,
            form=found.form,
            n_items=self.n_items if found.any_items else interactions.n_items,
            upload_bytes=found.size,
            upload_seconds=self.upload_seconds
            or getattr(self.client, "upload_seconds", _CALL) + found.size / _BYTES,
        )
        believed, doubt = known.doubted(found.repeated)
        return believed, (*found.notes, *filter(None, (doubt, self.unused)))

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Calls of the client, and its messages."""
        return {
            "senders": max(1, round(self.share * interactions.n_users)),
            "numbers": self.upload_bytes // 4,
            "bytes": self.upload_bytes,
            "made": self.upload_seconds * RATE,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the callables and the model: their code, and the files that they are in."""
        code = self.client, self.server, self.model, self.scores, self.rows
        numbers = self.rounds, self.share, self.obeys, self.users, self.drops_out
        found = hashlib.sha256(cloudpickle.dumps((*code, *numbers)))
        for part in map(inspect.unwrap, (*code, *self.written)):
            try:
                file = inspect.getsourcefile(part if inspect.isroutine(part) else type(part))
            except TypeError:
                continue
            if file is not None and Path(file).is_file():
                found.update(Path(file).read_bytes())
        return found.hexdigest()

    @property
    def catalogue(self) -> int | None:
        """Number of items that model and client are made for; None for any."""
        return self.n_items

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What the caller states."""
        return self.stated

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """The caller's event of the least horizon that includes the scope's, in claims' scopes.

        Charged under the claims' adjacency, which covers the scope's. Non-private where no claim
        covers the scope or no event reaches so far.
        """
        for horizon in PROVED:
            wider = replace(scope, horizon=horizon)
            claims = [s.claim.scope for s in self.stated if s.claim.scope.covers(wider)]
            if horizon in self.proof and wider.covers(scope) and claims:
                return charge(self.proof[horizon], claims[0].adjacency)
        return super().event(scope, population)

    def doubted(self, repeated: Repeated) -> tuple[WrappedSystem, str]:
        """The system as it is believed after messages of one history, and what is doubted."""
        return self, ""

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows of a run: the settings that are said to be public."""
        return Public(
            algorithm=self.title,
            n_users=interactions.n_users,
            n_items=interactions.n_items,
            settings={"rounds": float(self.rounds), **self.settings},
            route=self.route,
            rows=self._rows(interactions.n_items),
        )

    def _rows(self, n_items: int) -> NDArray[np.int64] | None:
        """The rows of all items in tables, (n_items, h); InputError for what are none."""
        if self.rows is None:
            return None
        with expecting(f"rows of {n_items} items", self.rows, "Mend the map."):
            found = np.asarray(self.rows(np.arange(n_items)))
        whole = found.dtype.kind in "iu" and found.size and found.min() >= 0
        if not whole or found.shape[0] != n_items or found.ndim > 2:
            raise InputError(
                f"Expected rows of {n_items} items, whole numbers from 0, of shape (k,) or (k, h), "
                f"got {found.dtype} of shape {found.shape} ({place(self.rows)}). Mend the map."
            )
        return found.reshape(n_items, -1).astype(np.int64)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Rounds of messages, each sender's from a seed and a state of its own."""
        model, structure = self.opening(interactions.n_items)
        client, n_users = (
            Client(self.client, form=self.form, drops_out=self.drops_out),
            interactions.n_users,
        )
        states: dict[int, dict[str, Any]] = {}
        drawn = max(1, round(self.share * n_users))
        with own_randomness():
            for number in range(self.rounds):
                users = np.sort(rng.permutation(n_users)[:drawn])
                packing, there = Packing(self.kind_of, model), np.ones(drawn, np.bool_)
                seeds = rng.integers(_SEEDS, size=drawn)
                for at, (user, seed) in enumerate(zip(users, seeds, strict=True)):
                    history = History.of(interactions, int(user))
                    where = f" in round {number + 1} for a history of {len(history)} items"
                    state = states.setdefault(int(user), {})
                    sent = client(history, model, structure, int(seed), state, where)
                    there[at] = sent is not None
                    if sent is not None:
                        packing.add(sent)
                clear = Uploads(users, {PRESENCE: _bits(there)}) if self.drops_out else None
                kept = yield Round(model, Uploads(users[there], packing.components()), clear)
                assert kept is not None
                model = self._next(model, structure, kept.uploads, client.structure, rng)
        return Trained(release=model, arrays=dict(model or {}))

    def opening(self, n_items: int) -> tuple[Broadcast | None, Structure | None]:
        """The first model and its structure, for a catalogue of so many items."""
        if self.model is None:
            return None, None
        made = self.model
        if callable(made):
            what = f"a model of {n_items} items from your function"
            with expecting(what, made, "Mend it, or give the first model itself."):
                made = made(n_items)
        elif self.n_items is not None and n_items != self.n_items:
            raise InputError(
                f"Expected data of {self.n_items} items, for which the model is made, got "
                f"{n_items}. Give a function that makes a model for any number of items."
            )
        return take_apart(made, "your model")

    def kind_of(self, name: str) -> Kind:
        """What the messages of this component are: as said of it, else of all."""
        return self.kinds.get(name, self.kinds.get("", Kind.CHANGE))

    def _next(
        self,
        model: Broadcast | None,
        structure: Structure | None,
        uploads: Uploads,
        like: Structure | None,
        rng: Generator,
    ) -> Broadcast | None:
        """The next model: by the server, else by the mean of messages of the model's parts."""
        if model is None or structure is None or like is None:
            return model
        if self.server is None:
            count = len(uploads.users)
            found = dict(model)
            for name, part in uploads.components.items():
                if name in found and part.shape == found[name].shape:
                    mean = part.total() / count
                    old = 0 if part.kind is Kind.MODEL else found[name]
                    found[name] = (old + mean).astype(found[name].dtype)
            return found
        more = (rng,) if takes(self.server, 3) else ()
        with expecting("the next model from your server", self.server, "Mend the server."):
            made = self.server(structure.build(model), Received(uploads, like), *more)
        what = f"the model of your server ({place(self.server)})"
        arrays, _ = take_apart(made, what)
        shapes = {name: array.shape for name, array in model.items()}
        check_parts(arrays, shapes, what, "", "Return a model like the one that it was given.")
        return arrays

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Messages of devices that have not sent before, each from a seed of its own.

        HistoriesRefused where the client fails at some of them.
        """
        _, structure = self.opening(profiles.n_items)
        client = Client(self.client, form=self.form, drops_out=self.drops_out)
        packing = Packing(self.kind_of, broadcast)
        seeds = rng.integers(_SEEDS, size=(profiles.n_users, size)).tolist()
        takes, raised = np.ones(profiles.n_users, np.bool_), ""
        with own_randomness():
            for user in range(profiles.n_users):
                try:
                    for seed in seeds[user]:
                        history = History.of(profiles, user)
                        where = f" for a history of {len(history)} items"
                        packing.add(client(history, broadcast, structure, seed, {}, where))
                except InputError as error:
                    takes[user], raised = False, raised or str(error)
            if raised:
                raise HistoriesRefused(raised, takes)
            sent = packing.components(lambda: self._example(client, structure, broadcast, history))
        if self.drops_out:
            sent[PRESENCE] = _bits(packing.there)
        return Uploads(np.repeat(np.arange(profiles.n_users), size), sent)

    def client_code(
        self, profiles: Interactions, broadcast: Broadcast | None
    ) -> tuple[Callable[[Any, Generator], Any], list[Any]] | None:
        """The client at this broadcast; see ``Target``."""
        if self.drops_out or takes(self.client, 4):
            return None
        _, structure = self.opening(profiles.n_items)
        model = None if broadcast is None or structure is None else structure.build(broadcast)

        def message(history: History, rng: Generator) -> Any:
            return self.client(history, model, rng)

        return message, [History.of(profiles, user) for user in range(profiles.n_users)]

    def _example(
        self,
        client: Client,
        structure: Structure | None,
        broadcast: Broadcast | None,
        like: History,
    ) -> Message:
        """A message, for its shapes: of this history, of all items, or else of one."""
        every, raised = np.arange(like.n_items), ""
        for items in (like.items, every, *every[:_TRIED, None]):
            times = None if like.timestamps is None else np.zeros(len(items), np.int64)
            ratings = np.ones(len(items), np.float32)
            history = replace(like, items=items, ratings=ratings, timestamps=times)
            try:
                for seed in range(_TRIED):
                    sent = client(history, broadcast, structure, seed, {}, " of items made up")
                    if sent is not None:
                        return sent
            except InputError as error:
                raised = f" At some it fails: {error}"
        raise InputError(
            f"Expected a message of some device, got None for {_TRIED} histories from your client "
            f"({place(self.client)}). Let some devices send.{raised}"
        )

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Those of the caller's function; Unscored without one."""
        if self.scores is None:
            raise Unscored(
                "Expected a function scores(model, history) to measure utility, got none. "
                "Give one that scores all items."
            )
        _, structure = self.opening(interactions.n_items)
        built = None if structure is None else structure.build(model.arrays)
        return np.stack(
            [
                np.asarray(self.scores(built, History.of(interactions, int(user))), np.float64)
                for user in users
            ]
        )


def _bits(values: Sequence[bool] | NDArray[np.bool_]) -> Dense:
    return Dense(np.array(values)[:, None], Kind.BITS)


class Received(Sequence[Any]):
    """One round's messages as the server of others reads them: each in the client's own form.

    Made one by one when they are asked for, so that a round of large tables fits into memory.
    """

    def __init__(self, uploads: Uploads, structure: Structure) -> None:
        self._uploads, self._structure = uploads, structure

    def __len__(self) -> int:
        return len(self._uploads.users)

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        one = np.array([place % len(self)])
        parts = {n: c.dense(one)[0] for n, c in self._uploads.components.items()}
        return self._structure.build(parts)
