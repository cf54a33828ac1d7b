"""Tests of the event of an adjacency, for one record or several."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.events.leaves import (
    ReplacedSamplingDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency
from fedrec_auditor.accountants.theorems.neighbours import (
    compute_attained_epsilon,
    convert_event,
    make_group_event,
)
from tests.contracts.events import PRESENCE, REPLACED

GAUSSIAN, LAPLACE = GaussianDpEvent(2.0), LaplaceDpEvent(3.0)
RESPONSE = RandomizedResponseDpEvent(0.5, 3)
SAMPLED = PoissonSampledDpEvent(0.1, GAUSSIAN)
FIXED = SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN)
MIXTURE = MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5))


@pytest.mark.parametrize(
    ("event", "present", "replaced"),
    [
        (GAUSSIAN, GAUSSIAN, GaussianDpEvent(1.0)),
        (LAPLACE, LAPLACE, LaplaceDpEvent(1.5)),
        (RESPONSE, RESPONSE, RESPONSE),
        (SAMPLED, SAMPLED, ReplacedSamplingDpEvent(0.1, GAUSSIAN)),
        (
            PoissonSampledDpEvent(0.1, LAPLACE),
            PoissonSampledDpEvent(0.1, LAPLACE),
            ReplacedSamplingDpEvent(0.1, LAPLACE),
        ),
        (PoissonSampledDpEvent(0.1, RESPONSE), PoissonSampledDpEvent(0.1, RESPONSE), None),
        (PoissonSampledDpEvent(1.0, LAPLACE), PoissonSampledDpEvent(1.0, LAPLACE), "half"),
        (
            FIXED,
            PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)),
            SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.0)),
        ),
        (ReplacedSamplingDpEvent(0.1, GAUSSIAN), SAMPLED, ReplacedSamplingDpEvent(0.1, GAUSSIAN)),
        (MIXTURE, MIXTURE, None),
        (
            RevealedSamplingDpEvent(0.1, GAUSSIAN),
            RevealedSamplingDpEvent(0.1, GAUSSIAN),
            RevealedSamplingDpEvent(0.1, GaussianDpEvent(1.0)),
        ),
        (
            ComposedDpEvent([SelfComposedDpEvent(GAUSSIAN, 3), RESPONSE]),
            ComposedDpEvent([SelfComposedDpEvent(GAUSSIAN, 3), RESPONSE]),
            ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(1.0), 3), RESPONSE]),
        ),
        (ComposedDpEvent([GAUSSIAN, MIXTURE]), ComposedDpEvent([GAUSSIAN, MIXTURE]), None),
    ],
    ids=str,
)
def test_events_by_adjacency(
    event: DpEvent, present: DpEvent, replaced: DpEvent | str | None
) -> None:
    assert convert_event(event, Adjacency.ADD_REMOVE) == present
    expected = LaplaceDpEvent(1.5) if replaced == "half" else replaced
    assert convert_event(event, Adjacency.REPLACE) == expected


def test_a_group_of_k_shifts_a_sum_k_times_as_far() -> None:
    assert make_group_event(GAUSSIAN, 4) == GaussianDpEvent(0.5)
    assert make_group_event(LAPLACE, 3) == LaplaceDpEvent(1.0)
    assert make_group_event(ComposedDpEvent([GAUSSIAN, SelfComposedDpEvent(LAPLACE, 2)]), 2) == (
        ComposedDpEvent([GaussianDpEvent(1.0), SelfComposedDpEvent(LaplaceDpEvent(1.5), 2)])
    )
    assert make_group_event(FIXED, 2) is None
    assert make_group_event(ComposedDpEvent([GAUSSIAN, FIXED]), 2) is None


def test_a_sampled_group_is_a_mixture_over_drawn_records() -> None:
    event = make_group_event(SAMPLED, 2)
    assert isinstance(event, MixtureOfGaussiansDpEvent)
    assert (event.standard_deviation, event.sensitivities) == (2.0, (0.0, 1.0, 2.0))
    assert event.sampling_probs == pytest.approx((0.81, 0.18, 0.01))


def test_replacement_halves_the_multiplier_as_in_dp_accounting() -> None:
    """In dp-accounting 0.6.0 the PLD accountant halves the multiplier; the RDP one does not."""
    event = convert_event(GaussianDpEvent(1.0), Adjacency.REPLACE)
    exact = Pld().bound(event, delta=1e-5, scope=REPLACED).epsilon
    theirs = {}
    for kind in (PLDAccountant, RdpAccountant):
        other = kind(neighboring_relation=NeighboringRelation.REPLACE_ONE)
        other.compose(GaussianDpEvent(1.0))
        theirs[kind] = other.get_epsilon(1e-5)
    assert theirs[PLDAccountant] == pytest.approx(exact, rel=1e-4)
    assert theirs[RdpAccountant] < 0.5 * compute_attained_epsilon(event, 1e-5)


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE])
def test_two_gaussians_on_one_sample_equal_a_grid(adjacency: Adjacency) -> None:
    """The reference integrates the divergence of two mixtures in the plane, without a reduction."""
    rate, shift = 0.3, np.array([1 / 1.1, 1 / 2.0])
    event = PoissonSampledDpEvent(rate, ComposedDpEvent([GaussianDpEvent(1 / s) for s in shift]))
    axis = np.linspace(-9, 9, 1801)

    def density(towards: float) -> NDArray[np.float64]:
        still, moved = (
            np.multiply.outer(*(stats.norm.pdf(axis - w * s) for s in shift)) for w in (0, towards)
        )
        return (1 - rate) * still + rate * moved

    away = density(-1.0 if adjacency is Adjacency.REPLACE else 0.0)
    known = convert_event(event, adjacency)
    assert known is not None
    scope = REPLACED if adjacency is Adjacency.REPLACE else PRESENCE
    found = Pld().bound(known, delta=1e-3, scope=scope).epsilon
    both = (density(1.0), away), (away, density(1.0))
    deltas = [np.maximum(p - np.exp(found) * q, 0).sum() * 1e-4 for p, q in both]
    assert max(deltas) == pytest.approx(1e-3, rel=2e-3)
