"""The noisy gradient of one rating, bounded by clipping the embeddings instead of the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.mechanisms.parts.additive import Normal, check_mu, clip_norm
from fedrec_auditor.targets.settings import AboveZero, check


def clip_embedding(embedding: ArrayLike, bound: float) -> NDArray[np.float64]:
    """The nearest vector with no negative entry and |.|^2 <= ``bound``, along the last axis."""
    positive = np.maximum(np.asarray(embedding, dtype=np.float64), 0.0)
    return clip_norm(positive, math.sqrt(bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingGaussian(Normal):
    """The gradient of (x - u.v)^2 in v, or jointly in u and v, plus N(0, sigma^2 I).

    The value is one rating x in [0, R], or -1 (any negative number) for none, at a place that is
    known: the paper's neighbours add or remove one rating. Embeddings are first projected
    (``clip_embedding``), so that 0 <= u.v <= R, and the gradient -2u (x - u.v) in v and
    -2v (x - u.v) in u is at most 2 R^(3/2), and 2 sqrt(2) R^(3/2) jointly. Both are attained, at
    u and v orthogonal of norm sqrt(R) and x = R, jointly too (``worst``). At given embeddings a
    rating may also be replaced by another, and the centers are then |w| 2R apart, w = u or (u, v):
    as far as the worst addition, so any pair has the paper's sensitivity.

    ``mu`` and the curve are those of these embeddings; ``event`` charges the worst ones, since
    they change from step to step. It assumes that they do not depend on the rating: true of
    noisy, published ones, not of user embeddings pre-trained without noise, where one rating moves
    u and with it every row of that user. The noise must be on every row of the item table: on
    touched rows only, a row without a rating would read exactly 0, and with one almost never.
    Source: Li et al. 2021, section 4.1.1, eq. 6, and section 4.2 (Delta_2v, Delta_rating).

    Outputs are the row's gradient in v, p entries long, or [in u, in v], 2p long.
    """

    sigma: AboveZero
    bound: AboveZero
    user: tuple[float, ...]
    item: tuple[float, ...]
    joint: bool = False

    def __post_init__(self) -> None:
        check(self)
        if not len(self.user) == len(self.item) > 0:
            raise InputError(
                f"Expected user and item of one length above 0, got {len(self.user)} and "
                f"{len(self.item)}. Give two embeddings of the same model."
            )
        if not self._factors.any():
            raise InputError(
                "Expected embeddings that depend on the rating, got projections of 0: the gradient "
                "is 0 whatever the rating. Give an embedding with a positive entry."
            )
        check_mu(self.mu, "sigma")

    @classmethod
    def worst(cls, *, sigma: float, bound: float, joint: bool = False) -> Self:
        """At embeddings that attain the sensitivity."""
        root = math.sqrt(bound)
        return cls(sigma=sigma, bound=bound, user=(root, 0.0), item=(0.0, root), joint=joint)

    @property
    def sensitivity(self) -> float:
        """The largest over all embeddings: 2 R^(3/2), or 2 sqrt(2) R^(3/2) jointly."""
        return 2.0 * self.bound * math.sqrt(self.bound * (2.0 if self.joint else 1.0))

    @property
    def mu(self) -> float:
        """2R|w|/sigma: two ratings, 0 and R, at these embeddings; no addition is farther apart."""
        return 2.0 * self.bound * math.hypot(*self._factors) / self.sigma

    @property
    def domain(self) -> Domain:
        """A rating in [0, R], or -1 for none."""
        return Domain(low=-1.0, high=self.bound)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(p,), or (2p,) jointly."""
        return self._factors.shape

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The gradient; 0 where there is no rating."""
        u, v = clip_embedding(self.user, self.bound), clip_embedding(self.item, self.bound)
        error = np.where(value < 0, 0.0, value - u @ v)
        return np.asarray(-2.0 * error[..., None] * self._factors)

    def event(self) -> dp.DpEvent:
        """Gaussian noise at the sensitivity of the worst embeddings."""
        return dp.GaussianDpEvent(self.sigma / self.sensitivity)

    @property
    def _factors(self) -> NDArray[np.float64]:
        """w: what the error is multiplied by, u in the gradient in v and the other way round."""
        u, v = clip_embedding(self.user, self.bound), clip_embedding(self.item, self.bound)
        return np.concatenate([v, u]) if self.joint else u
