"""Joined: files of users, of items and of ratings, read as declared, become ``Interactions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import (
    SPACED,
    Column,
    broken,
)
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.pairs import Pairs, in_order, latest

ID = Column(what="identifier")
STARS = {
    "user": (0, Column(what="user id", written=SPACED)),
    "item": (1, Column(what="item id", written=SPACED)),
    "rating": (2, Column(what="rating", low=1, high=5, written=SPACED)),
    "timestamp": (3, Column(what="timestamp", written=SPACED)),
}
"""The columns of MovieLens 100K and 1M, whole numbers that may be written as others are."""
_Readers = dict[int, tuple[str, Callable[[str], Any]]]
"""By place of a column what a cell is, and what reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """An attribute of users in column ``at``: ``categories``, and the code of each word there.

    By default the words are the categories' names. ``what`` names a word in errors.
    """

    at: int
    what: str
    categories: tuple[str, ...]
    written: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Genres:
    """Genres of items in column ``at``, in any order; no word is allowed."""

    at: int
    names: tuple[str, ...]
    separator: str = "|"

    def flags(self, text: str) -> list[bool]:
        """Genres of a cell, (genres,); KeyError at a word that is none."""
        words = {name: name for name in self.names}
        met = {words[word] for word in text.split(self.separator) if word}
        return [name in met for name in self.names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file of users or items: identifiers as they stand there (n,), and what it says of each."""

    place: str
    ids: NDArray[np.int64]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    titles: Sequence[str] = ()
    genres: NDArray[np.bool_] | None = None
    genre_names: tuple[str, ...] = ()


def users(file: Delimited, **traits: Trait) -> Known:
    """A file of users, their identifiers first; InputError with the first line that breaks."""
    words = [trait.written or _places(trait.categories) for trait in traits.values()]
    cells = {
        trait.at: (f"{trait.what}, one of {', '.join(known)},", known.__getitem__)
        for trait, known in zip(traits.values(), words, strict=True)
    }
    ids, *codes = _cells(file, cells)
    return Known(
        place=file.place,
        ids=ids,
        attributes={
            name: Attribute(codes=np.array(code, dtype=np.int64), categories=trait.categories)
            for (name, trait), code in zip(traits.items(), codes, strict=True)
        },
    )


def movies(file: Delimited, genres: Genres | None, flags: Sequence[str] = ()) -> Known:
    """A file of movies: identifiers, titles, and ``genres``, or from column 5 on ``flags``.

    InputError with the first line that breaks.
    """
    flag = ("a genre flag, one of 0, 1,", {"0": False, "1": True}.__getitem__)
    cells: _Readers = {1: ("a title", str)}
    if genres:
        cells[genres.at] = (f"genres among {', '.join(genres.names)},", genres.flags)
    else:
        cells |= dict.fromkeys(range(5, 5 + len(flags)), flag)
    ids, titles, *met = _cells(file, cells)
    return Known(
        place=file.place,
        ids=ids,
        titles=titles,
        genres=np.array(met[0]) if genres else np.array(met).T,
        genre_names=genres.names if genres else tuple(flags),
    )


def _cells(file: Delimited, readers: _Readers) -> list[Any]:
    """The identifiers in column 0, (n,), and a list for each reader of what it makes of a cell.

    InputError at the first cell that it refuses by a KeyError.
    """
    ids: list[NDArray[Any]] = []
    found: list[list[Any]] = [[] for _ in readers]
    for block in file.blocks({0: ID, **dict.fromkeys(readers, "text")}):
        ids.append(block.numbers(0))
        for (at, (what, read)), made in zip(readers.items(), found, strict=True):
            for row, text in enumerate(block.texts(at)):
                try:
                    made.append(read(text))
                except KeyError as error:
                    raise block.error(row, at, what) from error
    return [_distinct(file, np.concatenate(ids)), *found]


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _distinct(file: Delimited, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The identifiers; InputError with the line of the first that stands there twice."""
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[place] != np.arange(len(ids)))
    if again.size:
        row = int(again[0])
        before = file.line(int(first[place[row]]))
        raise broken(file.line(row), f"an identifier not yet on {before},", str(ids[row]))
    return ids


def assemble(name: str, users: Known, items: Known, pairs: Pairs) -> Interactions:
    """Join the files: rows are the users who rated, columns the items that were rated.

    A pair may stand once only, and both its ends must be known; InputError says where it does not.
    Memory: about 25 bytes a pair beside pairs and result, if they are in the order of users and
    items, as the official files are; else about 45.
    """
    row_at = _known(pairs.user_ids, pairs.row, users, "user", pairs.where)
    item_at = _known(pairs.item_ids, pairs.column, items, "movie", pairs.where)
    order = latest(pairs.row, pairs.column, pairs.shape[1])
    if not isinstance(order, slice) and len(order) < len(pairs.row):
        raise _repeated(pairs)
    kept = pairs.row[order], pairs.column[order], pairs.ratings[order]
    times = pairs.timestamps
    return Interactions(
        name=name,
        users=pairs.user_ids,
        items=pairs.item_ids,
        ratings=in_order(*kept, pairs.shape),
        timestamps=None if times is None else times[order].astype(np.int64),
        attributes={
            key: replace(each, codes=each.codes[row_at]) for key, each in users.attributes.items()
        },
        genres=None if items.genres is None else items.genres[item_at],
        genre_names=items.genre_names,
        titles=tuple(items.titles[at] for at in item_at),
    )


def _repeated(pairs: Pairs) -> InputError:
    """The error for the first pair that stands twice."""
    key = pairs.row * np.int64(pairs.shape[1]) + pairs.column
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    at = again[np.argmin(order[again + 1])]
    first, second = int(order[at]), int(order[at + 1])
    user = pairs.user_ids[pairs.row[second]]
    thing = f"movie {pairs.item_ids[pairs.column[second]]}"
    return InputError(
        f"Expected each pair of user and movie once, got user {user} and {thing} "
        f"in {pairs.where(second)}, and before in {pairs.where(first)}. Keep one of them."
    )


def _known(
    ids: NDArray[np.int64],
    index: NDArray[np.int32],
    known: Known,
    what: str,
    where: Callable[[int], str],
) -> NDArray[np.int64]:
    """The place of each of ``ids`` in ``known``; InputError at the first row of none of them."""
    order = np.argsort(known.ids)
    at = order[np.minimum(np.searchsorted(known.ids, ids, sorter=order), len(known.ids) - 1)]
    strange = np.flatnonzero(known.ids[at] != ids)
    if strange.size:
        row = int(np.argmax(np.isin(index, strange)))
        raise InputError(
            f"Expected a {what} of {known.place} in {where(row)}, got {what} {ids[index[row]]}. "
            f"Give the {what} a line there, or take this one out."
        )
    return at
