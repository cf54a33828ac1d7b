"""Both kernels against PyTorch's autograd and its Adam, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import Adam, bpr_epoch, gmf_epoch

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
