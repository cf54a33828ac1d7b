"""Dominating pairs of distributions (P, Q) of mechanisms, with the probabilities of intervals of
their privacy loss ln(P/Q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import attr
import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import get_sampling_rate
from fedrec_auditor.accountants.losses import pure

# A pair (P, Q) is represented by the probabilities of its privacy loss ln(P/Q).
#
# A pair dominates a mechanism if, at every epsilon, its hockey-stick divergence is at least that of
# any two neighbouring inputs. A pair returns the masses of intervals of the loss as logarithms, so
# that rounding loses neither rare losses nor losses in the thousands.

# Array of doubles, of any shape.
Array = NDArray[np.float64]


class Pair(Protocol):
    """Protocol of pairs of distributions (P, Q) of outputs under two neighbouring inputs.

    A pair is represented by the distribution of its privacy loss ln(P/Q).
    """

    @property
    def infinite_mass(self) -> float:
        """Probability, under the first distribution P of the pair, of an infinite privacy loss: an
        output that is impossible under the second distribution Q.
        """
        ...

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        - ``edges``: ascending ends of the intervals, (n + 1,). Interval i is (edges[i], edges[i +
          1]]. The first edge may be -inf and the last inf.

        The results are two arrays, (n,). Infinite losses are not counted.
        """
        ...

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the privacy
        loss ln(P/Q).

        Under P, a finite loss is below ``low`` with probability at most ``tail``, and above
        ``high`` with probability at most ``tail``.
        """
        ...


@dataclass(frozen=True, slots=True)
class GaussianPair:
    """Pair of the distributions P = N(mu, 1) and Q = N(0, 1), where ``mu`` is sensitivity divided
    by sigma.

    The privacy loss ln(P/Q) at x is mu x - mu^2/2. It is never infinite, so ``infinite_mass`` is 0.
    """

    mu: float
    infinite_mass: float = 0.0

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        x = edges / self.mu + self.mu / 2.0
        return compute_normal_log_masses(x - self.mu), compute_normal_log_masses(x)

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all values of the privacy loss
        ln(P/Q).

        Under P, the loss is below ``low`` with probability at most ``tail``, and above ``high``
        with probability at most ``tail``.
        """
        reach = -float(ndtri(max(tail, 1e-307))) * self.mu
        return self.mu**2 / 2.0 - reach, self.mu**2 / 2.0 + reach


@dataclass(frozen=True, slots=True)
class LaplacePair:
    """Pair of Laplace distributions of scale 1, centred at 0 (P) and at m = ``shift`` (Q).

    - ``shift``: sensitivity divided by scale.
    - ``infinite_mass``: probability under P of an infinite privacy loss; always 0.

    The privacy loss ln(P/Q) is m at x <= 0, m - 2x between the centres, and -m at x >= m.
    """

    shift: float
    infinite_mass: float = 0.0

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        x = np.clip((self.shift - edges) / 2.0, 0.0, self.shift)
        width = log1mexp(x[:-1] - x[1:]) - math.log(2.0)
        log_p, log_q = width - x[1:], width - (self.shift - x[:-1])
        add_atom(edges, self.shift, -math.log(2.0), -math.log(2.0) - self.shift, log_p, log_q)
        add_atom(edges, -self.shift, -math.log(2.0) - self.shift, -math.log(2.0), log_p, log_q)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all values of the privacy loss
        ln(P/Q).

        Under P, the loss is below ``low`` with probability at most ``tail``, and never above
        ``high``.
        """
        # The interval extends from m + 2 ln(tail) to m = ``shift``, the largest loss.
        # Losses below m - 2x have the probability e^-x / 2 under P.
        return max(-self.shift, self.shift + 2.0 * math.log(max(tail, 1e-307))), self.shift


@dataclass(frozen=True, slots=True)
class AtomicPair:
    """Pair of distributions (P, Q) with finitely many values of the privacy loss ln(P/Q).

    - ``losses``: finite privacy losses.
    - ``log_masses``: their log-probabilities under P. The log-probability under Q is smaller by the
      loss.
    - ``infinite_mass``: probability under P of the outputs that are impossible under Q.
    """

    # Outputs that are impossible under P are not listed, because they add nothing to a hockey-stick
    # divergence.

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]
    infinite_mass: float = 0.0

    @classmethod
    def from_atoms(cls, *atoms: tuple[float, float], infinite: float = 0.0) -> AtomicPair:
        """Builds a pair (P, Q) from tuples of a privacy loss ln(P/Q) and its probability under P.

        Losses of probability 0 are omitted. ``infinite`` is the probability of an infinite loss
        under P.
        """
        kept = [(loss, math.log(mass)) for loss, mass in atoms if mass > 0]
        return cls(tuple(loss for loss, _ in kept), tuple(log for _, log in kept), infinite)

    @classmethod
    def from_epsilon(cls, epsilon: float) -> AtomicPair:
        """Builds the pair of binary randomized response with pure epsilon ``epsilon``.

        Any finite ``epsilon`` is possible.
        """
        truth = -math.log1p(math.exp(-epsilon))
        return cls((epsilon, -epsilon), (truth, truth - epsilon))

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        log_p = np.full(len(edges) - 1, -np.inf)
        log_q = log_p.copy()
        for loss, mass in zip(self.losses, self.log_masses, strict=True):
            add_atom(edges, loss, mass, mass - loss, log_p, log_q)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns the smallest and the largest finite privacy loss; (0, 0) if there is no such
        loss. ``tail`` is not used.
        """
        return (min(self.losses), max(self.losses)) if self.losses else (0.0, 0.0)


# Pair of data sent without noise or with negligible noise: every output reveals the input.
REVEALING_PAIR = AtomicPair.from_atoms(infinite=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPair:
    """Pair of distributions (P, Q) with many values of the privacy loss ln(P/Q), stored in arrays.

    - ``losses``: finite privacy losses in ascending order, (outputs,).
    - ``log_p``: their log-probabilities under P, (outputs,).
    - ``infinite_mass``: probability under P of the outputs that are impossible under Q.

    Instances are compared by identity. The constructor ``from_losses`` sorts the losses.
    """

    losses: Array
    log_p: Array
    infinite_mass: float = 0.0

    @classmethod
    def from_losses(cls, losses: Array, log_p: Array, infinite: float = 0.0) -> ArrayPair:
        """Builds a pair (P, Q) from finite privacy losses ln(P/Q) in any order, (outputs,), and
        their log-probabilities under P, (outputs,).

        ``infinite`` is the probability of an infinite loss under P.
        """
        order = np.argsort(losses)
        return cls(losses[order], log_p[order], infinite)

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        cell = np.searchsorted(edges, self.losses) - 1
        inside = slice(*np.searchsorted(cell, [0, len(edges) - 1]))
        cell, log_p = cell[inside], self.log_p[inside]
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        found = np.full((2, len(edges) - 1), -np.inf)
        if len(first):
            found[0, cell[first]] = _log_sums(log_p, first)
            found[1, cell[first]] = _log_sums(log_p - self.losses[inside], first)
        return found[0], found[1]

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the privacy
        loss ln(P/Q).

        The ends are the quantiles of the finite losses under P at ``tail`` and 1 - ``tail``.
        """
        mass, last = np.exp(self.log_p), len(self.losses) - 1
        low = int(np.searchsorted(np.cumsum(mass), tail))
        high = int(np.searchsorted(np.cumsum(mass[::-1]), tail))
        return float(self.losses[min(low, last)]), float(self.losses[max(last - high, 0)])


@dataclass(frozen=True, slots=True)
class ReversedPair:
    """Pair (Q, P) made from a pair (P, Q), for the opposite order of two neighbouring inputs.

    - ``pair``: the pair (P, Q), a ``PoissonSamplePair`` or ``GaussianMixturePair``.
    - ``infinite_mass``: probability under Q of the outputs that are impossible under P; 0 for these
      classes.
    """

    pair: Pair
    infinite_mass: float = 0.0

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under Q and under P, of intervals of the privacy loss
        ln(Q/P).

        ``edges`` are the ascending ends of the intervals, (n + 1,). The results are two arrays,
        (n,). A loss exactly on an edge may be counted in either of the two neighbouring intervals.
        """
        log_p, log_q = self.pair.bin_losses(-edges[::-1])
        return log_q[::-1], log_p[::-1]

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the privacy
        loss ln(Q/P).

        Under Q, a finite loss is below ``low`` with probability at most ``tail``, and above
        ``high`` with probability at most ``tail``.
        """
        # The interval is the negative of the interval of ``pair``, which for ``PoissonSamplePair``
        # and ``GaussianMixturePair`` also holds under Q.
        low, high = self.pair.find_loss_range(tail)
        return -high, -low


def add_atom(
    edges: Array, loss: float, log_p: float, log_q: float, into_p: Array, into_q: Array
) -> None:
    """Adds the probabilities of a single privacy loss ln(P/Q) to the interval that contains the
    loss, in place.

    - ``edges``: ascending ends of the intervals, (n + 1,).
    - ``loss``: the privacy loss.
    - ``log_p``, ``log_q``: its log-probabilities under P and Q.
    - ``into_p``, ``into_q``: log-probabilities of the intervals under P and Q, (n,), which are
      modified.
    """
    cell = int(np.searchsorted(edges, loss)) - 1
    if 0 <= cell < len(into_p):
        into_p[cell] = np.logaddexp(into_p[cell], log_p)
        into_q[cell] = np.logaddexp(into_q[cell], log_q)


def _log_sums(log_mass: Array, first: NDArray[np.int64]) -> Array:
    """ln of the sums of e^log_mass over groups of consecutive entries, which begin at the indices
    ``first``.
    """
    top = float(log_mass.max())
    if top - float(log_mass.min()) > 600.0:
        return np.asarray(np.logaddexp.reduceat(log_mass, first))
    return np.asarray(np.log(np.add.reduceat(np.exp(log_mass - top), first)) + top)


def logsumexp(x: Array) -> float:
    """Computes ln of the sum of e^x over all entries of ``x``."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum())) if math.isfinite(top) else top


def log1mexp(x: Array) -> Array:
    """Computes ln(1 - e^-x) for x >= 0."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-x))


def compute_normal_log_masses(x: Array) -> Array:
    """Computes the logarithms of the standard normal probabilities of the intervals between
    ascending points ``x``, (n,), as (n - 1,).
    """
    right = x[:-1] > -x[1:]
    inner = np.where(right, -x[:-1], x[1:])
    outer = np.where(right, -x[1:], x[:-1])
    larger = log_ndtr(inner)
    with np.errstate(invalid="ignore"):
        width = larger - log_ndtr(outer)
    # If both ends are the same infinity, the interval is empty.
    return np.asarray(larger + log1mexp(np.where(np.isnan(width), 0.0, width)))


_TAIL = 1e-17
# Largest relative amount by which a number of clones is rounded down.
_COARSE = 2e-4
# Number of users above which the bound treats additional users as absent.
_MOST_USERS = 10**10


@dataclass(frozen=True, slots=True)
class ClonePair:
    """Dominating pair of distributions (P, Q) of one shuffle of local reports.

    - ``epsilon``: pure local epsilon of every report.
    - ``n_users``: number of users whose reports are shuffled.
    - ``binary``: true if the reports are bits as ``ShuffledDpEvent`` defines them.

    The report of the protected user is drawn from one of two distributions, Q0 and Q1. Reports of
    other users that are drawn from Q0 or Q1 are called clones. The outputs of the pair are two
    counts: reports drawn from Q0, and reports drawn from Q1.

    Source: Feldman, McMillan and Talwar 2021 ("Hiding among the clones"), Theorem 3.1, computed
    numerically. For ``binary``, the higher rate of clones of Feldman, McMillan and Talwar 2023 is
    used. Their erratum (arXiv 2208.04591v2) withdraws this rate for reports in general. For binary
    reports, a comment in the code proves it.
    """

    # Let P0, P1 be the distributions of one user's report on two inputs. They are e^eps-close, so
    # P0 = (e^eps Q0 + Q1)/(e^eps + 1) and P1 mirrored, for some distributions Q0, Q1 (Kairouz, Oh
    # and Viswanath 2015). Every other user's report has a distribution of at least e^-eps max(P0,
    # P1) >= e^-eps (Q0 + Q1)/2. So with probability e^-eps this report is a clone: a draw from Q0
    # or from Q1, with probability 1/2 each. The shuffled reports are then a function of the two
    # counts alone: C ~ Binomial(n - 1, e^-eps), A ~ Binomial(C, 1/2), D ~ Bernoulli(e^eps/(e^eps +
    # 1)), and the pair (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D) dominates. If
    # ``binary`` is true, C ~ Binomial(n - 1, 2/(e^eps + 1)).

    # The proof of Feldman, McMillan and Talwar 2023 fails if P0 and P1 are not as far apart as
    # epsilon allows. Proof for binary reports: let u and w be the inputs. The distributions are
    # affine in every entry, so by joint convexity of the divergence entries may be taken as +1 or
    # -1. On a set S of coordinates where u and w agree, P - a Q has the factor 1 - a before the
    # difference of their two outputs; where they differ, the factor is 1 + a or -(1 + a). The
    # divergence is convex in that factor and |1 - a| <= 1 + a, so it is larger for a pair that
    # differs everywhere. For such a pair Q0 is uniform over one output of every coordinate and Q1
    # is uniform over the other output, and every report has a distribution of at least (Q0 +
    # Q1)/(e^eps + 1). The argument does not extend to arbitrary reports: an output that is equally
    # likely under P0 and P1 may be e^eps times less likely under the inputs of other users.

    epsilon: float
    n_users: int
    binary: bool = False

    @property
    def clone_rate(self) -> float:
        """Probability that another user's report is a clone, drawn from Q0 or Q1.

        The value is e^-``epsilon`` in general, and 2/(e^``epsilon`` + 1) for binary reports.
        """
        growth = math.exp(self.epsilon)
        return 2.0 / (growth + 1.0) if self.binary else 1.0 / growth

    @property
    def infinite_mass(self) -> float:
        """Probability, under the first distribution P, of an infinite privacy loss.

        Negligibly rare numbers of clones count as outputs with this loss.
        """
        return 4.0 * _TAIL

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        return self.make_array_pair().bin_losses(edges)

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the privacy
        loss ln(P/Q).

        The ends are the quantiles of the finite losses under P at ``tail`` and 1 - ``tail``.
        """
        return self.make_array_pair().find_loss_range(tail)

    def make_array_pair(self) -> ArrayPair:
        """Lists the privacy losses ln(P/Q) of all outcomes (m, a), with their log-probabilities
        under P.

        - m: number of reports drawn from Q0 or Q1: all clones and the protected user's report.
        - a: number of these reports that are drawn from Q0.
        - P, Q: given m, P(a) is proportional to binom(m, a) (e^epsilon a + m - a), and Q(a) = P(m -
          a).

        Negligibly rare outcomes, with a total mass below 4e-17, count as an infinite loss. Rounding
        of m raises the resulting epsilon by about 1e-4 relative at most, and never lowers it.
        """
        # There are a few 10^5 losses for any number of users, because of three simplifications,
        # which never lower the resulting epsilon: the number of clones is rounded down by a
        # fraction of at most 2e-4, users beyond 10^10 are omitted, and negligibly rare outcomes
        # count as an infinite loss.
        # A pair with fewer clones dominates a pair with more clones: adding one more fair bit to a
        # turns the pair of C clones into the pair of C + 1.
        return _tabulate_clones(self)


@lru_cache(maxsize=4)
def _tabulate_clones(pair: ClonePair) -> ArrayPair:
    n_users, growth = pair.n_users, math.exp(pair.epsilon)
    clones = scipy.stats.binom(min(n_users, _MOST_USERS) - 1, pair.clone_rate)
    # Bernstein: the number of clones is farther than this from its mean with probability at most
    # 1e-17.
    log_tail = math.log(1.0 / _TAIL)
    width = math.sqrt(2.0 * clones.var() * log_tail) + log_tail
    low = max(0, math.floor(clones.mean() - width))
    high = min(n_users - 1, math.ceil(clones.mean() + width))
    every = np.arange(low, high + 1)
    first = np.arange(0, len(every), max(1, math.floor(_COARSE * low)))
    chance = np.add.reduceat(clones.pmf(every), first)[:, None]
    m = every[first][:, None] + 1
    # Hoeffding: a - 1 given C, and a given C, are each farther than this from C/2 with probability
    # at most 1e-17.
    reach = math.ceil(math.sqrt(high * math.log(2.0 / _TAIL) / 2.0)) + 2
    a = m // 2 + np.arange(-reach, reach + 1)
    inside = (a >= 0) & (a <= m)
    m, mass, a = (np.broadcast_to(part, a.shape)[inside] for part in (m, chance, a))
    share = (growth * a + (m - a)) / (growth + 1.0)
    mass = mass * scipy.stats.binom.pmf(a, m, 0.5) * 2.0 * share / m
    kept = mass > 0
    loss = np.log((growth * a + (m - a)) / (a + growth * (m - a)))
    return ArrayPair.from_losses(loss[kept], np.log(mass[kept]))


@dataclass(frozen=True, slots=True)
class _SampledPair:
    """Common fields of pairs for a mechanism that is applied with probability ``rate``.

    ``pair`` is the pair of distributions of the mechanism when it is applied.
    """

    pair: Pair
    rate: float

    @property
    def infinite_mass(self) -> float:
        """Probability, under the first distribution P of the pair, of an infinite privacy loss: an
        output that is impossible under the second distribution Q.
        """
        return self.rate * self.pair.infinite_mass


@dataclass(frozen=True, slots=True)
class PoissonSamplePair(_SampledPair):
    """Pair of the distributions (1 - q) Q + q P and Q, for Poisson sampling under add-remove
    adjacency.

    - ``pair``: pair (P, Q) of the mechanism without sampling, which must dominate both orders of
      the inputs. Under Q, outputs that are impossible under P must have probability
      ``pair.infinite_mass``.
    - ``rate``: probability q with which a record is sampled.

    The sampled pair dominates inputs with the record against inputs without it. Its
    ``ReversedPair`` dominates the opposite order (Zhu, Dong, Wang 2022, Theorem 11).
    """

    # The privacy loss is ln(1 - q + q e^l), where l is the loss of ``pair``. Outputs that are
    # impossible under P have the loss ln(1 - q) after sampling.

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under both distributions of the sampled pair, of
        intervals of its privacy loss.

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        log_p, log_q = self.pair.bin_losses(self._invert_loss(edges))
        other = log_q + math.log1p(-self.rate) if self.rate < 1 else np.full_like(log_q, -np.inf)
        log_p = np.logaddexp(other, log_p + math.log(self.rate))
        if self.pair.infinite_mass > 0 and self.rate < 1:
            revealed, least = math.log(self.pair.infinite_mass), math.log1p(-self.rate)
            add_atom(edges, least, least + revealed, revealed, log_p, log_q)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the sampled
        pair's privacy loss.

        Under the first distribution, a finite loss is below ``low`` with probability at most
        ``tail``, and above ``high`` with probability at most ``tail``.
        """
        # Q mirrors P, and both distributions contribute to the upper tail: Q in full, and P with
        # the sampling rate.
        low, high = self.pair.find_loss_range(tail)
        _, sampled = self.pair.find_loss_range(min(tail / self.rate, 0.5))
        least = -math.inf if self.pair.infinite_mass > 0 and self.rate < 1 else -high
        return self._sampled_loss(least), self._sampled_loss(max(-low, sampled))

    def _sampled_loss(self, loss: float) -> float:
        if self.rate == 1:
            return loss
        if loss > 30.0:
            return loss + math.log(self.rate + (1.0 - self.rate) * math.exp(-loss))
        return math.log1p(self.rate * math.expm1(loss))

    def _invert_loss(self, edges: Array) -> Array:
        """The losses of ``pair`` at which the sampled loss equals ``edges`` l: ln(1 + (e^l - 1)/q);
        -inf if no loss is this small.
        """
        if self.rate == 1:
            return edges
        large = np.maximum(edges, 30.0)
        above = large + np.log1p((self.rate - 1.0) * np.exp(-large)) - math.log(self.rate)
        with np.errstate(divide="ignore"):
            grown = np.maximum(np.expm1(np.minimum(edges, 30.0)) / self.rate, -1.0)
            return np.where(edges > 30.0, above, np.log1p(grown))


@dataclass(frozen=True, slots=True)
class FixedSizeSamplePair(_SampledPair):
    """Dominating pair for a sample of fixed size without replacement, if one of n records is
    replaced.

    - ``pair``: symmetric pair of the mechanism M on the sample, with the privacy curve delta_M.
    - ``rate``: q = sample size / n.

    The privacy curve of this pair at x = e^eps >= 1 is H(x) = q delta_M(ln(1 + (x - 1)/q)). The
    pair dominates one sampled use of M (Balle, Barthe and Gaboardi 2018, Theorem 9). Products of
    such pairs dominate adaptive compositions (Zhu, Dong, Wang 2022, Theorem 10).
    """

    # The bound H holds for both orders of the data sets. For x < 1 it is H(x) = 1 - x + x H(1/x).
    # Reason: the divergence of one direction is the mirrored divergence of the opposite one,
    # D_x(P||Q) = 1 - x + x D_{1/x}(Q||P). A pair with the curve H: let (P, Q) be the pair of M and
    # (P1, Q) = ((1 - q) Q + q P, Q). For x >= 1, q (P - y Q)+ with y = 1 + (x - 1)/q is (P1 - x
    # Q)+, so the positive losses are those of (P1, Q), where the loss of (P, Q) is positive. The
    # negative losses are the positive ones mirrored, with the distributions exchanged. The
    # remaining mass has loss 0. Under both distributions it is 1 - P1(l > 0) - Q(l > 0) = (1 - q)(1
    # - 2b) + q (1 - a - b), with a = P(l > 0) and b = Q(l > 0). This mass is not negative: b <= a,
    # and a + b <= 1 because P(l < 0) = b for a symmetric pair. So the masses are distributions, H
    # is convex, and the pair dominates all neighbouring inputs at every x.

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under both distributions of the pair, of intervals of its
        privacy loss.

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        sampled = PoissonSamplePair(self.pair, self.rate)
        up_p, up_q = sampled.bin_losses(np.maximum(edges, 0.0))
        down_q, down_p = sampled.bin_losses(np.maximum(-edges[::-1], 0.0))
        log_p, log_q = np.logaddexp(up_p, down_p[::-1]), np.logaddexp(up_q, down_q[::-1])
        mass_p, mass_q = (float(np.exp(part[0])) for part in sampled.bin_losses(_POSITIVE))
        rest = 1.0 - mass_p - mass_q - self.infinite_mass
        if rest > 0:
            add_atom(edges, 0.0, math.log(rest), math.log(rest), log_p, log_q)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high), symmetric around 0, that contains almost all finite
        values of the privacy loss.

        Under the first distribution, a finite loss is below ``low`` with probability at most
        ``tail``, and above ``high`` with probability at most ``tail``.
        """
        _, high = PoissonSamplePair(self.pair, self.rate).find_loss_range(tail)
        return -high, high


@dataclass(frozen=True, slots=True)
class ReplaceOneGaussianPair:
    """Pair of distributions P and Q for Poisson sampling with Gaussian noise, if one record
    replaces another.

    P = (1 - q) N(0, 1) + q N(mu, 1), and Q = (1 - q) N(0, 1) + q N(-mu, 1).

    - ``mu``: largest contribution of a record, in standard deviations of the noise.
    - ``rate``: probability q < 1 that a record is sampled.
    - ``infinite_mass``: probability under P of an infinite privacy loss; always 0.

    The pair dominates all pairs of records. Records with the contributions mu and -mu have this
    pair.
    """

    # Proof: let the two records add x and x'. By advanced joint convexity (Balle, Barthe and
    # Gaboardi 2018, Theorem 2) the divergence at t >= 1 is q times that of N(x, I) from a N(0, I) +
    # b N(x', I) at some order, that is E f(X, Y) with f = (1 - c X - d Y)+, c, d >= 0. Under N(x,
    # I) the likelihood ratios X and Y are e^(U - Var U/2) of normal U and V with the variances
    # |x|^2 and |x - x'|^2 and the covariance x.(x - x'). Along any path of covariance matrices the
    # expectation moves by E X^2 f_XX/2, E Y^2 f_YY/2 and E X Y f_XY times the changes of these
    # three, and no second derivative of f is negative. So the expectation is largest where all
    # three are largest: mu^2, 4 mu^2 and 2 mu^2, at x' = -x. For t < 1 the divergence is mirrored.

    mu: float
    rate: float
    infinite_mass: float = 0.0

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        x = np.sign(edges) * self._invert_loss(np.abs(edges))
        other = compute_normal_log_masses(x) + self._log_stay
        ways = (
            compute_normal_log_masses(x - way * self.mu) + math.log(self.rate)
            for way in (1.0, -1.0)
        )
        log_p, log_q = (np.logaddexp(other, drawn) for drawn in ways)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high), symmetric around 0, that contains almost all values of
        the privacy loss ln(P/Q).

        Under P, the loss is below ``low`` with probability at most ``tail``, and above ``high``
        with probability at most ``tail``.
        """
        # The ends are the losses at quantiles of N(mu, 1), the component of P that reaches
        # farthest.
        far = self.mu - float(ndtri(max(tail, 1e-307)))
        ends = np.logaddexp(self._log_stay, self._log_k + self.mu * np.array([far, -far]))
        high = float(ends[0] - ends[1])
        return -high, high

    @property
    def _log_stay(self) -> float:
        return math.log1p(-self.rate)

    @property
    def _log_k(self) -> float:
        return math.log(self.rate) - self.mu**2 / 2.0

    def _invert_loss(self, loss: Array) -> Array:
        """The point x at which the density ratio P/Q is e^loss, for losses >= 0, computed in
        logarithms.

        With w = e^(mu x) and k = q e^(-mu^2/2): (1 - q) + k w = e^loss ((1 - q) + k/w), a quadratic
        equation in w.
        """
        linear = self._log_stay + log1mexp(loss)
        root = np.logaddexp(2.0 * linear, math.log(4.0) + 2.0 * self._log_k - loss) / 2.0
        return (loss + np.logaddexp(linear, root) - math.log(2.0) - self._log_k) / self.mu


@dataclass(frozen=True, slots=True)
class RevealedSamplingPair(_SampledPair):
    """Pair of distributions for a mechanism that runs at random, if the adversary sees whether it
    ran.

    - ``pair``: pair of distributions of the mechanism itself.
    - ``rate``: probability q that the mechanism runs. If it does not run, the privacy loss is 0.
    """

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under both distributions of the pair, of intervals of its
        privacy loss.

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        log_p, log_q = (part + math.log(self.rate) for part in self.pair.bin_losses(edges))
        if self.rate < 1:
            nothing = math.log1p(-self.rate)
            add_atom(edges, 0.0, nothing, nothing, log_p, log_q)
        return log_p, log_q

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains 0 and almost all finite values of the
        privacy loss.

        Under the first distribution, a finite loss is below ``low`` with probability at most
        ``tail``, and above ``high`` with probability at most ``tail``.
        """
        # The interval of a mechanism that always runs is extended to contain 0, the loss if the
        # mechanism does not run.
        low, high = self.pair.find_loss_range(tail)
        return min(low, 0.0), max(high, 0.0)


_POSITIVE = np.array([0.0, np.inf])


# Points of the table that starts the inversion of the loss, and number of Newton steps.
_TABLE, _STEPS = 2**14, 2
# Number of terms that are in memory at once.
_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class GaussianMixturePair:
    """Pair of a mixture P of the normal distributions N(c_i, 1), and Q = N(0, 1).

    - ``centres``: the c_i, ascending and at least 0, in standard deviations of the noise.
    - ``log_weights``: ln p_i, where p_i is the probability of N(c_i, 1) in P.
    - ``infinite_mass``: probability under P of the outputs that are impossible under Q; always 0.

    The pair dominates the removal of a group of records from sampled data. With probability p_i,
    the sampled records of the group have a sum of norm at most c_i. Source: derived in a comment;
    compare Choquette-Choo, Ganesh, Steinke and Thakurta 2023, arXiv 2310.15526, section 4.
    """

    # The loss at x is ln(sum of p_i e^(c_i x - c_i^2/2)), which rises with x.

    # Proof: let v_i be the sum of the records with norm at most c_i, and X_i the likelihood ratio
    # of N(v_i, I) to N(0, I). The divergence at t is E f(sum of p_i X_i), f = (x - t)+ convex. The
    # X_i are e^(U - Var U/2) of normal U with covariances v_i.v_j. Along any path of covariance
    # matrices the expectation moves by E X_i X_j p_i p_j f'' times their changes, and this factor
    # is not negative. So the expectation is largest where all covariances are largest, at v_i of
    # one direction and of norm c_i. For t < 1, and with P and Q exchanged, the divergence is
    # mirrored.

    centres: tuple[float, ...]
    log_weights: tuple[float, ...]
    infinite_mass: float = 0.0

    def bin_losses(self, edges: Array) -> tuple[Array, Array]:
        """Computes the log-probabilities, under P and under Q, of intervals of the privacy loss
        ln(P/Q).

        ``edges`` are the ascending ends of the intervals (edges[i], edges[i + 1]], (n + 1,). The
        results are two arrays, (n,).
        """
        x = self._invert_loss(edges)
        log_p = np.full(len(edges) - 1, -np.inf)
        for centre, log_weight in zip(self.centres, self.log_weights, strict=True):
            np.logaddexp(log_p, log_weight + compute_normal_log_masses(x - centre), out=log_p)
        return log_p, compute_normal_log_masses(x)

    def find_loss_range(self, tail: float) -> tuple[float, float]:
        """Returns an interval (low, high) that contains almost all finite values of the privacy
        loss ln(P/Q).

        Under P, a finite loss is below ``low`` with probability at most ``tail``, and above
        ``high`` with probability at most ``tail``.
        """
        # The ends are the losses at a low quantile of N(0, 1) and at a high quantile of N(c, 1).
        # Here c is the largest of the means c_i, after the largest ones with a total probability of
        # at most ``tail`` / 2 are left out.
        half = max(tail / 2.0, 1e-307)
        weights = np.exp(np.array(self.log_weights))
        matter = np.flatnonzero(np.cumsum(weights[::-1])[::-1] > half)
        reach = -float(ndtri(half))
        ends = self._compute_loss(np.array([-reach, self.centres[matter[-1]] + reach]))
        return float(ends[0]), float(ends[1])

    @property
    def _log_weight_at_0(self) -> float:
        """ln of the probability of centre 0; -inf if there is no such centre."""
        return self.log_weights[0] if self.centres[0] == 0.0 else -np.inf

    def _sum_moving_terms(self, x: Array) -> tuple[Array, Array]:
        """ln of the sum of p_i e^(c_i x - c_i^2/2) over the centres above 0, at every x, and its
        derivative.
        """
        centres, log_weights = (np.array(part) for part in zip(*self._list_parts(), strict=True))
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

    def _compute_loss(self, x: Array) -> Array:
        return np.asarray(np.logaddexp(self._log_weight_at_0, self._sum_moving_terms(x)[0]))

    def _invert_loss(self, edges: Array) -> Array:
        """Points x at which the privacy loss equals ``edges``; -inf if no loss is this small.

        The points are computed by Newton's method on the logarithm of the sum over the centres
        above 0, which is convex.
        """
        x = np.where(edges > self._log_weight_at_0, np.inf, -np.inf)
        inside = np.flatnonzero((edges > self._log_weight_at_0) & (edges < np.inf))
        if len(inside) == 0:
            return x
        level = edges[inside]
        if self._log_weight_at_0 > -np.inf:
            level = level + log1mexp(level - self._log_weight_at_0)
        ends = [
            [(end - log_p) / c + c / 2.0 for c, log_p in self._list_parts()]
            for end in (level.min(), level.max())
        ]
        table = np.linspace(min(ends[0]) - 10.0, max(ends[1]), _TABLE)
        found = np.interp(level, self._sum_moving_terms(table)[0], table)
        for _ in range(_STEPS):
            value, slope = self._sum_moving_terms(found)
            found = found - (value - level) / slope
        x[inside] = found
        return x

    def _list_parts(self) -> list[tuple[float, float]]:
        every = zip(self.centres, self.log_weights, strict=True)
        return [(centre, log_p) for centre, log_p in every if centre > 0.0]


# Largest loss for which a grid is used. For larger losses, the spacing of doubles is too coarse.
MAX_LOSS = 1e7
_NOTHING = AtomicPair.from_atoms((0.0, 1.0))
# Numbers of reports farther from the mean than this number of standard deviations are not listed:
# their mass is e^-200.
_DEVIATIONS = 20.0
# Local epsilon above which e^eps is not a finite double.
_MOST_LOCAL = 500.0


def make_gaussian_pair(mu: float) -> Pair:
    """Returns the pair of the unit normal distributions N(``mu``, 1) and N(0, 1).

    If ``mu`` is above ``MAX_LOSS``, the returned pair counts every output as revealing the input.
    If ``mu`` is 0, every privacy loss is 0.
    """
    if mu > MAX_LOSS:
        return REVEALING_PAIR
    return GaussianPair(mu) if mu > 0 else _NOTHING


def make_dominating_pair(leaf: dp.DpEvent) -> Pair:
    """Returns a pair of distributions that dominates one use of a mechanism: no two neighbouring
    inputs have a larger divergence.

    ``leaf`` is the event of the mechanism, of a class that the accountant ``Pld`` supports.
    """
    if isinstance(leaf, dp.ReplacedSamplingDpEvent):
        return _make_replaced_pair(leaf.event, leaf.sampling_probability)
    if hasattr(leaf, "event") and get_sampling_rate(leaf) == 1:
        return make_dominating_pair(leaf.event)
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return RevealedSamplingPair(make_dominating_pair(leaf.event), get_sampling_rate(leaf))
    if isinstance(leaf, dp.SampledWithoutReplacementDpEvent):
        return FixedSizeSamplePair(make_dominating_pair(leaf.event), get_sampling_rate(leaf))
    if isinstance(leaf, dp.PoissonSampledDpEvent):
        return PoissonSamplePair(make_dominating_pair(leaf.event), get_sampling_rate(leaf))
    if isinstance(leaf, dp.MixtureOfGaussiansDpEvent):
        return _make_mixture_pair(leaf)
    if isinstance(leaf, dp.PureDpEvent) and math.isfinite(leaf.epsilon):
        return AtomicPair.from_epsilon(leaf.epsilon)
    if isinstance(leaf, pure.THREE_POINT_EVENTS):
        pair = pure.ThreePointPair.from_event(leaf)
        if math.isinf(pair.max_loss):
            return AtomicPair.from_atoms((0.0, pair.p_uninformative), infinite=pair.p_own)
        return AtomicPair.from_atoms(
            (pair.max_loss, pair.p_own), (0.0, pair.p_uninformative), (-pair.max_loss, pair.p_other)
        )
    noise = leaf.noise_multiplier
    if noise * MAX_LOSS < 1.0:
        return REVEALING_PAIR
    if isinstance(leaf, dp.GaussianDpEvent):
        return make_gaussian_pair(1.0 / noise)
    return LaplacePair(1.0 / noise)


def find_lower_bound_pairs(leaf: dp.DpEvent) -> tuple[Pair, Pair] | None:
    """Returns two pairs of output distributions for a lower bound on the epsilon of the event
    ``leaf``.

    Some mechanism with this event has these distributions on two neighbouring inputs. The first
    pair is for one order of the inputs, and the second for the opposite order. Both may be equal.
    The result is None if no such pairs are known.

    Usually both pairs are the dominating pair (``make_dominating_pair``). Exceptions:

    - Bit flip: the distributions of the bit under its two inputs; None if sampled.
    - Poisson sample, Laplace noise, a record is replaced: the pair for adding or removing a record.
    - Sample of fixed size: the pair of the Poisson sample.
    - Shuffled reports: the pairs of shuffled randomized responses (``make_shuffled_pairs``).
    """
    # An event describes several mechanisms, such as all mechanisms with one pure epsilon, and some
    # of them may reveal less.
    #
    # Replaced record with Laplace noise: the pair for adding or removing a record occurs if the
    # replaced record contributes 0 to the sum. At delta 0, a larger epsilon is attained, which
    # ``amplify_epsilon`` computes. Sample of fixed size: the pair of the Poisson sample occurs if
    # all records of one input lie at one end of the range of a record, and the other input has one
    # record at the opposite end.
    leaf = _raise_noise(leaf)
    inner = getattr(leaf, "event", leaf)
    if isinstance(leaf, dp.ReplacedSamplingDpEvent) and isinstance(inner, dp.LaplaceDpEvent):
        return find_lower_bound_pairs(dp.PoissonSampledDpEvent(leaf.sampling_probability, inner))
    if isinstance(inner, dp.BitFlipDpEvent):
        return (_flip(leaf.p, leaf.q), _flip(leaf.q, leaf.p)) if inner is leaf else None
    if isinstance(leaf, dp.ShuffledDpEvent):
        if leaf.epsilon > _MOST_LOCAL:
            return (_NOTHING,) * 2
        flipped = 1.0 / (1.0 + math.exp(leaf.epsilon))
        return make_shuffled_pairs(flipped, flipped, int(leaf.n_users))
    noises = (dp.GaussianDpEvent, dp.LaplaceDpEvent, dp.MixtureOfGaussiansDpEvent)
    if not isinstance(inner, (*pure.THREE_POINT_EVENTS, *noises)):
        return None
    rate = get_sampling_rate(leaf)
    if rate == 0:
        return (_NOTHING,) * 2
    if isinstance(leaf, dp.SampledWithoutReplacementDpEvent) and rate < 1:
        return (PoissonSamplePair(make_dominating_pair(inner), rate),) * 2
    return (make_dominating_pair(leaf),) * 2


def _raise_noise(leaf: dp.DpEvent) -> dp.DpEvent:
    """The event with its noise raised to the smallest noise that doubles resolve, if it is smaller.

    More noise reveals less, so a lower bound for the result is also one for the given event.
    """
    if isinstance(getattr(leaf, "event", None), dp.DpEvent):
        return attr.evolve(leaf, event=_raise_noise(leaf.event))
    if isinstance(leaf, (dp.GaussianDpEvent, dp.LaplaceDpEvent)) and leaf.noise_multiplier > 0:
        return type(leaf)(max(leaf.noise_multiplier, 2.0 / MAX_LOSS))
    if isinstance(leaf, dp.MixtureOfGaussiansDpEvent) and leaf.standard_deviation > 0:
        room = 2.0 * max(leaf.sensitivities) / MAX_LOSS
        return attr.evolve(leaf, standard_deviation=max(leaf.standard_deviation, room))
    return leaf


def _make_replaced_pair(drawn: dp.DpEvent, rate: float) -> Pair:
    """Dominating pair of noise on a Poisson sample when a record is replaced. For Laplace noise,
    only the pure epsilon is used.
    """
    noise = drawn.noise_multiplier
    if noise * MAX_LOSS < 1.0:
        return AtomicPair.from_atoms((0.0, 1.0 - rate), infinite=rate)
    if isinstance(drawn, dp.LaplaceDpEvent):
        return AtomicPair.from_epsilon(pure.amplify_epsilon(1.0 / noise, rate, replaced=True))
    if rate == 1 or math.isinf(noise):
        return make_gaussian_pair(2.0 / noise)
    return ReplaceOneGaussianPair(1.0 / noise, rate)


def _make_mixture_pair(leaf: dp.MixtureOfGaussiansDpEvent) -> Pair:
    weights: dict[float, float] = {}
    for shift, chance in zip(leaf.sensitivities, leaf.sampling_probs, strict=True):
        centre = math.inf if shift > 0 and leaf.standard_deviation == 0 else 0.0
        if leaf.standard_deviation > 0:
            centre = shift / leaf.standard_deviation
        weights[centre] = weights.get(centre, 0.0) + chance
    revealed = math.fsum(p for centre, p in weights.items() if centre > MAX_LOSS)
    kept = sorted((c, math.log(p)) for c, p in weights.items() if c <= MAX_LOSS and p > 0)
    if not kept or kept[-1][0] == 0.0:
        # P has a mass of e^log_p at centre 0, where Q has mass 1: the loss is log_p.
        still = tuple(log_p for _, log_p in kept)
        return AtomicPair(still, still, revealed)
    centres, log_weights = zip(*kept, strict=True)
    return GaussianMixturePair(centres, log_weights, revealed)


def _flip(p: float, q: float) -> Pair:
    """Pair of the distributions of a bit with P(1) = p and a bit with Q(1) = q."""
    outputs = ((p, q), (1.0 - p, 1.0 - q))
    atoms = [(math.log(a / b), a) for a, b in outputs if a > 0 and b > 0]
    return AtomicPair.from_atoms(*atoms, infinite=math.fsum(a for a, b in outputs if b == 0))


def make_shuffled_pairs(miss: float, false_alarm: float, n_users: int) -> tuple[Pair, Pair]:
    """Builds pairs of distributions of the number of ones among shuffled bits, for two inputs of
    one user.

    - ``miss``: probability that this user sends 0 on the first input.
    - ``false_alarm``: probability of sending 1 on the second input, which all other users have.
    - ``n_users``: number of users, including this one.

    Returns one pair per order of the two inputs. Negligibly rare numbers of ones are omitted.
    """
    # On the second input, the number of ones is Binomial(n, u), with n = ``n_users`` and u =
    # ``false_alarm``. On the first input, the number c is (1 - miss)/u (c/n) + miss/(1 - u) (1 -
    # c/n) times as likely.
    if n_users == 1:
        return _flip(1.0 - miss, false_alarm), _flip(false_alarm, 1.0 - miss)
    seconds = scipy.stats.binom(n_users, false_alarm)
    reach = _DEVIATIONS * float(seconds.std()) + _DEVIATIONS**2
    low, high = max(0, math.floor(seconds.mean() - reach)), math.ceil(seconds.mean() + reach)
    count = np.arange(low, min(n_users, high) + 1)
    share = count / n_users
    ratios = (1.0 - miss) / false_alarm, miss / (1.0 - false_alarm)
    loss = np.log(share * ratios[0] + (1.0 - share) * ratios[1])
    mass = seconds.pmf(count)
    seen = mass > 0
    loss, log_mass = loss[seen], np.log(mass[seen])
    return ArrayPair.from_losses(loss, log_mass + loss), ArrayPair.from_losses(-loss, log_mass)
