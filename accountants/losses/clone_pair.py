"""The pair that dominates one shuffle of local reports: one report hides among its clones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from fedrec_auditor.accountants.losses.pairs import Array, ListedPair

_TAIL = 1e-17
# The share by which a number of clones may be rounded down.
_COARSE = 2e-4
# Above, nobody hides a report any better, as far as the bound goes.
_MOST_USERS = 10**10


@dataclass(frozen=True, slots=True)
class ClonePair:
    """One shuffle of the reports of ``n_users``, each of local ``epsilon``, as counts of clones.

    Theorem 3.1 of Feldman, McMillan and Talwar 2021 ("Hiding among the clones"), numerically. Let
    P0, P1 be the distributions of the one user's report on either input. They are e^eps-close, so
    P0 = (e^eps Q0 + Q1)/(e^eps + 1) and P1 mirrored, for some distributions Q0, Q1 (Kairouz, Oh and
    Viswanath 2015). Every other report has a distribution of at least e^-eps max(P0, P1) >= e^-eps
    (Q0 + Q1)/2, so with probability e^-eps it is a clone, of Q0 or Q1 by a fair coin. What is
    shuffled is then a function of the two counts alone: C ~ Binomial(n - 1, e^-eps), A ~
    Binomial(C, 1/2), D ~ Bernoulli(e^eps/(e^eps + 1)), and the pair (A + D, C - A + 1 - D) against
    (A + 1 - D, C - A + D) dominates.

    For ``binary`` reports (see ``ShuffledDpEvent``) C ~ Binomial(n - 1, 2/(e^eps + 1)), the rate
    that Feldman, McMillan and Talwar 2023 gave for all reports. Their erratum (arXiv 2208.04591v2)
    withdraws that: the proof fails where P0 and P1 are not as far apart as epsilon allows. Proved
    here for this case: let u and w be the inputs. The distributions are affine in every entry, so
    by joint convexity of the divergence entries may be taken as +1 or -1. On a set S of coordinates
    where u and w agree, P - a Q has the factor 1 - a before the difference of their two outputs,
    and where they differ 1 + a or -(1 + a). The divergence is convex in that factor and |1 - a| <=
    1 + a, so it is larger for a pair that differs everywhere. For such a pair Q0 and Q1 are uniform
    over one output of every coordinate and over the other, and every report has a distribution of
    at least (Q0 + Q1)/(e^eps + 1). The argument does not carry over to any report: an output as
    likely under P0 as under P1 may be e^eps less likely for the others.
    """

    epsilon: float
    n_users: int
    binary: bool = False

    @property
    def clone_rate(self) -> float:
        """The probability that the report of another user is a clone."""
        growth = math.exp(self.epsilon)
        return 2.0 / (growth + 1.0) if self.binary else 1.0 / growth

    @property
    def infinite(self) -> float:
        """P-mass of the counts that are not listed."""
        return 4.0 * _TAIL

    def between(self, edges: Array) -> tuple[Array, Array]:
        """Log-masses of the intervals."""
        return self.listed().between(edges)

    def span(self, tail: float) -> tuple[float, float]:
        """Quantiles of the losses under P."""
        return self.listed().span(tail)

    def listed(self) -> ListedPair:
        """All losses in the bulk of the counts.

        With m = C + 1 reports that matter and a of them of the first kind, P(a | m) is proportional
        to binom(m, a) (e^eps a + m - a), and Q(a | m) mirrored. Fewer clones tell more: a fair coin
        more in a turns the pair of C clones into that of C + 1. So C is rounded down, by a share of
        2e-4 of itself at most, which raises epsilon by half of that; the losses are a few 10^5 for
        any n, and of more than 10^10 users the others are left out. What is not listed has a mass
        below 4e-17, which counts as an infinite loss.
        """
        return _listed(self)


@lru_cache(maxsize=4)
def _listed(pair: ClonePair) -> ListedPair:
    n_users, growth = pair.n_users, math.exp(pair.epsilon)
    clones = stats.binom(min(n_users, _MOST_USERS) - 1, pair.clone_rate)
    # Bernstein: the number of clones is this far from its mean with chance 1e-17 at most.
    log_tail = math.log(1.0 / _TAIL)
    width = math.sqrt(2.0 * clones.var() * log_tail) + log_tail
    low = max(0, math.floor(clones.mean() - width))
    high = min(n_users - 1, math.ceil(clones.mean() + width))
    every = np.arange(low, high + 1)
    first = np.arange(0, len(every), max(1, math.floor(_COARSE * low)))
    chance = np.add.reduceat(clones.pmf(every), first)[:, None]
    m = every[first][:, None] + 1
    # Hoeffding: a - 1 given C and a given C are each this far from C/2 with chance 1e-17 at most.
    reach = math.ceil(math.sqrt(high * math.log(2.0 / _TAIL) / 2.0)) + 2
    a = m // 2 + np.arange(-reach, reach + 1)
    inside = (a >= 0) & (a <= m)
    m, mass, a = (np.broadcast_to(part, a.shape)[inside] for part in (m, chance, a))
    share = (growth * a + (m - a)) / (growth + 1.0)
    mass = mass * stats.binom.pmf(a, m, 0.5) * 2.0 * share / m
    kept = mass > 0
    loss = np.log((growth * a + (m - a)) / (a + growth * (m - a)))
    return ListedPair.of(loss[kept], np.log(mass[kept]))
