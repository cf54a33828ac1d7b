"""The one-run game."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games.one_run import OWN, play, scope_of, with_canaries
from fedrec_auditor.auditor.one_run import OneRunScores
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target


@pytest.fixture(scope="module")
def data() -> Interactions:
    return Synthetic(n_users=100, n_items=80, profile=10.0, tastes=3).load()


def target(name: str, rounds: int = 5) -> Target:
    made: Target = FAMILIES["targets"].member(name)()
    return made.shortened(rounds)


def test_a_canary_has_items_of_its_own_whether_or_not_it_takes_part(data: Interactions) -> None:
    included = np.array([True, False, False, True, True])
    grown = with_canaries(data, included, np.random.default_rng(0))
    assert (grown.n_users, grown.n_items) == (data.n_users + 3, data.n_items + 5 * OWN)
    assert (grown.ratings[: data.n_users, : data.n_items] != data.ratings).nnz == 0
    own = grown.ratings[:, data.n_items :].toarray().reshape(grown.n_users, 5, OWN)
    assert not own[: data.n_users].any()
    assert np.array_equal(own[data.n_users :].all(axis=2), np.eye(5, dtype=bool)[included])
    assert np.count_nonzero(own) == 3 * OWN
    assert grown.ratings.has_canonical_format
    for values in (grown.users, grown.items):
        assert (np.diff(values) > 0).all()
    assert grown.timestamps is not None
    assert len(grown.timestamps) == grown.ratings.nnz
    assert {len(each.codes) for each in grown.attributes.values()} == {grown.n_users}
    assert grown.genres is not None
    assert len(grown.genres) == grown.n_items


@pytest.mark.parametrize("name", ["fcf", "fmf-lfl", "mf-np"])
def test_a_training_without_protection_is_told(data: Interactions, name: str) -> None:
    scores = play(target(name), data, 1000, np.random.default_rng(1), Vantage.PEERS)
    bound = scores.bound(delta=1e-5, scope=scope_of(Vantage.PEERS))
    assert 2.5 < bound.epsilon <= bound.largest
    assert bound.scope.vantage is Vantage.PEERS
    strangers = OneRunScores.of(scores.scores, np.random.default_rng(2).random(1000) < 0.5)
    assert strangers.bound(delta=1e-5).epsilon < 0.5


def test_the_release_shows_less_than_the_broadcasts(data: Interactions) -> None:
    found = [
        play(target("fcf"), data, 400, np.random.default_rng(1), vantage).bound(delta=1e-5).epsilon
        for vantage in (Vantage.RELEASE, Vantage.PEERS)
    ]
    assert found[0] < found[1]


def test_the_same_generator_gives_the_same_scores(data: Interactions) -> None:
    one, other = (play(target("fmf-hfl", 2), data, 40, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one.scores, other.scores)
    assert np.array_equal(one.included, other.included)


def test_what_shows_no_items_is_refused(data: Interactions) -> None:
    with pytest.raises(InputError, match="a row for each item"):
        play(target("random"), data, 40, np.random.default_rng(0))
    with pytest.raises(InputError, match="the release or of peers"):
        play(target("fcf"), data, 40, np.random.default_rng(0), Vantage.SERVER)
