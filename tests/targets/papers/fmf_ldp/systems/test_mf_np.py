"""MF-NP: alternating least squares on FCF's loss, and what it says of itself."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf, MfNp
from tests.targets.papers.made import liked


def loss(system: MfNp | Fcf, data: Interactions, items: np.ndarray) -> float:
    """Equation 1 at the user vectors that are best for V, one user at a time."""
    held = data.ratings.toarray() > 0
    total = system.regularization * float((items**2).sum())
    for own in held:
        confidence = 1.0 + system.alpha * own
        ridge = system.regularization * np.eye(items.shape[1])
        x = np.linalg.solve((items.T * confidence) @ items + ridge, (items.T * confidence) @ own)
        total += float((confidence * (own - items @ x) ** 2).sum())
        total += system.regularization * float(x @ x)
    return total


def released(system: MfNp, data: Interactions, seed: int = 0) -> np.ndarray:
    release = system.run(data, np.random.default_rng(seed)).transcript.release
    return release["items"]


def test_every_epoch_lowers_the_loss_below_what_federated_training_reaches() -> None:
    data = liked()
    by_epoch = [loss(MfNp(), data, released(MfNp(epochs=n), data)) for n in (1, 2, 5, 20)]
    assert by_epoch == sorted(by_epoch, reverse=True)
    federated = Fcf().run(data, np.random.default_rng(0)).transcript.release
    assert by_epoch[-1] < loss(MfNp(), data, federated["items"])


def test_the_last_item_vectors_are_best_for_the_last_user_vectors() -> None:
    """Half a step apart: V solves for the X that solved for the V before it."""
    data, system = liked(30, 12), MfNp(epochs=5, regularization=0.1, factors=3)
    before, after = (released(MfNp(epochs=n, regularization=0.1, factors=3), data) for n in (4, 5))
    held = data.ratings.toarray() > 0
    x = np.empty((30, 3))
    for user, own in enumerate(held):
        weighted = before.T * (1.0 + own)
        x[user] = np.linalg.solve(weighted @ before + 0.1 * np.eye(3), weighted @ own)
    for item, own in enumerate(held.T):
        weighted = x.T * (1.0 + own)
        expected = np.linalg.solve(weighted @ x + 0.1 * np.eye(3), weighted @ own)
        np.testing.assert_allclose(after[item], expected, rtol=1e-4, atol=1e-6)
    assert system.score(
        system.run(data, np.random.default_rng(0)).model, data, np.arange(2)
    ).shape == (2, 12)


def test_values_of_ratings_do_not_matter() -> None:
    data, system = liked(), MfNp(factors=2)
    other = Interactions.of(data.ratings.toarray() / 3)
    np.testing.assert_array_equal(released(system, data), released(system, other))


def test_nothing_is_sent_and_progress_is_told_once_an_epoch() -> None:
    steps: list[tuple[int, int]] = []
    run = MfNp(epochs=3).run(
        liked(), np.random.default_rng(0), lambda done, of: steps.append((done, of))
    )
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert run.transcript.rounds == ()
    assert run.transcript.view(Vantage.SERVER).rounds == ()
    (release,) = run.transcript.view(Vantage.RELEASE).rounds
    assert release.broadcast is run.transcript.release is not None
    uploads = MfNp().upload(liked(4), None, np.random.default_rng(0), 2)
    assert uploads.users.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert not uploads.components
