"""Tests of attained epsilons: against draws of the losses, and below the proved ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.theorems.neighbours import (
    compute_attained_epsilon,
    compute_lower_shuffle_epsilon,
    list_attainment_assumptions,
)
from fedrec_auditor.auditor.judging.accounting import list_accountants
from tests.contracts.events import DELTAS, PRESENCE, SAMPLED, USES

# Events whose proved epsilon is larger than the attained one.
LOOSE = {"fixed size", "shuffled", "shuffled bits", "flip", "five buckets"}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("delta", DELTAS)
def test_attained_epsilons_are_not_above_proofs(name: str, count: int, delta: float) -> None:
    use = USES[name]
    event = SelfComposedDpEvent(use.event, count)
    attained = compute_attained_epsilon(event, delta)
    proofs = [
        accountant.bound(event, delta=delta, scope=use.scope).epsilon
        for accountant in list_accountants()
        if accountant.supports(event)
    ]
    least = min(proofs)
    assert attained <= least * (1 + 1e-9) + 1e-9
    if name not in LOOSE and name != "zcdp":
        assert attained == pytest.approx(least, rel=5e-3, abs=1e-4)


@pytest.mark.parametrize("name", SAMPLED)
def test_draws_of_losses_confirm_attained_epsilons(name: str) -> None:
    """The divergence at slightly less than the epsilon, by 400,000 draws, exceeds delta."""
    sampled, delta = SAMPLED[name], 0.02
    epsilon = compute_attained_epsilon(sampled.event, delta)
    assert epsilon > 0
    rng = np.random.default_rng(0)
    best = -math.inf
    for draw in sampled.losses:
        spent = -np.expm1(np.minimum(0.99 * epsilon - draw(rng, 400_000), 0.0))
        best = max(best, float(spent.mean() + 4 * spent.std() / math.sqrt(len(spent))))
    assert best >= delta


@pytest.mark.parametrize(
    ("event", "delta", "known"),
    [
        (SelfComposedDpEvent(GaussianDpEvent(10.0), 100), 1e-5, 4.377178095681225),
        (SelfComposedDpEvent(PureDpEvent(0.5), 20), 0.0, 10.0),
        (GaussianDpEvent(1.0), 0.0, math.inf),
        (GaussianDpEvent(math.inf), 0.0, 0.0),
        (PoissonSampledDpEvent(0.0, GaussianDpEvent(1.0)), 1e-5, 0.0),
        (PoissonSampledDpEvent(0.0, GaussianDpEvent(1.0)), 0.0, 0.0),
        (ComposedDpEvent([]), 1e-5, 0.0),
        (ComposedDpEvent([NonPrivateDpEvent(), GaussianDpEvent(1.0)]), 0.5, math.inf),
        (BitFlipDpEvent(1.0, 0.4), 0.0, math.inf),
        (ShuffledDpEvent(2.0, 50), 0.0, 2.0),
        (ZCDpEvent(3.0), 1e-5, 0.0),
    ],
    ids=str,
)
def test_known_epsilons(event: DpEvent, delta: float, known: float) -> None:
    assert compute_attained_epsilon(event, delta) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("noise", [1e-6, 1e-8, 1e-160, 1e-300])
@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize("kind", [GaussianDpEvent, LaplaceDpEvent])
def test_tiny_noise_attains_no_more_than_is_proved(
    noise: float, rate: float, kind: type[DpEvent]
) -> None:
    event = kind(noise) if rate == 1 else PoissonSampledDpEvent(rate, kind(noise))
    shown = compute_attained_epsilon(SelfComposedDpEvent(event, 10), 1e-6)
    proved = Pld().bound(SelfComposedDpEvent(event, 10), delta=1e-6, scope=PRESENCE).epsilon
    assert 1e6 < shown <= proved


def test_shuffled_laplace_reports_reveal_their_sign() -> None:
    """The sign of a report is a bit flipped with probability e^(-1/b)/2, which reveals less."""
    flipped = math.exp(-1.0) / 2.0
    own = math.log((1.0 - flipped) / flipped)
    assert own < 2.0
    assert compute_lower_shuffle_epsilon(flipped, flipped, 500, 3, 0.0) == pytest.approx(3 * own)
    assert compute_lower_shuffle_epsilon(flipped, flipped, 500, 3, 1e-6) == pytest.approx(
        compute_attained_epsilon(SelfComposedDpEvent(ShuffledDpEvent(own, 500), 3), 1e-6), rel=1e-9
    )


def test_assumptions_of_attained_epsilons() -> None:
    assert list_attainment_assumptions(GaussianDpEvent(1.0)) == ()
    assert list_attainment_assumptions(ComposedDpEvent([ZCDpEvent(1.0), PureDpEvent(1.0)])) == (
        "the leakage of ZCDpEvent is left out",
        "PureDpEvent stands for randomized response on a bit",
    )


def test_invalid_input_is_refused() -> None:
    with pytest.raises(InputError, match="noise_multiplier=-1"):
        compute_attained_epsilon(GaussianDpEvent(-1.0), 1e-5)
    with pytest.raises(InputError, match="delta=1"):
        compute_attained_epsilon(GaussianDpEvent(1.0), 1.0)
