"""User vectors from the first layer of an MLP: exact of one gradient, near of local training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers.first_layer import FirstLayer
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Dense, Kind, Rows
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Run
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import sent, view_of

DATA = Synthetic(n_users=120, n_items=60, profile=12, seed=3).load()
USERS = np.arange(120)
D, H, ITEMS, N = 6, 16, 30, 25


def planted(
    rng: np.random.Generator, *, upright: bool = True, first: bool = True, rank: bool = True
) -> tuple[View, np.ndarray]:
    """Gradients of an MLP on [x; v_i] (or [v_i; x]) over 5 examples of errors e: e [x; v_i]^T.

    Components have names that say nothing. Without ``rank`` the errors differ on the user's side.
    """
    x, items = rng.standard_normal((N, 1, D)), rng.standard_normal((N, 5, D))
    errors = rng.standard_normal((N, 5, H))
    inputs = np.concatenate([np.repeat(x, 5, axis=1), items][:: 1 if first else -1], axis=2)
    weight = np.einsum("nej,nek->njk", errors, inputs)
    if not rank:
        weight = rng.standard_normal(weight.shape)
    table = Rows(
        indptr=np.arange(N + 1),
        ids=np.arange(N) % ITEMS,
        values=rng.standard_normal((N, D)),
        count=ITEMS,
        kind=Kind.GRADIENT,
    )
    parts = {
        "a": Dense(weight if upright else weight.transpose(0, 2, 1), Kind.GRADIENT, 1.0),
        "b": Dense(errors.sum(axis=1), Kind.GRADIENT, 1.0),
        "c": Dense(rng.standard_normal((N, H)), Kind.GRADIENT, 1.0),
        "d": table,
    }
    shapes = {name: np.zeros(part.shape) for name, part in parts.items()}
    one = sent(parts, shapes)
    return view_of(one, users=N, items=ITEMS, settings={"negatives": 4}), x[:, 0]


@pytest.mark.parametrize("upright", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_of_any_batch_tells_the_vector_exactly(upright: bool, first: bool) -> None:
    view, x = planted(np.random.default_rng(0), upright=upright, first=first)
    assert not FirstLayer().refusal(view)
    found = FirstLayer().read(view, np.arange(N)).vectors
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


def test_messages_without_the_rank_are_refused() -> None:
    view, _ = planted(np.random.default_rng(0), rank=False)
    assert "first layer" in FirstLayer().refusal(view)


def trained(**settings: Any) -> Run:
    target: Any = FAMILIES["targets"].member("fedncf")(rounds=2, **settings)
    return target.run(DATA, np.random.default_rng(0))


def cosines(run: Run) -> np.ndarray:
    view = run.transcript.view(Vantage.SERVER)
    senders = np.unique(np.concatenate([one.uploads.users for one in view.rounds]))
    found = FirstLayer().read(view, senders).vectors
    true = run.user_vectors[senders]
    dots = np.einsum("nf,nf->n", found, true)
    return dots / np.linalg.norm(found, axis=1) / np.linalg.norm(true, axis=1)


def test_sgd_tells_vectors_nearly_and_adam_their_signs() -> None:
    plain, adam = cosines(trained(optimizer="sgd")), cosines(trained())
    assert plain.mean() > 0.99
    assert 0.85 < adam.mean() < plain.mean()


def test_private_vectors_are_read_without_a_matrix_that_spans_them() -> None:
    assert cosines(trained(private_user=True, optimizer="sgd")).mean() > 0.97


def test_noise_on_the_layer_is_told_from_its_rank() -> None:
    target: Any = FAMILIES["targets"].member("fedncf-ldp")(rounds=1)
    view = target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    assert FirstLayer().refusal(view)
