"""What sampling makes of a dominating pair, by who knows of it and which change is hidden."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from fedrec_auditor.accountants.losses.pairs import Array, Pair, add_atom, log1mexp, normal_masses


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A pair that happens with probability ``rate``."""

    pair: Pair
    rate: float

    @property
    def infinite(self) -> float:
        """P-mass of what is impossible under Q."""
        return self.rate * self.pair.infinite


@dataclass(frozen=True, slots=True)
class Poisson(_Sampled):
    """(1 - q) Q + q P against Q: a record that is sampled with probability q, present or absent.

    It dominates the direction from present to absent, and ``Reversed`` the other, whenever the
    pair dominates either (Zhu, Dong, Wang 2022, Theorem 11). The loss is ln(1 - q + q e^l) where
    that of the pair is l.

    The pairs here are symmetric: what is impossible under P is as likely under Q as the converse,
    and has a loss of ln(1 - q) once (1 - q) Q is added.
    """

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals, from those of the pair."""
        log_p, log_q = self.pair.between(self._inner(edges))
        other = log_q + math.log1p(-self.rate) if self.rate < 1 else np.full_like(log_q, -np.inf)
        log_p = np.logaddexp(other, log_p + math.log(self.rate))
        if self.pair.infinite > 0 and self.rate < 1:
            revealed, least = math.log(self.pair.infinite), math.log1p(-self.rate)
            add_atom(edges, least, least + revealed, revealed, log_p, log_q)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """The image of the pair's: Q mirrors P, and both count above, P by its rate."""
        low, high = self.pair.span(tail)
        _, sampled = self.pair.span(min(tail / self.rate, 0.5))
        least = -math.inf if self.pair.infinite > 0 and self.rate < 1 else -high
        return self._outer(least), self._outer(max(-low, sampled))

    def _outer(self, loss: float) -> float:
        if self.rate == 1:
            return loss
        if loss > 30.0:
            return loss + math.log(self.rate + (1.0 - self.rate) * math.exp(-loss))
        return math.log1p(self.rate * math.expm1(loss))

    def _inner(self, edges: Array) -> Array:
        """ln(1 + (e^l - 1)/q); -inf where no loss of the pair goes so low."""
        if self.rate == 1:
            return edges
        large = np.maximum(edges, 30.0)
        above = large + np.log1p((self.rate - 1.0) * np.exp(-large)) - math.log(self.rate)
        with np.errstate(divide="ignore"):
            grown = np.maximum(np.expm1(np.minimum(edges, 30.0)) / self.rate, -1.0)
            return np.where(edges > 30.0, above, np.log1p(grown))


@dataclass(frozen=True, slots=True)
class FixedSize(_Sampled):
    """A sample of fixed size without replacement, one record of n replaced; q = size/n.

    Upper bound. Balle, Barthe and Gaboardi 2018, Theorem 9: if delta_M is the curve of M on the
    sample under replacement, that of the sampled M is at most H(x) = q delta_M(ln(1 + (x - 1)/q))
    at x = e^eps >= 1. It binds both directions, (D, D') and (D', D). Below 1 the divergence of one
    direction is that of the other mirrored, D_x(P||Q) = 1 - x + x D_{1/x}(Q||P), so that H(x) =
    1 - x + x H(1/x) binds it there.

    This H is the curve of a pair, which is what is computed. With (P, Q) the pair of M and (P1, Q)
    = ((1 - q) Q + q P, Q): for x >= 1, q (P - y Q)+ with y = 1 + (x - 1)/q is (P1 - x Q)+, so the
    positive losses are those of (P1, Q), where that of (P, Q) is positive. The negative ones are
    the same mirrored, with the distributions exchanged. What is left has loss 0, and a mass of 1 -
    P1(l > 0) - Q(l > 0) = (1 - q)(1 - 2b) + q (1 - a - b) under both distributions, a = P(l > 0)
    and b = Q(l > 0). It is not negative: b <= a, and a + b <= 1 as P(l < 0) = b for a symmetric
    pair, which is asked for. So the masses are distributions, H is convex, and the pair dominates
    all neighbours at every x, hence any adaptive composition of such samples (Zhu, Dong, Wang 2022,
    Theorem 10).
    """

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        sampled = Poisson(self.pair, self.rate)
        up_p, up_q = sampled.between(np.maximum(edges, 0.0))
        down_q, down_p = sampled.between(np.maximum(-edges[::-1], 0.0))
        log_p, log_q = np.logaddexp(up_p, down_p[::-1]), np.logaddexp(up_q, down_q[::-1])
        mass_p, mass_q = (float(np.exp(part[0])) for part in sampled.between(_POSITIVE))
        rest = 1.0 - mass_p - mass_q - self.infinite
        if rest > 0:
            add_atom(edges, 0.0, math.log(rest), math.log(rest), log_p, log_q)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """The range of the losses, as far to one side of 0 as to the other."""
        _, high = Poisson(self.pair, self.rate).span(tail)
        return -high, high


@dataclass(frozen=True, slots=True)
class ReplacedGaussian:
    """(1 - q) N(0, 1) + q N(mu, 1) against (1 - q) N(0, 1) + q N(-mu, 1).

    A record that is sampled with probability ``rate`` = q < 1 is replaced by another one, and each
    adds mu deviations of the noise at most, in any direction. Attained by opposite ones, and it
    dominates all others. For let the two add x and x'. By advanced joint convexity (Balle, Barthe
    and Gaboardi 2018, Theorem 2) the divergence at t >= 1 is q times that of N(x, I) from a N(0, I)
    + b N(x', I) at some order, that is E f(X, Y) with f = (1 - c X - d Y)+, c, d >= 0, where under
    N(x, I) the likelihood ratios X and Y are e^(U - Var U/2) of normal U and V with the variances
    |x|^2 and |x - x'|^2 and the covariance x.(x - x'). Along any path of covariance matrices the
    expectation moves by E X^2 f_XX/2, E Y^2 f_YY/2 and E X Y f_XY times the changes of these three,
    and no second derivative of f is negative. So it is largest where all three are: mu^2, 4 mu^2
    and 2 mu^2, at x' = -x. Below 1 the divergence is the mirrored one.
    """

    mu: float
    rate: float
    infinite: float = 0.0

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        x = np.sign(edges) * self._inner(np.abs(edges))
        other = normal_masses(x) + self._stay
        ways = (normal_masses(x - way * self.mu) + math.log(self.rate) for way in (1.0, -1.0))
        log_p, log_q = (np.logaddexp(other, drawn) for drawn in ways)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """Losses at the quantiles of N(mu, 1), beyond which no other part of P reaches."""
        far = self.mu - float(ndtri(max(tail, 1e-307)))
        ends = np.logaddexp(self._stay, self._log_k + self.mu * np.array([far, -far]))
        high = float(ends[0] - ends[1])
        return -high, high

    @property
    def _stay(self) -> float:
        return math.log1p(-self.rate)

    @property
    def _log_k(self) -> float:
        return math.log(self.rate) - self.mu**2 / 2.0

    def _inner(self, loss: Array) -> Array:
        """Where the density ratio is e^loss, for losses >= 0: in logarithms throughout.

        With w = e^(mu x) and k = q e^(-mu^2/2): (1 - q) + k w = e^loss ((1 - q) + k/w), a quadratic
        equation in w.
        """
        linear = self._stay + log1mexp(loss)
        root = np.logaddexp(2.0 * linear, math.log(4.0) + 2.0 * self._log_k - loss) / 2.0
        return (loss + np.logaddexp(linear, root) - math.log(2.0) - self._log_k) / self.mu


@dataclass(frozen=True, slots=True)
class Revealed(_Sampled):
    """The pair with probability q, else nothing, and it is seen which."""

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        log_p, log_q = (part + math.log(self.rate) for part in self.pair.between(edges))
        if self.rate < 1:
            nothing = math.log1p(-self.rate)
            add_atom(edges, 0.0, nothing, nothing, log_p, log_q)
        return log_p, log_q

    def span(self, tail: float) -> tuple[float, float]:
        """That of the pair, and 0."""
        low, high = self.pair.span(tail)
        return min(low, 0.0), max(high, 0.0)


_POSITIVE = np.array([0.0, np.inf])
