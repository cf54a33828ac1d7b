"""Two rounds of secure aggregation in which clients replace their noise by less."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from accountants.errors import InputError
from targets.mechanisms._additive import NormalCurve, check_count, check_mu, check_positive
from targets.mechanisms.base import Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReplacement(NormalCurve):
    """All that LFL-SGDMF's server sees of an iteration: mu = sensitivity/(sigma sqrt(v)).

    Round 1: of n users, ``masked`` = m survive, and secure aggregation reveals S = sum of
    g_i + xi_i with xi_i ~ N(0, zeta1 sigma^2), zeta1 = 1/((1 - omega) n). Round 2: ``replaced`` of
    those survive, and each sends R_i = -xi_i + xi'_i, xi'_i ~ N(0, zeta2 sigma^2), zeta2 = 1/m,
    outside the masks. The output is [S, R_1, R_2, ...].

    The paper accounts the last sum S + sum of R_i alone, of variance at least sigma^2
    (``claimed_variance``), and claims mu = sensitivity/sigma. But S and the R_i remain known, and
    R_i tells of xi_i: given R_i it has mean -c R_i, c = zeta1/(zeta1 + zeta2), and variance
    zeta1 zeta2/(zeta1 + zeta2). So S + c sum of R_i is the best statistic, of variance v sigma^2,

        v = a (b/(1 - omega + a) + (1 - b)/(1 - omega)),    a = m/n, b = replaced/m,

    1/(2 - omega) < 1 without dropout: Theorem 5 is violated. Single messages say no more than their
    sum. A server that announces a false m, and users who give away their noise, make it worse.

    ``repaired`` keeps the messages and the noise of the result at no cost: xi_i = a_i + b_i with
    independent parts of zeta2 and zeta1 - zeta2, and R_i = -b_i. Then c = 1, and the joint view is
    worth no more than the last sum: v = ``claimed_variance`` >= 1.

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

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma, sensitivity=self.sensitivity)
        check_count(n_users=self.n_users)
        if not 0.0 <= self.omega < 1.0:
            raise InputError(f"Expected omega in [0, 1), got omega={self.omega!r}. Give a share.")
        if not 0 <= self.replaced <= self.masked <= self.n_users:
            raise InputError(
                f"Expected 0 <= replaced <= masked <= n_users, got replaced={self.replaced!r}, "
                f"masked={self.masked!r}, n_users={self.n_users!r}. Survivors of round 2 survived."
            )
        needed = (1.0 - self.omega) * self.n_users
        if self.masked < needed * (1.0 - 1e-12):
            raise InputError(
                f"Expected at least (1 - omega) n_users = {needed:g} users masked, got "
                f"masked={self.masked!r}. With fewer the protocol halts."
            )
        if self.repaired and self.masked <= needed * (1.0 + 1e-12):
            raise InputError(
                f"Expected more than (1 - omega) n_users = {needed:g} users masked, got "
                f"masked={self.masked!r}. With as few there is no noise to take back."
            )
        check_mu(self.mu, "sigma")

    @property
    def zeta1(self) -> float:
        """Variance of one user's first noise, in units of sigma^2."""
        return 1.0 / ((1.0 - self.omega) * self.n_users)

    @property
    def zeta2(self) -> float:
        """Variance of one user's second noise, in units of sigma^2."""
        return 1.0 / self.masked if self.masked else math.inf

    @property
    def variance(self) -> float:
        """v: what the server cannot know of the noise in S, in units of sigma^2."""
        a, b, kept = self.masked / self.n_users, self._share, 1.0 - self.omega
        return b / (1.0 if self.repaired else 1.0 + kept / a) + a * (1.0 - b) / kept

    @property
    def claimed_variance(self) -> float:
        """The variance of the last sum, in units of sigma^2: what the paper accounts."""
        return self._share + self.masked / self.n_users * (1.0 - self._share) / (1.0 - self.omega)

    @property
    def mu(self) -> float:
        """sensitivity/(sigma sqrt(v))."""
        return self.sensitivity / (self.sigma * math.sqrt(self.variance))

    @property
    def claimed_mu(self) -> float:
        """sensitivity/sigma, as Theorem 5 has it."""
        return self.sensitivity / self.sigma

    @property
    def domain(self) -> Domain:
        """[0, sensitivity]."""
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(1 + replaced,)."""
        return (1 + self.replaced,)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Run both rounds, each survivor's noise by itself; float64 (*size, 1 + replaced)."""
        values = self.domain.spread(value, size)
        shape = (*values.shape, self.replaced)
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
        if self.repaired:
            known, spread = 1.0, self.zeta1 - self.zeta2
        else:
            known, spread = self.zeta1 / (self.zeta1 + self.zeta2), self.zeta1 + self.zeta2
        sent = stats.norm.logpdf(messages, 0.0, self.sigma * math.sqrt(spread)).sum(axis=-1)
        center = gradient - known * messages.sum(axis=-1)
        left = self.sigma * math.sqrt(self.variance)
        return np.asarray(sent + stats.norm.logpdf(out[..., 0], center, left))

    @property
    def _share(self) -> float:
        return self.replaced / self.masked
