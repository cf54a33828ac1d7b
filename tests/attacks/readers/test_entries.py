"""Readers of one number per item, of one-coordinate reports, and of ratings from moved rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.readers import report_readers
from fedrec_auditor.attacks.readers.rating_rows import RatingRowsReader, fill_rating_distances
from fedrec_auditor.auditor.games.metrics import get_auc
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.papers.fmf_ldp.systems import FmfLdp
from fedrec_auditor.targets.transcript import View
from tests.attacks.synthetic import make_view, read_all, report, send

N, M = 30, 50


@pytest.mark.parametrize("zeros", [0, 5])
@pytest.mark.parametrize("silent", [0, 1])
def test_a_few_zeros_and_a_silent_user_leave_the_order_of_noisy_ratings(
    zeros: int, silent: int
) -> None:
    rng = np.random.default_rng(0)
    own = rng.random((N, M)) < 0.2
    values = own + 0.3 * rng.normal(size=(N, M))
    values.flat[rng.permutation(N * M)[:zeros]] = 0
    rated = send({"r": Dense(values[: N - silent], Payload.RATINGS)})
    other = send({"b": Dense(rng.normal(size=(N, 4)), Payload.CHANGE)})
    view = make_view(rated, other, users=N, items=M)
    readers, found = read_all(view)
    assert readers == ["ClearEntriesReader"]
    assert get_auc(found[: N - silent].ravel(), own[: N - silent].ravel()) > 0.97
    assert not found[N - silent :].any()


def test_an_item_needs_all_of_its_rows() -> None:
    """One 0 in a Bloom filter without noise proves that an item is not the user's."""
    rng = np.random.default_rng(0)
    own, rows = rng.random((N, M)) < 0.1, rng.permutation(3 * M).reshape(M, 3)
    bits = np.zeros((N, 3 * M), np.int8)
    for column in rows.T:
        bits[:, column] = own
    bits[:, rows[:, 0]] |= rng.random((N, M)) < 0.2  # row of another item
    seen = make_view(
        send({"b": Dense(bits, Payload.BITS)}), users=N, items=M, item_rows=rows
    ).align_item_rows()
    readers, found = read_all(seen)
    assert readers == ["ClearEntriesReader"]
    assert ((found > 0) == own).all()


def test_an_item_needs_all_of_its_rows_in_one_round() -> None:
    """Devices enter another part of their items in each round, so that rounds differ."""
    rng = np.random.default_rng(0)
    own, rows = rng.random((N, M)) < 0.1, rng.permutation(2 * M).reshape(M, 2)
    rounds = []
    for _ in range(4):
        bits = np.zeros((N, 2 * M), np.int8)
        some = own & (rng.random(own.shape) < 0.7)
        for column in rows.T:
            bits[:, column] = some
        rounds.append(send({"b": Dense(bits, Payload.BITS)}))
    _, found = read_all(make_view(*rounds, users=N, items=M, item_rows=rows).align_item_rows())
    assert not (found > 0)[~own].any()
    assert (found > 0)[own].mean() > 0.97


DATA = Synthetic(n_users=60, n_items=50, profile=10).load()


@pytest.mark.parametrize("epsilon", [30.0, 40.0, 600.0])
def test_reports_with_little_noise_inform_without_proving(epsilon: float) -> None:
    target = FmfLdp(epsilon=epsilon, rounds=4)
    view = target.run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)
    _, found = read_all(view)
    assert np.isfinite(found).all()
    assert get_auc(found.ravel(), DATA.ratings.toarray().ravel() != 0) > 0.7


def test_evidence_is_the_sum_over_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over reports, with given gradients at touched and untouched items."""
    users, items, factors, epsilon = 20, 300, 4, 1.5
    rng = np.random.default_rng(1)
    typical = rng.uniform(-1, 1, (2, items, factors))
    share = np.full(items, 0.2)
    monkeypatch.setattr(report_readers, "_fit_gradients", lambda *_: (*typical, share))
    truth = rng.random((users, items)) < 0.2
    view = report(truth, rng, epsilon=epsilon, reports=3, factors=factors)
    sent = view.rounds[0].uploads.components["reports"].to_dense(np.arange(users))
    expected = np.zeros((users, items))
    for user, item, factor in product(range(users), range(items), range(factors)):
        sign = np.tanh(epsilon / 2) * np.sign(sent[user, item, factor])
        touched, untouched = 1 + sign * typical[:, item, factor]
        expected[user, item] += np.log(touched / untouched)
    np.testing.assert_allclose(read_all(view)[1], expected, atol=1e-12)


def test_popularity_gives_the_direction_if_noise_hides_the_spectrum() -> None:
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.random((120, 300)) < 0.5 / (1 + np.arange(300)) ** 0.5
        view = report(truth, rng, epsilon=2.5, reports=200)
        assert not read_all(view)[1].any()
        public = replace(view.public, popularity=truth.mean(axis=0))
        found = read_all(replace(view, public=public))[1]
        gains += [get_auc(*pair) - 0.5 for pair in zip(found, truth, strict=True)]
    assert np.mean(gains) > 5 * np.std(gains) / np.sqrt(len(gains))


def test_known_popularity_does_not_help_with_uninformative_reports() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random((60, 300)) < 0.5 / (1 + np.arange(300)) ** 0.5
    view = report(truth, rng, epsilon=1e-3, reports=300)
    public = replace(view.public, popularity=truth.mean(axis=0))
    assert np.abs(read_all(replace(view, public=public))[1]).max() < 0.1


USERS, ITEMS = 30, 160


EVERYBODY = np.arange(USERS)


def run_round(**settings: float) -> tuple[View, np.ndarray]:
    """One round of devices that rate about half of the items uniformly from 1 to 5."""
    rng = np.random.default_rng(0)
    held = (rng.random((USERS, ITEMS)) < 0.5) * rng.integers(1, 6, (USERS, ITEMS))
    run = FmfLfl(rounds=1, **settings).run(Interactions.create(held.astype(float)), rng)
    return run.transcript.view(Vantage.SERVER), held


def read_ratings(view: View) -> np.ndarray:
    return RatingRowsReader().read(view, EVERYBODY).ratings


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_short_steps_reveal_every_rating(rate: float) -> None:
    view, held = run_round(learning_rate=rate)
    np.testing.assert_array_equal(read_ratings(view), held)


def test_steps_that_reach_the_bounds_reveal_nearly_all_ratings() -> None:
    """The rate is the published one; random guesses are right once in five."""
    view, held = run_round()
    right = (read_ratings(view) == held)[held > 0].mean()
    assert right > 0.9


def test_unknown_settings_of_the_steps_are_refused() -> None:
    view, _ = run_round()
    assert not RatingRowsReader().refusal(view)
    for name in ("bound", "learning_rate", "local_steps"):
        rest = {key: value for key, value in view.public.settings.items() if key != name}
        blind = replace(view, public=replace(view.public, settings=rest))
        assert "local steps" in RatingRowsReader().refusal(blind)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 9), st.floats(0.01, 3))
def test_distances_follow_the_step_of_the_paper(seed: int, steps: int, d: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    rows, after = rng.random((2, 3, 4, d)).astype(np.float32)
    vectors = rng.random((3, d)).astype(np.float32)
    rates = np.full(3, rate, np.float32)
    ratings = np.arange(1, 6, dtype=np.float32)
    out = np.empty((3, 4, 5), np.float32)
    fill_rating_distances(rows, after, vectors, rates, ratings, steps, np.float32(5), out)
    now = np.repeat(rows[:, :, None], 5, axis=2).astype(float)
    u = vectors[:, None, None].astype(float)
    for _ in range(steps):
        now = now + 2 * rate * (ratings - (now * u).sum(axis=3))[..., None] * u
        now = np.maximum(now, 0)
        size = (now**2).sum(axis=3, keepdims=True)
        now = now * np.sqrt(5 / np.maximum(size, 5))
    expected = ((now - after[:, :, None]) ** 2).sum(axis=3)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3)
