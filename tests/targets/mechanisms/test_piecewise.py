"""Piecewise: one number in [-1, 1]."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms import report_mechanisms
from fedrec_auditor.targets.mechanisms.report_mechanisms import Piecewise

INPUTS = np.array([-1.0, -0.4, 0.0, 0.25, 1.0])


def moments(mechanism: Piecewise, value: float) -> tuple[float, float, float]:
    """Total probability, mean and second moment, from log_prob over pieces."""
    half = math.exp(mechanism.epsilon / 2)
    reach = (half + 1) / (half - 1)
    low = ((reach + 1) * value - (reach - 1)) / 2
    ends = np.array([-reach, low, low + reach - 1, reach])
    inside = (ends[1:] + ends[:-1]) / 2
    with np.errstate(invalid="ignore"):
        density = np.where(np.diff(ends) > 1e-9, np.exp(mechanism.log_prob(inside, value)), 0.0)
    return tuple(density @ np.diff(ends ** (n + 1)) / (n + 1) for n in range(3))


def piecewise_variance(epsilon: float, value: float) -> float:
    """Wang et al. 2019, Lemma 1."""
    half = math.exp(epsilon / 2)
    return value**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("value", INPUTS)
def test_the_mean_is_the_input_and_the_variance_the_published_one(
    value: float, epsilon: float
) -> None:
    total, mean, second = moments(Piecewise(epsilon), value)
    published = piecewise_variance(epsilon, value)
    assert total == pytest.approx(1.0, rel=1e-12)
    assert mean == pytest.approx(value, abs=1e-10)
    assert second - mean**2 == pytest.approx(published, rel=1e-9)


@given(st.floats(1e-3, 40), st.lists(st.floats(-1, 1), min_size=2, max_size=2))
def test_the_worst_ratio_is_epsilon_and_no_pair_beats_it(epsilon: float, pair: list[float]) -> None:
    mechanism = Piecewise(epsilon)
    shown = exact_lower_bound(mechanism, SCOPE).epsilon
    assert shown == pytest.approx(epsilon, rel=1e-11)
    drawn = mechanism.randomize(pair, np.random.default_rng(1), (20, 2))
    ratio = mechanism.log_prob(drawn, pair[0]) - mechanism.log_prob(drawn, pair[1])
    assert np.abs(ratio).max() <= shown + 1e-12 * max(1.0, shown)


@given(st.floats(1e-9, 40))
def test_the_numbers_stored_keep_epsilon(epsilon: float) -> None:
    """The ratio of two cells' probabilities, to 100 digits."""
    with localcontext() as context:
        context.prec = 100
        limit = Decimal(epsilon).exp()
        mechanism, cells = Piecewise(epsilon), Decimal(report_mechanisms._CELLS)
        noise = Decimal(mechanism.noise)
        assert 1 + (1 - noise) * cells / (mechanism._near * noise) <= limit


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 7.0])
def test_curves_are_those_of_the_laws_on_the_pieces(epsilon: float) -> None:
    """Summed over fine cells of the line, for the two ends and another pair."""
    mechanism, half = Piecewise(epsilon), math.exp(epsilon / 2)
    reach = (half + 1) / (half - 1)
    # The pieces of -1, 1 and 0.5 between them.
    ends = np.sort(
        [x * (reach + 1) / 2 + s * (reach - 1) / 2 for x in (-1, 0.5, 1) for s in (-1, 1)]
    )
    outputs, sizes = 0.49 * ends[1:] + 0.51 * ends[:-1], np.diff(ends)
    low, other, high = np.exp(mechanism.log_prob(outputs, [[-1.0], [0.5], [1.0]]))
    for limit in (0.0, 0.3 * epsilon, 0.9 * epsilon, epsilon):
        slow = np.maximum(low - math.exp(limit) * high, 0.0) @ sizes
        assert mechanism.delta(limit) == pytest.approx(slow, rel=1e-9, abs=1e-12)
        closer = np.maximum(high - math.exp(limit) * other, 0.0) @ sizes
        assert closer <= slow + 1e-12


def test_the_printed_sampler_reaches_doubles_that_name_the_input_and_ours_does_not() -> None:
    """l(x) + (C - 1) u: nearly every report is one that the other input cannot give."""
    mechanism, rng = Piecewise(1.0), np.random.default_rng(4)
    half = math.exp(0.5)
    reach = (half + 1) / (half - 1)

    def reachable(output: np.ndarray, value: float) -> np.ndarray:
        low = (reach + 1) / 2 * value - (reach - 1) / 2
        u = np.rint((output - low) / (reach - 1) * 2.0**53) * 2.0**-53
        near = u[:, None] + np.arange(-4, 5) * 2.0**-53
        return ((low + (reach - 1) * near) == output[:, None]).any(axis=1)

    low = (reach + 1) / 2 * 0.1 - (reach - 1) / 2
    naive = low + (reach - 1) * rng.random(10_000)
    naive = naive[naive > (reach + 1) / 2 * 0.13 - (reach - 1) / 2]
    assert reachable(naive, 0.1).all()
    assert not reachable(naive, 0.13).all()
    drawn = mechanism.randomize([0.1, 0.13], rng, (10_000, 2))
    cells = np.rint(
        (drawn / mechanism.magnitude * report_mechanisms._CELLS + report_mechanisms._CELLS - 1) / 2
    )
    np.testing.assert_array_equal(mechanism._middle(cells), drawn)
    assert np.isfinite(mechanism.log_prob(drawn[:, 0], 0.13)).all()


def test_what_cannot_be_reported_has_no_probability() -> None:
    assert np.isneginf(Piecewise(1.0).log_prob([-9.0, 9.0], 0.5)).all()
