"""Noisy gradient steps on embeddings, as one party takes them, and what bounds a gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.systems.federated_mf.parts.party_randomness import Randomness
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import RatingBatch, project, rate_at


@dataclass(frozen=True, slots=True)
class Clipping:
    """What bounds the gradient of a rating or a user; this one leaves it unbounded.

    ``replaced`` says how far another value of one rating moves the sum, in units of its removal.
    """

    replaced: ClassVar[float] = 1.0

    def errors(self, batch: RatingBatch, errors: Floats, users: Floats, items: Floats) -> Floats:
        """The errors (nnz,) with which gradients are made."""
        return errors

    def project(self, rows: Floats) -> Floats:
        """Embeddings (n, p) after a step."""
        return rows

    def sensitivity(self, count: int, joint: bool) -> float:
        """How far ``count`` ratings of one user move the sum, in U and V (``joint``) or V alone."""
        return math.inf


@dataclass(frozen=True, slots=True)
class EmbeddingClipping(Clipping):
    """The paper's: embeddings not negative, norm^2 <= R, so that 0 <= u.v <= R (equation 6).

    One rating moves the gradient in u by 2 R^(3/2) at most, and so that in v. Of one user's
    ratings those in u may add up, those in v are on different rows: 2 R^(3/2) sqrt(count^2 + count)
    jointly, where the paper has 2 sqrt(2) R^(3/2) count; sqrt(count) in V alone, where it has
    count. Both are attained. Another value, at the same embeddings, moves it as far at most.
    """

    bound: float

    def project(self, rows: Floats) -> Floats:
        """The nearest rows that satisfy equation 6."""
        return project(rows, self.bound)

    def sensitivity(self, count: int, joint: bool) -> float:
        """2 R^(3/2) sqrt(count^2 + count), or sqrt(count) in V alone."""
        size = math.sqrt(count * count + count) if joint else math.sqrt(count)
        return 2.0 * self.bound * math.sqrt(self.bound) * size


@dataclass(frozen=True, slots=True)
class ErrorClipping(Clipping):
    """Errors clipped to [-R, R], embeddings to norm^2 <= R, of any sign."""

    bound: float

    def errors(self, batch: RatingBatch, errors: Floats, users: Floats, items: Floats) -> Floats:
        """Errors clipped to [-bound, bound]."""
        return np.clip(errors, -self.bound, self.bound)

    def project(self, rows: Floats) -> Floats:
        """Rows scaled down to norm^2 <= ``bound``."""
        norm = np.sqrt(np.einsum("...i,...i->...", rows, rows) / rows.dtype.type(self.bound))
        return np.asarray(rows / np.maximum(norm, 1.0)[..., None])

    def sensitivity(self, count: int, joint: bool) -> float:
        """That of embedding clipping: the same two bounds."""
        return EmbeddingClipping(self.bound).sensitivity(count, joint)


@dataclass(frozen=True, slots=True)
class GradientClipping(Clipping):
    """The joint gradient of every rating, or of every user, scaled to a norm of ``clip`` at most.

    After Abadi et al. 2016, Algorithm 1, lines 6 and 7. Another value may turn it round.
    """

    clip: float
    unit: str
    replaced: ClassVar[float] = 2.0

    def errors(self, batch: RatingBatch, errors: Floats, users: Floats, items: Floats) -> Floats:
        """Scaled: a gradient is its errors times embeddings."""
        scale = batch.clip_users if self.unit == "user" else batch.clip_ratings
        return scale(errors, users, items, self.clip)

    def sensitivity(self, count: int, joint: bool) -> float:
        """``clip`` for a user whose gradient is clipped, ``count`` times that for its ratings."""
        return self.clip * (1 if self.unit == "user" else count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Local steps of parties: sampled gradients, clipped, noisy in every entry, projected.

    A fixed number of rows is drawn, or with ``independent`` every unit by itself: every row, or
    every rating. ``sigma`` is the noise on the sum in joint steps, ``tuning_sigma`` in steps on
    items alone. ``langevin`` adds noise up to that of Langevin dynamics at least. ``steps`` is how
    many the learning rate falls over.
    """

    clipping: Clipping
    learning_rate: float
    rate: float
    steps: int
    unit: str = "rating"
    independent: bool = False
    sigma: float = 0.0
    tuning_sigma: float = 0.0
    langevin: bool = False

    def train(
        self,
        users: Floats,
        items: Floats,
        ratings: sparse.csr_array,
        randomness: Randomness,
        *,
        user_scale: Floats,
        item_scale: Floats,
        first: int = 0,
        count: int,
        joint: bool = True,
    ) -> tuple[Floats, Floats]:
        """``count`` steps on stacked ``users`` (S, p) and ``items`` (M, p), from the ``first`` on.

        Parties are trained together: ``ratings`` (S, M) has a block for each of them. A step on the
        sum is the learning rate times ``user_scale`` (S, 1), or ``item_scale`` (M, 1), long. New
        arrays. InputError if the embeddings are no longer finite.
        """
        users, items = users.copy(), items.copy()
        for step in range(first, first + count):
            rate = rate_at(step, self.steps, self.learning_rate)
            batch = self._draw(ratings, randomness)
            errors = self.clipping.errors(batch, batch.errors(users, items), users, items)
            of_users, of_items = batch.gradients(errors, users, items)
            size = (rate * item_scale).astype(items.dtype)
            sigma = self.sigma if joint else self.tuning_sigma
            noise = self._noise(sigma, size, randomness.items, items.shape)
            items = self.clipping.project(
                items - size * (of_items if noise is None else of_items + noise)
            )
            if not joint:
                continue
            size = (rate * user_scale).astype(users.dtype)
            noise = self._noise(sigma, size, randomness.users, users.shape)
            if noise is None:
                moved = users[batch.users] - size[batch.users] * of_users
                users[batch.users] = self.clipping.project(moved)
            else:
                noise[batch.users] += of_users
                noise *= size
                users = self.clipping.project(np.subtract(users, noise, out=noise))
        if not (np.isfinite(users).all() and np.isfinite(items).all()):
            raise InputError(
                f"Expected a training that stays finite, got one that diverged at "
                f"learning_rate={self.learning_rate!r}. Give a smaller one."
            )
        return users, items

    def _draw(self, ratings: sparse.csr_array, randomness: Randomness) -> RatingBatch:
        if not self.independent:
            return randomness.fixed(ratings, self.rate)
        if self.unit == "user":
            return randomness.rows(ratings, self.rate)
        return randomness.ratings(ratings, self.rate)

    def _noise(
        self,
        sigma: float,
        size: Floats,
        draw: Callable[[tuple[int, ...]], Floats],
        shape: tuple[int, ...],
    ) -> Floats | None:
        """Noise on a sum, None for none.

        A step h on the sum of a batch is h rate on the whole data's: Langevin noise is N(0, that).
        """
        if not (sigma or self.langevin):
            return None
        noise = draw(shape)
        if self.langevin:
            noise *= np.maximum(np.float32(sigma), np.sqrt(np.float32(self.rate) / size))
        else:
            noise *= np.float32(sigma)
        return noise
