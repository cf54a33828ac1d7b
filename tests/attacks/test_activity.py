"""How many items users have, by their messages or by their rows in vertical systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.activity import Activity
from fedrec_auditor.attacks.parts.best_regression import predicted
from fedrec_auditor.auditor.games import activity
from fedrec_auditor.reports.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.components import Component, Dense, Kind
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.fmf_vfl import FmfVfl
from fedrec_auditor.targets.papers.fmf_ldp.systems.fcf import Fcf
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import Flip, sent, view_of
from tests.auditor.games.played import game

DATA = Synthetic(n_users=200, n_items=120, profile=14, seed=2).load()
SIZES = np.diff(DATA.ratings.indptr)
HELD = DATA.ratings.toarray() != 0


def row(view: View) -> AttackRow:
    (found,) = activity.play(game(Activity(), view, DATA))
    assert isinstance(found, AttackRow)
    assert found.baseline == 0.5
    return found


def view(component: Component, **public: Any) -> View:
    return view_of(sent({"part": component}), users=DATA.n_users, items=DATA.n_items, **public)


def flipped(keep: float) -> View:
    """Bits that are as they are with probability ``keep``, by a public channel."""
    same = np.random.default_rng(1).random(HELD.shape) < keep
    bits = np.where(same, HELD, ~HELD).astype(np.int8)
    return view(Dense(bits, Kind.BITS), channel=Flip(keep, 1 - keep))


def scaled(exponent: float) -> View:
    """Messages of no form that is known, as long as a power of the number of items says."""
    noise = np.random.default_rng(2).normal(size=(DATA.n_users, 50))
    return view(Dense(noise * SIZES[:, None] ** exponent, Kind.CHANGE))


@pytest.mark.parametrize("seen", [Fcf(rounds=2), None], ids=["fcf", "bits"])
def test_messages_that_tell_every_item_tell_how_many(seen: Any) -> None:
    if seen is not None:
        run = seen.run(DATA, np.random.default_rng(0))
    found = row(flipped(1.0) if seen is None else run.transcript.view(Vantage.SERVER))
    assert found.value == 1.0


def test_of_flipped_bits_it_is_as_good_as_their_number() -> None:
    """Of which the order of likelihoods is, where items are alike."""
    shown = flipped(0.8)
    ones = shown.rounds[0].uploads.components["part"].dense(np.arange(DATA.n_users)).sum(axis=1)
    rng = np.random.default_rng(3)
    best = activity.ordered(ones.astype(float), SIZES, 0.95, rng).value
    assert 0.6 < best < 0.95
    assert row(shown).value > best - 0.03


@pytest.mark.parametrize("exponent", [1.0, -1.0])
def test_it_is_learned_whether_more_items_make_longer_messages_or_shorter_ones(
    exponent: float,
) -> None:
    assert row(scaled(exponent)).value > 0.9


def test_messages_that_are_alike_for_all_tell_nothing() -> None:
    assert row(view(Dense(np.ones((DATA.n_users, 5)), Kind.CHANGE))).value == 0.5
    found = row(scaled(0.0))
    assert found.ci_low < 0.5 < found.ci_high


@pytest.mark.parametrize("vantage", [Vantage.SERVER, Vantage.PEERS])
def test_rows_of_users_are_read_where_parties_send_or_hear_them(vantage: Vantage) -> None:
    run = FmfVfl(rounds=8, rate=0.2, learning_rate=0.02).run(DATA, np.random.default_rng(4))
    assert row(run.transcript.view(vantage)).ci_low > 0.6


def test_where_no_message_is_a_users_it_says_so() -> None:
    run = Fcf(rounds=2).run(DATA, np.random.default_rng(0))
    for vantage in (Vantage.AGGREGATE, Vantage.PEERS, Vantage.RELEASE):
        assert "links no message to a user" in Activity().refusal(run.transcript.view(vantage))
    few = DATA.take(np.arange(20))
    (told,) = activity.play(
        game(
            Activity(),
            view_of(
                sent({"part": Dense(np.ones((20, 3)), Kind.CHANGE)}), users=20, items=DATA.n_items
            ),
            few,
        )
    )
    assert isinstance(told, SkippedRow)
    assert "Too few users: of 20" in told.reason


@pytest.mark.parametrize(
    ("scores", "share"),
    [([1.0, 2, 3, 4], 1.0), ([4.0, 3, 2, 1], 0.0), ([1.0, 1, 1, 1], 0.5), ([1.0, 3, 2, 4], 0.8)],
)
def test_the_share_of_pairs_in_order(scores: list[float], share: float) -> None:
    """Two of the four are as active as each other: five pairs count, and a tie in scores half."""
    truth = np.array([5, 7, 9, 9]) if share != 0.8 else np.array([5, 7, 9, 11])
    expected = share if share != 0.8 else 5 / 6
    found = activity.ordered(np.array(scores), truth, 0.95, np.random.default_rng(0))
    assert found.value == pytest.approx(expected)
    assert found.low <= found.value <= found.high


def test_one_column_is_taken_where_one_tells_and_all_where_all_do() -> None:
    rng = np.random.default_rng(5)
    columns, known = rng.normal(size=(400, 30)), np.arange(12)
    told = columns[:, 7] + 0.1 * rng.normal(size=400)
    assert np.corrcoef(predicted(columns, known, told[known]), told)[0, 1] > 0.95
    many, told = np.arange(150), columns.sum(axis=1) + rng.normal(size=400)
    assert np.corrcoef(predicted(columns, many, told[many])[150:], told[150:])[0, 1] > 0.95
    assert not predicted(np.ones((400, 3)), known, told[known]).any()


def test_what_ranks_all_that_is_known_is_believed_beside_what_nearly_does() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 60, size=300).astype(float)
    near = np.log(sizes)[:, None] + 0.05 * rng.normal(size=(300, 40))
    found = predicted(np.column_stack([near, sizes**3]), np.arange(30), sizes[:30])
    assert (np.argsort(found, kind="stable") == np.argsort(sizes, kind="stable")).all()
