"""Storage formats of the messages that clients send in one round of training.

A message has named parts, such as an item table. A ``Component`` holds one part of the messages of
all clients, in a compact format.
"""

# Attacks see only the arrays that clients send, through ``targets.transcript.ComponentView``.

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
from fedrec_auditor.targets.compute import iter_blocks, map_in_threads
from fedrec_auditor.targets.streams import Streams

# Arrays of integers, and of floating-point numbers, of any size.
Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]
_BLOCK = 1 << 23  # numbers per block of clients when messages are summed: 64 MiB in float64


class Payload(StrEnum):
    """Type of a message: what its numbers mean, such as gradients or item lists.

    GRADIENT: gradient of the sender's loss with respect to the broadcast model, times a factor
        (``Component.learning_rate``)
    CHANGE: the model that the sender trained, minus the broadcast model
    MODEL: the model that the sender trained
    REPORTS: single coordinates of a gradient, randomized
    BITS: one bit per item, randomized or not
    RATINGS: one rating per item
    ITEMS: a list of item positions in the catalogue, padded with -1
    CODES: a list of codes that stand for items, padded with -1
    VECTOR: the sender's own state between rounds, such as a user vector

    The protocol is public, so an adversary knows the type of every message.
    """

    GRADIENT = "gradient"
    CHANGE = "change"
    MODEL = "model"
    REPORTS = "reports"
    BITS = "bits"
    RATINGS = "ratings"
    ITEMS = "items"
    CODES = "codes"
    VECTOR = "vector"


# Kinds of messages that are lists. The order of a list's entries may reveal something.
LIST_KINDS = (Payload.ITEMS, Payload.CODES)
# Kinds of messages that describe the sender's data, about which each round may reveal more.
USER_DATA_KINDS = (Payload.REPORTS, Payload.BITS, Payload.RATINGS, *LIST_KINDS)
# Value that fills the empty places at the end of a list.
LIST_PADDING = -1


def check_lists(kind: Payload, values: NDArray[Any], n_items: int, name: str, where: str) -> None:
    """Raises InputError if list messages contain invalid entries.

    kind: kind of the messages, such as item lists; messages of kinds that are not lists are not
        checked
    values: the messages (any shape)
    n_items: number of items
    name, where: names of the message part and of its origin, for the error message

    All entries must be integers. Entries of item lists must be item indices from 0 to ``n_items`` -
    1, or -1 as padding.
    """
    if kind not in LIST_KINDS:
        return
    if values.dtype.kind not in "iu":
        raise InputError(
            f"Expected integers in the component {name!r} of the kind '{kind}' of {where}, got "
            f"values of type {values.dtype}. Send a list of integers, or state another kind."
        )
    wrong = values[(values < LIST_PADDING) | (values >= n_items)]
    if kind is Payload.ITEMS and wrong.size:
        raise InputError(
            f"Expected item indices from 0 to {n_items - 1}, or -1 as padding, in the component "
            f"{name!r} of {where}, got {wrong.flat[0]}. Send indices, or state the kind 'codes'."
        )


class Component(ABC):
    """One named part, such as the item table, of the messages that all clients send in a round.

    per_client_fields: names of the fields with one entry per client: arrays, sparse arrays, random
        streams, or other components (class attribute)

    This is the base class of the storage formats. A subclass defines ``shape``, ``to_dense`` and
    ``kind``. The argument ``clients`` of a method holds indices of clients.
    """

    __slots__ = ()
    # In a component that wraps another component, the first of these fields is the wrapped
    # component, which gives the default kind, learning rate and shape.
    per_client_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def kind(self) -> Payload:
        """Type of the messages, such as gradients or item lists."""
        return _get_first_part(self).kind

    @property
    def learning_rate(self) -> float | None:
        """Public learning rate r, by which messages are scaled; None if it is unknown.

        - If a message is a gradient, it is -r times the gradient of the sender's loss. So r is -1
          if the client sends the gradient itself.
        - If a message is a change of the model, it is -r times the sum of the gradients of all
          local steps.
        """
        return _get_first_part(self).learning_rate

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, without the axis of clients."""
        return _get_first_part(self).shape

    def __len__(self) -> int:
        """Number of clients."""
        return len(getattr(self, self.per_client_fields[0]))

    @abstractmethod
    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the messages of ``clients`` (indices), shape (len(clients), *shape)."""

    def flag_sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the table rows that ``clients`` (indices) sent; by default all are true.

        The result has the shape (len(clients), number of rows), or (len(clients),) if a message is
        a single number.
        """
        return np.ones((len(clients), *self.shape[:1]), dtype=np.bool_)

    def bound_magnitude(self) -> float:
        """Returns an upper bound of the absolute values in all messages.

        If the bound is finite, no value is NaN. By default the bound is infinite: it cannot be
        derived without reading the messages.
        """
        return math.inf

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' messages, the output of secure aggregation.

        The sum has the shape of one message. The sum is computed in float64, by blocks of clients.
        """
        clients = np.arange(len(self))
        blocks = iter_blocks(len(self), math.prod(self.shape), _BLOCK)
        sums = map_in_threads(lambda part: self.to_dense(clients[part]).sum(0, np.float64), blocks)
        return np.asarray(sum(sums, np.zeros(self.shape)))

    def take(self, clients: Ints) -> Self:
        """Returns the messages of ``clients`` (indices) alone, in this order."""
        me: Any = self
        taken = {n: _take_clients(getattr(me, n), clients) for n in me.per_client_fields}
        made: Self = replace(me, **taken)
        return made

    def drop_rows(self, count: int) -> Component:
        """Returns the messages without the first ``count`` rows of each message.

        A message then has the shape (shape[0] - count, *shape[1:]).
        """
        return SelectedRows(self, slice(count, None))

    def list_entries(
        self, clients: Ints
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """Returns client, position and value of each entry in the lists that ``clients`` sent.

        A message must be a list, shape (width,), padded with ``LIST_PADDING``. The result has three
        arrays, each with one element per entry, in the order of clients and positions: client of
        the entry (index into ``clients``), position in the list, and value.
        """
        parts = [(np.zeros(0, np.intp),) * 2 + (self.to_dense(clients[:0]).ravel(),)]
        for block in iter_blocks(len(clients), math.prod(self.shape), _BLOCK):
            sent = self.to_dense(clients[block])
            row, column = np.nonzero(sent != LIST_PADDING)
            parts.append((row + block.start, column, sent[row, column]))
        row, column, entries = (np.concatenate(part) for part in zip(*parts, strict=True))
        return row, column, entries

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's message, shape (len(clients), k, *shape[1:]).

        ``rows`` (len(clients), k) holds the indices of the rows for each client.
        """
        out = np.zeros((*rows.shape, *self.shape[1:]))
        for part in iter_blocks(len(clients), math.prod(self.shape), _BLOCK):
            block, each = self.to_dense(clients[part]), rows[part]
            out[part] = block[np.arange(len(each))[:, None], each]
        return out


@dataclass(frozen=True, slots=True)
class SelectedRows(Component):
    """Messages that are restricted to some of their rows, without a copy of the messages.

    messages: the messages with all their rows
    rows: the rows that remain of each message, as indices or as a slice
    """

    messages: Component
    rows: slice | Ints

    per_client_fields = ("messages",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message after the restriction to the selected rows."""
        count, *rest = self.messages.shape
        return (len(np.arange(count)[self.rows]), *rest)

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the selected rows of the messages of ``clients`` (indices).

        The result has the shape (len(clients), *shape).
        """
        return self.messages.to_dense(clients)[:, self.rows]

    def flag_sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the selected rows that ``clients`` (indices) sent, (clients, selected
        rows).
        """
        return self.messages.flag_sent_rows(clients)[:, self.rows]

    def bound_magnitude(self) -> float:
        """Returns an upper bound of the absolute values in the messages with all their rows."""
        return self.messages.bound_magnitude()

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' messages, restricted to the selected rows."""
        return self.messages.sum_all()[self.rows]


@dataclass(frozen=True, slots=True)
class Dense(Component):
    """Messages stored in full, as one array.

    values: one message per client, shape (n, *shape)
    kind: type of the messages, such as gradients or item lists
    learning_rate: public learning rate r (a message is -r times the sender's gradient), or None
    """

    values: NDArray[Any]
    kind: Payload = field()  # without a default, although the base class has a property
    learning_rate: float | None = None

    per_client_fields = ("values",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message."""
        return self.values.shape[1:]

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Returns the messages of ``clients`` (indices), shape (len(clients), *shape)."""
        return self.values[clients]

    def bound_magnitude(self) -> float:
        """Returns the largest absolute value of all messages, or infinity if a value is NaN."""
        return _max_abs(self.values)

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' messages in float64, in the shape of one message."""
        return np.asarray(self.values.sum(axis=0, dtype=np.float64))

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's message, shape (n, k, *shape[1:]).

        ``rows`` (n, k) holds the indices of k rows for each of the n ``clients``.
        """
        return np.asarray(self.values[np.asarray(clients)[:, None], rows])


@dataclass(frozen=True, slots=True)
class Bits(Component):
    """Messages of one bit per item, stored as the items with a 1.

    entries: sparse array (n clients, M items); a stored entry means a 1, whatever its value
    randomizer: function that randomizes the bits, with the same result at every call; None if the
        bits are sent unchanged
    streams: random streams for ``randomizer``, one per client; None if the bits are sent unchanged
    """

    entries: sparse.csr_array
    randomizer: Callable[[NDArray[np.bool_], Streams], NDArray[np.bool_]] | None = None
    streams: Streams | None = None

    per_client_fields = ("entries", "streams")
    kind, learning_rate = Payload.BITS, None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (number of items,)."""
        return (self.entries.shape[1],)

    def __len__(self) -> int:
        return int(self.entries.shape[0])

    def to_dense(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns the bits that ``clients`` sent, bool of shape (len(clients), number of items)."""
        out = np.zeros((len(clients), *self.shape), dtype=np.bool_)
        rows, entries = _find_entries(self.entries.indptr, clients)
        out[rows, self.entries.indices[entries]] = True
        if self.randomizer is None or self.streams is None:
            return out
        return self.randomizer(out, self.streams.take(clients))


@dataclass(frozen=True, slots=True)
class RankOneMessages(Component):
    """Rank-one gradients of the item matrix in matrix factorization, stored as their factors.

    The message of user u is the M x F matrix G_u = (s_u - V x_u) x_u^T, for M items and F latent
    dimensions. G_u is minus half the gradient of the squared loss sum_i c_i (p_i - x_u.v_i)^2 over
    items i. There c_i is the weight of item i, and p_i is the target value of the product x_u.v_i.

    user_vectors: the user vectors x_u (n, F)
    item_vectors: the broadcast item matrix V (M, F)
    sparse_vectors: the sparse vectors s_u (n, M), s_ui = c_i (p_i - x_u.v_i) + x_u.v_i
    """

    user_vectors: Floats
    item_vectors: Floats
    sparse_vectors: sparse.csr_array

    per_client_fields = ("user_vectors", "sparse_vectors")
    kind, learning_rate = Payload.GRADIENT, 0.5

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (items, latent dimensions)."""
        return self.item_vectors.shape

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the gradients of ``clients`` (indices), shape (len(clients), *shape)."""
        x = self.user_vectors[clients]
        left = self.sparse_vectors[clients].toarray() - x @ self.item_vectors.T
        return np.asarray(left[:, :, None] * x[:, None, :])

    def bound_magnitude(self) -> float:
        """Returns an upper bound of the absolute values in all messages: (s + v x) x.

        s: the largest absolute value in ``sparse_vectors``
        v, x: the largest Euclidean norm of an item vector and of a user vector
        """
        item, user = (_max_row_norm(rows) for rows in (self.item_vectors, self.user_vectors))
        limit = (_max_abs(self.sparse_vectors.data) + item * user) * user
        return math.inf if math.isnan(limit) else limit

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' gradients from their factors.

        With S = ``sparse_vectors``, X = ``user_vectors`` and V = ``item_vectors``, the sum is
        S^T X - V (X^T X).
        """
        x = self.user_vectors
        return np.asarray(self.sparse_vectors.T @ x - self.item_vectors @ (x.T @ x))

    def drop_rows(self, count: int) -> RankOneMessages:
        """Returns the gradients without their first ``count`` rows, which belong to items."""
        corrections = sparse.csr_array(self.sparse_vectors[:, count:])
        return RankOneMessages(self.user_vectors, self.item_vectors[count:], corrections)

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Computes selected rows of each client's gradient, shape (n, k, latent dimensions).

        ``rows`` (n, k) holds the indices of k items for each of the n ``clients``. Only data of
        these items are read.
        """
        x, s = self.user_vectors[clients], self.sparse_vectors
        held, entries = _locate_rows(s.indptr, s.indices, clients, rows)
        left = -np.einsum("nkf,nf->nk", self.item_vectors[rows], x)
        left[held] += s.data[entries[held]]
        return np.asarray(left[:, :, None] * x[:, None, :])


@dataclass(frozen=True, slots=True)
class SparseRows(Component):
    """Matrices (M, d) of which each client sent or changed only some rows; only these are stored.

    indptr: offsets of each client's stored rows (n + 1,)
    row_ids: indices of the stored rows (nnz,). Client i has ``row_ids[indptr[i] : indptr[i + 1]]``,
        in ascending order
    values: the numbers in the stored rows (nnz, d)
    n_rows: the number of rows M
    kind: type of the messages, such as gradients
    learning_rate: public learning rate r (a message is -r times the sender's gradient), or None
    broadcast: the broadcast model (M, d), if each client sends a whole matrix that equals it
        outside the stored rows; None if each client sends only its stored rows
    """

    # Without ``broadcast``, ``to_dense`` fills the rows that were not sent with zeros. With
    # ``broadcast``, an adversary who knows it sees which rows the client changed.
    indptr: Ints
    row_ids: Ints
    values: NDArray[Any]
    n_rows: int
    kind: Payload = field()  # without a default, although the base class has a property
    learning_rate: float | None = None
    broadcast: NDArray[Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one client's message, (number of rows M, row length d)."""
        return (self.n_rows, *self.values.shape[1:])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the whole matrices of ``clients`` (indices), shape (len(clients), M, d).

        Rows that are not stored for a client are those of ``broadcast``, or zeros if
        ``broadcast`` is None.
        """
        rows, entries = _find_entries(self.indptr, clients)
        shape = (len(clients), *self.shape)
        if self.broadcast is None:
            out = np.zeros(shape, dtype=self.values.dtype)
        else:
            out = np.broadcast_to(self.broadcast, shape).astype(self.values.dtype, order="C")
        out[rows, self.row_ids[entries]] = self.values[entries]
        return out

    def flag_sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns flags of the rows that ``clients`` (indices) sent, shape (len(clients), M).

        A client sent its stored rows, or all rows if the field ``broadcast`` is not None.
        """
        if self.broadcast is not None:
            return super(SparseRows, self).flag_sent_rows(clients)
        out = np.zeros((len(clients), self.n_rows), dtype=np.bool_)
        rows, entries = _find_entries(self.indptr, clients)
        out[rows, self.row_ids[entries]] = True
        return out

    def bound_magnitude(self) -> float:
        """Returns the largest absolute value in ``values`` and ``broadcast``; infinity for NaN."""
        broadcast = () if self.broadcast is None else (self.broadcast,)
        return max(map(_max_abs, (self.values, *broadcast)))

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' matrices in float64, shape (M, d)."""
        out = np.zeros(self.shape)
        for block in iter_blocks(len(self.row_ids), math.prod(self.shape[1:]), _BLOCK):
            ids, change = self.row_ids[block], self.values[block].astype(np.float64)
            if self.broadcast is not None:
                change -= self.broadcast[ids]
            pick = sparse.csc_array(  # one entry per column
                (np.ones(len(ids)), ids, np.arange(len(ids) + 1)), shape=(self.n_rows, len(ids))
            )
            out += np.asarray(pick @ change)
        return out if self.broadcast is None else out + len(self) * self.broadcast.astype(float)

    def drop_rows(self, count: int) -> SparseRows:
        """Returns the messages without the first ``count`` rows of each matrix."""
        kept = self.row_ids >= count
        return replace(
            self,
            indptr=np.append(0, np.cumsum(kept))[self.indptr],
            row_ids=self.row_ids[kept] - count,
            values=self.values[kept],
            n_rows=self.n_rows - count,
            broadcast=None if self.broadcast is None else self.broadcast[count:],
        )

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's matrix, shape (n, k, d).

        ``rows`` (n, k) holds the indices of k rows for each of the n ``clients``. Only stored rows
        are read; no full matrix is computed.
        """
        held, entries = _locate_rows(self.indptr, self.row_ids, clients, rows)
        if self.broadcast is None:
            out = np.zeros((*rows.shape, *self.shape[1:]), self.values.dtype)
        else:
            out = np.asarray(self.broadcast[rows], self.values.dtype)
        out[held] = self.values[entries[held]]
        return out

    def take(self, clients: Ints) -> SparseRows:
        """Returns the messages of ``clients`` (indices) alone, in this order."""
        rows, entries = _find_entries(self.indptr, clients)
        indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(clients))))
        row_ids, values = self.row_ids[entries], self.values[entries]
        return replace(self, indptr=indptr, row_ids=row_ids, values=values)


@dataclass(frozen=True, slots=True)
class OverlaidTables(Component):
    """One table per client: a base table, of which some rows are replaced by stored rows.

    table: each client's base table, before the replacement
    rows: the replacing rows of each client, with their indices
    """

    table: Component
    rows: SparseRows

    per_client_fields = ("rows", "table")

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Computes the tables of ``clients`` (indices), shape (len(clients), rows, row length)."""
        out = self.table.to_dense(clients)
        places, entries = _find_entries(self.rows.indptr, clients)
        out[places, self.rows.row_ids[entries]] = self.rows.values[entries]
        return out

    def bound_magnitude(self) -> float:
        """Returns the larger of the bounds on absolute values in ``table`` and in ``rows``."""
        return max(self.table.bound_magnitude(), self.rows.bound_magnitude())

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Returns selected rows of each client's table, shape (n, k, row length).

        ``rows`` (n, k) holds the indices of k rows for each of the n ``clients``.
        """
        out = self.table.select_rows(clients, rows)
        held, entries = _locate_rows(self.rows.indptr, self.rows.row_ids, clients, rows)
        out[held] = self.rows.values[entries[held]]
        return out


class Randomizer(Protocol):
    """A function that adds local noise to whole messages, with one random stream per client.

    The random numbers for an entry depend on the entry's position in its message.
    """

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the messages ``values`` (n, *shape) with noise; message i uses stream i."""
        ...

    def skip_entries(self, count: int | Ints) -> Randomizer:
        """Returns the randomizer of messages from which the first ``count`` entries are removed.

        Each remaining entry gets the same noise as in the full message. ``count`` is one number for
        all messages, or an array (n,) with one number per message.
        """
        ...

    def bound_output(self, largest: float) -> float:
        """Returns an upper bound of the absolute values of all randomized entries.

        ``largest`` is an upper bound of the absolute values of all inputs. No input is NaN.
        """
        ...


@runtime_checkable
class SumRandomizer(Randomizer, Protocol):
    """A randomizer whose noise does not depend on the values, so that it can be added to a sum."""

    def randomize_sum(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Computes the sum of the randomized messages from the sum ``total`` of the clean messages.

        ``streams`` are the random streams of all clients in the sum. No single message is computed.
        """
        ...


# The format saves memory: noise fills every entry of an item matrix, and the noisy messages of a
# whole training would fill the disk.
@dataclass(frozen=True, slots=True)
class RandomizedMessages(Component):
    """Randomized messages, stored as the messages without noise and the seeds of the noise.

    clean_messages: the messages before the noise
    randomizer: function that draws noise and adds it to messages; some clip the messages first
    streams: one random stream per client, so that the noise is equal in every call of ``to_dense``
    """

    clean_messages: Component
    randomizer: Randomizer
    streams: Streams

    per_client_fields = ("clean_messages", "streams")

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Applies ``randomizer``, which draws the noise, to the messages of ``clients`` (indices).

        The result has the shape (len(clients), *shape).
        """
        return self.randomizer(self.clean_messages.to_dense(clients), self.streams.take(clients))

    def bound_magnitude(self) -> float:
        """Returns an upper bound of the absolute values in all messages; infinity if unknown."""
        clean = self.clean_messages.bound_magnitude()
        return self.randomizer.bound_output(clean) if math.isfinite(clean) else math.inf

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all clients' randomized messages, in the shape of one message.

        A ``SumRandomizer`` computes it from the sum of the clean messages. For other randomizers,
        the messages are randomized and summed by blocks of clients.
        """
        if isinstance(self.randomizer, SumRandomizer):
            return self.randomizer.randomize_sum(self.clean_messages.sum_all(), self.streams)
        return super(RandomizedMessages, self).sum_all()

    def drop_rows(self, count: int) -> Component:
        """Returns the messages without their first ``count`` rows.

        The noise of the remaining rows is unchanged.
        """
        clean = self.clean_messages.drop_rows(count)
        randomize = self.randomizer.skip_entries(count * math.prod(self.shape[1:]))
        return RandomizedMessages(clean, randomize, self.streams)

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Computes selected rows of each client's randomized message, shape (n, k, *shape[1:]).

        ``rows`` (n, k) holds the indices of k rows for each of the n ``clients``. Noise is drawn
        for these rows only.
        """
        clean = self.clean_messages.select_rows(clients, rows)
        single = self.randomizer.skip_entries(rows.ravel() * math.prod(self.shape[1:]))
        streams = self.streams.take(np.repeat(clients, rows.shape[1]))
        sent = single(clean.reshape(rows.size, *clean.shape[2:]), streams)
        return np.asarray(sent).reshape(clean.shape)


@dataclass(frozen=True, slots=True)
class Reports(Component):
    """k randomized reports per client, each +B or -B for one coordinate of the client's matrix.

    coordinates: flat index of the reported coordinate in the matrix, per report (n, k)
    is_positive: whether the report is +B, per report (n, k)
    magnitude: the public number B
    shape: shape (M, F) of the client's matrix, from which each report takes one coordinate
    clean_messages: the matrices that the reports describe; None if the system does not keep them
    """

    coordinates: Ints
    is_positive: NDArray[np.bool_]
    magnitude: float
    shape: tuple[int, int] = field()
    clean_messages: Component | None = None

    per_client_fields = ("coordinates", "is_positive", "clean_messages")
    kind, learning_rate = Payload.REPORTS, None

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Estimates each client's matrix from its k reports; shape (len(clients), M, F).

        The estimate is the mean of k matrices, one per report. Each of them has +B or -B
        (``magnitude``) at the reported coordinate and zeros elsewhere. ``clients`` are indices.
        """
        index, sign = self.coordinates[clients], np.where(self.is_positive[clients], 1.0, -1.0)
        n, k = index.shape
        size = math.prod(self.shape)
        flat = (np.arange(n)[:, None] * size + index).ravel()
        sums = np.bincount(flat, weights=sign.ravel(), minlength=n * size)
        return np.asarray((sums * (self.magnitude / k)).reshape(n, *self.shape))

    def sum_all(self) -> NDArray[Any]:
        """Computes the sum of all matrices that ``to_dense`` estimates, shape (items, factors)."""
        size = math.prod(self.shape)
        counts = np.bincount((2 * self.coordinates + self.is_positive).ravel(), minlength=2 * size)
        sums = counts[1::2] - counts[::2]
        return np.asarray((sums * (self.magnitude / self.coordinates.shape[1])).reshape(self.shape))

    def select_rows(self, clients: Ints, rows: Ints) -> NDArray[Any]:
        """Estimates selected rows of each client's matrix, as ``to_dense`` does, (n, k, factors).

        ``rows`` (n, k) holds the indices of k rows for each of the n ``clients``.
        """
        width, index = self.shape[1], self.coordinates[clients]
        out = np.zeros((*rows.shape, width))
        for k, row in enumerate(rows.T):
            client, report = np.nonzero(index // width == row[:, None])
            sign = np.where(self.is_positive[clients[client], report], 1.0, -1.0)
            np.add.at(out[:, k], (client, index[client, report] % width), sign)
        return np.asarray(out * (self.magnitude / index.shape[1]))

    def split_into_reports(self) -> Reports:
        """Returns every report as a separate message: n k messages for n clients with k reports
        each.

        In the result, ``clean_messages`` is None.
        """
        index, positive = self.coordinates.reshape(-1, 1), self.is_positive.reshape(-1, 1)
        return Reports(index, positive, self.magnitude, self.shape)


def _max_abs(values: NDArray[Any]) -> float:
    """Returns the largest absolute value, or infinity if a value is NaN, without a copy."""
    if not values.size:
        return 0.0
    ends = float(values.max()), float(values.min())
    return math.inf if any(map(math.isnan, ends)) else max(map(abs, ends))


def _max_row_norm(rows: NDArray[Any]) -> float:
    """Returns the largest Euclidean norm of a row, or infinity if a value is NaN."""
    return math.sqrt(_max_abs(np.einsum("nd,nd->n", rows, rows, dtype=np.float64)))


def _get_first_part(made: Component) -> Component:
    first: Component = getattr(made, made.per_client_fields[0])
    return first


def _take_clients(part: Any, clients: Ints) -> Any:
    """Returns the entries of ``clients`` (indices) in ``part``, which has one entry per client."""
    if isinstance(part, np.ndarray | sparse.csr_array):
        return part[clients]
    return None if part is None else part.take(clients)


def _find_entries(indptr: Ints, clients: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns the client and the index of every stored entry of ``clients``.

    The client is an index into ``clients``, and the entry's index counts the entries of all
    clients.
    """
    starts, sizes = indptr[clients], np.diff(indptr)[clients]
    rows = np.repeat(np.arange(len(clients)), sizes)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows, np.asarray(np.repeat(starts, sizes) + offsets, dtype=np.intp)


def _locate_rows(
    indptr: Ints, ids: Ints, clients: Ints, wanted: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Returns flags of the ``wanted`` row ids (n, k) that a client has stored, and their entry
    indices.

    The entry index is valid only for a row whose flag is true. Each client's ``ids`` are in
    ascending order.
    """
    owners, entries = _find_entries(indptr, clients)
    if not len(entries):
        return np.zeros(wanted.shape, np.bool_), np.zeros(wanted.shape, np.intp)
    own = ids[entries].astype(np.int64)
    step = 1 + max(int(own.max()), int(wanted.max(initial=0)))
    keys, asked = owners * step + own, np.arange(len(clients))[:, None] * step + wanted
    places = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    return keys[places] == asked, entries[places]
