"""Tests of the lower-bound estimators."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from scipy import stats

from benchmarks import protocols
from benchmarks.tightness import CASES, Case
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.worlds import decision_rules, guesses, selection, statistics
from fedrec_auditor.auditor.worlds.decision_rules import FIRST, SECOND, DecisionRule, RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators import lower_bound_estimators
from fedrec_auditor.auditor.worlds.estimators.base import DrawPlan
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.auditor.worlds.guesses import GuessCounts, ThresholdLimits
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import OutcomeIndex, ScalarScore, make_cuts
from tests.contracts.worlds import gaussian, worlds_of
from tests.points import later
from tests.specimens.randomizer import Randomizer, get_rate, make_flip, make_k_ary, make_one_hot

SCORES = nps.arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.sampled_from([-math.inf, -1.5, 0.0, 0.25, 1.0, 3.0, math.inf]),
)
ALPHA = 0.05


@given(SCORES, SCORES)
def test_limits_are_binomial_at_every_rank(scores_a: np.ndarray, scores_b: np.ndarray) -> None:
    assume(not np.isin(np.concatenate([scores_a, scores_b]), (0, 1)).all())
    band = ThresholdLimits.fit(scores_a, scores_b, ALPHA)
    expected = []
    for p, q in ((scores_a, scores_b), (scores_b, scores_a)):
        for above in (True, False):
            for rank, share in zip(guesses._RANKS.tolist(), guesses._SHARES.tolist(), strict=True):
                if rank > len(q):
                    break
                ordered = sorted(q.tolist(), reverse=above)
                cut = ordered[rank - 1]
                hits = sum((x > cut) if above else (x < cut) for x in p.tolist())
                error = ALPHA * share / guesses._FAMILIES / 2
                high = stats.beta.ppf(1 - error, rank, len(q) - rank + 1)
                expected.append((float(guesses.clopper_pearson_lower(hits, len(p), error)), high))
    assert np.allclose(np.stack([band.p_lower, band.q_upper], axis=1), expected, rtol=1e-9)


def test_all_limits_hold_jointly() -> None:
    misses, runs, n = 0, 1_000, 300
    for rng in np.random.default_rng(4).spawn(runs):
        band = ThresholdLimits.fit(rng.normal(1, 1, n), rng.normal(0, 1, n), 0.2)
        cut = band.thresholds
        p_first = band.is_p_in_first_world
        shifted = np.where(p_first, cut - 1, cut), np.where(p_first, cut, cut - 1)
        p, q = (np.where(band.is_score_above, stats.norm.sf(x), stats.norm.cdf(x)) for x in shifted)
        misses += bool(((band.p_lower > p) | (band.q_upper < q)).any())
    assert stats.binomtest(misses, runs, 0.2, "greater").pvalue > 1e-6
    assert misses > 0.02 * runs  # limits that never miss are wider than stated


def test_curve_and_renyi_divergence_are_below_the_truth() -> None:
    rng = np.random.default_rng(7)
    band = ThresholdLimits.fit(rng.normal(1, 1, 100_000), rng.normal(0, 1, 100_000), ALPHA)
    epsilons = np.linspace(0, 3, 31)
    truth = stats.norm.cdf(0.5 - epsilons) - np.exp(epsilons) * stats.norm.cdf(-0.5 - epsilons)
    found = band.bound_delta(epsilons)
    assert (found <= truth).all()
    assert (found[:8] >= 0.9 * truth[:8]).all()
    for order in (1.5, 2.0, 8.0):
        assert 0.2 * order / 2 < band.bound_renyi(order) <= order / 2
    for epsilon, delta in zip(epsilons[:20].tolist(), found[:20].tolist(), strict=True):
        assert band.bound_epsilon(delta) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_separated_scores_reach_the_largest_bound(size: float) -> None:
    one, other = np.full(500, size), np.zeros(500)
    band = ThresholdLimits.fit(one, other, ALPHA)
    for delta in (0.0, 1e-3, 0.2):
        assert band.bound_epsilon(delta) == pytest.approx(
            guesses.find_attainable_epsilon(one, other, delta=delta, alpha=ALPHA), rel=1e-12
        )
    assert ThresholdLimits.fit(np.ones(500), np.ones(500), ALPHA).bound_epsilon(0.0) == 0
    assert ThresholdLimits.fit(np.ones(500), np.ones(500), ALPHA).bound_renyi(2.0) == 0


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_the_curve_equals_the_bounds(delta: float) -> None:
    leak = gaussian(1.0)
    worlds = worlds_of(leak.a, leak.b)
    curve = AllThresholds().compute_limits(
        worlds, confidence=0.9, samples=5_000, rng=np.random.default_rng(3)
    )
    bound = AllThresholds().measure_bound(
        worlds, delta=delta, confidence=0.9, samples=5_000, rng=np.random.default_rng(3)
    )
    assert curve.bound_epsilon(delta) == bound.epsilon > 0
    assert curve.bound_delta(bound.epsilon) == pytest.approx(delta, abs=1e-12)


# The black-box measurement: tightness, leaks that it detects, cost and description.
#
# Its confidence is simulated in tests/calibration/test_verification.py; the confidence of its limit
# is enumerated in tests/auditor/worlds/test_guesses.py.

RESPONSE = make_flip(1.0)


def measure(
    randomizer: Randomizer,
    inputs: list[Any] | None = None,
    *,
    delta: float = 0.0,
    samples: int = 40_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bound:
    return lower_bound_estimators.JointBinomial().measure_bound(
        Sampler.wrap(randomizer).make_worlds([0, 1] if inputs is None else inputs),
        delta=delta,
        confidence=confidence,
        samples=samples,
        rng=np.random.default_rng(seed),
    )


# Bound as a share of the largest possible at a million draws per world, per case.
MIN_SHARES = dict(zip((case.name for case in CASES), (0.98, 0.98, 0.98, 0.94, 0.97), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tight_at_a_million_draws(case: Case) -> None:
    found = np.median([case.measure(1_000_000, seed) for seed in range(100, 103)])
    assert found >= MIN_SHARES[case.name] * case.compute_limit(1_000_000)


@pytest.mark.parametrize("seeds", [(0,), later((1, 2, 3, 4, 5))], ids=["one split", "more splits"])
@pytest.mark.parametrize(
    "protocol",
    [
        protocols.make_unary("OUE", 100, 1.0),
        later(protocols.make_local_hashing("OLH", 2, 1.0, decoded=False)),
        later(protocols.make_local_hashing("OLH", 100, 1.0)),
        next(p for p in protocols.list_others() if "20 of 60" in p.name),
    ],
    ids=lambda protocol: protocol.name,
)
def test_wide_outputs_come_near_the_limit_of_their_likelihood_ratio(
    protocol: protocols.Protocol, seeds: tuple[int, ...]
) -> None:
    """The rule that is best by chance on a split may reach only 0.83 to 0.94 of the limit.

    Rules are compared with the limit at expected counts, so that the share has no random error.
    """
    worlds = Sampler.wrap(protocol.call).make_worlds([0, 1])
    fresh = [protocol.call(x, np.random.default_rng(x), 80_000) for x in (0, 1)]
    for seed in seeds:
        selecting, judging = np.random.default_rng(seed).spawn(2)
        plan = DrawPlan(100_000, 0.0, 0.05)
        chosen = selection.select_rules(worlds, plan, selecting, comparison_rng=judging)
        rule, share = chosen.rules_and_error_shares[0]
        assert share == 1.0 - selection.SECOND_RULE_ALPHA_SHARE
        draws = sum(chosen.count_draws_left(worlds, 100_000))
        tables = [rule.count_guesses(fresh[world]) for world in chosen.world_pair]
        one, other = (table * draws // 160_000 for table in tables)
        counts = GuessCounts(
            n_draws=draws,
            first_world_counts=(int(one[0]), int(other[0])),
            second_world_counts=(int(other[1]), int(one[1])),
            is_two_sided=True,
        )
        assert counts.bound_epsilon(delta=0.0, alpha=0.05) >= 0.95 * protocol.compute_limit(100_000)


def noise_of_two_sizes(x: int, rng: np.random.Generator, size: int) -> Any:
    return rng.laplace(scale=1.0 + x, size=size)


def between_lines(x: int, rng: np.random.Generator, size: int) -> Any:
    """Uniform on [0, 8), with more mass on even or odd units, which no half-line distinguishes."""
    unit = 2 * rng.integers(4, size=size) + (rng.random(size) < get_rate(1.0 if x else -1.0))
    return unit + rng.random(size)


def parity(x: int, rng: np.random.Generator, size: int) -> Any:
    """The product of two entries' signs reveals the input with odds e^2; no single entry does."""
    output = rng.normal(size=(size, 6))
    sign = np.where(rng.random(size) < get_rate(2.0), 1, -1) * (2 * x - 1)
    output[:, 4] = np.abs(output[:, 4]) * np.sign(output[:, 1]) * sign
    return output


def shared_noise(x: int, rng: np.random.Generator, size: int) -> Any:
    return np.array([0.0, x, 0.0]) + rng.laplace(size=(size, 1))


def many_entries(x: int, rng: np.random.Generator, size: int) -> Any:
    return x + rng.laplace(size=(size, 8))


def word(x: int, rng: np.random.Generator, size: int) -> Any:
    return np.where(rng.random(size) < get_rate(1.0), *(("no", "yes"), ("yes", "no"))[x])


def word_pairs(x: int, rng: np.random.Generator, size: int) -> Any:
    return np.array([[f"id {number}", f"sent {x}"] for number in rng.integers(10**9, size=size)])


@pytest.mark.parametrize(
    ("randomizer", "min_epsilon"),
    [
        (word, 0.93),
        (make_one_hot(6, 1.0), 0.8),
        (make_one_hot(80, 4.0), 3.4),
        (make_k_ary(10, 1.0), 0.9),
        (make_k_ary(500, 4.0), 3.3),
        (noise_of_two_sizes, 2.0),
        (between_lines, 0.9),
        (parity, 1.7),
        (shared_noise, 9.0),
        (many_entries, 4.5),
        (word_pairs, 9.0),
        (lambda x, rng, size: np.where(rng.random(size) < 0.01, np.inf * (2 * x - 1), 0.0), 4.5),
    ],
)
def test_leaks_of_any_form_are_found(randomizer: Randomizer, min_epsilon: float) -> None:
    assert measure(randomizer).epsilon > min_epsilon


def add_leak(share: float, randomizer: Randomizer = RESPONSE) -> Randomizer:
    """A randomizer that outputs a word revealing its input with probability ``share``."""
    return lambda x, rng, size: np.where(rng.random(size) < share, 2 + x, randomizer(x, rng, size))


def clipped_noise(x: int, rng: np.random.Generator, size: int) -> Any:
    """Laplace noise clipped at 8, which one output in 3,000 reaches."""
    return 0.5 * x + np.clip(rng.laplace(size=size), -8.0, 8.0)


@pytest.mark.parametrize(
    ("randomizer", "samples", "min_epsilon"),
    [
        (add_leak(1e-3), 100_000, 2.5),
        (add_leak(1e-4), 1_000_000, 2.5),
        (add_leak(5e-5), 1_000_000, 1.9),
        later(add_leak(5e-5), 10_000_000, 4.0),
        (add_leak(1e-4, lambda x, rng, size: x + rng.laplace(size=size)), 1_000_000, 2.5),
        (clipped_noise, 1_000_000, 3.0),
        (
            lambda x, rng, size: np.where(rng.random(size) < 5e-4, f"x={x}", word(x, rng, size)),
            100_000,
            2.0,
        ),
    ],
)
def test_a_rare_certain_leak_is_found_beside_a_common_ratio(
    randomizer: Randomizer, samples: int, min_epsilon: float
) -> None:
    """The ratio of all other outputs is e, so a larger bound is due to the leak."""
    assert measure(randomizer, samples=samples).epsilon > min_epsilon


def test_a_rare_leak_of_one_of_many_inputs_is_in_the_pair() -> None:
    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < 1e-3 * (x == 7), 99, RESPONSE(x % 2, rng, size))

    found = measure(call, [*range(9)], samples=200_000)
    assert found.epsilon > 2.0
    assert (found.witness.input_a, found.witness.probability_b) == ("7", 0.0)
    assert found.witness.output.endswith("output in {99}")


def test_the_pair_is_found_among_many_inputs() -> None:
    found = measure(lambda x, rng, size: rng.random(size) < 0.5 + 0.4 * (x == 37), [*range(64)])
    assert found.epsilon > 0.8 * math.log(0.5 / 0.1)
    assert "37" in (found.witness.input_a, found.witness.input_b)


@pytest.mark.parametrize("shape", [(), (5,)])
def test_without_a_leak_the_bound_is_small(shape: tuple[int, ...]) -> None:
    for seed in range(3):
        found = measure(lambda x, rng, size: rng.normal(size=(size, *shape)), seed=seed)
        assert found.epsilon < 0.1


def test_memory_does_not_grow_with_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_SELECTION_SIZE", 20_000)
    peaks = []
    for samples in (400_000, 800_000):
        tracemalloc.start()
        measure(RESPONSE, samples=samples)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 1.05 * peaks[0] < 16 * 2**20


def test_the_witness_states_the_observed_event() -> None:
    found = measure(RESPONSE, samples=100_000)
    witness = found.witness
    assert (witness.input_a, witness.input_b) in {("0", "1"), ("1", "0")}
    assert witness.output == f"output in {{{witness.input_a}}}"
    assert witness.probability_a == pytest.approx(get_rate(1.0), abs=0.01)
    assert witness.probability_b == pytest.approx(get_rate(-1.0), abs=0.01)
    assert "gave this output" in witness.note
    assert f"if output in {{{witness.input_b}}}. " in witness.note
    nothing = measure(lambda x, rng, size: np.zeros(size))
    assert (nothing.epsilon, nothing.witness) == (0.0, None)


def test_outputs_without_entries_have_a_bound_of_0() -> None:
    assert measure(lambda x, rng, size: np.empty((size, 0)), samples=200).epsilon == 0.0


def test_guesses_are_counted_by_the_table_of_the_rule() -> None:
    rng = np.random.default_rng(0)
    for cuts in (np.array([0.0]), np.array([-1.0, 0.0, 2.0]), np.linspace(-2, 2, 9)):
        table = rng.integers(-1, 2, len(cuts) + 1).astype(np.int8)
        first = ScalarScore("output", lambda x: x[:, 0])
        rule = DecisionRule(statistic=first, statistic_cuts=cuts, guesses=table)
        for outputs in (rng.normal(size=500), rng.integers(-3, 4, 500), rng.random(500) < 0.5):
            slow = [table[int(np.sum(cuts <= float(value)))] for value in outputs]
            expected = [slow.count(FIRST), slow.count(SECOND)]
            assert rule.count_guesses(outputs).tolist() == expected
            assert slow.count(decision_rules.NEITHER) == len(outputs) - sum(expected)


@pytest.mark.parametrize(
    "outputs",
    [
        np.array([3, 1, 1, 7]),
        np.array([True, False, True]),
        np.array(["b", "a", "c", "a"]),
        np.array([[0.5, 1], [0.5, 2], [0.25, 1], [0.5, 1]]),
        np.arange(40).repeat(2),
    ],
)
def test_outcomes_are_indexed_and_unknown_ones_are_minus_1(outputs: np.ndarray) -> None:
    outcome = OutcomeIndex.fit(outputs, 100)
    rows = [str(row) for row in outputs.tolist()]
    positions = outcome.evaluate(outputs)
    assert [outcome.value_labels[position][0] for position in positions] == rows
    assert outcome.describe(positions[0] - 0.5, positions[0] + 0.5) == f"output in {{{rows[0]}}}"
    assert OutcomeIndex.fit(outputs, 1) is None
    if outputs.dtype.kind in "iU":
        other = np.array([99]) if outputs.dtype.kind == "i" else np.array(["zz"])
        assert outcome.evaluate(other).tolist() == [-1]


def test_rounding_errors_are_not_outcomes() -> None:
    """0.1 + 0.2 and 0.3 differ in the last bit only; low-order bits have a check of their own."""
    values = np.array([0.1 + 0.2, 0.3, 1.0, 1.0 + 2**-52])
    assert len(make_cuts(values)) == 1
    assert statistics.count_in_intervals(values, make_cuts(values)).tolist() == [2, 2]


def test_thin_tails_are_not_chosen_by_chance() -> None:
    """On each of 30 splits of Laplace noise, the rule reaches 0.85 of epsilon 1 in expectation."""
    plan = RuleTestPlan(n_draws=180_000, delta=0.0, alpha=0.05)
    worlds = Sampler.wrap(lambda x, rng, size: x + rng.laplace(size=size)).make_worlds([0, 1])
    for seed in range(30):
        size, rng = selection.plan_selection_size(100_000), np.random.default_rng(seed)
        split = selection.SelectionDraws.draw(worlds, size, rng)
        chosen = split.choose_rule(plan)
        rule = chosen.rule
        ends = np.concatenate([[-np.inf], rule.statistic_cuts, [np.inf]])
        mass = [
            np.diff(stats.laplace.cdf(ends, loc=x))[rule.guesses == side].sum()
            for x, side in ((0, FIRST), (0, SECOND), (1, FIRST), (1, SECOND))
        ]
        found = GuessCounts(
            n_draws=180_000,
            first_world_counts=(int(90_000 * mass[0]), int(90_000 * mass[2])),
            second_world_counts=(int(90_000 * mass[3]), int(90_000 * mass[1])),
            is_two_sided=True,
        )
        assert found.bound_epsilon(delta=0.0, alpha=0.05) > 0.85
