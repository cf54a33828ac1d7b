"""Tests of reasons of infinite epsilons: there is a reason exactly if an epsilon is infinite."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.losses.pure import explain_infinite_epsilon
from fedrec_auditor.accountants.methods.accounting_methods import Pld, Rdp
from fedrec_auditor.accountants.statements import Adjacency
from tests.contracts.events import SCOPE, USES, scope_of

INFINITE = [
    (ComposedDpEvent([LaplaceDpEvent(1.0), NonPrivateDpEvent()]), 0.1, "without protection"),
    (GaussianDpEvent(1.0), 0.0, "delta 0"),
    (ZCDpEvent(0.1), 0.0, "delta 0"),
    (SelfComposedDpEvent(GaussianDpEvent(0.0), 3), 0.1, "no noise"),
    (LaplaceDpEvent(0.0), 1e-6, "no noise"),
    (PureDpEvent(math.inf), 0.1, "No bound is known"),
    (BitFlipDpEvent(1.0, 0.4), 0.5, "probability 0.6"),
    (SelfComposedDpEvent(BitFlipDpEvent(1.0, 0.4), 2), 0.7, "probability 0.84"),
    (RandomizedResponseDpEvent(0.0, 2), 0.9, "probability 1"),
    (RevealedSamplingDpEvent(0.1, GaussianDpEvent(1.0)), 0.0, "delta 0"),
]
FINITE = [
    (GaussianDpEvent(1.0), 1e-9),
    (BitFlipDpEvent(1.0, 0.4), 0.7),
    (LaplaceDpEvent(1.0), 0.0),
    (PureDpEvent(60.0), 0.0),
    (RevealedSamplingDpEvent(0.0, GaussianDpEvent(1.0)), 0.0),
]


@pytest.mark.parametrize(("event", "delta", "words"), INFINITE, ids=str)
def test_the_reason_names_the_part(event: DpEvent, delta: float, words: str) -> None:
    assert words in explain_infinite_epsilon(event, delta)
    assert "Event" not in explain_infinite_epsilon(event, delta)
    for accountant in (Pld(), Rdp()):
        if accountant.supports(event):
            assert math.isinf(accountant.bound(event, delta=delta, scope=SCOPE).epsilon)


@pytest.mark.parametrize(("event", "delta"), FINITE, ids=str)
def test_finite_epsilons_have_no_reason(event: DpEvent, delta: float) -> None:
    assert explain_infinite_epsilon(event, delta) == ""
    assert math.isfinite(Pld().bound(event, delta=delta, scope=SCOPE).epsilon)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", USES)
def test_infinite_epsilons_of_the_accountant_have_a_reason(name: str, delta: float) -> None:
    event = USES[name].event
    if Pld().supports(event):
        found = Pld().bound(event, delta=delta, scope=scope_of(event)).epsilon
        assert bool(explain_infinite_epsilon(event, delta)) is math.isinf(found)


@pytest.mark.parametrize(
    "drawn", [GaussianDpEvent(0.0), LaplaceDpEvent(0.0), BitFlipDpEvent(1.0, 0.3)], ids=str
)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01])
def test_rare_samples_are_covered_by_delta(drawn: DpEvent, delta: float) -> None:
    """One of a thousand records is sampled: at a delta of 1e-3 or more there is no reason."""
    by_count = SampledWithoutReplacementDpEvent(1000, 1, drawn)
    by_chance = PoissonSampledDpEvent(1e-3, drawn)
    for event, adjacency in (
        (by_count, Adjacency.REPLACE),
        (by_chance, Adjacency.ADD_REMOVE),
        (RevealedSamplingDpEvent(1e-3, drawn), Adjacency.REPLACE),
    ):
        scope = replace(SCOPE, adjacency=adjacency)
        found = Pld().bound(event, delta=delta, scope=scope).epsilon
        assert bool(explain_infinite_epsilon(event, delta)) is math.isinf(found)
