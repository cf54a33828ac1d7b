"""Transcript of a run: all messages that left a client or the server, and each vantage's view.

Attacks may import no other module of ``targets``. A ``Transcript`` holds messages as they are
stored (``targets.components``); a ``View`` of it gives the messages as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import DATA_KINDS as DATA_KINDS
from fedrec_auditor.targets.components import LIST_KINDS as LIST_KINDS
from fedrec_auditor.targets.components import LIST_PADDING as LIST_PADDING
from fedrec_auditor.targets.components import Component as Component
from fedrec_auditor.targets.components import Dense, Ints, Reports, SomeRows
from fedrec_auditor.targets.components import Kind as Kind

Broadcast = Mapping[str, NDArray[Any]]
"""A model as it is sent to all clients: its named parts."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """One round's messages in one batch: the senders, and the named components.

    ``users`` (n,) are the senders, in ascending order if the batch is of a training: positions of
    users, or of silos if one silo holds several users (``Public.parties``). Names of components
    that belong together begin with the same word before a dot: "user.W1", "user.b", "item". Raises
    InputError unless every component has one message per sender.

    >>> uploads = Uploads(np.array([4, 7]), {"item": Wire.of(np.zeros((2, 100, 8)), Kind.MODEL)})
    >>> uploads.components["item"].shape
    (100, 8)
    """

    users: Ints
    components: Mapping[str, Component]

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            if len(component) != len(self.users):
                raise InputError(
                    f"Expected {len(self.users)} messages in component {name!r}, "
                    f"got {len(component)}. Give one per user."
                )


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of one round: the model sent to the clients, and the uploads.

    ``clear`` are the messages that the server receives in the clear, linked to their senders, even
    if all other messages go through secure aggregation.
    """

    broadcast: Broadcast | None
    uploads: Uploads
    clear: Uploads | None = None


class Channel(Protocol):
    """The public distribution of one randomized entry of a message: exact log-probabilities."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of ``output`` given the private ``value``."""
        ...


class DeviceCode(Protocol):
    """The client's code, which everybody has, so that an adversary can run it on any histories."""

    @property
    def seconds(self) -> float:
        """Estimated time to compute one message, in seconds; 0 if it is negligible."""
        ...

    @property
    def others(self) -> bool:
        """Whether somebody else wrote the code.

        Attacks then know the shapes of its messages, but not how the code computes them.
        """
        ...

    @property
    def sizes(self) -> tuple[int, int]:
        """Smallest and largest number of items of a user, among users who have any item."""
        ...

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """Messages of clients with the histories ``met`` (n, n_items) after they got ``broadcast``.

        A sparse ``met`` gives the ratings; otherwise ratings are drawn at random, and so is
        everything else that a device holds (attributes, times). Raises HistoriesRefused if the code
        fails on some of the histories.
        """
        ...


class HistoriesRefused(InputError):
    """Raised if the client's code fails on some histories; the message is that of its last error.

    ``takes`` (n,) flags the histories that the code accepts.
    """

    def __init__(self, raised: str, takes: NDArray[np.bool_]) -> None:
        super().__init__(raised)
        self.takes = takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """Public knowledge of a run: the algorithm, its settings, and its randomizer's distribution.

    algorithm: name of the system
    n_users, n_items: size of the data
    settings: the system's public numbers, by name
    channel: distribution of one randomized entry of a message, if it is known
    route: strongest vantage that the protocol gives to an adversary who follows it; a stronger one
        needs a colluding proxy or a broken aggregation
    parties: number of silos, if messages come from silos that hold the ratings of several users (or
        of some items); None if every user sends its own messages
    features: which public features (genres) each item has (n_items, G)
    rows: each item's rows in tables, or its codes in lists (n_items, h), if a public function such
        as a hash determines them
    popularity: share of users who interacted with each item (n_items,)
    client: the code that all devices run, if an adversary can run it as well
    """

    algorithm: str
    n_users: int
    n_items: int
    settings: Mapping[str, float] = field(default_factory=dict)
    channel: Channel | None = None
    route: Vantage = Vantage.SERVER
    parties: int | None = None
    features: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)
    rows: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    popularity: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    client: DeviceCode | None = field(default=None, compare=False, repr=False)


class Wire(Component):
    """One named part of a round's messages, as its receiver reads it.

    A wire gives no access to the inputs of the messages (factors, values before the noise, seeds of
    the noise): it keeps only functions of the stored component.
    """

    __slots__ = ("__weakref__", "_count", "_kind", "_largest", "_made", "_rate", "_read", "_shape")

    def __init__(self, stored: Component) -> None:
        self._kind, self._rate = stored.kind, stored.rate
        self._shape, self._count = stored.shape, len(stored)

        def read(name: str, *of: Ints) -> Any:
            assert name in ("dense", "sent", "listed", "at", "picked", "total")
            return getattr(stored, name)(*of)

        def made(name: str, of: Any) -> Wire:
            assert name in ("take", "tail")
            return Wire(getattr(stored, name)(of))

        def largest() -> float:
            return stored.largest()

        self._read, self._made, self._largest = read, made, largest

    @classmethod
    def of(cls, values: NDArray[Any], kind: Kind, rate: float | None = None) -> Wire:
        """Messages from an array (n, *shape), which holds one client's message per row.

        >>> wire = Wire.of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Kind.GRADIENT)
        >>> len(wire), wire.shape
        (3, (2,))
        >>> wire.take(np.array([2, 0])).dense(np.array([0]))
        array([[5., 6.]])
        """
        return cls(Dense(values, kind, rate))

    @property
    def kind(self) -> Kind:
        """Meaning of the messages' numbers."""
        return self._kind

    @property
    def rate(self) -> float | None:
        """Public learning rate of the messages, see ``Component.rate``; None if there is none."""
        return self._rate

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, as ``dense`` returns it."""
        return self._shape

    def __len__(self) -> int:
        """Number of clients."""
        return self._count

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Messages of the clients at these positions, (len(clients), *shape), as a new array."""
        return np.asarray(self._read("dense", clients))

    def sent(self, clients: Ints) -> NDArray[np.bool_]:
        """Flags of the rows that these clients sent, (len(clients), *shape[:1])."""
        return np.asarray(self._read("sent", clients))

    def listed(self, clients: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """Entries (E,) of lists that are not ``LIST_PADDING``: client index, column, value."""
        row, column, entries = self._read("listed", clients)
        return row, column, entries

    def at(self, clients: Ints, row: NDArray[np.intp], column: NDArray[np.intp]) -> NDArray[Any]:
        """Entries (E,) at ``column`` of messages (width,) of ``clients[row]``; row ascends."""
        return np.asarray(self._read("at", clients, row, column))

    def picked(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """The ``rows`` (len(clients), k) of each client: shape (len(clients), k, *shape[1:])."""
        return np.asarray(self._read("picked", clients, rows))

    def take(self, clients: Ints) -> Wire:
        """Messages of the clients at these positions only, in this order."""
        return self._made("take", clients)

    def largest(self) -> float:
        """Upper limit of the absolute values, see ``Component.largest``."""
        return self._largest()

    def total(self) -> NDArray[Any]:
        """Sum over all clients, shape ``shape``, in float64."""
        return np.asarray(self._read("total"))

    def tail(self, first: int) -> Wire:
        """Messages without the rows before ``first``."""
        return self._made("tail", first)


def _wires(components: Mapping[str, Component]) -> Mapping[str, Component]:
    return MappingProxyType(
        {n: c if isinstance(c, Wire) else Wire(c) for n, c in components.items()}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """A vantage's view of one round; a field is None if the vantage does not see that part.

    broadcast: the model sent to the clients
    uploads: the messages, linked to their senders
    shuffled: the messages in random order, by component
    aggregate: sums of the messages over ``senders``, by component
    senders: clients that take part in the sums, whom the server knows (n,)
    clear: messages that stay linked to their senders even under secure aggregation

    Components that are given in another storage format are converted to wires.
    """

    broadcast: Broadcast | None
    uploads: Uploads | None = None
    shuffled: Mapping[str, Component] | None = None
    aggregate: Mapping[str, NDArray[Any]] | None = None
    senders: Ints | None = None
    clear: Uploads | None = None

    def __post_init__(self) -> None:
        for name in ("uploads", "clear"):
            linked: Uploads | None = getattr(self, name)
            if linked is not None:
                object.__setattr__(self, name, Uploads(linked.users, _wires(linked.components)))
        if self.shuffled is not None:
            object.__setattr__(self, "shuffled", _wires(self.shuffled))

    @property
    def in_clear(self) -> bool:
        """Whether the uploads are the messages in the clear; see ``View.with_clear``."""
        if self.uploads is None or self.clear is None:
            return False
        return self.uploads.components.keys() == self.clear.components.keys()

    def at(self, rows: Ints, *, lists: bool = True, only: str = "") -> RoundView:
        """The view restricted to these ``rows`` of all tables that have them (model, messages).

        If ``only`` names a part, only that part is restricted. Lists stay as they are, or are
        removed unless ``lists``.
        """

        def listed(part: Any) -> bool:
            return isinstance(part, Component) and part.kind in LIST_KINDS

        def picked(part: Any) -> Any:
            if not part.shape or part.shape[0] <= rows.max() or listed(part):
                return part
            return part[rows] if isinstance(part, np.ndarray) else SomeRows(part, rows)

        def parts(table: Any) -> Any:
            if table is None or (not lists and all(map(listed, table.values()))):
                return None
            return {
                n: part if only and n != only else picked(part)
                for n, part in table.items()
                if lists or not listed(part)
            }

        def linked(uploads: Uploads | None) -> Uploads | None:
            sent = None if uploads is None else parts(uploads.components)
            return None if uploads is None or sent is None else Uploads(uploads.users, sent)

        return replace(
            self,
            broadcast=parts(self.broadcast),
            uploads=linked(self.uploads),
            shuffled=parts(self.shuffled),
            aggregate=parts(self.aggregate),
            clear=linked(self.clear),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One vantage's view of a run, and the public knowledge; attacks get nothing else.

    ``memo`` caches results that attacks computed from this view. ``how`` describes in sentences how
    its messages were read; views that are derived from one another share it.

    >>> public = Public(algorithm="bits", n_users=2, n_items=3)
    >>> bits = Uploads(np.arange(2), {"bits": Wire.of(np.array([[0, 1, 1], [1, 0, 0]]), Kind.BITS)})
    >>> view = Transcript(public=public, rounds=(Round(None, bits),)).view(Vantage.SERVER)
    >>> [(uploads, sent)] = view.component("bits")
    >>> uploads.users, sent.dense(np.array([0]))
    (array([0, 1]), array([[0, 1, 1]]))
    """

    vantage: Vantage
    public: Public
    rounds: tuple[RoundView, ...]
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    how: list[str] = field(default_factory=list, compare=False, repr=False)

    def tell(self, how: str) -> None:
        """Records a sentence on how messages were read, once."""
        if how not in self.how:
            self.how.append(how)

    def by_item(self) -> View:
        """The view with tables of one row per item, picked by the public ``rows`` of items.

        If every item has h rows, each round becomes h consecutive rounds, and only the first of
        these has the lists. A table counts as an item table if it has all of these rows.
        """
        if (rows := self.public.rows) is None:
            return self
        seen = tuple(
            one.at(each, lists=not place)
            for one in self.rounds
            for place, each in enumerate(rows.T)
        )
        return replace(self, rounds=seen)

    def with_clear(self) -> View:
        """The view with additional rounds, whose uploads are the data that clients send in clear.

        The additional rounds have no broadcast and come last.
        """
        opened = []
        for seen in self.rounds:
            if seen.clear is not None and (parts := _of_data(seen.clear)):
                said = Uploads(seen.clear.users, parts)
                opened.append(RoundView(broadcast=None, uploads=said, clear=said))
        return replace(self, rounds=(*self.rounds, *opened)) if opened else self

    def without_uploads(self) -> View:
        """The broadcasts alone: the adversary's knowledge before any client sends anything."""
        return replace(self, rounds=tuple(RoundView(broadcast=r.broadcast) for r in self.rounds))

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of linked components in order of appearance: their names up to the first dot."""
        return tuple(
            dict.fromkeys(
                name.partition(".")[0]
                for seen in self.rounds
                if seen.uploads is not None
                for name in seen.uploads.components
            )
        )

    def only(self, group: str) -> View:
        """The view with the linked components of one group only, and without ``clear``."""

        def cut(uploads: Uploads | None) -> Uploads | None:
            if uploads is None:
                return None
            kept = {n: c for n, c in uploads.components.items() if n.partition(".")[0] == group}
            return Uploads(users=uploads.users, components=MappingProxyType(kept))

        return replace(
            self, rounds=tuple(replace(r, uploads=cut(r.uploads), clear=None) for r in self.rounds)
        )

    def component(self, name: str) -> tuple[tuple[Uploads, Component], ...]:
        """Linked uploads that have the component ``name``, by round; empty if there are none."""
        return tuple(
            (seen.uploads, seen.uploads.components[name])
            for seen in self.rounds
            if seen.uploads is not None and name in seen.uploads.components
        )


def _of_data(clear: Uploads) -> dict[str, Component]:
    return {name: part for name, part in clear.components.items() if part.kind in DATA_KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """All messages of one run that left a client or the server, as they are stored.

    ``release`` is the model published at the end. ``shown`` is the strongest vantage whose view the
    transcript contains: a log without senders, or of sums alone, has no view for stronger vantages.
    """

    public: Public
    rounds: tuple[Round, ...]
    release: Broadcast | None = None
    shown: Vantage = Vantage.SERVER

    @property
    def tells_data(self) -> bool:
        """Whether clients send some of their data in the clear; see ``View.with_clear``."""
        return any(r.clear is not None and bool(_of_data(r.clear)) for r in self.rounds)

    def view(
        self,
        vantage: Vantage,
        rng: np.random.Generator | None = None,
        *,
        of_round: Callable[..., RoundView] = RoundView,
    ) -> View:
        """The view of ``vantage``; the shuffled view needs ``rng`` for its permutation.

        Peers see every broadcast, and at the end the release: clients receive it to recommend
        from, and it follows from the last uploads, not from earlier broadcasts. ``of_round`` builds
        the view of a round from its parts. Raises InputError if the vantage is the shuffler's and
        ``rng`` is None.
        """
        if vantage is Vantage.SERVER:
            views = [
                of_round(broadcast=r.broadcast, uploads=r.uploads, clear=r.clear)
                for r in self.rounds
            ]
        elif vantage is Vantage.SHUFFLED:
            if rng is None:
                raise InputError("Expected rng for the shuffled view, got None. Pass a Generator.")
            views = [
                of_round(broadcast=r.broadcast, shuffled=_shuffle(r.uploads, rng))
                for r in self.rounds
            ]
        elif vantage is Vantage.AGGREGATE:
            views = [
                of_round(
                    broadcast=r.broadcast,
                    aggregate=MappingProxyType(
                        {name: c.total() for name, c in r.uploads.components.items()}
                    ),
                    senders=r.uploads.users,
                    clear=r.clear,
                )
                for r in self.rounds
            ]
        elif vantage is Vantage.PEERS:
            models = (*(r.broadcast for r in self.rounds), self.release)
            views = [of_round(broadcast=model) for model in models]
        else:
            views = [of_round(broadcast=self.release)]
        return View(vantage=vantage, public=self.public, rounds=tuple(views))


def _shuffle(uploads: Uploads, rng: np.random.Generator) -> Mapping[str, Component]:
    """Messages without their senders.

    The components of one message stay together; every report counts as a message of its own.
    """
    order = rng.permutation(len(uploads.users))
    shuffled: dict[str, Component] = {}
    for name, component in uploads.components.items():
        if isinstance(component, Reports):
            single = component.split()
            shuffled[name] = single.take(rng.permutation(len(single)))
        else:
            shuffled[name] = component.take(order)
    return MappingProxyType(shuffled)
