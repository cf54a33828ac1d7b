from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import RandomizedResponseDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.streams import Streams

RATES = st.floats(0, 1, allow_subnormal=False)


def slow_epsilon(p: float, q: float) -> float:
    """Largest |ln(P(o | 1)/P(o | 0))| over both outputs, 0/0 counting for nothing."""
    worst = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a == b:
            continue
        worst = max(worst, math.inf if min(a, b) == 0 else abs(math.log(a / b)))
    return worst


@given(RATES, RATES)
def test_epsilon_is_the_larger_of_both_ratios(p: float, q: float) -> None:
    assert BitFlip(p, q).epsilon == pytest.approx(slow_epsilon(p, q), rel=1e-6, abs=1e-12)


@given(st.floats(0, 60))
def test_the_symmetric_flip_never_exceeds_its_epsilon(epsilon: float) -> None:
    flip = BitFlip.symmetric(epsilon)
    assert flip.p + flip.q == 1.0
    assert flip.epsilon <= epsilon
    if epsilon <= 10:
        assert flip.epsilon == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


def test_one_ratio_within_bounds_is_no_privacy() -> None:
    """The trap: p/q = e^eps holds for all of these, privacy for the first two only."""
    epsilon = 1.0
    edge = math.exp(epsilon) / (1 + math.exp(epsilon))
    for p, private in ((0.5, True), (edge, True), (edge + 0.01, False), (1.0, False)):
        flip = BitFlip(p, p * math.exp(-epsilon))
        assert math.log(flip.p / flip.q) == pytest.approx(epsilon)
        assert (flip.epsilon <= epsilon + 1e-9) is private
    assert math.isinf(BitFlip.asymmetric(epsilon).epsilon)
    assert BitFlip.asymmetric(epsilon) == BitFlip(1.0, math.exp(-epsilon))


def test_events_are_the_common_leaf_where_there_is_one() -> None:
    event = BitFlip.symmetric(1.0).event()
    assert isinstance(event, RandomizedResponseDpEvent)
    assert event.noise_parameter == pytest.approx(2 / (1 + math.e))
    assert event.num_buckets == 2
    assert BitFlip(0.8, 0.1).event() == BitFlipDpEvent(0.8, 0.1)
    # A response that lies more often than not tells as much: its labels are swapped.
    assert BitFlip(0.25, 0.75).event() == BitFlip(0.75, 0.25).event()


@pytest.mark.parametrize("rate", [0.5, 1 / 256, 3 / 256, 1e-3, 1e-6, 1 - 1e-6, 0.7310585786])
def test_ten_million_samples_have_the_rate(rate: float) -> None:
    """Rates below and above a byte's resolution, where ties decide everything."""
    n = 10_000_000
    ones = BitFlip(rate, 1 - rate).randomize(True, np.random.default_rng(11), (n,)).sum()
    assert stats.binomtest(int(ones), n, rate).pvalue > 1e-9


def test_bits_drawn_one_at_a_time_have_the_rate_too() -> None:
    """At 1/512 every one comes from a tie."""
    flip, rng = BitFlip(1 / 512, 0.5), np.random.default_rng(16)
    draws = [flip.randomize(1, rng) for _ in range(12_000)]
    assert isinstance(draws[0], np.ndarray)
    assert stats.binomtest(int(np.sum(draws)), len(draws), 1 / 512).pvalue > 1e-9


def test_neighbouring_bits_are_independent() -> None:
    """Eight bits come from one random word: their patterns must be those of eight coins."""
    bits = BitFlip(0.3, 0.6).randomize(False, np.random.default_rng(12), (100_000, 8))
    codes = np.packbits(bits, axis=1).ravel()
    expected = np.array(
        [0.6 ** bin(c).count("1") * 0.4 ** (8 - bin(c).count("1")) for c in range(256)]
    )
    counts = np.bincount(codes, minlength=256)
    assert stats.chisquare(counts, expected * len(codes)).pvalue > 1e-9


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)])
def test_sure_rates_are_sure(p: float, q: float) -> None:
    flip, rng = BitFlip(p, q), np.random.default_rng(13)
    assert (flip.randomize(1, rng, (100_000,)) == (p == 1)).all()
    assert (flip.randomize(0, rng, (100_000,)) == (q == 1)).all()


def test_integers_floats_and_bools_are_the_same_bits() -> None:
    bits = np.random.default_rng(14).integers(0, 2, (30, 40))
    outputs = [
        BitFlip(0.8, 0.3).randomize(bits.astype(kind), np.random.default_rng(15))
        for kind in (bool, np.int8, np.int64, np.float32)
    ]
    assert all(np.array_equal(outputs[0], other) for other in outputs)
    assert outputs[0].dtype == bool


@pytest.mark.parametrize(("p", "q"), [(1.0, 1e-17), (1 - 2**-53, 2e-16), (2e-16, 1 - 2**-53)])
def test_rates_whose_sum_only_rounds_to_one_are_charged_in_full(p: float, q: float) -> None:
    flip = BitFlip(p, q)
    assert p + q == 1.0
    assert Pure().bound(flip.event(), delta=0.0, scope=SCOPE).epsilon >= flip.epsilon * (1 - 1e-12)


@pytest.mark.parametrize("rate", [0.5, 1 / 256, 3 / 256, 1e-3, 0.7310585786])
@pytest.mark.parametrize("width", [1, 8, 13])
def test_coins_of_many_streams_have_the_rate_at_every_place(rate: float, width: int) -> None:
    """Bytes and ties alike, place by place in the stream."""
    streams = Streams.spawn(np.random.default_rng(21), 300_000)
    bits = np.arange(width) % 2 == 0
    out = BitFlip(rate, 1 - rate).by_streams(np.broadcast_to(bits, (300_000, width)), streams)
    for place in range(width):
        expected = rate if bits[place] else 1 - rate
        ones = int(out[:, place].sum())
        assert stats.binomtest(ones, 300_000, expected).pvalue > 1e-9


def test_streams_flip_a_client_the_same_in_any_company() -> None:
    """At rates that are all ties: the stream aside belongs to the client too."""
    flip, rng = BitFlip(1.5 / 256, 0.5 / 256), np.random.default_rng(22)
    streams, bits = Streams.spawn(rng, 50), rng.random((50, 3000)) < 0.5
    together = flip.by_streams(bits, streams)
    order = rng.permutation(50)
    np.testing.assert_array_equal(
        flip.by_streams(bits[order], streams.take(order)), together[order]
    )
    for client in range(50):
        alone = flip.by_streams(bits[[client]], streams.take(np.array([client])))
        np.testing.assert_array_equal(alone[0], together[client])
    assert 0 < together.mean() < 0.01


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.0), (0.0, 1.0)])
def test_sure_rates_are_sure_for_streams_too(p: float, q: float) -> None:
    streams = Streams.spawn(np.random.default_rng(23), 1000)
    bits = np.ones((1000, 50), dtype=bool)
    assert (BitFlip(p, q).by_streams(bits, streams) == (p == 1)).all()
    assert (BitFlip(p, q).by_streams(~bits, streams) == (q == 1)).all()
