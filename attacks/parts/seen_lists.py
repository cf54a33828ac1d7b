"""What is seen of lists: how often users list each code, in which place, and beside what.

Memory is that of some arrays of users times codes, and of the entries of one round.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import kept, last, lists_of, names, senders
from fedrec_auditor.targets.transcript import Kind, View

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
