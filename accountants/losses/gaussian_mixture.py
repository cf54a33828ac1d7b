"""Normal noise around one of several centres, against the same around 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from fedrec_auditor.accountants.losses.pairs import Array, log1mexp, normal_masses

# Points of the table that the inverse of the loss starts from, and steps of Newton's method.
_TABLE, _STEPS = 2**14, 2
# Terms that are in memory at once.
_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """The mixture of N(c_i, 1) with probabilities p_i against N(0, 1); 0 <= c_0 < c_1 < ...

    It dominates the group of records that a sample holds some of: with probability p_i of them as
    many that their sum v_i has norm c_i at most. For with X_i the likelihood ratio of N(v_i, I) to
    N(0, I), the divergence at t is E f(sum of p_i X_i), f = (x - t)+ convex. The X_i are e^(U -
    Var U/2) of normal U with covariances v_i.v_j, and along any path of covariance matrices the
    expectation moves by E X_i X_j p_i p_j f'' times their changes, which is not negative; so it is
    largest where all are, at v_i of one direction and of norm c_i. Below t = 1, and in the other
    order, the divergence is the mirrored one. Attained by records that pull one way. (Also
    Choquette-Choo, Ganesh, Steinke and Thakurta 2023, arXiv 2310.15526, section 4.)

    The loss at x is ln(sum of p_i e^(c_i x - c_i^2/2)), which rises with x.
    """

    centres: tuple[float, ...]
    log_weights: tuple[float, ...]
    infinite: float = 0.0

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        x = self._inner(edges)
        log_p = np.full(len(edges) - 1, -np.inf)
        for centre, log_weight in zip(self.centres, self.log_weights, strict=True):
            np.logaddexp(log_p, log_weight + normal_masses(x - centre), out=log_p)
        return log_p, normal_masses(x)

    def span(self, tail: float) -> tuple[float, float]:
        """Losses at the quantiles of N(0, 1), and of the centres that matter."""
        half = max(tail / 2.0, 1e-307)
        weights = np.exp(np.array(self.log_weights))
        matter = np.flatnonzero(np.cumsum(weights[::-1])[::-1] > half)
        reach = -float(ndtri(half))
        ends = self._loss(np.array([-reach, self.centres[matter[-1]] + reach]))
        return float(ends[0]), float(ends[1])

    @property
    def _still(self) -> float:
        """ln of the probability of centre 0."""
        return self.log_weights[0] if self.centres[0] == 0.0 else -np.inf

    def _moving(self, x: Array) -> tuple[Array, Array]:
        """ln of the sum over the centres above 0, and its slope."""
        centres, log_weights = (np.array(part) for part in zip(*self._parts(), strict=True))
        value, slope = np.empty_like(x), np.empty_like(x)
        size = max(1, _AT_ONCE // len(centres))
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            terms = x[part, None] * centres + (log_weights - centres**2 / 2.0)
            top = terms.max(axis=1)
            shares = np.exp(terms - top[:, None])
            total = shares.sum(axis=1)
            value[part], slope[part] = top + np.log(total), (shares @ centres) / total
        return value, slope

    def _loss(self, x: Array) -> Array:
        return np.asarray(np.logaddexp(self._still, self._moving(x)[0]))

    def _inner(self, edges: Array) -> Array:
        """Where the loss is so large; -inf where none is so low.

        Newton's method on the logarithm of the moving part, which is convex.
        """
        x = np.where(edges > self._still, np.inf, -np.inf)
        inside = np.flatnonzero((edges > self._still) & (edges < np.inf))
        if len(inside) == 0:
            return x
        level = edges[inside]
        if self._still > -np.inf:
            level = level + log1mexp(level - self._still)
        ends = [
            [(end - log_p) / c + c / 2.0 for c, log_p in self._parts()]
            for end in (level.min(), level.max())
        ]
        table = np.linspace(min(ends[0]) - 10.0, max(ends[1]), _TABLE)
        found = np.interp(level, self._moving(table)[0], table)
        for _ in range(_STEPS):
            value, slope = self._moving(found)
            found = found - (value - level) / slope
        x[inside] = found
        return x

    def _parts(self) -> list[tuple[float, float]]:
        every = zip(self.centres, self.log_weights, strict=True)
        return [(centre, log_p) for centre, log_p in every if centre > 0.0]
