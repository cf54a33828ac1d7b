"""Whole messages behind a shuffler, found again by a few known items.

Messages read as what they say of the model, by kind and shape.

Which items are popular, by how all messages together move the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.attacks.membership_attacks import InteractionMembership
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.uploads import (
    found_again,
    item_messages,
    kept,
    model_messages,
    popularity,
    pseudonymous,
)
from fedrec_auditor.auditor.games import membership, reconstruction
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.reports.rows import AttackRow
from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Kind, Round, Uploads, View, Wire
from tests.attacks.made import SKEWED, Flip, reported, scored, sent, view_of


def shuffled(truth: np.ndarray, rng: np.random.Generator, flip: float) -> View:
    """Bits of each user, each wrong with probability ``flip``, without names."""
    bits = (truth ^ (rng.random(truth.shape) < flip)).astype(np.int8)
    return view_of(
        sent({"bits": Dense(bits, Kind.BITS)}),
        users=truth.shape[0],
        items=truth.shape[1],
        vantage=Vantage.SHUFFLED,
        rng=rng,
        channel=Flip(1 - flip, flip),
        route=Vantage.SHUFFLED,
    )


def played(
    truth: np.ndarray, view: View, play: Callable[[Game], tuple[AttackRow, ...]]
) -> AttackRow:
    whole = play is membership.play
    game = Game(
        target="bits",
        name="made",
        attack=InteractionMembership() if whole else InteractionReconstruction(),
        view=view,
        interactions=Interactions.of(truth.astype(np.float32)),
        quick=True,
        confidence=0.95,
        rng=np.random.default_rng(8),
    )
    return play(game)[0]


def test_a_message_is_found_by_what_it_must_have() -> None:
    """Bayes' rule by hand: 2 messages, of which a known item has probability .9 and .3."""
    posterior = np.array([[0.9, 0.5], [0.3, 0.5]])
    known = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    found = found_again(posterior, known)
    np.testing.assert_allclose(found, [[0.75, 0.25], [0.5, 0.5], [0.75, 0.25]])


def test_sets_and_memberships_come_back_and_weaken_with_flipping() -> None:
    sets, areas = [], []
    for flip in (0.001, 0.05, 0.2, 0.5):
        view = shuffled(SKEWED, np.random.default_rng(2), flip)
        sets.append(played(SKEWED, view, reconstruction.play).value)
        areas.append(played(SKEWED, view, membership.play).value)
    assert sets[0] > 0.8
    assert sets == sorted(sets, reverse=True)
    assert areas[0] > 0.95
    assert areas == sorted(areas, reverse=True)
    assert sets[-1] == 0


def test_messages_of_others_do_not_beat_popularity() -> None:
    """The same popularity of items, and nobody's set."""
    rng = np.random.default_rng(3)
    other = np.stack([rng.permutation(column) for column in SKEWED.T], axis=1)
    row = played(SKEWED, shuffled(other, rng, 0.01), membership.play)
    assert row.ahead.ci_low <= 0.0
    assert "Of each user 5 items are known" in row.note
    assert played(SKEWED, shuffled(other, rng, 0.01), reconstruction.play).value < 0.02


def test_messages_are_numbered_and_reports_are_none() -> None:
    hidden = pseudonymous(shuffled(SKEWED, np.random.default_rng(4), 0.1))
    (only,) = hidden.rounds
    assert only.uploads.users.tolist() == list(range(len(SKEWED)))
    assert pseudonymous(reported(SKEWED, np.random.default_rng(0))) is None


def test_known_items_are_no_candidates() -> None:
    data = Interactions.of(SKEWED.astype(np.float32))
    met, rest = membership.known(data, np.random.default_rng(5))
    assert ((met + rest.ratings) != data.ratings).nnz == 0
    sizes = np.diff(data.ratings.indptr)
    assert np.array_equal(np.diff(met.indptr), np.minimum(membership.MET, sizes // 2))


def test_messages_of_several_rounds_are_read_where_few_users_send_in_each() -> None:
    """A sixth of the users a round: whoever sent in the last six is found, not the last sixth."""
    rng = np.random.default_rng(8)
    senders = [np.sort(rng.permutation(120)[:20]) for _ in range(6)]
    rounds = [
        sent({"bits": Dense(SKEWED[users].astype(np.int8), Kind.BITS)}, users=users)
        for users in senders
    ]
    rng = np.random.default_rng(9)
    view = view_of(*rounds, users=120, items=150, vantage=Vantage.SHUFFLED, rng=rng)
    hidden = pseudonymous(view)
    assert len(hidden.rounds) == 6
    assert hidden.public.n_users == 6 * 20
    row = played(SKEWED, view, reconstruction.play)
    assert row.value == pytest.approx(len(set().union(*senders)) / 120, abs=0.01)
    assert "of the last 6 rounds" in row.note


BASE = np.arange(10.0).reshape(5, 2)
STEP = np.zeros((3, 5, 2))
STEP[:, 1] = 0.5
STEP[1, 4] = -0.25


def seen(*messages: Wire, users: int = 3) -> View:
    model = {"V": BASE, "other": np.zeros((2, 2))}
    return view_of(*(sent({"sent": wire}, model) for wire in messages), users=users, items=5)


@pytest.mark.parametrize(
    ("wire", "sign"),
    [
        (Wire.of(BASE + STEP, Kind.MODEL, 0.1), 1),
        (Wire.of(STEP, Kind.CHANGE, 0.1), 1),
        (Wire.of(STEP, Kind.GRADIENT, 0.5), 1),  # downhill already
        (Wire.of(STEP, Kind.GRADIENT, -1.0), -1),
    ],
)
def test_every_kind_says_how_the_model_would_move(wire: Wire, sign: int) -> None:
    (table,) = item_messages(seen(wire))
    ((_, change, moved),) = table.changes()
    np.testing.assert_array_equal(change, sign * STEP)
    np.testing.assert_array_equal(moved, STEP != 0)


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (Wire.of(np.zeros((3, 5, 3)), Kind.MODEL), "sent (model, 5 x 3)"),  # of no known part
        (Wire.of(STEP, "hashes"), "sent (hashes, 5 x 2)"),
    ],
)
def test_what_nobody_reads_is_refused_and_not_guessed_at(wire: Wire, said: str) -> None:
    assert not model_messages(seen(wire))
    assert said in reading.refusal(seen(wire))


def test_as_many_rounds_are_read_as_bring_no_more_messages_than_users() -> None:
    wires = [Wire.of(STEP, Kind.CHANGE) for _ in range(5)]
    for users, rounds in ((2, 1), (3, 1), (8, 2), (15, 5)):
        assert len(kept(seen(*wires, users=users), "sent")) == rounds
    bits = [Wire.of(np.ones((3, 5)), Kind.BITS) for _ in range(5)]
    assert len(kept(seen(*bits), "sent")) == 5


def test_ratings_are_read_as_they_are() -> None:
    ratings = Wire.of(np.array([[0, 5, 0, 3, 0]] * 3), Kind.RATINGS)
    pairs = np.array([[0, 1], [2, 0], [1, 3]])
    found = scored(seen(ratings), pairs)
    assert found[0] == found[2] > found[1]
    rated = reading.evidence(seen(ratings), np.array([0])).ratings
    np.testing.assert_array_equal(rated, [[0, 5, 0, 3, 0]])


def test_messages_that_move_nothing_score_nothing() -> None:
    still = seen(Wire.of(np.zeros((3, 5, 2)), Kind.CHANGE))
    pairs = np.array([[0, 1], [2, 0]])
    for negatives in (0, 1, 4):
        public = replace(still.public, settings={"negatives": negatives})
        assert np.ptp(scored(replace(still, public=public), pairs)) == 0


COUNTS = np.random.default_rng(0).pareto(1.0, size=50)


@pytest.mark.parametrize(("broken", "known"), [((), True), ((3, 4), True), (range(5), False)])
def test_rounds_that_broke_down_tell_nothing_and_end_nothing(broken: range, known: bool) -> None:
    """Models that move by popularity along one direction; some are not finite, as after 1e308."""
    way = np.array([0.5, -1.0, 2.0])
    models = [np.outer(COUNTS, way) * (1 + number) for number in range(5)]
    for number in broken:
        models[number][number % 2 :, 1] = np.inf if number % 2 else np.nan
    view = view_of(
        *(Round({"item": model}, Uploads(np.arange(0), {})) for model in models),
        users=9,
        items=50,
        vantage=Vantage.PEERS,
        settings={"negatives": 4.0},
    )
    order = popularity(view)
    assert np.isfinite(order).all()
    assert order.any() == known
    assert not known or np.corrcoef(order, COUNTS)[0, 1] > 0.99
