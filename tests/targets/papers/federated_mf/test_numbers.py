"""Headings 21 to 28: verdicts, and the numbers by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, signal, special, stats

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
)
from fedrec_auditor.accountants.theorems.conversions import convert
from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.judging.catalogue import judge
from fedrec_auditor.reports.catalogue import CatalogueRow, plain_words
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import clip_embedding
from fedrec_auditor.targets.papers.federated_mf import numbers
from fedrec_auditor.targets.papers.federated_mf.gradients import largest, nearest, turned, unclipped
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.base import Population

PAPER = Paper.of("fedrec_auditor.targets.papers.federated_mf")
WRONG, RIGHT = Arithmetic.WRONG, Arithmetic.RIGHT
ONE = 2 * 5**1.5


def of(number: str) -> tuple[Computed, ...]:
    return PAPER.computed(PAPER.entry(number))


@pytest.fixture(scope="module")
def rows() -> dict[str, CatalogueRow]:
    return {row.number: row for row in judge([PAPER.entry(n) for n in ("22", "23", "24")])}


def test_lfl_is_known_exactly(rows: dict[str, CatalogueRow]) -> None:
    row = rows["22"]
    assert row.exact_lower_epsilon == pytest.approx(row.proved_epsilon, rel=1e-9)
    assert (round(row.claimed_epsilon or 0, 2), round(row.proved_epsilon or 0, 2)) == (17.86, 25.40)


def test_rows_of_a_thousand_users_have_the_least_provable_epsilon_of_the_derivation(
    rows: dict[str, CatalogueRow],
) -> None:
    assert rows["23"].proved_epsilon == pytest.approx(14.45, abs=0.01)
    assert rows["23"].exact_lower_epsilon > 2 * rows["23"].claimed_epsilon


def test_theorem_5_is_off_as_derived() -> None:
    """(claimed, true), z = 1 and 5 by omega 0.3 and 0.6."""
    table = [(round(n.claimed, 2), round(n.right, 2)) for n in of("22")]
    assert table == [(17.86, 25.40), (17.86, 22.29), (2.59, 3.51), (2.59, 3.14)]
    by_hand = get_epsilon_gaussian(math.sqrt((1 / 1.7) / 10), 1e-5)
    assert of("22")[0].right == pytest.approx(by_hand, rel=1e-8)


@given(
    st.lists(st.floats(0, math.sqrt(5)), min_size=4, max_size=4),
    st.floats(0, 5),
    st.integers(1, 6),
)
@settings(max_examples=40)
def test_no_feasible_pair_beats_the_grid(entries: list[float], rating: float, count: int) -> None:
    u, v = clip_embedding(np.reshape(entries, (2, 2)), 5.0)
    error = 2 * abs(rating - u @ v)
    alone, both = (largest(5.0, ratings=count, joint=joint) for joint in (False, True))
    assert error * math.sqrt(count) * np.linalg.norm(u) <= alone * (1 + 1e-9)
    joint = count * (u @ u) + count**2 * (v @ v)
    assert error * math.sqrt(joint) <= both * (1 + 1e-9)


def test_sensitivities_are_the_closed_forms() -> None:
    for count in (1, 2, 5):
        alone, both = (largest(5.0, ratings=count, joint=joint) for joint in (False, True))
        assert alone == pytest.approx(ONE * math.sqrt(count))
        assert both == pytest.approx(ONE * math.sqrt(count**2 + count))
    assert unclipped(5.0, length=1.0) == pytest.approx(0.0, abs=1e-9)  # x = u.v
    assert unclipped(5.0, length=1e3) > 1e3 * unclipped(5.0, length=1.5)


@pytest.mark.parametrize("count", [10, 100])
def test_a_turn_moves_all_rows_and_no_farther_than_is_charged(count: int) -> None:
    moved = turned(5.0, ratings=count, fitting=20) / ONE
    assert 1.2 * math.sqrt(count) < moved < math.sqrt(2 * count + 1)
    assert turned(5.0, ratings=count, fitting=4000) / ONE > 1.37 * math.sqrt(count)


@given(
    st.lists(st.floats(0, math.sqrt(5)), min_size=6, max_size=6),
    st.floats(0, 5),
)
@settings(max_examples=100)
def test_two_embeddings_are_never_more_than_root_two_apart_in_a_row(
    entries: list[float], rating: float
) -> None:
    """What ``reach`` rests on."""
    u, other, v = clip_embedding(np.reshape(entries, (3, 2)), 5.0)
    apart = 2 * ((rating - u @ v) * u - (rating - other @ v) * other)
    assert np.linalg.norm(apart) <= math.sqrt(2) * ONE * (1 + 1e-9)


def test_a_steered_search_does_not_beat_root_two() -> None:
    def apart(x: np.ndarray) -> float:
        u, other, v = clip_embedding(math.sqrt(5) * np.abs(x[:9]).reshape(3, 3), 5.0)
        rating = 5 * float(special.expit(x[9]))
        return -float(np.linalg.norm((rating - u @ v) * u - (rating - other @ v) * other))

    rng = np.random.default_rng(0)
    best = max(
        -optimize.minimize(apart, rng.normal(size=10), method="Nelder-Mead").fun for _ in range(12)
    )
    assert 1.2 * 5**1.5 < best <= math.sqrt(2) * 5**1.5 * (1 + 1e-9)


def test_sampling_and_composition_by_the_figures_of_the_derivation() -> None:
    (rows,) = of("23")
    assert rows.claimed == pytest.approx(1.0, abs=0.002)
    assert rows.right == pytest.approx(14.45, abs=0.01)
    parties, package, theorem, pure = of("25")
    assert (package.claimed, package.right) == pytest.approx((4.689, 4.844), abs=1e-3)
    assert (package.word, theorem.word) == (WRONG, Arithmetic.LOOSE)
    assert theorem.claimed == pytest.approx(math.sqrt(18) * 1.355, abs=2e-3)
    assert (parties.claimed, parties.right) == pytest.approx((3.162, 3.468), abs=0.01)
    assert pure.right == pytest.approx(10.0, abs=0.001)
    (counted,) = of("26")
    assert (counted.claimed, counted.right) == pytest.approx((1.0, 3.38), abs=0.01)


@pytest.mark.parametrize(("ratings", "rate", "least"), [(100, 0.03, "122.2"), (10, 1e-3, "4.174")])
def test_users_of_fewer_ratings_have_the_epsilons_that_are_told(
    rows: dict[str, CatalogueRow], ratings: int, rate: float, least: str
) -> None:
    system = HflSgdmf(rounds=1000, local_steps=1, learning_rate=rate)
    sizes = Population(n_users=943, n_items=2 * ratings)
    mechanism = system.mechanism(scope_of(Unit.RATING), sizes)
    shown = exact_lower_bound(mechanism, scope_of(Unit.RATING), 1e-5)
    assert f"at least {least}" in f"{plain_words(rows['24'])} {rows['24'].reason}"
    assert shown.epsilon == pytest.approx(float(least), rel=1e-3)
    assert shown.epsilon >= float(least)


def test_a_user_of_half_of_all_items_has_the_epsilon_of_the_finding(
    rows: dict[str, CatalogueRow],
) -> None:
    finding = rows["24"].finding
    assert finding is not None
    assert finding.shown is not None
    system = HflSgdmf(rounds=1000, local_steps=1, learning_rate=0.1)
    mechanism = system.mechanism(scope_of(Unit.RATING), Population(n_users=943, n_items=1682))
    shown = exact_lower_bound(mechanism, scope_of(Unit.RATING), 1e-5)
    assert shown.epsilon == pytest.approx(finding.shown.epsilon, rel=1e-3)
    assert shown.epsilon == pytest.approx(1702, rel=1e-3)


def test_a_replacement_has_more_than_twice_the_delta() -> None:
    (number,) = of("27")
    assert number.claimed == pytest.approx(2e-5)
    assert number.right == pytest.approx((1 + math.e) * 1e-5)
    assert number.word is Arithmetic.WRONG
    presence, replaced = (
        Scope(unit=Unit.USER, adjacency=change, vantage=Vantage.SERVER, horizon=Horizon.TRAINING)
        for change in (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
    )
    one = Bound(epsilon=1.0, delta=1e-5, side=Side.UPPER, scope=presence, source="claimed")
    two = convert(one, replaced)
    assert (two.epsilon, two.delta) == pytest.approx((2.0, number.right))


def test_tags_hide_single_outputs_and_no_set_of_them() -> None:
    (number,) = of("27b")
    assert number.claimed == pytest.approx(1e-3)
    assert number.right == pytest.approx(1.0)


def test_constants_differ_by_what_they_are_to_hold_over() -> None:
    (number,) = of("26c")
    assert (number.claimed, number.right) == pytest.approx((1.0, 12.65 / 1.636), abs=0.005)


def test_the_package_is_tighter_than_the_theorem_and_not_exact() -> None:
    """The conversions by hand, of the sampled Gaussian's moments at integer orders."""
    package, theorem = of("26d")
    assert (package.word, theorem.word) == (Arithmetic.LOOSE, Arithmetic.LOOSE)
    assert package.right == pytest.approx(1.0, abs=1e-3)
    z, q, steps, delta = numbers.EXACT, 0.01, 1000, 1e-5
    tight, plain = [], []
    for order in range(2, 64):
        k = np.arange(order + 1)
        terms = stats.binom.logpmf(k, order, q) + k * (k - 1) / (2 * z**2)
        moment = steps * special.logsumexp(terms)  # (order - 1) times the divergence
        plain.append((moment - math.log(delta)) / (order - 1))
        tight.append(plain[-1] + math.log1p(-1 / order) - math.log(order) / (order - 1))
    assert package.claimed == pytest.approx(min(tight), rel=1e-3)
    assert theorem.claimed == pytest.approx(min(plain), rel=1e-3)


def test_the_projection_is_to_the_nearest_point() -> None:
    assert nearest(5.0) <= 1e-9
    point = np.array([3.0, -1.0])
    found = optimize.minimize(
        lambda x: ((x - point) ** 2).sum(),
        [0.5, 0.5],
        bounds=[(0, None)] * 2,
        constraints={"type": "ineq", "fun": lambda x: 5 - x @ x},
    ).x
    np.testing.assert_allclose(clip_embedding(point, 5.0), found, atol=1e-4)


def test_the_divisor_tells_of_a_rating() -> None:
    scale, late = of("27d")
    assert scale.right == pytest.approx(0.5)
    assert late.right == pytest.approx(9 * 100_000 / 943)
    (tuned,) = of("27e")
    assert tuned.right > 2 * tuned.claimed


def test_noise_multipliers_of_the_derivation_are_those_of_epsilon_one() -> None:
    """Ten sampled Gaussians by the mixture's own tails, composed by a plain convolution."""
    z, q, step = numbers.TEN, 0.01, 1e-3
    x = np.linspace(-12 * z, 1 + 12 * z, 400_001)
    losses = np.log1p(q * np.expm1((x - 0.5) / z**2))
    mass = np.diff((1 - q) * stats.norm.cdf(x, 0, z) + q * stats.norm.cdf(x, 1, z))
    cells = np.rint(losses[:-1] / step).astype(int)
    low = cells.min()
    one = np.bincount(cells - low, weights=mass)
    total = one
    for _ in range(9):
        total = signal.fftconvolve(total, one)
    at = step * (10 * low + np.arange(len(total)))
    delta = float(np.maximum(-np.expm1(1.0 - at), 0.0) @ np.where(at > 1.0, total, 0.0))
    assert delta == pytest.approx(1e-5, rel=0.05)


def test_a_replaced_rating_moves_by_the_golden_ratio() -> None:
    """A search over both users, lengths and ratings finds no more than the grid; by hand, too."""
    same, other = of("21c")
    assert same.right == pytest.approx((1 + math.sqrt(5)) / 2, rel=1e-4)
    assert other.right == pytest.approx(math.sqrt(2))

    def apart(x: np.ndarray) -> float:
        u, w, v = clip_embedding(math.sqrt(5) * np.abs(x[:6]).reshape(3, 2), 5.0)
        one, two = 5 * special.expit(x[6:])
        return -float(np.linalg.norm((one - u @ v) * u - (two - w @ v) * w))

    rng = np.random.default_rng(1)
    best = max(
        -optimize.minimize(apart, rng.normal(size=8), method="Nelder-Mead").fun for _ in range(12)
    )
    assert 0.95 * same.right < best / 5**1.5 <= same.right * (1 + 1e-4)


def test_single_messages_are_worth_their_sum() -> None:
    (number,) = of("22e")
    assert number.right == pytest.approx(1 / (2 - 0.3))
    assert number.word is RIGHT


def test_dropouts_leave_the_sum_enough_and_the_messages_too_little() -> None:
    """By regression: 40,000 rounds of ten users, of whom eight and then six survive."""
    last, joint = of("22f")
    a, b, omega = 0.8, 0.8, 0.3
    assert joint.right == pytest.approx(a * (b / (1 - omega + a) + (1 - b) / (1 - omega)))
    assert (last.word, joint.word) == (RIGHT, WRONG)
    rng, runs = np.random.default_rng(3), 40_000
    first = rng.normal(0, math.sqrt(1 / 7), (runs, 8))
    second = rng.normal(0, math.sqrt(1 / 8), (runs, 6))
    told = second - first[:, :6]
    noise = first.sum(axis=1)
    fitted = np.linalg.lstsq(told, noise, rcond=None)[0]
    left = (noise - told @ fitted).var()
    expected = 6 / (7 + 8) + 2 / 7  # a and b by head
    assert left == pytest.approx(expected, rel=0.05)


def test_nobody_shuffles_for_gd_dr() -> None:
    (number,) = of("22g")
    assert number.claimed < 1.0
    assert number.right == pytest.approx(10 * 1.0)
