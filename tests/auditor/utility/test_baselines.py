"""Tests of utility baselines, popularity and damped means, against loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.auditor.utility import baselines, hold_out
from fedrec_auditor.auditor.utility.held_out import make_utility_row
from fedrec_auditor.reports.record.rows import UtilityRow
from fedrec_auditor.reports.record.sections import Section
from fedrec_auditor.reports.say.metrics import describe_utility_shortfall
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import HoldOut, Model, UtilityTest
from tests.auditor.utility.scorer import Scorer

RANKED = (HoldOut.LEAVE_LAST_OUT, HoldOut.HELD_OUT_USERS)


def draw_two_tastes(rng: np.random.Generator, users: int = 600, items: int = 60) -> Interactions:
    """Interactions of users of two tastes; items with smaller numbers are more popular."""
    liked = (np.arange(users)[:, None] + np.arange(items)) % 2 == 0
    rate = np.linspace(0.6, 0.1, items) * np.where(liked, 1.4, 0.1)
    rated = rng.random((users, items)) < rate
    return Interactions.create(rated * rng.integers(1, 6, rated.shape))


def evaluate(
    split: HoldOut, by: Callable[[Any, Interactions, Any], Any], cutoffs: tuple[int, ...] = (3, 10)
) -> tuple[Any, tuple[UtilityRow, ...]]:
    rng = np.random.default_rng(0)
    evaluation = UtilityTest(split=split, cutoffs=cutoffs)
    held = hold_out(evaluation, draw_two_tastes(rng), rng)
    target: Any = Scorer(lambda mine, users: by(held, mine, users), evaluation)
    return held, held.evaluate(target, Model(), confidence=0.95, rng=rng)


def score_by_popularity(held: Any, mine: Interactions, users: Any) -> Any:
    return np.tile(baselines.count_users_per_item(held.training_data), (len(users), 1))


def score_by_taste(held: Any, mine: Interactions, users: Any) -> Any:
    """Scores by popularity within the half of the items that has more of the user's items."""
    odd = mine.ratings[users].toarray()[:, 1::2] > 0
    even = mine.ratings[users].toarray()[:, ::2] > 0
    likes_odd = odd.sum(axis=1) > even.sum(axis=1)
    liked = (np.arange(mine.n_items) % 2 == 1) == likes_odd[:, None]
    return baselines.count_users_per_item(held.training_data) + 1000.0 * liked


def describe(*rows: UtilityRow) -> str:
    return describe_utility_shortfall(Section(target="scorer", findings=(), utility=rows))


@pytest.mark.parametrize("split", RANKED)
def test_popularity_as_a_target_equals_its_baseline(split: HoldOut) -> None:
    _, rows = evaluate(split, score_by_popularity)
    for each in rows:
        assert (each.baseline.name, each.baseline.value) == (baselines.POPULARITY, each.value)
        assert set(each.baseline.difference.model_dump().values()) == {0.0}
    text = describe(*rows)
    assert "popular items on any" in text
    assert "It is not shown that data of single users improve" in text


@pytest.mark.parametrize("split", RANKED)
def test_a_system_above_popularity_has_no_remark(split: HoldOut) -> None:
    _, rows = evaluate(split, score_by_taste)
    assert any(each.baseline.difference.ci_low > 0.0 for each in rows)
    assert describe(*rows) == ""


@pytest.mark.parametrize("split", RANKED)
def test_a_system_between_guessing_and_popularity_has_a_remark(split: HoldOut) -> None:
    def noisy(held: Any, mine: Interactions, users: Any) -> Any:
        popular = baselines.count_users_per_item(held.training_data)
        noise = np.random.default_rng(1).random((mine.n_users, mine.n_items))
        return popular + 1.5 * popular.max() * noise[users]

    _, rows = evaluate(split, noisy, cutoffs=(10,))
    assert any(each.ci_low > each.random for each in rows)
    text = describe(*rows)
    assert "recommending popular items on any" in text
    assert text.endswith("learned about single users does not improve the recommendations.")


def test_popularity_among_all_items_equals_counting() -> None:
    held, rows = evaluate(HoldOut.LEAVE_LAST_OUT, score_by_taste)
    kept = held.training_data.ratings.toarray() > 0
    met = kept.sum(axis=0)
    own, reference = [], []
    for user in np.flatnonzero(held.items >= 0):
        item = held.items[user]
        scores = score_by_taste(held, held.training_data, np.array([user]))[0]
        rivals = [other for other in range(60) if other != item and not kept[user, other]]
        for hits, by in ((own, scores), (reference, met)):
            above = sum(by[other] > by[item] for other in rivals)
            tied = sum(by[other] == by[item] for other in rivals)
            hits.append(np.mean([place < 3 for place in range(above, above + tied + 1)]))
    found = next(r for r in rows if (r.metric, r.protocol) == ("HR@3", "all items"))
    gaps = np.subtract(own, reference)
    half = 1.959964 * gaps.std(ddof=1) / np.sqrt(len(gaps))
    difference = found.baseline.difference
    assert (found.value, found.baseline.value) == pytest.approx((np.mean(own), np.mean(reference)))
    ends = gaps.mean() - half, gaps.mean() + half
    assert (difference.ci_low, difference.ci_high) == pytest.approx(ends, abs=1e-6)


def compute_slow_deviations(rest: list[tuple[int, float]], size: int) -> list[float]:
    """Shrunken deviations of groups: variance components and n / (n + k) of each mean, by loops."""
    members = [[x for group, x in rest if group == g] for g in range(size)]
    filled = [x for x in members if x]
    n = len(rest)
    if n == len(filled):
        return [0.0] * size
    mean = sum(x for _, x in rest) / n
    within = sum((y - sum(x) / len(x)) ** 2 for x in filled for y in x) / (n - len(filled))
    spread = sum(len(x) * (sum(x) / len(x) - mean) ** 2 for x in filled)
    between = (spread - (len(filled) - 1) * within) / (n - sum(len(x) ** 2 for x in filled) / n)
    if between <= 0:
        return [0.0] * size
    return [sum(x) / (len(x) + within / between) for x in members]


@given(st.integers(0, 2**32 - 1))
def test_means_equal_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    level = 3.0 + rng.normal(size=(9, 1)) + rng.normal(size=7)
    dense = (level + rng.normal(size=(9, 7))) * (rng.random((9, 7)) < 0.6)
    dense[0, 0] = 3.5
    data = Interactions.create(dense)
    table = data.ratings.toarray().astype(float)
    entries = [(u, i, table[u, i]) for u in range(9) for i in range(7) if table[u, i]]
    mean = np.mean([x for *_, x in entries])
    users, items = [0.0] * 9, [0.0] * 7
    for _ in range(5):
        items = compute_slow_deviations([(i, x - mean - users[u]) for u, i, x in entries], 7)
        users = compute_slow_deviations([(u, x - mean - items[i]) for u, i, x in entries], 9)
    asked = np.array([(u, i) for u in range(9) for i in range(7)]).T
    slow = [mean + users[u] + items[i] for u, i in asked.T]
    np.testing.assert_allclose(baselines.predict_ratings(data, asked[0], asked[1]), slow, atol=1e-8)


@pytest.mark.parametrize("dense", [np.full((4, 5), 2.0), np.diag([1.0, 3.0, 5.0])])
def test_the_mean_is_predicted_if_groups_do_not_differ(dense: np.ndarray) -> None:
    users, items = np.array([0, 1, 2]), np.array([2, 1, 0])
    found = baselines.predict_ratings(Interactions.create(dense), users, items)
    np.testing.assert_allclose(found, dense[dense > 0].mean())


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_rating_errors_are_compared_with_means_per_user(noise: float) -> None:
    """Without noise the predictions are exact; with noise their error exceeds that of the means."""
    rng = np.random.default_rng(2)
    level = 3.0 + 0.7 * rng.normal(size=(80, 1)) + 0.7 * rng.normal(size=30)
    taste = 0.7 * rng.normal(size=(80, 1)) * rng.normal(size=30)
    rated = (level + taste) * (rng.random((80, 30)) < 0.7)
    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS)
    split: Any = hold_out(evaluation, Interactions.create(rated), rng)
    scores = level + taste + noise * rng.normal(size=(80, 30))
    target: Any = Scorer(scores, evaluation)
    (result,) = split.evaluate(target, Model(), confidence=0.95, rng=rng)
    predicted = baselines.predict_ratings(split.training_data, split.users, split.items)
    ours = np.square(split.ratings - scores[split.users, split.items])
    theirs = np.square(split.ratings - predicted)
    assert result.baseline.name == baselines.USER_ITEM_MEANS
    assert result.baseline.value == pytest.approx(theirs.mean())
    assert theirs.mean() < 0.7 * result.random
    sums: dict[int, float] = {}
    gap = (ours - theirs).mean()
    for user, each in zip(split.users.tolist(), ours - theirs, strict=True):
        sums[user] = sums.get(user, 0.0) + each - gap
    n, users = len(ours), len(sums)
    error = np.sqrt(users / (users - 1) * sum(x**2 for x in sums.values())) / n
    ends = gap - 1.959964 * error, gap + 1.959964 * error
    difference = result.baseline.difference
    assert (difference.ci_low, difference.ci_high) == pytest.approx(ends, abs=1e-6)
    sentence = describe(result)
    if noise:
        useless = "better than guessing on this measure: the recommendations are useless."
        helps = "user and item means on this measure: what it learned about single users does not"
        assert sentence.endswith(useless) or helps in sentence
    else:
        assert sentence == ""


@pytest.mark.calibration
def test_scores_equal_to_popularity_rarely_beat_it_by_chance() -> None:
    """Any of twelve metrics of the same users beats it by chance in at most 5% of audits."""
    rng = np.random.default_rng(3)
    target: Any = Scorer(None)
    times, beaten = 600, 0
    for _ in range(times):
        places = rng.integers(0, 40, (2, 300))
        rows = [
            make_utility_row(
                target,
                f"HR@{cutoff}",
                "all items",
                *(places < cutoff).astype(float),
                baseline=baselines.POPULARITY,
                random_value=0.0,
                confidence=0.95,
            )
            for cutoff in range(4, 28, 2)
        ]
        beaten += describe(*rows) == ""
    assert stats.binom.sf(beaten - 1, times, 0.05) > 1e-4
    assert beaten > 0
