"""Local reports: flipped bits, one coordinate, three values, piecewise."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from dp_accounting import RandomizedResponseDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE as SCOPE
from fedrec_auditor.targets.mechanisms import report_mechanisms
from fedrec_auditor.targets.mechanisms.parts.bases import MAX_EPSILON
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip, OneCoordinate, Piecewise
from fedrec_auditor.targets.streams import Streams

RATES = st.floats(0, 1, allow_subnormal=False)


def compute_epsilon(p: float, q: float) -> float:
    """Largest |ln(P(o | 1)/P(o | 0))| over both outputs o, without 0/0."""
    worst = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a == b:
            continue
        worst = max(worst, math.inf if min(a, b) == 0 else abs(math.log(a / b)))
    return worst


@given(RATES, RATES)
def test_epsilon_is_the_larger_of_both_ratios(p: float, q: float) -> None:
    assert BitFlip(p, q).epsilon == pytest.approx(compute_epsilon(p, q), rel=1e-6, abs=1e-12)


@given(st.floats(0, 60))
def test_the_symmetric_flip_never_exceeds_its_epsilon(epsilon: float) -> None:
    flip = BitFlip.symmetric(epsilon)
    assert flip.p + flip.q == 1.0
    assert flip.epsilon <= epsilon
    if epsilon <= 10:
        assert flip.epsilon == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


def test_one_ratio_within_bounds_does_not_bound_epsilon() -> None:
    """All have p/q = e^eps; only the first two have epsilon eps."""
    epsilon = 1.0
    edge = math.exp(epsilon) / (1 + math.exp(epsilon))
    for p, private in ((0.5, True), (edge, True), (edge + 0.01, False), (1.0, False)):
        flip = BitFlip(p, p * math.exp(-epsilon))
        assert math.log(flip.p / flip.q) == pytest.approx(epsilon)
        assert (flip.epsilon <= epsilon + 1e-9) is private
    assert math.isinf(BitFlip.asymmetric(epsilon).epsilon)
    assert BitFlip.asymmetric(epsilon) == BitFlip(1.0, math.exp(-epsilon))


def test_events_are_the_common_leaf_if_there_is_one() -> None:
    event = BitFlip.symmetric(1.0).event()
    assert isinstance(event, RandomizedResponseDpEvent)
    assert event.noise_parameter == pytest.approx(2 / (1 + math.e))
    assert event.num_buckets == 2
    assert BitFlip(0.8, 0.1).event() == BitFlipDpEvent(0.8, 0.1)
    # A response that lies more often than not reveals as much: its labels are swapped.
    assert BitFlip(0.25, 0.75).event() == BitFlip(0.75, 0.25).event()


@pytest.mark.parametrize("rate", [0.5, 1 / 256, 3 / 256, 1e-3, 1e-6, 1 - 1e-6, 0.7310585786])
def test_ten_million_samples_have_the_rate(rate: float) -> None:
    """Rates below and above a byte's resolution, at which ties decide everything."""
    n = 10_000_000
    ones = BitFlip(rate, 1 - rate).randomize(True, np.random.default_rng(11), (n,)).sum()
    assert stats.binomtest(int(ones), n, rate).pvalue > 1e-9


def test_bits_drawn_one_at_a_time_have_the_rate_too() -> None:
    """At rate 1/512 every 1 comes from a tie."""
    flip, rng = BitFlip(1 / 512, 0.5), np.random.default_rng(16)
    draws = [flip.randomize(1, rng) for _ in range(12_000)]
    assert isinstance(draws[0], np.ndarray)
    assert stats.binomtest(int(np.sum(draws)), len(draws), 1 / 512).pvalue > 1e-9


def test_neighbouring_bits_are_independent() -> None:
    """Eight bits come from one random word: their patterns are those of eight fair coins."""
    bits = BitFlip(0.3, 0.6).randomize(False, np.random.default_rng(12), (100_000, 8))
    codes = np.packbits(bits, axis=1).ravel()
    expected = np.array(
        [0.6 ** bin(c).count("1") * 0.4 ** (8 - bin(c).count("1")) for c in range(256)]
    )
    counts = np.bincount(codes, minlength=256)
    assert stats.chisquare(counts, expected * len(codes)).pvalue > 1e-9


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)])
def test_rates_0_and_1_are_certain(p: float, q: float) -> None:
    """Certain for streams, too."""
    flip, rng = BitFlip(p, q), np.random.default_rng(13)
    streams, ones = Streams.spawn(np.random.default_rng(23), 1000), np.ones((1000, 50), bool)
    for bit, rate in ((1, p), (0, q)):
        assert (flip.randomize(bit, rng, (100_000,)) == (rate == 1)).all()
        assert (flip.flip_by_streams(ones * bool(bit), streams) == (rate == 1)).all()


def test_integers_floats_and_bools_are_the_same_bits() -> None:
    bits = np.random.default_rng(14).integers(0, 2, (30, 40))
    outputs = [
        BitFlip(0.8, 0.3).randomize(bits.astype(kind), np.random.default_rng(15))
        for kind in (bool, np.int8, np.int64, np.float32)
    ]
    assert all(np.array_equal(outputs[0], other) for other in outputs)
    assert outputs[0].dtype == bool


@pytest.mark.parametrize(("p", "q"), [(1.0, 1e-17), (1 - 2**-53, 2e-16), (2e-16, 1 - 2**-53)])
def test_rates_whose_sum_rounds_to_one_are_charged_in_full(p: float, q: float) -> None:
    flip = BitFlip(p, q)
    assert p + q == 1.0
    assert Pure().bound(flip.event(), delta=0.0, scope=SCOPE).epsilon >= flip.epsilon * (1 - 1e-12)


@pytest.mark.parametrize("rate", [0.5, 1 / 256, 3 / 256, 1e-3, 0.7310585786])
@pytest.mark.parametrize("width", [1, 8, 13])
def test_coins_of_many_streams_have_the_rate_at_every_place(rate: float, width: int) -> None:
    """Bytes and ties have the rate at every place of the stream."""
    streams = Streams.spawn(np.random.default_rng(21), 300_000)
    bits = np.arange(width) % 2 == 0
    out = BitFlip(rate, 1 - rate).flip_by_streams(np.broadcast_to(bits, (300_000, width)), streams)
    for place in range(width):
        expected = rate if bits[place] else 1 - rate
        ones = int(out[:, place].sum())
        assert stats.binomtest(ones, 300_000, expected).pvalue > 1e-9


def test_streams_flip_a_client_equally_in_any_batch() -> None:
    """At a rate with ties only: the separate stream for ties belongs to the client, too."""
    flip, rng = BitFlip(1.5 / 256, 0.5 / 256), np.random.default_rng(22)
    streams, bits = Streams.spawn(rng, 50), rng.random((50, 3000)) < 0.5
    together = flip.flip_by_streams(bits, streams)
    order = rng.permutation(50)
    np.testing.assert_array_equal(
        flip.flip_by_streams(bits[order], streams.take(order)), together[order]
    )
    for client in range(50):
        alone = flip.flip_by_streams(bits[[client]], streams.take(np.array([client])))
        np.testing.assert_array_equal(alone[0], together[client])
    assert 0 < together.mean() < 0.01


def compute_printed_rate(value: float, epsilon: float) -> float:
    """Algorithm 1, line 5, as printed."""
    e = math.exp(epsilon)
    return (value * (e - 1) + e + 1) / (2 * e + 2)


@given(st.just(0.0) | st.floats(1e-9, 20), st.floats(-1, 1))
def test_the_distribution_is_that_printed(epsilon: float, value: float) -> None:
    law = np.exp(OneCoordinate(epsilon, 1).log_prob([[0, 1], [0, 0]], [value]))
    assert law[0] == pytest.approx(compute_printed_rate(value, epsilon), rel=1e-9, abs=1e-12)
    assert law.sum() == pytest.approx(1.0)


@given(st.floats(0.1, 300))
def test_the_worst_ratio_is_epsilon_however_large(epsilon: float) -> None:
    """The printed formula cancels to 0 at value -1 and epsilon above 37; the mixture does not."""
    high, low = OneCoordinate(epsilon, 1).log_prob([0, 1], [[1.0], [-1.0]])
    assert high - low == pytest.approx(epsilon, rel=1e-9)


def test_the_servers_estimate_is_unbiased() -> None:
    """The sum over all outputs of probability times estimate equals the input vector."""
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
    index = mechanism.draw_coordinates(rng, (1000,))
    bits = mechanism.draw_bits(vector[index], rng)
    np.testing.assert_array_equal(whole, np.stack([index, bits], axis=-1))


def test_reports_at_epsilon_0_are_uninformative() -> None:
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

    drawn = OneCoordinate(epsilon, 1).draw_bits(np.full(2, corner), Extremes())
    assert set(drawn.tolist()) == {False, True}


@pytest.mark.parametrize("output", [[3, 1], [-1, 0], [0, 2], [1, -1]])
def test_impossible_outputs_have_no_probability(output: list[int]) -> None:
    assert np.isneginf(OneCoordinate(1.0, 3).log_prob(output, np.zeros(3)))


def test_the_largest_epsilon_keeps_every_bit_possible() -> None:
    """Regression: beyond it the rarer bit's rate was 0 as a double, which refuted a right claim."""
    law = OneCoordinate(MAX_EPSILON, 1).log_prob([[0, 1], [0, 0]], [1.0])
    assert law[0] - law[1] == pytest.approx(MAX_EPSILON, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.5, 40.0, 700.0])
def test_bits_of_given_draws_are_a_corner_and_its_flip(epsilon: float) -> None:
    """Every combination of extreme and middle draws, compared with the two comparisons."""
    draws = np.array([0.0, 2.0**-53, 0.25, 0.5, 0.75, 1 - 2.0**-53])
    for value in (-1.0, -0.3, 0.0, 1.0):
        found = OneCoordinate(epsilon, 3).compute_bits(
            np.full((6, 6), value), flip=draws[:, None], corner=draws
        )
        for i, flip in enumerate(draws):
            for j, corner in enumerate(draws):
                up = corner < (1 + value) / 2
                assert found[i, j] == (up != (flip < 1 / (1 + math.exp(epsilon))))


def test_coordinates_of_given_draws_cover_the_vector_evenly() -> None:
    for dimension in (1, 2, 7, 8410, 2**40 + 1):
        mechanism = OneCoordinate(1.0, dimension)
        ends = mechanism.map_to_coordinates(np.array([0.0, 1 - 2.0**-53]))
        assert ends[0] == 0
        assert ends[1] < dimension
    even = OneCoordinate(1.0, 7).map_to_coordinates((np.arange(70_000) + 0.5) / 70_000)
    assert (np.bincount(even) == 10_000).all()


INPUTS = np.array([-1.0, -0.4, 0.0, 0.25, 1.0])


def get_moments(mechanism: Piecewise, value: float) -> tuple[float, float, float]:
    """Total probability, mean and second moment, by log_prob on each piece."""
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
def test_the_mean_is_the_input_and_the_variance_as_published(value: float, epsilon: float) -> None:
    total, mean, second = get_moments(Piecewise(epsilon), value)
    published = piecewise_variance(epsilon, value)
    assert total == pytest.approx(1.0, rel=1e-12)
    assert mean == pytest.approx(value, abs=1e-10)
    assert second - mean**2 == pytest.approx(published, rel=1e-9)


@given(st.floats(1e-9, 40))
def test_stored_numbers_keep_epsilon(epsilon: float) -> None:
    """Ratio of the probabilities of two cells, to 100 digits."""
    with localcontext() as context:
        context.prec = 100
        limit = Decimal(epsilon).exp()
        mechanism, cells = Piecewise(epsilon), Decimal(report_mechanisms._CELLS)
        noise = Decimal(mechanism.noise_probability)
        assert 1 + (1 - noise) * cells / (mechanism._n_near * noise) <= limit


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 7.0])
def test_curves_are_those_of_the_distributions_on_the_pieces(epsilon: float) -> None:
    """Sums over fine cells of the line, for the two ends and for another pair."""
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


def test_the_printed_sampler_identifies_inputs_and_ours_does_not() -> None:
    """Printed: l(x) + (C - 1) u, whose doubles nearly all differ from those of the other input."""
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
    np.testing.assert_array_equal(mechanism._find_middle(cells), drawn)
    assert np.isfinite(mechanism.log_prob(drawn[:, 0], 0.13)).all()


def test_impossible_reports_have_no_probability() -> None:
    assert np.isneginf(Piecewise(1.0).log_prob([-9.0, 9.0], 0.5)).all()
