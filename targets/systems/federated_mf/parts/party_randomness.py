"""Randomness of parties that are trained together: which rows a step draws, and its noise.

Noise is drawn in single precision, as embeddings are sent. Its low-order bits can say more than
the normal law does (Mironov 2012), which no bound of these systems covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import RatingBatch, sample_rows


@dataclass(frozen=True, slots=True)
class PartyRandomness:
    """One generator a party: ``n_users`` rows each, the items from ``owned[k]`` to the next."""

    generators: tuple[np.random.Generator, ...]
    n_users: int
    owned: Ints

    def fixed(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """n' rows of every party, without replacement."""
        return self._rows(ratings, rate, poisson=False)

    def rows(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """Every row, each drawn by itself at ``rate``."""
        return self._rows(ratings, rate, poisson=True)

    def ratings(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """Every rating at ``rate``: as many as a binomial, without replacement."""
        bounds = ratings.indptr[:: self.n_users] if self.n_users else np.zeros(1, dtype=int)
        kept = []
        for rng, low, high in zip(self.generators, bounds[:-1], bounds[1:], strict=True):
            size = rng.binomial(high - low, rate)
            kept.append(low + np.sort(rng.choice(high - low, size, replace=False)))
        return RatingBatch.thinned(ratings, np.concatenate(kept))

    def users(self, shape: tuple[int, ...]) -> Floats:
        """Standard normals for the user rows, each party's from its own generator."""
        return self._normal(shape, self.n_users * np.arange(len(self.generators) + 1))

    def items(self, shape: tuple[int, ...]) -> Floats:
        """Standard normals for the item rows, each party's from its own generator."""
        return self._normal(shape, self.owned)

    def _rows(self, ratings: sparse.csr_array, rate: float, *, poisson: bool) -> RatingBatch:
        drawn = [sample_rows(self.n_users, rate, rng, poisson) for rng in self.generators]
        return RatingBatch.of(
            ratings, np.concatenate([k * self.n_users + rows for k, rows in enumerate(drawn)])
        )

    def _normal(self, shape: tuple[int, ...], bounds: Ints) -> Floats:
        out = np.empty(shape, dtype=np.float32)
        for rng, low, high in zip(self.generators, bounds[:-1], bounds[1:], strict=True):
            rng.standard_normal(out=out[low:high], dtype=np.float32)
        return out


class StreamRandomness:
    """One stream a party of one user, who is in every fixed sample of its own party.

    A step draws from a child of its own: call for the batch first.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._step = 0

    def fixed(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """All rows, since each party has one."""
        self._next()
        return RatingBatch(np.arange(ratings.shape[0]), ratings)

    def rows(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """Every user, each drawn by itself at ``rate``."""
        chosen = self._next().uniform(1)[:, 0] < rate
        users = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
        return RatingBatch.thinned(ratings, np.flatnonzero(chosen[users]))

    def ratings(self, ratings: sparse.csr_array, rate: float) -> RatingBatch:
        """Every rating at ``rate``, by the probability of its Laplace draw."""
        users = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
        draws = self._next().laplace_at(users, np.arange(ratings.nnz) - ratings.indptr[users])
        tail = 0.5 * np.exp(-np.abs(draws))
        return RatingBatch.thinned(
            ratings, np.flatnonzero(np.where(draws < 0, tail, 1 - tail) < rate)
        )

    def users(self, shape: tuple[int, ...]) -> Floats:
        """Standard normals, one row a party."""
        return self._normal(1, shape)

    def items(self, shape: tuple[int, ...]) -> Floats:
        """Standard normals, the same number of rows for every party."""
        return self._normal(2, shape)

    def _next(self) -> Streams:
        self._step += 1
        return self._streams.fold_in(self._step).fold_in(0)

    def _normal(self, purpose: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
        count = shape[0] // max(1, len(self._streams)) * shape[1]
        draws = self._streams.fold_in(self._step).fold_in(purpose).normal(count)
        return draws.reshape(shape).astype(np.float32)


Randomness = PartyRandomness | StreamRandomness
"""All randomness of the steps of several parties, whose rows and items are stacked."""
