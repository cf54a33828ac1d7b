"""Pairs of distributions (P, Q), as the probabilities of their privacy loss ln(P/Q).

A pair dominates a mechanism if no two neighbours are told apart better, at any epsilon, than P from
Q. Pairs are asked for the masses of intervals of the loss, in logarithms, so that neither a rare
loss nor one of a thousand is lost to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

Array = NDArray[np.float64]


class Pair(Protocol):
    """Two distributions, known by their privacy loss."""

    @property
    def infinite(self) -> float:
        """P-mass of what is impossible under Q."""
        ...

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses under P and under Q of the losses in (edges[i], edges[i + 1]].

        ``edges`` rise, and may begin at -inf and end at inf; infinite losses are not counted.
        """
        ...

    def span(self, tail: float) -> tuple[float, float]:
        """Losses outside of which there is a P-mass of at most ``tail`` on either side."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianPair:
    """N(mu, 1) against N(0, 1), where mu = sensitivity/sigma: the loss at x is mu x - mu^2/2."""

    mu: float
    infinite: float = 0.0

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        x = edges / self.mu + self.mu / 2.0
        return normal_masses(x - self.mu), normal_masses(x)

    def span(self, tail: float) -> tuple[float, float]:
        """The mean of the loss and as many deviations as the tail asks for."""
        reach = -float(ndtri(max(tail, 1e-307))) * self.mu
        return self.mu**2 / 2.0 - reach, self.mu**2 / 2.0 + reach


@dataclass(frozen=True, slots=True)
class LaplacePair:
    """Laplace noise of scale 1 around 0 against the same around m = sensitivity/scale.

    The loss is m at x <= 0, m - 2x between the centres and -m at x >= m.
    """

    m: float
    infinite: float = 0.0

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals; the two atoms lie at m and at -m."""
        x = np.clip((self.m - edges) / 2.0, 0.0, self.m)
        width = log1mexp(x[:-1] - x[1:]) - math.log(2.0)
        log_p, log_q = width - x[1:], width - (self.m - x[:-1])
        add_atom(edges, self.m, -math.log(2.0), -math.log(2.0) - self.m, log_p, log_q)
        add_atom(edges, -self.m, -math.log(2.0) - self.m, -math.log(2.0), log_p, log_q)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """P-losses beyond m - 2x have mass e^-x / 2."""
        return max(-self.m, self.m + 2.0 * math.log(max(tail, 1e-307))), self.m


@dataclass(frozen=True, slots=True)
class AtomicPair:
    """Finitely many losses with their log-masses under P; those under Q are less by the loss.

    What is possible under P alone has a mass of ``infinite``, and by symmetry what is possible
    under Q alone; the latter is not counted, as no hockey stick of P and Q sees it.
    """

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]
    infinite: float = 0.0

    @classmethod
    def of(cls, *atoms: tuple[float, float], infinite: float = 0.0) -> AtomicPair:
        """From losses with their P-masses, those of mass 0 left out."""
        kept = [(loss, math.log(mass)) for loss, mass in atoms if mass > 0]
        return cls(tuple(loss for loss, _ in kept), tuple(log for _, log in kept), infinite)

    @classmethod
    def pure(cls, epsilon: float) -> AtomicPair:
        """Randomized response of this epsilon, however large."""
        truth = -math.log1p(math.exp(-epsilon))
        return cls((epsilon, -epsilon), (truth, truth - epsilon))

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        log_p = np.full(len(edges) - 1, -np.inf)
        log_q = log_p.copy()
        for loss, mass in zip(self.losses, self.log_masses, strict=True):
            add_atom(edges, loss, mass, mass - loss, log_p, log_q)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """The least and the largest loss."""
        return (min(self.losses), max(self.losses)) if self.losses else (0.0, 0.0)


REVEALED = AtomicPair.of(infinite=1.0)
"""What is sent without noise, or with none that matters."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedPair:
    """Any number of losses in an array, rising, (outputs,), with their log-masses under P.

    Compared by identity. ``of`` sorts.
    """

    losses: Array
    log_p: Array
    infinite: float = 0.0

    @classmethod
    def of(cls, losses: Array, log_p: Array, infinite: float = 0.0) -> ListedPair:
        """From finite losses in any order."""
        order = np.argsort(losses)
        return cls(losses[order], log_p[order], infinite)

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        cell = np.searchsorted(edges, self.losses) - 1
        inside = slice(*np.searchsorted(cell, [0, len(edges) - 1]))
        cell, log_p = cell[inside], self.log_p[inside]
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        found = np.full((2, len(edges) - 1), -np.inf)
        if len(first):
            found[0, cell[first]] = _log_sums(log_p, first)
            found[1, cell[first]] = _log_sums(log_p - self.losses[inside], first)
        return found[0], found[1]

    def span(self, tail: float) -> tuple[float, float]:
        """Quantiles of the losses under P."""
        mass, last = np.exp(self.log_p), len(self.losses) - 1
        low = int(np.searchsorted(np.cumsum(mass), tail))
        high = int(np.searchsorted(np.cumsum(mass[::-1]), tail))
        return float(self.losses[min(low, last)]), float(self.losses[max(last - high, 0)])


@dataclass(frozen=True, slots=True)
class Reversed:
    """Q against P, where what P alone can show has no mass under Q, and so none here."""

    pair: Pair
    infinite: float = 0.0

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals, mirrored; an atom on an edge may take either side of it."""
        log_p, log_q = self.pair.between(-edges[::-1])
        return log_q[::-1], log_p[::-1]

    def span(self, tail: float) -> tuple[float, float]:
        """Mirrored; the pairs here reach no farther under Q than under P."""
        low, high = self.pair.span(tail)
        return -high, -low


def add_atom(
    edges: Array, loss: float, log_p: float, log_q: float, into_p: Array, into_q: Array
) -> None:
    """Add an atom of these log-masses, in place, to the interval of ``edges`` that holds it."""
    cell = int(np.searchsorted(edges, loss)) - 1
    if 0 <= cell < len(into_p):
        into_p[cell] = np.logaddexp(into_p[cell], log_p)
        into_q[cell] = np.logaddexp(into_q[cell], log_q)


def _log_sums(log_mass: Array, first: NDArray[np.int64]) -> Array:
    """ln of the sums of e^log_mass over the groups that begin at ``first``."""
    top = float(log_mass.max())
    if top - float(log_mass.min()) > 600.0:
        return np.asarray(np.logaddexp.reduceat(log_mass, first))
    return np.asarray(np.log(np.add.reduceat(np.exp(log_mass - top), first)) + top)


def log_sum(x: Array) -> float:
    """ln of the sum of e^x."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum())) if math.isfinite(top) else top


def log1mexp(x: Array) -> Array:
    """ln(1 - e^-x) for x >= 0."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-x))


def normal_masses(x: Array) -> Array:
    """Log-masses of the standard normal distribution between rising points ``x``: (points - 1,)."""
    right = x[:-1] > -x[1:]
    inner = np.where(right, -x[:-1], x[1:])
    outer = np.where(right, -x[1:], x[:-1])
    larger = log_ndtr(inner)
    with np.errstate(invalid="ignore"):
        width = larger - log_ndtr(outer)
    # Both ends at the same infinity: nothing lies between.
    return np.asarray(larger + log1mexp(np.where(np.isnan(width), 0.0, width)))
