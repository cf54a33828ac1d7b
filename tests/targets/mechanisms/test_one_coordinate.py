from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.targets.mechanisms.parts.uses import LARGEST
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate


def printed(value: float, epsilon: float) -> float:
    """Algorithm 1, line 5, as printed."""
    e = math.exp(epsilon)
    return (value * (e - 1) + e + 1) / (2 * e + 2)


@given(st.just(0.0) | st.floats(1e-9, 20), st.floats(-1, 1))
def test_the_law_is_the_printed_one(epsilon: float, value: float) -> None:
    law = np.exp(OneCoordinate(epsilon, 1).log_prob([[0, 1], [0, 0]], [value]))
    assert law[0] == pytest.approx(printed(value, epsilon), rel=1e-9, abs=1e-12)
    assert law.sum() == pytest.approx(1.0)


@given(st.floats(0.1, 300))
def test_the_worst_ratio_is_epsilon_however_large(epsilon: float) -> None:
    """The printed formula cancels to 0 at value -1 and epsilon above 37; the mixture does not."""
    high, low = OneCoordinate(epsilon, 1).log_prob([0, 1], [[1.0], [-1.0]])
    assert high - low == pytest.approx(epsilon, rel=1e-9)


def test_without_the_projection_the_formula_is_no_probability() -> None:
    epsilon = 1.0
    limit = (math.e + 1) / (math.e - 1)
    assert printed(limit, epsilon) == pytest.approx(1.0)
    assert printed(limit + 0.01, epsilon) > 1
    mechanism = OneCoordinate(epsilon, 2)
    assert mechanism.randomize(mechanism.project([3.0, -7.0]), np.random.default_rng()).shape == (
        2,
    )
    np.testing.assert_array_equal(mechanism.project([3.0, -7.0]), [1.0, -1.0])


def test_the_servers_estimate_is_unbiased_by_its_law() -> None:
    """Sum over all outputs of probability times what the server reads is the vector itself."""
    mechanism, vector = OneCoordinate(1.3, 4), np.array([0.5, -1.0, 0.0, 0.75])
    mean = np.zeros(4)
    for coordinate in range(4):
        for bit, sign in ((1, 1.0), (0, -1.0)):
            weight = np.exp(mechanism.log_prob([coordinate, bit], vector))
            mean[coordinate] += weight * sign * mechanism.magnitude
    np.testing.assert_allclose(mean, vector, atol=1e-12)


def test_drawing_coordinates_first_is_the_same_mechanism() -> None:
    mechanism, vector = OneCoordinate(0.7, 5), np.linspace(-1, 1, 5)
    whole = mechanism.randomize(vector, np.random.default_rng(3), (1000,))
    rng = np.random.default_rng(3)
    index = mechanism.coordinates(rng, (1000,))
    bits = mechanism.bits(vector[index], rng)
    np.testing.assert_array_equal(whole, np.stack([index, bits], axis=-1))


def test_no_epsilon_tells_nothing_and_its_estimate_is_infinite() -> None:
    mechanism = OneCoordinate(0.0, 3)
    assert math.isinf(mechanism.magnitude)
    ones, minus = np.ones(3), -np.ones(3)
    assert mechanism.log_prob([1, 1], ones) == mechanism.log_prob([1, 1], minus)


@pytest.mark.parametrize("corner", [-1.0, 1.0])
@pytest.mark.parametrize("epsilon", [36.5, 40.0, 100.0])
def test_either_bit_may_come_from_either_corner_however_large_epsilon(
    epsilon: float, corner: float
) -> None:
    class Extremes:
        """The smallest and the largest double that a generator draws."""

        def random(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.broadcast_to([0.0, 1.0 - 2.0**-53], shape)

    drawn = OneCoordinate(epsilon, 1).bits(np.full(2, corner), Extremes())
    assert set(drawn.tolist()) == {False, True}


@pytest.mark.parametrize("output", [[3, 1], [-1, 0], [0, 2], [1, -1]])
def test_what_cannot_be_sent_has_no_probability(output: list[int]) -> None:
    assert np.isneginf(OneCoordinate(1.0, 3).log_prob(output, np.zeros(3)))


def test_the_largest_epsilon_keeps_every_bit_possible() -> None:
    """Beyond it the rarer bit's rate was 0 as a double, and an honest mechanism was accused."""
    law = OneCoordinate(LARGEST, 1).log_prob([[0, 1], [0, 0]], [1.0])
    assert law[0] - law[1] == pytest.approx(LARGEST, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.5, 40.0, 700.0])
def test_bits_of_given_draws_are_a_corner_and_its_flip(epsilon: float) -> None:
    """Every combination of extreme and middling draws against the two comparisons."""
    draws = np.array([0.0, 2.0**-53, 0.25, 0.5, 0.75, 1 - 2.0**-53])
    for value in (-1.0, -0.3, 0.0, 1.0):
        found = OneCoordinate(epsilon, 3).bits_at(
            np.full((6, 6), value), flip=draws[:, None], corner=draws
        )
        for i, flip in enumerate(draws):
            for j, corner in enumerate(draws):
                up = corner < (1 + value) / 2
                assert found[i, j] == (up != (flip < 1 / (1 + math.exp(epsilon))))


def test_coordinates_of_given_draws_cover_the_vector_evenly() -> None:
    for dimension in (1, 2, 7, 8410, 2**40 + 1):
        mechanism = OneCoordinate(1.0, dimension)
        ends = mechanism.coordinates_at(np.array([0.0, 1 - 2.0**-53]))
        assert ends[0] == 0
        assert ends[1] < dimension
    even = OneCoordinate(1.0, 7).coordinates_at((np.arange(70_000) + 0.5) / 70_000)
    assert (np.bincount(even) == 10_000).all()
