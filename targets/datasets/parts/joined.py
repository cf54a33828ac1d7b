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
from fedrec_auditor.targets.datasets.base import Attribute, Interactions, find_indices
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


# The columns of MovieLens 100K and 1M: whole numbers, written in any form of a number.
RATING_COLS = {
    "user": (0, Column(what="user id", written=PADDED_REGEX)),
    "item": (1, Column(what="item id", written=PADDED_REGEX)),
    "rating": (2, Column(what="rating", low=1, high=5, written=PADDED_REGEX)),
    "timestamp": (3, Column(what="timestamp", written=PADDED_REGEX)),
}
# Name of a cell in error messages, and function that reads a cell, by position of the column.
Cells = Mapping[int, tuple[str, Callable[[str], Any]]]


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

    @property
    def cell(self) -> tuple[str, Callable[[str], int]]:
        """Name of a cell in error messages, and the function that reads a cell."""
        words = self.written or {name: place for place, name in enumerate(self.categories)}
        return f"{self.what}, one of {', '.join(words)},", words.__getitem__


def genre_words(at: int, names: Sequence[str], separator: str = "|") -> Cells:
    """Returns the column at position ``at`` with the genres of a movie in any order, or none."""
    words = {name: name for name in names}

    def read(text: str) -> list[bool]:
        present = {words[word] for word in text.split(separator) if word}
        return [name in present for name in names]

    return {at: (f"genres among {', '.join(names)},", read)}


def genre_flags(first: int, names: Sequence[str]) -> Cells:
    """Returns the columns from position ``first`` on with a 0 or a 1 for each genre."""
    flag = ("a genre flag, one of 0, 1,", {"0": False, "1": True}.__getitem__)
    return dict.fromkeys(range(first, first + len(names)), flag)


def join_files(
    name: str,
    pairs: PairRows,
    users: Delimited,
    attributes: Mapping[str, UserColumn],
    movies: Delimited,
    genres: Cells,
    genre_names: tuple[str, ...],
) -> Interactions:
    """Joins ratings with a file of users and a file of movies, under the given ``name``.

    Identifiers are in the first column of both files, and titles in the second of ``movies``. Rows
    of the result are the users with a rating, and columns are the movies with a rating. Raises
    InputError at the first invalid line of a file, and with the place of a pair that occurs twice,
    or whose user or movie has no line in its file. Memory, in addition to pairs and result: about
    25 bytes per pair if the pairs are in the order of users and items, as in the official files, or
    else about 45.
    """
    cells = {column.at: column.cell for column in attributes.values()}
    codes = _read_cells(users, cells, pairs.users, "user", pairs.row_name)
    titled: Cells = {1: ("a title", str), **genres}
    titles, *flags = _read_cells(movies, titled, pairs.items, "movie", pairs.row_name)
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
            key: Attribute(codes=np.array(code, dtype=np.int64), categories=column.categories)
            for (key, column), code in zip(attributes.items(), codes, strict=True)
        },
        genres=np.column_stack([np.array(flag) for flag in flags]),
        genre_names=genre_names,
        titles=tuple(titles),
    )


def _read_cells(
    file: Delimited, cells: Cells, wanted: EncodedIds, what: str, where: Callable[[int], str]
) -> list[list[Any]]:
    """Returns the ``cells`` of each wanted identifier, one list per column.

    Raises InputError at the first cell for which its function raises KeyError, at the first
    identifier that occurs twice, and at the first wanted identifier without a line. ``what`` is the
    name of an identifier, and ``where`` describes the row that has a wanted one.
    """
    numbers: list[NDArray[Any]] = []
    columns: list[list[Any]] = [[] for _ in cells]
    for block in file.blocks({0: Column(what="identifier"), **dict.fromkeys(cells, "text")}):
        numbers.append(block.numbers(0))
        for (at, (cell, read)), column in zip(cells.items(), columns, strict=True):
            for row, text in enumerate(block.texts(at)):
                try:
                    column.append(read(text))
                except KeyError as error:
                    raise block.field_error(row, at, cell) from error
    ids = np.concatenate(numbers)
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    if (again := np.flatnonzero(first[place] != np.arange(len(ids)))).size:
        before = file.row_name(int(first[place[again[0]]]))
        expected = f"an identifier that is absent from {before},"
        raise broken(file.row_name(int(again[0])), expected, str(ids[again[0]]))
    places = find_indices(wanted.ids, ids)
    if (strange := np.flatnonzero(places < 0)).size:
        row = int(np.argmax(np.isin(wanted.id_indices, strange)))
        raise InputError(
            f"Expected a {what} that occurs in {file.place} in {where(row)}, got {what} "
            f"{wanted.ids[wanted.id_indices[row]]}. Add a line for this {what}, or remove the row."
        )
    return [[column[place] for place in places] for column in columns]


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
