"""Readers of separate files of ratings, users and movies, which are joined to ``Interactions``."""

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
from fedrec_auditor.targets.cache import find_data_path
from fedrec_auditor.targets.datasets.base import Attribute, Interactions, find_indices
from fedrec_auditor.targets.datasets.parts.batches import TypedTable
from fedrec_auditor.targets.datasets.parts.columns import (
    PADDED_NUMBER_REGEX,
    EncodedIds,
    IdCollector,
    NumberColumn,
    RowBlock,
    make_layout_error,
)
from fedrec_auditor.targets.datasets.parts.source import DataFiles
from fedrec_auditor.targets.datasets.parts.table_file import TextTable
from fedrec_auditor.targets.tables import is_table_path

# Position in the file and expected content of a column, by the keys "user", "item", "rating" and
# "timestamp".
ColumnByRole = Mapping[str, tuple[int, NumberColumn | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRows:
    """Rows of a file of interactions: users, items, and ratings and times if the file has them.

    users, items: user and item of each of the n rows
    ratings: rating of each row (n,); 1 if the file has no ratings
    timestamps: time of each row (n,); None if the file has no times
    describe_row: function that describes a row in error messages, by index
    """

    users: EncodedIds
    items: EncodedIds
    ratings: NDArray[np.float32]
    timestamps: NDArray[Any] | None
    describe_row: Callable[[int], str]

    @classmethod
    def read(cls, file: TextTable | TypedTable, columns: ColumnByRole) -> Self:
        """Reads users, items, ratings and times from a file.

        ``columns`` states the position and the expected content of each column, by its role. The
        roles "user" and "item" are required. Raises InputError for the first invalid line.
        """
        # Memory: 20 bytes per row with timestamps and 12 without (8 more for identifiers over
        # 2^31), and a copy of the largest column.
        ends = {role: IdCollector(f"{role} of {file.label}") for role in ("user", "item")}
        ratings: list[NDArray[np.float32]] = []
        times: list[NDArray[Any]] = []
        for block in file.read_blocks(dict(columns.values())):
            for role, each in ends.items():
                if isinstance(columns[role][1], NumberColumn):
                    ids = block.parse_numbers(columns[role][0])
                    each.add_batch(pa.array(ids.astype(np.int64, copy=False)))
                else:
                    block.collect_ids(columns[role][0], each)
            if "rating" in columns:
                ratings.append(_parse_stars(block, columns["rating"][0]))
            if "timestamp" in columns:
                times.append(block.parse_numbers(columns["timestamp"][0]))
        codes = {role: each.encode_ids() for role, each in ends.items()}
        count = len(codes["user"].id_indices)
        if count >= 2**31:
            raise make_layout_error(file.label, "fewer than 2^31 rows", count, "Omit rows.")
        return cls(
            users=codes["user"],
            items=codes["item"],
            ratings=np.concatenate(ratings) if ratings else np.ones(count, dtype=np.float32),
            timestamps=np.concatenate(times) if times else None,
            describe_row=file.describe_row,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the rating matrix: number of distinct users, and number of distinct items."""
        return len(self.users.distinct_ids), len(self.items.distinct_ids)

    def keep_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Returns the rows for which the mask ``rows`` (n,) is True.

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
        """One integer per row (n,), which is equal for rows with the same user and item.

        The integers ascend by user, and then by item.
        """
        return np.asarray(self.users.id_indices * np.int64(self.shape[1]) + self.items.id_indices)

    def build_rating_matrix(self) -> tuple[sparse.csr_array, NDArray[Any] | None]:
        """Returns a matrix with the latest rating of each user-item pair, and the ratings' times.

        The matrix has the shape (users, items), and the times have the order of its stored ratings.
        For a file without times, the last row of a pair counts, and the times are None.
        """
        row, column = self.users.id_indices, self.items.id_indices
        times, last = self.timestamps, self._latest_rows
        starts = np.append(0, np.cumsum(np.bincount(row[last], minlength=self.shape[0])))
        kept = (self.ratings[last], column[last], starts.astype(np.int32))
        return sparse.csr_array(kept, shape=self.shape), None if times is None else times[last]

    @property
    def _latest_rows(self) -> NDArray[np.int64] | slice:
        """Indices of one row per user-item pair, in the order of users and then items.

        The row is the latest row of the pair, or the last row if the file has no times.
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


def _parse_stars(block: RowBlock, at: int) -> NDArray[np.float32]:
    """Returns the ratings of a block; InputError at a rating that float32 cannot represent."""
    values = block.parse_numbers(at)
    with np.errstate(over="ignore", under="ignore"):
        stars = values.astype(np.float32)
    good = np.isfinite(stars) & ((stars != 0) | (values == 0))
    if not good.all():
        raise block.make_error(int(np.argmin(good)), at, expected="a rating that float32 can hold")
    return stars


# The columns of MovieLens 100K and 1M: whole numbers, written in any form of a number.
MOVIELENS_RATING_COLUMNS = {
    "user": (0, NumberColumn(label="user id", pattern=PADDED_NUMBER_REGEX)),
    "item": (1, NumberColumn(label="item id", pattern=PADDED_NUMBER_REGEX)),
    "rating": (2, NumberColumn(label="rating", low=1, high=5, pattern=PADDED_NUMBER_REGEX)),
    "timestamp": (3, NumberColumn(label="timestamp", pattern=PADDED_NUMBER_REGEX)),
}
# For each column, by its position: the name of a cell in error messages, and the function that
# parses the text of a cell.
CellParsers = Mapping[int, tuple[str, Callable[[str], Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserColumn:
    """Column with an attribute of users, such as gender, in a file of users.

    position: position of the column, from 0
    noun: noun for a cell in error messages, such as "a gender"
    categories: names of the attribute's categories
    category_by_word: index in ``categories`` of each word in the column; if empty, the words are
        the names of the categories
    """

    position: int
    noun: str
    categories: tuple[str, ...]
    category_by_word: Mapping[str, int] = field(default_factory=dict)

    @property
    def cell_name_and_parser(self) -> tuple[str, Callable[[str], int]]:
        """Name of a cell in error messages, and function that parses a cell's text.

        The function returns the index of the category, and raises KeyError for an unknown word.
        """
        words = self.category_by_word or {name: place for place, name in enumerate(self.categories)}
        return f"{self.noun}, one of {', '.join(words)},", words.__getitem__


def make_genre_parser(position: int, names: Sequence[str], separator: str = "|") -> CellParsers:
    """Creates the parser of a column whose cells list a movie's genres as words, in any order.

    position: position of the column in the file
    names: names of all genres
    separator: text between two genres

    Returns, for this position, the name of a cell in error messages and the function that converts
    a cell's text to one flag per genre.
    """
    words = {name: name for name in names}

    def parse_cell(text: str) -> list[bool]:
        present = {words[word] for word in text.split(separator) if word}
        return [name in present for name in names]

    return {position: (f"genres among {', '.join(names)},", parse_cell)}


def make_flag_parsers(first: int, names: Sequence[str]) -> CellParsers:
    """Creates the parsers of columns with genre flags: one column per genre, with 0 or 1.

    first: position of the first genre's column; the columns of the other genres follow it
    names: names of the genres

    Returns, by position, the name of a cell in error messages and the function that converts a
    cell's text to a flag.
    """
    flag = ("a genre flag, one of 0, 1,", {"0": False, "1": True}.__getitem__)
    return dict.fromkeys(range(first, first + len(names)), flag)


def join_files(
    name: str,
    rows: InteractionRows,
    users: TextTable,
    attributes: Mapping[str, UserColumn],
    movies: TextTable,
    genres: CellParsers,
    genre_names: tuple[str, ...],
) -> Interactions:
    """Joins ratings with a file of users and a file of movies.

    name: name of the resulting data set
    rows: the ratings
    users: the file of users, with identifiers in the first column
    attributes: columns of ``users`` with attributes, by name of the attribute
    movies: the file of movies, with identifiers in the first column and titles in the second
    genres: parsers of the columns of ``movies`` with genres
    genre_names: names of the genres

    The result has the users and movies with a rating. Raises InputError for the first invalid line
    of a file, for a user-movie pair that occurs twice, and for a pair whose user or movie has no
    line in its file.
    """
    # Memory, in addition to rows and result: about 25 bytes per row if the rows are in the order of
    # users and items, as in the official files, or else about 45.
    cells = {column.position: column.cell_name_and_parser for column in attributes.values()}
    codes = _read_cells(users, cells, rows, rows.users, "user")
    titled: CellParsers = {1: ("a title", str), **genres}
    titles, *flags = _read_cells(movies, titled, rows, rows.items, "movie")
    table, times = rows.build_rating_matrix()
    if table.nnz < len(rows.ratings):
        raise _make_repeat_error(rows)
    return Interactions(
        name=name,
        users=rows.users.distinct_ids,
        items=rows.items.distinct_ids,
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
    file: TextTable, cells: CellParsers, rows: InteractionRows, wanted: EncodedIds, what: str
) -> list[list[Any]]:
    """Reads some columns of a file for the wanted identifiers; returns one list per column.

    file: the file, with identifiers in the first column
    cells: parsers of the columns
    rows: rows of another file
    wanted: the identifiers in these rows
    what: name of an identifier in error messages

    Raises InputError for the first cell whose parser raises KeyError, for an identifier that occurs
    twice, and for a wanted identifier without a line.
    """
    numbers: list[NDArray[Any]] = []
    columns: list[list[Any]] = [[] for _ in cells]
    first_column = NumberColumn(label="identifier")
    for block in file.read_blocks({0: first_column, **dict.fromkeys(cells, "text")}):
        numbers.append(block.parse_numbers(0))
        for (at, (cell, parse)), column in zip(cells.items(), columns, strict=True):
            for row, text in enumerate(block.decode_texts(at)):
                try:
                    column.append(parse(text))
                except KeyError as error:
                    raise block.make_error(row, at, expected=cell) from error
    ids = np.concatenate(numbers)
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    if (again := np.flatnonzero(first[place] != np.arange(len(ids)))).size:
        before = file.describe_row(int(first[place[again[0]]]))
        expected = f"an identifier that is absent from {before},"
        raise make_layout_error(file.describe_row(int(again[0])), expected, got=str(ids[again[0]]))
    places = find_indices(wanted.distinct_ids, ids)
    if (strange := np.flatnonzero(places < 0)).size:
        row = int(np.argmax(np.isin(wanted.id_indices, strange)))
        raise InputError(
            f"Expected a line of {file.label} for each {what}, got none for {what} "
            f"{wanted.distinct_ids[wanted.id_indices[row]]} in {rows.describe_row(row)}. "
            "Add this line, or remove the row."
        )
    return [[column[place] for place in places] for column in columns]


def _make_repeat_error(rows: InteractionRows) -> InputError:
    """Creates the InputError for the first pair of user and movie that occurs twice."""
    users, items, key = rows.users, rows.items, rows.pair_keys
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    at = again[np.argmin(order[again + 1])]
    first, second = int(order[at]), int(order[at + 1])
    user = users.distinct_ids[users.id_indices[second]]
    thing = f"movie {items.distinct_ids[items.id_indices[second]]}"
    return InputError(
        f"Expected each pair of user and movie once, got user {user} and {thing} in "
        f"{rows.describe_row(second)}, and before that in {rows.describe_row(first)}. "
        "Keep one of these lines."
    )


# Note on the terms of use of the MovieLens data.
LICENCE_NOTE = (
    "MovieLens data are for research. Acknowledge them in publications (Harper and Konstan 2015, "
    "The MovieLens Datasets: History and Context, ACM TiiS 5(4), doi:10.1145/2827872); do not pass "
    "them on without permission; do not use them commercially without permission of GroupLens; "
    "do not suggest that the University of Minnesota endorses you."
)
# Genders and genres in the files of MovieLens.
MOVIELENS_GENDERS = ("F", "M")
MOVIELENS_GENRES = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
    "Western",
)  # fmt: skip


class MovieLens(ABC):
    """Base class of the loaders of MovieLens data sets, from a folder, an archive or the cache.

    name: name of the data set at MovieLens and in the cache
    layouts: the possible sets of files of the data set, each a tuple of file names
    """

    __slots__ = ()

    name: ClassVar[str]
    layouts: ClassVar[tuple[tuple[str, ...], ...]]

    def recognises(self, path: Path) -> bool:
        """Whether the folder or archive ``path`` contains all files of one of the ``layouts``."""
        if os.path.isfile(path) and is_table_path(path):
            return False
        return DataFiles(path, self.name).has_layout(self.layouts)

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from the folder or archive ``path``; if None, from the cache.

        If the cache does not have the files, InputError is raised with their web address.
        """
        size = self.name[3:]
        remedy = (
            f"Fetch {self.name}.zip from https://grouplens.org/datasets/movielens/{size}/ and put "
            f"it there, or give its path. {LICENCE_NOTE}"
        )
        place = find_data_path(path, self.name, f"MovieLens {size.upper()}", remedy)
        source = DataFiles(place, self.name)
        return self.read(source, source.find_layout(self.layouts))

    @abstractmethod
    def read(self, source: DataFiles, layout: tuple[str, ...]) -> Interactions:
        """Reads the interactions from those files in ``source`` that ``layout`` names."""
