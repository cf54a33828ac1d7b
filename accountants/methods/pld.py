"""Privacy loss distributions: exact where a closed form is known, else on a grid, from above."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import ndtri

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import sampling_rate
from fedrec_auditor.accountants.losses.composition import epsilon_above
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.accountants.losses.gaussian_mixture import GaussianMixture
from fedrec_auditor.accountants.losses.hockey_stick import least_epsilon
from fedrec_auditor.accountants.losses.leaf_pairs import (
    LARGEST_LOSS,
    dominating_pair,
    gaussian_pair,
)
from fedrec_auditor.accountants.losses.pairs import Pair, Reversed
from fedrec_auditor.accountants.losses.pure import (
    PURE_EVENTS,
    THREE_POINT_EVENTS,
    ThreePointLoss,
    pure_epsilon,
    sampled_epsilon,
)
from fedrec_auditor.accountants.losses.sampled_pairs import Poisson
from fedrec_auditor.accountants.methods.parts.leaf_accountant import LeafAccountant

_SAMPLES = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent)
_READS = (*_SAMPLES, dp.MixtureOfGaussiansDpEvent)
_SAMPLED = {
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
_ROUNDING = 2.0**-52


@dataclass(frozen=True, slots=True)
class Pld(LeafAccountant):
    """Privacy losses of composed uses add up in distribution (Sommer, Meiser, Mohammadi 2019).

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
    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Pld().bound(event, delta=1e-5, scope=scope).epsilon, 3)
    4.377
    """

    reference = "privacy loss distributions (Sommer, Meiser, Mohammadi 2019)"
    name = "the loss accountant"
    reads = _READS
    sampled = _SAMPLED

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
    if pair.uninformative > _ROUNDING:
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
