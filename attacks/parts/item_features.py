"""Features of each item in messages of any form: numbers, marks, and places in lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from fedrec_auditor.attacks.parts.uploads import kept, last, lists_of, names, senders
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import Broadcast, Component, Kind, View

# Marks of an item in messages of devices that have met it: its codes, or places in a sketch.
#
# A list of hashes holds that of each item met, a Bloom filter or a count-min sketch is not empty in
# each item's places. Whoever can run the code finds out which these are: those that are there in
# the messages of all devices that met the item, and not in all others (group testing: Dorfman
# 1943).

Held = NDArray[np.float32]

MOST = 2**13
"""Codes, or places, of a part of which marks are looked for."""
SIGNED = 512
"""Places of a signature at most."""
_RARE, _ALWAYS = 0.01, 0.98  # shares of the messages that hold what tells nothing
_NEARLY = 0.98  # as often as an item's best mark


@dataclass(frozen=True, slots=True)
class Marks:
    """Of one part of messages: which of ``codes`` (v,), or of ``places`` (v,), are each item's.

    Codes are those of lists (n, L) of whole numbers, places those of parts (n, d) that hold
    something else than ``still`` (v,). ``halves`` are shares (v, M) of an item's mark, found by
    either half of the messages. ``alone`` (M, d) are signatures of devices that met a single item:
    each place is that of one of a history's items (MinHash), or near it.
    """

    codes: NDArray[Any]
    places: NDArray[np.intp] | None
    still: NDArray[Any]
    halves: tuple[Held, Held]
    alone: NDArray[Any] | None

    @classmethod
    def of(
        cls,
        sent: NDArray[Any],
        met: NDArray[np.bool_],
        alone: NDArray[Any] | None,
        *,
        listed: bool,
    ) -> Self:
        """Of what devices sent who ``met`` (n, M) these, and those who met an item ``alone``."""
        whole = sent.dtype.kind in "biu"
        if listed:
            each, counts = np.unique(sent, return_counts=True)
            codes = np.sort(each[np.argsort(-counts, kind="stable")[:MOST]])
            held, still = _listed(sent, codes), codes[:0]
        else:
            codes, still = sent[0, :0], sent.min(axis=0) if whole else np.median(sent, axis=0)
            held = (sent != still).astype(np.float32)
        share = held.mean(axis=0)
        tells = np.flatnonzero((share >= _RARE) & (share < _ALWAYS))
        halves = _marks(held[:, tells], met)
        if listed:
            return cls(codes[tells], None, still, halves, None)
        signed = whole and sent.shape[1] <= SIGNED
        return cls(codes, tells, still[tells], halves, alone if signed else None)

    def read(self, sent: NDArray[Any]) -> tuple[Held, Held]:
        """How much of each item's mark these messages hold, (n, M), as either half knows it."""
        if self.places is None:
            held = _listed(sent, self.codes)
        else:
            held = (sent[:, self.places] != self.still).astype(np.float32)
        return held @ self.halves[0], held @ self.halves[1]

    def alike(self, sent: NDArray[Any]) -> Held | None:
        """In how many places messages are as of a device that met the item alone, (n, M)."""
        if self.alone is None:
            return None
        count = np.zeros((len(sent), len(self.alone)), np.float32)
        for mine, other in zip(sent.T, self.alone.T, strict=True):
            count += mine[:, None] == other
        return count


def _listed(sent: NDArray[Any], codes: NDArray[Any]) -> Held:
    """Which codes are in which list, (n, v)."""
    held = np.zeros((len(sent), len(codes)), np.float32)
    if len(codes):
        at = np.searchsorted(codes, sent).clip(max=len(codes) - 1)
        row, column = np.nonzero(codes[at] == sent)
        held[row, at[row, column]] = 1.0
    return held


def _marks(held: Held, met: NDArray[np.bool_]) -> tuple[Held, Held]:
    """Of each item, by either half of the messages, what is held nearly as often as anything is."""
    share, found = held.mean(axis=0), []
    for half in (0, 1):
        those = met[half::2].astype(np.float32)
        often = held[half::2].T @ those / np.maximum(those.sum(axis=0), 1.0)
        mark = (often >= _NEARLY * often.max(axis=0, initial=0.0)) & (often > share[:, None])
        found.append((mark / np.maximum(mark.sum(axis=0), 1)).astype(np.float32))
    return found[0], found[1]


# Features of each item in any message, in numbers that mean the same for all items.
#
# A part of a message speaks of items by an axis as long as the catalogue, or by listing them. What
# does neither is given as it is.

Numbers = NDArray[np.float64]
_FEW = 4  # numbers an item that are told one by one
_STEPS = 8  # of power iteration
_WIDTH = 1_024  # of a message's numbers, others share a place
_TINY = 1e-12
_TOGETHER = 2**24  # numbers


@dataclass(slots=True)
class ItemFeatures:
    """Features of some messages: ``items`` are (n, M) arrays, ``others`` (n, d) arrays.

    ``rows`` (n, M, k) are the numbers that speak of an item, beside these times its own part of
    the broadcast. ``marked`` are parts (n, d) as they were sent that are
    lists, and such of which no axis is of items.
    """

    n_items: int
    rows: list[Numbers] = field(default_factory=list)
    items: list[Numbers] = field(default_factory=list)
    others: list[Numbers] = field(default_factory=list)
    marked: list[tuple[bool, NDArray[Any]]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        components: Mapping[str, Component],
        broadcast: Broadcast | None,
        n_items: int,
        listing: Collection[str],
    ) -> ItemFeatures:
        """Those of the messages of one round, all of them, by what the broadcast was.

        Of parts called like those of ``listing`` entries are codes, whatever they are.
        """
        made, listed = cls(n_items), {}
        parts = {name: part.dense(np.arange(len(part))) for name, part in components.items()}
        made.marked = marked(parts, n_items, listing)
        for name, sent in parts.items():
            base = (broadcast or {}).get(name)
            alike = base is not None and np.shape(base) == sent.shape[1:]
            if alike and components[name].kind is Kind.MODEL:
                sent = sent - base
            along = n_items in sent.shape[1:]
            if along:
                made._along(sent, base if alike else None)
            if name in listing:
                listed[name] = sent
            elif not along:
                made._plain(sent)
        for name, ids in listed.items():
            made._listed(ids, [part for other, part in parts.items() if other != name])
        return made

    def _along(self, sent: NDArray[Any], base: NDArray[Any] | None) -> None:
        """Parts (n, *shape) with an axis of items: their entries and sizes, and where they point.

        An item's numbers are told one by one if they are few. Of more, their length, their places
        along the message's sum and along its principal direction, and along the item's own part of
        the broadcast.
        """
        axis = sent.shape[1:].index(self.n_items)
        rows = np.moveaxis(sent, axis + 1, 1).reshape(len(sent), self.n_items, -1)
        rows = rows.astype(np.float64)
        self.items.append((rows != 0).any(axis=2).astype(np.float64))
        if rows.shape[2] <= _FEW:
            for number in np.moveaxis(rows, 2, 0):
                self._ranked(number)
        self.rows.append(rows)
        if rows.shape[2] > 1:
            length = np.linalg.norm(rows, axis=2)
            total = _unit(rows.sum(axis=1))
            direction = total + _TINY
            for _ in range(_STEPS):
                place = np.einsum("nmk,nk->nm", rows, direction)
                direction = _unit(np.einsum("nmk,nm->nk", rows, place))
            place = np.einsum("nmk,nk->nm", rows, direction)
            place *= np.where((place**3).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
            along = np.einsum("nmk,nk->nm", rows, total)
            for number in (length, along, place):
                self._ranked(number)
            self.items.append(along / np.maximum(length, _TINY))
        if base is not None:
            own = np.moveaxis(base, axis, 0).reshape(self.n_items, -1)
            self.rows.append(rows * own)
            self.items.append(np.einsum("nmk,mk->nm", rows, own))
            self.items.append(
                np.broadcast_to(np.linalg.norm(own, axis=1), rows.shape[:2]).astype(np.float64)
            )

    def _listed(self, ids: NDArray[Any], beside: list[NDArray[Any]]) -> None:
        """Lists (n, L) that may name items: how often and where first, and what stands ``beside``.

        That are numbers (n, L) or (n, L, k) of other parts, in the same places.
        """
        count = len(ids)
        named = (ids >= 0) & (ids < self.n_items)
        whose, at = np.nonzero(named)
        item = ids[whose, at]
        times = np.zeros((count, self.n_items))
        np.add.at(times, (whose, item), 1.0)
        place = np.full((count, self.n_items), 2.0)
        np.minimum.at(place, (whose, item), at / ids.shape[1])
        self.items += [times, place]
        for part in beside:
            if part.shape[:2] != ids.shape or part[0].size > _FEW * ids.shape[1]:
                continue
            for number in np.moveaxis(part.reshape(*ids.shape, -1).astype(np.float64), 2, 0):
                for values in (number, _rank(number)):
                    held = np.full((count, self.n_items), -1.0)
                    held[whose, item] = values[whose, at]
                    self.items.append(held)

    def _plain(self, sent: NDArray[Any]) -> None:
        """All numbers of a part, or many of them added up with random signs."""
        flat = sent.reshape(len(sent), -1).astype(np.float64)
        width = flat.shape[1]
        if width > _WIDTH:
            rng = np.random.default_rng(0)
            signs = (
                rng.choice([-1.0, 1.0], width),
                (np.arange(width), rng.integers(_WIDTH, size=width)),
            )
            flat = np.asarray(flat @ sparse.csr_array(signs, shape=(width, _WIDTH)))
        self.others.append(flat)

    def _ranked(self, number: Numbers) -> None:
        self.items += [number, _rank(number)]


def marked(
    parts: Mapping[str, NDArray[Any]], n_items: int, listing: Collection[str]
) -> list[tuple[bool, NDArray[Any]]]:
    """Parts (n, *shape) as ``Marks`` take them: as lists, and as places if there are few enough."""
    found = []
    for name, sent in parts.items():
        size = int(np.prod(sent.shape[1:]))
        if name in listing:
            found.append((True, sent))
        if n_items not in sent.shape[1:] and size <= MOST:
            found.append((False, sent.reshape(len(sent), size)))
    return found


def is_signature(part: Component) -> bool:
    """Whether a part may be one: some whole numbers or bits."""
    whole = part.dense(np.arange(min(1, len(part)))).dtype.kind in "biu"
    return whole and _FEW < int(np.prod(part.shape)) <= SIGNED


def lists(components: Mapping[str, Component]) -> frozenset[str]:
    """Which parts are lists of whole numbers, by all messages."""
    found = []
    for name, part in components.items():
        if len(part.shape) == 1 and len(part) and part.dense(np.arange(1)).dtype.kind in "iu":
            parts = blocks(len(part), part.shape[0], _TOGETHER)
            messages = (part.dense(np.arange(some.start, some.stop)) for some in parts)
            found += [name] * any((each > 1).any() for each in messages)
    return frozenset(found)


def _rank(values: Numbers) -> Numbers:
    """The share of a message's entries that are smaller, half of those that are equal; (n, L)."""
    return np.asarray(rankdata(values, axis=1) / values.shape[1])


def _unit(rows: Numbers) -> Numbers:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY))


# Lists: how often users list each code, in which place, and beside what.
#
# Memory is that of some arrays of users times codes, and of the entries of one round.

Floats = NDArray[np.float64]
TENTHS = 10


def seen_codes(view: View, name: str, most: int | None = None) -> NDArray[np.int64]:
    """All codes that are listed, ascending; or those, ``most``, that come up most."""
    everybody = senders(view).astype(np.int64)
    codes, counts = np.zeros(0, np.int64), np.zeros(0)
    for _, uploads, component in kept(view, name):
        sent = lists_of(everybody, uploads.users, component).entries
        new, more = np.unique(sent, return_counts=True)
        codes, place = np.unique(np.concatenate([codes, new]), return_inverse=True)
        found = np.bincount(place, np.concatenate([counts, more]), len(codes))
        counts = np.asarray(found, np.float64)
    return np.sort(codes[np.argsort(-counts, kind="stable")[:most]])


@dataclass(frozen=True, slots=True)
class SeenLists:
    """What users (n,) list of codes (D,) in so many ``rounds`` (n, 1).

    In how many of them ``once`` or ``more`` often, (n, D) each. ``place`` (n, D) is the last of the
    places that a code has among those of the list, by rounds, inf where one is without it; ``size``
    (n,) how many the longest list has, ``ascending`` (n,) how many lists are sorted. Lists that are
    ``turned`` are read from their end.
    ``key`` (E,) is the user and the code, u D + c, of each code that a user lists, ascending,
    and ``tenths`` (2, 10, E) how many of its entries stand in each tenth of their lists, and how
    many in each by the number beside them, the first where there is none.
    """

    rounds: Floats
    once: Floats
    more: Floats
    place: Floats
    size: Floats
    ascending: Floats
    key: NDArray[np.int64]
    tenths: NDArray[np.unsignedinteger[Any]]

    @classmethod
    def of(
        cls,
        view: View,
        name: str,
        codes: NDArray[np.int64],
        users: NDArray[np.int64],
        turned: bool = False,
    ) -> SeenLists:
        """What ``users`` (n,), ascending, list of ``codes`` (D,), ascending."""
        shape = len(users), len(codes)
        rounds, size, ascending = np.zeros((shape[0], 1)), np.zeros(shape[0]), np.zeros(shape[0])
        once, more, place = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        read, beside = kept(view, name), _beside(view, name)
        tenths = np.zeros((2, TENTHS, shape[0] * shape[1]), np.min_scalar_type(len(read)))
        for _, uploads, component in read:
            numbers = None if beside is None else uploads.components[beside]
            sent = lists_of(users, uploads.users, component, numbers)
            first, code, times = _distinct(sent.row, sent.entries, codes)
            row = sent.row[first]
            whose, count = sent.places[row], np.bincount(row, minlength=len(sent.places))
            turn = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
            if turned:
                turn = count[row] - 1 - turn
            falls = row[1:][(np.diff(code) < 0) & (np.diff(row) == 0)]
            rounds[sent.places] += 1
            once[whose, code] += times == 1
            more[whose, code] += times > 1
            place[whose, code] = np.maximum(place[whose, code], turn)
            size[sent.places] = np.maximum(size[sent.places], count)
            ascending[sent.places] += np.bincount(falls, minlength=len(count)) == 0
            key = whose * shape[1] + code
            tenths[0, turn * TENTHS // count[row], key] += 1
            tenths[1, 0 if numbers is None else _tenths(sent.numbers[first], row), key] += 1
        place[once + more < rounds] = np.inf
        key = np.flatnonzero(once + more)
        return cls(rounds, once, more, place, size, ascending, key, tenths[:, :, key])

    def of_users(self, some: NDArray[np.bool_]) -> SeenLists:
        """That of some of the users."""
        if some.all():
            return self
        owner, code = np.divmod(self.key, self.once.shape[1])
        theirs = some[owner]
        key = (np.cumsum(some) - 1)[owner[theirs]] * self.once.shape[1] + code[theirs]
        parts = {f.name: getattr(self, f.name)[some] for f in fields(self)[:-2]}
        return SeenLists(**parts, key=key, tenths=self.tenths[:, :, theirs])


def _beside(view: View, name: str) -> str | None:
    """What has a number for each entry of the list; None if nothing has."""
    shape = last(view, name).shape
    alike = (n for n in names(view) if last(view, n).shape == shape and n != name)
    return next((n for n in alike if last(view, n).kind is Kind.RATINGS), None)


def _distinct(
    row: NDArray[np.intp], entries: NDArray[np.int64], codes: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Of ``entries`` of lists every code once, by lists and in their order, without unknown ones.

    The first entry, which of ``codes`` it is, and how often it is in the list.
    """
    code = np.searchsorted(codes, entries).clip(max=len(codes) - 1)
    known = np.flatnonzero(codes[code] == entries)
    key = row[known] * len(codes) + code[known]
    first, times = np.unique(key, return_index=True, return_counts=True)[1:]
    order = np.argsort(first)
    first = known[first[order]]
    return first, code[first], times[order]


def _tenths(numbers: NDArray[Any], row: NDArray[np.intp]) -> NDArray[np.intp]:
    """In which tenth of its list each number is; those of a list, ``row``, are together."""
    order = np.lexsort((numbers, row))
    count = np.bincount(row)
    rank = np.empty(len(row), np.intp)
    rank[order] = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return np.asarray(rank * TENTHS // count[row])
