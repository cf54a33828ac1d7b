"""Features against a loop over users with the statistics module."""

from __future__ import annotations

import statistics
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.features import count_user_features, user_features

STARS = [0.5 * half for half in range(11)]
ATTRIBUTES = {
    "gender": Attribute(codes=np.array([1, 0]), categories=("F", "M")),
    "occupation": Attribute(codes=np.array([2, 0]), categories=("a", "b", "c")),
    "age": Attribute(codes=np.array([1, 2]), categories=("34", "45", "46")),
}


def oracle(ratings: list[float], best: float) -> list[float]:
    """The 18 numbers of one user, one after another."""
    rated = [rating for rating in ratings if rating]
    if not rated:
        return [0.0] * 18
    levels = [ceil(5 * rating / best) for rating in rated]
    shares = [levels.count(level) / len(rated) for level in range(1, 6)]
    return [
        log(1 + len(rated)),
        *(log(1 + levels.count(level)) for level in range(1, 6)),
        *shares,
        shares[0] + shares[1],
        shares[3] + shares[4],
        -sum(share * log(share) for share in shares if share) / log(5),
        statistics.median(rated) / best,
        min(rated) / best,
        max(rated) / best,
        statistics.fmean(rated) / best,
    ]


@given(
    st.integers(1, 7).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from(STARS), min_size=width, max_size=width), min_size=1, max_size=6
        )
    ),
    st.sampled_from([5.0, 10.0]),
)
def test_every_number_is_that_of_a_loop(stars: list[list[float]], best: float) -> None:
    found = user_features(Interactions.of(np.array(stars)), best=best)
    assert len(found.names) == len(set(found.names)) == 18
    assert found.values.dtype == np.float32
    np.testing.assert_allclose(found.values, [oracle(row, best) for row in stars], atol=1e-6)


@given(st.sets(st.sampled_from([*ATTRIBUTES, "age_group", "region"])))
def test_the_columns_are_counted_without_making_them(known: set[str]) -> None:
    more = {
        "age_group": Attribute(codes=np.array([0, 3]), categories=("a", "b", "c", "d")),
        "region": Attribute(codes=np.array([0, 1]), categories=("north", "south")),
    }
    attributes = {key: one for key, one in {**ATTRIBUTES, **more}.items() if key in known}
    data = Interactions.of(np.ones((2, 3)), attributes=attributes)
    assert count_user_features(data) == user_features(data).values.shape[1]


def test_attributes_are_one_hot_and_ages_fall_into_three_groups() -> None:
    data = Interactions.of(np.zeros((2, 3)), attributes=ATTRIBUTES)
    found = user_features(data)
    assert not found.values[:, :18].any()
    ones = [{found.names[at] for at in np.flatnonzero(row)} for row in found.values]
    assert ones == [
        {"gender M", "occupation c", "age_group 35 to 45"},
        {"gender F", "occupation a", "age_group over 45"},
    ]
    assert len(found.names) == 18 + 2 + 3 + 3


def test_groups_go_before_years() -> None:
    group = Attribute(codes=np.array([0, 0]), categories=("young", "old"))
    data = Interactions.of(np.zeros((2, 3)), attributes={**ATTRIBUTES, "age_group": group})
    assert user_features(data).names[-2:] == ("age_group young", "age_group old")


def test_ratings_off_the_scale_count_for_its_ends() -> None:
    found = user_features(Interactions.of(np.array([[7.0, -3.0]])))
    shares = dict(zip(found.names, found.values[0], strict=True))
    assert shares["share of level 1"] == shares["share of level 5"] == 0.5


@pytest.mark.parametrize("best", [0, -1, float("nan"), float("inf")])
def test_a_scale_needs_a_best_rating(best: float) -> None:
    with pytest.raises(InputError, match="best > 0"):
        user_features(Interactions.of(np.eye(2)), best=best)


def test_ages_that_are_no_years_are_groups() -> None:
    age = Attribute(codes=np.array([0, 1]), categories=("young", ""))
    found = user_features(Interactions.of(np.eye(2), attributes={"age": age}))
    assert found.names[-2:] == ("age_group young", "age_group ")
