"""Catalogue of claims, 10 to 13: the two queries composed, and told apart by what they release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.accountants.methods.pld import Pld
from fedrec_auditor.auditor.testing.parts.events import SCOPE
from fedrec_auditor.targets.mechanisms.private_average import PrivateAverage
from fedrec_auditor.targets.systems.privrec.parts.adaptive_clipping import (
    AdaptiveClipping,
    joint_multiplier,
)

SPLITS = st.builds(
    AdaptiveClipping,
    multiplier=st.floats(0.2, 8.0),
    balance=st.floats(0.05, 0.95),
    step=st.floats(0.1, 6.0),
)


@pytest.mark.parametrize("multipliers", [(1.0, 1.0), (0.7, 3.0), (2.0, 5.0, 1.1)])
def test_queries_together_are_the_gaussians_composed(multipliers: tuple[float, ...]) -> None:
    """The composition of the accountant is the second route."""
    event = ComposedDpEvent([GaussianDpEvent(z) for z in multipliers])
    composed = Pld().bound(event, delta=1e-6, scope=SCOPE).epsilon
    one = gaussian_epsilon(1e-6, 1 / joint_multiplier(*multipliers))
    assert one == pytest.approx(composed, rel=1e-9)


@given(SPLITS)
def test_the_proof_has_the_inverse_of_what_the_algorithm_has(split: AdaptiveClipping) -> None:
    z, h = split.multiplier, split.balance
    of_the_proof = joint_multiplier(1 / (z * math.sqrt(1 - h)), 1 / (z * math.sqrt(h)))
    assert of_the_proof == pytest.approx(1 / z)
    of_the_scales = joint_multiplier(z / math.sqrt(1 - h), z / math.sqrt(h))
    assert of_the_scales == pytest.approx(z)


def counted_before_clipping(split: AdaptiveClipping) -> float:
    """Line 9's noise after the step, with b computed before clipping: both queries tell."""
    z, h = split.multiplier, split.balance
    return joint_multiplier(split.as_printed, 2 * z / math.sqrt(h))


@given(SPLITS)
def test_the_repaired_round_keeps_the_multiplier_and_the_printed_one_need_not(
    split: AdaptiveClipping,
) -> None:
    z, h = split.multiplier, split.balance
    assert split.repaired >= z * (1 - 1e-12)
    assert (split.as_printed < z) is (split.step * math.sqrt(1 - h) > 1)
    assert counted_before_clipping(split) <= split.as_printed


@given(split=SPLITS, counts=st.booleans())
def test_formulas_are_what_two_clients_do_to_the_release(
    split: AdaptiveClipping, counts: bool
) -> None:
    """Two opposite updates, one of them beyond S, through clipping, averages and noise scales."""

    def worth(step: float) -> float:
        average = PrivateAverage(
            multiplier=split.multiplier,
            clip=3.0,
            batch=7,
            dimension=1,
            balance=split.balance,
            step=step,
            counts_clipped=counts,
        )
        moved = average.center(np.array([3.0])) - average.center(np.array([-9.0]))
        return 1 / float(np.linalg.norm(moved / average.noise_scale))

    printed = split.as_printed if counts else counted_before_clipping(split)
    assert worth(split.step) == pytest.approx(printed)
    if not counts:
        assert worth(1.0) == pytest.approx(split.repaired)


@pytest.mark.parametrize(
    "wrong",
    [{"multiplier": 0.0}, {"balance": 1.0}, {"balance": 0.0}, {"step": -1.0}, {"step": math.nan}],
)
def test_senseless_settings_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        AdaptiveClipping(**wrong)


def test_a_query_without_noise_is_refused() -> None:
    with pytest.raises(InputError, match="above 0"):
        joint_multiplier(1.0, 0.0)
