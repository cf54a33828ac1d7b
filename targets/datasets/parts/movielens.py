"""What the MovieLens data sets share: attributes, genres, and the way to ``Interactions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.cache import located
from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.parts.block import DIGITS, Column
from fedrec_auditor.targets.datasets.parts.delimited import Delimited
from fedrec_auditor.targets.datasets.parts.identifiers import unique
from fedrec_auditor.targets.datasets.parts.pair_order import in_order, latest

LICENCE = (
    "MovieLens data are for research. Acknowledge them in publications (Harper and Konstan 2015, "
    "The MovieLens Datasets: History and Context, ACM TiiS 5(4), doi:10.1145/2827872); do not pass "
    "them on without permission; do not use them commercially without permission of GroupLens; "
    "do not suggest that the University of Minnesota endorses you."
)
GENDERS = ("F", "M")
GENRES = (
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
LARGE_GENRES = (*(g.replace("Children's", "Children") for g in GENRES[:11]), "IMAX", *GENRES[11:])
"""Genres of the data sets from 10M on."""
OTHER_WORDS = {"Children's": "Children", "(no genres listed)": None}
"""What stands where a genre should, and what is meant."""
ID = Column(what="identifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file of users or items: identifiers as they stand there (n,), and what it says of each."""

    place: str
    ids: NDArray[np.int64]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    titles: Sequence[str] = ()
    genres: NDArray[np.bool_] | None = None
    genre_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The ratings' file: who rated what; ``where`` names the place of a row in errors."""

    users: Ints
    items: Ints
    ratings: NDArray[np.float32]
    timestamps: NDArray[np.int64] | None
    where: Callable[[int], str]


def attribute(
    table: Delimited,
    column: int,
    what: str,
    categories: tuple[str, ...],
    written: Mapping[str, int] | None = None,
) -> Attribute:
    """One column as an attribute; InputError with the line of the first unknown category.

    ``written`` gives the code of each form of a field, by default of the categories' names.
    """
    known = written or {name: code for code, name in enumerate(categories)}
    result = []
    for row, fields in enumerate(table.rows):
        if fields[column] not in known:
            raise table.error(row, f"{what}, one of {', '.join(known)},", fields[column])
        result.append(known[fields[column]])
    return Attribute(codes=np.array(result), categories=categories)


def whole(table: Delimited, row: int, field: str, column: Column) -> int:
    """One field as a whole number of its column's range; InputError with its line."""
    if not (DIGITS.fullmatch(field.encode()) and column.low <= int(field) <= column.high):
        raise table.error(row, str(column), field)
    return int(field)


def identifiers(table: Delimited) -> NDArray[np.int64]:
    """The first column, whose entries must differ; InputError with the line of the first repeat."""
    seen: dict[int, int] = {}
    for row, fields in enumerate(table.rows):
        key = whole(table, row, fields[0], ID)
        if key in seen:
            raise table.error(row, f"an identifier not yet on {table.line(seen[key])},", fields[0])
        seen[key] = row
    return np.array(list(seen))


def movies(
    table: Delimited,
    genres: tuple[str, ...] = LARGE_GENRES,
    *,
    column: int = 2,
    separator: str = "|",
) -> Known:
    """Identifiers, titles, and the genre words in ``column``, in any order; no word is allowed.

    InputError with the line of the first word that is none of ``genres``, by default those of the
    data sets from 10M on, where ``OTHER_WORDS`` are allowed too.
    """
    flags = np.zeros((len(rows := table.rows), len(genres)), dtype=bool)
    places: dict[str, int | None] = {name: at for at, name in enumerate(genres)}
    if genres is LARGE_GENRES:
        places |= {word: genres.index(g) if g else None for word, g in OTHER_WORDS.items()}
    for row, fields in enumerate(rows):
        for word in filter(None, fields[column].split(separator)):
            if word not in places:
                raise table.error(row, f"genres among {', '.join(genres)},", word)
            if (at := places[word]) is not None:
                flags[row, at] = True
    return Known(
        place=table.place,
        ids=identifiers(table),
        titles=[fields[1] for fields in rows],
        genres=flags,
        genre_names=genres,
    )


def place_of(path: Path | None, name: str) -> Path:
    """``path``, else the data set's place in the cache; InputError says where to get the files."""
    address = f"https://grouplens.org/datasets/movielens/{name[3:]}/"
    remedy = f"Fetch {name}.zip from {address} and put it there, or give its path. {LICENCE}"
    return located(path, name, f"MovieLens {name[3:].upper()}", remedy)


def assemble(
    name: str, users: Known | None, items: Known | None, pairs: Pairs, *, item: str = "movie"
) -> Interactions:
    """Join the files: rows are the users who rated, columns the items that were rated.

    A pair may stand once only, and both its ends must be known where there is a file of them;
    InputError says where it does not. Memory: about 25 bytes a pair beside pairs and result, if
    they are in the order of users and items, as the official files are; else about 45.
    """
    row_ids, row_at, row = _index(pairs.users, users, "user", pairs.where)
    item_ids, item_at, column = _index(pairs.items, items, item, pairs.where)
    shape = (len(row_ids), len(item_ids))
    order = latest(row, column, shape[1])
    if not isinstance(order, slice) and len(order) < len(row):
        raise _repeated(row * np.int64(shape[1]) + column, pairs, item)
    return Interactions(
        name=name,
        users=row_ids,
        items=item_ids,
        ratings=in_order(row[order], column[order], pairs.ratings[order], shape),
        timestamps=None if pairs.timestamps is None else pairs.timestamps[order],
        attributes={
            key: replace(each, codes=each.codes[row_at])
            for key, each in (users.attributes if users else {}).items()
        },
        genres=items.genres[item_at] if items and items.genres is not None else None,
        genre_names=items.genre_names if items else (),
        titles=tuple(items.titles[at] for at in item_at) if items and items.titles else (),
    )


def _repeated(key: NDArray[np.int64], pairs: Pairs, item: str) -> InputError:
    """The error for the first pair that stands twice; ``key`` (n,) tells pairs apart."""
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    at = again[np.argmin(order[again + 1])]
    first, second = int(order[at]), int(order[at + 1])
    user, thing = pairs.users[second], f"{item} {pairs.items[second]}"
    return InputError(
        f"Expected each pair of user and {item} once, got user {user} and {thing} "
        f"in {pairs.where(second)}, and before in {pairs.where(first)}. Keep one of them."
    )


def _index(
    ids: Ints, known: Known | None, what: str, where: Callable[[int], str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The ids that occur, ascending; where each stands in ``known``; and ``ids`` as indices."""
    present, inverse = unique(ids)
    if known is None:
        return present, np.arange(len(present)), inverse
    order = np.argsort(known.ids)
    at = order[np.minimum(np.searchsorted(known.ids, present, sorter=order), len(known.ids) - 1)]
    strange = np.flatnonzero(known.ids[at] != present)
    if strange.size:
        row = int(np.argmax(np.isin(inverse, strange)))
        raise InputError(
            f"Expected a {what} of {known.place} in {where(row)}, got {what} {ids[row]}. "
            f"Give the {what} a line there, or take this one out."
        )
    return present, at, inverse
