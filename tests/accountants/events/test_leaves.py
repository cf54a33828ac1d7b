from __future__ import annotations

import math
from functools import partial

import attr
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    RevealedSamplingDpEvent,
    ShuffledDpEvent,
    list_leaves,
)

LAPLACE = LaplaceDpEvent(1.5)
FIXED = partial(SampledWithoutReplacementDpEvent, 100, 10)
LEAVES = st.sampled_from(
    [
        BitFlipDpEvent(0.9, 0.2),
        BitFlipDpEvent(0.9, 0.3),
        GaussianDpEvent(0.9),
        PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)),
        NoOpDpEvent(),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(ComposedDpEvent),
        st.tuples(inner, st.integers(1, 5)).map(lambda pair: SelfComposedDpEvent(*pair)),
    ),
    max_leaves=12,
)


def list_uses(event: DpEvent) -> list[DpEvent]:
    """All uses of mechanisms in an event, one entry per use."""
    if isinstance(event, NoOpDpEvent):
        return []
    if isinstance(event, SelfComposedDpEvent):
        return list_uses(event.event) * event.count
    if isinstance(event, ComposedDpEvent):
        return [leaf for part in event.events for leaf in list_uses(part)]
    return [event]


@given(TREES)
def test_counts_of_leaves_equal_those_of_uses(event: DpEvent) -> None:
    uses = list_uses(event)
    found = list_leaves(event)
    assert sum(count for _, count in found) == len(uses)
    for leaf, count in found:
        assert sum(type(use) is type(leaf) and use == leaf for use in uses) == count


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="sampling_probability"):
        RevealedSamplingDpEvent(rate, GaussianDpEvent(1.0))


@pytest.mark.parametrize(
    "event",
    [
        BitFlipDpEvent(0.7, 0.1),
        ShuffledDpEvent(1.0, 10, True),
        RevealedSamplingDpEvent(0.3, BitFlipDpEvent(0.7, 0.1)),
    ],
)
def test_built_in_leaves_are_serialized_by_the_library(event: DpEvent) -> None:
    assert attr.has(type(event))
    assert DpEvent.from_named_tuple(event.to_named_tuple()) == event


def test_gaussians_on_one_sample_are_merged() -> None:
    adaptive = ComposedDpEvent([GaussianDpEvent(3.0), SelfComposedDpEvent(GaussianDpEvent(8.0), 4)])
    ((leaf, count),) = list_leaves(SelfComposedDpEvent(PoissonSampledDpEvent(0.1, adaptive), 7))
    assert count == 7
    assert leaf.event.noise_multiplier == pytest.approx((1 / 9 + 4 / 64) ** -0.5, rel=1e-15)
    twice = PoissonSampledDpEvent(0.5, PoissonSampledDpEvent(0.2, ComposedDpEvent([LAPLACE])))
    assert list_leaves(twice) == [(PoissonSampledDpEvent(0.1, LAPLACE), 1)]
    for noises, joint in (((0.0, 1.0), 0.0), ((math.inf, 2.0), 2.0), ((math.inf,) * 2, math.inf)):
        several = ComposedDpEvent([GaussianDpEvent(z) for z in noises])
        (((_, _), (leaf, _))) = list_leaves(ComposedDpEvent([LAPLACE, FIXED(several)]))
        assert leaf == FIXED(GaussianDpEvent(joint))
    assert list_leaves(PoissonSampledDpEvent(0.1, SelfComposedDpEvent(NoOpDpEvent(), 3))) == []


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_invalid_noise_inside_a_sample_is_refused(wrong: float) -> None:
    several = ComposedDpEvent([GaussianDpEvent(wrong), GaussianDpEvent(1.0)])
    with pytest.raises(InputError, match="noise_multiplier"):
        list_leaves(PoissonSampledDpEvent(0.1, several))


def test_other_compositions_in_a_sample_are_unchanged() -> None:
    for several in (
        SelfComposedDpEvent(LAPLACE, 2),
        ComposedDpEvent([LAPLACE, GaussianDpEvent(1)]),
    ):
        assert list_leaves(PoissonSampledDpEvent(0.1, several)) == [
            (PoissonSampledDpEvent(0.1, several), 1)
        ]
