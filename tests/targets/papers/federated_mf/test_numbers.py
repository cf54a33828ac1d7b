"""Headings 21 to 28: verdicts, and numbers by an independent method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal, special, stats

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
)
from fedrec_auditor.accountants.theorems.conversions import convert_bound
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.judging.catalogue import judge_entries
from fedrec_auditor.reports.documents.catalogue import CatalogueRow, explain_verdict
from fedrec_auditor.targets.declarations.entry import ComputedNumber
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.federated_mf import gradients, numbers
from fedrec_auditor.targets.papers.federated_mf.gradients import compute_item_gradient_norm
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.systems.base import Population

PAPER = Paper.load("fedrec_auditor.targets.papers.federated_mf")
ONE = 2 * 5**1.5


def get_statement(number: str) -> tuple[ComputedNumber, ...]:
    return PAPER.compute_numbers(PAPER.get_entry(number))


@pytest.fixture(scope="module")
def rows() -> dict[str, CatalogueRow]:
    return {row.number: row for row in judge_entries([PAPER.get_entry(n) for n in ("24",)])}


def test_sensitivities_are_the_closed_forms() -> None:
    for count in (1, 2, 5):
        alone = gradients.find_max_gradient_norm(5.0, ratings=count, with_users=False)
        both = gradients.find_max_gradient_norm(5.0, ratings=count, with_users=True)
        assert alone == pytest.approx(ONE * math.sqrt(count))
        assert both == pytest.approx(ONE * math.sqrt(count**2 + count))
    assert compute_item_gradient_norm(5.0, length=1.0) == pytest.approx(0.0, abs=1e-9)  # x = u.v
    near, far = (compute_item_gradient_norm(5.0, length=length) for length in (1.5, 1e3))
    assert far > 1e3 * near


@pytest.mark.parametrize("count", [10, 100])
def test_turned_embeddings_move_rows_within_the_charge(count: int) -> None:
    moved = gradients.compute_shift_by_rating(5.0, ratings=count, n_fit_steps=20) / ONE
    assert 1.2 * math.sqrt(count) < moved < math.sqrt(2 * count + 1)
    farther = gradients.compute_shift_by_rating(5.0, ratings=count, n_fit_steps=4000) / ONE
    assert farther > 1.37 * math.sqrt(count)


@pytest.mark.parametrize(("ratings", "rate", "eps"), [(100, 0.03, "122.2"), (10, 1e-3, "4.174")])
def test_users_of_fewer_ratings_have_the_stated_epsilons(
    rows: dict[str, CatalogueRow], ratings: int, rate: float, eps: str
) -> None:
    system = HflSgdmf(rounds=1000, local_steps=1, learning_rate=rate)
    sizes = Population(n_users=943, n_items=2 * ratings)
    get_mechanism = system.get_mechanism(make_claim_scope(Unit.RATING), sizes)
    shown = find_exact_bound(get_mechanism, make_claim_scope(Unit.RATING), 1e-5)
    assert f"at least {eps}" in f"{explain_verdict(rows['24'])} {rows['24'].reason}"
    assert shown.epsilon == pytest.approx(float(eps), rel=1e-3)
    assert shown.epsilon >= float(eps)


def test_a_user_of_half_of_all_items_has_the_epsilon_of_the_finding(
    rows: dict[str, CatalogueRow],
) -> None:
    finding = rows["24"].finding
    assert finding is not None
    assert finding.lower_bound is not None
    system = HflSgdmf(rounds=1000, local_steps=1, learning_rate=0.1)
    sizes = Population(n_users=943, n_items=1682)
    mechanism = system.get_mechanism(make_claim_scope(Unit.RATING), sizes)
    shown = find_exact_bound(mechanism, make_claim_scope(Unit.RATING), 1e-5)
    assert shown.epsilon == pytest.approx(finding.lower_bound.epsilon, rel=1e-3)
    assert shown.epsilon == pytest.approx(1702, rel=1e-3)


def test_a_replacement_has_more_than_twice_the_delta() -> None:
    (number,) = get_statement("27")
    presence, replaced = (
        Scope(unit=Unit.USER, adjacency=change, vantage=Vantage.SERVER, horizon=Horizon.TRAINING)
        for change in (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
    )
    one = Bound(epsilon=1.0, delta=1e-5, side=Side.UPPER, scope=presence, source="claimed")
    two = convert_bound(one, replaced)
    assert (two.epsilon, two.delta) == pytest.approx((2.0, number.right))


def test_the_package_is_between_the_theorem_and_the_exact_value() -> None:
    """The conversions by hand, from the sampled Gaussian's moments at integer orders."""
    package, theorem = get_statement("26d")
    z, q, steps, delta = numbers.Z_1000_STEPS, 0.01, 1000, 1e-5
    tight, plain = [], []
    for order in range(2, 64):
        k = np.arange(order + 1)
        terms = stats.binom.logpmf(k, order, q) + k * (k - 1) / (2 * z**2)
        moment = steps * special.logsumexp(terms)  # (order - 1) times the divergence
        plain.append((moment - math.log(delta)) / (order - 1))
        tight.append(plain[-1] + math.log1p(-1 / order) - math.log(order) / (order - 1))
    assert package.claimed == pytest.approx(min(tight), rel=1e-3)
    assert theorem.claimed == pytest.approx(min(plain), rel=1e-3)


def test_noise_multipliers_of_the_derivation_are_those_of_epsilon_one() -> None:
    """Ten sampled Gaussians by the mixture's own tails, composed by a plain convolution."""
    z, q, step = numbers.Z_10_STEPS, 0.01, 1e-3
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
