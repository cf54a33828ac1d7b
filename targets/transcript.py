"""Transcript of a training: all messages that left a client or the server, and who can see them.

A vantage is the position of an adversary: server, behind a shuffler, behind secure aggregation,
another client, or outsider who gets the published model. A ``View`` holds the messages that the
adversary sees there. A ``Transcript`` holds all messages in their storage format.
"""

# Attacks see a training only through this module: they may not import systems, mechanisms, data
# sets or storage formats.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import LIST_KINDS as LIST_KINDS
from fedrec_auditor.targets.components import LIST_PADDING as LIST_PADDING
from fedrec_auditor.targets.components import USER_DATA_KINDS as USER_DATA_KINDS
from fedrec_auditor.targets.components import Component as Component
from fedrec_auditor.targets.components import Dense, Ints, Reports, SelectedRows
from fedrec_auditor.targets.components import Payload as Payload

# The model that is sent to all clients, as arrays by name.
Broadcast = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Uploads:
    """Messages of several clients in one round, linked to their senders.

    users: indices of the senders (n,), in ascending order in a training. Senders are users, or
        silos (organisations) if ``PublicInfo.n_silos`` is not None
    components: the parts of the messages by name, such as "item" for the item table. Names of parts
        that belong together begin with one word before a dot, such as "user.W1" and "user.b"

    Raises InputError unless every component has one message per sender.

    >>> part = ComponentView.create(np.zeros((2, 100, 8)), Payload.MODEL)
    >>> uploads = Uploads(np.array([4, 7]), {"item": part})
    >>> uploads.components["item"].shape
    (100, 8)
    """

    users: Ints
    components: Mapping[str, Component]

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            if len(component) != len(self.users):
                raise InputError(
                    f"Expected {len(self.users)} messages in the component {name!r}, one per "
                    f"sender, got {len(component)}. Give one message per sender."
                )


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of one round of a training: the model sent to the clients, and the clients' uploads.

    broadcast: the model sent to the clients, as arrays by name; None if the server sends none
    uploads: the clients' messages
    cleartext: messages that the server can link to their senders even under secure aggregation;
        None if there are none
    """

    broadcast: Broadcast | None
    uploads: Uploads
    cleartext: Uploads | None = None


class NoiseChannel(Protocol):
    """Output distribution of the public randomizer that is applied to each entry of a message."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Computes the exact log-probability of ``output`` given the true entry ``value``."""
        ...


class DeviceCode(Protocol):
    """The public client program, which an adversary can run on any user histories.

    A history is the set of items, or the ratings, of one user.
    """

    @property
    def call_seconds(self) -> float:
        """Estimated time in seconds to compute the message of one client; 0 if negligible."""
        ...

    @property
    def is_external(self) -> bool:
        """Whether the code was written by a third party, not by this program.

        Attacks then know the shapes of the code's messages, but not how the code computes them.
        """
        ...

    @property
    def n_items_range(self) -> tuple[int, int]:
        """Smallest and largest number of items of a user in the data, among users with items."""
        ...

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """Runs the client's code on given histories, and returns the messages that it would upload.

        met: the simulated clients' histories (n, n_items): flags of the items that each client
            interacted with, or a sparse array of ratings. All missing data, such as times, are
            drawn at random
        broadcast: the model that the clients received; None if they received none
        rng: source of randomness

        Raises RefusedHistoriesError if the code fails on some of the histories.
        """
        ...


class RefusedHistoriesError(InputError):
    """Error of client code that fails on some users' histories (items or ratings).

    error_text: text of the error for the first history that fails
    is_accepted: flags of the histories that the code accepts (n,)
    """

    def __init__(self, error_text: str, is_accepted: NDArray[np.bool_]) -> None:
        super().__init__(error_text)
        self.is_accepted = is_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicInfo:
    """Public knowledge of a training: its algorithm, settings, data sizes and protocol.

    algorithm: name of the system
    n_users, n_items: numbers of users and items
    settings: the system's public numbers, by name
    noise_channel: output distribution of the randomizer of one entry of a message; None if unknown
    protocol_vantage: strongest position (server, behind a shuffler, ...) of an adversary if all
        parties follow the protocol
    n_silos: number of silos (organisations) that send messages; None if every user sends separate
        messages
    item_features: flags of each item's public features, such as genres (n_items, G); None if there
        are none
    item_rows: indices of each item's h rows in item tables, or the item's h codes in lists of codes
        (n_items, h); None if row i belongs to item i
    popularity: share of users who interacted with each item (n_items,); None if it is not public
    device_code: the code that all devices run; None if an adversary cannot run it
    """

    algorithm: str
    n_users: int
    n_items: int
    settings: Mapping[str, float] = field(default_factory=dict)
    noise_channel: NoiseChannel | None = None
    protocol_vantage: Vantage = Vantage.SERVER
    n_silos: int | None = None
    item_features: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)
    item_rows: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    popularity: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    device_code: DeviceCode | None = field(default=None, compare=False, repr=False)


class ComponentView(Component):
    """A component (named part of a round's messages) as the receiver sees it.

    The view returns messages only as they were sent. The view hides how they were made, such as
    factors, values before the noise, and seeds of the noise.
    """

    __slots__ = ("__weakref__", "_count", "_kind", "_largest", "_made", "_rate", "_read", "_shape")

    def __init__(self, stored: Component) -> None:
        self._kind, self._rate = stored.kind, stored.learning_rate
        self._shape, self._count = stored.shape, len(stored)

        def read(name: str, *of: Ints) -> Any:
            assert name in ("to_dense", "flag_sent_rows", "list_entries", "select_rows", "sum_all")
            return getattr(stored, name)(*of)

        def made(name: str, of: Any) -> ComponentView:
            assert name in ("take", "drop_rows")
            return ComponentView(getattr(stored, name)(of))

        def largest() -> float:
            return stored.bound_magnitude()

        self._read, self._made, self._largest = read, made, largest

    @classmethod
    def create(cls, values: NDArray[Any], kind: Payload, rate: float | None = None) -> Self:
        """Creates messages from an array.

        values: the messages of n clients, shape (n, *shape)
        kind: type of the messages, such as gradients
        rate: public learning rate r (a message is -r times the sender's gradient), or None

        >>> values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> wire = ComponentView.create(values, Payload.GRADIENT)
        >>> len(wire), wire.shape
        (3, (2,))
        >>> wire.take(np.array([2, 0])).to_dense(np.array([0]))
        array([[5., 6.]])
        """
        return cls(Dense(values, kind, rate))

    @property
    def kind(self) -> Payload:
        """Type of the messages, such as gradients or item lists."""
        return self._kind

    @property
    def learning_rate(self) -> float | None:
        """Public learning rate r: a message is -r times the gradient of the sender's loss.

        None if no rate is known.
        """
        return self._rate

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, without the axis of clients."""
        return self._shape

    def __len__(self) -> int:
        """Number of clients."""
        return self._count

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Returns the messages of ``clients`` (indices) as a new array (len(clients), *shape)."""
        return np.asarray(self._read("to_dense", clients))

    def flag_sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the table rows that ``clients`` (indices) sent.

        The result has the shape (len(clients), number of rows), or (len(clients),) if a message is
        a single number.
        """
        return np.asarray(self._read("flag_sent_rows", clients))

    def list_entries(
        self, clients: Ints
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """Returns client, position and value of all E entries in the lists of ``clients``.

        The three arrays (E,) are: the client of each entry, as an index into ``clients``; the
        entry's position in the client's list; and its value. Padding is left out.
        """
        row, column, entries = self._read("list_entries", clients)
        return row, column, entries

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's message, shape (len(clients), k, *shape[1:]).

        ``rows`` (len(clients), k) holds the indices of the rows for each client.
        """
        return np.asarray(self._read("select_rows", clients, rows))

    def take(self, clients: Ints) -> ComponentView:
        """Returns the messages of ``clients`` (indices) alone, in this order."""
        return self._made("take", clients)

    def bound_magnitude(self) -> float:
        """Returns an upper bound of the absolute values in all messages; infinity if unknown."""
        return self._largest()

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' messages in float64, in the shape of one message."""
        return np.asarray(self._read("sum_all"))

    def drop_rows(self, count: int) -> ComponentView:
        """Returns the messages without the first ``count`` rows of each message."""
        return self._made("drop_rows", count)


def _to_views(components: Mapping[str, Component]) -> Mapping[str, Component]:
    return MappingProxyType(
        {n: c if isinstance(c, ComponentView) else ComponentView(c) for n, c in components.items()}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """The messages of one round that an adversary sees; a field is None if it is hidden.

    broadcast: the model sent to the clients
    uploads: the messages, linked to their senders
    shuffled: the messages in random order, by component (named part of a message)
    aggregate: sums of the messages over all ``senders_in_sum``, by component
    senders_in_sum: indices of the clients whose messages are in the sums (n,)
    cleartext: messages that stay linked to their senders even under secure aggregation

    Components are converted to ``ComponentView``, which hides how messages were made.
    """

    broadcast: Broadcast | None
    uploads: Uploads | None = None
    shuffled: Mapping[str, Component] | None = None
    aggregate: Mapping[str, NDArray[Any]] | None = None
    senders_in_sum: Ints | None = None
    cleartext: Uploads | None = None

    def __post_init__(self) -> None:
        for name in ("uploads", "cleartext"):
            linked: Uploads | None = getattr(self, name)
            if linked is not None:
                object.__setattr__(self, name, Uploads(linked.users, _to_views(linked.components)))
        if self.shuffled is not None:
            object.__setattr__(self, "shuffled", _to_views(self.shuffled))

    @property
    def is_cleartext(self) -> bool:
        """Whether secure aggregation would hide nothing: every component of ``uploads`` is also in
        ``cleartext``, linked to its senders.

        False if ``uploads`` or ``cleartext`` is None.
        """
        if self.uploads is None or self.cleartext is None:
            return False
        return self.uploads.components.keys() == self.cleartext.components.keys()

    def restrict_rows(self, rows: Ints, *, keep_lists: bool = True, name: str = "") -> RoundView:
        """Returns a copy whose tables, in the model and in messages, have only the given rows.

        rows: indices of the rows to keep; arrays without some of these rows stay unchanged
        keep_lists: whether list messages, such as item lists, stay unchanged; otherwise they are
            removed
        name: name of the only message part or model array to restrict; "" means all
        """

        def is_list(part: Any) -> bool:
            return isinstance(part, Component) and part.kind in LIST_KINDS

        def restrict(part: Any) -> Any:
            if not part.shape or part.shape[0] <= rows.max() or is_list(part):
                return part
            return part[rows] if isinstance(part, np.ndarray) else SelectedRows(part, rows)

        def restrict_arrays(table: Any) -> Any:
            if table is None or (not keep_lists and all(map(is_list, table.values()))):
                return None
            return {
                n: part if name and n != name else restrict(part)
                for n, part in table.items()
                if keep_lists or not is_list(part)
            }

        def restrict_uploads(uploads: Uploads | None) -> Uploads | None:
            sent = None if uploads is None else restrict_arrays(uploads.components)
            return None if uploads is None or sent is None else Uploads(uploads.users, sent)

        return replace(
            self,
            broadcast=restrict_arrays(self.broadcast),
            uploads=restrict_uploads(self.uploads),
            shuffled=restrict_arrays(self.shuffled),
            aggregate=restrict_arrays(self.aggregate),
            cleartext=restrict_uploads(self.cleartext),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that an adversary sees and knows of a training: the input of attacks.

    vantage: position of the adversary, such as server or another client
    public: public knowledge of the training
    rounds: the visible messages of each round
    cache: intermediate results that attacks computed from this view and reuse, by key
    notes: sentences on how attacks interpreted the messages; derived views share the list

    >>> public = PublicInfo(algorithm="bits", n_users=2, n_items=3)
    >>> part = ComponentView.create(np.array([[0, 1, 1], [1, 0, 0]]), Payload.BITS)
    >>> bits = Uploads(np.arange(2), {"bits": part})
    >>> view = Transcript(public=public, rounds=(Round(None, bits),)).view(Vantage.SERVER)
    >>> [(uploads, sent)] = view.find_linked_rounds("bits")
    >>> uploads.users, sent.to_dense(np.array([0]))
    (array([0, 1]), array([[0, 1, 1]]))
    """

    vantage: Vantage
    public: PublicInfo
    rounds: tuple[RoundView, ...]
    cache: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    notes: list[str] = field(default_factory=list, compare=False, repr=False)

    def add_note(self, note: str) -> None:
        """Adds the sentence ``note`` to ``notes``, unless they already contain it."""
        if note not in self.notes:
            self.notes.append(note)

    def align_item_rows(self) -> View:
        """Returns a view in which row i of every item table is the row of item i.

        If an item has h rows in a table (``public.item_rows``), each round becomes h rounds, of
        which round k has the k-th row of every item. Lists, such as item lists, are only in the
        first of them.

        An array with too few rows for all items stays unchanged.
        """
        if (rows := self.public.item_rows) is None:
            return self
        seen = tuple(
            one.restrict_rows(each, keep_lists=not place)
            for one in self.rounds
            for place, each in enumerate(rows.T)
        )
        return replace(self, rounds=seen)

    def add_cleartext(self) -> View:
        """Returns the view with extra rounds at the end: user data that clients send in the clear.

        An extra round has no broadcast. Its messages are the parts of ``RoundView.cleartext`` that
        describe users' data, such as ratings or item lists.
        """
        opened = []
        for seen in self.rounds:
            if seen.cleartext is not None and (parts := _select_data(seen.cleartext)):
                said = Uploads(seen.cleartext.users, parts)
                opened.append(RoundView(broadcast=None, uploads=said, cleartext=said))
        return replace(self, rounds=(*self.rounds, *opened)) if opened else self

    def drop_uploads(self) -> View:
        """Returns a view of the broadcast models alone, without any client's message."""
        return replace(self, rounds=tuple(RoundView(broadcast=r.broadcast) for r in self.rounds))

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups of message parts that are linked to their senders, without repeats.

        The group of a part is its name up to the first dot, such as "user" for "user.W1".
        """
        return tuple(
            dict.fromkeys(
                name.partition(".")[0]
                for seen in self.rounds
                if seen.uploads is not None
                for name in seen.uploads.components
            )
        )

    def keep_part_group(self, group: str) -> View:
        """Returns a view whose ``uploads`` have only the message parts of one group.

        The group of a part is its name up to the first dot, such as "user" for "user.W1". In the
        result, ``cleartext`` is None.
        """

        def keep_group(uploads: Uploads | None) -> Uploads | None:
            if uploads is None:
                return None
            kept = {n: c for n, c in uploads.components.items() if n.partition(".")[0] == group}
            return Uploads(users=uploads.users, components=MappingProxyType(kept))

        rounds = [replace(r, uploads=keep_group(r.uploads), cleartext=None) for r in self.rounds]
        return replace(self, rounds=tuple(rounds))

    def find_linked_rounds(self, name: str) -> tuple[tuple[Uploads, Component], ...]:
        """Finds the rounds in which the message part ``name`` is linked to its senders.

        Returns one pair per such round: all uploads of the round, and the part ``name`` of them.
        """
        return tuple(
            (seen.uploads, seen.uploads.components[name])
            for seen in self.rounds
            if seen.uploads is not None and name in seen.uploads.components
        )


def _select_data(clear: Uploads) -> dict[str, Component]:
    return {name: part for name, part in clear.components.items() if part.kind in USER_DATA_KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """All messages of one training that left a client or the server, in their storage format.

    public: public knowledge of the training
    rounds: messages of each round
    published_model: the model that is published at the end; None if nothing is published
    max_vantage: strongest adversary position whose view the transcript determines; for example, a
        log of sums determines no view of single messages
    """

    public: PublicInfo
    rounds: tuple[Round, ...]
    published_model: Broadcast | None = None
    max_vantage: Vantage = Vantage.SERVER

    @property
    def has_clear_data(self) -> bool:
        """Whether clients send user data, such as ratings, in the clear and linked to senders."""
        return any(r.cleartext is not None and bool(_select_data(r.cleartext)) for r in self.rounds)

    def view(
        self,
        vantage: Vantage,
        rng: np.random.Generator | None = None,
        *,
        make_round_view: Callable[..., RoundView] = RoundView,
    ) -> View:
        """Returns the messages that an adversary at the position ``vantage`` sees.

        vantage: position of the adversary
        rng: generator of the shuffler's permutation, required for the shuffled view
        make_round_view: constructor of the view of a round

        Raises InputError for the shuffled view if ``rng`` is None.
        """
        if vantage is Vantage.SERVER:
            views = [
                make_round_view(broadcast=r.broadcast, uploads=r.uploads, cleartext=r.cleartext)
                for r in self.rounds
            ]
        elif vantage is Vantage.SHUFFLED:
            if rng is None:
                raise InputError("Expected rng for shuffled views, got None. Give a Generator.")
            views = [
                make_round_view(broadcast=r.broadcast, shuffled=_shuffle(r.uploads, rng))
                for r in self.rounds
            ]
        elif vantage is Vantage.AGGREGATE:
            views = [
                make_round_view(
                    broadcast=r.broadcast,
                    aggregate=MappingProxyType(
                        {name: c.sum_all() for name, c in r.uploads.components.items()}
                    ),
                    senders_in_sum=r.uploads.users,
                    cleartext=r.cleartext,
                )
                for r in self.rounds
            ]
        elif vantage is Vantage.PEERS:
            # Clients receive the published model, to score items.
            models = (*(r.broadcast for r in self.rounds), self.published_model)
            views = [make_round_view(broadcast=model) for model in models]
        else:
            views = [make_round_view(broadcast=self.published_model)]
        return View(vantage=vantage, public=self.public, rounds=tuple(views))


def _shuffle(uploads: Uploads, rng: np.random.Generator) -> Mapping[str, Component]:
    """Returns the messages in random order, without their senders.

    The parts of one message stay together. A part of several randomized reports is split: every
    report is a message by itself, and is permuted separately.
    """
    order = rng.permutation(len(uploads.users))
    shuffled: dict[str, Component] = {}
    for name, component in uploads.components.items():
        if isinstance(component, Reports):
            single = component.split_into_reports()
            shuffled[name] = single.take(rng.permutation(len(single)))
        else:
            shuffled[name] = component.take(order)
    return MappingProxyType(shuffled)
