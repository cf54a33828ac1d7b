"""Sampling that the adversary sees, against its closed form."""

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
    """E over K ~ Binomial(n, q) of the curve of K Gaussians, solved for epsilon."""
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
def test_gaussians_are_their_closed_form(
    rate: float, uses: int, noise: float, delta: float
) -> None:
    event = SelfComposedDpEvent(RevealedSamplingDpEvent(rate, GaussianDpEvent(noise)), uses)
    truth = mixture_of_gaussians(rate, uses, noise, delta)
    tight = epsilon(event, delta)
    assert truth - 1e-9 <= tight <= truth * 1.001 + 1e-4


def test_where_hidden_sampling_gives_one_the_rating_gets_fourteen() -> None:
    """The federated MF paper at eta = 0.01 and T T' = 1000: claimed 1, true 14.45."""
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
def test_it_is_the_event_at_rate_one_and_nothing_at_rate_zero(inner: DpEvent) -> None:
    always = epsilon(RevealedSamplingDpEvent(1.0, inner))
    assert always == pytest.approx(epsilon(inner), rel=1e-3, abs=1e-3)
    assert epsilon(RevealedSamplingDpEvent(0.0, inner)) == pytest.approx(0, abs=1e-2)
    half = epsilon(RevealedSamplingDpEvent(0.5, inner), 0.01)
    assert 0 < half <= epsilon(inner, 0.01)


def test_bits_are_the_enumerated_mixture() -> None:
    """Every outcome of four uses, each omitted or revealed: the divergence by brute force."""
    rate, p, q, uses = 0.4, 0.8, 0.2, 4
    one = np.array([(1 - rate), rate * p, rate * (1 - p)])
    other = np.array([(1 - rate), rate * q, rate * (1 - q)])
    law, twin = np.ones(1), np.ones(1)
    for _ in range(uses):
        law, twin = np.outer(law, one).ravel(), np.outer(twin, other).ravel()
    event = SelfComposedDpEvent(RevealedSamplingDpEvent(rate, BitFlipDpEvent(p, q)), uses)
    for delta in (1e-3, 0.05, 0.3):
        found = epsilon(event, delta)
        told = np.maximum(law - math.exp(found) * twin, 0).sum()
        assert told <= delta + 1e-9
        assert np.maximum(law - math.exp(found - 1e-3) * twin, 0).sum() >= delta - 1e-9


def test_no_noise_is_told_with_the_rate_of_its_use() -> None:
    event = RevealedSamplingDpEvent(0.1, GaussianDpEvent(0.0))
    assert math.isinf(epsilon(event, 0.09))
    assert epsilon(event, 0.11) == 0


@pytest.mark.parametrize("rate", [1 / 6, 0.1, 1 / 3])
def test_what_tells_all_or_nothing_needs_its_chance_as_delta_and_no_more(rate: float) -> None:
    event = RevealedSamplingDpEvent(rate, RandomizedResponseDpEvent(0.0, 2))
    assert epsilon(event, rate) == 0.0
    assert math.isinf(epsilon(event, rate * (1 - 1e-12)))
    told = 1.0 - (1.0 - rate) ** 3
    thrice = SelfComposedDpEvent(event, 3)
    assert epsilon(thrice, told * (1 + 1e-12)) == 0.0
    assert math.isinf(epsilon(thrice, told * (1 - 1e-12)))
    always = RevealedSamplingDpEvent(1.0, RandomizedResponseDpEvent(0.0, 2))
    assert math.isinf(epsilon(SelfComposedDpEvent(always, 2), 0.9))


def test_what_cannot_be_read_inside_is_refused_by_name() -> None:
    event = RevealedSamplingDpEvent(
        0.5, ComposedDpEvent([GaussianDpEvent(1.0), LaplaceDpEvent(1.0)])
    )
    assert not Pld().supports(event)
    with pytest.raises(InputError, match="ComposedDpEvent"):
        epsilon(event)
