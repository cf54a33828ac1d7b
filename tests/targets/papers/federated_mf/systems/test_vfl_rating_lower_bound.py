"""VFL-SGDMF's lower bound for a rating against its own code, and where there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate, exact_bounds
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import RevealedGaussian
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import drawn_alone
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import AtLeast
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Calls
from tests.points import later

LARGE = Population(n_users=1000, n_items=1682)
ITEMS = 400


def scope(vantage: Vantage = Vantage.SERVER, unit: Unit = Unit.RATING) -> Scope:
    return scope_of(unit, vantage)


def system(**more: Any) -> VflSgdmf:
    return VflSgdmf(
        **{
            "parties": 1,
            "rounds": 1000,
            "local_steps": 1,
            "tuning": 0,
            "learning_rate": 1e-15,
            **more,
        }
    )


def bound_of(target: VflSgdmf, population: Population = LARGE) -> AtLeast:
    found = target.mechanism(scope(), population)
    assert isinstance(found, AtLeast)
    assert isinstance(found.mechanism, RevealedGaussian)
    return found


@pytest.mark.parametrize("factors", [1, 4, later(20)])
def test_half_of_all_parties_send_at_least_what_the_law_has(factors: int) -> None:
    """One step of parties of one user, who is drawn: what is sent, beside V as it was released."""
    target = system(rounds=1, factors=factors)
    found, runs = bound_of(target, Population(n_users=1000, n_items=ITEMS)), 1500
    table = np.full((2, ITEMS), 5.0)
    table[1, 0] = 0.0
    both = Interactions.of(np.repeat(table, runs, axis=0))
    sigma = target.descent(1).user_sigma
    start = 8 * 1e-15 * sigma
    users = np.full((2 * runs, factors), start, np.float32)
    sent, items = target.alone(
        Calls(both, 1, {}, np.random.default_rng(1)),
        1,
        lambda block, part, own: (users[block], drawn_alone(target, part, own)[1]),
    )
    step_scale = 1.0 / np.repeat([ITEMS, ITEMS - 1], runs)  # ratings of its row
    moved = (sent.astype(float) - users).sum(axis=1) / (1e-15 * step_scale * math.sqrt(factors))
    along = items.astype(float).sum(axis=2) / math.sqrt(factors)  # of every item, (n, m)
    told, own = 2 * 5 * along[:, 1:].sum(axis=1), 2 * 5 * along[:, 0]
    noise = (moved - told - own * (np.arange(2 * runs) < runs)) / sigma
    assert stats.kstest(noise, "norm").pvalue > 1e-9
    # the ratings around it show that the row was drawn, and its own shift is large in half of them
    assert (told / sigma).min() > 16
    share = (own / sigma >= 1 / found.mechanism.noise_multiplier).mean()
    assert share > found.share - 6 * 0.5 / math.sqrt(2 * runs)
    assert 1 / found.mechanism.noise_multiplier == pytest.approx(
        0.49 / math.sqrt(2) / 1.8, rel=1e-3
    )


def test_the_row_is_drawn_as_often_as_n_rows_have_n_prime() -> None:
    found = bound_of(system()).mechanism
    assert (found.sampling_probability, found.count) == (0.01, 1000)
    found = bound_of(system(), Population(n_users=943, n_items=1682)).mechanism
    assert found.sampling_probability == 9 / 943


def test_theorem_3_falls_and_its_repair_stands() -> None:
    for target, verdict in ((system(), "V"), (system(as_published=False), "C")):
        (scoped, _) = target.scoped_claims(LARGE)
        exact = exact_bounds(target, LARGE)
        found = evaluate(target, scoped, LARGE, exact=exact, accountants=all_accountants())
        assert found.verdict[0] == verdict


@pytest.mark.parametrize("factors", [1, 2, 20])
@pytest.mark.parametrize("z", [0.7, 1.8, 4.0])
def test_the_law_stays_below_what_is_charged(factors: int, z: float) -> None:
    target = system(factors=factors, noise_multiplier=z)
    found = bound_of(target)
    least = exact_lower_bound(found, scope(), 1e-5).epsilon
    event = target.event(scope(), LARGE)
    owed = min(
        accountant.bound(event, delta=1e-5, scope=scope()).epsilon
        for accountant in all_accountants()
        if accountant.supports(event)
    )
    assert 0.05 * owed < least < owed / 2


def test_accidents_are_rare_at_small_steps_and_forbid_large_ones() -> None:
    found = bound_of(system())
    assert found.given_away < 1e-6
    assert found.mistaken < 1e-15
    faster = bound_of(system(learning_rate=1e-13))
    assert found.given_away < faster.given_away < 1e-3
    assert system(learning_rate=1e-6).mechanism(scope(), LARGE) is None


def test_no_law_where_none_is_known() -> None:
    for target in (
        VflSgdmf(),
        system(as_published=False),
        system(unit="user"),
        system(noise_multiplier=0.0),
        system(local_steps=2, rounds=500),
        system(split="category"),
    ):
        assert target.mechanism(scope(), LARGE) is None
    target = system()
    assert target.mechanism(scope(Vantage.RELEASE), LARGE) is None
    assert target.mechanism(scope(unit=Unit.USER), LARGE) is None
    assert target.mechanism(replace(scope(), adjacency=Adjacency.REPLACE), LARGE) is None
    assert target.mechanism(replace(scope(), horizon=Horizon.ROUND), LARGE) is None
    assert target.mechanism(scope(), Population(n_users=9, n_items=2)) is None
