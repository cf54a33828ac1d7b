"""Lower bounds of HFL-SGDMF and VFL-SGDMF, compared with the systems' code on worst-case inputs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.judging.accounting import list_accountants
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import RevealedGaussian, SampledGaussian
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts import party_mf, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import draw_user_item_vectors
from fedrec_auditor.targets.papers.federated_mf.systems.parts.lower_bounds import (
    LowerBoundMechanism,
    find_min_rate_ratio,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import UploadRequest
from tests.points import later
from tests.targets.papers.tables import judge

ONE = 2 * 5**1.5


ITEMS, USERS = 40, 4


SMALL = Population(n_users=USERS, n_items=ITEMS)


LARGE = Population(n_users=943, n_items=1682)


def make_system(**more: Any) -> HflSgdmf:
    return HflSgdmf(
        **{
            "parties": 1,
            "rate": 0.25,
            "factors": 3,
            "rounds": 50,
            "local_steps": 1,
            "learning_rate": 1e-4,
            "noise_multiplier": 1.0,
            **more,
        }
    )


def get_law(target: HflSgdmf, unit: Unit, population: Population = SMALL) -> SampledGaussian:
    found = target.get_mechanism(make_claim_scope(unit), population)
    assert isinstance(found, LowerBoundMechanism)
    assert isinstance(found.mechanism, SampledGaussian)
    return found.mechanism


def run_party(
    target: HflSgdmf, ratings: np.ndarray, first: Floats, along: Floats, trials: int, start: float
) -> np.ndarray:
    """Sums of a party's rounds along a direction of V, in units of their noise: (trials,)."""
    steps, n = target.make_descent(len(ratings)), len(ratings)
    table = sparse.csr_array(ratings)
    users = sgd_mf.fit_user_embeddings(table, first, bound=5.0, steps=target.fitting)
    scale = float(target.get_step_scale(n, ratings.shape[1], table.nnz))
    items = start * (along != 0).astype(np.float32)
    rng, out = np.random.default_rng(5), np.empty(trials)
    size = target.learning_rate * scale * target.make_noise(1).sigma * math.sqrt(target.local_steps)
    for k in range(trials):
        _, sent = steps.train(
            users, items, table, rng, user_scale=0.0, item_scale=scale, count=target.local_steps
        )
        out[k] = np.vdot(sent.astype(float) - items, along) / size
    return out / np.linalg.norm(along)


def make_worlds(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ratings with and without the last of ``count`` + 1, the first V, and the direction."""
    table = np.zeros((USERS, ITEMS))
    table[0, : count + 1] = 5.0
    table[1:, count + 1 :] = 5.0
    without = table.copy()
    without[0, count] = 0.0
    first, along = np.zeros((ITEMS, 3)), np.zeros((ITEMS, 3))
    first[:count, 1], first[count, 0] = 1e-4 * math.sqrt(5) / count, math.sqrt(5)
    along[:count, 0], along[:count, 1] = 1.0, -1.0
    return table, without, first, along


@pytest.mark.parametrize("steps", [1, 3])
def test_a_rating_moves_the_message_at_least_as_far_as_stated(steps: int) -> None:
    """Drawn rounds, visible in the sum, move one way with the rating and the other way without."""
    target = make_system(local_steps=steps, noise_multiplier=0.3)
    law, trials = get_law(target, Unit.RATING), 3000
    count = ITEMS // 2 - 1
    there, gone, first, along = make_worlds(count)
    unit = law.noise_multiplier * math.sqrt(steps)
    start = (8 if steps == 1 else 12) * 1e-4 / 20 * target.make_noise(1).sigma * math.sqrt(steps)
    for table, shift in ((there, 1 / unit), (gone, -law.opposite / unit)):
        seen = run_party(target, table, first, along, trials, start)
        draws = np.rint(np.abs(seen) / abs(shift) / 1.02)
        for k in (0, 1):
            chosen = seen[draws == k]
            share = stats.binom.pmf(k, steps, 0.25)
            assert len(chosen) / trials == pytest.approx(share, abs=6 * math.sqrt(0.25 / trials))
            error = 6 / math.sqrt(len(chosen))
            # at least as far, and no more than the losses for u.v and the margin
            assert chosen.mean() * np.sign(shift) > k * abs(shift) - error
            assert chosen.mean() * np.sign(shift) < 1.08 * k * abs(shift) + error
            assert chosen.std() == pytest.approx(1.0, abs=0.01 + error)


def test_a_user_moves_the_message_as_far_as_stated() -> None:
    target = make_system(unit="user", trim=4, noise_multiplier=0.3)
    law, trials = get_law(target, Unit.USER), 3000
    table = np.zeros((USERS, ITEMS))
    table[0, :4], table[1:, 4:8] = 5.0, 5.0
    first, along = np.zeros((ITEMS, 3)), np.zeros((ITEMS, 3))
    first[:4, 0], along[:4, 0] = 1e-4 * math.sqrt(5) / 4, 1.0
    seen = run_party(target, table, first, along, trials, 0.05)
    # theta times the noise for sqrt(theta) times the distance
    assert law.noise_multiplier == pytest.approx(0.3 * math.sqrt(4), rel=0.1)
    share = seen.mean() * law.noise_multiplier  # shift of drawn rounds, as the distribution has it
    assert share == pytest.approx(0.25, abs=6 * (0.5 + law.noise_multiplier) / math.sqrt(trials))
    gone = run_party(target, table * (np.arange(USERS) > 0)[:, None], first, along, trials, 0.05)
    assert gone.mean() == pytest.approx(0.0, abs=6 / math.sqrt(trials))


@pytest.mark.parametrize("count", [10, 100])
def test_one_rating_turns_an_embedding_by_nearly_90_degrees(count: int) -> None:
    there, gone = (np.array(u) for u in sgd_mf.fit_neighbouring_users(5.0, 2, 20, count))
    assert np.linalg.norm(gone) == pytest.approx(math.sqrt(5), rel=1e-5)
    assert math.degrees(math.acos(there @ gone / 5.0)) > 75
    there, gone = (np.array(u) for u in sgd_mf.fit_neighbouring_users(5.0, 2, 2000, count))
    assert math.degrees(math.acos(there @ gone / 5.0)) > 86


def test_verdicts_of_movielens() -> None:
    """Both claims per rating are false; Proposition 3 is false for a user of one rating."""
    steps = {"rounds": 1000, "local_steps": 1}
    user = {"unit": "user", "trim": 1, "noise_multiplier": 2.0, "learning_rate": 1e-5}
    for target, verdicts in (
        (HflSgdmf(), "VV"),
        (HflSgdmf(**steps), "VV"),
        (HflSgdmf(**user), "VU"),
        (HflSgdmf(**user, as_published=False), "C"),
        (HflSgdmf(as_published=False), "C"),
    ):
        for found, verdict in zip(judge(target, LARGE), verdicts, strict=False):
            assert found.verdict[0] == verdict, (target, found.claim.source)


def test_lower_bounds_are_between_the_claim_and_the_charge() -> None:
    found = {}
    for items in (6, 60, 600):
        population = replace(LARGE, n_items=items)
        law = HflSgdmf(rounds=1000, local_steps=1, learning_rate=1e-4).get_mechanism(
            make_claim_scope("rating"), population
        )
        found[items] = find_exact_bound(law, make_claim_scope("rating"), 1e-5).epsilon
    assert 1 < found[6] < found[60] / 5 < found[600] / 25


def test_no_lower_bound_without_a_known_distribution() -> None:
    target, scope = make_system(), make_claim_scope("rating")
    assert target.get_mechanism(scope, SMALL) is not None
    assert target.get_mechanism(replace(scope, vantage=Vantage.RELEASE), SMALL) is None
    assert target.get_mechanism(replace(scope, adjacency=Adjacency.REPLACE), SMALL) is None
    assert target.get_mechanism(make_claim_scope("user"), SMALL) is None
    assert make_system(unit="user").get_mechanism(scope, SMALL) is None
    for other in (
        make_system(as_published=False),
        make_system(noise_multiplier=0.0),
        make_system(factors=1),
        make_system(learning_rate=1.0),  # V would leave the ball
    ):
        assert other.get_mechanism(scope, SMALL) is None
    assert target.get_mechanism(scope, Population(n_users=4, n_items=3)) is None
    one_item = Population(n_users=4, n_items=1)
    assert make_system(unit="user").get_mechanism(make_claim_scope("user"), one_item) is None


@given(st.integers(1, 60), st.integers(1, 30))
def test_learning_rates_fall_within_a_round(rounds: int, steps: int) -> None:
    """Smallest ratio over all rounds, computed step by step."""
    total = rounds * steps
    rates = np.array([sgd_mf.get_learning_rate(step, total, 1.0) for step in range(total)])
    found = min(row.min() / math.sqrt((row**2).mean()) for row in rates.reshape(rounds, steps))
    assert find_min_rate_ratio(rounds, steps) == pytest.approx(found, rel=1e-13)
    assert find_min_rate_ratio(rounds, steps) <= 1.0


def test_learning_rates_of_any_number_of_steps_are_summed_up_at_once() -> None:
    many, fewer = (find_min_rate_ratio(10, steps) for steps in (10**9, 10**4))
    assert many == pytest.approx(fewer, rel=1e-4)
    assert 0.9 < find_min_rate_ratio(10, 10) < find_min_rate_ratio(10**9, 10) < 1
    assert find_min_rate_ratio(100, 1) == find_min_rate_ratio(10**9, 1) == 1.0


def test_parties_draw_entire_rows() -> None:
    assert party_mf.get_size_range(943, 10) == (94, 95)
    assert party_mf.get_sampling_range(party_mf.get_size_range(943, 10), 0.01) == (1 / 95, 1 / 94)
    assert party_mf.get_sampling_range(party_mf.get_size_range(5, 10), 0.01) == (1.0, 1.0)
    assert party_mf.get_size_range(5, 10) == (1, 1)


CROWD = Population(n_users=1000, n_items=1682)


WIDE = 400


def vertical(**more: Any) -> VflSgdmf:
    usual = {"parties": 1, "rounds": 1000, "local_steps": 1, "tuning": 0, "learning_rate": 1e-15}
    return VflSgdmf(**usual | more)


def get_bound(target: VflSgdmf, population: Population = CROWD) -> LowerBoundMechanism:
    found = target.get_mechanism(make_claim_scope("rating"), population)
    assert isinstance(found, LowerBoundMechanism)
    assert isinstance(found.mechanism, RevealedGaussian)
    return found


@pytest.mark.parametrize("factors", [1, 4, later(20)])
def test_half_of_all_parties_exceed_the_stated_shift(factors: int) -> None:
    """One step of parties of one user, whose row is drawn: the messages and the released V."""
    target = vertical(rounds=1, factors=factors)
    bound, runs = get_bound(target, Population(n_users=1000, n_items=WIDE)), 1500
    table = np.full((2, WIDE), 5.0)
    table[1, 0] = 0.0
    both = Interactions.create(np.repeat(table, runs, axis=0))
    sigma = target.make_descent(1).user_sigma
    start = 8 * 1e-15 * sigma
    users = np.full((2 * runs, factors), start, np.float32)
    sent, items = target.train_devices(
        UploadRequest(both, 1, {}, np.random.default_rng(1)),
        1,
        lambda block, part, own: (users[block], draw_user_item_vectors(target, part, own)[1]),
    )
    step_scale = 1.0 / np.repeat([WIDE, WIDE - 1], runs)  # ratings of its row
    moved = (sent.astype(float) - users).sum(axis=1) / (1e-15 * step_scale * math.sqrt(factors))
    along = items.astype(float).sum(axis=2) / math.sqrt(factors)  # of all items, (n, m)
    told, own = 2 * 5 * along[:, 1:].sum(axis=1), 2 * 5 * along[:, 0]
    noise = (moved - told - own * (np.arange(2 * runs) < runs)) / sigma
    assert stats.kstest(noise, "norm").pvalue > 1e-9
    # the ratings around it show that the row was drawn, and its own shift is large in half of them
    assert (told / sigma).min() > 16
    share = (own / sigma >= 1 / bound.mechanism.noise_multiplier).mean()
    assert share > bound.p_follows - 6 * 0.5 / math.sqrt(2 * runs)
    assert 1 / bound.mechanism.noise_multiplier == pytest.approx(
        0.49 / math.sqrt(2) / 1.8, rel=1e-3
    )


def test_rows_are_drawn_at_the_rate_of_n_prime_over_n() -> None:
    found = get_bound(vertical()).mechanism
    assert (found.sampling_probability, found.count) == (0.01, 1000)
    found = get_bound(vertical(), Population(n_users=943, n_items=1682)).mechanism
    assert found.sampling_probability == 9 / 943


def test_theorem_3_is_refuted_and_its_repair_is_not() -> None:
    for target, verdict in ((vertical(), "V"), (vertical(as_published=False), "C")):
        assert judge(target, CROWD)[0].verdict[0] == verdict


@pytest.mark.parametrize("factors", [1, 2, 20])
@pytest.mark.parametrize("z", [0.7, 1.8, 4.0])
def test_lower_bounds_are_below_the_charge(factors: int, z: float) -> None:
    target = vertical(factors=factors, noise_multiplier=z)
    found = get_bound(target)
    least = find_exact_bound(found, make_claim_scope("rating"), 1e-5).epsilon
    event = target.get_event(make_claim_scope("rating"), CROWD)
    owed = min(
        accountant.bound(event, delta=1e-5, scope=make_claim_scope("rating")).epsilon
        for accountant in list_accountants()
        if accountant.supports(event)
    )
    assert 0.05 * owed < least < owed / 2


def test_failures_are_rare_at_small_steps_and_forbid_large_ones() -> None:
    found = get_bound(vertical())
    assert found.p_deviates_present < 1e-6
    assert found.p_deviates_absent < 1e-15
    faster = get_bound(vertical(learning_rate=1e-13))
    assert found.p_deviates_present < faster.p_deviates_present < 1e-3
    assert vertical(learning_rate=1e-6).get_mechanism(make_claim_scope("rating"), CROWD) is None


def test_no_vertical_bound_without_a_known_distribution() -> None:
    for target in (
        VflSgdmf(),
        vertical(as_published=False),
        vertical(unit="user"),
        vertical(noise_multiplier=0.0),
        vertical(local_steps=2, rounds=500),
        vertical(split="category"),
    ):
        assert target.get_mechanism(make_claim_scope("rating"), CROWD) is None
    target, scope = vertical(), make_claim_scope("rating")
    assert target.get_mechanism(replace(scope, vantage=Vantage.RELEASE), CROWD) is None
    assert target.get_mechanism(make_claim_scope("user"), CROWD) is None
    assert target.get_mechanism(replace(scope, adjacency=Adjacency.REPLACE), CROWD) is None
    assert target.get_mechanism(replace(scope, horizon=Horizon.ROUND), CROWD) is None
    assert target.get_mechanism(scope, Population(n_users=9, n_items=2)) is None
