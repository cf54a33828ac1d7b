"""Interactions of users with items, and the protocol of the classes that load them."""

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

# The age groups that an attack infers in an audit (FedRec paper, Table I).
AGE_GROUPS = ("under 35", "35 to 45", "over 45")

# The category of users who have no value of an attribute.
MISSING_VALUE = ""


def age_group(age: Any) -> Any:
    """Returns the index in ``AGE_GROUPS`` of an age in years, or of each age in an array.

    Ages 35 and 45 belong to the middle group. Table I of the FedRec paper prints the outer groups
    as "under 45" and "over 35", which overlap. The groups that do not overlap are under 35 and over
    45.
    """
    return 1 * (age >= 35) + (age > 45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One categorical attribute of all users, such as gender.

    codes: index of each user's category in ``categories`` (n_users,)
    categories: names of the categories. If some users have no value, the last category is
        ``MISSING_VALUE``: devices treat it like any other category, but no attack guesses it

    >>> Attribute(codes=np.array([0, 2, 1]), categories=("F", "M", MISSING_VALUE)).has_value
    array([ True, False,  True])
    """

    codes: NDArray[np.int64]
    categories: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The categories that an attack may guess: all except ``MISSING_VALUE``."""
        return self.categories[:-1] if self.categories[-1:] == (MISSING_VALUE,) else self.categories

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
    names: identifiers of users in the source, if they are texts (n_users,), or empty
    notes: sentences on data of the source that were left out or merged

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
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def create(
        cls, ratings: NDArray[Any] | sparse.sparray, *, name: str = "table", **rest: Any
    ) -> Self:
        """Creates interactions from a table of ratings (n_users, n_items); 0 means no rating.

        Users and items get the identifiers 0, 1, 2, ... ``rest`` gives further fields of the class,
        whose rows are in the order of the table. Raises InputError for ratings that are not finite.
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
        """Returns the data of the users at the row indices ``users``, in this order.

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
            names=tuple(self.names[user] for user in users) if self.names else (),
            ratings=ratings,
            timestamps=times,
            attributes={
                key: replace(each, codes=each.codes[users]) for key, each in self.attributes.items()
            },
        )

    def keep_where(self, entries: NDArray[np.bool_]) -> Self:
        """Returns the interactions without the ratings for which ``entries`` is False.

        ``entries`` has one flag per stored rating, in the order of ``ratings.data``. All users and
        items stay.
        """
        table = self.ratings
        starts = np.concatenate([[0], np.cumsum(entries, dtype=np.int64)])[table.indptr]
        parts = (table.data[entries], table.indices[entries], starts)
        ratings = sparse.csr_array(parts, shape=table.shape)
        times = None if self.timestamps is None else self.timestamps[entries]
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

        The digest covers users, items, ratings, timestamps, attributes and genres, but not titles.
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
    """Interface of a loader of one data set. The location of the files does not change the
    result.
    """

    def recognises(self, path: Path) -> bool:
        """Whether the directory or archive ``path`` has files with the names that this data set
        uses.
        """
        ...

    def load(self, path: Path | None = None) -> Interactions:
        """Loads the interactions from ``path``, which is a directory or an archive.

        If ``path`` is None, they come from the cache, or else from the publisher of the data set.
        """
        ...
