"""DPLCF: the mended matrices, the estimator, the scores, and what the targets say of themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountants.errors import InputError
from accountants.scope import Unit, Vantage
from auditor.exact import delta_at, exact_lower_bound
from targets.datasets.base import Interactions
from targets.systems._dplcf import (
    estimate_jaccard,
    inverse_transition,
    neighbourhoods,
    transition,
)
from targets.systems.base import Population
from targets.systems.dplcf_ap import DplcfAp
from targets.systems.dplcf_sp import DplcfSp

flips = st.tuples(st.floats(0.51, 1.0), st.floats(0.01, 0.49))


def pair_law(p: float, q: float) -> np.ndarray:
    """A by brute force: the law of two flipped bits, pair by pair (column: true, row: uploaded)."""

    def one(uploaded: int, true: int) -> float:
        keep = p if true else q
        return keep if uploaded else 1 - keep

    pairs = [(a, b) for a in (0, 1) for b in (0, 1)]
    return np.array([[one(u, a) * one(v, b) for (a, b) in pairs] for (u, v) in pairs])


@given(flips)
def test_transition_is_the_law_of_two_independent_flips(flip: tuple[float, float]) -> None:
    np.testing.assert_allclose(transition(*flip), pair_law(*flip), atol=1e-12)


@given(flips)
def test_inverse_transition_inverts_it(flip: tuple[float, float]) -> None:
    product = inverse_transition(*flip) @ transition(*flip)
    np.testing.assert_allclose(product, np.eye(4), atol=1e-9)


def test_the_printed_matrix_is_not_a_law() -> None:
    """Equation 6 as printed, entries (2,1) and (3,1) equal to (1-q) p: its columns miss 1."""
    p, q = 0.7, 0.2
    printed = transition(p, q)
    printed[1, 0] = printed[2, 0] = (1 - q) * p
    assert not np.allclose(printed.sum(axis=0), 1.0)
    np.testing.assert_allclose(transition(p, q).sum(axis=0), 1.0)


def test_the_printed_inverse_does_not_invert() -> None:
    """Equation 11 as printed, for p = 1."""
    q = math.exp(-1.0)
    printed = np.array(
        [
            [1 / (1 - q), 0, 0, 0],
            [0, 1, 0, 0],
            [0, 0, 1, 0],
            [-(q**2) / (1 - q), 0, -q, 1 - q],
        ]
    ) / (1 - q)
    assert not np.allclose(printed @ transition(1.0, q), np.eye(4), atol=0.01)


@given(flips, st.integers(0, 2**32 - 1))
def test_estimated_similarity_is_the_pairwise_oracle(flip: tuple[float, float], seed: int) -> None:
    """All pairs at once against equation 7 pair by pair."""
    p, q = flip
    bits = np.random.default_rng(seed).random((30, 4)) < 0.5
    found = estimate_jaccard(bits.astype(np.float32), p, q)
    inverse = inverse_transition(p, q)
    for i in range(4):
        for j in range(4):
            if i == j:
                assert found[i, j] == 0
                continue
            codes = 2 * bits[:, i] + bits[:, j]
            _, n01, n10, n11 = inverse @ np.bincount(codes, minlength=4)
            first, second = (min(max(n11 + rest, 1), 30) for rest in (n10, n01))
            together = min(max(n11, 0), first, second)
            expected = together / (first + second - together)
            assert found[i, j] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_estimate_is_unbiased_for_intersection_and_union() -> None:
    """The mean over many uploads of the debiased counts approaches the true ones."""
    rng = np.random.default_rng(1)
    true = rng.random((400, 2)) < [0.5, 0.3]
    target = DplcfSp(epsilon=1.0)
    p, q = target.flip.p, target.flip.q
    profiles = Interactions.of(true)
    bits = target.upload(profiles, None, rng, 2000).components["bits"].dense(np.arange(800_000))
    bits = bits.reshape(400, 2000, 2)
    debiased = (bits - q) / (p - q)
    products = (debiased[..., 0] * debiased[..., 1]).sum(axis=0)
    error = products.std() / math.sqrt(len(products))
    assert abs(products.mean() - (true[:, 0] & true[:, 1]).sum()) < 5 * error


def test_without_noise_similarity_is_jaccard() -> None:
    rng = np.random.default_rng(2)
    true = rng.random((50, 5)) < 0.4
    found = estimate_jaccard(true.astype(np.float32), 1.0, 0.0)
    for i in range(5):
        for j in range(5):
            if i != j:
                expected = (true[:, i] & true[:, j]).sum() / (true[:, i] | true[:, j]).sum()
                assert found[i, j] == pytest.approx(expected)


def test_scores_add_the_neighbours_in_the_history() -> None:
    """Equation 12 by hand on three items, neighbourhood of one."""
    similarity = np.array([[0.0, 0.5, 0.2], [0.5, 0.0, 0.1], [0.2, 0.1, 0.0]])
    nearest = neighbourhoods(similarity, 1).toarray()
    np.testing.assert_array_equal(nearest, [[0, 0.5, 0], [0.5, 0, 0], [0.2, 0, 0]])


def test_neighbourhoods_never_hold_the_item_itself() -> None:
    rng = np.random.default_rng(3)
    similarity = rng.random((6, 6))
    np.fill_diagonal(similarity, 0.0)
    assert (neighbourhoods(similarity, 20).toarray().diagonal() == 0).all()


POPULATION = Population(n_users=50, n_items=40)


def test_symmetric_claim_is_tight_and_the_user_has_all_items_of_it() -> None:
    target = DplcfSp(epsilon=0.7)
    own, user = target.questions(POPULATION)
    for question, epsilon in ((own, 0.7), (user, 0.7 * 40)):
        mechanism = target.mechanism(question.scope, POPULATION)
        assert mechanism is not None
        bound = exact_lower_bound(mechanism, question.scope)
        assert bound.epsilon == pytest.approx(epsilon)
    assert user.scope.unit is Unit.USER
    assert not own.claim.scope.covers(user.scope)


def test_asymmetric_claim_is_broken_by_an_uploaded_zero() -> None:
    target = DplcfAp(epsilon=1.0)
    own, _ = target.questions(POPULATION)
    mechanism = target.mechanism(own.scope, POPULATION)
    assert mechanism is not None
    bound = exact_lower_bound(mechanism, own.scope)
    assert math.isinf(bound.epsilon)
    assert bound.witness is not None
    assert bound.witness.output == "uploaded bit 0"
    possible, impossible = bound.witness.probability_a, bound.witness.probability_b
    assert (possible, impossible) == (pytest.approx(1 - math.exp(-1)), 0.0)
    assert delta_at(target.flip, 1.0) == pytest.approx(1 - math.exp(-1))


@pytest.mark.parametrize("target", [DplcfSp(), DplcfAp()])
def test_run_uploads_one_flipped_bit_an_item(target: DplcfSp | DplcfAp) -> None:
    rng = np.random.default_rng(4)
    data = Interactions.of((rng.random((60, 25)) < 0.3) * 4.0)
    run = target.run(data, rng)
    (uploads, bits), *rest = run.transcript.view(Vantage.SERVER).component("bits")
    assert not rest
    assert bits.dense(uploads.users).shape == (60, 25)
    scores = target.score(run.model, data, np.arange(10))
    assert scores.shape == (10, 25)
    nearest = run.model.arrays["nearest"].toarray()
    np.testing.assert_allclose(scores[3], nearest @ (data.ratings.toarray()[3] > 0))


def test_uploads_follow_the_flip() -> None:
    rng = np.random.default_rng(5)
    profiles = Interactions.of(np.array([[5.0, 0.0]]))
    target = DplcfAp(epsilon=1.0)
    bits = target.upload(profiles, None, rng, 20_000).components["bits"].dense(np.arange(20_000))
    assert bits[:, 0].all()
    share = bits[:, 1].mean()
    assert abs(share - math.exp(-1)) < 5 * math.sqrt(0.25 / 20_000)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, math.inf])
def test_bad_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        DplcfSp(epsilon=epsilon)


def test_bad_neighbourhood_is_refused() -> None:
    with pytest.raises(InputError, match="neighbours=0"):
        DplcfAp(neighbours=0)
