"""What a network on public features of items tells, and what it cannot tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.attacks.readers.feature_network import FeatureNetwork, _form, _logits
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.device import logits
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import Privrec
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import renamed

USERS, ITEMS, GENRES = 40, 60, 4
EVERYBODY = np.arange(USERS)
GENRE = np.arange(ITEMS) % GENRES
TASTE = EVERYBODY % GENRES


def view(**settings: Any) -> View:
    """One upload of each user, who holds 10 of the 15 items of one genre."""
    rng = np.random.default_rng(0)
    held = np.zeros((USERS, ITEMS))
    for user, taste in enumerate(TASTE):
        held[user, rng.permutation(np.flatnonzero(taste == GENRE))[:10]] = 1.0
    interactions = Interactions.of(
        held,
        attributes={"gender": Attribute(codes=rng.integers(2, size=USERS), categories=("F", "M"))},
        genres=np.arange(GENRES) == GENRE[:, None],
        genre_names=tuple("abcd"),
    )
    target = Privrec(rounds=1, clients=USERS, embedding=32, width=64, local_epochs=40, **settings)
    return target.run(interactions, rng).transcript.view(Vantage.SERVER)


@pytest.mark.parametrize("mean", [False, True])
def test_taste_is_read_and_items_of_the_same_features_are_one(mean: bool) -> None:
    found = FeatureNetwork().read(view(averaged_genres=mean), EVERYBODY)
    by_genre = found.log_ratio[:, :GENRES]
    np.testing.assert_array_equal(found.log_ratio, by_genre[:, GENRE])
    np.testing.assert_array_equal(by_genre.argmax(axis=1), TASTE)


def test_prior_and_evidence_are_a_ratio_of_densities() -> None:
    """Its mean over what negatives are drawn from is 1."""
    found = FeatureNetwork().read(view(), np.array([7]))
    assert np.exp(found.log_ratio[0] + found.items).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("mean", [False, True])
def test_logits_are_those_of_the_target(mean: bool) -> None:
    seen = view(averaged_genres=mean)
    form = _form(seen)
    assert form.mean == mean
    rng = np.random.default_rng(1)
    model = {k: rng.normal(size=(3, *np.shape(v))) for k, v in seen.rounds[0].broadcast.items()}
    model["user.gender"] = model["user.gender"][:, 0]
    flags = rng.integers(2, size=(5, GENRES)).astype(np.float64)
    theirs = {k: torch.from_numpy(v) for k, v in model.items() if k != "user.gender"}
    theirs |= {"user": torch.from_numpy(model["user.gender"]), "item": torch.zeros((3, 5, 0))}
    theirs["item"] = theirs["item"].double()
    expected = logits(theirs, torch.from_numpy(np.broadcast_to(flags, (3, 5, GENRES)).copy()))
    own = flags / np.maximum(flags.sum(axis=1, keepdims=True), 1) if mean else flags
    np.testing.assert_allclose(_logits(form, model, own), expected.numpy(), rtol=1e-9)


def test_form_is_known_without_names() -> None:
    seen = view()
    one, other = (FeatureNetwork().read(each, EVERYBODY) for each in (seen, renamed(seen)))
    np.testing.assert_array_equal(one.log_ratio, other.log_ratio)


def test_it_is_refused_without_public_features_or_with_rows_of_items() -> None:
    seen = view()
    blind = replace(seen, public=replace(seen.public, features=None))
    assert "public features" in FeatureNetwork().refusal(blind)
    assert FeatureNetwork().refusal(view(item_ids=True))


def test_sets_are_not_guessed_from_features() -> None:
    assert "no evidence of whole sets" in InteractionReconstruction().refusal(view())


def test_a_network_that_is_no_number_tells_nothing() -> None:
    seen = view()
    (one,) = seen.rounds
    huge = {k: np.full_like(v, 1e38) for k, v in one.broadcast.items()}
    broken = replace(seen, rounds=(replace(one, broadcast=huge),))
    found = FeatureNetwork().read(broken, EVERYBODY)
    assert np.isfinite(found.log_ratio).all()
