"""What every target must keep: run over all of them, plug-ins included."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from accountants.scope import Vantage
from attacks.likelihood_ratio import LikelihoodRatio
from auditor.accounting import all_accountants, exact_bounds, least_upper_bound
from auditor.estimators.clopper_pearson import ClopperPearson
from auditor.exact import exact_lower_bound
from auditor.families import FAMILIES
from auditor.games import local
from targets.systems.base import Population, Target

USERS, ITEMS = 30, 20
POPULATION = Population(n_users=USERS, n_items=ITEMS)


@pytest.fixture(params=FAMILIES["targets"].names())
def target(request: pytest.FixtureRequest) -> Target:
    made: Target = FAMILIES["targets"].member(request.param)()
    assert made.name == request.param
    return made


@pytest.fixture
def ratings() -> sparse.csr_array:
    rng = np.random.default_rng(0)
    dense = (rng.random((USERS, ITEMS)) < 0.3) * rng.integers(1, 6, (USERS, ITEMS))
    dense[:, 0] = 4  # nobody has an empty history
    return sparse.csr_array(dense.astype(np.float32))


def sent(target: Target, ratings: sparse.csr_array, seed: int) -> list[np.ndarray]:
    """Every message of every round of one training."""
    transcript = target.run(ratings, np.random.default_rng(seed)).transcript
    view = transcript.view(Vantage.SERVER)
    return [
        component.dense(np.arange(USERS))
        for glimpse in view.rounds
        if glimpse.uploads is not None
        for component in glimpse.uploads.components.values()
    ]


def test_equal_generators_give_equal_transcripts(target: Target, ratings: sparse.csr_array) -> None:
    first, again, other = (sent(target, ratings, seed) for seed in (1, 1, 2))
    assert first
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert any(not np.array_equal(one, two) for one, two in zip(first, other, strict=True))


def test_a_run_leaves_its_input_alone(target: Target, ratings: sparse.csr_array) -> None:
    before = ratings.toarray().copy()
    target.run(ratings, np.random.default_rng(0))
    np.testing.assert_array_equal(ratings.toarray(), before)


def test_every_user_is_in_every_round_and_progress_is_told(
    target: Target, ratings: sparse.csr_array
) -> None:
    steps: list[tuple[int, int]] = []
    run = target.run(
        ratings, np.random.default_rng(0), lambda done, total: steps.append((done, total))
    )
    rounds = run.transcript.rounds
    assert steps == [(done, len(rounds)) for done in range(1, len(rounds) + 1)]
    for one in rounds:
        np.testing.assert_array_equal(one.uploads.users, np.arange(USERS))


def test_scores_cover_all_items(target: Target, ratings: sparse.csr_array) -> None:
    model = target.run(ratings, np.random.default_rng(0)).model
    every = target.score(model, ratings, np.arange(USERS))
    assert every.shape == (USERS, ITEMS)
    assert np.isfinite(every).all()
    some = np.array([5, 2])
    np.testing.assert_allclose(target.score(model, ratings, some), every[some], atol=1e-9)


def test_the_first_question_of_every_claim_is_in_its_own_scope(target: Target) -> None:
    questions = target.questions(POPULATION)
    assert questions
    for claim in {id(q.claim): q.claim for q in questions}.values():
        first = next(q for q in questions if q.claim == claim)
        assert first.scope == claim.scope
        assert claim.source
        assert claim.statement
    for question in questions:
        if question.scope != question.claim.scope:
            assert question.note, "say why a reader would ask this"


def test_no_exact_lower_bound_exceeds_a_proved_upper_bound(target: Target) -> None:
    accountants = all_accountants()
    for lower in exact_bounds(target, POPULATION):
        upper = least_upper_bound(target, lower.scope, POPULATION, lower.delta, accountants)
        assert upper is not None
        assert lower.epsilon <= upper.epsilon * (1 + 1e-9)


def test_weaker_vantages_are_never_proved_worse(target: Target) -> None:
    accountants = all_accountants()
    for question in target.questions(POPULATION):
        epsilons = []
        for vantage in (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE, Vantage.RELEASE):
            fields = {
                name: getattr(question.scope, name) for name in ("unit", "adjacency", "horizon")
            }
            scope = type(question.scope)(vantage=vantage, **fields)
            bound = least_upper_bound(target, scope, POPULATION, 1e-6, accountants)
            assert bound is not None
            epsilons.append(bound.epsilon)
        assert all(
            after <= before * (1 + 1e-9)
            for before, after in itertools.pairwise(epsilons)
            if not math.isinf(before)
        )


def test_sampled_uploads_never_beat_the_exact_bound_nor_fall_far_below(target: Target) -> None:
    """The client's code, sampled, agrees with the law that the target states for it.

    At confidence 1 - 1e-9 the bound must not exceed the stated law's; and with 50,000 uploads a
    world it must reach at least 0.8 of it (or 6.0 where it is infinite): else the code does not
    do what it says.
    """
    for challenge in target.challenges():
        game = local.play(
            challenge,
            LikelihoodRatio(),
            ClopperPearson(),
            name="likelihood-ratio",
            samples=50_000,
            delta=0.0,
            confidence=1 - 1e-9,
            row_confidence=0.95,
            rng=np.random.default_rng(7),
        )
        small = Population(n_users=USERS, n_items=challenge.profiles.shape[1])
        mechanism = challenge.target.mechanism(challenge.scope, small)
        assert mechanism is not None
        exact = exact_lower_bound(mechanism, challenge.scope).epsilon
        assert game.bound.epsilon <= exact
        assert game.bound.epsilon >= min(0.8 * exact, 6.0)
