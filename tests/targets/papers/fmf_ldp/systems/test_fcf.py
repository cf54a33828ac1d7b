"""FCF: what it uploads, that it descends, and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import RankOne
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.transcript import Broadcast
from tests.targets.papers.made import liked


def released(system: Fcf, data: Interactions, seed: int) -> np.ndarray:
    release = system.run(data, np.random.default_rng(seed)).transcript.release
    return release["items"]


def loss(system: Fcf, data: Interactions, items: np.ndarray) -> float:
    """Equation 1 at the user vectors that are best for V."""
    held = data.ratings.toarray() > 0
    x = system.solve(data.ratings, items)
    squares = np.where(held, 1.0 + system.alpha, 1.0) * (held - x @ items.T) ** 2
    return float(squares.sum() + system.regularization * ((x**2).sum() + (items**2).sum()))


def test_server_step_is_the_negative_gradient_of_the_loss() -> None:
    """By the envelope theorem dL/dV at the best X is equation 3: compared with differences."""
    ratings, rng = liked(12, 9), np.random.default_rng(3)
    system = Fcf(server_steps=1, learning_rate=1e-3, regularization=0.3, factors=3)
    items = rng.normal(size=(9, 3))
    moved = system.step(items, system.upload(ratings, {"items": items}, rng)) - items
    step = 1e-5
    for i, f in ((0, 0), (4, 1), (8, 2)):
        bump = np.zeros_like(items)
        bump[i, f] = step
        slope = (loss(system, ratings, items + bump) - loss(system, ratings, items - bump)) / (
            2 * step
        )
        assert moved[i, f] == pytest.approx(-system.learning_rate * slope, rel=1e-5)


def test_training_lowers_the_loss() -> None:
    ratings = liked()
    system = Fcf(factors=2, init_scale=0.3)
    run = system.run(ratings, np.random.default_rng(0))
    first, last = run.transcript.rounds[0].broadcast, run.transcript.release
    assert loss(system, ratings, last["items"]) < loss(system, ratings, first["items"])


def test_transcript_holds_every_round_and_replays() -> None:
    ratings, system = liked(), Fcf(rounds=3)
    steps: list[tuple[int, int]] = []
    run = system.run(ratings, np.random.default_rng(5), lambda done, of: steps.append((done, of)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    broadcasts = [r.broadcast for r in run.transcript.rounds] + [run.transcript.release]
    for number, round_ in enumerate(run.transcript.rounds):
        gradient = round_.uploads.components["gradient"]
        assert isinstance(gradient, RankOne)
        again = system.upload(ratings, round_.broadcast, np.random.default_rng(9))
        np.testing.assert_array_equal(
            again.components["gradient"].dense(np.arange(60)), gradient.dense(np.arange(60))
        )
        following = broadcasts[number + 1]
        moved = system.step(round_.broadcast["items"], round_.uploads)
        np.testing.assert_array_equal(moved, following["items"])


def test_values_of_ratings_do_not_matter() -> None:
    ratings, system = liked(), Fcf(rounds=2)
    table = ratings.ratings.copy()
    table.data = np.random.default_rng(0).integers(1, 6, size=table.nnz).astype(np.float32)
    a, b = (released(system, data, 1) for data in (ratings, Interactions.of(table)))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "broadcast",
    [None, {}, {"V": np.ones((8, 5))}, {"items": np.ones((3, 5))}, {"items": np.ones((8, 4))}],
)
def test_a_broadcast_of_the_wrong_shape_is_refused(broadcast: Broadcast | None) -> None:
    with pytest.raises(InputError, match=r"shape \(8, 5\)"):
        Fcf().upload(liked(4, 8), broadcast, np.random.default_rng(0))
