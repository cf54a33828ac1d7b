"""Readers of separate files of users, items and ratings, and their join as ``Interactions``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.cache import find_path
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.batches import TypedTable
from fedrec_auditor.targets.datasets.parts.columns import (
    PADDED_REGEX,
    Column,
    EncodedIds,
    IdCollector,
    RowBlock,
    broken,
)
from fedrec_auditor.targets.datasets.parts.source import Source
from fedrec_auditor.targets.datasets.parts.table_file import Delimited
from fedrec_auditor.targets.tables import is_table_path


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRows:
    """Rows of a file of interactions: user, item, and, if the file has them, rating and time.

    users, items: user and item of each of the n rows
    ratings: ratings (n,); 1 if the file has none
    timestamps: times (n,); None if the file has none
    row_name: function that returns the description of a row in error messages, by index
    """

    users: EncodedIds
    items: EncodedIds
    ratings: NDArray[np.float32]
    timestamps: NDArray[Any] | None
    row_name: Callable[[int], str]

    @classmethod
    def read(cls, file: Delimited | TypedTable, at: Mapping[str, tuple[int, Column | str]]) -> Self:
        """Reads users, items, ratings and times from a file.

        ``at`` maps "user", "item" and, if they exist, "rating" and "timestamp" to the position and
        the expected content of the column. Raises InputError with the first invalid line. Memory:
        20 bytes per row with timestamps, 12 without (8 more for ids over 2^31), and a copy of the
        largest column.
        """
        ends = {role: IdCollector(f"{role} of {file.place}") for role in ("user", "item")}
        ratings: list[NDArray[np.float32]] = []
        times: list[NDArray[Any]] = []
        for block in file.blocks(dict(at.values())):
            for role, each in ends.items():
                if isinstance(at[role][1], Column):
                    each.add(pa.array(block.numbers(at[role][0]).astype(np.int64, copy=False)))
                else:
                    block.collect_ids(at[role][0], each)
            if "rating" in at:
                ratings.append(_stars(block, at["rating"][0]))
            if "timestamp" in at:
                times.append(block.numbers(at["timestamp"][0]))
        codes = {role: each.make_codes() for role, each in ends.items()}
        count = len(codes["user"].id_indices)
        if count >= 2**31:
            raise broken(file.place, "fewer than 2^31 rows", count)
        return cls(
            users=codes["user"],
            items=codes["item"],
            ratings=np.concatenate(ratings) if ratings else np.ones(count, dtype=np.float32),
            timestamps=np.concatenate(times) if times else None,
            row_name=file.row_name,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of distinct users, and number of distinct items."""
        return len(self.users.ids), len(self.items.ids)

    def keep_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Returns the rows for which ``rows`` (n,) is True.

        Users and items that do not occur in these rows are dropped.
        """
        return replace(
            self,
            users=self.users.keep_rows(rows),
            items=self.items.keep_rows(rows),
            ratings=self.ratings[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
        )

    @property
    def pair_keys(self) -> NDArray[np.int64]:
        """One number per row (n,), which is equal for rows with the same user and item.

        In ascending order, the numbers sort the rows by user, then by item.
        """
        return np.asarray(self.users.id_indices * np.int64(self.shape[1]) + self.items.id_indices)

    def latest_rows(self) -> tuple[sparse.csr_array, NDArray[Any] | None]:
        """Returns the rating in the latest row of each user-item pair, and the times of these rows.

        The ratings have the shape (users, items). The times are in the order of the stored ratings;
        None if the file has no times. In this case, the latest row is the last.
        """
        row, column, times, last = (
            self.users.id_indices,
            self.items.id_indices,
            self.timestamps,
            self._latest,
        )
        starts = np.append(0, np.cumsum(np.bincount(row[last], minlength=self.shape[0])))
        kept = (self.ratings[last], column[last], starts.astype(np.int32))
        return sparse.csr_array(kept, shape=self.shape), None if times is None else times[last]

    @property
    def _latest(self) -> NDArray[np.int64] | slice:
        """Row indices in the order of users and items, with one row per user-item pair.

        If a pair is repeated, its row is the latest, or, without times, the last.
        """
        key = self.pair_keys
        if (key[1:] > key[:-1]).all():
            return slice(None)
        order: NDArray[np.int64] = np.argsort(key)
        last = np.append(np.diff(key[order]) > 0, True)
        if not last.all():  # equal pairs: by time, then by their order in the file
            times = self.timestamps
            order = np.argsort(key, kind="stable") if times is None else np.lexsort((times, key))
        kept: NDArray[np.int64] = order[last]
        return kept


def _stars(block: RowBlock, at: int) -> NDArray[np.float32]:
    """Returns the ratings of a block; InputError at a rating that float32 cannot represent."""
    values = block.numbers(at)
    with np.errstate(over="ignore", under="ignore"):
        stars = values.astype(np.float32)
    good = np.isfinite(stars) & ((stars != 0) | (values == 0))
    if not good.all():
        raise block.field_error(int(np.argmin(good)), at, "a rating that float32 can hold")
    return stars


ID_FIELD = Column(what="identifier")
# The columns of MovieLens 100K and 1M: whole numbers, written in any form of a number.
RATING_COLS = {
    "user": (0, Column(what="user id", written=PADDED_REGEX)),
    "item": (1, Column(what="item id", written=PADDED_REGEX)),
    "rating": (2, Column(what="rating", low=1, high=5, written=PADDED_REGEX)),
    "timestamp": (3, Column(what="timestamp", written=PADDED_REGEX)),
}
# Name of a cell in error messages, and function that reads a cell, by position of the column.
_Readers = dict[int, tuple[str, Callable[[str], Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserColumn:
    """A user attribute, and its column in a file of users.

    at: position of the column, from 0
    what: name of a cell in error messages, such as "a gender"
    categories: names of the attribute's categories
    written: index in ``categories`` of each word in the column; if empty, the words are the names
        of the categories
    """

    at: int
    what: str
    categories: tuple[str, ...]
    written: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenreColumn:
    """A column with the genres of items, in any order; a cell may be empty.

    at: position of the column, from 0
    names: names of all genres
    separator: text between the genres in a cell
    """

    at: int
    names: tuple[str, ...]
    separator: str = "|"

    def genre_flags(self, text: str) -> list[bool]:
        """Returns one flag per genre in ``names`` for the ``text`` of a cell; KeyError at an
        unknown genre.
        """
        words = {name: name for name in self.names}
        present = {words[word] for word in text.split(self.separator) if word}
        return [name in present for name in self.names]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideData:
    """Attributes of users, or titles and genres of items, read from a file of users or of items.

    place: name of the file in error messages
    ids: identifiers of the n users or items, in the order of the file (n,)
    attributes: attributes of users, by name; empty for items
    titles: titles of items (n,); empty for users
    genres: flags of the genres of items (n, genres); None for users
    genre_names: names of the genres
    """

    place: str
    ids: NDArray[np.int64]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    titles: Sequence[str] = ()
    genres: NDArray[np.bool_] | None = None
    genre_names: tuple[str, ...] = ()


def read_users(file: Delimited, **traits: UserColumn) -> SideData:
    """Reads a file of users: identifiers from the first column, and attributes from other columns.

    ``traits`` describes the column of each attribute, by the attribute's name. Raises InputError at
    the first invalid line.
    """
    words = [trait.written or _places(trait.categories) for trait in traits.values()]
    cells = {
        trait.at: (f"{trait.what}, one of {', '.join(known)},", known.__getitem__)
        for trait, known in zip(traits.values(), words, strict=True)
    }
    ids, *codes = _cells(file, cells)
    return SideData(
        place=file.place,
        ids=ids,
        attributes={
            name: Attribute(codes=np.array(code, dtype=np.int64), categories=trait.categories)
            for (name, trait), code in zip(traits.items(), codes, strict=True)
        },
    )


def read_movies(file: Delimited, genres: GenreColumn | None, flags: Sequence[str] = ()) -> SideData:
    """Reads a file of movies: identifiers from the first column, titles from the second, and
    genres.

    genres: column of the genres; None if the file has one column of 0 and 1 per genre
    flags: names of the genres in the columns of 0 and 1, from position 5 on, counted from 0

    Raises InputError at the first invalid line.
    """
    flag = ("a genre flag, one of 0, 1,", {"0": False, "1": True}.__getitem__)
    cells: _Readers = {1: ("a title", str)}
    if genres:
        cells[genres.at] = (f"genres among {', '.join(genres.names)},", genres.genre_flags)
    else:
        cells |= dict.fromkeys(range(5, 5 + len(flags)), flag)
    ids, titles, *flagged = _cells(file, cells)
    return SideData(
        place=file.place,
        ids=ids,
        titles=titles,
        genres=np.array(flagged[0]) if genres else np.array(flagged).T,
        genre_names=genres.names if genres else tuple(flags),
    )


def _cells(file: Delimited, readers: _Readers) -> list[Any]:
    """Returns the identifiers in column 0 (n,), and for each reader the list of its results.

    ``readers`` maps the position of a column to the name of a cell in error messages and to a
    function that converts a cell. Raises InputError at the first cell for which a function raises
    KeyError.
    """
    ids: list[NDArray[Any]] = []
    columns: list[list[Any]] = [[] for _ in readers]
    for block in file.blocks({0: ID_FIELD, **dict.fromkeys(readers, "text")}):
        ids.append(block.numbers(0))
        for (at, (what, read)), made in zip(readers.items(), columns, strict=True):
            for row, text in enumerate(block.texts(at)):
                try:
                    made.append(read(text))
                except KeyError as error:
                    raise block.field_error(row, at, what) from error
    return [_distinct(file, np.concatenate(ids)), *columns]


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _distinct(file: Delimited, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns ``ids``; InputError with the line of the first identifier that occurs twice."""
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[place] != np.arange(len(ids)))
    if again.size:
        row = int(again[0])
        before = file.row_name(int(first[place[row]]))
        raise broken(
            file.row_name(row), f"an identifier that is absent from {before},", str(ids[row])
        )
    return ids


def join_files(name: str, users: SideData, items: SideData, pairs: PairRows) -> Interactions:
    """Joins users, items and their ratings to ``Interactions`` with the given ``name``.

    Rows of the result are the users with a rating, and columns are the items with a rating. Raises
    InputError with the place of a user-item pair that occurs twice, or whose user or item has no
    line in its file. Memory, in addition to pairs and result: about 25 bytes per pair if the pairs
    are in the order of users and items, as in the official files, or else about 45.
    """
    row_at = _known(pairs.users, users, "user", pairs.row_name)
    item_at = _known(pairs.items, items, "movie", pairs.row_name)
    table, times = pairs.latest_rows()
    if table.nnz < len(pairs.ratings):
        raise _repeated(pairs)
    return Interactions(
        name=name,
        users=pairs.users.ids,
        items=pairs.items.ids,
        ratings=table,
        timestamps=None if times is None else times.astype(np.int64),
        attributes={
            key: replace(each, codes=each.codes[row_at]) for key, each in users.attributes.items()
        },
        genres=None if items.genres is None else items.genres[item_at],
        genre_names=items.genre_names,
        titles=tuple(items.titles[at] for at in item_at),
    )


def _repeated(pairs: PairRows) -> InputError:
    """Creates the error for the first pair of user and movie that occurs twice."""
    users, items, key = pairs.users, pairs.items, pairs.pair_keys
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    at = again[np.argmin(order[again + 1])]
    first, second = int(order[at]), int(order[at + 1])
    user = users.ids[users.id_indices[second]]
    thing = f"movie {items.ids[items.id_indices[second]]}"
    return InputError(
        f"Expected each pair of user and movie once, got user {user} and {thing} in "
        f"{pairs.row_name(second)}, and before that in {pairs.row_name(first)}. Keep one of them."
    )


def _known(
    codes: EncodedIds, known: SideData, what: str, where: Callable[[int], str]
) -> NDArray[np.int64]:
    """Returns the index in ``known`` of each identifier in ``codes``.

    Raises InputError at the first row with an unknown identifier.
    """
    order = np.argsort(known.ids)
    near = np.searchsorted(known.ids, codes.ids, sorter=order)
    at = order[np.minimum(near, len(known.ids) - 1)]
    strange = np.flatnonzero(known.ids[at] != codes.ids)
    if strange.size:
        row = int(np.argmax(np.isin(codes.id_indices, strange)))
        raise InputError(
            f"Expected a {what} that occurs in {known.place} in {where(row)}, got {what} "
            f"{codes.ids[codes.id_indices[row]]}. Add a line for this {what}, or remove the row."
        )
    return at


LICENCE = (
    "MovieLens data are for research. Acknowledge them in publications (Harper and Konstan 2015, "
    "The MovieLens Datasets: History and Context, ACM TiiS 5(4), doi:10.1145/2827872); do not pass "
    "them on without permission; do not use them commercially without permission of GroupLens; "
    "do not suggest that the University of Minnesota endorses you."
)
GENDERS = ("F", "M")
GENRES = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
    "Western",
)  # fmt: skip


class MovieLens(ABC):
    """Base class of MovieLens data sets, read from a folder, an archive or the cache.

    name: name of the data set in MovieLens and in the cache
    layouts: the possible sets of file names, one tuple per set
    """

    __slots__ = ()

    name: ClassVar[str]
    layouts: ClassVar[tuple[tuple[str, ...], ...]]

    def recognises(self, path: Path) -> bool:
        """Whether the folder or archive ``path`` contains all files of one of the ``layouts``."""
        if os.path.isfile(path) and is_table_path(path):
            return False
        return Source(path, self.name).has_layout(self.layouts)

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from the folder or archive ``path``; if None, from the cache.

        Raises InputError, with the web address of the files, if the cache does not have them.
        """
        size = self.name[3:]
        remedy = (
            f"Fetch {self.name}.zip from https://grouplens.org/datasets/movielens/{size}/ and put "
            f"it there, or give its path. {LICENCE}"
        )
        place = find_path(path, self.name, f"MovieLens {size.upper()}", remedy)
        source = Source(place, self.name)
        return self.read(source, source.find_layout(self.layouts))

    @abstractmethod
    def read(self, source: Source, layout: tuple[str, ...]) -> Interactions:
        """Reads the interactions from ``source``; ``layout`` holds the names of the files to
        read.
        """
