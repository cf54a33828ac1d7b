"""Tests of sampling that the adversary sees, against its closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)
from scipy import optimize, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency
from tests.contracts.events import SCOPE

DELTA = 1e-5


def epsilon(event: DpEvent, delta: float = DELTA) -> float:
    return Pld().bound(event, delta=delta, scope=SCOPE).epsilon


def mixture_of_gaussians(rate: float, uses: int, noise: float, delta: float) -> float:
    """Epsilon at which the mean over K ~ Binomial(n, q) of the curve of K Gaussians is delta."""
    k = np.arange(1, uses + 1)
    weight, mu = stats.binom.pmf(k, uses, rate), np.sqrt(k) / noise

    def excess(eps: float) -> float:
        normal = stats.norm
        log_q = eps + normal.logcdf(-mu / 2 - eps / mu)
        return float(weight @ (normal.cdf(mu / 2 - eps / mu) - np.exp(log_q))) - delta

    return float(optimize.brentq(excess, 0, 1e4, xtol=1e-12)) if excess(0) > 0 else 0.0


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize(
    ("rate", "uses", "noise"), [(0.01, 1000, 1.41), (0.5, 7, 3.0), (0.001, 50, 0.5), (1.0, 30, 5.0)]
)
def test_gaussians_equal_their_closed_form(
    rate: float, uses: int, noise: float, delta: float
) -> None:
    event = SelfComposedDpEvent(RevealedSamplingDpEvent(rate, GaussianDpEvent(noise)), uses)
    truth = mixture_of_gaussians(rate, uses, noise, delta)
    tight = epsilon(event, delta)
    assert truth - 1e-9 <= tight <= truth * 1.001 + 1e-4


def test_revealed_sampling_gives_14_where_hidden_gives_1() -> None:
    """Federated MF paper at eta = 0.01 and T T' = 1000: claimed 1, exact 14.45."""
    rate, uses = 0.01, 1000
    hiding = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)

    def hidden(noise: float) -> float:
        event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), uses)
        return Pld().bound(event, delta=DELTA, scope=hiding).epsilon

    noise = float(optimize.brentq(lambda z: hidden(z) - 1.0, 1.3, 1.5, xtol=1e-4))
    event = SelfComposedDpEvent(RevealedSamplingDpEvent(rate, GaussianDpEvent(noise)), uses)
    assert epsilon(event) == pytest.approx(14.45, abs=0.01)


INNER: tuple[DpEvent, ...] = (
    GaussianDpEvent(2.0),
    LaplaceDpEvent(1.0),
    PureDpEvent(0.7),
    BitFlipDpEvent(0.9, 0.3),
)


@pytest.mark.parametrize("inner", INNER, ids=str)
def test_rates_1_and_0_give_the_event_and_nothing(inner: DpEvent) -> None:
    always = epsilon(RevealedSamplingDpEvent(1.0, inner))
    assert always == pytest.approx(epsilon(inner), rel=1e-3, abs=1e-3)
    assert epsilon(RevealedSamplingDpEvent(0.0, inner)) == pytest.approx(0, abs=1e-2)
    half = epsilon(RevealedSamplingDpEvent(0.5, inner), 0.01)
    assert 0 < half <= epsilon(inner, 0.01)


def test_bits_equal_the_enumerated_mixture() -> None:
    """The reference enumerates every outcome of four uses, each omitted or revealed."""
    rate, p, q, uses = 0.4, 0.8, 0.2, 4
    one = np.array([(1 - rate), rate * p, rate * (1 - p)])
    other = np.array([(1 - rate), rate * q, rate * (1 - q)])
    law, twin = np.ones(1), np.ones(1)
    for _ in range(uses):
        law, twin = np.outer(law, one).ravel(), np.outer(twin, other).ravel()
    event = SelfComposedDpEvent(RevealedSamplingDpEvent(rate, BitFlipDpEvent(p, q)), uses)
    for delta in (1e-3, 0.05, 0.3):
        found = epsilon(event, delta)
        leaked = np.maximum(law - math.exp(found) * twin, 0).sum()
        assert leaked <= delta + 1e-9
        assert np.maximum(law - math.exp(found - 1e-3) * twin, 0).sum() >= delta - 1e-9


def test_without_noise_the_leak_has_the_sampling_rate() -> None:
    event = RevealedSamplingDpEvent(0.1, GaussianDpEvent(0.0))
    assert math.isinf(epsilon(event, 0.09))
    assert epsilon(event, 0.11) == 0


@pytest.mark.parametrize("rate", [1 / 6, 0.1, 1 / 3])
def test_a_full_leak_needs_its_probability_as_delta(rate: float) -> None:
    event = RevealedSamplingDpEvent(rate, RandomizedResponseDpEvent(0.0, 2))
    assert epsilon(event, rate) == 0.0
    assert math.isinf(epsilon(event, rate * (1 - 1e-12)))
    leak = 1.0 - (1.0 - rate) ** 3
    thrice = SelfComposedDpEvent(event, 3)
    assert epsilon(thrice, leak * (1 + 1e-12)) == 0.0
    assert math.isinf(epsilon(thrice, leak * (1 - 1e-12)))
    always = RevealedSamplingDpEvent(1.0, RandomizedResponseDpEvent(0.0, 2))
    assert math.isinf(epsilon(SelfComposedDpEvent(always, 2), 0.9))


def test_unsupported_inner_events_are_refused_by_name() -> None:
    event = RevealedSamplingDpEvent(
        0.5, ComposedDpEvent([GaussianDpEvent(1.0), LaplaceDpEvent(1.0)])
    )
    assert not Pld().supports(event)
    with pytest.raises(InputError, match="ComposedDpEvent"):
        epsilon(event)
