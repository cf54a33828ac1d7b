"""Rounds with dropouts: their messages and their noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Scope
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.targets.components import Dense, Payload, RandomizedMessages
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import NoiseReplacement
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import TwoRoundNoise
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import DropoutMechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import draw_normals
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import (
    NoiseAdder,
    NoiseReplacer,
    sum_messages,
)
from fedrec_auditor.targets.streams import Streams
from tests.contracts.laws import check_ranges

SCOPE = Scope.parse("user / add-remove / aggregate / training")


def build(
    n: int = 4, dropout: float = 0.3, count: int = 2, *, omega: float = 0.6, repaired: bool = False
) -> DropoutMechanism:
    return DropoutMechanism(
        sigma=2.0,
        sensitivity=2.0,
        n_users=n,
        omega=omega,
        dropout=dropout,
        n_rounds=count,
        is_protocol_repaired=repaired,
    )


@st.composite
def runs(draw: st.DrawFn) -> DropoutMechanism:
    n = draw(st.integers(2, 4))
    return replace(
        build(n, draw(st.floats(0.05, 0.9)), draw(st.integers(1, 2))),
        # Excludes rounding near the minimum of survivors, where no noise can be removed.
        omega=draw(st.integers(0, 90)) / 100,
        is_protocol_repaired=draw(st.booleans()),
        n_colluding=draw(st.integers(0, n - 1)),
        overstated=draw(st.sampled_from([1.0, 2.0])),
    )


def list_patterns(run: DropoutMechanism) -> list[tuple[int, int, float]]:
    """(m, r, probability) of a round's patterns; (0, 0) if the first device is not in a sum.

    Each honest device drops out, survives only round 1, or survives both rounds.
    """
    d = run.dropout
    fates = ((0, 0, d), (1, 0, (1 - d) * d), (1, 1, (1 - d) ** 2))
    found = []
    for all_fates in itertools.product(fates, repeat=run.n_users - run.n_colluding):
        m, r = (run.n_colluding + sum(fate[k] for fate in all_fates) for k in (0, 1))
        there = all_fates[0][0] == 1 and m > (1 - run.omega) * run.n_users
        chance = math.prod(fate[2] for fate in all_fates)
        found.append((m, r, chance) if there else (0, 0, chance))
    return found


def get_square(run: DropoutMechanism, m: int, r: int) -> float:
    """mu^2 of one round."""
    if m == 0:
        return 0.0
    shares = TwoRoundNoise(
        n_users=run.n_users,
        omega=run.omega,
        masked=m,
        replaced=r,
        colluding=run.n_colluding,
        announced=round(run.overstated * m),
        repaired=run.is_protocol_repaired,
    )
    return (run.sensitivity / run.sigma) ** 2 / shares.variance


@given(runs())
def test_survivors_have_the_probabilities_of_their_patterns(run: DropoutMechanism) -> None:
    expected: dict[tuple[int, int], float] = {}
    for m, r, chance in list_patterns(run):
        expected[m, r] = expected.get((m, r), 0.0) + chance
    expected.pop((0, 0), None)
    found = {(m, r): p for m, r, p in zip(*run.list_survivor_probs(), strict=True)}
    assert found == pytest.approx(expected)


@given(runs(), st.floats(0.0, 3.0))
@settings(max_examples=20)
def test_the_curve_is_the_mean_over_all_survivors(run: DropoutMechanism, epsilon: float) -> None:
    """The curve is at most the mean, and within a thousandth of it."""
    exact = 0.0
    for rounds in itertools.product(list_patterns(run), repeat=run.n_rounds):
        total = sum(get_square(run, m, r) for m, r, _ in rounds)
        if total > 0:
            chance = math.prod(p for _, _, p in rounds)
            exact += chance * compute_gaussian_delta(math.sqrt(total), epsilon)
    assert isinstance(run, PrivacyCurve)
    assert exact * (1 - 5e-3) - 1e-9 <= run.delta(epsilon) <= exact * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("n", [10, 943])
def test_the_lower_bound_lies_below_the_event_at_the_worst_dropouts(n: int, repaired: bool) -> None:
    run = build(n, 0.1, 10, omega=0.3, repaired=repaired)
    lower = find_exact_bound(run, SCOPE, 1e-5).epsilon
    upper = Pld().bound(run.event(), delta=1e-5, scope=SCOPE).epsilon
    assert 0.7 * upper < lower < upper
    assert find_exact_bound(replace(run, dropout=0.2), SCOPE, 1e-5).epsilon < lower


def test_few_dropouts_cost_as_much_as_none() -> None:
    """The limit is the curve of T rounds that all survive: mu^2 = T (2 - omega)."""
    run = build(50, 1e-9, 10, omega=0.3)
    limit = compute_gaussian_delta(math.sqrt(10 * 1.7), 20.0)
    assert run.delta(20.0) == pytest.approx(limit, rel=5e-3)


@given(runs().filter(lambda run: len(run.list_survivor_probs()[0]) > 0), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_the_density_is_that_of_survivors_and_both_sums(run: DropoutMechanism, seed: int) -> None:
    out = run.randomize([0.0, 1.3], np.random.default_rng(seed))
    assert out.shape == (2, run.n_rounds, 4)
    for rows, value in zip(out, (0.0, 1.3), strict=True):
        slow = 0.0
        for m, r, total, sent in rows:
            chance = sum(p for a, b, p in list_patterns(run) if (a, b) == (m, r))
            slow += math.log(chance)
            if m:
                slow += density(run, int(m), int(r), total - value, sent)
        assert run.log_prob(rows, value) == pytest.approx(slow, rel=1e-7, abs=1e-7)


def density(run: DropoutMechanism, m: int, r: int, total: float, sent: float) -> float:
    """Density of the two sums, by the covariance of the honest devices' noises."""
    first, second = 1 / ((1 - run.omega) * run.n_users), 1 / round(run.overstated * m)
    honest = r - run.n_colluding
    shared = first - second if run.is_protocol_repaired else first
    blurred = first - second if run.is_protocol_repaired else first + second
    top = (m - run.n_colluding) * first
    if honest == 0 or blurred <= 0:
        assert sent == 0
        return float(stats.norm.logpdf(total, 0, run.sigma * math.sqrt(top)))
    table = run.sigma**2 * np.array([[top, -honest * shared], [-honest * shared, honest * blurred]])
    return float(stats.multivariate_normal.logpdf([total, sent], cov=table))


def test_simulated_survival_has_the_stated_probability() -> None:
    run = build(6, 0.3, 1, omega=0.7)
    out = run.randomize(0.0, np.random.default_rng(3), (50_000,))[:, 0]
    masked, replaced, chance = run.list_survivor_probs()
    seen = [
        ((out[:, 0] == m) & (out[:, 1] == r)).sum() for m, r in zip(masked, replaced, strict=True)
    ]
    seen, expected = (
        np.append(seen, (out[:, 0] == 0).sum()),
        50_000 * np.append(chance, 1 - chance.sum()),
    )
    common = expected > 5
    rest = [array[~common].sum() for array in (seen, expected)]
    cells = [np.append(array[common], r) for array, r in zip((seen, expected), rest, strict=True)]
    assert stats.chisquare(*cells).pvalue > 1e-7


def test_every_round_halts_if_all_have_to_survive() -> None:
    """With omega 0 a round needs more than n survivors."""
    run = build(4, 0.3, 2, omega=0.0)
    assert len(run.list_survivor_probs()[0]) == 0
    assert run.delta(0.0) == 0.0


@pytest.mark.parametrize(
    ("wrong", "word"), [({"n_colluding": 4}, "colluding"), ({"overstated": 0.5}, "overstated")]
)
def test_invalid_settings_are_refused(wrong: dict[str, float], word: str) -> None:
    check_ranges(build())
    with pytest.raises(InputError, match=word):
        replace(build(), **wrong)


def draw_slowly(streams: Streams, count: int) -> np.ndarray:
    """The Box-Muller transform by numpy's functions, from the words of the streams."""
    even = count + count % 2
    uniform = (streams.draw_words(even) >> np.uint64(12)) * 2.0**-52 + 2.0**-53
    size = np.sqrt(-2.0 * np.log(uniform[:, ::2]))
    out = np.empty((len(streams), even))
    out[:, ::2] = size * np.cos(2.0 * np.pi * uniform[:, 1::2])
    out[:, 1::2] = size * np.sin(2.0 * np.pi * uniform[:, 1::2])
    return out[:, :count]


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 1200))
def test_draws_are_those_of_the_formula(seed: int, clients: int, count: int) -> None:
    streams = Streams.spawn(np.random.default_rng(seed), clients)
    fast = draw_normals(streams, (count,), np.float64)
    np.testing.assert_allclose(fast, draw_slowly(streams, count), rtol=1e-12, atol=1e-13)
    single = draw_normals(streams, (count,))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fast, rtol=1e-6, atol=1e-7)


def test_the_extremes_of_a_word_are_finite() -> None:
    """Seeds with first words near the ends, found by brute force."""
    streams = Streams.spawn(np.random.default_rng(0), 400_000)
    first = streams.draw_words(1)[:, 0]
    ends = np.array([np.argmin(first), np.argmax(first)])
    fast = draw_normals(streams.take(ends), (2,), np.float64)
    np.testing.assert_allclose(fast, draw_slowly(streams.take(ends), 2), rtol=1e-9)
    assert np.hypot(*fast[0]) > 4.5  # the smallest uniform is the longest pair
    assert np.hypot(*fast[1]) < 0.01


@pytest.mark.parametrize("count", [1, 2, 7, 30, 200, 700])
def test_clients_draw_the_same_in_any_batch(count: int) -> None:
    """Short tables are drawn many at a time."""
    streams = Streams.spawn(np.random.default_rng(1), 300)
    whole = draw_normals(streams, (count,))
    for i in range(0, 300, 13):
        np.testing.assert_array_equal(
            draw_normals(streams.take(np.array([i])), (count,))[0], whole[i]
        )


def test_draws_are_standard_normal_and_independent() -> None:
    """Kolmogorov-Smirnov at 1e-6, and no correlation of neighbours at 6 standard errors."""
    drawn = draw_normals(Streams.spawn(np.random.default_rng(2), 200), (1000,), np.float64)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-6
    for a, b in (
        (drawn[:, ::2], drawn[:, 1::2]),
        (drawn[:, :-2:2], drawn[:, 2::2]),
        (drawn[:-1], drawn[1:]),
    ):
        assert abs(np.mean(a * b)) < 6 / np.sqrt(a.size)
        assert abs(np.mean((a**2 - 1) * (b**2 - 1))) < 6 * 2 / np.sqrt(a.size)


OMEGA, USERS, COUNT = 0.3, 10, 40_000


BEFORE, AFTER = 1 / math.sqrt((1 - OMEGA) * USERS), 1 / math.sqrt(USERS)


@pytest.mark.parametrize("repaired", [False, True])
def test_messages_have_the_covariance_of_noise_replacement(repaired: bool) -> None:
    """Covariances of (xi, reply), to 6 standard errors; 40,000 clients with one entry."""
    streams, zero = Streams.spawn(np.random.default_rng(0), COUNT), np.zeros((COUNT, 1), "f4")
    xi = NoiseAdder(BEFORE)(zero, streams)[:, 0].astype(float)
    reply = NoiseReplacer(BEFORE, AFTER, repaired)(zero, streams)[:, 0].astype(float)
    z1, z2 = BEFORE**2, AFTER**2
    expected = [z1 - z2, -(z1 - z2)] if repaired else [z1 + z2, -z1]
    for a, b, mean in (
        (xi, xi, z1),
        (reply, reply, expected[0]),
        (xi, reply, expected[1]),
        (xi + reply, xi + reply, z2),
    ):
        assert abs(np.mean(a * b) - mean) < 6 * np.std(a * b) / math.sqrt(COUNT)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_servers_remaining_noise_is_that_of_the_mechanism(repaired: bool) -> None:
    """Variance of the sum given the replies, by regression over 4,000 sums of ten clients."""
    streams, zero = Streams.spawn(np.random.default_rng(1), COUNT), np.zeros((COUNT, 1), "f4")
    total, replies = (
        randomize(zero, streams).reshape(-1, USERS).sum(axis=1, dtype=float)
        for randomize in (NoiseAdder(BEFORE), NoiseReplacer(BEFORE, AFTER, repaired))
    )
    slope = np.mean(total * replies) / np.mean(replies**2)
    unknown = np.var(total - slope * replies)
    law = NoiseReplacement(
        sigma=1.0,
        sensitivity=1.0,
        n_users=USERS,
        omega=OMEGA,
        masked=USERS,
        replaced=USERS,
        repaired=repaired,
    )
    assert law.variance == pytest.approx(1.0 if repaired else 1 / (2 - OMEGA))
    assert unknown == pytest.approx(law.variance, rel=6 * math.sqrt(2 / len(total)))


def test_the_second_message_removes_the_noise_of_the_first() -> None:
    """Both rounds use the same draws, however often they are read."""
    streams = Streams.spawn(np.random.default_rng(2), 5)
    values = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    first, again = (NoiseAdder(2.0)(values, streams) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    reply = NoiseReplacer(2.0, 1e-6)(np.zeros_like(values), streams)
    np.testing.assert_allclose(first + reply, values, atol=1e-4)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_result_is_the_sum_of_all_messages(repaired: bool) -> None:
    """Nine devices in round 1, six of them in round 2."""
    streams = Streams.spawn(np.random.default_rng(3), 12)
    masked = np.array([0, 1, 2, 4, 5, 6, 8, 9, 11])
    replaced = np.array([0, 2, 4, 5, 9, 11])
    values = np.random.default_rng(4).normal(size=(12, 4, 3)).astype(np.float32)
    update = RandomizedMessages(Dense(values, Payload.GRADIENT), NoiseAdder(BEFORE), streams).take(
        masked
    )
    reply = NoiseReplacer(BEFORE, AFTER, repaired)
    clear = RandomizedMessages(Dense(np.zeros_like(values), Payload.GRADIENT), reply, streams).take(
        replaced
    )
    total = sum_messages(update, masked, clear, replaced)
    np.testing.assert_allclose(total, update.sum_all() + clear.sum_all(), rtol=1e-5, atol=1e-5)
