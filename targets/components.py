"""Storage formats of messages: each holds one named part of a round's messages for all clients.

The formats are compact: a rank-one gradient is stored as its factors, an item table as the rows
that changed, and noise as its seeds. Attacks see only the arrays that the protocol sends, through
``targets.transcript.PartView``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.streams import Streams

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]
_BLOCK = 1 << 23  # numbers per block of clients when messages are summed: 64 MiB in float64


class Kind(StrEnum):
    """Type of a message: what the numbers in it mean, such as gradients or item lists.

    The protocol is public, so an adversary knows the type of every message.
    """

    GRADIENT = "gradient"  # gradient of the sender's loss with respect to the broadcast model
    CHANGE = "change"  # the model that the sender trained, minus the broadcast model
    MODEL = "model"  # the model that the sender trained
    REPORTS = "reports"  # single coordinates of a gradient, randomized
    BITS = "bits"  # one bit per item, randomized or not
    RATINGS = "ratings"  # one rating per item
    ITEMS = "items"  # a list of item positions in the catalogue, padded with -1
    CODES = "codes"  # a list of codes that stand for items, padded with -1
    VECTOR = "vector"  # the sender's own state between rounds, such as a user vector


# Kinds of messages that are lists. The order of a list's entries may reveal something.
LIST_KINDS = (Kind.ITEMS, Kind.CODES)
# Kinds of messages that describe the sender's data, about which each round may reveal more.
DATA_KINDS = (Kind.REPORTS, Kind.BITS, Kind.RATINGS, *LIST_KINDS)
# Value that fills the empty places at the end of a list.
LIST_PADDING = -1


def check_lists(kind: Kind, values: NDArray[Any], n_items: int, name: str, where: str) -> None:
    """Checks that the entries of list messages are valid, and raises InputError if they are not.

    Lists must hold integers. Lists of items must hold catalogue positions from 0 to ``n_items`` -
    1, or the padding -1. Messages of kinds other than lists always pass.

    kind: kind of the messages
    values: the messages (any shape)
    name, where: names of the component and of its origin, for the error message
    """
    if kind not in LIST_KINDS:
        return
    if values.dtype.kind not in "iu":
        raise InputError(
            f"Expected integers in the component {name!r} ({kind}) of {where}, got values of type "
            f"{values.dtype}. State another kind, or send a list of integers."
        )
    wrong = (
        values[(values < LIST_PADDING) | (values >= n_items)] if kind is Kind.ITEMS else values[:0]
    )
    if wrong.size:
        raise InputError(
            f"Expected item positions from 0 to {n_items - 1}, or -1 for none, in the component "
            f"{name!r} of {where}, got {wrong.flat[0]}. Send positions, or state the kind codes."
        )


class Component(ABC):
    """Base class of storage formats: one named part of a round's messages, for all clients at once.

    A subclass defines ``shape``, ``dense`` and ``kind``. Its class attribute ``parts`` names the
    fields that have one entry per client: arrays, sparse arrays, streams, or components. If the
    first of these fields is a component, the subclass inherits that component's kind, rate and
    shape.
    """

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = ()

    @property
    def kind(self) -> Kind:
        """Type of the messages, which says what their numbers mean."""
        return _first(self).kind

    @property
    def rate(self) -> float | None:
        """Public learning rate: a message moves the broadcast by -rate times the sender's gradient.

        A message that contains a model moves the broadcast by the model minus the broadcast, summed
        over all local steps. The rate is negative if the client sends the gradient itself, which
        points uphill. The rate is None if it does not exist or is not public.
        """
        return _first(self).rate

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, as ``dense`` returns it."""
        return _first(self).shape

    def __len__(self) -> int:
        """Number of clients."""
        return len(getattr(self, self.parts[0]))

    @abstractmethod
    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the messages of the clients at positions ``clients``: (len(clients), *shape)."""

    def sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the rows that ``clients`` sent, shape (len(clients), *shape[:1]).

        By default all rows were sent.
        """
        return np.ones((len(clients), *self.shape[:1]), dtype=np.bool_)

    def max_magnitude(self) -> float:
        """Returns an upper limit of the absolute values of all messages.

        If the limit is finite, no value is NaN. It is infinite if it cannot be derived without
        reading the messages.
        """
        return math.inf

    def total(self) -> NDArray[Any]:
        """Computes the sum over all clients, of shape ``shape``: the output of secure aggregation.

        The sum is computed in float64, by blocks of clients.
        """
        out = np.zeros(self.shape)
        for block in iter_blocks(len(self), math.prod(self.shape), _BLOCK):
            clients = np.arange(block.start, block.stop)
            out += self.dense(clients).sum(axis=0, dtype=np.float64)
        return out

    def take(self, clients: Ints) -> Self:
        """Selects the messages of the clients at positions ``clients``, in this order."""
        own: Any = self
        made: Self = replace(own, **{name: _of(getattr(own, name), clients) for name in own.parts})
        return made

    def drop_rows(self, first: int) -> Component:
        """Returns the messages without the rows before ``first``.

        A message then has the shape (shape[0] - first, *shape[1:]).
        """
        return SelectedRows(self, slice(first, None))

    def list_entries(
        self, clients: Ints
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """Returns the entries of list messages (width,) that are not ``LIST_PADDING``.

        The result is three arrays (E,): the entry's client (an index into ``clients``), its column
        in the list, and its value. Entries are in the order of ``clients``, and within a client in
        list order.
        """
        parts = [(np.zeros(0, np.intp),) * 2 + (self.dense(clients[:0]).ravel(),)]
        for block in iter_blocks(len(clients), math.prod(self.shape), _BLOCK):
            sent = self.dense(clients[block])
            row, column = np.nonzero(sent != LIST_PADDING)
            parts.append((row + block.start, column, sent[row, column]))
        row, column, entries = (np.concatenate(part) for part in zip(*parts, strict=True))
        return row, column, entries

    def lookup(
        self, clients: Ints, row: NDArray[np.intp], column: NDArray[np.intp]
    ) -> NDArray[Any]:
        """Returns single entries of messages of shape (width,), as an array (E,).

        Entry e is at ``column[e]`` of the message of client ``clients[row[e]]``. ``row`` must be in
        ascending order.
        """
        parts = [self.dense(clients[:0]).ravel()]
        for block in iter_blocks(len(clients), math.prod(self.shape), _BLOCK):
            some = slice(*np.searchsorted(row, [block.start, block.stop]))
            parts.append(self.dense(clients[block])[row[some] - block.start, column[some]])
        return np.concatenate(parts)

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's message, shape (len(clients), k, *shape[1:]).

        ``rows`` (len(clients), k) holds the indices of the rows for each client.
        """
        out = np.zeros((*rows.shape, *self.shape[1:]))
        for part in iter_blocks(len(clients), math.prod(self.shape), _BLOCK):
            block, each = self.dense(clients[part]), rows[part]
            out[part] = block[np.arange(len(each))[:, None], each]
        return out


@dataclass(frozen=True, slots=True)
class SelectedRows(Component):
    """Messages restricted to the row indices ``rows``; ``whole`` holds the full messages."""

    whole: Component
    rows: slice | Ints

    parts = ("whole",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message."""
        count, *rest = self.whole.shape
        return (len(np.arange(count)[self.rows]), *rest)

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the selected rows of the clients' messages."""
        return self.whole.dense(clients)[:, self.rows]

    def sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the selected rows that ``clients`` sent."""
        return self.whole.sent_rows(clients)[:, self.rows]

    def max_magnitude(self) -> float:
        """Returns an upper limit of the absolute values of the full messages."""
        return self.whole.max_magnitude()

    def total(self) -> NDArray[Any]:
        """Computes the sum of the selected rows over all clients."""
        return self.whole.total()[self.rows]


@dataclass(frozen=True, slots=True)
class Dense(Component):
    """Messages stored as one array ``values`` of shape (n, *shape), one message per client."""

    values: NDArray[Any]
    kind: Kind = field()  # without a default, although the base class has a property
    rate: float | None = None

    parts = ("values",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message."""
        return self.values.shape[1:]

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Returns the messages of the clients at positions ``clients``."""
        return self.values[clients]

    def max_magnitude(self) -> float:
        """Returns the largest absolute value of all messages, or infinity if a value is NaN."""
        return _largest(self.values)

    def total(self) -> NDArray[Any]:
        """Computes the sum over all clients in float64."""
        return np.asarray(self.values.sum(axis=0, dtype=np.float64))

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns the selected ``rows`` of each client's message."""
        return np.asarray(self.values[np.asarray(clients)[:, None], rows])


@dataclass(frozen=True, slots=True)
class Bits(Component):
    """Messages of one bit per item: 1 if the client has an entry in the sparse ``entries`` (n, M).

    If ``randomize`` and ``streams`` are given, the bits are randomized at every call, each time
    with the same result. Memory: the entries, and one seed per client.
    """

    entries: sparse.csr_array
    randomize: Callable[[NDArray[np.bool_], Streams], NDArray[np.bool_]] | None = None
    streams: Streams | None = None

    parts = ("entries", "streams")
    kind, rate = Kind.BITS, None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (M,)."""
        return (self.entries.shape[1],)

    def __len__(self) -> int:
        return int(self.entries.shape[0])

    def dense(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns the bits that ``clients`` sent, shape (len(clients), M)."""
        out = np.zeros((len(clients), *self.shape), dtype=np.bool_)
        rows, entries = _entries(self.entries.indptr, clients)
        out[rows, self.entries.indices[entries]] = True
        if self.randomize is None or self.streams is None:
            return out
        return self.randomize(out, self.streams.take(clients))


@dataclass(frozen=True, slots=True)
class RankOne(Component):
    """Item gradients G_u = (s_u - V x_u) x_u^T, each M x F, stored as their factors.

    vectors: the user vectors x_u (n, F)
    items: the broadcast item matrix V (M, F)
    corrections: the sparse vectors s_u (n, M)

    Memory is n F + nnz(s) numbers instead of n M F. G is minus half the gradient of the squared
    loss sum_i c_i (p_i - x.v_i)^2.
    """

    vectors: Floats
    items: Floats
    corrections: sparse.csr_array

    parts = ("vectors", "corrections")
    kind, rate = Kind.GRADIENT, 0.5

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (M, F)."""
        return self.items.shape

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the gradients that ``clients`` sent, shape (len(clients), M, F)."""
        x = self.vectors[clients]
        left = self.corrections[clients].toarray() - x @ self.items.T
        return np.asarray(left[:, :, None] * x[:, None, :])

    def max_magnitude(self) -> float:
        """Derives an upper limit from norms: (max |s| + max |v_i| max |x_u|) max |x_u|.

        |v_i| and |x_u| are Euclidean norms of item and user vectors.
        """
        item, user = (_longest(rows) for rows in (self.items, self.vectors))
        limit = (_largest(self.corrections.data) + item * user) * user
        return math.inf if math.isnan(limit) else limit

    def total(self) -> NDArray[Any]:
        """Computes the sum of all gradients from the factors, as S^T X - V (X^T X)."""
        x = self.vectors
        return np.asarray(self.corrections.T @ x - self.items @ (x.T @ x))

    def drop_rows(self, first: int) -> RankOne:
        """Returns the gradients of the items from position ``first`` on."""
        return RankOne(
            self.vectors, self.items[first:], sparse.csr_array(self.corrections[:, first:])
        )

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Computes selected ``rows`` of each client's gradient from their rows of s and V only."""
        x, s = self.vectors[clients], self.corrections
        held, entries = _located(s.indptr, s.indices, clients, rows)
        left = -np.einsum("nkf,nf->nk", self.items[rows], x)
        left[held] += s.data[entries[held]]
        return np.asarray(left[:, :, None] * x[:, None, :])


@dataclass(frozen=True, slots=True)
class Rows(Component):
    """Messages that are matrices (M, d) of which each client sent or changed only some rows.

    Client i's stored rows are ``ids[indptr[i] : indptr[i + 1]]`` in ascending order, with the
    numbers ``values`` (nnz, d). ``n_rows`` is M.

    Without ``rest``, a client sends only its stored rows. ``dense`` returns zeros for the remaining
    rows, and ``sent_rows`` distinguishes them from rows of zeros that were sent. With ``rest`` (M,
    d), the model that was broadcast, each client sends the whole matrix, which equals ``rest``
    outside the stored rows. An adversary who knows the broadcast then sees which rows the client
    changed. Memory is nnz d numbers instead of n M d.
    """

    indptr: Ints
    row_ids: Ints
    values: NDArray[Any]
    n_rows: int
    kind: Kind = field()  # without a default, although the base class has a property
    rate: float | None = None
    rest: NDArray[Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (M, d)."""
        return (self.n_rows, *self.values.shape[1:])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the matrices of ``clients``, shape (len(clients), M, d)."""
        rows, entries = _entries(self.indptr, clients)
        shape = (len(clients), *self.shape)
        if self.rest is None:
            out = np.zeros(shape, dtype=self.values.dtype)
        else:
            out = np.broadcast_to(self.rest, shape).astype(self.values.dtype, order="C")
        out[rows, self.row_ids[entries]] = self.values[entries]
        return out

    def sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the rows that ``clients`` sent, shape (len(clients), M)."""
        if self.rest is not None:
            return super(Rows, self).sent_rows(clients)
        out = np.zeros((len(clients), self.n_rows), dtype=np.bool_)
        rows, entries = _entries(self.indptr, clients)
        out[rows, self.row_ids[entries]] = True
        return out

    def max_magnitude(self) -> float:
        """Returns the largest absolute value in ``values`` and ``rest``; infinity if one is NaN."""
        return max(_largest(self.values), 0.0 if self.rest is None else _largest(self.rest))

    def total(self) -> NDArray[Any]:
        """Computes the sum over all clients in float64, by blocks of rows."""
        out = np.zeros(self.shape)
        for block in iter_blocks(len(self.row_ids), math.prod(self.shape[1:]), _BLOCK):
            ids, change = self.row_ids[block], self.values[block].astype(np.float64)
            if self.rest is not None:
                change -= self.rest[ids]
            pick = sparse.csc_array(  # one entry per column
                (np.ones(len(ids)), ids, np.arange(len(ids) + 1)), shape=(self.n_rows, len(ids))
            )
            out += np.asarray(pick @ change)
        return out if self.rest is None else out + len(self) * self.rest.astype(np.float64)

    def drop_rows(self, first: int) -> Rows:
        """Returns the messages without the rows before ``first``."""
        kept = self.row_ids >= first
        return replace(
            self,
            indptr=np.append(0, np.cumsum(kept))[self.indptr],
            row_ids=self.row_ids[kept] - first,
            values=self.values[kept],
            n_rows=self.n_rows - first,
            rest=None if self.rest is None else self.rest[first:],
        )

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns the selected ``rows`` of each client's matrix, found among the stored rows."""
        held, entries = _located(self.indptr, self.row_ids, clients, rows)
        if self.rest is None:
            out = np.zeros((*rows.shape, *self.shape[1:]), self.values.dtype)
        else:
            out = np.asarray(self.rest[rows], self.values.dtype)
        out[held] = self.values[entries[held]]
        return out

    def take(self, clients: Ints) -> Rows:
        """Selects the messages of the clients at positions ``clients``, in this order."""
        rows, entries = _entries(self.indptr, clients)
        indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(clients))))
        return replace(
            self, indptr=indptr, row_ids=self.row_ids[entries], values=self.values[entries]
        )


@dataclass(frozen=True, slots=True)
class OverlaidTables(Component):
    """Messages that equal ``table``, except in the rows that a client has in ``rows``."""

    table: Component
    rows: Rows

    parts = ("rows", "table")

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the tables of ``clients``, shape (len(clients), M, d)."""
        out = self.table.dense(clients)
        places, entries = _entries(self.rows.indptr, clients)
        out[places, self.rows.row_ids[entries]] = self.rows.values[entries]
        return out

    def max_magnitude(self) -> float:
        """Returns the larger of the upper limits of ``table`` and ``rows``."""
        return max(self.table.max_magnitude(), self.rows.max_magnitude())

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns the selected ``rows`` of each client's table."""
        out = self.table.select_rows(clients, rows)
        held, entries = _located(self.rows.indptr, self.rows.row_ids, clients, rows)
        out[held] = self.rows.values[entries[held]]
        return out


class Randomizer(Protocol):
    """A function that adds local noise to whole messages, with one random stream per client."""

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the randomized messages, in the shape (n, *shape) of ``values``."""
        ...


@runtime_checkable
class PositionalRandomizer(Randomizer, Protocol):
    """A randomizer whose draw for an entry depends on the entry's position in its message."""

    def skipping(self, count: int | Ints) -> Randomizer:
        """Returns the randomizer for messages whose first ``count`` entries have been left out.

        ``count`` is one number for all messages, or an array (n,) with one number per message.
        """
        ...


@runtime_checkable
class SumRandomizer(Randomizer, Protocol):
    """A randomizer whose noise does not depend on the values, so that it can be added to a sum."""

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Computes the sum of the randomized messages from the sum ``total`` of the clean messages.

        No single message is computed.
        """
        ...


@runtime_checkable
class BoundedOutput(Randomizer, Protocol):
    """A randomizer with a known limit of its output's absolute values, unless an input is NaN."""

    def limit(self, largest: float) -> float:
        """Returns the limit of the output's absolute values.

        The absolute values of the input are at most ``largest``.
        """
        ...


@dataclass(frozen=True, slots=True)
class RandomizedMessages(Component):
    """Randomized messages, stored as the ``clean`` messages and the seeds of their noise.

    Noise fills every entry of an item matrix, so the noisy messages of a whole training would fill
    the disk. ``dense`` therefore draws the same noise again at every call, from ``streams``.
    """

    clean: Component
    randomize: Randomizer
    streams: Streams

    parts = ("clean", "streams")

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the randomized messages of the clients at positions ``clients``."""
        return self.randomize(self.clean.dense(clients), self.streams.take(clients))

    def max_magnitude(self) -> float:
        """Returns the randomizer's output limit, or infinity if it has none.

        The randomizer must be a ``BoundedOutput``, and the clean messages must have a finite limit.
        """
        if isinstance(self.randomize, BoundedOutput) and math.isfinite(
            clean := self.clean.max_magnitude()
        ):
            return self.randomize.limit(clean)
        return math.inf

    def total(self) -> NDArray[Any]:
        """Computes the sum over all clients, from the clean sum if the randomizer is
        ``SumRandomizer``.

        Otherwise the messages are randomized and summed by blocks of clients.
        """
        if isinstance(self.randomize, SumRandomizer):
            return self.randomize.summed(self.clean.total(), self.streams)
        return super(RandomizedMessages, self).total()

    def drop_rows(self, first: int) -> Component:
        """Returns the messages without the rows before ``first``, with unchanged noise.

        A positional randomizer skips the random draws of the rows that are left out.
        """
        if not isinstance(self.randomize, PositionalRandomizer):
            return super(RandomizedMessages, self).drop_rows(first)
        skipped = first * math.prod(self.shape[1:])
        return RandomizedMessages(
            self.clean.drop_rows(first), self.randomize.skipping(skipped), self.streams
        )

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Computes the selected ``rows`` of each client's message.

        A positional randomizer draws noise for these rows only.
        """
        if not isinstance(self.randomize, PositionalRandomizer):
            return super(RandomizedMessages, self).select_rows(clients, rows)
        clean = self.clean.select_rows(clients, rows)
        single = self.randomize.skipping(rows.ravel() * math.prod(self.shape[1:]))
        streams = self.streams.take(np.repeat(clients, rows.shape[1]))
        sent = single(clean.reshape(rows.size, *clean.shape[2:]), streams)
        return np.asarray(sent).reshape(clean.shape)


@dataclass(frozen=True, slots=True)
class Reports(Component):
    """k randomized reports per client, each +B or -B for one coordinate of the client's matrix.

    index: flat position of the reported coordinate in the matrix (n, k)
    positive: whether the report is +B (n, k)
    magnitude: B, which is public
    shape: shape of the matrix (M, F)
    clean: the matrices that the reports describe; None if the system does not keep them
    """

    index: Ints
    positive: NDArray[np.bool_]
    magnitude: float
    shape: tuple[int, int] = field()
    clean: Component | None = None

    parts = ("index", "positive", "clean")
    kind, rate = Kind.REPORTS, None

    def dense(self, clients: Ints) -> NDArray[Any]:
        """Estimates each client's matrix by the mean of its k reports: (len(clients), M, F)."""
        index, sign = self.index[clients], np.where(self.positive[clients], 1.0, -1.0)
        n, k = index.shape
        size = math.prod(self.shape)
        flat = (np.arange(n)[:, None] * size + index).ravel()
        sums = np.bincount(flat, weights=sign.ravel(), minlength=n * size)
        return np.asarray((sums * (self.magnitude / k)).reshape(n, *self.shape))

    def total(self) -> NDArray[Any]:
        """Computes the sum of all clients' estimates of their matrices."""
        size = math.prod(self.shape)
        counts = np.bincount((2 * self.index + self.positive).ravel(), minlength=2 * size)
        sums = counts[1::2] - counts[::2]
        return np.asarray((sums * (self.magnitude / self.index.shape[1])).reshape(self.shape))

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Computes selected ``rows`` of each client's estimate from the reports on these rows."""
        width, index = self.shape[1], self.index[clients]
        out = np.zeros((*rows.shape, width))
        for k, row in enumerate(rows.T):
            client, report = np.nonzero(index // width == row[:, None])
            sign = np.where(self.positive[clients[client], report], 1.0, -1.0)
            np.add.at(out[:, k], (client, index[client, report] % width), sign)
        return np.asarray(out * (self.magnitude / index.shape[1]))

    def split(self) -> Reports:
        """Splits the reports into separate messages of one report each."""
        index, positive = self.index.reshape(-1, 1), self.positive.reshape(-1, 1)
        return Reports(index, positive, self.magnitude, self.shape)


def _largest(values: NDArray[Any]) -> float:
    """The largest absolute value, or infinity if a value is NaN. No copy is made."""
    if not values.size:
        return 0.0
    ends = float(values.max()), float(values.min())
    return math.inf if any(map(math.isnan, ends)) else max(map(abs, ends))


def _longest(rows: NDArray[Any]) -> float:
    """The largest Euclidean norm of a row, or infinity if a value is NaN."""
    return math.sqrt(_largest(np.einsum("nd,nd->n", rows, rows, dtype=np.float64)))


def _first(made: Component) -> Component:
    first: Component = getattr(made, made.parts[0])
    return first


def _of(part: Any, clients: Ints) -> Any:
    """The entries of ``clients`` in ``part``, a field that has one entry per client."""
    if isinstance(part, np.ndarray | sparse.csr_array):
        return part[clients]
    return None if part is None else part.take(clients)


def _entries(indptr: Ints, clients: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For every stored entry of ``clients``: its index into ``clients``, and into all entries."""
    starts, sizes = indptr[clients], np.diff(indptr)[clients]
    rows = np.repeat(np.arange(len(clients)), sizes)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows, np.asarray(np.repeat(starts, sizes) + offsets, dtype=np.intp)


def _located(
    indptr: Ints, ids: Ints, clients: Ints, wanted: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Flags of the ``wanted`` row ids (n, k) that a client has stored, and their entry indices.

    Each client's ``ids`` are in ascending order.
    """
    owners, entries = _entries(indptr, clients)
    if not len(entries):
        return np.zeros(wanted.shape, np.bool_), np.zeros(wanted.shape, np.intp)
    own = ids[entries].astype(np.int64)
    step = 1 + max(int(own.max()), int(wanted.max(initial=0)))
    keys, asked = owners * step + own, np.arange(len(clients))[:, None] * step + wanted
    places = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    return keys[places] == asked, entries[places]
