"""Interactions of users with items, a filter for them, and the interface of their loaders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, CountOrZero, NonNegative

# The categories of the attribute "age_group", which attacks infer (FedRec paper, Table I).
AGE_GROUPS = ("under 35", "35 to 45", "over 45")

# Name of the category that stands for users without a value of an attribute.
MISSING_CATEGORY = ""


def classify_age(age: Any) -> Any:
    """Returns the index in ``AGE_GROUPS`` of an age in years, or of each age in an array.

    Ages 35 and 45 belong to the middle group. Table I of the FedRec paper prints the outer groups
    as "under 45" and "over 35", which overlap.
    """
    return 1 * (age >= 35) + (age > 45)


def find_indices(wanted: NDArray[Any], among: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the index in ``among`` of each element of ``wanted`` (m,); -1 for an absent element.

    ``among`` must not be empty.
    """
    order = np.argsort(among, kind="stable")
    index = order[np.searchsorted(among, wanted, sorter=order).clip(max=len(among) - 1)]
    return np.where(among[index] == wanted, index, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One categorical attribute of all users, such as gender.

    codes: index of each user's category in ``categories`` (n_users,)
    categories: names of the categories. If some users have no value, the last category is
        ``MISSING_CATEGORY``, which attacks do not guess

    >>> Attribute(codes=np.array([0, 2, 1]), categories=("F", "M", MISSING_CATEGORY)).has_value
    array([ True, False,  True])
    """

    codes: NDArray[np.int64]
    categories: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the categories that an attack may guess: all except that of missing values."""
        names = self.categories
        return names[:-1] if names[-1:] == (MISSING_CATEGORY,) else names

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """Flags of the users who have a value of this attribute, bool of shape (n_users,)."""
        return self.codes < len(self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactions:
    """Interactions of users with items: ratings, timestamps, user attributes and item features.

    name: name of the data set
    users, items: identifiers of the users (n_users,) and of the items (n_items,), in ascending
        order
    ratings: canonical csr_array (n_users, n_items) of float32 without stored zeros
    timestamps: Unix seconds, int64, aligned with ``ratings.data``; None if the data have no times
    attributes: attributes of users, by name
    genres: flags of each item's genres (n_items, len(genre_names)); None if the data have no genres
    genre_names: names of the genres
    titles: titles of items (n_items,), or empty
    user_names: identifiers of users in the source file (n_users,) if they are texts, or empty
    notes: sentences on rows of the source file that were left out or merged

    >>> table = Interactions.create(np.array([[5.0, 0.0, 3.0], [0.0, 4.0, 0.0]]))
    >>> table.n_users, table.n_items, table.ratings.nnz
    (2, 3, 3)
    """

    name: str
    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: sparse.csr_array
    timestamps: NDArray[np.int64] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    genres: NDArray[np.bool_] | None = None
    genre_names: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    user_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, ratings: NDArray[Any] | sparse.sparray, *, name: str = "table", **rest: Any
    ) -> Self:
        """Creates interactions from a table of ratings (n_users, n_items); 0 means no rating.

        Users and items are numbered from 0. ``rest`` holds values of further fields of the class,
        such as ``titles``. Raises InputError for ratings that are not finite.
        """
        made: Any = sparse.csr_array
        table = made(ratings).astype(np.float32, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        if not np.isfinite(table.data).all():
            raise InputError("Expected finite ratings, got NaN or inf. Remove these entries.")
        users, items = (np.arange(size, dtype=np.int64) for size in table.shape)
        return cls(name=name, users=users, items=items, ratings=table, **rest)

    def take_users(self, users: NDArray[np.integer[Any]]) -> Self:
        """Returns a copy with the users at the row indices ``users``, in this order.

        An index may occur several times. All items stay.
        """
        times = None
        if self.timestamps is not None:
            places = (self.timestamps, self.ratings.indices, self.ratings.indptr)
            times = sparse.csr_array(places, shape=self.ratings.shape)[users].data
        ratings = sparse.csr_array(self.ratings[users])
        return replace(
            self,
            users=self.users[users],
            user_names=tuple(self.user_names[user] for user in users) if self.user_names else (),
            ratings=ratings,
            timestamps=times,
            attributes={
                key: replace(each, codes=each.codes[users]) for key, each in self.attributes.items()
            },
        )

    def keep_ratings(self, mask: NDArray[np.bool_]) -> Self:
        """Returns a copy that has only the ratings for which ``mask`` is True.

        ``mask`` has one flag per stored rating, in the order of ``ratings.data``. All users and
        items stay.
        """
        table = self.ratings
        starts = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])[table.indptr]
        parts = (table.data[mask], table.indices[mask], starts)
        ratings = sparse.csr_array(parts, shape=table.shape)
        times = None if self.timestamps is None else self.timestamps[mask]
        return replace(self, ratings=ratings, timestamps=times)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def digest(self) -> str:
        """Computes the SHA-256 digest of the data, in hexadecimal digits.

        The digest covers users, items, ratings, timestamps, attributes and genres, but not names,
        titles and notes.
        """
        digest = hashlib.sha256()

        def feed(label: str, array: NDArray[Any], kind: str = "<i8") -> None:
            plain = np.ascontiguousarray(array, dtype=kind)
            digest.update(f"{label}:{plain.dtype.str}:{plain.shape}\n".encode())
            digest.update(plain.tobytes())

        feed("users", self.users)
        feed("items", self.items)
        feed("indptr", self.ratings.indptr)
        feed("indices", self.ratings.indices)
        feed("ratings", self.ratings.data, "<f4")
        if self.timestamps is not None:
            feed("timestamps", self.timestamps)
        for key in sorted(self.attributes):
            attribute = self.attributes[key]
            digest.update(f"attribute {key}: {attribute.categories}\n".encode())
            feed("codes", attribute.codes)
        if self.genres is not None:
            digest.update(f"genres: {self.genre_names}\n".encode())
            feed("genres", self.genres, "u1")
        return digest.hexdigest()


class Dataset(Protocol):
    """Interface of a loader of one data set, such as MovieLens 100K.

    The loaded interactions do not depend on the location of the files.
    """

    def recognises(self, path: Path) -> bool:
        """Whether the directory or archive ``path`` contains files with this data set's names."""
        ...

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from the directory or archive ``path``.

        If ``path`` is None, they come from the cache, or else from the publisher of the data set.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Checked):
    """Filter that drops low ratings, and then users and items with few interactions.

    min_user: minimum number of interactions of a user; 0 keeps all users, even without interactions
    min_item: minimum number of interactions of an item; 0 keeps all items, even without
        interactions
    min_rating: minimum rating; lower ratings are dropped first. PrivRec needs 4, because it counts
        ratings above 3 as interactions (section 3.1)

    The result is the largest part of the data in which every user and every item reaches its
    minimum.
    """

    # Papers with "users and items with at least 60 interactions" (DPLCF, section 4.1.1; FMF-LDP,
    # section 4) do not state how often users and items are dropped in turn; here, until nothing
    # changes. Memory: about 17 bytes per interaction in addition to the result.
    min_user: CountOrZero = 0
    min_item: CountOrZero = 0
    min_rating: NonNegative = 0.0

    def __call__(self, interactions: Interactions) -> Interactions:
        """Returns the interactions that pass the filter; InputError if there are none."""
        if self.min_rating > 0:
            interactions = interactions.keep_ratings(interactions.ratings.data >= self.min_rating)
            if not interactions.ratings.nnz:
                raise InputError(
                    f"Expected ratings of at least {self.min_rating:g} in {interactions.name}, got "
                    "none. Lower min_rating."
                )
        if self.min_user == self.min_item == 0:
            return interactions
        sizes = np.diff(interactions.ratings.indptr)
        row = np.repeat(np.arange(interactions.n_users, dtype=np.int32), sizes)
        column = interactions.ratings.indices
        users = np.ones(interactions.n_users, dtype=bool)
        items = np.ones(interactions.n_items, dtype=bool)
        while True:
            enough_users = np.bincount(row, minlength=len(users)) >= self.min_user
            enough_items = np.bincount(column, minlength=len(items)) >= self.min_item
            users, items = users & enough_users, items & enough_items
            stays = users[row] & items[column]
            if stays.all():
                break
            row, column = row[stays], column[stays]
        if not column.size:
            raise InputError(
                f"Expected users with {self.min_user} or more interactions and items with "
                f"{self.min_item} or more in {interactions.name}, got none. Lower min_user or "
                "min_item."
            )
        return _take_part(interactions, np.flatnonzero(users), items)


def _take_part(
    interactions: Interactions, users: NDArray[np.int64], items: NDArray[np.bool_]
) -> Interactions:
    """Returns the part of the data with some users (row indices) and some items (flags)."""
    rows = interactions.take_users(users)
    rows = rows.keep_ratings(items[rows.ratings.indices])
    place = np.cumsum(items) - 1
    ratings = rows.ratings
    return replace(
        rows,
        items=rows.items[items],
        ratings=sparse.csr_array(
            (ratings.data, place[ratings.indices].astype(ratings.indices.dtype), ratings.indptr),
            shape=(rows.n_users, int(items.sum())),
        ),
        genres=None if rows.genres is None else rows.genres[items],
        titles=tuple(rows.titles[at] for at in np.flatnonzero(items)) if rows.titles else (),
    )
