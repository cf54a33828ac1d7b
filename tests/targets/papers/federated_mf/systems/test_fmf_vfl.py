"""Vertical training: what is sent, how it is averaged, who may be missing, what is learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl, VflSgdmf
from tests.targets.papers.made import low_rank, rated

DATA = rated(30, 20, 0.4)


def sent(target: Any, interactions: Interactions, seed: int = 1, **how: Any) -> np.ndarray:
    run = target.run(interactions, np.random.default_rng(seed), compute=Compute(**how))
    return np.stack([r.uploads.components["users"].values for r in run.transcript.rounds])


def test_one_step_of_one_party_is_equation_4() -> None:
    interactions = DATA
    target = FmfVfl(parties=1, rate=1.0, rounds=1, local_steps=1, factors=3)
    run = target.run(interactions, np.random.default_rng(5))
    (one,) = run.transcript.rounds
    u = one.broadcast["users"]
    moved = one.uploads.components["users"].dense(np.array([0]))[0]
    x = interactions.ratings.toarray()
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(u, start(rng.random((30, 3)), 5.0))
    (party,) = target.parted(interactions, None, rng)
    np.testing.assert_array_equal(party.members, np.arange(20))
    v = party.own
    errors = np.where(x > 0, u @ v.T - x, 0.0)
    # gamma/(n' m' tau) with gamma = g n': g n/|Omega| on the sum; m_k/m is 1
    step = 0.05 * 30 / np.count_nonzero(x)
    np.testing.assert_allclose(moved, u - step * 2 * errors @ v, atol=1e-5)
    np.testing.assert_allclose(run.model.arrays["items"], v - step * 2 * errors.T @ u, atol=1e-5)


def test_the_next_broadcast_is_the_mean_weighted_by_items_and_the_release_the_last() -> None:
    interactions = rated(30, 7, 0.4)
    run = FmfVfl(parties=3, rounds=3).run(interactions, np.random.default_rng(1))
    weights = np.array([3, 2, 2]) / 7
    models = [r.broadcast["users"] for r in run.transcript.rounds[1:] if r.broadcast]
    models.append(run.transcript.release["users"])
    for one, after in zip(run.transcript.rounds, models, strict=True):
        messages = one.uploads.components["users"].dense(np.arange(3))
        np.testing.assert_allclose(after, np.tensordot(weights, messages, 1), atol=1e-6)
    assert run.transcript.public.parties == 3


def test_a_user_whom_a_party_has_not_rated_is_seen_in_its_message() -> None:
    """The naive leakage of section 4, and that noise on every row closes it."""
    interactions = rated(30, 20, 0.15)
    for target, shown in (
        (FmfVfl(rate=1.0, rounds=1), True),
        (VflSgdmf(rate=1.0, rounds=1), False),
    ):
        run = target.run(interactions, np.random.default_rng(3))
        rng = np.random.default_rng(3)
        rng.random((30, 20))  # the first user embeddings
        parties = target.parted(interactions, None, rng)
        known = np.stack([np.diff(party.ratings.indptr) > 0 for party in parties])
        assert not known.all()
        (first, *_) = run.transcript.rounds
        moved = first.uploads.components["users"].dense(np.arange(10)) != first.broadcast["users"]
        np.testing.assert_array_equal(moved.any(axis=2), known if shown else True)


def test_predictions_of_a_low_rank_table_beat_the_mean_by_far() -> None:
    rng = np.random.default_rng(0)
    truth, seen = low_rank(rng, 300, 60, 3, 0.5)
    target = FmfVfl(factors=6, parties=3, rate=0.1, learning_rate=0.05)
    run = target.run(Interactions.of(truth * seen), rng)
    guess = target.score(run.model, Interactions.of(truth * seen), np.arange(300))
    error = np.square(guess - truth)[~seen].mean()
    assert error < 0.25 * truth[~seen].var()


def test_by_category_a_movie_goes_to_the_smallest_of_its_own() -> None:
    genres = np.zeros((20, 4), dtype=bool)
    genres[:12, 0], genres[8:17, 1], genres[15:19, 2] = True, True, True  # 12, 9, 4 and 0 movies
    interactions = replace(DATA, genres=genres)
    target = FmfVfl(parties=3, split="category", rounds=1)
    shares = target.holding.deal(target, interactions, np.random.default_rng(0))
    # movie 19 has no genre and joins the smallest
    for share, movies in zip(shares, (range(8), range(8, 15), range(15, 20)), strict=True):
        np.testing.assert_array_equal(share, list(movies))
    run = target.run(interactions, np.random.default_rng(0))
    assert run.transcript.public.parties == 3
    with pytest.raises(InputError, match="Give parties=3"):
        FmfVfl(split="category").run(interactions, np.random.default_rng(0))
    with pytest.raises(InputError, match="Expected items with genres"):
        target.run(DATA, np.random.default_rng(0))


@pytest.mark.parametrize("target", [FmfVfl(rounds=3), VflSgdmf(rounds=3, unit="user", trim=2)])
def test_memory_and_disk_keep_the_same_messages(target: Any, tmp_path: Any) -> None:
    rich = sent(target, DATA)
    np.testing.assert_array_equal(rich, sent(target, DATA, memory=0, folder=tmp_path))
    assert not np.array_equal(rich, sent(target, DATA, seed=2))


@pytest.mark.parametrize("repaired", [{}, {"as_published": False}])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_an_upload_does_not_depend_on_who_else_uploads(unit: str, repaired: Any) -> None:
    interactions = rated(6, 20, 0.4)
    for target in (
        FmfVfl(unit=unit, trim=3, rounds=2),
        VflSgdmf(unit=unit, trim=3, rate=0.3, rounds=2, **repaired),
    ):
        run = target.run(interactions, np.random.default_rng(0))
        broadcast = run.transcript.rounds[-1].broadcast
        together = target.upload(interactions, broadcast, np.random.default_rng(8), size=2)
        assert together.components["users"].shape == (1, 20)
        rng, alone = np.random.default_rng(8), []
        for user in range(6):
            own = {"users": broadcast["users"][[user]]}
            one = target.upload(interactions.take(np.array([user])), own, rng, size=2)
            alone.append(one.components["users"].dense(np.arange(2)))
        whole = together.components["users"].dense(np.arange(12))
        np.testing.assert_allclose(whole, np.concatenate(alone), atol=1e-6)
        assert not np.array_equal(whole[0], whole[1])


def test_a_broadcast_that_is_not_of_these_users_is_refused() -> None:
    interactions = rated(3, 20, 0.4)
    for bad in (None, {}, {"users": np.zeros((4, 20))}, {"users": np.zeros((3, 2))}):
        with pytest.raises(InputError, match="Expected"):
            FmfVfl().upload(interactions, bad, np.random.default_rng(0))


@pytest.mark.parametrize(
    "dense", [np.full((1, 4), 3.0), np.full((5, 1), 3.0), [[1, 0, 2], [0, 0, 0], [5, 5, 5]]]
)
@pytest.mark.parametrize("target", [FmfVfl(rounds=2), VflSgdmf(rounds=2, as_published=False)])
def test_small_and_empty_histories_are_trained_on(dense: Any, target: Any) -> None:
    interactions = Interactions.of(np.asarray(dense, dtype=float))
    run = target.run(interactions, np.random.default_rng(0))
    users = np.arange(interactions.n_users)
    scores = target.score(run.model, interactions, users)
    assert scores.shape == interactions.ratings.shape
    assert np.isfinite(scores).all()
