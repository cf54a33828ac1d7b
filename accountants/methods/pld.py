"""Privacy loss distributions: exact where a closed form is known, else on a grid, from above."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import stats

from accountants.bound import Bound, Side, check_delta
from accountants.errors import InputError
from accountants.events import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
    private_leaves,
    readable,
)
from accountants.loss import least_epsilon, on_grid
from accountants.ternary import Ternary

if TYPE_CHECKING:
    from accountants.scope import Scope

_BITS = (RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent)
_READS = (*_BITS, LaplaceDpEvent, GaussianDpEvent)
_SAMPLED = {
    PoissonSampledDpEvent: (GaussianDpEvent, LaplaceDpEvent),
    RevealedSamplingDpEvent: _READS,
}
_STEP = 1e-4
# What one use may lose to rounding in a Fourier transform; charged as an infinite loss.
ROUNDING = 2.0**-52


@dataclass(frozen=True, slots=True)
class Pld:
    """Privacy losses of composed uses add up in law (Sommer, Meiser, Mohammadi 2019).

    Randomized responses, bit flips and pure epsilons of one kind: the exact binomial law.
    Gaussians: the exact curve of their joint mu (Balle and Wang 2018, Theorem 8). Mixtures and
    Laplace: dp-accounting's distributions, rounded so that they dominate, hence an upper bound.

    Fault of dp-accounting 0.6.0, mended here by walking the tree ourselves: its ``PLDAccountant``
    ignores the count of a repeated ``RandomizedResponseDpEvent`` (ten uses of noise 0.5 over 2
    buckets cost 1.0987 there; in truth 10.987).
    """

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        return "privacy loss distributions (Sommer, Meiser, Mohammadi 2019)"

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf's privacy loss distribution is known."""
        return readable(event, _READS, sampled=_SAMPLED)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The least epsilon at ``delta``; InputError names a leaf that cannot be read."""
        charged = private_leaves(
            event, _READS, sampled=_SAMPLED, scope=scope, reader="the loss accountant"
        )
        check_delta(delta)
        return Bound(
            epsilon=math.inf if charged is None else _epsilon(charged, delta),
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
        )


def _epsilon(charged: list[tuple[DpEvent, int]], delta: float) -> float:
    if not charged:
        return 0.0
    if delta == 0.0:
        return math.fsum(count * _largest(leaf) for leaf, count in charged)
    if any(getattr(leaf, "noise_multiplier", 1.0) <= 0 for leaf, _ in charged):
        return math.inf
    leaf, count = charged[0]
    if len(charged) == 1 and isinstance(leaf, _BITS):
        return _ternary(Ternary.of(leaf), count, delta)
    if all(isinstance(leaf, GaussianDpEvent) for leaf, _ in charged):
        # Found to 1e-12 by root finding; stay on the upper side.
        return float(get_epsilon_gaussian(_deviation(charged), delta)) + 1e-11
    return _composed(charged, delta)


def _largest(leaf: DpEvent) -> float:
    """The largest privacy loss of one use."""
    if isinstance(leaf, RevealedSamplingDpEvent):
        return _largest(leaf.event) if leaf.sampling_probability > 0 else 0.0
    if isinstance(leaf, _BITS):
        return Ternary.of(leaf).loss
    if isinstance(leaf, LaplaceDpEvent) and leaf.noise_multiplier > 0:
        return float(1.0 / leaf.noise_multiplier)
    return math.inf


def _deviation(gaussians: list[tuple[DpEvent, int]]) -> float:
    """The noise multiplier of the one Gaussian that many Gaussians amount to."""
    return 1.0 / math.sqrt(math.fsum(count / g.noise_multiplier**2 for g, count in gaussians))


def _ternary(pair: Ternary, count: int, delta: float) -> float:
    """Exactly the epsilon of ``count`` uses of one pair with losses +L, 0, -L."""
    if pair.loss == 0.0:
        return 0.0
    if math.isinf(pair.loss):
        revealed = -math.expm1(count * math.log1p(-pair.high)) if pair.high < 1 else 1.0
        return 0.0 if revealed <= delta else math.inf
    if pair.silent > ROUNDING:
        steps = np.array([pair.low, pair.silent, pair.high])
        one = DensePLDPmf(pair.loss, -1, steps, ROUNDING, True)
        return float(one.self_compose(count).get_epsilon_for_delta(delta))
    told = np.arange(count, -1, -1)
    return least_epsilon(
        stats.binom.logpmf(told, count, pair.high), stats.binom.logpmf(told, count, pair.low), delta
    )


def _composed(charged: list[tuple[DpEvent, int]], delta: float) -> float:
    """Compose unlike leaves on one grid, fine enough for the narrowest, small enough for all."""
    spread = math.sqrt(math.fsum(n * _spread(leaf) ** 2 for leaf, n in charged))
    widest = max(min(_largest(leaf), 40.0 * _spread(leaf)) for leaf, _ in charged)
    step = max(_STEP, widest / 2e5, spread / 1e5)
    gaussians = [(leaf, n) for leaf, n in charged if isinstance(leaf, GaussianDpEvent)]
    total: Any = None
    if gaussians:
        total = privacy_loss_distribution.from_gaussian_mechanism(
            _deviation(gaussians), value_discretization_interval=step
        )
    for leaf, count in charged:
        if not isinstance(leaf, GaussianDpEvent):
            part = _one_use(leaf, step).self_compose(count)
            total = part if total is None else total.compose(part)
    return float(total.get_epsilon_for_delta(delta))


def _spread(leaf: DpEvent) -> float:
    """About the standard deviation of the loss of one use: it sets the grid, not the bound."""
    if isinstance(leaf, _BITS):
        pair = Ternary.of(leaf)
        told = pair.high + pair.low
        return min(pair.loss, 40.0) * math.sqrt(max(0.0, told - (pair.high - pair.low) ** 2))
    inner = getattr(leaf, "event", leaf)
    if isinstance(leaf, RevealedSamplingDpEvent):
        return math.sqrt(leaf.sampling_probability) * _spread(inner)
    noise = max(float(getattr(inner, "noise_multiplier", 1.0)), 1e-3)
    return min(1.0 / noise, 2.0) if isinstance(inner, LaplaceDpEvent) else 1.0 / noise


def _one_use(leaf: DpEvent, step: float) -> PrivacyLossDistribution:
    if isinstance(leaf, _BITS):
        pair = Ternary.of(leaf)
        if math.isinf(pair.loss):
            infinite, mass, loss = pair.high, [pair.silent], [0.0]
        else:
            infinite, mass = 0.0, [pair.high, pair.silent, pair.low]
            loss = [pair.loss, 0.0, -pair.loss]
        return PrivacyLossDistribution(
            on_grid(np.array(mass), np.array(loss), infinite + ROUNDING, step)
        )
    if isinstance(leaf, LaplaceDpEvent):
        return privacy_loss_distribution.from_laplace_mechanism(
            leaf.noise_multiplier, value_discretization_interval=step
        )
    if isinstance(leaf, GaussianDpEvent):
        return privacy_loss_distribution.from_gaussian_mechanism(
            leaf.noise_multiplier, value_discretization_interval=step
        )
    inner, rate = leaf.event, leaf.sampling_probability
    if isinstance(leaf, RevealedSamplingDpEvent):
        nothing = privacy_loss_distribution.identity(step)
        if getattr(inner, "noise_multiplier", 1.0) <= 0:
            told = on_grid(np.array([1.0 - rate]), np.zeros(1), rate, step)
            return PrivacyLossDistribution(told)
        return _one_use(inner, step).compute_mixture(nothing, rate)
    if isinstance(inner, GaussianDpEvent) and inner.noise_multiplier > 0:
        return privacy_loss_distribution.from_gaussian_mechanism(
            inner.noise_multiplier, sampling_prob=rate, value_discretization_interval=step
        )
    if isinstance(inner, LaplaceDpEvent) and inner.noise_multiplier > 0:
        return privacy_loss_distribution.from_laplace_mechanism(
            inner.noise_multiplier, sampling_prob=rate, value_discretization_interval=step
        )
    raise InputError(f"Expected Gaussian or Laplace noise to be sampled, got {inner}.")
