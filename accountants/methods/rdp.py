"""Rényi differential privacy: curves add up over compositions, then one conversion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import sampling_rate
from fedrec_auditor.accountants.losses.pure import (
    PURE_EVENTS,
    THREE_POINT_EVENTS,
    ThreePointLoss,
    pure_epsilon,
)
from fedrec_auditor.accountants.losses.renyi_curves import (
    fixed_size,
    fixed_size_gaussian,
    gaussian,
    poisson_gaussian,
)
from fedrec_auditor.accountants.methods.parts.leaf_accountant import LeafAccountant

_READS = (*THREE_POINT_EVENTS, dp.LaplaceDpEvent, dp.GaussianDpEvent, dp.ZCDpEvent)
_SAMPLED = {
    dp.PoissonSampledDpEvent: (dp.GaussianDpEvent,),
    dp.SampledWithoutReplacementDpEvent: _READS,
    dp.RevealedSamplingDpEvent: _READS,
}
# Fine where little noise is composed, whole above, and large ones for weak noise.
_ORDERS: NDArray[np.float64] = np.concatenate(
    [1 + np.geomspace(1e-3, 10, 100), np.arange(12, 64), np.round(np.geomspace(64, 65536, 31))]
)

_ROUNDING = 2.0**-50


@dataclass(frozen=True, slots=True)
class Rdp(LeafAccountant):
    """Rényi divergences of every order add up (Mironov 2017, Proposition 1).

    Curves of one use: closed forms for Laplace, Gaussian and zCDP, the dominating pair for
    randomized response and bit flips; ``losses.renyi_curves`` has Poisson samples of a Gaussian,
    present or absent, and samples of fixed size of anything under replacement. Conversion: Canonne,
    Kamath and Steinke 2020, Proposition 12.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    >>> round(Rdp().bound(event, delta=1e-5, scope=scope).epsilon, 2)
    4.73
    """

    reference = "Rényi composition (Mironov 2017), converted by Canonne, Kamath, Steinke 2020"
    name = "the Rényi accountant"
    reads = _READS
    sampled = _SAMPLED

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
    small = np.log1p(np.maximum(over, 0.0) + _ROUNDING * np.minimum(one, 1.0))
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
    lost = _ROUNDING * orders * max(-log_unlikely, 1.0)
    return np.asarray(np.maximum(np.logaddexp.reduce(terms) + lost, 0.0) / (orders - 1))
