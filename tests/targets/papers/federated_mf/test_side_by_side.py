"""Populations side by side in one party: each is what a training of its own would be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import rate_at, start
from tests.targets.papers.federated_mf import side_by_side as _side_by_side
from tests.targets.papers.federated_mf.side_by_side import SideBySide

SYSTEM = HflSgdmf(factors=2, rounds=3, local_steps=2, parties=1, tuning=0, rate=0.2)
SLOW = replace(SYSTEM, learning_rate=1e-6, rate=1.0)
FIRST = start(np.random.default_rng(1).uniform(0.2, 0.6, (4, 2)), SYSTEM.bound)
RATINGS = np.array([[5, 0, 3, 1], [0, 2, 4, 0]], np.float32)


def test_one_copy_is_the_systems_own_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same coins, V and messages as ``run`` with its view from the server."""
    monkeypatch.setattr(_side_by_side, "_ROWS", 1)
    table = np.random.default_rng(0).integers(1, 6, (100, 4)).astype(np.float32)
    rng = np.random.default_rng(5)
    run = SYSTEM.run(Interactions.of(table), rng)
    rounds = run.transcript.view(Vantage.SERVER).rounds
    again = np.random.default_rng(5)
    first = start(again.random((4, 2)), SYSTEM.bound)
    copies = SideBySide(system=SYSTEM, ratings=table, first=first)
    assert copies.block == 1
    seen = copies.gradients(again)
    for number, glimpse in enumerate(rounds):
        sent = glimpse.uploads.components["items"].dense(np.arange(1))[0]
        length = sum(rate_at(2 * number + k, 6, SYSTEM.learning_rate) for k in (0, 1)) / 4
        moved = (glimpse.broadcast["items"].astype(float) - sent) / length
        np.testing.assert_allclose(seen[number, 0], moved, rtol=1e-12)


def test_without_noise_every_copy_shows_its_gradient() -> None:
    """Sums of 2 (u.v - x) u, in every round, where V hardly moves and all rows are drawn."""
    system = replace(SLOW, noise_multiplier=0.0, learning_rate=1e-4)
    copies = SideBySide(system=system, ratings=RATINGS, first=FIRST)
    seen = copies.gradients(np.random.default_rng(0))
    assert seen.shape == (3, copies.block, 4, 2)
    users = system.parted(Interactions.of(RATINGS), FIRST, np.random.default_rng(0))[0].own
    errors = np.where(RATINGS > 0, users @ FIRST.T - RATINGS, 0.0)
    np.testing.assert_allclose(seen, np.broadcast_to(2 * errors.T @ users, seen.shape), rtol=0.01)


def test_copies_have_noise_of_their_own() -> None:
    """Standard deviation and correlations of neighbours within 6 standard errors."""
    copies = SideBySide(system=replace(SLOW, local_steps=1), ratings=RATINGS, first=FIRST)
    noise = copies.gradients(np.random.default_rng(0))[0] / SLOW.noise(1).sigma
    noise -= noise.mean(axis=0)
    assert abs(noise.std() - 1) < 6 / np.sqrt(2 * noise.size)
    between = noise[:-1] * noise[1:]
    assert abs(between.mean()) < 6 / np.sqrt(between.size)


def test_rows_are_drawn_at_the_rate() -> None:
    """As many copies as the sampling rate has it, in every block, and others each time."""
    system = replace(SLOW, rounds=1, local_steps=1, rate=0.25, noise_multiplier=0.0)
    copies = SideBySide(system=system, ratings=RATINGS[:1], first=FIRST)
    assert copies.rows_drawn() == pytest.approx(0.25, abs=1 / copies.block)
    one, two = (np.abs(copies.gradients(np.random.default_rng(k))[0, :, 0]).sum(1) for k in (0, 1))
    for moved in (one, two):
        assert np.count_nonzero(moved) == round(copies.rows_drawn() * copies.block)
    assert (one > 0).tolist() != (two > 0).tolist()


def test_scores_are_those_of_as_many_runs() -> None:
    copies = SideBySide(system=SLOW, ratings=RATINGS, first=FIRST)
    size = copies.block + 3
    found = copies.scores(size, np.random.default_rng(0), lambda seen: seen.mean(axis=(0, 2, 3)))
    assert found.shape == (size,)
    assert len(set(found)) == size
