"""Readers of networks on public features of items, and of first layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.attacks.readers.feature_network import FeatureNetworkReader, _find_form, _logits
from fedrec_auditor.attacks.readers.first_layer import FirstLayerReader
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.device import compute_logits
from fedrec_auditor.targets.papers.privrec.systems import Privrec
from fedrec_auditor.targets.systems.base import TrainingRun
from fedrec_auditor.targets.transcript import View
from tests.attacks.synthetic import make_view, rename, send

USERS, ITEMS, GENRES = 40, 60, 4


ALL_USERS = np.arange(USERS)


GENRE = np.arange(ITEMS) % GENRES


TASTE = ALL_USERS % GENRES


def make_network_view(**settings: Any) -> View:
    """A view of one upload per user; each user has 10 of the 15 items of one genre."""
    rng = np.random.default_rng(0)
    held = np.zeros((USERS, ITEMS))
    for user, taste in enumerate(TASTE):
        held[user, rng.permutation(np.flatnonzero(taste == GENRE))[:10]] = 1.0
    interactions = Interactions.create(
        held,
        attributes={"gender": Attribute(codes=rng.integers(2, size=USERS), categories=("F", "M"))},
        genres=np.arange(GENRES) == GENRE[:, None],
        genre_names=tuple("abcd"),
    )
    target = Privrec(rounds=1, clients=USERS, embedding=32, width=64, local_epochs=40, **settings)
    return target.run(interactions, rng).transcript.view(Vantage.SERVER)


@pytest.mark.parametrize("mean", [False, True])
def test_taste_is_read_and_equal_features_get_equal_evidence(mean: bool) -> None:
    found = FeatureNetworkReader().read(make_network_view(averaged_genres=mean), ALL_USERS)
    by_genre = found.log_ratio[:, :GENRES]
    np.testing.assert_array_equal(found.log_ratio, by_genre[:, GENRE])
    np.testing.assert_array_equal(by_genre.argmax(axis=1), TASTE)


def test_prior_and_evidence_are_a_ratio_of_densities() -> None:
    """The mean of the ratio over the distribution of negatives is 1."""
    found = FeatureNetworkReader().read(make_network_view(), np.array([7]))
    assert np.exp(found.log_ratio[0] + found.item_log_odds).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("mean", [False, True])
def test_logits_are_those_of_the_target(mean: bool) -> None:
    seen = make_network_view(averaged_genres=mean)
    form = _find_form(seen)
    assert form.mean == mean
    rng = np.random.default_rng(1)
    model = {k: rng.normal(size=(3, *np.shape(v))) for k, v in seen.rounds[0].broadcast.items()}
    model["user.gender"] = model["user.gender"][:, 0]
    flags = rng.integers(2, size=(5, GENRES)).astype(np.float64)
    theirs = {k: torch.from_numpy(v) for k, v in model.items() if k != "user.gender"}
    theirs |= {"user": torch.from_numpy(model["user.gender"]), "item": torch.zeros((3, 5, 0))}
    theirs["item"] = theirs["item"].double()
    tiled = torch.from_numpy(np.broadcast_to(flags, (3, 5, GENRES)).copy())
    expected = compute_logits(theirs, tiled)
    own = flags / np.maximum(flags.sum(axis=1, keepdims=True), 1) if mean else flags
    np.testing.assert_allclose(_logits(form, model, own), expected.numpy(), rtol=1e-9)


def test_form_is_known_without_names() -> None:
    seen = make_network_view()
    one, other = (FeatureNetworkReader().read(each, ALL_USERS) for each in (seen, rename(seen)))
    np.testing.assert_array_equal(one.log_ratio, other.log_ratio)


def test_networks_without_public_features_or_with_item_rows_are_refused() -> None:
    seen = make_network_view()
    blind = replace(seen, public=replace(seen.public, item_features=None))
    assert "public features" in FeatureNetworkReader().refusal(blind)
    assert FeatureNetworkReader().refusal(make_network_view(item_ids=True))


def test_sets_are_not_guessed_from_features() -> None:
    assert "does not reveal whole sets" in InteractionReconstruction().refusal(make_network_view())


def test_a_network_with_nan_gives_no_evidence() -> None:
    seen = make_network_view()
    (one,) = seen.rounds
    huge = {k: np.full_like(v, 1e38) for k, v in one.broadcast.items()}
    broken = replace(seen, rounds=(replace(one, broadcast=huge),))
    found = FeatureNetworkReader().read(broken, ALL_USERS)
    assert np.isfinite(found.log_ratio).all()


DATA = Synthetic(n_users=120, n_items=60, profile=12, seed=3).load()


EVERY = np.arange(120)


D, H, CATALOGUE, N = 6, 16, 30, 25


def make_gradients(
    rng: np.random.Generator, *, upright: bool = True, first: bool = True, rank: bool = True
) -> tuple[View, np.ndarray]:
    """Gradients of an MLP on [x; v_i] (or [v_i; x]) over 5 examples with errors e: e [x; v_i]^T.

    Names of components are arbitrary. Without ``rank`` the errors differ on the user's side.
    """
    x, items = rng.standard_normal((N, 1, D)), rng.standard_normal((N, 5, D))
    errors = rng.standard_normal((N, 5, H))
    inputs = np.concatenate([np.repeat(x, 5, axis=1), items][:: 1 if first else -1], axis=2)
    weight = np.einsum("nej,nek->njk", errors, inputs)
    if not rank:
        weight = rng.standard_normal(weight.shape)
    table = SparseRows(
        indptr=np.arange(N + 1),
        row_ids=np.arange(N) % CATALOGUE,
        values=rng.standard_normal((N, D)),
        n_rows=CATALOGUE,
        kind=Payload.GRADIENT,
    )
    parts = {
        "a": Dense(weight if upright else weight.transpose(0, 2, 1), Payload.GRADIENT, 1.0),
        "b": Dense(errors.sum(axis=1), Payload.GRADIENT, 1.0),
        "c": Dense(rng.standard_normal((N, H)), Payload.GRADIENT, 1.0),
        "d": table,
    }
    shapes = {name: np.zeros(part.shape) for name, part in parts.items()}
    one = send(parts, shapes)
    return make_view(one, users=N, items=CATALOGUE, settings={"negatives": 4}), x[:, 0]


@pytest.mark.parametrize("upright", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_of_any_batch_reveals_the_vector_exactly(upright: bool, first: bool) -> None:
    view, x = make_gradients(np.random.default_rng(0), upright=upright, first=first)
    assert not FirstLayerReader().refusal(view)
    found = FirstLayerReader().read(view, np.arange(N)).user_vectors
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


def test_messages_without_the_rank_are_refused() -> None:
    view, _ = make_gradients(np.random.default_rng(0), rank=False)
    assert "first layer" in FirstLayerReader().refusal(view)


def train(**settings: Any) -> TrainingRun:
    target: Any = FAMILIES["targets"].load_class("fedncf")(rounds=2, **settings)
    return target.run(DATA, np.random.default_rng(0))


def get_cosines(run: TrainingRun) -> np.ndarray:
    view = run.transcript.view(Vantage.SERVER)
    senders = np.unique(np.concatenate([one.uploads.users for one in view.rounds]))
    found = FirstLayerReader().read(view, senders).user_vectors
    true = run.user_vectors[senders]
    dots = np.einsum("nf,nf->n", found, true)
    return dots / np.linalg.norm(found, axis=1) / np.linalg.norm(true, axis=1)


def test_sgd_reveals_vectors_nearly_and_adam_their_signs() -> None:
    plain, adam = get_cosines(train(optimizer="sgd")), get_cosines(train())
    assert plain.mean() > 0.99
    assert 0.85 < adam.mean() < plain.mean()


def test_private_vectors_are_read_without_a_matrix_that_spans_them() -> None:
    assert get_cosines(train(private_user=True, optimizer="sgd")).mean() > 0.97


def test_noise_on_the_layer_is_recognised_by_the_rank() -> None:
    target: Any = FAMILIES["targets"].load_class("fedncf-ldp")(rounds=1)
    view = target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    assert FirstLayerReader().refusal(view)
