"""Inner products of the rows of a wide table: all that most classifiers need of it.

A support vector machine, nearest neighbours, and any penalised linear or first layer see rows
through their inner products alone: n^2 numbers instead of n d, computed once for all classifiers,
attributes and draws of known users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024  # columns that are added up in single precision
_DOUBLE = 1 << 32  # multiplications up to which all is in double precision
_MANY = 1024  # rows, beyond which products are kept in single precision
_LEAST, _SINGLE = 1e-9, 1e-5  # of the largest eigenvalue: below is rounding, of either precision


@dataclass(frozen=True, slots=True)
class Products:
    """``inner`` (n, n) of rows, their ``sums`` (n,) over ``width`` columns."""

    inner: NDArray[np.floating[Any]]
    sums: NDArray[np.float64]
    width: int

    @classmethod
    def of(cls, blocks: Iterable[NDArray[np.float32]], rows: int, width: int) -> Self:
        """Those of n ``rows`` of a table in ``blocks`` of columns, by n^2 d / 2 multiplications.

        In double precision where these are few; beyond, up to 1,024 columns are added up in single
        precision and all else in double: a relative error of some 1e-7. Of more than 1,024 rows the
        result is kept in single precision.
        """
        kind: Any = np.float64 if rows * rows * width <= _DOUBLE else np.float32
        inner, sums = np.zeros((rows, rows)), np.zeros(rows)
        for columns in blocks:
            sums += columns.sum(axis=1, dtype=np.float64)
            for start in range(0, columns.shape[1], _BLOCK):
                block = columns[:, start : start + _BLOCK].astype(kind)
                inner += block @ block.T
        return cls(inner if rows <= _MANY else inner.astype(np.float32), sums, width)

    @classmethod
    def beside(cls, parts: Sequence[Self]) -> Self:
        """Those of the rows of several tables as one."""
        inner, sums = parts[0].inner, parts[0].sums
        for part in parts[1:]:
            inner, sums = inner + part.inner, sums + part.sums
        return cls(inner, sums, sum(part.width for part in parts))

    def leading(self, count: int) -> NDArray[np.float64]:
        """The left singular vectors of the ``count`` largest singular values: (n, count).

        Zeros beyond the rank, NaN where products are not finite. By random projections (Halko,
        Martinsson and Tropp 2011), seeded: some 500 n^2 multiplications for 30.
        """
        from sklearn.utils.extmath import randomized_svd

        out = np.full((len(self.inner), count), np.nan)
        if not np.isfinite(self.inner).all():
            return out
        vectors, values, _ = randomized_svd(self.inner, count, n_iter=4, random_state=0)
        out[:] = 0
        kept = values > (_LEAST if self.inner.dtype == np.float64 else _SINGLE) * values.max()
        out[:, : len(values)][:, kept] = vectors[:, kept]
        return out

    def divided(self, scale: float) -> Self:
        """Those of the rows divided by ``scale``."""
        inner = self.inner / np.asarray(scale**2, dtype=self.inner.dtype)
        return type(self)(inner, self.sums / scale, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProducts:
    """What is read of k known rows and m others.

    ``among`` (k, k) and ``across`` (m, k) are inner products of the known with each other and of
    the others with them; ``sizes`` (m,) are the others' squared lengths; ``total`` is the sum of
    all entries of the known rows, which have ``width`` columns.
    """

    among: NDArray[np.float64]
    across: NDArray[np.float64]
    sizes: NDArray[np.float64]
    total: float
    width: int

    @property
    def variance(self) -> float:
        """Variance of all entries of the known rows, one over the other."""
        entries = len(self.among) * self.width
        return max(0.0, float(np.trace(self.among)) / entries - (self.total / entries) ** 2)

    def distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Squared distances among the known, (k, k), and of the others to them, (m, k)."""
        own = np.diag(self.among)
        near = np.maximum(own[:, None] + own - 2 * self.among, 0)
        np.fill_diagonal(near, 0)
        return near, np.maximum(self.sizes[:, None] + own - 2 * self.across, 0)

    def coordinates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates (k, r) of the known rows in their own span, and (m, r) of the others'.

        A rotation: inner products stay as they are, of the others' with the known. What of the
        others is outside the span no known user tells anything about.
        """
        values, vectors = np.linalg.eigh(self.among)
        kept = values > _LEAST * max(float(values[-1]), 0.0)
        if not kept.any():
            return np.zeros((len(self.among), 1)), np.zeros((len(self.across), 1))
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        return vectors * roots, self.across @ (vectors / roots)
