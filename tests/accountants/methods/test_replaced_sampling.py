"""Tests of Poisson samples with one record replaced: the pair and its proof."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.privacy_accountant import NeighboringRelation

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ReplacedSamplingDpEvent
from fedrec_auditor.accountants.losses.pairs import ReplaceOneGaussianPair
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency
from fedrec_auditor.accountants.theorems.conversions import GroupPrivacyRule
from fedrec_auditor.accountants.theorems.neighbours import compute_attained_epsilon
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope

REPLACED = make_claim_scope("user", adjacency=Adjacency.REPLACE)


def compute_epsilon(rate: float, z: float, count: int, delta: float) -> float:
    event = SelfComposedDpEvent(ReplacedSamplingDpEvent(rate, GaussianDpEvent(z)), count)
    return Pld().bound(event, delta=delta, scope=REPLACED).epsilon


@pytest.mark.parametrize(("rate", "z", "count"), [(0.01, 1.2, 500), (0.3, 5.0, 40), (1.0, 4.0, 9)])
def test_the_library_has_the_same_pair(rate: float, z: float, count: int) -> None:
    other = library.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
        value_discretization_interval=1e-4,
    ).self_compose(count)
    for delta in (1e-8, 1e-5, 1e-2):
        found = compute_epsilon(rate, z, count, delta)
        assert found == pytest.approx(other.get_epsilon_for_delta(delta), rel=2e-3)


def test_two_removals_bound_a_replacement() -> None:
    """A replacement is a removal and an addition; group privacy gives a larger epsilon."""
    for rate, z, count in ((0.01, 1.2, 500), (0.3, 5.0, 40)):
        event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), count)
        once = Pld().bound(event, delta=1e-5, scope=make_claim_scope("user")).epsilon
        far, delta = GroupPrivacyRule(2).convert_to_whole(once, 1e-5)
        assert once < compute_epsilon(rate, z, count, delta) < far


@pytest.mark.parametrize("mu", [0.4, 2.5])
@pytest.mark.parametrize("rate", [0.02, 0.4])
def test_opposite_records_are_the_worst_pair(mu: float, rate: float) -> None:
    """The records x and x' are anywhere in the disc of radius mu; a grid is summed."""
    edges = np.concatenate([[-np.inf], np.linspace(-12, 12, 240_001), [np.inf]])
    p, q = (np.exp(part) for part in ReplaceOneGaussianPair(mu, rate).bin_losses(edges))
    assert (p.sum(), q.sum()) == (pytest.approx(1), pytest.approx(1))
    axis = np.linspace(-mu - 7, mu + 7, 700)
    cell = (axis[1] - axis[0]) ** 2 / (2 * math.pi)
    first, second = np.meshgrid(axis, axis, sparse=True)

    def density(x: np.ndarray) -> np.ndarray:
        one = np.exp(-((first - x[0]) ** 2 + (second - x[1]) ** 2) / 2)
        return ((1 - rate) * np.exp(-(first**2 + second**2) / 2) + rate * one) * cell

    rng = np.random.default_rng(0)
    angles, lengths = rng.uniform(0, 2 * math.pi, (12, 2)), mu * rng.choice([0.5, 1.0], (12, 2))
    points = lengths[..., None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    opposite = np.array([[[mu, 0.0], [-mu, 0.0]]])
    for number, (x, other) in enumerate(np.concatenate([opposite, points])):
        here, there = density(x), density(other)
        for t in (0.5, 0.9, 1.0, 1.1, 1.5, 4.0):
            reached = np.maximum(here - t * there, 0).sum()
            most = np.maximum(p - t * q, 0).sum()
            assert reached <= most + 1e-5  # error of the grid
            if number == 0:
                assert reached == pytest.approx(most, abs=1e-5)


def test_the_event_needs_replace_adjacency() -> None:
    event = ReplacedSamplingDpEvent(0.1, GaussianDpEvent(2.0))
    with pytest.raises(InputError, match="replace adjacency"):
        Pld().bound(event, delta=1e-5, scope=make_claim_scope("user"))
    assert math.isinf(compute_epsilon(0.1, 0.0, 1, 0.05))
    assert compute_epsilon(0.1, 0.0, 1, 0.11) == compute_epsilon(0.1, 1e-9, 1, 0.11) == 0.0
    assert compute_epsilon(0.1, math.inf, 10, 1e-5) == 0.0


@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 1e4])
@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.6, 1.0])
def test_laplace_noise_has_the_largest_ratio_of_two_densities(scale: float, rate: float) -> None:
    """The records are in [-1, 1], and outputs on a grid; group privacy would give twice the
    epsilon.
    """
    x = np.linspace(-1, 1, 41)
    outputs = np.linspace(-3, 3, 601)[:, None]
    with np.errstate(divide="ignore"):
        away, drawn = np.log1p(-rate), np.log(rate)
    logs = np.logaddexp(away - np.abs(outputs) / scale, drawn - np.abs(outputs - x) / scale)
    reached = float((logs.max(axis=1) - logs.min(axis=1)).max())
    event = SelfComposedDpEvent(ReplacedSamplingDpEvent(rate, LaplaceDpEvent(scale)), 3)
    found = Pld().bound(event, delta=0.0, scope=REPLACED).epsilon
    assert found == pytest.approx(3 * reached, rel=1e-6)
    once = SelfComposedDpEvent(PoissonSampledDpEvent(rate, LaplaceDpEvent(scale)), 3)
    present = Pld().bound(once, delta=0.0, scope=make_claim_scope("user")).epsilon
    assert present <= found <= 2 * present * (1 + 1e-12)
    assert compute_attained_epsilon(event, 0.0) == pytest.approx(found)
    assert compute_attained_epsilon(event, 0.0) <= found


@pytest.mark.parametrize(("rate", "scale"), [(0.05, 0.7), (0.6, 2.0)])
def test_laplace_noise_at_delta_covers_opposite_records(rate: float, scale: float) -> None:
    """The reference is the exact divergence of one use, by a sum over a fine grid."""
    outputs, step = np.linspace(-60, 60, 1_200_001, retstep=True)

    def density(x: float) -> np.ndarray:
        away, drawn = (np.exp(-np.abs(outputs - at) / scale) for at in (0.0, x))
        return ((1 - rate) * away + rate * drawn) * step / (2 * scale)

    here, there = density(1.0), density(-1.0)
    event = ReplacedSamplingDpEvent(rate, LaplaceDpEvent(scale))
    for at in (0.01, 0.05, 0.1, 0.3):
        delta = float(np.maximum(here - math.exp(at) * there, 0.0).sum())
        if delta > 1e-9:
            assert Pld().bound(event, delta=delta, scope=REPLACED).epsilon >= at * (1 - 1e-6)
            assert compute_attained_epsilon(event, delta) <= at * (1 + 1e-6)
