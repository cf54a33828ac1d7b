"""Tests of games of attacks: scores of known guesses, and their spread over users."""

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
from tests.auditor.games.played import make_game

DATA = Synthetic(n_users=80, n_items=60, profile=12, seed=3).load()
# Attribute by its number of categories, in the order of rows.
KEYS = {2: "gender", 3: "age_group", 4: "occupation"}


@dataclass(frozen=True)
class Guesser:
    """An attack whose guesses are a function of the view, the background and a generator."""

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


def make_view(interactions: Interactions, **more: Any) -> View:
    bits = (interactions.ratings.toarray() != 0).astype(np.int8)
    one = send({"bits": Dense(bits, Payload.BITS)})
    return synthetic.make_view(one, users=interactions.n_users, items=interactions.n_items, **more)


def run(room: Any, attack: Any, interactions: Interactions = DATA) -> Any:
    return room.score_attack(make_game(attack, make_view(interactions), interactions))


def list_unknown_users(background: Background) -> np.ndarray:
    return np.setdiff1d(np.arange(DATA.n_users), background.known_users)


def test_attribute_rows_of_a_perfect_and_a_majority_guesser() -> None:
    def oracle(view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        key = KEYS[background.n_classes]
        users = list_unknown_users(background)
        if not view.find_linked_rounds("bits"):
            frequent = np.bincount(background.known_classes).argmax()
            return GuessedLabels(users=users, classes=np.full(len(users), frequent))
        return GuessedLabels(users=users, classes=DATA.attributes[key].codes[users])

    rows = run(attribute, Guesser(AttackFamily.ATTRIBUTE, oracle))
    of_all = [row.metric.split()[0] for row in rows if "," not in row.metric]  # all components
    assert of_all == list(KEYS.values())
    for row in rows:
        assert row.value == row.ci_high == 1.0
        assert 0 < row.ci_low < 1
        assert row.baselines["no upload"] == pytest.approx(row.baselines["majority"])
        assert set(row.baselines) == {"majority", "random", "no upload"}
        assert row.baseline == max(row.baselines.values()) < 1
        assert "30%" in row.note


def test_attribute_backgrounds_do_not_hold_the_answer() -> None:
    """Side knowledge omits the guessed attribute, and labels are those of known users only."""
    backgrounds = []

    def script(view: View, background: Background, rng: np.random.Generator) -> GuessedLabels:
        backgrounds.append(background)
        users = list_unknown_users(background)
        return GuessedLabels(users=users, classes=np.zeros(len(users), dtype=np.int64))

    run(attribute, Guesser(AttackFamily.ATTRIBUTE, script))
    categories = {k: len(a.categories) for k, a in DATA.attributes.items()}
    for background in backgrounds:
        known = background.known_users, background.known_classes
        assert [len(each) for each in known] == [round(0.3 * DATA.n_users)] * 2
        key = KEYS[background.n_classes]
        assert background.attributes.shape[1] == sum(categories.values()) - categories[key]
    draws = {tuple(background.known_users) for background in backgrounds}
    assert len(draws) == 3 * attribute.QUICK_N_DRAWS  # three attributes


def test_membership_rows_of_a_perfect_and_a_silent_scorer() -> None:
    held = DATA.ratings.toarray() != 0

    def perfect(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        pairs = background.candidate_pairs
        return MemberScores(values=held[pairs[:, 0], pairs[:, 1]].astype(float))

    def silent(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=np.zeros(len(background.candidate_pairs)))

    area, height = run(membership, Guesser(AttackFamily.MEMBERSHIP, perfect))
    assert area.value == height.value == 1.0
    assert 0.5 < area.baselines["popularity"] < 1
    assert area.roc is not None
    assert set(area.roc.tpr) == {one.value for one in area.users.quantiles.values()} == {1.0}
    assert area.further["TPR at FPR 0.1"].value == 1.0
    assert "The TPR at FPR 0.001 is missing:" in area.note
    area, height = run(membership, Guesser(AttackFamily.MEMBERSHIP, silent))
    assert area.value == 0.5
    assert height.value == pytest.approx(height.baselines["random"])
    assert "no signal" in area.note


def test_attacks_know_popularity_and_are_compared_with_it() -> None:
    """The gain is 0 if an attack adds nothing to popularity, and small if it adds a little."""
    held = DATA.ratings.toarray() != 0

    def nothing(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=background.prior_log_odds)

    def little(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        evidence = 0.05 * held[tuple(background.candidate_pairs.T)]
        evidence += rng.normal(0, 0.03, len(evidence))
        return MemberScores(values=background.prior_log_odds + evidence)

    for row in run(membership, Guesser(AttackFamily.MEMBERSHIP, nothing)):
        assert row.value == row.baseline == row.baselines["popularity"]
        assert row.gain.value == 0.0
        assert row.gain.ci_low < 0.0 < row.gain.ci_high < 0.1
        assert "found no signal" in row.note
    (area, *_) = run(membership, Guesser(AttackFamily.MEMBERSHIP, little))
    assert area.gain.value == pytest.approx(area.value - area.baseline)
    assert area.gain.ci_low > 0.0
    assert area.ci_low < area.baseline  # so that the area alone would not be above the baseline
    assert area.gain_over_baseline == area.gain


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_balanced_distinct_and_true(seed: int) -> None:
    everybody, rng = np.arange(DATA.n_users), np.random.default_rng(seed)
    pairs, members = membership.draw_labelled_pairs(DATA, everybody, 50, rng)
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
    """Every item of a user is as likely as any other, by a chi-square statistic over many draws."""
    rng = np.random.default_rng(0)
    small = replace(DATA, ratings=DATA.ratings[:1], users=DATA.users[:1])
    counts = np.zeros(DATA.n_items)
    for _ in range(400):
        pairs, members = membership.draw_labelled_pairs(small, np.arange(small.n_users), 1, rng)
        counts[pairs[~members, 1]] += 1
    outside = counts[small.ratings.toarray()[0] == 0]
    expected = outside.sum() / len(outside)
    # Draws without replacement vary less than multinomial draws, so the statistic errs low.
    assert np.sum((outside - expected) ** 2) / expected < len(outside) + 5 * np.sqrt(
        2 * len(outside)
    )
    assert counts[small.ratings.toarray()[0] != 0].sum() == 0


def test_reconstruction_rows() -> None:
    is_own = DATA.ratings.toarray() != 0

    def perfect(view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        return Reconstruction(users=np.arange(len(is_own)), items=is_own, is_proved=is_own)

    attack = Guesser(AttackFamily.RECONSTRUCTION, perfect)
    rows = {row.metric: row for row in run(reconstruction, attack)}
    assert rows["interaction F1"].value == rows["users reconstructed exactly"].value == 1.0
    assert "Mean precision is 1.000, and mean recall is 1.000." in rows["interaction F1"].note
    assert rows["entries proved"].value == pytest.approx(is_own.mean())
    everything = rows["interaction F1"].baselines["all items"]
    sizes = is_own.sum(axis=1)
    assert everything == pytest.approx((2 * sizes / (sizes + DATA.n_items)).mean())
    assert rows["interaction F1"].baselines["popular items"] >= everything
    row = rows["interaction F1"]
    assert row.gain.value == pytest.approx(row.value - row.baseline)
    assert row.gain.ci_low > 0.0


def test_popular_items_are_guessed_without_evidence() -> None:
    """A flat prior would guess all items; the F1 reached is that of the best list for all users."""
    view = make_view(DATA)
    channel = BitFlip(0.5, 0.5)
    blind = replace(view, public=replace(view.public, noise_channel=channel))
    (row, *_) = reconstruction.score_attack(make_game(InteractionReconstruction(), blind, DATA))
    assert row.baseline == row.baselines["popular items"] > row.baselines["all items"]
    assert row.value == pytest.approx(row.baseline, abs=0.01)
    assert row.gain.ci_low <= 0.0 <= row.gain.ci_high + 0.01


@pytest.mark.parametrize("play_one", [reconstruction, membership])
def test_large_data_are_attacked_on_a_stated_number_of_users(
    play_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of attacked users keeps users times items within a bound."""
    held = DATA.ratings.toarray() != 0
    family = AttackFamily.RECONSTRUCTION if play_one is reconstruction else AttackFamily.MEMBERSHIP

    def guess(view: View, background: Background, rng: np.random.Generator) -> AttackResult:
        if play_one is reconstruction:
            assert background.subjects is not None
            return Reconstruction(users=background.subjects, items=held[background.subjects])
        assert background.candidate_pairs is not None
        return MemberScores(values=held[tuple(background.candidate_pairs.T)].astype(float))

    (all_of, *_) = run(play_one, Guesser(family, guess))
    assert "were attacked" not in all_of.note
    limits = {"MAX_ATTACKED_PAIRS": 20 * DATA.n_items + 3, "MIN_USERS": 5, "_MANY": 50}
    for name, limit in limits.items():
        monkeypatch.setattr(game_module, name, limit)
    (some, *_) = run(play_one, Guesser(family, guess))
    assert "The attack was run on 20 of 80 users." in some.note
    assert some.value == 1.0
    assert some.ci_low < all_of.ci_low < 1.0


@pytest.mark.parametrize("room", [membership, reconstruction])
def test_too_many_messages_without_senders_are_not_searched(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(DATA, vantage=Vantage.SHUFFLED, rng=np.random.default_rng(0))
    monkeypatch.setattr("fedrec_auditor.auditor.games.game.MAX_UNLINKED_PAIRS", 80 * 60 - 1)
    family = AttackFamily.MEMBERSHIP if room is membership else AttackFamily.RECONSTRUCTION
    (row,) = room.score_attack(make_game(Guesser(family, None), view, DATA))
    assert "4,800 entries (users times items) exceed the 4,799" in row.reason


def test_a_wrong_proved_guess_stops_the_audit() -> None:
    held = DATA.ratings.toarray() != 0

    def liar(view: View, background: Background, rng: np.random.Generator) -> Reconstruction:
        return Reconstruction(users=np.arange(len(held)), items=~held, is_proved=np.ones_like(held))

    with pytest.raises(AssertionError, match="certain"):
        run(reconstruction, Guesser(AttackFamily.RECONSTRUCTION, liar))


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
def test_an_attack_that_refuses_the_view_has_no_row(room: Any, family: AttackFamily) -> None:
    assert run(room, Guesser(family, None, able=False)) == ()


def test_guesses_that_are_not_numbers_are_a_fault_of_the_attack() -> None:
    """The error is not an InputError, so that it does not look like a fault of the user's data."""

    def script(view: View, background: Background, rng: np.random.Generator) -> MemberScores:
        return MemberScores(values=background.candidate_pairs[:, 0] * np.nan)

    with pytest.raises(ArithmeticError, match=r"Expected \w+ from scripted\.infer without NaN"):
        run(membership, Guesser(AttackFamily.MEMBERSHIP, script))


@pytest.mark.parametrize("n_rated", [60, 59, 0])
def test_users_who_rated_all_or_no_items_give_a_reason(n_rated: int) -> None:
    table = np.zeros((1, 60))
    table[:, :n_rated] = 1
    (row,) = run(membership, Guesser(AttackFamily.MEMBERSHIP, None), Interactions.create(table))
    assert isinstance(row, SkippedRow)
    assert "Expected 2 items" in row.reason


CROWD = Synthetic(n_users=90, n_items=60, profile=12, seed=3).load()
EVERYBODY = np.arange(90)
UNUSED: Any = None  # summarize_users reads neither the attack nor the view


def summarize(success: Any, **kw: Any) -> Any:
    """Summary of a success, given as one number per user of CROWD."""
    played = make_game(UNUSED, UNUSED, CROWD, **kw)
    return game_module.summarize_users(played, EVERYBODY, success, "success")


def test_quantiles_distinguish_few_victims_from_an_average() -> None:
    """One in five users at 1 and the others at 0.5 have the same mean as all users at 0.6."""
    some = np.where(EVERYBODY % 5 == 0, 1.0, 0.5)
    few, all_alike = (summarize(each) for each in (some, np.full(90, some.mean())))
    assert few.quantiles["50%"].value == 0.5
    assert few.quantiles["99%"].value == 1.0
    assert few.sure.value == pytest.approx(0.2)
    assert few.sure.ci_low < 0.2 < few.sure.ci_high
    assert {one.value for one in all_alike.quantiles.values()} == {some.mean()}
    assert all_alike.sure.value == 0.0


def test_groups_are_by_activity_taste_and_attributes() -> None:
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
            assert len(groups) == np.count_nonzero(sizes >= game_module.MIN_GROUP_USERS)


def test_users_without_a_success_are_omitted() -> None:
    success = np.where(EVERYBODY < 45, 0.3, np.nan)
    found = summarize(success)
    assert {one.value for one in found.quantiles.values()} == {0.3}


@pytest.mark.parametrize("is_per_user", [False, True])
def test_the_success_per_user_is_kept_only_on_request(is_per_user: bool) -> None:
    success = EVERYBODY / 90
    found = summarize(success, is_per_user=is_per_user)
    assert found.each == (tuple(zip(range(90), success, strict=True)) if is_per_user else ())


@pytest.mark.parametrize("level", game_module.QUANTILE_LEVELS)
@pytest.mark.parametrize("n", [30, 400])
def test_intervals_of_quantiles_cover(n: int, level: float) -> None:
    """The true quantile is outside the interval in at most 5% of samples."""
    rng = np.random.default_rng([n, int(100 * level)])
    missed = 0
    for _ in range(300):
        one = game_module._quantile(rng.random(n), level, 0.95)
        missed += not one.ci_low <= level <= one.ci_high
    assert stats.binom.sf(missed - 1, 300, 0.05) > 1e-4
