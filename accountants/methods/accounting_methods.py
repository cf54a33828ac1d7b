"""Accountants: each reads the leaves of an event and proves an upper bound on epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import sampling_rate
from fedrec_auditor.accountants.losses.composition import epsilon_above
from fedrec_auditor.accountants.losses.divergences import gaussian_epsilon, least_epsilon
from fedrec_auditor.accountants.losses.pairs import (
    LARGEST_LOSS,
    AtomicPair,
    ClonePair,
    GaussianMixture,
    Pair,
    Poisson,
    Reversed,
    dominating_pair,
    gaussian_pair,
)
from fedrec_auditor.accountants.losses.pure import (
    PURE_EVENTS,
    THREE_POINT_EVENTS,
    ThreePointLoss,
    pure_epsilon,
    pure_kinds,
    sampled_epsilon,
)
from fedrec_auditor.accountants.losses.renyi_curves import (
    fixed_size,
    fixed_size_gaussian,
    gaussian,
    poisson_gaussian,
)
from fedrec_auditor.accountants.losses.responses import least_epsilon_of
from fedrec_auditor.accountants.methods.base import LeafAccountant


@dataclass(frozen=True, slots=True)
class Pure(LeafAccountant):
    """Basic composition of pure differential privacy.

    Pure epsilons add up, under adaptive composition too (Dwork et al. 2006, Theorem 1).

    The sum holds at delta 0, hence at any delta; where all reports may take their worst pair of
    inputs at once it is exact at delta 0. A shuffled report counts as if it were not shuffled.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> Pure().bound(event, delta=0.0, scope=scope).epsilon
    10.0
    """

    reference = "basic composition of pure epsilons (Dwork, McSherry, Nissim, Smith 2006)"
    name = "the pure accountant"
    reads = PURE_EVENTS

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The sum of all epsilons."""
        return math.fsum(count * pure_epsilon(leaf) for leaf, count in uses)


@dataclass(frozen=True, slots=True)
class Optimal(LeafAccountant):
    """Optimal composition of pure differential privacy.

    Composed pure epsilons cost what as many randomized responses cost, and no less.

    No better bound holds for all mechanisms of these epsilons, chosen adaptively too. Equal ones:
    Kairouz, Oh and Viswanath 2015, Theorem 3.3, for any delta instead of theirs only. Unequal ones:
    Murtagh and Vadhan 2016, Theorem 1.5. Exact to 1e-9, or from above on a grid where unequal ones
    are too many to be enumerated: there it is off by 1e-6 relative; ``losses.responses`` says how.
    Only the epsilon of a leaf is used, so an accountant that knows more of a Laplace or of a
    response among five may prove less. A shuffled report counts as if it were not shuffled.

    It shares no code with the loss accountant, whose numbers it confirms.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> round(Optimal().bound(event, delta=1e-6, scope=scope).epsilon, 3)
    9.987
    """

    reference = (
        "optimal composition of pure epsilons (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016)"
    )
    name = "optimal composition"
    reads = PURE_EVENTS

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The epsilon of the composed randomized responses."""
        return least_epsilon_of(pure_kinds(uses), delta)


_SAMPLES = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent)
_PLD_READS = (*_SAMPLES, dp.MixtureOfGaussiansDpEvent)
_PLD_SAMPLED = {
    dp.PoissonSampledDpEvent: _SAMPLES,
    dp.SampledWithoutReplacementDpEvent: _SAMPLES,
    dp.RevealedSamplingDpEvent: _SAMPLES,
    dp.ReplacedSamplingDpEvent: (dp.GaussianDpEvent, dp.LaplaceDpEvent),
}
# Pairs of a record, or of several, present and absent: the other order counts too.
_DIRECTED = (Poisson, GaussianMixture)
# Above, the binomial distribution is not listed but composed.
_MOST_RESPONSES = 10**6
# What one use may lose to rounding in a Fourier transform; uses as an infinite loss.
_PLD_ROUNDING = 2.0**-52


@dataclass(frozen=True, slots=True)
class Pld(LeafAccountant):
    """Privacy loss distributions: exact where a closed form is known, else on a grid, from above.

    Privacy losses of composed uses add up in distribution (Sommer, Meiser, Mohammadi 2019).

    Randomized responses, bit flips and pure epsilons of one kind: the exact binomial distribution;
    what tells all or nothing: the chance that it does.
    Gaussians: the exact curve of their joint mu (Balle and Wang 2018, Theorem 8). Anything else:
    the dominating pairs of the leaves (``pairs``, ``sampled_pairs``), composed on a grid from
    above (``composition``), within 1e-3 of epsilon up to a million uses, looser beyond. Poisson
    sampling is composed in both directions, a record present in the first data set or in the
    second, and the larger counts. Never above the sum of the largest losses.

    Fault of dp-accounting 0.6.0, which the tests compare with: its ``PLDAccountant``
    ignores the count of a repeated ``RandomizedResponseDpEvent`` (ten uses of noise 0.5 over 2
    buckets cost 1.0987 there; in truth 10.987).

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Pld().bound(event, delta=1e-5, scope=scope).epsilon, 3)
    4.377
    """

    reference = "privacy loss distributions (Sommer, Meiser, Mohammadi 2019)"
    name = "the loss accountant"
    reads = _PLD_READS
    sampled = _PLD_SAMPLED

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The epsilon of the composed pairs, never above the sum of the largest losses."""
        uses = [(leaf, n) for leaf, n in uses if getattr(leaf, "sampling_probability", 1.0) > 0]
        most = math.fsum(count * _largest(leaf) for leaf, count in uses)
        if delta == 0.0 or most == 0.0:
            return most
        leaf, count = uses[0]
        if len(uses) == 1 and (revealed := _told(leaf)):
            once = count == 1 or revealed == 1.0
            all_told = revealed if once else -math.expm1(count * math.log1p(-revealed))
            found = 0.0 if all_told <= delta else math.inf
        elif len(uses) == 1 and isinstance(leaf, THREE_POINT_EVENTS) and count <= _MOST_RESPONSES:
            found = _responses(leaf, count, delta)
        elif all(isinstance(leaf, dp.GaussianDpEvent) for leaf, _ in uses):
            found = _gaussian(_joint_mu(uses), delta)
        else:
            found = _composed(uses, delta)
        return min(found, most)


def _largest(leaf: dp.DpEvent) -> float:
    """The largest privacy loss of one use."""
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return _largest(leaf.event)
    if hasattr(leaf, "event"):
        replaced = isinstance(leaf, dp.ReplacedSamplingDpEvent)
        return sampled_epsilon(_largest(leaf.event), sampling_rate(leaf), replaced=replaced)
    return pure_epsilon(leaf) if isinstance(leaf, PURE_EVENTS) else math.inf


def _told(leaf: dp.DpEvent) -> float:
    """The probability that one use tells all, where it tells nothing otherwise; else 0."""
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return sampling_rate(leaf) * _told(leaf.event)
    if not isinstance(leaf, THREE_POINT_EVENTS):
        return 0.0
    pair = ThreePointLoss.of(leaf)
    return pair.likely if math.isinf(pair.loss) else 0.0


def _joint_mu(gaussians: list[tuple[dp.DpEvent, int]]) -> float:
    """Sensitivity over deviation of the one Gaussian that many Gaussians amount to."""
    if any(g.noise_multiplier == 0 for g, _ in gaussians):
        return math.inf
    return math.hypot(*(math.sqrt(count) / g.noise_multiplier for g, count in gaussians))


def _gaussian(mu: float, delta: float) -> float:
    """On the upper side of the exact curve, whose inverse is found to 1e-12 (1 + mu)."""
    if mu <= 1e4:
        if gaussian_epsilon(delta * (1.0 - 1e-9), mu) == 0.0:
            return 0.0
        return (gaussian_epsilon(delta, mu) + 1e-12 * (1.0 + mu)) * (1.0 + 1e-14)
    # delta(eps) <= Phi(mu/2 - eps/mu), and nearly so where mu is large.
    return mu * (mu / 2.0 - float(ndtri(delta))) if mu < 1e150 else math.inf


def _responses(leaf: dp.DpEvent, count: int, delta: float) -> float:
    """Exactly the epsilon of ``count`` uses of one pair with losses +L, 0, -L."""
    pair = ThreePointLoss.of(leaf)
    if pair.uninformative > _PLD_ROUNDING:
        return epsilon_above(((dominating_pair(leaf), count),), delta)
    truthful = np.arange(count, -1, -1)
    # Logs of factorials are off by 1e-16 of themselves, and so are the masses; delta is uses.
    lost = 2.0**-50 * (8.0 + count * math.log(count + 1.0))
    return least_epsilon(
        stats.binom.logpmf(truthful, count, pair.likely),
        stats.binom.logpmf(truthful, count, pair.unlikely),
        delta * (1.0 - lost),
    )


def _composed(uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
    """Unlike leaves on one grid; Poisson samples of a record that is present, then absent.

    Losses too large for a grid are added up as they are.
    """
    huge = [(leaf, n) for leaf, n in uses if LARGEST_LOSS < _largest(leaf) < math.inf]
    if huge:
        rest = [part for part in uses if part not in huge]
        return math.fsum(n * _largest(leaf) for leaf, n in huge) + (
            _composed(rest, delta) if rest else 0.0
        )
    gaussians = [(leaf, n) for leaf, n in uses if isinstance(leaf, dp.GaussianDpEvent)]
    pairs: list[tuple[Pair, int]] = []
    if gaussians:
        pairs.append((gaussian_pair(_joint_mu(gaussians)), 1))
    others = [(leaf, n) for leaf, n in uses if not isinstance(leaf, dp.GaussianDpEvent)]
    pairs += [(dominating_pair(leaf), n) for leaf, n in others]
    found = epsilon_above(tuple(pairs), delta)
    if any(isinstance(pair, _DIRECTED) for pair, _ in pairs) and found < math.inf:
        turned = ((Reversed(p) if isinstance(p, _DIRECTED) else p, n) for p, n in pairs)
        found = max(found, epsilon_above(tuple(turned), delta))
    return found


_RDP_READS = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent, dp.ZCDpEvent)
_RDP_SAMPLED = {
    dp.PoissonSampledDpEvent: (dp.GaussianDpEvent,),
    dp.SampledWithoutReplacementDpEvent: _RDP_READS,
    dp.RevealedSamplingDpEvent: _RDP_READS,
}
# Fine where little noise is composed, whole above, and large ones for weak noise.
_ORDERS: NDArray[np.float64] = np.concatenate(
    [1 + np.geomspace(1e-3, 10, 100), np.arange(12, 64), np.round(np.geomspace(64, 65536, 31))]
)

_RDP_ROUNDING = 2.0**-50


@dataclass(frozen=True, slots=True)
class Rdp(LeafAccountant):
    """Rényi differential privacy: curves add up over compositions, then one conversion.

    Rényi divergences of every order add up (Mironov 2017, Proposition 1).

    Curves of one use: closed forms for Laplace, Gaussian and zCDP, the dominating pair for
    randomized response and bit flips; ``losses.renyi_curves`` has Poisson samples of a Gaussian,
    present or absent, and samples of fixed size of anything under replacement. Conversion: Canonne,
    Kamath and Steinke 2020, Proposition 12.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Rdp().bound(event, delta=1e-5, scope=scope).epsilon, 2)
    4.73
    """

    reference = "Rényi composition (Mironov 2017), converted by Canonne, Kamath, Steinke 2020"
    name = "the Rényi accountant"
    reads = _RDP_READS
    sampled = _RDP_SAMPLED

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The least epsilon over all orders."""
        curve = sum((n * _curve(leaf) for leaf, n in uses), np.zeros(len(_ORDERS)))
        return float(compute_epsilon(_ORDERS, curve, delta)[0])


@lru_cache(maxsize=256)
def _curve(leaf: dp.DpEvent) -> NDArray[np.float64]:
    """Rényi divergence of one use at every order, over the worst pair; not to be written to."""
    return _at(leaf, _ORDERS)


def _at(leaf: dp.DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(leaf, THREE_POINT_EVENTS):
        return _three_point(ThreePointLoss.of(leaf), orders)
    if isinstance(leaf, dp.GaussianDpEvent):
        return gaussian(leaf.noise_multiplier, orders)
    if isinstance(leaf, dp.LaplaceDpEvent):
        return _laplace(leaf.noise_multiplier, orders)
    if isinstance(leaf, dp.ZCDpEvent):
        return np.asarray(leaf.xi + leaf.rho * orders)
    inner = leaf.event
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return _revealed(leaf.sampling_probability, _at(inner, orders), orders)
    if isinstance(leaf, dp.PoissonSampledDpEvent):
        return poisson_gaussian(leaf.sampling_probability, inner.noise_multiplier, orders)
    rate = sampling_rate(leaf)
    if isinstance(inner, dp.GaussianDpEvent):
        return fixed_size_gaussian(rate, inner.noise_multiplier, orders)
    largest = pure_epsilon(inner) if isinstance(inner, PURE_EVENTS) else math.inf
    return fixed_size(rate, lambda a: _at(inner, a), orders, largest)


def _laplace(noise: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(a/(2a-1) e^((a-1)/b) + (a-1)/(2a-1) e^(-a/b)) / (a-1): Mironov 2017, Proposition 6."""
    if noise < 1e-300:
        return np.full(len(orders), np.inf)
    one, two = (orders - 1) / noise, orders / noise
    up, down = orders / (2 * orders - 1), (orders - 1) / (2 * orders - 1)
    large = np.logaddexp(np.log(up) + one, np.log(down) - two)
    # Less 1, where both terms nearly cancel; what rounding may have lost is added.
    over = up * np.expm1(np.minimum(one, 1.0)) + down * np.expm1(-two)
    small = np.log1p(np.maximum(over, 0.0) + _RDP_ROUNDING * np.minimum(one, 1.0))
    return np.asarray(np.where(one < 1.0, small, large) / (orders - 1))


def _revealed(
    rate: float, curve: NDArray[np.float64], orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """ln E_Q[(P/Q)^a] / (a - 1) where P/Q is 1 but at ``rate``: moments average."""
    if rate == 0:
        return np.zeros(len(orders))
    growth = (orders - 1) * curve
    # ln(1 + q (e^g - 1)), without overflow where g is large.
    small = np.log1p(rate * np.expm1(np.minimum(growth, 1.0)))
    large = growth + np.log(rate + (1.0 - rate) * np.exp(-growth))
    return np.asarray(np.where(growth < 1.0, small, large) / (orders - 1))


def _three_point(pair: ThreePointLoss, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln E_Q[(P/Q)^a] / (a - 1) of the three kinds of outputs."""
    if pair.loss == 0:
        return np.zeros(len(orders))
    if math.isinf(pair.loss):
        return np.full(len(orders), np.inf)
    log_likely, log_unlikely = math.log(pair.likely), math.log(pair.unlikely)
    log_rest = math.log(pair.uninformative) if pair.uninformative > 0 else -math.inf
    terms = np.stack(
        [
            orders * log_likely + (1 - orders) * log_unlikely,
            orders * log_unlikely + (1 - orders) * log_likely,
            np.full(len(orders), log_rest),
        ]
    )
    # What rounding may have lost is added: a divergence of 0 would be taken at its word by the
    # conversion.
    lost = _RDP_ROUNDING * orders * max(-log_unlikely, 1.0)
    return np.asarray(np.maximum(np.logaddexp.reduce(terms) + lost, 0.0) / (orders - 1))


# Above, e^eps leaves the doubles, and no report has a clone among fewer than e^500 users.
_LARGEST = 500.0


@dataclass(frozen=True, slots=True)
class Shuffle(LeafAccountant):
    """What shuffling buys: the clone bound, composed numerically.

    Among n shuffled eps-LDP reports one hides among its clones: see ``ClonePair``.

    Many shuffles compose, adaptively too, as the pair dominates whatever the inputs. Where a user
    sends k reports a round, all reports pooled in one shuffle are a function (one more random
    permutation) of k shuffles of one report a user each, so they may be accounted as k shuffles.
    It assumes that the proxy is honest, that all n users report in every shuffle, and that none of
    them tells the adversary what it sent: whoever does is no clone, and n counts the others
    (``theorems.shuffling``). Where the proxy colludes the sum of the local epsilons is left.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(ShuffledDpEvent(1.0, 10_000), 20)
    >>> round(Shuffle().bound(event, delta=1e-6, scope=scope).epsilon, 2)
    0.26
    """

    reference = "clones (Feldman, McMillan, Talwar 2021 and 2023), composed numerically"
    name = "the shuffle accountant"
    reads = (dp.ShuffledDpEvent,)
    assumptions = (
        "the shuffler is honest",
        "every user sends a report in every shuffle",
        "no other user tells the adversary what it sent",
    )

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """That of the composed clone pairs, never above the sum of the local epsilons."""
        local = math.fsum(count * leaf.epsilon for leaf, count in uses)
        if delta == 0 or local == 0 or max(leaf.epsilon for leaf, _ in uses) >= _LARGEST:
            return local
        # In an order of their own, so that the same shuffles are composed once.
        kinds = sorted((float(s.epsilon), int(s.n_users), bool(s.binary), n) for s, n in uses)
        pairs = tuple((_pair(e, users, b), n) for e, users, b, n in kinds if e > 0)
        return min(local, epsilon_above(pairs, delta))


def _pair(epsilon: float, n_users: int, binary: bool) -> Pair:
    """The report of a user who is alone is not shuffled."""
    return AtomicPair.pure(epsilon) if n_users == 1 else ClonePair(epsilon, n_users, binary)
