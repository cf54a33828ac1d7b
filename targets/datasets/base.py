"""Interactions: who met what, and the data sets they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One categorical attribute of every user: ``codes`` (n_users,) into ``categories``."""

    codes: NDArray[np.int64]
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactions:
    """Users x items: ratings, timestamps where there are any, attributes, item features.

    ``ratings`` is a canonical csr_array (n_users, n_items) of float32, all stored entries nonzero.
    ``timestamps`` (int64, Unix seconds) is aligned with ``ratings.data``. ``users`` and ``items``
    are the identifiers of rows and columns, ascending. ``genres`` is (n_items, len(genre_names)).
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

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def digest(self) -> str:
        """SHA-256 over users, items, ratings, timestamps, attributes, genres; not over titles."""
        digest = hashlib.sha256()

        def feed(label: str, array: NDArray[Any]) -> None:
            plain = np.ascontiguousarray(array)
            digest.update(f"{label}:{plain.dtype.str}:{plain.shape}\n".encode())
            digest.update(plain.tobytes())

        feed("users", self.users.astype("<i8"))
        feed("items", self.items.astype("<i8"))
        feed("indptr", self.ratings.indptr.astype("<i8"))
        feed("indices", self.ratings.indices.astype("<i8"))
        feed("ratings", self.ratings.data.astype("<f4"))
        if self.timestamps is not None:
            feed("timestamps", self.timestamps.astype("<i8"))
        for key in sorted(self.attributes):
            attribute = self.attributes[key]
            digest.update(f"attribute {key}: {attribute.categories}\n".encode())
            feed("codes", attribute.codes.astype("<i8"))
        if self.genres is not None:
            digest.update(f"genres: {self.genre_names}\n".encode())
            feed("genres", self.genres.astype("u1"))
        return digest.hexdigest()


class Dataset(Protocol):
    """A loader: gives the same ``Interactions`` wherever it found the files."""

    def recognises(self, path: Path) -> bool:
        """Whether the directory or archive at ``path`` has this data set's files, by name."""
        ...

    def load(self, path: Path | None = None) -> Interactions:
        """Load from ``path`` (directory or archive), else from the cache, else from the source."""
        ...
