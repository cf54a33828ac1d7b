"""Accountants: each computes an upper bound on the epsilon of an accounting event (a description of
composed mechanisms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray
from scipy.special import ndtri

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import get_sampling_rate
from fedrec_auditor.accountants.losses import pairs as loss_pairs
from fedrec_auditor.accountants.losses.composition import compute_upper_epsilon
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon, find_min_epsilon
from fedrec_auditor.accountants.losses.pure import (
    PURE_EVENTS,
    THREE_POINT_EVENTS,
    ThreePointPair,
    amplify_epsilon,
    count_epsilons,
    get_pure_epsilon,
)
from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons
from fedrec_auditor.accountants.methods.base import LeafAccountant


@dataclass(frozen=True, slots=True)
class Pure(LeafAccountant):
    """Accountant by basic composition: it adds up the pure epsilons of all mechanisms.

    The sum is valid at any delta and under adaptive composition (Dwork et al. 2006, Theorem 1). At
    delta 0 the sum is exact if one pair of inputs is the worst pair of all mechanisms at once.
    Shuffled reports count as if they were not shuffled.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> Pure().bound(event, delta=0.0, scope=scope).epsilon
    10.0
    """

    reference = "basic composition of pure epsilons (Dwork, McSherry, Nissim, Smith 2006)"
    name = "the pure accountant"
    supported_events = PURE_EVENTS

    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes the sum of the pure epsilons of all ``uses``, which are mechanisms with their
        numbers of uses; ``delta`` has no effect.
        """
        return math.fsum(count * get_pure_epsilon(leaf) for leaf, count in uses)


@dataclass(frozen=True, slots=True)
class Optimal(LeafAccountant):
    """Accountant by optimal composition: it treats each pure epsilon as a randomized response.

    No smaller bound holds for all mechanisms with these pure epsilons. An accountant that uses
    the distribution of a mechanism, such as ``Pld``, may prove a smaller bound. A shuffled report
    counts as if it were not shuffled.

    Sources: Kairouz, Oh and Viswanath 2015, Theorem 3.3 (equal epsilons, extended here to every
    delta), and Murtagh and Vadhan 2016, Theorem 1.5 (unequal epsilons).

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> round(Optimal().bound(event, delta=1e-6, scope=scope).epsilon, 3)
    9.987
    """

    # The result is exact to 1e-9 if the total privacy losses can be enumerated, and otherwise an
    # upper bound (see ``losses.responses.compose_pure_epsilons``). This accountant shares no code
    # with the privacy loss accountant ``Pld``, and therefore can check its results.

    reference = (
        "optimal composition of pure epsilons (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016)"
    )
    name = "optimal composition"
    supported_events = PURE_EVENTS

    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes the epsilon at ``delta`` of composed randomized responses that have the pure
        epsilons of the mechanisms.

        ``uses`` lists the mechanisms, each with its number of uses.
        """
        return compose_pure_epsilons(count_epsilons(uses), delta)


_SAMPLES = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent)
_PLD_READS = (*_SAMPLES, dp.MixtureOfGaussiansDpEvent)
_PLD_SAMPLED = {
    dp.PoissonSampledDpEvent: _SAMPLES,
    dp.SampledWithoutReplacementDpEvent: _SAMPLES,
    dp.RevealedSamplingDpEvent: _SAMPLES,
    dp.ReplacedSamplingDpEvent: (dp.GaussianDpEvent, dp.LaplaceDpEvent),
}
# Pairs for adding or removing records, which must be composed in both orders.
_DIRECTED = (loss_pairs.PoissonSamplePair, loss_pairs.GaussianMixturePair)
# Number of uses above which the binomial distribution is composed instead of listed.
_MOST_RESPONSES = 10**6
# Rounding error of one use in a Fourier transform; it counts as an infinite loss.
_PLD_ROUNDING = 2.0**-52


@dataclass(frozen=True, slots=True)
class Pld(LeafAccountant):
    """Accountant by privacy loss distributions, exact or as an upper bound on a grid.

    The privacy losses of composed uses are added as random variables (Sommer, Meiser, Mohammadi
    2019).

    - Exact: up to 10^6 uses of one randomized response, bit flip or pure epsilon, unless some
      output is equally likely under all inputs.
    - Exact: one mechanism that reveals either everything or nothing, used any number of times.
    - Exact: Gaussian mechanisms (Balle and Wang 2018, Theorem 8).
    - Other events: an upper bound from dominating pairs. The grid adds at most 1e-3 for up to a
      million uses, and more for more uses.

    The result is at most the sum of the largest privacy losses of all uses.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Pld().bound(event, delta=1e-5, scope=scope).epsilon, 3)
    4.377
    """

    # Equal responses are composed by the binomial distribution, and Gaussian mechanisms by the
    # privacy curve of the equivalent single one. Other events are composed on a grid
    # (``losses.composition``) from the dominating pairs of distributions of the mechanisms
    # (``losses.pairs``). Poisson samples are composed in both orders of the data sets (with the
    # record against without it, and vice versa), and the larger result counts.
    #
    # Fault of dp-accounting 0.6.0, with which the tests compare: its ``PLDAccountant`` ignores the
    # count of a repeated ``RandomizedResponseDpEvent``. For ten uses of noise 0.5 over 2 buckets it
    # gives the epsilon 1.0987, and the true epsilon is 10.987.

    reference = "privacy loss distributions (Sommer, Meiser, Mohammadi 2019)"
    name = "the loss accountant"
    supported_events = _PLD_READS
    supported_sampling = _PLD_SAMPLED

    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes an upper bound on the epsilon at ``delta`` of the composed mechanisms; at most
        the sum of their largest privacy losses.

        ``uses`` lists the mechanisms, each with its number of uses.
        """
        uses = [(leaf, n) for leaf, n in uses if getattr(leaf, "sampling_probability", 1.0) > 0]
        max_sum = math.fsum(count * _max_loss(leaf) for leaf, count in uses)
        if delta == 0.0 or max_sum == 0.0:
            return max_sum
        leaf, count = uses[0]
        if len(uses) == 1 and (revealing := _revealing_probability(leaf)):
            once = count == 1 or revealing == 1.0
            all_revealed = revealing if once else -math.expm1(count * math.log1p(-revealing))
            epsilon = 0.0 if all_revealed <= delta else math.inf
        elif len(uses) == 1 and isinstance(leaf, THREE_POINT_EVENTS) and count <= _MOST_RESPONSES:
            epsilon = _response_epsilon(leaf, count, delta)
        elif all(isinstance(leaf, dp.GaussianDpEvent) for leaf, _ in uses):
            epsilon = _gaussian_epsilon(_joint_mu(uses), delta)
        else:
            epsilon = _compose_on_grid(uses, delta)
        return min(epsilon, max_sum)


def _max_loss(leaf: dp.DpEvent) -> float:
    """The largest privacy loss of one use of a mechanism; infinite if the loss is not bounded."""
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return _max_loss(leaf.event)
    if hasattr(leaf, "event"):
        replaced = isinstance(leaf, dp.ReplacedSamplingDpEvent)
        return amplify_epsilon(_max_loss(leaf.event), get_sampling_rate(leaf), replaced=replaced)
    return get_pure_epsilon(leaf) if isinstance(leaf, PURE_EVENTS) else math.inf


def _revealing_probability(leaf: dp.DpEvent) -> float:
    """Probability that one use reveals the input with certainty, if it reveals nothing otherwise; 0
    for other mechanisms.
    """
    if isinstance(leaf, dp.RevealedSamplingDpEvent):
        return get_sampling_rate(leaf) * _revealing_probability(leaf.event)
    if not isinstance(leaf, THREE_POINT_EVENTS):
        return 0.0
    pair = ThreePointPair.from_event(leaf)
    return pair.p_own if math.isinf(pair.max_loss) else 0.0


def _joint_mu(gaussians: list[tuple[dp.DpEvent, int]]) -> float:
    """Sensitivity over standard deviation of the single Gaussian mechanism that is equivalent to
    all ``gaussians``.
    """
    if any(g.noise_multiplier == 0 for g, _ in gaussians):
        return math.inf
    return math.hypot(*(math.sqrt(count) / g.noise_multiplier for g, count in gaussians))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Upper bound on the epsilon at ``delta`` of a Gaussian mechanism with sensitivity over
    standard deviation ``mu``.

    The error of the computed epsilon, 1e-12 (1 + mu), is added.
    """
    if mu <= 1e4:
        if find_gaussian_epsilon(delta * (1.0 - 1e-9), mu) == 0.0:
            return 0.0
        return (find_gaussian_epsilon(delta, mu) + 1e-12 * (1.0 + mu)) * (1.0 + 1e-14)
    # delta(eps) <= Phi(mu/2 - eps/mu), with near equality if mu is large.
    return mu * (mu / 2.0 - float(ndtri(delta))) if mu < 1e150 else math.inf


def _response_epsilon(leaf: dp.DpEvent, count: int, delta: float) -> float:
    """Epsilon of ``count`` uses of one response: exact if its privacy loss is L or -L, and an upper
    bound on a grid if the loss may also be 0.
    """
    pair = ThreePointPair.from_event(leaf)
    if pair.p_uninformative > _PLD_ROUNDING:
        return compute_upper_epsilon(((loss_pairs.make_dominating_pair(leaf), count),), delta)
    truthful = np.arange(count, -1, -1)
    # Log-factorials have a relative error of 1e-16, and so have the masses; delta is reduced by it.
    lost = 2.0**-50 * (8.0 + count * math.log(count + 1.0))
    return find_min_epsilon(
        scipy.stats.binom.logpmf(truthful, count, pair.p_own),
        scipy.stats.binom.logpmf(truthful, count, pair.p_other),
        delta * (1.0 - lost),
    )


def _compose_on_grid(uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
    """Computes an upper bound on the epsilon of different mechanisms, composed on one grid of
    privacy losses.
    """
    # Mechanisms that sample a record which is present or absent are composed in both directions.
    # Losses that are too large for a grid are added up.
    huge = [(leaf, n) for leaf, n in uses if loss_pairs.MAX_LOSS < _max_loss(leaf) < math.inf]
    if huge:
        rest = [part for part in uses if part not in huge]
        return math.fsum(n * _max_loss(leaf) for leaf, n in huge) + (
            _compose_on_grid(rest, delta) if rest else 0.0
        )
    gaussians = [(leaf, n) for leaf, n in uses if isinstance(leaf, dp.GaussianDpEvent)]
    pairs: list[tuple[loss_pairs.Pair, int]] = []
    if gaussians:
        pairs.append((loss_pairs.make_gaussian_pair(_joint_mu(gaussians)), 1))
    others = [(leaf, n) for leaf, n in uses if not isinstance(leaf, dp.GaussianDpEvent)]
    pairs += [(loss_pairs.make_dominating_pair(leaf), n) for leaf, n in others]
    found = compute_upper_epsilon(tuple(pairs), delta)
    if any(isinstance(pair, _DIRECTED) for pair, _ in pairs) and found < math.inf:
        turned = (
            (loss_pairs.ReversedPair(p) if isinstance(p, _DIRECTED) else p, n) for p, n in pairs
        )
        found = max(found, compute_upper_epsilon(tuple(turned), delta))
    return found


# Orders: fine ones near 1 for weak noise, integers above, and large ones for strong noise.
_ORDERS: NDArray[np.float64] = np.concatenate(
    [1 + np.geomspace(1e-3, 10, 100), np.arange(12, 64), np.round(np.geomspace(64, 65536, 31))]
)

_RDP_ROUNDING = 2.0**-50


@dataclass(frozen=True, slots=True)
class Rdp(LeafAccountant):
    """Accountant by Rényi differential privacy: it adds Rényi curves and converts them to epsilon.

    A Rényi curve is the Rényi divergence as a function of the order. Sources: composition by
    Mironov 2017, Proposition 1; conversion by Canonne, Kamath and Steinke 2020, Proposition 12.

    Sampled events are not supported. ``Pld`` proves smaller bounds for them, or bounds at most 1%
    larger after 10^9 uses.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Rdp().bound(event, delta=1e-5, scope=scope).epsilon, 2)
    4.73
    """

    # The curve of one use has a closed form for Laplace, Gaussian and zCDP events, and follows from
    # the dominating pair of distributions for randomized response and bit flips.

    reference = "Rényi composition (Mironov 2017), converted by Canonne, Kamath, Steinke 2020"
    name = "the Rényi accountant"
    supported_events = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent, dp.ZCDpEvent)

    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Adds the Rényi divergences of all uses per order, and converts each sum to an epsilon at
        ``delta``; returns the smallest one.

        ``uses`` lists the mechanisms, each with its number of uses.
        """
        curve = sum((n * _renyi_curve(leaf, _ORDERS) for leaf, n in uses), np.zeros(len(_ORDERS)))
        return float(compute_epsilon(_ORDERS, curve, delta)[0])


def _renyi_curve(leaf: dp.DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi divergences of one use at ``orders``, (orders,), for the worst pair of inputs."""
    if isinstance(leaf, THREE_POINT_EVENTS):
        return _three_point_curve(ThreePointPair.from_event(leaf), orders)
    if isinstance(leaf, dp.GaussianDpEvent):
        return _gaussian_curve(leaf.noise_multiplier, orders)
    if isinstance(leaf, dp.LaplaceDpEvent):
        return _laplace_curve(leaf.noise_multiplier, orders)
    return np.asarray(leaf.xi + leaf.rho * orders)


def _gaussian_curve(noise: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi curve of Gaussian noise: a / (2 z^2) at order a, with z = ``noise``."""
    if noise == 0:
        return np.full(len(orders), np.inf)
    with np.errstate(over="ignore"):
        return np.asarray(orders * 0.5 / noise / noise)


def _laplace_curve(noise: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi curve of Laplace noise: ln(a/(2a-1) e^((a-1)/b) + (a-1)/(2a-1) e^(-a/b)) / (a-1) at
    order a, with b = ``noise``.

    Mironov 2017, Proposition 6.
    """
    if noise < 1e-300:
        return np.full(len(orders), np.inf)
    one, two = (orders - 1) / noise, orders / noise
    up, down = orders / (2 * orders - 1), (orders - 1) / (2 * orders - 1)
    large = np.logaddexp(np.log(up) + one, np.log(down) - two)
    # The sum minus 1 if both terms nearly cancel; an allowance for rounding is added.
    over = up * np.expm1(np.minimum(one, 1.0)) + down * np.expm1(-two)
    small = np.log1p(np.maximum(over, 0.0) + _RDP_ROUNDING * np.minimum(one, 1.0))
    return np.asarray(np.where(one < 1.0, small, large) / (orders - 1))


def _three_point_curve(pair: ThreePointPair, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rényi divergence, ln E_Q[(P/Q)^a] / (a - 1), at every order a, for a pair with three privacy
    losses.
    """
    if pair.max_loss == 0:
        return np.zeros(len(orders))
    if math.isinf(pair.max_loss):
        return np.full(len(orders), np.inf)
    log_likely, log_unlikely = math.log(pair.p_own), math.log(pair.p_other)
    log_rest = math.log(pair.p_uninformative) if pair.p_uninformative > 0 else -math.inf
    terms = np.stack(
        [
            orders * log_likely + (1 - orders) * log_unlikely,
            orders * log_unlikely + (1 - orders) * log_likely,
            np.full(len(orders), log_rest),
        ]
    )
    # An allowance for rounding is added, because the conversion would take a divergence of 0 as
    # exact.
    lost = _RDP_ROUNDING * orders * max(-log_unlikely, 1.0)
    return np.asarray(np.maximum(np.logaddexp.reduce(terms) + lost, 0.0) / (orders - 1))


# Local epsilon above which e^eps is not a finite double, and no report has a clone among fewer than
# e^500 users.
_LARGEST = 500.0


@dataclass(frozen=True, slots=True)
class Shuffle(LeafAccountant):
    """Accountant of shuffled reports: it composes the clone bound on amplification numerically.

    The clone bound is the amplification by shuffling in "Hiding among the clones" (Feldman,
    McMillan and Talwar 2021; ``losses.pairs.ClonePair``). The bound also holds under adaptive
    composition. A round in which every user sends k reports counts as k shuffles.

    Assumptions: the shuffler is honest, all n users report in every shuffle, and no other user
    reveals its report to the adversary. Users who reveal their reports are not counted in n
    (``theorems.neighbours.count_anonymity_set``).

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
    >>> scope = make_local_scope(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(ShuffledDpEvent(1.0, 10_000), 20)
    >>> round(Shuffle().bound(event, delta=1e-6, scope=scope).epsilon, 2)
    0.26
    """

    # The bound composes because the pair of distributions dominates for all inputs. k reports per
    # user and round: pooling all reports is a function (one more random permutation) of k shuffles.
    # If the shuffler colludes with the adversary, only the sum of the local epsilons holds.

    reference = "clones (Feldman, McMillan, Talwar 2021 and 2023), composed numerically"
    name = "the shuffle accountant"
    supported_events = (dp.ShuffledDpEvent,)
    assumptions = (
        "the shuffler is honest",
        "every user sends a report in every shuffle",
        "no other user reveals its report to the adversary",
    )

    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes the epsilon at ``delta`` of the composed shuffles; at most the sum of the local
        epsilons.

        ``uses`` lists the shuffles, each with its number of uses.
        """
        local = math.fsum(count * leaf.epsilon for leaf, count in uses)
        if delta == 0 or local == 0 or max(leaf.epsilon for leaf, _ in uses) >= _LARGEST:
            return local
        # The uses are sorted, so that equal sets of shuffles are composed once.
        kinds = sorted((float(s.epsilon), int(s.n_users), bool(s.binary), n) for s, n in uses)
        pairs = tuple((_make_shuffle_pair(e, users, b), n) for e, users, b, n in kinds if e > 0)
        return min(local, compute_upper_epsilon(pairs, delta))


def _make_shuffle_pair(epsilon: float, n_users: int, binary: bool) -> loss_pairs.Pair:
    """Dominating pair of distributions of one shuffle; the report of a single user is not
    shuffled.
    """
    return (
        loss_pairs.AtomicPair.from_epsilon(epsilon)
        if n_users == 1
        else loss_pairs.ClonePair(epsilon, n_users, binary)
    )
