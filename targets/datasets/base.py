"""Interactions: who met what, and the data sets they come from."""

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

AGE_GROUPS = ("under 35", "35 to 45", "over 45")
"""The age groups whose inference an audit measures (FedRec paper, Table I)."""

NO_VALUE = ""
"""The category of users who have no value of an attribute."""


def age_group(age: Any) -> Any:
    """Code in ``AGE_GROUPS`` of an age, or of each: 35 and 45 both belong to the middle.

    Table I of the FedRec paper prints the outer groups as "under 45" and "over 35", which overlap;
    the groups that do not are under 35 and over 45.
    """
    return 1 * (age >= 35) + (age > 45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One categorical attribute of every user: ``codes`` (n_users,) into ``categories``.

    A last category ``NO_VALUE`` is that of users who have none: devices know it as any other, and
    nobody is asked for it.

    >>> Attribute(codes=np.array([0, 2, 1]), categories=("F", "M", NO_VALUE)).known
    array([ True, False,  True])
    """

    codes: NDArray[np.int64]
    categories: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The categories that are values."""
        return self.categories[:-1] if self.categories[-1:] == (NO_VALUE,) else self.categories

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which users have a value, (n_users,)."""
        return self.codes < len(self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactions:
    """Users x items: ratings, timestamps where there are any, attributes, item features.

    ``ratings`` is a canonical csr_array (n_users, n_items) of float32, all stored entries nonzero.
    ``timestamps`` (int64, Unix seconds) is aligned with ``ratings.data``. ``users`` and ``items``
    are the identifiers of rows and columns, ascending; ``names`` (n_users,) are the
    users' where they are texts. ``genres`` is (n_items, len(genre_names)). ``notes`` say what of
    the source is left out or merged.

    >>> table = Interactions.of(np.array([[5.0, 0.0, 3.0], [0.0, 4.0, 0.0]]))
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
    def of(
        cls, ratings: NDArray[Any] | sparse.sparray, *, name: str = "table", **rest: Any
    ) -> Self:
        """Interactions from a table of ratings (n_users, n_items) alone; zeros are no ratings.

        Users and items are numbered from 0. ``rest`` are other fields, aligned with the table.
        InputError on values that are not finite.
        """
        made: Any = sparse.csr_array
        table = made(ratings).astype(np.float32, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        if not np.isfinite(table.data).all():
            raise InputError("Expected finite ratings, got nan or inf. Drop these entries.")
        users, items = (np.arange(size, dtype=np.int64) for size in table.shape)
        return cls(name=name, users=users, items=items, ratings=table, **rest)

    def take(self, users: NDArray[np.integer[Any]]) -> Self:
        """The rows of these users (any order, repetitions allowed), over the same items."""
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

    def keep(self, entries: NDArray[np.bool_]) -> Self:
        """The same users and items with only those ratings for which ``entries`` (nnz,) is true."""
        table = self.ratings
        starts = np.concatenate([[0], np.cumsum(entries, dtype=np.int64)])[table.indptr]
        kept = (table.data[entries], table.indices[entries], starts)
        ratings = sparse.csr_array(kept, shape=table.shape)
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
        """SHA-256 over users, items, ratings, timestamps, attributes and genres, and no words."""
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
    """A loader: gives the same ``Interactions`` wherever it found the files."""

    def recognises(self, path: Path) -> bool:
        """Whether the directory or archive at ``path`` has this data set's files, by name."""
        ...

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path`` (directory or archive), else from the cache, else from the source."""
        ...
