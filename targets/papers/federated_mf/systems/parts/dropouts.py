"""Noise that is replaced, over rounds in which devices drop out at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import log_ndtr, ndtr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.composition import distribution_of_sum
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import least_variance
from fedrec_auditor.targets.settings import (
    AboveZero,
    Checked,
    ProperShare,
    ShareOrNone,
    Whole,
    WholeOrNone,
    check,
)

Floats = NDArray[np.float64]
_CELLS = 8192  # of mu^2 in one round, rounded down
_BULK = 12.0  # standard deviations of a number of survivors that are looked at
_NOISE = 1e-13  # probability that a Fourier transform may have made up


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropouts(Checked):
    """``count`` rounds of ``NoiseReplacement`` in which every device may drop out, twice.

    Each of the honest devices, the one asked about too, leaves with probability ``dropout``
    before round 1, and with the same before round 2 if it is still there; ``colluding`` others do
    not.
    A round that at most (1 - omega) n survive halts. The server knows who survived and tells
    ``overstated`` times their number. Who does is independent of all data, so the curve is the
    mean, over all survivors of all rounds, of that of a Gaussian whose mu^2 is the sum of those of
    the rounds that the device survived. It is computed from below: mu^2 of a round is rounded down
    by 1/8192 of its largest value, and survivors' numbers 12 standard deviations off are left out.

    An output is a row [m, r, S, sum of R_i] a round, of honest messages, and zeros where the device
    was not in the sum. The value is as in ``NoiseReplacement``.
    """

    sigma: AboveZero
    sensitivity: AboveZero
    n_users: Whole
    omega: ShareOrNone
    dropout: ProperShare
    count: Whole
    repaired: bool = False
    colluding: WholeOrNone = 0
    overstated: AboveZero = 1.0

    def __post_init__(self) -> None:
        check(self)
        if self.colluding >= self.n_users:
            raise InputError(
                f"Expected colluding in [0, n_users), got colluding={self.colluding!r}."
            )
        self._least()

    @property
    def domain(self) -> Domain:
        """One number in [0, sensitivity]."""
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(count, 4): a row [m, r, S, sum of R_i] a round."""
        return (self.count, 4)

    def survivors(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """Numbers m and r of a round in which the device is in the sum, and their probabilities.

        They add up to the probability that it is, but for what is left out.
        """
        stays, others = 1.0 - self.dropout, self.n_users - 1 - self.colluding
        m = 1 + self.colluding + _bulk(others, stays)
        m = m[m > (1.0 - self.omega) * self.n_users]
        left = _bulk(self.n_users - self.colluding, stays * stays)
        masked, honest = (grid.ravel() for grid in np.meshgrid(m, left, indexing="ij"))
        probability = stats.binom.pmf(masked - 1 - self.colluding, others, stays)
        probability = probability * stats.binom.pmf(honest, masked - self.colluding, stays) * stays
        seen = probability > 0.0
        return masked[seen], honest[seen] + self.colluding, probability[seen]

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Run all rounds; float64 (*size, count, 4)."""
        values = np.asarray(self.domain.spread(value, size), dtype=np.float64)
        masked, replaced, probability = self.survivors()
        edges = np.cumsum(probability)
        shape = (*values.shape, self.count)
        at = np.searchsorted(edges, rng.random(shape), side="right")
        there = at < len(edges)
        at = np.minimum(at, len(edges) - 1)
        m, r = np.where(there, masked[at], 0), np.where(there, replaced[at], 0)
        first, second = rng.standard_normal((2, *shape)), rng.standard_normal((2, *shape))
        zeta1, zeta2 = self._zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.colluding, 0)
        own, other = (zeta2, zeta1 - zeta2) if self.repaired else (zeta1, zeta2)
        a = np.sqrt(honest * np.maximum(own, 0.0)) * first[0]
        b = np.sqrt(honest * np.maximum(other, 0.0)) * first[1]
        mine, sent = (a + b, -b) if self.repaired else (a, b - a)
        total = mine + np.sqrt((m - r) * zeta1) * second[0]
        rows = [m, r, values[..., None] + self.sigma * total, self.sigma * sent]
        return np.asarray(np.where(there[..., None], np.stack(rows, axis=-1), 0.0))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> Floats:
        """Log-probability of who survived, and log-density of both sums given that."""
        out, gradient = np.asarray(output, dtype=np.float64), self.domain.check(value)
        masked, replaced, probability = self.survivors()
        table = {(m, r): p for m, r, p in zip(masked, replaced, probability, strict=True)}
        table[0, 0] = 1.0 - float(probability.sum())
        m, r, total, sent = np.moveaxis(out, -1, 0)
        pairs = np.stack([m, r], axis=-1).reshape(-1, 2).astype(int)
        known = np.array([table.get((a, b), 0.0) for a, b in pairs.tolist()]).reshape(m.shape)
        zeta1, zeta2 = self._zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.colluding, 0)
        spread = zeta1 - zeta2 if self.repaired else zeta1 + zeta2
        weight = np.ones_like(zeta2) if self.repaired else zeta1 / (zeta1 + zeta2)
        left = self.sigma * np.sqrt(honest * weight * zeta2 + (m - r) * zeta1)
        wide = self.sigma * np.sqrt(np.maximum(honest * spread, 0.0))
        there = m > 0
        center = np.asarray(gradient)[..., None] - weight * sent
        density = stats.norm.logpdf(total, center, np.where(there, left, 1.0))
        blurred = stats.norm.logpdf(sent, 0.0, np.where(wide > 0, wide, 1.0))
        density = density + np.where(wide > 0, blurred, np.where(sent == 0, 0.0, -np.inf))
        with np.errstate(divide="ignore"):
            return np.asarray((np.log(known) + np.where(there, density, 0.0)).sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """None: the log-ratio has no bound."""
        return None

    def delta(self, epsilon: float) -> float:
        """The mean of Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), from below."""
        squares, probability = _totals(self)
        mu = np.sqrt(squares)
        near = ndtr(mu / 2.0 - epsilon / mu)
        far = np.exp(epsilon + log_ndtr(-mu / 2.0 - epsilon / mu))
        return float(probability @ np.maximum(near - far, 0.0))

    def event(self) -> dp.DpEvent:
        """Gaussians at the worst dropouts for which a round goes on."""
        left = self._least()
        if left == 0.0:
            return dp.NonPrivateDpEvent()
        one = dp.GaussianDpEvent(self.sigma * math.sqrt(left) / self.sensitivity)
        return dp.SelfComposedDpEvent(one, self.count)

    def squares(self) -> tuple[Floats, Floats]:
        """mu^2 of a round in which the device is in the sum, and the probabilities."""
        masked, replaced, probability = self.survivors()
        zeta1, zeta2 = self._zetas(masked)
        honest = replaced - self.colluding
        kept = zeta2 if self.repaired else zeta1 * zeta2 / (zeta1 + zeta2)
        left = honest * kept + (masked - replaced) * zeta1
        return (self.sensitivity / self.sigma) ** 2 / left, probability

    def _zetas(self, masked: NDArray[Any]) -> tuple[float, Floats]:
        told = np.rint(self.overstated * masked)
        return 1.0 / ((1.0 - self.omega) * self.n_users), np.asarray(1.0 / told)

    def _least(self) -> float:
        return least_variance(
            omega=self.omega,
            colluding=self.colluding / self.n_users,
            announced=self.overstated,
            repaired=self.repaired,
        )


def _bulk(trials: int, rate: float) -> NDArray[np.int64]:
    mean, spread = trials * rate, math.sqrt(trials * rate * (1.0 - rate)) + 1.0
    low, high = mean - _BULK * spread, mean + _BULK * spread
    return np.arange(max(0, math.floor(low)), min(trials, math.ceil(high)) + 1)


@lru_cache(maxsize=16)
def _totals(rounds: Dropouts) -> tuple[Floats, Floats]:
    """The sum of mu^2 over all rounds, above 0, and its distribution, from below."""
    squares, probability = rounds.squares()
    step = float(squares.max()) / _CELLS if len(squares) else 1.0
    cells = (squares / step).astype(np.int64)
    one = np.bincount(cells, weights=probability, minlength=_CELLS + 1).astype(np.float64)
    one[0] += max(0.0, 1.0 - float(probability.sum()))
    size = rounds.count * _CELLS + 1
    masses = distribution_of_sum([(one, 0, rounds.count)], 0, size)
    kept = np.flatnonzero(masses > _NOISE)
    kept = kept[kept > 0]
    return np.asarray(kept * step), np.asarray(masses[kept] - _NOISE)
