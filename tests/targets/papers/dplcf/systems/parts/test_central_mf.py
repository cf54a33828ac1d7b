"""BPR-MF and GMF on collected bits: what is sampled, what is learnt, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.dplcf.systems.factor_systems import BprMf, Gmf
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import DplcfSp
from fedrec_auditor.targets.papers.dplcf.systems.parts import central_mf as _central_mf
from fedrec_auditor.targets.papers.dplcf.systems.parts.central_mf import CentralMf, visit
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import liked

KINDS = [BprMf, Gmf]


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(1, 9), st.integers(1, 4))
def test_every_1_is_visited_once_an_epoch_with_0s_of_its_user(
    seed: int, users: int, items: int, negatives: int
) -> None:
    """Idle users, users with all items and small blocks included."""
    rng = np.random.default_rng(seed)
    bits = rng.random((users, items)) < rng.random((users, 1)) * 1.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_central_mf, "_BITS", 2 * items)
        chunks = list(visit(Dense(bits, Kind.BITS), 2, negatives, rng))
    expected = [(u, i) for u, i in zip(*np.nonzero(bits), strict=True) if not bits[u].all()]
    seen = [pair for u, i, _ in chunks for pair in zip(u.tolist(), i.tolist(), strict=True)]
    assert sorted(seen) == sorted(2 * expected)
    for who, _, others in chunks:
        assert others.shape == (len(who), negatives)
        assert not bits[who[:, None], others].any()


def test_negatives_are_uniform_over_the_users_0s() -> None:
    bits = np.array([[True, False, False, True, False], [False, True, True, True, True]])
    drawn = np.concatenate(
        [
            np.stack([np.repeat(u, 4), n.ravel()])
            for u, _, n in visit(Dense(bits, Kind.BITS), 20_000, 4, np.random.default_rng(0))
        ],
        axis=1,
    )
    first = np.bincount(drawn[1, drawn[0] == 0], minlength=5)
    assert stats.chisquare(first[[1, 2, 4]]).pvalue > 1e-6
    assert first[[0, 3]].sum() == 0
    assert (drawn[1, drawn[0] == 1] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_follows_from_the_uploaded_bits_alone(kind: type[CentralMf]) -> None:
    """Trained again on what the server saw, as if it had been sent in the clear."""
    data = liked()
    target = kind(flip="asymmetric", epochs=2)
    transcript = target.run(data, np.random.default_rng(3)).transcript
    ((uploads, bits),) = transcript.view(Vantage.SERVER).component("bits")
    rng = np.random.default_rng(3)
    target.upload(data, None, rng)
    again = target.learn(uploads, rng).release or {}
    for name, part in transcript.release.items():
        np.testing.assert_array_equal(part, again[name])
    seen = bits.dense(np.arange(60))
    assert seen[data.ratings.toarray() > 0].all()  # p = 1
    assert seen.mean() > 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_uploads_claims_and_proofs_are_those_of_dplcf(kind: type[CentralMf]) -> None:
    population, data = Population(n_users=60, n_items=40), liked()
    target, like = kind(epsilon=0.7), DplcfSp(epsilon=0.7)
    for own, theirs in zip(
        target.scoped_claims(population), like.scoped_claims(population), strict=True
    ):
        assert (own.scope, own.claim.scope) == (theirs.scope, theirs.claim.scope)
        assert (own.claim.epsilon, own.delta, own.note) == (0.7, theirs.delta, theirs.note)
        # the paper promises nothing of its centralised baselines
        assert "one interaction 0.7-private against the server" in own.claim.statement
        assert "not completely protected" in own.claim.statement
    for scoped in target.scoped_claims(population):
        assert target.event(scoped.scope, population) == like.event(scoped.scope, population)
        mechanism = target.mechanism(scoped.scope, population)
        assert mechanism == like.mechanism(scoped.scope, population)
    ours, theirs = (
        t.upload(data, None, np.random.default_rng(1)).components["bits"].dense(np.arange(60))
        for t in (target, like)
    )
    np.testing.assert_array_equal(ours, theirs)
    own = kind(flip="asymmetric").scoped_claims(population)[0]
    broken = kind(flip="asymmetric").mechanism(own.scope, population)
    bound = exact_lower_bound(broken, own.scope)
    assert math.isinf(bound.epsilon)
    (raw,) = kind(flip="none").scoped_claims(population)
    assert math.isinf(raw.claim.epsilon)
    assert kind(flip="none").designed_pairs() == ()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_compare_leaves_the_first_vectors(kind: type[CentralMf]) -> None:
    for table in (np.zeros((3, 4)), np.ones((3, 4)), np.ones((1, 1))):
        data = Interactions.of(table)
        run = kind(flip="none").run(data, np.random.default_rng(0))
        scores = kind().score(run.model, data, np.arange(len(table)))
        assert np.isfinite(scores).all()
