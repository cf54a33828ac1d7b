"""Adds columns of side tables (files with further data on users and items) to interactions.

The rows of a side table are matched with users or items by identifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets import base
from fedrec_auditor.targets.datasets.base import Attribute, Interactions, find_indices
from fedrec_auditor.targets.datasets.parts.columns import (
    PADDED_NUMBER_REGEX,
    AnyColumn,
    IdCollector,
    make_layout_error,
)
from fedrec_auditor.targets.datasets.parts.table_file import find_usual_column, open_table

# Usual names of the identifier column in a side table, in lower case without punctuation.
ID_COLUMN_NAMES = {
    "user": ("user", "userid", "uid", "visitorid", "customerid", "id"),
    "item": ("item", "itemid", "movieid", "productid", "iid", "profileid", "id"),
}
# Usual names of the columns of titles and of genres, in the same form.
TITLE_COLUMN_NAMES = ("title", "name", "movietitle", "itemname", "productname")
GENRE_COLUMN_NAMES = ("genres", "genre", "tags", "tag", "categories", "category")
# Separators of genres within a cell. The first separator that occurs in the column is used.
GENRE_SEPARATORS = ("|", ";", ",")
# Texts of cells without a value, in lower case. Capitals do not matter.
NULL_TEXTS = frozenset({"", "na", "n/a", "nan", "null"})
# Pattern of a date, such as 2001-02-28, with or without a time.
DATE_REGEX = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?"
)
# Maximum number of distinct numbers of an unbinned column, and quantiles that cut other columns.
MAX_UNBINNED_VALUES, BIN_QUANTILES = 10, (1 / 3, 2 / 3)
# Maximum number of categories of an attribute, and minimum mean number of users per category.
MAX_CLASSES, MIN_CLASS_USERS = 100, 2
# Maximum number of distinct genres or tags in a column.
MAX_GENRES = 1_000
# Maximum number of columns that are read, unless a user names attributes.
MAX_COLUMNS = {"user": 100, "item": MAX_GENRES}
# Edges of the bins into which a column of numbers is cut, by name of the column.
BinEdges = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTables:
    """Files with further data on users and items, to be added to interactions.

    users, items: paths of CSV, TSV or Parquet files with a column of identifiers; None if not given
    attributes: names of the user attributes that the result must have; None for no such demand
    bins: edges of bins, by name of a column; an empty list leaves the numbers unbinned
    columns: names of the identifier columns, by the keys "user" and "item". A file without this
        column must have one with a usual name (user_id, item, id)

    Every other column of ``users`` is an attribute:

    - Texts, and numbers with at most ten distinct values, are categories.
    - Other numbers are cut into named bins; by default, each bin has a third of the users.
    - An empty cell, NA, N/A, NaN or null means that the user has no value.

    A column of titles in ``items`` gives titles, unless the identifiers are texts, which serve as
    titles. A column of genres may have several genres per cell, separated by bars, semicolons or
    commas. All other columns are added to the genres as "column: category".

    ``Interactions.notes`` of the result name columns that are left out: dates, and columns of too
    many distinct values.

    Raises InputError in these cases:

    - no identifier matches
    - an identifier occurs twice
    - ``attributes`` contains a column that is not an attribute
    - ``attributes`` is None, and the file of users has a column of dates
    """

    users: Path | None = None
    items: Path | None = None
    attributes: Sequence[str] | None = None
    bins: BinEdges = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def __call__(
        self, interactions: Interactions, part: Callable[[Interactions], Interactions] | None = None
    ) -> Interactions:
        """Returns the interactions with the files' user attributes, item titles and genres.

        part: function that restricts interactions to the audited users and items; None means that
            all are audited

        By default, numeric attributes are cut into thirds of the audited users. Raises InputError
        for invalid files.
        """
        read = set[str]()
        if self.items is not None:
            interactions = self._join_items(interactions, self.items, read)
        if part is not None:
            interactions = part(interactions)
        if self.users is not None:
            interactions = self._join_users(interactions, self.users, read)
        if strange := sorted(self.bins.keys() - read):
            there = f"Name one of: {', '.join(sorted(read))[:300]}." if read else ""
            raise InputError(
                f"Expected each key of bins to be a column of the file of users or items, got "
                f"{strange[0]!r}. {there or 'Give a file with this column.'}"
            )
        if absent := [key for key in self.attributes or () if key not in interactions.attributes]:
            raise InputError(
                f"Expected an attribute of the users of {interactions.name}, got {absent[0]!r}. "
                f"The attributes are: {', '.join(sorted(interactions.attributes)) or 'none'}. "
                "Name one of these, or give a file of users."
            )
        return interactions

    def _join_users(self, interactions: Interactions, path: Path, read: set[str]) -> Interactions:
        own = get_source_ids(interactions.users, interactions.user_names)
        row, cells, notes = _read_file(path, "user", own, self.columns.get("user"), self.attributes)
        read.update(cells)
        attributes, remarks = dict(interactions.attributes), list(notes)
        for name, cell in cells.items():
            made = _make_attribute(cell.take(row), name, path.name, self.bins.get(name))
            if isinstance(made, Attribute):
                attributes[name] = made
                if lacking := int(np.count_nonzero(~made.has_value)):
                    remarks.append(f"{lacking:,} users have no value of {name}: attacks skip them.")
                continue
            is_wanted = made is _DATES if self.attributes is None else name in self.attributes
            if is_wanted:
                raise InputError(
                    f"Expected categories or numbers in the column {name!r} of {path}, got "
                    f"{made.got} {made.remedy} Or name other attributes by --attribute."
                )
            remarks.append(f"{name} of {path.name} is not used: {made.got} {made.remedy}")
        return replace(
            interactions,
            name=f"{interactions.name} with {path.name}",
            attributes=attributes,
            notes=(*interactions.notes, *remarks),
        )

    def _join_items(self, interactions: Interactions, path: Path, read: set[str]) -> Interactions:
        texts = interactions.titles if _has_text_ids(interactions) else ()
        row, cells, notes = _read_file(
            path, "item", get_source_ids(interactions.items, texts), self.columns.get("item")
        )
        read.update(cells)
        titles, remarks = interactions.titles, list(notes)
        names, flags = list(interactions.genre_names), list[NDArray[np.bool_]]()
        if interactions.genres is not None:
            flags.append(interactions.genres)
        title = find_usual_column(tuple(cells), TITLE_COLUMN_NAMES)
        genre = find_usual_column(tuple(cells), GENRE_COLUMN_NAMES)
        for name, cell in cells.items():
            column = cell.take(row)
            if name in (title, genre) and name in self.bins:
                raise InputError(
                    f"Expected bins for columns of numbers only, got {name!r} of {path}, which "
                    f"has {'titles' if name == title else 'genres'}. Leave its bins out."
                )
            if name == title:
                titles = texts or tuple(column.texts[code] for code in column.codes)
                continue
            if name == genre:
                words, has = _read_genres(column, name, path)
            else:
                made = _make_attribute(column, name, path.name, self.bins.get(name))
                if not isinstance(made, Attribute):
                    remarks.append(f"{name} of {path.name} is not used: {made.got} {made.remedy}")
                    continue
                words = tuple(f"{name}: {category}" for category in made.classes)
                has = made.codes[:, None] == np.arange(len(words))
            names += words
            flags.append(has)
        return replace(
            interactions,
            name=f"{interactions.name} with {path.name}",
            genres=np.concatenate(flags, axis=1) if names else None,
            genre_names=tuple(names),
            titles=titles,
            notes=(*interactions.notes, *remarks),
        )


@dataclass(frozen=True, slots=True)
class _Cells:
    """A column of a table: the distinct texts, and each row's index into these texts.

    codes: index of each row's text (n,)
    texts: the distinct texts; "" means no value
    """

    codes: NDArray[np.int32]
    texts: tuple[str, ...]

    def take(self, row: NDArray[np.int64]) -> _Cells:
        """Returns the column with the cells of the given rows (indices), and "" for index -1."""
        texts = (*self.texts, "")
        return _Cells(np.where(row < 0, len(self.texts), self.codes[row]), texts)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Explanation why a column cannot be an attribute, in two sentences.

    got: the content of the column
    remedy: advice to the user
    """

    got: str
    remedy: str


_DATES = _Refusal("dates.", "Give an age, a year, or a group of them.")


def _has_text_ids(interactions: Interactions) -> bool:
    """Whether the titles are the items' identifiers, as in a ``Table`` of text identifiers."""
    numbered = np.array_equal(interactions.items, np.arange(interactions.n_items))
    return numbered and len(interactions.titles) > 0


def _is_id_column(name: str, what: str) -> bool:
    """Whether a column has a usual name of identifiers or of row numbers.

    ``what`` is the kind of the rows, "user" or "item".
    """
    plain = re.sub(r"[\W_]", "", name.partition(":")[0].lower())
    return plain in ("", "id", "index", *ID_COLUMN_NAMES[what]) or plain.startswith("unnamed")


def _read_file(
    path: Path, what: str, own: NDArray[Any], given: str | None, named: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], dict[str, _Cells], tuple[str, ...]]:
    """Reads the side table at ``path``, and matches its identifiers with the identifiers ``own``.

    what: "user" or "item"
    given: name of the column of identifiers; None for a usual name
    named: names of the requested attributes; if the file has more than ``MAX_COLUMNS`` columns,
        only these are read

    Returns the row of each identifier in ``own`` (-1 without a row), the other columns by name, and
    notes on identifiers without a match. Raises InputError if no identifier matches, or one occurs
    twice.
    """

    def column(names: tuple[str, ...]) -> str:
        name = given if given in names else find_usual_column(names, ID_COLUMN_NAMES[what])
        if name is None:
            raise InputError(
                f"Expected a usual name ({what}, {what}_id, id) for the column of {what}s in "
                f"{path}, got the columns {', '.join(names)[:300]}. Rename this column."
            )
        return name

    file = open_table(path, {}, column, ID_COLUMN_NAMES[what], "Write a line of names above it.")
    names = file.read_names()
    at = names.index(column(names))
    others = {
        place: name.partition(":")[0]  # without RecBole's type
        for place, name in enumerate(names)
        if place != at and not _is_id_column(name, what)
    }
    if len(set(others.values())) < len(others) or not others:
        raise make_layout_error(str(path), f"distinct columns besides {names[at]!r}", got=names)
    if len(others) > MAX_COLUMNS[what]:
        if named is None:
            remedy = {"user": "Name the attributes by --attribute.", "item": "Leave columns out."}
            raise InputError(
                f"Expected at most {MAX_COLUMNS[what]:,} columns of {what}s in {path}, got "
                f"{len(others):,}. {remedy[what]}"
            )
        others = {place: name for place, name in others.items() if name in named}
    identifiers = IdCollector(f"{what} of {path}")
    cells = {place: IdCollector() for place in others}
    for block in file.read_blocks({at: what, **{place: AnyColumn("value") for place in others}}):
        block.collect_ids(at, identifiers)
        for place, texts_of in cells.items():
            block.collect_cells(place, texts_of)
    ids, order, texts = identifiers.encode_ids()
    _, first = np.unique(order, return_index=True)
    if len(first) < len(order):
        again = int(np.setdiff1d(np.arange(len(order)), first)[0])
        twice = get_source_ids(ids, texts)[order[again]]
        here, before = (file.describe_row(int(row)) for row in (again, first[order[again]]))
        raise make_layout_error(here, f"a {what} that is not already in {before},", got=str(twice))
    in_file = get_source_ids(ids, texts)[order]
    wanted, among = (own, in_file) if own.dtype.kind == in_file.dtype.kind else _texts(own, in_file)
    row = find_indices(wanted, among)
    matched = int(np.count_nonzero(row >= 0))
    if not matched:
        raise InputError(
            f"Expected identifiers of {what}s in {path}, such as {own[0]!s:.40}, got only unknown "
            f"ones, such as {in_file[0]!s:.40}. Write them as in the interactions."
        )
    counts = {
        f"{{}} of {len(own):,} {what}s have no row in {path.name}.": len(own) - matched,
        f"{{}} of {len(in_file):,} rows of {path.name} match no {what}.": len(in_file) - matched,
    }
    notes = tuple(note.format(f"{count:,}") for note, count in counts.items() if count)
    if unused := [repr(name) for place, name in enumerate(names) if place not in {at, *others}]:
        notes += (f"Columns of {path.name} left out as identifiers: {', '.join(unused)}.",)
    made = {others[at]: _Cells(*texts_of.encode_ids()[1:]) for at, texts_of in cells.items()}
    return row, made, notes


def _texts(*parts: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return tuple(part.astype(np.str_) for part in parts)


def _make_attribute(
    cells: _Cells, name: str, place: str, edges: Sequence[float] | None
) -> Attribute | _Refusal:
    """Returns the attribute in a column, or the reason why the column cannot be an attribute."""
    texts = [text.strip() for text in cells.texts]
    occurs = np.bincount(cells.codes, minlength=len(texts)) > 0
    there = np.array([text.casefold() not in NULL_TEXTS for text in texts]) & occurs
    if not there.any():
        return _Refusal("no value.", "Fill in values.")
    values = _to_numbers([text for text, here in zip(texts, there, strict=True) if here])
    if edges is not None and values is None:
        odd = next(t for t, here in zip(texts, there, strict=True) if here and not _is_number(t))
        raise InputError(
            f"Expected numbers in the column {name!r} of {place}, as it has bins, got {odd!r}. "
            "Leave its bins out, or correct the value."
        )
    codes = np.full(len(texts), -1)
    known = there[cells.codes]
    if values is not None:
        codes[there], categories = _bin_values(values, codes, cells, there, edges)
    else:
        words = [text for text, here in zip(texts, there, strict=True) if here]
        if all(map(DATE_REGEX.fullmatch, words)):
            return _DATES
        categories = tuple(sorted(set(words), key=str.encode))
        number = {word: code for code, word in enumerate(categories)}
        codes[there] = [number[word] for word in words]
    users = int(np.count_nonzero(known))
    if edges and values is not None and len(categories) == 1:
        raise InputError(
            f"Expected bin edges between the values of {name!r} in {place}, which lie between "
            f"{_format(values.min())} and {_format(values.max())}, got the edges "
            f"{', '.join(map(_format, edges))}, with all values in one bin. Give other edges."
        )
    if len(categories) > min(MAX_CLASSES, max(2, users // MIN_CLASS_USERS)):
        return _Refusal(
            f"{users:,} values, of which {len(categories):,} are distinct.",
            f"Group them into {MAX_CLASSES} at most.",
        )
    of_users = codes[cells.codes].astype(np.int64)
    if not known.all():
        of_users[~known] = len(categories)
        categories = (*categories, base.MISSING_CATEGORY)
    return Attribute(codes=of_users, categories=categories)


def _bin_values(
    values: NDArray[np.float64],
    codes: NDArray[np.int64],
    cells: _Cells,
    there: NDArray[np.bool_],
    edges: Sequence[float] | None,
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Returns the category of each number in ``values``, and the names of all used categories."""
    distinct = np.unique(values)
    if edges is None and len(distinct) > MAX_UNBINNED_VALUES:
        of_text = np.full(len(codes), np.nan)
        of_text[there] = values
        of_user = of_text[cells.codes]
        cuts = np.quantile(of_user[~np.isnan(of_user)], BIN_QUANTILES, method="inverted_cdf")
        cuts = np.unique(cuts[cuts > distinct[0]])
        edges = tuple((cuts if cuts.size else distinct[1:2]).tolist())
    if not edges:
        return np.searchsorted(distinct, values), tuple(map(_format, distinct.tolist()))
    ends = [_format(edge) for edge in edges]
    names = [
        f"below {ends[0]}",
        *(f"{low} to below {high}" for low, high in pairwise(ends)),
        f"{ends[-1]} and more",
    ]
    occur, place = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)
    return place, tuple(names[code] for code in occur)


def _to_numbers(words: Collection[str]) -> NDArray[np.float64] | None:
    """Converts the words to numbers; None if a word is not a number."""
    return np.array([float(word) for word in words]) if all(map(_is_number, words)) else None


def _is_number(word: str) -> bool:
    matched = PADDED_NUMBER_REGEX.fullmatch(word.encode())
    return matched is not None and bool(np.isfinite(float(word)))


def _format(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _read_genres(cells: _Cells, name: str, path: Path) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Returns the sorted genres in a column, and flags of each row's genres (n, genres)."""
    present = (s for s in GENRE_SEPARATORS if any(s in t for t in cells.texts))
    between = next(present, GENRE_SEPARATORS[0])
    occurs = np.bincount(cells.codes, minlength=len(cells.texts)) > 0
    words = [
        {word.strip() for word in text.split(between)} if here else set()
        for text, here in zip(cells.texts, occurs, strict=True)
    ]
    words = [{word for word in each if word.casefold() not in NULL_TEXTS} for each in words]
    genres = tuple(sorted(set().union(*words), key=str.encode))
    if len(genres) > MAX_GENRES:
        raise InputError(
            f"Expected at most {MAX_GENRES:,} genres or tags in the column {name!r} of {path}, "
            f"got {len(genres):,}, such as {genres[0]!r}. Keep the most common ones."
        )
    place = {word: at for at, word in enumerate(genres)}
    flags = np.zeros((len(words), len(genres)), dtype=bool)
    for row, of_text in enumerate(words):
        flags[row, [place[word] for word in of_text]] = True
    return genres, flags[cells.codes]


def get_source_ids(ids: NDArray[np.int64], texts: Sequence[str]) -> NDArray[Any]:
    """Returns the identifiers of n users or items in the data source: ``texts`` if there are any,
    else ``ids``.

    ids: the identifiers if they are numbers, shape (n,); not used if ``texts`` is not empty
    texts: the identifiers if they are texts, otherwise empty
    """
    return np.array(texts, dtype=np.str_) if texts else ids
