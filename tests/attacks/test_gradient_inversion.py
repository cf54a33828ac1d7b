"""Labels found by simulating local steps: what closed forms tell, slower, and gone with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.gradient_inversion import GradientInversion
from fedrec_auditor.attacks.parts.label_inversion import ItemScorer, direction, labels
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.transcript import View
from tests.points import later

DATA = Synthetic(n_users=60, n_items=80, profile=12, seed=3).load()
D, H, M, EPOCHS = 8, 16, 60, 3


def view_of(name: str, **settings: Any) -> View:
    target: Any = FAMILIES["targets"].member(name)(rounds=2, **settings)
    return target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        later("fedmf", "sgd"),
        ("fedncf", "adam"),
        later("fedmf", "adam"),
        later("fedncf", "sgd"),
    ],
)
def test_labels_of_real_clients_come_back(name: str, optimizer: str) -> None:
    view, attack = view_of(name, optimizer=optimizer), GradientInversion()
    assert not attack.refusal(view)
    guess = attack.infer(view, Background(), np.random.default_rng(0))
    assert len(guess.users) == attack.most
    truth = DATA.ratings[guess.users].toarray() != 0
    assert metrics.set_f1(guess.items, truth).mean() > 0.95


@pytest.mark.parametrize("name", ["fedrec", "fedmf-ldp", "fcf", "dplcf-sp", "nn-self"])
def test_clients_that_it_cannot_simulate_are_refused(name: str) -> None:
    target: Any = FAMILIES["targets"].member(name)()
    run = target.shortened(1).run(DATA, np.random.default_rng(0))
    assert "item table" in GradientInversion().refusal(run.transcript.view(Vantage.SERVER))


def planted(deep: bool, rng: np.random.Generator) -> tuple[ItemScorer, np.ndarray, np.ndarray]:
    """A scorer, item rows (M, D) and a vector (D,)."""
    scorer = ItemScorer()
    if deep:
        first, bias = rng.standard_normal((H, 2 * D)) / 4, rng.standard_normal(H)
        scorer = ItemScorer(
            first.astype(np.float32),
            bias.astype(np.float32),
            rng.standard_normal(H).astype(np.float32),
            0.7,
        )
    x = rng.standard_normal(D).astype(np.float32)
    return scorer, 0.3 * rng.standard_normal((M, D)).astype(np.float32), x


@pytest.mark.parametrize("deep", [False, True])
def test_slopes_are_derivatives_of_scores(deep: bool) -> None:
    scorer, rows, x = planted(deep, np.random.default_rng(0))
    v = torch.from_numpy(rows).requires_grad_()
    score, slope = scorer.slopes(torch.from_numpy(x), v)
    (expected,) = torch.autograd.grad(score.sum(), [v])
    torch.testing.assert_close(slope.detach(), expected)
    if not deep:
        np.testing.assert_allclose(score.detach(), rows @ x, rtol=1e-5)
        return
    both = np.concatenate([np.repeat(x[None], M, axis=0), rows], axis=1)
    hidden = np.maximum(both @ scorer.first.T + scorer.bias, 0)
    np.testing.assert_allclose(score.detach(), hidden @ scorer.output + 0.7, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("deep", [False, True])
def test_labels_weaken_as_noise_on_the_rows_grows(deep: bool) -> None:
    rng = np.random.default_rng(1)
    scorer, rows, x = planted(deep, rng)
    own = np.arange(M) < M // 5
    moved = rows.copy()
    for _ in range(EPOCHS):
        score, slope = scorer.slopes(torch.from_numpy(x), torch.from_numpy(moved))
        error = torch.sigmoid(score).numpy() - own
        moved = moved - 0.01 * error[:, None] * slope.numpy()
    change = moved - rows
    right = []
    for times in (0.0, 3.0, 100.0):
        noisy = change + times * change.std() * rng.standard_normal(change.shape)
        noisy = noisy.astype(np.float32)
        start = x if deep else direction(noisy)
        found = labels(scorer, rows, noisy, start, EPOCHS)[0] > 0
        if not deep and found.mean() > 0.5:
            found = ~found
        right.append(float(metrics.set_f1(found[None], own[None])[0]))
    assert right[0] == 1.0
    assert right[0] > right[1] > right[2]
    assert right[2] < 0.6
