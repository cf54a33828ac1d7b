"""Rényi differential privacy: curves add up over compositions, then one conversion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    ZCDpEvent,
)
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from numpy.typing import NDArray

from accountants.bound import Bound, Side, check_delta
from accountants.errors import InputError
from accountants.events import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
    private_leaves,
    readable,
)
from accountants.ternary import Ternary

if TYPE_CHECKING:
    from accountants.scope import Scope

_BITS = (RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent)
_READS = (
    *_BITS,
    LaplaceDpEvent,
    GaussianDpEvent,
    ZCDpEvent,
)
_SAMPLED = {
    PoissonSampledDpEvent: (GaussianDpEvent,),
    SampledWithoutReplacementDpEvent: (GaussianDpEvent,),
    RevealedSamplingDpEvent: _READS,
}
# dp-accounting's default orders, and larger and smaller ones for weak and strong noise.
_ORDERS: NDArray[np.float64] = np.concatenate(
    [1 + np.geomspace(1e-3, 10, 100), np.arange(12, 64), np.geomspace(64, 65536, 31)]
)

_ROUNDING = 2.0**-50


@dataclass(frozen=True, slots=True)
class Rdp:
    """Rényi divergences of every order add up (Mironov 2017, Proposition 1).

    Curves of Laplace, Gaussian, sampled Gaussian and zCDP leaves are dp-accounting's, taken one use
    at a time; counts are multiplied here. Curves of randomized response and bit flips follow from
    their dominating pair. Conversion: Canonne, Kamath and Steinke 2020, Proposition 12.
    """

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        return "Rényi composition (Mironov 2017), converted by Canonne, Kamath, Steinke 2020"

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf's curve is known."""
        return readable(event, _READS, sampled=_SAMPLED)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The least epsilon over all orders; InputError names a leaf that cannot be read."""
        charged = private_leaves(
            event, _READS, sampled=_SAMPLED, scope=scope, reader="the Rényi accountant"
        )
        check_delta(delta)
        epsilon = math.inf
        if charged is not None:
            curve = sum((n * _curve(leaf) for leaf, n in charged), np.zeros(len(_ORDERS)))
            epsilon = float(compute_epsilon(_ORDERS, curve, delta)[0])
        return Bound(
            epsilon=epsilon, delta=delta, side=Side.UPPER, scope=scope, source=self.reference
        )


@lru_cache(maxsize=64)
def _curve(leaf: DpEvent) -> NDArray[np.float64]:
    """Rényi divergence of one use at every order, over the worst pair; not to be written to.

    Remembered: a sampled Gaussian takes seconds, and a target asks at several deltas and vantages.
    """
    if isinstance(leaf, _BITS):
        return _ternary(Ternary.of(leaf))
    if isinstance(leaf, RevealedSamplingDpEvent):
        return _revealed(leaf.sampling_probability, _curve(leaf.event))
    if getattr(leaf, "noise_multiplier", 1.0) <= 0:
        return np.full(len(_ORDERS), np.inf)
    replaces = isinstance(leaf, SampledWithoutReplacementDpEvent)
    accountant = RdpAccountant(
        orders=_ORDERS,
        neighboring_relation=NeighboringRelation.REPLACE_ONE
        if replaces
        else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    if not accountant.supports(leaf):
        raise InputError(f"Expected a Gaussian to be sampled, got {leaf}. Ask another accountant.")
    return np.asarray(accountant.compose(leaf).rdp)


def _revealed(rate: float, curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln E_Q[(P/Q)^a] / (a - 1) where P/Q is 1 but at ``rate``: moments average."""
    if rate == 0:
        return np.zeros(len(_ORDERS))
    growth = (_ORDERS - 1) * curve
    # ln(1 + q (e^g - 1)), without overflow where g is large.
    small = np.log1p(rate * np.expm1(np.minimum(growth, 1.0)))
    large = growth + np.log(rate + (1.0 - rate) * np.exp(-growth))
    return np.asarray(np.where(growth < 1.0, small, large) / (_ORDERS - 1))


def _ternary(pair: Ternary) -> NDArray[np.float64]:
    """ln E_Q[(P/Q)^a] / (a - 1) of the three kinds of outputs."""
    if pair.loss == 0:
        return np.zeros(len(_ORDERS))
    if math.isinf(pair.loss):
        return np.full(len(_ORDERS), np.inf)
    log_high, log_low = math.log(pair.high), math.log(pair.low)
    log_silent = math.log(pair.silent) if pair.silent > 0 else -math.inf
    terms = np.stack(
        [
            _ORDERS * log_high + (1 - _ORDERS) * log_low,
            _ORDERS * log_low + (1 - _ORDERS) * log_high,
            np.full(len(_ORDERS), log_silent),
        ]
    )
    # Rounding is charged: a divergence of 0 would be taken at its word by the conversion.
    lost = _ROUNDING * _ORDERS * max(-log_low, 1.0)
    return np.asarray(np.maximum(np.logaddexp.reduce(terms) + lost, 0.0) / (_ORDERS - 1))
