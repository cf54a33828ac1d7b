"""All that crossed a boundary during a run, and what each vantage may see of it.

This is all of ``targets`` that attacks may import. A ``Transcript`` holds messages as they are
stored (``targets.components``); a ``View`` of it shows the wire and nothing else.
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
from fedrec_auditor.targets.components import LISTS as LISTS
from fedrec_auditor.targets.components import NOTHING as NOTHING
from fedrec_auditor.targets.components import OF_DATA as OF_DATA
from fedrec_auditor.targets.components import Component as Component
from fedrec_auditor.targets.components import Dense, Ints, Reports, SomeRows
from fedrec_auditor.targets.components import Kind as Kind

Broadcast = Mapping[str, NDArray[Any]]
"""A model as it is sent to all clients: its named parts."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """One round's messages in one batch: whose they are, and their named components.

    ``users`` (n,) are the senders, ascending in a training: positions of users, or of parties where
    several users share one (``Public.parties``). Names of components that belong together begin
    with the same word before a dot: "user.W1", "user.b", "item". Raises InputError if a component
    has another number of messages than there are senders.

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
                    f"got {len(component)}. Give one a user."
                )


@dataclass(frozen=True, slots=True)
class Round:
    """What one round put on the wire: the model sent down, the messages sent up.

    ``clear`` are messages that even secure aggregation leaves in the clear, linked to senders.
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
    """What a device does, by code that everybody has: it can be run on histories made up."""

    @property
    def seconds(self) -> float:
        """What a message costs, where it is much; else 0."""
        ...

    @property
    def others(self) -> bool:
        """Whether it is others' code: readers know the forms of messages, not what it puts in."""
        ...

    @property
    def sizes(self) -> tuple[int, int]:
        """The fewest and the most items that a user has, of those who have any."""
        ...

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """Messages of devices of users who ``met`` these items, (n, n_items), and heard a model.

        Ratings are those of a sparse array, or else drawn at random, as is all that devices hold
        besides (attributes, times). HistoriesRefused where the code fails at some of them.
        """
        ...


class HistoriesRefused(InputError):
    """Histories at which devices' code fails, and what it raises at the last; it ``takes`` (n,)."""

    def __init__(self, raised: str, takes: NDArray[np.bool_]) -> None:
        super().__init__(raised)
        self.takes = takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What everybody knows: the algorithm, its settings, and the distribution of its randomizer.

    ``route`` is the strongest vantage that the protocol gives to anyone who keeps to it; stronger
    ones need a colluding proxy or a broken aggregation. ``parties`` is their number where messages
    come from parties that hold several users' (or some items') ratings, None where every user
    sends for itself. ``features`` (n_items, G) says which public features (genres) each item has.
    ``rows`` (n_items, h) are each item's in tables, or its codes in lists, where a public function
    such as a hash says so. ``popularity`` (n_items,) is the share of users who have each item.
    ``client`` is the code that all devices run, where an adversary can run it as well.
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
    """One named part of a round's messages, as whoever receives them reads it.

    What they were made from (factors, values before the noise, the seeds of the noise) is out of
    reach: of the stored component a wire keeps functions only.
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
        """Messages that are an array, (n, *shape): one client's part in each row.

        >>> wire = Wire.of(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), Kind.GRADIENT)
        >>> len(wire), wire.shape
        (3, (2,))
        >>> wire.take(np.array([2, 0])).dense(np.array([0]))
        array([[5., 6.]])
        """
        return cls(Dense(values, kind, rate))

    @property
    def kind(self) -> Kind:
        """What the messages say."""
        return self._kind

    @property
    def rate(self) -> float | None:
        """The public learning rate behind them, see ``Component``; None where there is none."""
        return self._rate

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's part, as ``dense`` gives it."""
        return self._shape

    def __len__(self) -> int:
        """Number of clients."""
        return self._count

    def dense(self, clients: Ints) -> NDArray[Any]:
        """What the clients at these positions sent, (len(clients), *shape): a new array."""
        return np.asarray(self._read("dense", clients))

    def sent(self, clients: Ints) -> NDArray[np.bool_]:
        """Which rows these clients put on the wire, (len(clients), *shape[:1])."""
        return np.asarray(self._read("sent", clients))

    def listed(self, clients: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """What these clients list, all but ``NOTHING``: its client, its column and itself, (E,)."""
        row, column, entries = self._read("listed", clients)
        return row, column, entries

    def at(self, clients: Ints, row: NDArray[np.intp], column: NDArray[np.intp]) -> NDArray[Any]:
        """Of messages (width,) the entries (E,) of ``clients[row]``, ascending, at ``column``."""
        return np.asarray(self._read("at", clients, row, column))

    def picked(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Of each client its ``rows`` (len(clients), k): (len(clients), k, *shape[1:])."""
        return np.asarray(self._read("picked", clients, rows))

    def take(self, clients: Ints) -> Wire:
        """The messages of the clients at these positions only, in this order."""
        return self._made("take", clients)

    def largest(self) -> float:
        """No number is larger in size, and none is NaN; infinite where one must read to know."""
        return self._largest()

    def total(self) -> NDArray[Any]:
        """Sum over all clients, shape ``shape``, in float64."""
        return np.asarray(self._read("total"))

    def tail(self, first: int) -> Wire:
        """The same messages from row ``first`` on."""
        return self._made("tail", first)


def _wires(components: Mapping[str, Component]) -> Mapping[str, Component]:
    return MappingProxyType(
        {n: c if isinstance(c, Wire) else Wire(c) for n, c in components.items()}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """What a vantage sees of one round; None where it sees nothing.

    ``broadcast`` is the model sent down. ``uploads`` are the messages sent up, linked to their
    senders, ``clear`` those that even secure aggregation leaves linked. ``shuffled`` is the same
    batch of messages in a random order, by component; ``aggregate`` their sums, over ``senders``
    (n,): who takes part in a sum is known to the server. All messages are wires, however those that
    are given are stored.
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
        """Whether its uploads are what senders say in the clear; see ``View.with_clear``."""
        if self.uploads is None or self.clear is None:
            return False
        return self.uploads.components.keys() == self.clear.components.keys()

    def at(self, rows: Ints, *, lists: bool = True, only: str = "") -> RoundView:
        """The same with these ``rows`` of all tables that have them, of models and messages.

        Of ``only`` one part by its name, if any. Lists stay as they are, or are left out.
        """

        def listed(part: Any) -> bool:
            return isinstance(part, Component) and part.kind in LISTS

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
    """What one vantage may see of a run, with the public knowledge. All that an attack is given.

    ``memo`` keeps what was worked out of this very view, for the next attack that asks. ``how`` it
    was read, in sentences, is told of all views that are made of one another.

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
        """Note how messages were read, once."""
        if how not in self.how:
            self.how.append(how)

    def by_item(self) -> View:
        """The view as it is read by the public ``rows`` of items: tables have a row an item.

        Of several rows an item there are as many rounds, one after the other, the first with the
        lists. A table is one of items if it has all these rows.
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
        """The view with what senders say of their data in the clear as uploads of further rounds.

        These have no broadcast, and come after all others.
        """
        opened = []
        for seen in self.rounds:
            if seen.clear is not None and (parts := _of_data(seen.clear)):
                said = Uploads(seen.clear.users, parts)
                opened.append(RoundView(broadcast=None, uploads=said, clear=said))
        return replace(self, rounds=(*self.rounds, *opened)) if opened else self

    def without_uploads(self) -> View:
        """The broadcasts alone: what the adversary knew before any client sent anything."""
        return replace(self, rounds=tuple(RoundView(broadcast=r.broadcast) for r in self.rounds))

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of linked components in order of appearance: names up to their first dot."""
        return tuple(
            dict.fromkeys(
                name.partition(".")[0]
                for seen in self.rounds
                if seen.uploads is not None
                for name in seen.uploads.components
            )
        )

    def only(self, group: str) -> View:
        """The same view with the linked components of one group only, and no ``clear``."""

        def cut(uploads: Uploads | None) -> Uploads | None:
            if uploads is None:
                return None
            kept = {n: c for n, c in uploads.components.items() if n.partition(".")[0] == group}
            return Uploads(users=uploads.users, components=MappingProxyType(kept))

        return replace(
            self, rounds=tuple(replace(r, uploads=cut(r.uploads), clear=None) for r in self.rounds)
        )

    def component(self, name: str) -> tuple[tuple[Uploads, Component], ...]:
        """The linked uploads that carry ``name``, round by round; empty if none is seen."""
        return tuple(
            (seen.uploads, seen.uploads.components[name])
            for seen in self.rounds
            if seen.uploads is not None and name in seen.uploads.components
        )


def _of_data(clear: Uploads) -> dict[str, Component]:
    """What says something of the senders' data."""
    return {name: part for name, part in clear.components.items() if part.kind in OF_DATA}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """All that crossed a boundary in one run, as it is stored.

    ``release`` is the model published at the end. ``shown`` is the strongest vantage of which it
    holds what is seen: of a log without senders, or of sums alone, stronger ones have no view.
    """

    public: Public
    rounds: tuple[Round, ...]
    release: Broadcast | None = None
    shown: Vantage = Vantage.SERVER

    @property
    def tells_data(self) -> bool:
        """Whether senders say something of their data in the clear; see ``View.with_clear``."""
        return any(r.clear is not None and bool(_of_data(r.clear)) for r in self.rounds)

    def view(
        self,
        vantage: Vantage,
        rng: np.random.Generator | None = None,
        *,
        of_round: Callable[..., RoundView] = RoundView,
    ) -> View:
        """What ``vantage`` sees. The shuffled view needs ``rng`` for its permutation.

        Peers see every broadcast and last the release: it is sent to them to recommend from, and
        follows from the last uploads, not from the broadcasts before. ``of_round`` makes the view
        of a round from its parts. Raises InputError if ``rng`` is missing.
        """
        if vantage is Vantage.SERVER:
            seen = [
                of_round(broadcast=r.broadcast, uploads=r.uploads, clear=r.clear)
                for r in self.rounds
            ]
        elif vantage is Vantage.SHUFFLED:
            if rng is None:
                raise InputError("Expected rng for the shuffled view, got None. Pass a Generator.")
            seen = [
                of_round(broadcast=r.broadcast, shuffled=_shuffle(r.uploads, rng))
                for r in self.rounds
            ]
        elif vantage is Vantage.AGGREGATE:
            seen = [
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
            seen = [of_round(broadcast=model) for model in models]
        else:
            seen = [of_round(broadcast=self.release)]
        return View(vantage=vantage, public=self.public, rounds=tuple(seen))


def _shuffle(uploads: Uploads, rng: np.random.Generator) -> Mapping[str, Component]:
    """The same messages without their senders.

    What one message carries stays together; reports are messages of their own and are split up.
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
