"""Input tables of attribute classifiers, made of users' uploads, and inner products of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.parts import reading, uploads
from fedrec_auditor.attacks.readers.base import compute_posterior
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader
from fedrec_auditor.targets.transcript import Payload, View

Floats32 = NDArray[np.float32]

# Inner products of the rows of a wide table, which are sufficient for most classifiers.
#
# A support vector machine, nearest neighbours, and any penalised linear or first layer depend on
# rows only through their inner products: n^2 numbers instead of n d, computed once for all
# classifiers, attributes and draws of known users.

_PRODUCT_BLOCK = 1024  # number of columns that are added up in single precision
_DOUBLE = 1 << 32  # maximum number of multiplications that are all done in double precision
_MANY = 1024  # number of rows above which products are stored in single precision
# Share of the largest eigenvalue below which an eigenvalue is a rounding error, in double and in
# single precision.
_MIN64, _MIN32 = 1e-9, 1e-5


@dataclass(frozen=True, slots=True)
class InnerProducts:
    """Inner products of the rows of a table, which are sufficient for most classifiers.

    gram_matrix: inner product of each pair of rows (n, n)
    row_sums: sum of all entries of each row (n,)
    width: number of columns of the table
    """

    gram_matrix: NDArray[np.floating[Any]]
    row_sums: NDArray[np.float64]
    width: int

    @classmethod
    def from_blocks(cls, blocks: Iterable[Floats32], n_rows: int, width: int) -> Self:
        """Computes the inner products of the rows of a table that arrives in blocks of columns.

        blocks: the columns, in arrays (rows, any number of columns)
        n_rows: number of rows n
        width: number of columns d in all blocks

        Precision is double if n^2 d is at most 2^32. For larger tables the relative error is some
        1e-7. The result for more than 1,024 rows is stored in single precision.
        """
        # The computation takes n^2 d / 2 multiplications. If n^2 d exceeds 2^32, up to 1,024
        # columns are added up in single precision and everything else in double.
        kind: Any = np.float64 if n_rows * n_rows * width <= _DOUBLE else np.float32
        inner, sums = np.zeros((n_rows, n_rows)), np.zeros(n_rows)
        for columns in blocks:
            sums += columns.sum(axis=1, dtype=np.float64)
            for start in range(0, columns.shape[1], _PRODUCT_BLOCK):
                block = columns[:, start : start + _PRODUCT_BLOCK].astype(kind)
                inner += block @ block.T
        return cls(inner if n_rows <= _MANY else inner.astype(np.float32), sums, width)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Returns the inner products of the table that has the columns of all ``parts``."""
        inner, sums = parts[0].gram_matrix, parts[0].row_sums
        for part in parts[1:]:
            inner, sums = inner + part.gram_matrix, sums + part.row_sums
        return cls(inner, sums, sum(part.width for part in parts))

    def get_singular_vectors(self, count: int) -> NDArray[np.float64]:
        """Returns left singular vectors of the table for its ``count`` largest singular values.

        The result is (n, count). Columns beyond the rank are zero; all entries are NaN if an inner
        product is not finite. The method is seeded random projections (Halko, Martinsson and Tropp
        2011).
        """
        # The cost is some 500 n^2 multiplications for 30 vectors.
        from sklearn.utils.extmath import randomized_svd

        out = np.full((len(self.gram_matrix), count), np.nan)
        if not np.isfinite(self.gram_matrix).all():
            return out
        vectors, values, _ = randomized_svd(self.gram_matrix, count, n_iter=4, random_state=0)
        out[:] = 0
        kept = values > (_MIN64 if self.gram_matrix.dtype == np.float64 else _MIN32) * values.max()
        out[:, : len(values)][:, kept] = vectors[:, kept]
        return out

    def divide_rows(self, scale: float) -> Self:
        """Returns the inner products of the table whose entries are divided by ``scale``."""
        inner = self.gram_matrix / np.asarray(scale**2, dtype=self.gram_matrix.dtype)
        return type(self)(inner, self.row_sums / scale, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class GramBlocks:
    """Inner products of a classifier's input rows: k users with known class, and m others.

    known_gram: inner products of the rows of users with known class (k, k)
    cross_gram: inner products of the other users' rows with these rows (m, k)
    squared_norms: squared lengths of the other users' rows (m,)
    known_sum: sum of all entries of the rows of users with known class
    width: number of columns of a row
    """

    known_gram: NDArray[np.float64]
    cross_gram: NDArray[np.float64]
    squared_norms: NDArray[np.float64]
    known_sum: float
    width: int

    @property
    def entry_variance(self) -> float:
        """Variance over all entries of the input rows of users with known class."""
        entries = len(self.known_gram) * self.width
        mean_square = float(np.trace(self.known_gram)) / entries
        return max(0.0, mean_square - (self.known_sum / entries) ** 2)

    def compute_squared_distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns squared distances of users' input rows to those of the k users with known class.

        The results are two arrays: for these k users themselves (k, k), and for the m other users
        (m, k).
        """
        own = np.diag(self.known_gram)
        near = np.maximum(own[:, None] + own - 2 * self.known_gram, 0)
        np.fill_diagonal(near, 0)
        return near, np.maximum(self.squared_norms[:, None] + own - 2 * self.cross_gram, 0)

    def compute_span_coordinates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Projects all users' input rows onto the span of the rows of users with known class.

        Returns the r coordinates of each projection, for a span of r dimensions, as two arrays:
        for users of known class (k, r), and for all others (m, r).
        """
        # The coordinates keep all inner products with the known users' rows. These rows give no
        # information about the part of an unknown user's row outside their span.
        values, vectors = np.linalg.eigh(self.known_gram)
        kept = values > _MIN64 * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.zeros((len(self.known_gram), 1)), np.zeros((len(self.cross_gram), 1))
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        return vectors * roots, self.cross_gram @ (vectors / roots)


# Inputs of classifiers: tables of all uploads of each user, computed in several ways.
#
# An ``InputTable`` is a table with one row per sender. It is computed at its first use,
# and only the inner products of its rows stay in memory, because its columns may take a gibibyte.

# Names of input tables, which ``add_input_tables`` describes.
SUMMARY, RAW, NORMS = "summary", "raw change", "row norms"
VECTORS, ITEMS = "user vectors", "interaction set"
_DIRECTIONS = 10, 30
_CLIP = 5.0
_UNHEARD = 1e-3  # share of the largest weight, below which an input is ignored
_KEPT = 1 << 23
_BLOCK = 1 << 19  # how many numbers are standardised at once: 2 MiB, which fits caches
_TINY = 1e-15
_TOGETHER = 1 << 12  # number of columns per part of a table that is known without the uploads
# Maximum number of entries of an input table: 1 GiB.
MAX_TABLE_ENTRIES = 1 << 28
# Maximum number of senders of an input table; inner products of their rows take 288 MiB.
MAX_TABLE_ROWS = 6144
# Number of users above which an input table has at most ``MAX_TABLE_ENTRIES`` / 8 entries and 512
# users.
MAX_USERS_FULL_TABLE = 20_000
# A function that fills an array (n, width) for users (n,) and returns the indices of the rows that
# it wrote; and a part of a table: its number of columns, and the function that writes them.
_Writer = Callable[[Floats32, NDArray[Any]], NDArray[np.intp]]
_Part = tuple[int, _Writer]


def get_max_entries_and_rows(users: int) -> tuple[int, int]:
    """Returns the maximum number of entries, and of rows (senders), of a classifier's input table.

    If the system has more than 20,000 ``users``, the limits are divided by 8 and by 12.
    """
    # Smaller limits save memory, and hardly change results, because a sample of many users is
    # sufficient.
    if users <= MAX_USERS_FULL_TABLE:
        return MAX_TABLE_ENTRIES, MAX_TABLE_ROWS
    return MAX_TABLE_ENTRIES // 8, MAX_TABLE_ROWS // 12


class InputTable:
    """A table computed from uploads, one row per user, which attribute classifiers take as input.

    users: index of the user of each row, ascending (n,)
    parts: groups of columns, each as the number of columns and the function that computes them
    scaled: True to divide each column by its standard deviation and clip it to [-5, 5]; False to
        divide all columns by one number, which makes their mean variance 1
    width: number of columns

    Columns are centred over all senders, with and without known class. The table is computed at its
    first use.
    """

    # The adversary sees the uploads of all senders, so that all of them may be used. The broadcast
    # model, which is equal for all, cancels.

    def __init__(
        self, users: NDArray[np.integer[Any]], parts: list[_Part], *, scaled: bool = True
    ) -> None:
        self.users, self.width = users, sum(width for width, _ in parts)
        self._parts, self._scaled = parts, scaled
        self._kept: Floats32 | None = None

    def compute_values(self) -> Floats32:
        """Returns the table, float32 (n, width); NaN if the messages contain NaN.

        A table of more than 2^23 numbers (32 MiB) is computed anew in every call.
        """
        if self._kept is not None:
            return self._kept
        values = np.zeros((len(self.users), self.width), dtype=np.float32)
        start = 0
        for width, read in self._parts:
            for _ in self._fill_blocks(values[:, start : start + width], read):
                pass
            start += width
        if not self._scaled:
            with np.errstate(invalid="ignore", over="ignore"):
                values /= np.float32(np.linalg.norm(values) / np.sqrt(max(1, values.size)) or 1.0)
        if self._is_small:
            values.flags.writeable = False
            self._kept = values
        return values

    @cached_property
    def inner_products(self) -> InnerProducts:
        """Inner products of the rows, computed once; a large table is processed in blocks."""
        n = len(self.users)
        if self._is_small:
            return InnerProducts.from_blocks([self.compute_values()], n, self.width)
        products = InnerProducts.from_blocks(self._iter_blocks(), n, self.width)
        if self._scaled:
            return products
        with np.errstate(invalid="ignore", over="ignore"):
            spread = float(np.sqrt(np.trace(products.gram_matrix) / max(1, n * self.width)))
            return products.divide_rows(spread or 1.0)

    @property
    def _is_small(self) -> bool:
        return len(self.users) * self.width <= _KEPT

    def _iter_blocks(self) -> Iterator[Floats32]:
        """Yields all columns, in blocks."""
        for width, read in self._parts:
            yield from self._fill_blocks(np.zeros((len(self.users), width), dtype=np.float32), read)

    def _fill_blocks(self, part: Floats32, read: _Writer) -> Iterator[Floats32]:
        """Computes one group of columns by the function ``read``, and yields the columns in blocks.

        The columns are centred and scaled in the array ``part`` (n, width of the group).
        """
        with np.errstate(invalid="ignore", over="ignore"):
            yield from _standardise(part, read(part, self.users), scaled=self._scaled)

    @cached_property
    def defect(self) -> str:
        """Reason why this input table is unusable; an empty string if it is usable."""
        if not np.isfinite(self.inner_products.gram_matrix).all():
            return "the messages contain numbers that are not finite."
        if not np.trace(self.inner_products.gram_matrix) > 0:
            return "these features are equal for all users."
        return ""


@dataclass(frozen=True, slots=True)
class JointTable:
    """Several input tables of the same users, joined column by column, as inner products only.

    users: index of the user of each row, ascending (n,)
    inner_products: inner products of the rows of the joined table
    """

    users: NDArray[np.integer[Any]]
    inner_products: InnerProducts

    @classmethod
    def combine(cls, inputs: Mapping[str, InputTable], weights: Mapping[str, float]) -> Self:
        """Combines input tables by weights: each table's sum of squares is scaled to its weight.

        inputs: input tables by name, all of the same users
        weights: weight of each table, by name; tables with a weight of at most 0.001 are ignored
        """
        parts = []
        for name, weight in weights.items():
            if weight > _UNHEARD:
                products = inputs[name].inner_products
                scale = float(np.sqrt(np.trace(products.gram_matrix) / weight))
                parts.append(products.divide_rows(scale))
        return cls(next(iter(inputs.values())).users, InnerProducts.join(parts))

    @property
    def width(self) -> int:
        """Number of columns of all combined input tables together."""
        return self.inner_products.width


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewWithInputs(View):
    """A view (the messages that an adversary sees) with input tables for attribute classifiers.

    inputs: input tables, by name; they are stored here so that several attacks share them
    has_mandatory_input: True if attacks must use the only input table, and may not guess without
        uploads
    """

    inputs: Mapping[str, InputTable]
    has_mandatory_input: bool = False

    def with_only_input(self, name: str) -> ViewWithInputs:
        """Returns a copy of the view with one of its ``inputs``, the table ``name``, which attacks
        must then use.
        """
        return replace(self.with_inputs({name: self.inputs[name]}), has_mandatory_input=True)

    def with_inputs(self, inputs: Mapping[str, InputTable]) -> ViewWithInputs:
        """Returns a copy of the view whose input tables are ``inputs`` (by name)."""
        return replace(self, inputs=MappingProxyType(dict(inputs)))

    def drop_uploads(self) -> View:
        """Returns a view of the broadcast models only, without uploads and ``inputs``."""
        return self._drop_inputs().drop_uploads()

    def keep_part_group(self, group: str) -> View:
        """Returns a view of one group of message components (such as "user") alone, without
        ``inputs``.
        """
        return self._drop_inputs().keep_part_group(group)

    def _drop_inputs(self) -> View:
        return View(vantage=self.vantage, public=self.public, rounds=self.rounds, notes=self.notes)


def add_input_tables(view: View) -> ViewWithInputs:
    """Returns a copy of the view with input tables for attribute classifiers, made of the uploads.

    A table has one row per sender. The numbers are means over the rounds that are read
    (``uploads.select_rounds``). The tables are:

    - ``SUMMARY``: which rows and columns of a matrix each device changes (``find_changed_rows``).
      If all devices change all of them: the components as sent. Gradients that reveal interactions
      are then replaced by the interactions.
    - ``RAW``: all changes of the model, divided by one number for all columns. Zhang et al.,
      section 3.3, use this input: the change of the model in a round, divided by the learning rate.
    - ``NORMS``: the length of the change of each row of each matrix.
    - ``VECTORS``: user vectors that are inferred from messages (``find_readers``).
    - ``ITEMS``: interactions that are inferred from messages, divided by one number for all
      columns.
    - "10 leading directions" and "30 leading directions" of ``SUMMARY``, and of ``ITEMS``:
      principal components, of variance 1.
    - "user only" and similar names: the summary of one group of components, if there are several.

    A view that already has input tables is returned unchanged. Tables have a maximum size
    (``get_max_entries_and_rows``). For more senders, only the last ones are read.
    """
    # One number for all columns of ``ITEMS`` gives an item with few users a low weight. Leading
    # directions show the common part of many columns, even if each column is mostly noise. The
    # attacker of Zhang et al. has the senders of one round (section 3.3), which are 604 users of
    # MovieLens 1M.
    # In FedRec a device changes some of 600 rows and columns, among them those of the user's own
    # features, which would have little weight among the 127,000 numbers of the whole upload. On
    # MovieLens 100K, with 30% of users known, the macro F1 of the MLP for gender is .91 with the
    # summary of changed rows and columns, and .65 with all numbers.
    if isinstance(view, ViewWithInputs):
        return view
    inputs: dict[str, InputTable] = {}
    if sent := uploads.list_linked_components(view):
        parts = _list_parts(view)
        widest = sum(_size(view, name) for name in sent)
        users = _choose_users(view, max(widest, sum(width for width, _ in parts)))
        inputs[SUMMARY] = InputTable(users, parts)
        if changes := uploads.read_model_messages(view):
            raw: list[_Part] = [(_size(view, n), partial(_write_mean, view, n)) for n in changes]
            inputs[RAW] = InputTable(users, raw, scaled=False)
            norms: list[_Part] = [
                (rounds[0].component.shape[0], partial(_write_norms, view, name))
                for name, rounds in changes.items()
                if len(rounds[0].component.shape) == 2
            ]
            if norms:
                inputs[NORMS] = InputTable(users, norms)
        for name, part in _infer_parts(view, users):
            inputs[name] = InputTable(users, [part], scaled=name != ITEMS)
        for name in (SUMMARY, ITEMS):
            for count in _DIRECTIONS if name in inputs else ():
                table = InputTable(users, [(count, partial(_project, inputs[name]))], scaled=False)
                inputs[f"{count} leading directions, {name}"] = table
        for group in view.group_names if len(view.group_names) > 1 else ():
            inputs[f"{group} only"] = InputTable(users, _list_parts(view.keep_part_group(group)))
    return ViewWithInputs(
        vantage=view.vantage,
        public=view.public,
        rounds=view.rounds,
        inputs=MappingProxyType(inputs),
        notes=list(view.notes),
    )


def make_input_table(
    data: NDArray[Any] | sparse.csr_array, users: NDArray[np.integer[Any]]
) -> InputTable:
    """Makes a classifier's input table from data about users that do not come from uploads.

    data: the data, such as profiles, one row per user (n_users, d); sparse data are read as 1 for
        each nonzero entry, and 0 elsewhere
    users: indices of the users in the input table (n,)
    """
    table = data if isinstance(data, np.ndarray) else data[users].tocsc()

    # Fills ``out`` (n, columns) with the columns of the users' data from ``start`` on. Returns the
    # indices of the filled rows, which are all n rows.
    def write(start: int, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
        columns = slice(start, start + out.shape[1])
        if isinstance(table, np.ndarray):
            out[:] = table[users, columns]
        else:
            out[:] = table[:, columns].toarray() != 0
        return np.arange(len(users))

    width = data.shape[1]
    starts = range(0, width, _TOGETHER)
    return InputTable(users, [(min(_TOGETHER, width - at), partial(write, at)) for at in starts])


def _size(view: View, name: str) -> int:
    return int(np.prod(uploads.get_last_messages(view, name).shape))


def _choose_users(view: View, width: int) -> NDArray[np.integer[Any]]:
    """Returns the users of the input tables, ascending: all senders, or the last that fit."""
    users = uploads.find_senders(view)
    numbers, most = get_max_entries_and_rows(view.public.n_users)
    remaining = min(most, max(2, numbers // max(1, width)))
    if len(users) <= remaining:
        return users
    chosen = users[:0]
    for seen in reversed(view.rounds):
        if seen.uploads is not None and remaining:
            new = np.setdiff1d(seen.uploads.users, chosen)
            count = min(remaining, len(new))
            chosen = np.concatenate([chosen, new[np.arange(count) * len(new) // max(1, count)]])
            remaining -= count
    return np.sort(chosen)


def _list_parts(view: View) -> list[_Part]:
    """Returns the parts of the summary table: widths, and functions that write the columns."""
    patterns = uploads.find_changed_rows(view)
    if patterns:
        return [(part.is_changed.shape[1], partial(_flag_rows, part)) for part in patterns.values()]
    readable = not RankOneGradientsReader().refusal(view)
    table = uploads.find_item_table_name(view, (Payload.GRADIENT,)) if readable else None
    return [
        (view.public.n_items, partial(_write_probs, view))
        if name == table
        else (_size(view, name), partial(_write_mean, view, name))
        for name in uploads.list_linked_components(view)
    ]


def _infer_parts(view: View, users: NDArray[np.integer[Any]]) -> Iterator[tuple[str, _Part]]:
    """Yields tables of user vectors and of interactions by name, if they can be inferred.

    The readers of messages in ``attacks/readers`` infer them.
    """
    if not reading.find_readers(view) or not len(users):
        return
    sample = reading.read_evidence(view, users[:1].astype(np.int64))
    if sample.user_vectors is not None:
        yield VECTORS, (sample.user_vectors.shape[1], partial(_write_vectors, view))
    if sample.log_ratio is not None:
        yield ITEMS, (view.public.n_items, partial(_write_probs, view))


def _flag_rows(moves: uploads.ChangedRows, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes into ``out`` which rows and columns each user changed; returns the written rows."""
    mine = np.isin(moves.users, users)
    places = np.searchsorted(users, moves.users[mine])
    out[places] = moves.is_changed[mine]
    return places


def _write_mean(view: View, name: str, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes the mean of each user's messages into ``out``; returns the indices of rows written.

    The broadcast model is subtracted from messages that are models. A row is one user.
    """
    rounds = uploads.select_rounds(view, name)
    changes = uploads.read_model_messages(view).get(name, ())
    count = np.zeros((len(users), 1), dtype=np.float32)
    read: Iterator[tuple[NDArray[np.intp], NDArray[Any]]]
    for number, (_, sent, component) in enumerate(rounds):
        if len(changes) == len(rounds):
            blocks = changes[number].iter_user_changes(users)
            read = ((whose, change) for whose, change, _ in blocks)
        else:
            read = uploads.iter_user_messages(users, sent.users, component)
        for whose, messages in read:
            count[whose] += 1
            out[whose] += messages.reshape(len(messages), out.shape[1])
    out /= np.maximum(count, 1)
    return np.flatnonzero(count)


def _write_norms(view: View, name: str, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes norms of the rows of each user's mean message into ``out``; returns rows written."""
    rows = out.shape[1]
    whole = np.zeros((len(users), _size(view, name)), dtype=np.float32)
    sent = _write_mean(view, name, whole, users)
    out[:] = np.linalg.norm(whole.reshape(len(users), rows, -1), axis=2)
    return sent


def _write_probs(view: View, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes each user's probabilities of interactions into ``out``; returns the rows written.

    The readers of messages in ``attacks/readers`` infer them.
    """
    out[:] = compute_posterior(reading.read_evidence(view, users.astype(np.int64)))
    return np.arange(len(users))


def _write_vectors(view: View, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes the user vectors that are inferred from messages into ``out``; returns rows written.

    The readers of messages in ``attacks/readers`` infer them.
    """
    out[:] = reading.read_evidence(view, users.astype(np.int64)).user_vectors
    return np.arange(len(users))


def _project(source: InputTable, out: Floats32, users: NDArray[Any]) -> NDArray[np.intp]:
    """Writes each user's position along the leading directions of ``source`` into ``out``."""
    out[:] = source.inner_products.get_singular_vectors(out.shape[1])
    return np.arange(len(users))


def _standardise(
    part: Floats32, senders: NDArray[np.integer[Any]], *, scaled: bool
) -> Iterator[Floats32]:
    """Centres, scales and clips the columns of ``part`` over the rows ``senders``, in place.

    Yields each block of columns when it is done; rows of other users become 0. Columns are scaled
    and clipped only if ``scaled``.
    """
    # Blocks fit a cache, so that the additional memory does not grow with ``part``. Means are
    # subtracted twice, which removes the rounding error of the first subtraction.
    step = max(1, _BLOCK // max(1, len(part)))
    n = np.float32(max(1, len(senders)))
    ones = np.ones(len(senders), dtype=np.float32)
    for start in range(0, part.shape[1], step):
        columns = part[:, start : start + step]
        sent = columns[senders]
        mean = (ones @ sent) / n
        sent -= mean
        sent -= (ones @ sent) / n
        if scaled:
            scale = np.sqrt(np.einsum("ij,ij->j", sent, sent) / n)
            beyond = ~(np.isfinite(scale) & (scale > _TINY))  # float32 loses the squares
            scale[beyond] = sent[:, beyond].std(axis=0, dtype=np.float64)
            scale[scale <= 1e-6 * np.abs(mean)] = 1.0
            sent /= scale
            np.clip(sent, -_CLIP, _CLIP, out=sent)
        columns[:] = 0
        columns[senders] = sent
        yield columns
