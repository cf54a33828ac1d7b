"""Who is hit: quantiles with exact intervals, and groups that are who they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.auditor.games.game import FEWEST_OF_GROUP, LEVELS, _quantile, who_is_hit
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from tests.auditor.games.played import game

DATA = Synthetic(n_users=90, n_items=60, profile=12, seed=3).load()
EVERYBODY = np.arange(90)
NOBODY: Any = None  # whom a spread asks nothing


def test_an_average_is_told_apart_from_a_few_who_lose_all() -> None:
    """One in five at 1 and the others at .5 are .6 on average, as is everybody at .6."""
    some = np.where(EVERYBODY % 5 == 0, 1.0, 0.5)
    few, all_alike = (
        who_is_hit(game(NOBODY, NOBODY, DATA), EVERYBODY, each, "success")
        for each in (some, np.full(90, some.mean()))
    )
    assert few.quantiles["50%"].value == 0.5
    assert few.quantiles["99%"].value == 1.0
    assert few.sure.value == pytest.approx(0.2)
    assert few.sure.ci_low < 0.2 < few.sure.ci_high
    assert {one.value for one in all_alike.quantiles.values()} == {some.mean()}
    assert all_alike.sure.value == 0.0


def test_groups_are_of_those_who_are_alike() -> None:
    held = np.diff(DATA.ratings.indptr)
    gender = DATA.attributes["gender"]
    of_items = who_is_hit(game(NOBODY, NOBODY, DATA), EVERYBODY, held / 60, "success").groups
    thirds = of_items["activity"]
    assert list(thirds) == ["fewest items", "middle third", "most items"]
    assert [one.value for one in thirds.values()] == sorted(one.value for one in thirds.values())
    popularity = np.bincount(DATA.ratings.indices)
    liked = np.array([popularity[DATA.ratings[[u]].indices].mean() for u in EVERYBODY]) / 90
    by_taste = who_is_hit(game(NOBODY, NOBODY, DATA), EVERYBODY, liked, "success").groups
    tastes = [one.value for one in by_taste["taste"].values()]
    assert tastes == sorted(tastes)
    found = who_is_hit(game(NOBODY, NOBODY, DATA), EVERYBODY, gender.codes / 1.0, "success").groups
    assert [found["gender"][name].value for name in gender.categories] == [0.0, 1.0]
    for key, groups in found.items():
        if key in DATA.attributes:
            sizes = np.bincount(DATA.attributes[key].codes)
            assert len(groups) == np.count_nonzero(sizes >= FEWEST_OF_GROUP)


def test_users_without_a_success_are_left_out() -> None:
    success = np.where(EVERYBODY < 45, 0.3, np.nan)
    found = who_is_hit(game(NOBODY, NOBODY, DATA), EVERYBODY, success, "success")
    assert {one.value for one in found.quantiles.values()} == {0.3}


@pytest.mark.parametrize("asked", [False, True])
def test_a_users_own_success_is_kept_on_request_alone(asked: bool) -> None:
    success = EVERYBODY / 90
    found = who_is_hit(game(NOBODY, NOBODY, DATA, per_user=asked), EVERYBODY, success, "success")
    assert found.each == (tuple(zip(range(90), success, strict=True)) if asked else ())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [30, 400])
def test_intervals_of_quantiles_cover(n: int, level: float) -> None:
    """Of a known distribution: the quantile lies outside in 5% of samples at most."""
    rng = np.random.default_rng([n, int(100 * level)])
    missed = 0
    for _ in range(300):
        one = _quantile(rng.random(n), level, 0.95)
        missed += not one.ci_low <= level <= one.ci_high
    assert stats.binom.sf(missed - 1, 300, 0.05) > 1e-4
