"""What shuffling buys: the clone bound, composed numerically."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent, private_leaves, readable
from fedrec_auditor.accountants.losses.grid import least_epsilon, on_grid
from fedrec_auditor.accountants.methods.pld import ROUNDING
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta, check_epsilon

if TYPE_CHECKING:
    from fedrec_auditor.accountants.statements.scope import Scope

_READS = (ShuffledDpEvent,)
_TAIL = 1e-17
# Above, e^eps leaves the doubles, and no report has a clone among fewer than e^500 users.
_LARGEST = 500.0
# The share by which a number of clones may be rounded down.
_COARSE = 2e-4
# Of more shuffles the losses are not composed but bounded by their moments.
_MOST_COMPOSED = 10**6
# Above, nobody hides a report any better, as far as the bound goes.
_MOST_USERS = 10**10


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Among n shuffled eps-LDP reports one hides among its clones.

    Theorem 3.1 of Feldman, McMillan and Talwar 2021 ("Hiding among the clones"), numerically.
    Let P0, P1 be the laws of the one user's report on either input. They are e^eps-close, so
    P0 = (e^eps Q0 + Q1)/(e^eps + 1) and P1 mirrored, for some laws Q0, Q1 (Kairouz, Oh and
    Viswanath 2015). Every other report has a law of at least e^-eps max(P0, P1) >=
    e^-eps (Q0 + Q1)/2, so with probability e^-eps it is a clone, of Q0 or Q1 by a fair coin.
    What is shuffled is then a function of the two counts alone: C ~ Binomial(n - 1, e^-eps),
    A ~ Binomial(C, 1/2), D ~ Bernoulli(e^eps/(e^eps + 1)), and the pair
    (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D) dominates.

    For ``binary`` reports C ~ Binomial(n - 1, 2/(e^eps + 1)), the rate that Feldman, McMillan and
    Talwar 2023 gave for all reports. Their erratum (arXiv 2208.04591v2) withdraws that: the proof
    fails where P0 and P1 are not as far apart as epsilon allows. Proved here for this case: let u
    and w be the inputs. The laws are affine in every entry, so by joint convexity of the divergence
    entries may be taken as +1 or -1. On a set S of coordinates where u and w agree, P - a Q has the
    factor 1 - a before the difference of their two outputs, and where they differ 1 + a or
    -(1 + a). The divergence is convex in that factor and |1 - a| <= 1 + a, so it is larger for a
    pair that differs everywhere. For such a pair Q0 and Q1 are uniform over one output of every
    coordinate and over the other, and every report has a law of at least (Q0 + Q1)/(e^eps + 1).
    The argument does not carry over to any report: an output as likely under P0 as under P1 may be
    e^eps less likely for the others.

    Many shuffles compose, adaptively too, as the pair dominates whatever the inputs. Where a user
    sends k reports a round, all reports pooled in one shuffle are a function (one more random
    permutation) of k shuffles of one report a user each, so they may be charged as k shuffles.
    It assumes that the proxy is honest, that all n users report in every shuffle, and that none of
    them tells the adversary what it sent: whoever does is no clone, and n counts the others
    (``theorems.shuffling``). Where the proxy colludes the sum of the local epsilons is left.
    """

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        return "clones (Feldman, McMillan, Talwar 2021 and 2023), composed numerically"

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf is a shuffle of local reports."""
        return readable(event, _READS)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The least epsilon at ``delta``, never above the sum of the local epsilons."""
        charged = private_leaves(event, _READS, scope=scope, reader="the shuffle accountant")
        check_delta(delta)
        epsilon = math.inf
        if charged is not None:
            epsilon = math.fsum(count * _local(leaf) for leaf, count in charged)
            most = max((leaf.epsilon for leaf, _ in charged), default=0.0)
            if delta > 0 and epsilon > 0 and most < _LARGEST:
                epsilon = min(epsilon, _composed(_key(charged), delta))
        return Bound(
            epsilon=epsilon,
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
            assumptions=(
                "the shuffler is honest",
                "every user sends a report in every shuffle",
                "no other user tells the adversary what it sent",
            ),
        )


def clone_pair(
    epsilon: float, n_users: int, rate: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The dominating pair of one shuffle: P-masses, their privacy losses, and the P-mass left out.

    ``rate`` is the probability that a report is a clone.
    With m = C + 1 reports that matter and a of them of the first kind, P(a | m) is proportional to
    binom(m, a) (e^eps a + m - a), and Q(a | m) mirrored. Fewer clones tell more: a fair coin more
    in a turns the pair of C clones into that of C + 1. So C is rounded down, by ``_COARSE`` of
    itself at most, which raises epsilon by half of that; the cells are a few 10^5 for any n, and of
    more than ``_MOST_USERS`` the others are left out. Only C and a in the bulk are listed; what
    is left out is below 4e-17 and must be charged as an infinite loss.
    """
    growth = math.exp(epsilon)
    clones = stats.binom(min(n_users, _MOST_USERS) - 1, rate)
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
    loss = np.log((growth * a + (m - a)) / (a + growth * (m - a)))
    return mass, loss, 4.0 * _TAIL


Shuffles = tuple[tuple[float, int, bool, int], ...]
"""Local epsilon, number of users, whether reports are binary, and how often, of every shuffle."""


def _key(charged: list[tuple[DpEvent, int]]) -> Shuffles:
    """What the bound depends on, in an order of its own."""
    kinds = ((float(s.epsilon), int(s.n_users), bool(s.binary), n) for s, n in charged)
    return tuple(sorted(kinds))


@lru_cache(maxsize=256)
def _composed(shuffles: Shuffles, delta: float) -> float:
    """Remembered by what is composed: a target asks at several vantages and horizons."""
    pairs = [
        (*clone_pair(epsilon, n_users, _clone_rate(epsilon, binary=binary)), n)
        for epsilon, n_users, binary, n in shuffles
    ]
    deviations = [float(np.sqrt(np.sum(mass * loss**2))) for mass, loss, _, _ in pairs]
    spread = math.sqrt(sum(n * d**2 for d, (*_, n) in zip(deviations, pairs, strict=True)))
    if sum(count for *_, count in pairs) > _MOST_COMPOSED:
        parts = [
            (on_grid(mass, loss, left_out, d / 64.0), count)
            for (mass, loss, left_out, count), d in zip(pairs, deviations, strict=True)
        ]
        return _chernoff(parts, spread, delta)
    step = max(min(deviations) / 64.0, 20.0 * spread / 2e6)
    total: Any = None
    for mass, loss, left_out, count in pairs:
        part = on_grid(mass, loss, left_out + ROUNDING, step).self_compose(count)
        total = part if total is None else total.compose(part)
    chance, left = np.flip(np.maximum(total._probs, 0.0)), delta - total._infinity_mass
    if left <= 0.0:
        return math.inf
    loss = (total._lower_loss + np.arange(len(chance))[::-1]) * total._discretization
    kept = chance > 0.0
    log_p = np.log(chance[kept])
    return least_epsilon(log_p, log_p - loss[kept], left)


def _chernoff(parts: list[tuple[Any, int]], spread: float, delta: float) -> float:
    """The least (ln E_P[e^(t L)] + ln 1/delta)/t of the sum L of all losses, over some t > 0.

    By Markov's inequality the hockey-stick divergence at that epsilon is at most delta, whatever
    the t. Losses that count as infinite are taken from delta.
    """
    left = delta - math.fsum(count * part._infinity_mass for part, count in parts)
    if left <= 0.0:
        return math.inf
    tilts = np.geomspace(1 / 30.0, 30.0, 400) * math.sqrt(2.0 * math.log(1.0 / left)) / spread
    total = np.zeros(len(tilts))
    for part, count in parts:
        loss = (part._lower_loss + np.arange(part.size)) * part._discretization
        with np.errstate(divide="ignore"):
            log_mass = np.log(part._probs)
        # What sums of doubles may lack, in all uses.
        total += count * (logsumexp(log_mass + tilts[:, None] * loss, axis=1) + 2.0**-46)
    return float(np.min((total - math.log(left)) / tilts))


def _clone_rate(epsilon: float, *, binary: bool) -> float:
    growth = math.exp(epsilon)
    return 2.0 / (growth + 1.0) if binary else 1.0 / growth


def _local(leaf: DpEvent) -> float:
    """The epsilon of one report, unshuffled; InputError if the leaf makes no sense."""
    if leaf.n_users < 1 or leaf.n_users != int(leaf.n_users):
        raise InputError(f"Expected n_users >= 1, got n_users={leaf.n_users!r}. Count the senders.")
    return check_epsilon(leaf.epsilon)
