"""The Rényi accountant at the ends of the doubles."""

from __future__ import annotations

import time

import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)

from fedrec_auditor.accountants.methods import rdp
from fedrec_auditor.accountants.methods.rdp import Rdp
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip


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
    monkeypatch.setattr(rdp, "fixed_size_gaussian", None)
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
def test_a_bound_takes_less_than_a_second_and_says_nothing_aside(
    event: DpEvent, adjacency: Adjacency, capfd: pytest.CaptureFixture[str]
) -> None:
    scope = Scope(
        unit=Unit.USER, adjacency=adjacency, vantage=Vantage.RELEASE, horizon=Horizon.TRAINING
    )
    started = time.process_time()
    assert Rdp().bound(event, delta=1e-6, scope=scope).epsilon > 0
    assert time.process_time() - started < 1.0
    assert capfd.readouterr().err == ""
