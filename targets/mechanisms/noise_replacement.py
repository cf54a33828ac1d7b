"""Two rounds of secure aggregation in which clients replace their noise by less."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain, Size
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve, check_mu
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import NoiseShares
from fedrec_auditor.targets.settings import AboveZero


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseReplacement(NoiseShares, NormalCurve):
    """All that LFL-SGDMF's server sees of an iteration: mu = sensitivity/(sigma sqrt(v)).

    The messages, who sends them and v, ``variance``, are those of ``NoiseShares``, with noise of
    variance zeta1 sigma^2 and zeta2 sigma^2. The output is [S, R_1, R_2, ...], one R for every
    honest user of round 2.

    The paper accounts the last sum S + sum of R_i alone, of variance at least sigma^2
    (``claimed_variance``), and claims mu = sensitivity/sigma: Theorem 5 is violated, since v is
    1/(2 - omega) < 1 without dropout. A server that announces too many, and users who give away
    their noise, make it worse. With ``repaired`` v is ``claimed_variance``, at least 1 if all are
    honest.

    The value is one user's gradient along the direction in which it can change, in
    [0, sensitivity], where 0 is no rating (the paper's neighbours add or remove one, so the
    sensitivity is 2 R^(3/2)); the other users' are fixed, at 0. The noise across that direction
    is independent of everything. Source: Li et al. 2021, section 6.1, Theorem 5 and its proof.
    """

    sigma: AboveZero
    sensitivity: AboveZero

    def __post_init__(self) -> None:
        NoiseShares.__post_init__(self)
        if self.variance <= 0.0:
            raise InputError(
                f"Expected an honest user whose noise is left, got colluding={self.colluding!r} of "
                f"replaced={self.replaced!r}. Take fewer."
            )
        check_mu(self.mu, "sigma")

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

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
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
        center = gradient - self.weight * messages.sum(axis=-1)
        left = self.sigma * math.sqrt(self.variance)
        return np.asarray(sent + stats.norm.logpdf(out[..., 0], center, left))
