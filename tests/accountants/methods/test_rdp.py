"""The Rényi accountant at the ends of the doubles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
)
from scipy import integrate, stats

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.methods import accounting_methods
from fedrec_auditor.accountants.methods.accounting_methods import Rdp
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-8, 1e-4, 0.5, 5.0, 36.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6])
def test_no_divergence_is_rounded_away(epsilon: float, delta: float) -> None:
    flip = BitFlip.symmetric(epsilon)
    shown = exact_lower_bound(flip, ONE_REPORT, delta).epsilon
    owed = Rdp().bound(flip.event(), delta=delta, scope=ONE_REPORT).epsilon
    assert owed >= shown
    assert owed <= shown + 1e-3


def test_a_curve_is_computed_once_for_all_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    event = SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(1.25))
    scope = Scope(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE,
        vantage=Vantage.RELEASE,
        horizon=Horizon.TRAINING,
    )
    first = Rdp().bound(event, delta=1e-6, scope=scope).epsilon
    monkeypatch.setattr(accounting_methods, "fixed_size_gaussian", None)
    assert Rdp().bound(event, delta=1e-4, scope=scope).epsilon < first
    assert Rdp().bound(event, delta=1e-6, scope=scope).epsilon == first


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (PoissonSampledDpEvent(0.01, GaussianDpEvent(0.9)), Adjacency.ADD_REMOVE),
        (PoissonSampledDpEvent(1e-3, GaussianDpEvent(50.0)), Adjacency.ADD_REMOVE),
        (PoissonSampledDpEvent(0.3, GaussianDpEvent(0.01)), Adjacency.ADD_REMOVE),
        (SampledWithoutReplacementDpEvent(943, 30, GaussianDpEvent(1.1)), Adjacency.REPLACE),
        (SampledWithoutReplacementDpEvent(943, 30, LaplaceDpEvent(1.1)), Adjacency.REPLACE),
        (SampledWithoutReplacementDpEvent(10**9, 1, GaussianDpEvent(1e-9)), Adjacency.REPLACE),
    ],
)
def test_a_bound_is_found_and_nothing_is_said_aside(
    event: DpEvent, adjacency: Adjacency, capfd: pytest.CaptureFixture[str]
) -> None:
    scope = Scope(
        unit=Unit.USER, adjacency=adjacency, vantage=Vantage.RELEASE, horizon=Horizon.TRAINING
    )
    assert Rdp().bound(event, delta=1e-6, scope=scope).epsilon > 0
    assert capfd.readouterr().err == ""


def moment(log_density: Callable[[float], float], order: float) -> float:
    """E_Q[(P/Q)^order] for noise of this density around 1 and around 0, by quadrature."""

    def weighted(x: float) -> float:
        return math.exp(order * log_density(x - 1.0) + (1.0 - order) * log_density(x))

    ends = [-120.0, 0.0, 1.0, order, 120.0]
    return sum(
        integrate.quad(weighted, low, high, limit=200, epsrel=1e-11)[0]
        for low, high in itertools.pairwise(ends)
    )


def masses(order: float, *chances: tuple[float, float]) -> float:
    """E_Q[(P/Q)^order] over outputs, in the order of the two inputs that has more."""
    return max(
        sum(p**order * q ** (1 - order) for p, q in each)
        for each in (chances, [(q, p) for p, q in chances])
    )


@pytest.mark.parametrize("order", [1.001, 1.3, 2.0, 7.5, 15.0])
def test_curves_are_the_integrals_that_they_stand_for(order: float) -> None:
    """Tight: neither above nor below the moment of the worst pair, one use of each kind."""
    truth = 1 / (1 + math.exp(-1.2))
    seen = {
        LaplaceDpEvent(0.8): moment(stats.laplace(scale=0.8).logpdf, order),
        LaplaceDpEvent(3.0): moment(stats.laplace(scale=3.0).logpdf, order),
        GaussianDpEvent(1.3): moment(stats.norm(scale=1.3).logpdf, order),
        RandomizedResponseDpEvent(0.4, 4): masses(order, (0.7, 0.1), (0.1, 0.7), (0.2, 0.2)),
        PureDpEvent(1.2): masses(order, (truth, 1 - truth), (1 - truth, truth)),
        BitFlipDpEvent(0.6, 0.4): masses(order, (0.6, 0.4), (0.4, 0.6)),
    }
    seen[RevealedSamplingDpEvent(0.1, LaplaceDpEvent(0.8))] = 0.9 + 0.1 * seen[LaplaceDpEvent(0.8)]
    for event, expected in seen.items():
        found = accounting_methods._at(event, np.array([order]))[0]
        assert found == pytest.approx(math.log(expected) / (order - 1), rel=1e-6), event
