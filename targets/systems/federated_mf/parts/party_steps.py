"""Local steps of a party on both embeddings: what is drawn, and how far a step goes.

Per step: noise for every row of V (``table_noise``), the gradients of the ratings drawn, and the
projection, while a row is at hand, in compiled code (``party_kernel``) that the tests hold to
plain loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import batch_size, rate_at


@dataclass(frozen=True, slots=True)
class Drawn:
    """Ratings of many steps: step t has ``starts[t]`` to ``starts[t + 1]`` of the others.

    ``places`` in the table's data, and ``rows`` they stand in; a step's rows ascend.
    """

    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of_rows(
        cls, ratings: sparse.csr_array, steps: NDArray[Any], chosen: NDArray[Any], count: int
    ) -> Drawn:
        """All ratings of the rows ``chosen``, each in its one of ``steps``, ascending."""
        held = np.diff(ratings.indptr)[chosen]
        before = np.concatenate([[0], np.cumsum(held)])
        inside = np.arange(before[-1]) - np.repeat(before[:-1], held)
        places = np.repeat(ratings.indptr[chosen], held) + inside
        starts = before[np.searchsorted(steps, np.arange(count + 1))]
        return cls(starts.astype(np.int64), places.astype(np.int64), np.repeat(chosen, held))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartySteps:
    """Steps of ``learning_rate`` falling over ``steps``, on a share ``rate`` of rows or ratings.

    A fixed number of rows is drawn, or, ``independent``, every ``unit`` ("user" or "rating") by
    itself. ``sigma`` is the noise on the sum of item gradients. Steps on users are ``weight`` times
    as long as on items (n_k/n in equation 5), or none at 0. ``bound`` is R of equation 6, onto
    which embeddings are projected, or 0 for none.
    """

    learning_rate: float
    steps: int
    rate: float
    unit: str = "rating"
    independent: bool = False
    sigma: float = 0.0
    weight: float = 0.0
    bound: float = 0.0

    def train(
        self,
        users: Floats,
        items: Floats,
        ratings: sparse.csr_array,
        rng: np.random.Generator,
        *,
        step_scale: float,
        first: int,
        count: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """New embeddings (n, p), (m, p) after ``count`` steps of ``step_scale`` times the rate.

        ``rng`` draws the ratings of all steps, then one seed of noise a step.
        InputError if the embeddings are no longer finite.
        """
        from fedrec_auditor.targets.systems.federated_mf.parts.party_kernel import advance

        drawn = self.draw(ratings, rng, count)
        seeds = rng.integers(1 << 64, size=count, dtype=np.uint64)
        users, items = (np.array(table, np.float32) for table in (users, items))
        advance(
            users,
            items,
            drawn.starts,
            drawn.rows,
            *_entries(ratings, drawn),
            seeds,
            (self._rates(first, count) * step_scale).astype(np.float32),
            *self._numbers,
        )
        return self._finite(users), self._finite(items)

    def singles(
        self,
        users: Floats,
        items: Floats,
        ratings: sparse.csr_array,
        streams: Streams,
        *,
        step_scale: NDArray[Any],
        count: int,
    ) -> NDArray[np.float32]:
        """Item embeddings (n, m, p) of n parties of one user each, after their first steps.

        All randomness comes from the party's stream. ``items`` (m, p) is what all begin with,
        ``step_scale`` (n,) each one's. A party of one user draws its row in every step, unless
        units are drawn by themselves.
        """
        from fedrec_auditor.targets.systems.federated_mf.parts.party_kernel import advance_all

        n = ratings.shape[0]
        drawn = self.single_draws(ratings, streams, count)
        users, out = np.array(users, np.float32), np.tile(items.astype(np.float32), (n, 1, 1))
        sizes = step_scale[:, None] * self._rates(0, count)
        advance_all(
            users,
            out,
            drawn.starts,
            *_entries(ratings, drawn),
            streams.fold_in(1).random_bits(count),
            sizes.astype(np.float32),
            *self._numbers,
        )
        return self._finite(out)

    def draw(self, ratings: sparse.csr_array, rng: np.random.Generator, count: int) -> Drawn:
        """The ratings of ``count`` steps. Memory is some n numbers a step."""
        n = ratings.shape[0]
        if self.independent and self.unit == "rating":
            sizes = rng.binomial(ratings.nnz, self.rate, count)
            parts = [np.sort(rng.choice(ratings.nnz, size, replace=False)) for size in sizes]
            places = np.concatenate(parts).astype(np.int64)
            rows = np.searchsorted(ratings.indptr, places, side="right") - 1
            return Drawn(np.cumsum([0, *sizes]), places, rows)
        if self.independent:
            steps, chosen = np.nonzero(rng.random((count, n)) < self.rate)
            return Drawn.of_rows(ratings, steps, chosen, count)
        size = batch_size(n, self.rate)
        if size == 1:
            picked = rng.integers(n, size=(count, 1))
        else:
            picked = np.argpartition(rng.random((count, n)), size - 1, axis=1)[:, :size]
        chosen = np.sort(picked, axis=1).ravel()
        return Drawn.of_rows(ratings, np.repeat(np.arange(count), size), chosen, count)

    def single_draws(self, ratings: sparse.csr_array, streams: Streams, count: int) -> Drawn:
        """Those of ``singles``: of the first party's steps, then of the second's, and so on."""
        n, randomness = ratings.shape[0], streams.fold_in(0)
        if self.independent and self.unit == "rating":
            counts = np.diff(ratings.indptr)
            rows = np.repeat(np.arange(n), counts)
            place = np.arange(ratings.nnz) - ratings.indptr[rows]
            spots = np.arange(count)[:, None] * ratings.shape[1] + place
            kept = randomness.laplace_at(rows, spots) < _quantile(self.rate)
            step, places = np.nonzero(kept)
            order = np.argsort(rows[places] * count + step, kind="stable")
            groups = (rows[places] * count + step)[order]
            starts = np.searchsorted(groups, np.arange(n * count + 1))
            return Drawn(starts, places[order], rows[places[order]])
        chosen, step = np.divmod(np.arange(n * count), count)
        if self.independent:
            kept = randomness.uniform(count)[chosen, step] < self.rate
            chosen, step = chosen[kept], step[kept]
        return Drawn.of_rows(ratings, chosen * count + step, chosen, n * count)

    def _rates(self, first: int, count: int) -> NDArray[np.float64]:
        steps = range(first, first + count)
        return np.array([rate_at(step, self.steps, self.learning_rate) for step in steps])

    @property
    def _numbers(self) -> tuple[np.float32, np.float32, np.float32]:
        return np.float32(self.weight), np.float32(self.sigma), np.float32(self.bound)

    def _finite(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.isfinite(table).all():
            raise InputError(
                f"Expected a training that stays finite, got one that diverged at "
                f"learning_rate={self.learning_rate!r}. Give a smaller one."
            )
        return table


def _entries(
    ratings: sparse.csr_array, drawn: Drawn
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    columns, values = ratings.indices[drawn.places], ratings.data[drawn.places]
    return columns.astype(np.int64), values.astype(np.float32)


def _quantile(rate: float) -> float:
    """Below which a standard Laplace draw lies with probability ``rate``."""
    return float(np.log(2 * rate) if rate < 0.5 else -np.log(max(2 * (1 - rate), 1e-300)))
