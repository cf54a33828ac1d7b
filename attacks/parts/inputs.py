"""Inputs of classifiers: everything that a user uploaded, read in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.parts.uploads import (
    Moves,
    entries_of,
    item_name,
    kept,
    last,
    model_messages,
    moves,
    names,
    senders,
)
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.targets.transcript import Kind, View

# Inner products of the rows of a wide table: all that most classifiers need of it.
#
# A support vector machine, nearest neighbours, and any penalised linear or first layer see rows
# through their inner products alone: n^2 numbers instead of n d, computed once for all classifiers,
# attributes and draws of known users.

_PRODUCT_BLOCK = 1024  # columns that are added up in single precision
_DOUBLE = 1 << 32  # multiplications up to which all is in double precision
_MANY = 1024  # rows, beyond which products are kept in single precision
_LEAST, _SINGLE = 1e-9, 1e-5  # of the largest eigenvalue: below is rounding, of either precision


@dataclass(frozen=True, slots=True)
class Products:
    """``inner`` (n, n) of rows, their ``sums`` (n,) over ``width`` columns."""

    inner: NDArray[np.floating[Any]]
    sums: NDArray[np.float64]
    width: int

    @classmethod
    def of(cls, blocks: Iterable[NDArray[np.float32]], rows: int, width: int) -> Self:
        """Those of n ``rows`` of a table in ``blocks`` of columns, by n^2 d / 2 multiplications.

        In double precision where these are few; beyond, up to 1,024 columns are added up in single
        precision and all else in double: a relative error of some 1e-7. Of more than 1,024 rows the
        result is kept in single precision.
        """
        kind: Any = np.float64 if rows * rows * width <= _DOUBLE else np.float32
        inner, sums = np.zeros((rows, rows)), np.zeros(rows)
        for columns in blocks:
            sums += columns.sum(axis=1, dtype=np.float64)
            for start in range(0, columns.shape[1], _PRODUCT_BLOCK):
                block = columns[:, start : start + _PRODUCT_BLOCK].astype(kind)
                inner += block @ block.T
        return cls(inner if rows <= _MANY else inner.astype(np.float32), sums, width)

    @classmethod
    def beside(cls, parts: Sequence[Self]) -> Self:
        """Those of the rows of several tables as one."""
        inner, sums = parts[0].inner, parts[0].sums
        for part in parts[1:]:
            inner, sums = inner + part.inner, sums + part.sums
        return cls(inner, sums, sum(part.width for part in parts))

    def leading(self, count: int) -> NDArray[np.float64]:
        """The left singular vectors of the ``count`` largest singular values: (n, count).

        Zeros beyond the rank, NaN where products are not finite. By random projections (Halko,
        Martinsson and Tropp 2011), seeded: some 500 n^2 multiplications for 30.
        """
        from sklearn.utils.extmath import randomized_svd

        out = np.full((len(self.inner), count), np.nan)
        if not np.isfinite(self.inner).all():
            return out
        vectors, values, _ = randomized_svd(self.inner, count, n_iter=4, random_state=0)
        out[:] = 0
        kept = values > (_LEAST if self.inner.dtype == np.float64 else _SINGLE) * values.max()
        out[:, : len(values)][:, kept] = vectors[:, kept]
        return out

    def divided(self, scale: float) -> Self:
        """Those of the rows divided by ``scale``."""
        inner = self.inner / np.asarray(scale**2, dtype=self.inner.dtype)
        return type(self)(inner, self.sums / scale, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProducts:
    """What is read of k known rows and m others.

    ``among`` (k, k) and ``across`` (m, k) are inner products of the known with each other and of
    the others with them; ``sizes`` (m,) are the others' squared lengths; ``total`` is the sum of
    all entries of the known rows, which have ``width`` columns.
    """

    among: NDArray[np.float64]
    across: NDArray[np.float64]
    sizes: NDArray[np.float64]
    total: float
    width: int

    @property
    def variance(self) -> float:
        """Variance of all entries of the known rows, one over the other."""
        entries = len(self.among) * self.width
        return max(0.0, float(np.trace(self.among)) / entries - (self.total / entries) ** 2)

    def distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared distances among the known, (k, k), and of the others to them, (m, k)."""
        own = np.diag(self.among)
        near = np.maximum(own[:, None] + own - 2 * self.among, 0)
        np.fill_diagonal(near, 0)
        return near, np.maximum(self.sizes[:, None] + own - 2 * self.across, 0)

    def coordinates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates (k, r) of the known rows in their own span, and (m, r) of the others'.

        A rotation: inner products stay as they are, of the others' with the known. What of the
        others is outside the span no known user tells anything about.
        """
        values, vectors = np.linalg.eigh(self.among)
        kept = values > _LEAST * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.zeros((len(self.among), 1)), np.zeros((len(self.across), 1))
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        return vectors * roots, self.across @ (vectors / roots)


# Inputs of classifiers: everything that a user uploaded, read in several ways.
#
# A reading (``Input``) is a table of columns, a row a sender. Each is made when it is first needed,
# and of it only the inner products of its rows are kept: its columns may be a gibibyte.

SUMMARY, RAW, NORMS = "summary", "raw change", "row norms"
VECTORS, ITEMS = "user vectors", "interaction set"
_DIRECTIONS = 10, 30
_CLIP = 5.0
_UNHEARD = 1e-3  # of the weight of the heaviest reading
_KEPT = 1 << 23
_BLOCK = 1 << 19  # numbers that are standardised at once: 2 MiB, which caches hold
_TINY = 1e-15
_TOGETHER = 1 << 12  # columns of a table that is known, in one part
NUMBERS = 1 << 28
"""Most numbers of a reading: 1 GiB."""
SENDERS = 6144
"""Most senders of a reading: the inner products of their rows take 288 MiB."""
MANY = 20_000
"""Users beyond which an eighth of the numbers, and 512 senders, are read."""
_Part = tuple[int, Callable[[NDArray[np.float32], NDArray[Any]], NDArray[np.intp]]]
"""A number of columns, and what writes them: what it reads of the users (n,) into (n, width); the
rows it wrote are returned."""


def most_read(users: int) -> tuple[int, int]:
    """Most numbers and most senders of a reading of so many users' messages.

    Of many users a part tells about all what it tells of them, in less memory.
    """
    return (NUMBERS, SENDERS) if users <= MANY else (NUMBERS // 8, SENDERS // 12)


class Input:
    """One reading of the uploads: ``width`` columns of ``users`` (n,), ascending.

    Columns are centred over all senders, labelled or not, which the adversary sees too: what
    everybody was sent drops out. With ``scaled`` they are divided by their standard deviations and
    clipped at five of them; otherwise all by one number, which leaves their mean variance at 1.
    """

    def __init__(
        self, users: NDArray[np.integer[Any]], parts: list[_Part], *, scaled: bool = True
    ) -> None:
        self.users, self.width = users, sum(width for width, _ in parts)
        self._parts, self._scaled = parts, scaled
        self._kept: NDArray[np.float32] | None = None

    def values(self) -> NDArray[np.float32]:
        """The columns, (n, width); NaN where messages have some.

        Of more than 2^23 numbers (32 MiB) they are read anew in every call.
        """
        if self._kept is not None:
            return self._kept
        values = np.zeros((len(self.users), self.width), dtype=np.float32)
        start = 0
        for width, read in self._parts:
            for _ in self._columns(values[:, start : start + width], read):
                pass
            start += width
        if not self._scaled:
            with np.errstate(invalid="ignore", over="ignore"):
                spread = np.linalg.norm(values) / np.sqrt(max(1, values.size))
                values /= np.float32(spread or 1.0)
        if self._small:
            values.flags.writeable = False
            self._kept = values
        return values

    @cached_property
    def products(self) -> Products:
        """Inner products of the rows, made once; of a large table a part at a time is held."""
        n = len(self.users)
        if self._small:
            return Products.of([self.values()], n, self.width)
        products = Products.of(self._blocks(), n, self.width)
        if self._scaled:
            return products
        with np.errstate(invalid="ignore", over="ignore"):
            spread = float(np.sqrt(np.trace(products.inner) / max(1, n * self.width)))
            return products.divided(spread or 1.0)

    @property
    def _small(self) -> bool:
        return len(self.users) * self.width <= _KEPT

    def _blocks(self) -> Iterator[NDArray[np.float32]]:
        """All columns, some at a time."""
        for width, read in self._parts:
            yield from self._columns(np.zeros((len(self.users), width), dtype=np.float32), read)

    def _columns(
        self,
        part: NDArray[np.float32],
        read: Callable[[NDArray[np.float32], NDArray[Any]], NDArray[np.intp]],
    ) -> Iterator[NDArray[np.float32]]:
        """The columns of one part, some at a time; ``part`` holds them in the end."""
        with np.errstate(invalid="ignore", over="ignore"):
            sent = read(part, self.users)
            yield from _standardised(part, sent, scaled=self._scaled)

    @cached_property
    def problem(self) -> str:
        """Why nothing can be read, a sentence; empty where something can."""
        if not np.isfinite(self.products.inner).all():
            return "The messages hold numbers that are not finite."
        if not np.trace(self.products.inner) > 0:
            return "The messages are the same of every user."
        return ""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Several readings of the same ``users`` (n,) as one: inner products of their columns."""

    users: NDArray[np.integer[Any]]
    products: Products

    @classmethod
    def of(cls, inputs: Mapping[str, Input], weights: Mapping[str, float]) -> Self:
        """All columns beside each other, the squares of each reading scaled to its weight."""
        parts = [
            inputs[name].products.divided(float(np.sqrt(np.trace(inputs[name].products.inner) / w)))
            for name, w in weights.items()
            if w > _UNHEARD
        ]
        return cls(next(iter(inputs.values())).users, Products.beside(parts))

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.products.width


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensed(View):
    """A view and its readings by name, shared by all who are given it.

    ``fixed`` leaves an attack no choice but to guess from its one reading.
    """

    inputs: Mapping[str, Input]
    fixed: bool = False

    def reading(self, name: str) -> Condensed:
        """The same view, of which one reading is taken, however little that tells."""
        return replace(self.beside({name: self.inputs[name]}), fixed=True)

    def beside(self, inputs: Mapping[str, Input]) -> Condensed:
        """The same view with other readings."""
        return replace(self, inputs=MappingProxyType(dict(inputs)))

    def without_uploads(self) -> View:
        """The broadcasts alone."""
        return self._whole().without_uploads()

    def only(self, group: str) -> View:
        """The components of one group, read anew."""
        return self._whole().only(group)

    def _whole(self) -> View:
        return View(vantage=self.vantage, public=self.public, rounds=self.rounds, how=self.how)


def condense(view: View) -> Condensed:
    """The view with its readings, of as many senders as fit; as it is if it has them.

    ``SUMMARY``: where devices leave rows or columns of a matrix unmoved (``moves``), which ones
    they move is all that is taken. In FedRec those of a user's own features are among 600, and
    would drown in the 127,000 numbers of the whole upload: on MovieLens 100K, with 30% of users
    known, the MLP then has a macro F1 of .91 instead of .65 for gender. Else, item gradients are
    read as the interaction sets they give away (``readers``), all other components as they are.
    ``RAW``: all changes of the model as they are, the paper's input (Theta^(t-1) - Theta^t) / mu of
    section 3.3 but for the one scale of all columns. ``NORMS``: the length of the change of each
    row of each matrix. ``VECTORS``, ``ITEMS``: user vectors and interactions, as readers tell
    them (``reading``), interactions by one scale: an item that few users met then weighs little.
    ``10 leading directions``, ``30``: how far each user is along those directions in which
    summaries, or interactions, differ most (principal components, of variance 1). Where every
    column is mostly noise, what many columns have in common is seen in these.
    And where messages have several groups of components, the summary of each by itself, "user
    only".

    Reports and bits, randomized afresh every round, and what messages would change in the model,
    are averaged over the rounds that are read (``uploads.kept``).

    Memory: the number of senders times the size of one message, float32, at most 1 GiB while a
    reading is made. Where that would be more, or where they are more than 6,144, as many of the
    senders are read as fit, who sent last: the paper's attacker has those of one round (section
    3.3), which are 604 of MovieLens 1M.
    """
    if isinstance(view, Condensed):
        return view
    inputs: dict[str, Input] = {}
    if sent := names(view):
        parts = _summary(view)
        widest = sum(_size(view, name) for name in sent)
        users = _subjects(view, max(widest, sum(width for width, _ in parts)))
        inputs[SUMMARY] = Input(users, parts)
        if changes := model_messages(view):
            raw: list[_Part] = [(_size(view, n), partial(_mean, view, n)) for n in changes]
            inputs[RAW] = Input(users, raw, scaled=False)
            norms: list[_Part] = [
                (rounds[0].component.shape[0], partial(_norms, view, name))
                for name, rounds in changes.items()
                if len(rounds[0].component.shape) == 2
            ]
            if norms:
                inputs[NORMS] = Input(users, norms)
        inputs |= {
            name: Input(users, [part], scaled=name != ITEMS)
            for name, part in _recovered(view, users)
        }
        inputs |= {
            f"{count} leading directions, {name}": Input(
                users, [(count, partial(_leading, inputs[name]))], scaled=False
            )
            for name in (SUMMARY, ITEMS)
            for count in _DIRECTIONS
            if name in inputs
        }
        for group in view.groups if len(view.groups) > 1 else ():
            inputs[f"{group} only"] = Input(users, _summary(view.only(group)))
    return Condensed(
        vantage=view.vantage,
        public=view.public,
        rounds=view.rounds,
        inputs=MappingProxyType(inputs),
        how=list(view.how),
    )


def table_input(values: NDArray[Any] | sparse.csr_array, users: NDArray[np.integer[Any]]) -> Input:
    """The reading of ``users`` (n,) of a table (n_users, d) that was not sent but is known.

    Of a sparse one, which entries there are.
    """
    table = values if isinstance(values, np.ndarray) else values[users].tocsc()

    def write(start: int, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
        columns = slice(start, start + out.shape[1])
        if isinstance(table, np.ndarray):
            out[:] = table[users, columns]
        else:
            out[:] = table[:, columns].toarray() != 0
        return np.arange(len(users))

    width = values.shape[1]
    starts = range(0, width, _TOGETHER)
    return Input(users, [(min(_TOGETHER, width - at), partial(write, at)) for at in starts])


def _size(view: View, name: str) -> int:
    return int(np.prod(last(view, name).shape))


def _subjects(view: View, width: int) -> NDArray[np.integer[Any]]:
    """The users whose summaries are made, ascending: all, or as many as fit, who sent last."""
    users = senders(view)
    numbers, most = most_read(view.public.n_users)
    left = min(most, max(2, numbers // max(1, width)))
    if len(users) <= left:
        return users
    chosen = users[:0]
    for seen in reversed(view.rounds):
        if seen.uploads is not None and left:
            new = np.setdiff1d(seen.uploads.users, chosen)
            count = min(left, len(new))
            chosen = np.concatenate([chosen, new[np.arange(count) * len(new) // max(1, count)]])
            left -= count
    return np.sort(chosen)


def _summary(view: View) -> list[_Part]:
    """How many columns each part of the summary has, and what writes it."""
    patterns = moves(view)
    if patterns:
        return [(part.moved.shape[1], partial(_moved, part)) for part in patterns.values()]
    gradients = None if RankOneGradients().refusal(view) else item_name(view, (Kind.GRADIENT,))
    return [
        (view.public.n_items, partial(_interactions, view))
        if name == gradients
        else (_size(view, name), partial(_mean, view, name))
        for name in names(view)
    ]


def _recovered(view: View, users: NDArray[np.integer[Any]]) -> Iterator[tuple[str, _Part]]:
    """User vectors and interaction sets, where a reader tells them."""
    if not reading.reading(view) or not len(users):
        return
    sample = reading.evidence(view, users[:1].astype(np.int64))
    if sample.vectors is not None:
        yield VECTORS, (sample.vectors.shape[1], partial(_vectors, view))
    if sample.log_ratio is not None:
        yield ITEMS, (view.public.n_items, partial(_interactions, view))


def _moved(moves: Moves, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """Which rows and columns each of ``users`` moved."""
    mine = np.isin(moves.users, users)
    places = np.searchsorted(users, moves.users[mine])
    out[places] = moves.moved[mine]
    return places


def _mean(view: View, name: str, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """The mean of each sender's messages, of models less the broadcast."""
    rounds, changes = kept(view, name), model_messages(view).get(name, ())
    count = np.zeros((len(users), 1), dtype=np.float32)
    read: Iterator[tuple[NDArray[np.intp], NDArray[Any]]]
    for number, (_, uploads, component) in enumerate(rounds):
        if len(changes) == len(rounds):
            read = ((whose, change) for whose, change, _ in changes[number].changes_of(users))
        else:
            read = entries_of(users, uploads.users, component)
        for whose, messages in read:
            count[whose] += 1
            out[whose] += messages.reshape(len(messages), out.shape[1])
    out /= np.maximum(count, 1)
    return np.flatnonzero(count)


def _norms(
    view: View, name: str, out: NDArray[np.float32], users: NDArray[Any]
) -> NDArray[np.intp]:
    """The length of each row of the mean of each sender's messages."""
    rows = out.shape[1]
    whole = np.zeros((len(users), _size(view, name)), dtype=np.float32)
    sent = _mean(view, name, whole, users)
    out[:] = np.linalg.norm(whole.reshape(len(users), rows, -1), axis=2)
    return sent


def _interactions(view: View, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """How probable the readers of messages make each interaction."""
    out[:] = posterior(reading.evidence(view, users.astype(np.int64)))
    return np.arange(len(users))


def _vectors(view: View, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """The user vectors that messages give away."""
    out[:] = reading.evidence(view, users.astype(np.int64)).vectors
    return np.arange(len(users))


def _leading(source: Input, out: NDArray[np.float32], users: NDArray[Any]) -> NDArray[np.intp]:
    """The leading directions of another reading of the same users."""
    out[:] = source.products.leading(out.shape[1])
    return np.arange(len(users))


def _standardised(
    part: NDArray[np.float32], senders: NDArray[np.integer[Any]], *, scaled: bool
) -> Iterator[NDArray[np.float32]]:
    """Centre, scale and clip the columns over ``senders``, in place; all others become 0.

    By blocks of columns, which a cache holds: what is held beside ``part`` does not grow with it.
    Means are taken twice, the second time of what the first leaves, which rounding does not touch.
    """
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
            beyond = ~(np.isfinite(scale) & (scale > _TINY))  # squares that single precision loses
            scale[beyond] = sent[:, beyond].std(axis=0, dtype=np.float64)
            scale[scale <= 1e-6 * np.abs(mean)] = 1.0
            sent /= scale
            np.clip(sent, -_CLIP, _CLIP, out=sent)
        columns[:] = 0
        columns[senders] = sent
        yield columns
