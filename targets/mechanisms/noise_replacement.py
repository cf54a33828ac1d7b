"""Two rounds of secure aggregation in which clients replace their noise by less."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve, check_mu, check_positive
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReplacement(NormalCurve):
    """All that LFL-SGDMF's server sees of an iteration: mu = sensitivity/(sigma sqrt(v)).

    Round 1: of n users, ``masked`` = m survive, and secure aggregation reveals S = sum of
    g_i + xi_i with xi_i ~ N(0, zeta1 sigma^2), zeta1 = 1/((1 - omega) n). Round 2: ``replaced`` of
    those survive, and each sends R_i = -xi_i + xi'_i, xi'_i ~ N(0, zeta2 sigma^2), outside the
    masks, zeta2 = 1/``announced``, the number of survivors that the server announces: m, if it is
    honest. The noises of ``colluding`` users, who survive both rounds, are known to the server and
    left out. The output is [S, R_1, R_2, ...], one R for every honest user of round 2.

    The paper accounts the last sum S + sum of R_i alone, of variance at least sigma^2
    (``claimed_variance``), and claims mu = sensitivity/sigma. But S and the R_i remain known, and
    R_i tells of xi_i: S + c sum of R_i, c = zeta1/(zeta1 + zeta2), has variance v sigma^2 only, and
    nothing tells more (``NoiseShares``, where v is derived); 1/(2 - omega) < 1 without dropout:
    Theorem 5 is violated. Single messages say no more than their sum. A server that announces too
    many, and users who give away their noise, make it worse.

    ``repaired`` keeps the messages and the noise of the result at no cost: xi_i = a_i + b_i with
    independent parts of zeta2 and zeta1 - zeta2, and R_i = -b_i. Then c = 1, and the joint view is
    worth no more than the last sum: v = ``claimed_variance``, at least 1 if all are honest.

    The value is one user's gradient along the direction in which it can change, in
    [0, sensitivity], where 0 is no rating (the paper's neighbours add or remove one, so the
    sensitivity is 2 R^(3/2)); the other users' are fixed, at 0. The noise across that direction
    is independent of everything. Source: Li et al. 2021, section 6.1, Theorem 5 and its proof.
    """

    sigma: float
    sensitivity: float
    n_users: int
    omega: float
    masked: int
    replaced: int
    repaired: bool = False
    colluding: int = 0
    announced: float | None = None

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma, sensitivity=self.sensitivity)
        if self.shares.variance <= 0.0:
            raise InputError(
                f"Expected an honest user whose noise is left, got colluding={self.colluding!r} of "
                f"replaced={self.replaced!r}. Take fewer."
            )
        check_mu(self.mu, "sigma")

    @property
    def shares(self) -> NoiseShares:
        """Who adds how much noise; InputError for numbers that make no sense."""
        return NoiseShares(
            n_users=self.n_users,
            omega=self.omega,
            masked=self.masked,
            replaced=self.replaced,
            colluding=self.colluding,
            announced=self.announced,
            repaired=self.repaired,
        )

    @property
    def zeta1(self) -> float:
        """Variance of one user's first noise, in units of sigma^2."""
        return self.shares.zeta1

    @property
    def zeta2(self) -> float:
        """Variance of one user's second noise, in units of sigma^2."""
        return self.shares.zeta2

    @property
    def variance(self) -> float:
        """v: what the server cannot know of the noise in S, in units of sigma^2."""
        return self.shares.variance

    @property
    def claimed_variance(self) -> float:
        """The variance of the last sum, in units of sigma^2: what the paper accounts."""
        return self.shares.result

    @property
    def mu(self) -> float:
        """Sensitivity over the noise that is left, sensitivity/(sigma sqrt(v))."""
        return self.sensitivity / (self.sigma * math.sqrt(self.variance))

    @property
    def domain(self) -> Domain:
        """One number in [0, sensitivity]."""
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(1 + replaced - colluding,)."""
        return (1 + self.replaced - self.colluding,)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Run both rounds, each survivor's noise by itself; float64 (*size, *output_shape)."""
        values = self.domain.spread(value, size)
        shape = (*values.shape, self.replaced - self.colluding)
        stays = rng.normal(0.0, self.sigma * math.sqrt(self.zeta2), shape)
        if self.repaired:
            goes = rng.normal(0.0, self.sigma * math.sqrt(self.zeta1 - self.zeta2), shape)
            first, messages = goes + stays, -goes
        else:
            first = rng.normal(0.0, self.sigma * math.sqrt(self.zeta1), shape)
            messages = stays - first
        dropped = self.sigma * math.sqrt((self.masked - self.replaced) * self.zeta1)
        total = values + first.sum(axis=-1) + rng.normal(0.0, dropped, values.shape)
        return np.concatenate([total[..., None], messages], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density: that of the messages, and that of S given the messages."""
        out, gradient = np.asarray(output, dtype=np.float64), self.domain.check(value)
        messages = out[..., 1:]
        spread = self.zeta1 - self.zeta2 if self.repaired else self.zeta1 + self.zeta2
        sent = stats.norm.logpdf(messages, 0.0, self.sigma * math.sqrt(spread)).sum(axis=-1)
        center = gradient - self.shares.weight * messages.sum(axis=-1)
        left = self.sigma * math.sqrt(self.variance)
        return np.asarray(sent + stats.norm.logpdf(out[..., 0], center, left))
