"""Games of attacks score guesses that are known, and say of whom they come true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import (
    AttackFamily,
    AttackResult,
    Background,
    GuessedLabels,
    MemberScores,
    Reconstruction,
)
from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
from fedrec_auditor.auditor.games import attribute, membership, reconstruction
from fedrec_auditor.auditor.games import game as game_module
from fedrec_auditor.reports.record.rows import SkippedRow
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.transcript import View
from tests.attacks import synthetic
from tests.attacks.synthetic import send
from tests.auditor.games.played import game

DATA = Synthetic(n_users=80, n_items=60, profile=12, seed=3).load()
# The attributes by their number of categories, in the order of rows.
KEYS = {2: "gender", 3: "age_group", 4: "occupation"}


@dataclass(frozen=True)
class Scripted:
    """An attack whose guesses are made by a function of the background."""

    family: AttackFamily
    script: Any
    vantage: Vantage = Vantage.SERVER
    reference: str = "scripted"
    able: bool = True
    needs_known: bool = True

    def refusal(self, view: View) -> str:
        return "" if self.able else "It reads nothing."

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> AttackResult:
        guess: AttackResult = self.script(view, background, rng)
        return guess


def view_of(interactions: Interactions, **more: Any) -> View:
    bits = (interactions.ratings.toarray() != 0).astype(np.int8)
    one = send({"bits": Dense(bits, Payload.BITS)})
    return synthetic.make_view(one, users=interactions.n_users, items=interactions.n_items, **more)


def play(room: Any, attack: Any, interactions: Interactions = DATA) -> Any:
    return room.run_attack(game(attack, view_of(interactions), interactions))


def others(background: Background) -> np.ndarray:
    return np.setdiff1d(np.arange(DATA.n_users), background.known_users)


def test_attribute_rows_of_a_perfect_and_a_majority_guesser() -> None:
    def oracle(view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        key = KEYS[background.n_classes]
        users = others(background)
        if not view.find_linked_rounds("bits"):
            frequent = np.bincount(background.known_classes).argmax()
            return GuessedLabels(users=users, classes=np.full(len(users), frequent))
        return GuessedLabels(users=users, classes=DATA.attributes[key].codes[users])

    rows = play(attribute, Scripted(AttackFamily.ATTRIBUTE, oracle))
    of_all = [row.metric.split()[0] for row in rows if "," not in row.metric]  # not of one reading
    assert of_all == list(KEYS.values())
    for row in rows:
        assert row.value == row.ci_high == 1.0
        assert 0 < row.ci_low < 1
        assert row.baselines["no upload"] == pytest.approx(row.baselines["majority"])
        assert set(row.baselines) == {"majority", "random", "no upload"}
        assert row.baseline == max(row.baselines.values()) < 1
        assert "30%" in row.note


def test_attribute_backgrounds_hold_no_answer() -> None:
    """Side knowledge leaves out the attribute in question, and labels are of known users only."""
    seen = []

    def script(view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        seen.append(background)
        users = others(background)
        return GuessedLabels(users=users, classes=np.zeros(len(users), dtype=np.int64))

    play(attribute, Scripted(AttackFamily.ATTRIBUTE, script))
    categories = {k: len(a.categories) for k, a in DATA.attributes.items()}
    for background in seen:
        known = background.known_users, background.known_classes
        assert [len(each) for each in known] == [round(0.3 * DATA.n_users)] * 2
        key = KEYS[background.n_classes]
        assert background.attributes.shape[1] == sum(categories.values()) - categories[key]
    draws = {tuple(background.known_users) for background in seen}
    assert len(draws) == 3 * attribute.QUICK_N_DRAWS  # of three attributes


def test_membership_rows_of_a_perfect_and_a_silent_scorer() -> None:
    held = DATA.ratings.toarray() != 0

    def perfect(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        pairs = background.candidate_pairs
        return MemberScores(values=held[pairs[:, 0], pairs[:, 1]].astype(float))

    def silent(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=np.zeros(len(background.candidate_pairs)))

    area, height = play(membership, Scripted(AttackFamily.MEMBERSHIP, perfect))
    assert area.value == height.value == 1.0
    assert 0.5 < area.baselines["popularity"] < 1
    assert area.roc is not None
    assert set(area.roc.tpr) == {one.value for one in area.users.quantiles.values()} == {1.0}
    assert area.further["TPR at FPR 0.1"].value == 1.0
    assert "The TPR at FPR 0.001 is missing:" in area.note
    area, height = play(membership, Scripted(AttackFamily.MEMBERSHIP, silent))
    assert area.value == 0.5
    assert height.value == pytest.approx(height.baselines["random"])
    assert "no signal" in area.note


def test_an_attack_is_given_popularity_and_held_against_it() -> None:
    """The gain is 0 if an attack adds nothing to popularity, and small if it adds a little."""
    held = DATA.ratings.toarray() != 0

    def nothing(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=background.prior_log_odds)

    def little(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        told = 0.05 * held[tuple(background.candidate_pairs.T)]
        told += rng.normal(0, 0.03, len(told))
        return MemberScores(values=background.prior_log_odds + told)

    for row in play(membership, Scripted(AttackFamily.MEMBERSHIP, nothing)):
        assert row.value == row.baseline == row.baselines["popularity"]
        assert row.gain.value == 0.0
        assert row.gain.ci_low < 0.0 < row.gain.ci_high < 0.1
        assert "found no signal" in row.note
    (area, *_) = play(membership, Scripted(AttackFamily.MEMBERSHIP, little))
    assert area.gain.value == pytest.approx(area.value - area.baseline)
    assert area.gain.ci_low > 0.0
    assert area.ci_low < area.baseline  # which alone would show nothing
    assert area.gain_over_baseline == area.gain


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_balanced_distinct_and_true(seed: int) -> None:
    everybody, rng = np.arange(DATA.n_users), np.random.default_rng(seed)
    pairs, members = membership.draw_candidates(DATA, everybody, 50, rng)
    held = DATA.ratings.toarray() != 0
    np.testing.assert_array_equal(held[pairs[:, 0], pairs[:, 1]], members)
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    users = np.unique(pairs[:, 0])
    assert len(users) == 50
    sizes = held.sum(axis=1)
    expected = np.minimum(np.minimum(sizes, DATA.n_items - sizes), membership.MAX_MEMBERS_PER_USER)
    for kind in (members, ~members):
        counts = np.bincount(pairs[kind, 0], minlength=DATA.n_users)
        np.testing.assert_array_equal(counts[users], expected[users])


def test_candidates_are_drawn_evenly() -> None:
    """Every item of a user is as likely as any other: a chi-square over many draws."""
    rng = np.random.default_rng(0)
    small = replace(DATA, ratings=DATA.ratings[:1], users=DATA.users[:1])
    counts = np.zeros(DATA.n_items)
    for _ in range(400):
        pairs, members = membership.draw_candidates(small, np.arange(small.n_users), 1, rng)
        counts[pairs[~members, 1]] += 1
    outside = counts[small.ratings.toarray()[0] == 0]
    expected = outside.sum() / len(outside)
    # Draws without replacement vary less than multinomial ones: the statistic errs low.
    assert np.sum((outside - expected) ** 2) / expected < len(outside) + 5 * np.sqrt(
        2 * len(outside)
    )
    assert counts[small.ratings.toarray()[0] != 0].sum() == 0


def test_reconstruction_rows() -> None:
    held = DATA.ratings.toarray() != 0

    def perfect(view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        return Reconstruction(users=np.arange(len(held)), items=held, is_proved=held)

    attack = Scripted(AttackFamily.RECONSTRUCTION, perfect)
    rows = {row.metric: row for row in play(reconstruction, attack)}
    assert rows["interaction F1"].value == rows["users reconstructed exactly"].value == 1.0
    assert "Mean precision is 1.000, and mean recall is 1.000." in rows["interaction F1"].note
    assert rows["entries proved"].value == pytest.approx(held.mean())
    everything = rows["interaction F1"].baselines["all items"]
    sizes = held.sum(axis=1)
    assert everything == pytest.approx((2 * sizes / (sizes + DATA.n_items)).mean())
    assert rows["interaction F1"].baselines["popular items"] >= everything
    row = rows["interaction F1"]
    assert row.gain.value == pytest.approx(row.value - row.baseline)
    assert row.gain.ci_low > 0.0


def test_where_nothing_is_told_the_popular_items_are_guessed() -> None:
    """Not all items, as a flat prior has it: the F1 is that of the best list for everybody."""
    view = view_of(DATA)
    channel = BitFlip(0.5, 0.5)
    blind = replace(view, public=replace(view.public, noise_channel=channel))
    (row, *_) = reconstruction.run_attack(game(InteractionReconstruction(), blind, DATA))
    assert row.baseline == row.baselines["popular items"] > row.baselines["all items"]
    assert row.value == pytest.approx(row.baseline, abs=0.01)
    assert row.gain.ci_low <= 0.0 <= row.gain.ci_high + 0.01


@pytest.mark.parametrize("play_one", [reconstruction, membership])
def test_of_large_data_fewer_users_are_attacked_and_the_rows_say_how_many(
    play_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as keep users times items within a bound."""
    held = DATA.ratings.toarray() != 0
    family = AttackFamily.RECONSTRUCTION if play_one is reconstruction else AttackFamily.MEMBERSHIP

    def guess(view: View, background: Background, rng: np.random.Generator) -> AttackResult:
        if play_one is reconstruction:
            assert background.subjects is not None
            return Reconstruction(users=background.subjects, items=held[background.subjects])
        assert background.candidate_pairs is not None
        return MemberScores(values=held[tuple(background.candidate_pairs.T)].astype(float))

    (all_of, *_) = play(play_one, Scripted(family, guess))
    assert "were attacked" not in all_of.note
    limits = {"MAX_ATTACKED_PAIRS": 20 * DATA.n_items + 3, "MIN_USERS": 5, "_MANY": 50}
    for name, limit in limits.items():
        monkeypatch.setattr(game_module, name, limit)
    (some, *_) = play(play_one, Scripted(family, guess))
    assert "The attack was run on 20 of 80 users." in some.note
    assert some.value == 1.0
    assert some.ci_low < all_of.ci_low < 1.0


@pytest.mark.parametrize("room", [membership, reconstruction])
def test_too_many_messages_without_senders_are_not_searched(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(DATA, vantage=Vantage.SHUFFLED, rng=np.random.default_rng(0))
    monkeypatch.setattr("fedrec_auditor.auditor.games.game.MAX_UNLINKED_USER_ITEMS", 80 * 60 - 1)
    family = AttackFamily.MEMBERSHIP if room is membership else AttackFamily.RECONSTRUCTION
    (row,) = room.run_attack(game(Scripted(family, None), view, DATA))
    assert "4,800 entries (users times items) exceed the 4,799" in row.reason


def test_a_wrong_certainty_stops_the_audit() -> None:
    held = DATA.ratings.toarray() != 0

    def liar(view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        return Reconstruction(users=np.arange(len(held)), items=~held, is_proved=np.ones_like(held))

    with pytest.raises(AssertionError, match="certain"):
        play(reconstruction, Scripted(AttackFamily.RECONSTRUCTION, liar))


def test_popular_set_is_the_best_prefix() -> None:
    held = DATA.ratings.toarray() != 0
    order = np.argsort(-held.sum(axis=0), kind="stable")
    best = 0.0
    for size in range(1, DATA.n_items + 1):
        guess = np.isin(np.arange(DATA.n_items), order[:size])
        f1 = 2 * (held & guess).sum(axis=1) / (held.sum(axis=1) + size)
        best = max(best, f1.mean())
    chosen = reconstruction.flag_top_items(held)
    found = 2 * (held & chosen).sum(axis=1) / (held.sum(axis=1) + chosen.sum())
    assert found.mean() == pytest.approx(best)


@pytest.mark.parametrize(
    ("room", "family"),
    [
        (attribute, AttackFamily.ATTRIBUTE),
        (membership, AttackFamily.MEMBERSHIP),
        (reconstruction, AttackFamily.RECONSTRUCTION),
    ],
)
def test_an_attack_that_cannot_read_the_view_has_no_row(room: Any, family: AttackFamily) -> None:
    assert play(room, Scripted(family, None, able=False)) == ()


def test_guesses_that_are_not_numbers_are_a_fault_of_the_attack() -> None:
    """Not of the user's input, for which an audit of one system stops."""

    def script(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=background.candidate_pairs[:, 0] * np.nan)

    with pytest.raises(ArithmeticError, match=r"Expected scripted\.\w+ without NaN, got NaN"):
        play(membership, Scripted(AttackFamily.MEMBERSHIP, script))


@pytest.mark.parametrize("met", [60, 59, 0])
def test_who_met_everything_or_nothing_leaves_a_reason(met: int) -> None:
    table = np.zeros((1, 60))
    table[:, :met] = 1
    (row,) = play(membership, Scripted(AttackFamily.MEMBERSHIP, None), Interactions.create(table))
    assert isinstance(row, SkippedRow)
    assert "Expected 2 items" in row.reason


CROWD = Synthetic(n_users=90, n_items=60, profile=12, seed=3).load()
EVERYBODY = np.arange(90)
NOBODY: Any = None  # whom a spread asks nothing


def summarize(success: Any, **kw: Any) -> Any:
    """The spread of a success, one number for each user of the crowd."""
    played = game(NOBODY, NOBODY, CROWD, **kw)
    return game_module.summarize_users(played, EVERYBODY, success, "success")


def test_an_average_is_told_apart_from_a_few_who_lose_all() -> None:
    """One in five at 1 and the others at .5 are .6 on average, as is everybody at .6."""
    some = np.where(EVERYBODY % 5 == 0, 1.0, 0.5)
    few, all_alike = (summarize(each) for each in (some, np.full(90, some.mean())))
    assert few.quantiles["50%"].value == 0.5
    assert few.quantiles["99%"].value == 1.0
    assert few.sure.value == pytest.approx(0.2)
    assert few.sure.ci_low < 0.2 < few.sure.ci_high
    assert {one.value for one in all_alike.quantiles.values()} == {some.mean()}
    assert all_alike.sure.value == 0.0


def test_groups_are_of_those_who_are_alike() -> None:
    held = np.diff(CROWD.ratings.indptr)
    gender = CROWD.attributes["gender"]
    thirds = summarize(held / 60).groups["activity"]
    assert list(thirds) == ["fewest items", "middle third", "most items"]
    assert [one.value for one in thirds.values()] == sorted(one.value for one in thirds.values())
    popularity = np.bincount(CROWD.ratings.indices)
    liked = np.array([popularity[CROWD.ratings[[u]].indices].mean() for u in EVERYBODY]) / 90
    tastes = [one.value for one in summarize(liked).groups["taste"].values()]
    assert tastes == sorted(tastes)
    found = summarize(gender.codes / 1.0).groups
    assert [found["gender"][name].value for name in gender.categories] == [0.0, 1.0]
    for key, groups in found.items():
        if key in CROWD.attributes:
            sizes = np.bincount(CROWD.attributes[key].codes)
            assert len(groups) == np.count_nonzero(sizes >= game_module.MIN_GROUP_SIZE)


def test_users_without_a_success_are_left_out() -> None:
    success = np.where(EVERYBODY < 45, 0.3, np.nan)
    found = summarize(success)
    assert {one.value for one in found.quantiles.values()} == {0.3}


@pytest.mark.parametrize("asked", [False, True])
def test_a_users_own_success_is_kept_on_request_alone(asked: bool) -> None:
    success = EVERYBODY / 90
    found = summarize(success, is_per_user=asked)
    assert found.each == (tuple(zip(range(90), success, strict=True)) if asked else ())


@pytest.mark.parametrize("level", game_module.QUANTILE_LEVELS)
@pytest.mark.parametrize("n", [30, 400])
def test_intervals_of_quantiles_cover(n: int, level: float) -> None:
    """The quantile of a known distribution lies outside the interval in 5% of samples at most."""
    rng = np.random.default_rng([n, int(100 * level)])
    missed = 0
    for _ in range(300):
        one = game_module._quantile(rng.random(n), level, 0.95)
        missed += not one.ci_low <= level <= one.ci_high
    assert stats.binom.sf(missed - 1, 300, 0.05) > 1e-4
