"""BPR-MF and GMF on collected bits: what is sampled, and kernels against PyTorch's autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.papers.dplcf.systems.factor_systems import BprMf, Gmf
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import DplcfSp
from fedrec_auditor.targets.papers.dplcf.systems.parts import central_mf as _central_mf
from fedrec_auditor.targets.papers.dplcf.systems.parts.central_mf import CentralMf, visit
from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import Adam, bpr_epoch, gmf_epoch
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
def test_claims_proofs_and_uploads_are_those_of_dplcf(kind: type[CentralMf]) -> None:
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
        for stated in ("event", "mechanism"):
            ours, others = (getattr(t, stated)(own.scope, population) for t in (target, like))
            assert ours == others
    ours, theirs = (
        t.upload(data, None, np.random.default_rng(1)).components["bits"].dense(np.arange(60))
        for t in (target, like)
    )
    np.testing.assert_array_equal(ours, theirs)
    assert math.isinf(kind(flip="none").scoped_claims(population)[0].claim.epsilon)
    assert kind(flip="none").designed_pairs() == ()


USERS, ITEMS, FACTORS = 6, 9, 3


def visits(seed: int, count: int, negatives: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, USERS, count).astype(np.int32),
        rng.integers(0, ITEMS, count).astype(np.int32),
        rng.integers(0, ITEMS, (count, negatives)).astype(np.int32),
    )


def vectors(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(("batch", "negatives"), [(1, 1), (4, 3), (100, 2)])
@pytest.mark.parametrize("model", ["bpr", "gmf"])
def test_training_is_that_of_autograd_and_adam(model: str, batch: int, negatives: int) -> None:
    import torch
    from torch.nn.functional import logsigmoid, softplus

    count, decay, rate = 23, 0.05, 0.01
    users, positives, others = data = visits(1, count, negatives)
    shapes = [(USERS, FACTORS), (ITEMS, FACTORS)] + [(1, FACTORS)] * (model == "gmf")
    starts = [vectors(n, *shape) for n, shape in enumerate(shapes)]
    x, y, *h = tensors = [torch.tensor(start, requires_grad=True) for start in starts]
    adam = torch.optim.Adam(tensors, lr=rate)
    for _ in range(2):
        for start in range(0, count, batch):
            part = slice(start, start + batch)
            mine = x[users[part]][:, None]
            liked, disliked = y[positives[part]][:, None], y[others[part]]
            if model == "bpr":
                loss = -logsigmoid((mine * (liked - disliked)).sum(-1))
                loss = loss + decay / 2 * (mine**2 + liked**2 + disliked**2).sum(-1)
            else:
                every = torch.cat([disliked, liked], dim=1)
                score = (h[0] * mine * every).sum(-1)
                target = torch.zeros_like(score)
                target[:, -1] = 1.0
                loss = softplus(score) - target * score
                loss = loss + decay / 2 * (mine**2 + every**2).sum(-1)
            adam.zero_grad()
            loss.mean().backward()
            adam.step()
    ours = [Adam.start(start.copy()) for start in starts]
    epoch = {"bpr": bpr_epoch, "gmf": gmf_epoch}[model]
    step = 0
    for _ in range(2):
        step = epoch(*ours, data, batch=batch, rate=rate, decay=decay, step=step)
    assert step == 2 * -(-count // batch)
    for mine_, theirs, start in zip(ours, tensors, starts, strict=True):
        np.testing.assert_allclose(mine_.values, theirs.detach().numpy(), rtol=1e-9, atol=1e-10)
        assert not np.array_equal(mine_.values, start)


def test_large_margins_do_not_overflow() -> None:
    users = Adam.start(np.full((1, 1), 1e4))
    items = Adam.start(np.array([[1.0], [-1.0]]) * 1e4)
    one, other = np.zeros(1, np.int32), np.ones((1, 1), np.int32)
    with np.errstate(all="raise"):
        bpr_epoch(users, items, (one, one, other), batch=1, rate=0.1, decay=0.0, step=0)
        bpr_epoch(users, items, (one, other[0], one[None]), batch=1, rate=0.1, decay=0.0, step=1)
    assert np.isfinite(users.values).all()
    assert np.isfinite(items.values).all()
