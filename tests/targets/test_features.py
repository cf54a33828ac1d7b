"""Features, filters and side tables, each compared with a slow implementation."""

from __future__ import annotations

import statistics
from math import ceil, log
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Filter, Interactions
from fedrec_auditor.targets.datasets.table import Table
from fedrec_auditor.targets.features import compute_user_features, count_user_features
from fedrec_auditor.targets.side_tables import SideTables
from tests.contracts.laws import check_ranges

STARS = [0.5 * half for half in range(11)]


ATTRIBUTES = {
    "gender": Attribute(codes=np.array([1, 0]), categories=("F", "M")),
    "occupation": Attribute(codes=np.array([2, 0]), categories=("a", "b", "c")),
    "age": Attribute(codes=np.array([1, 2]), categories=("34", "45", "46")),
}


def oracle(ratings: list[float], best: float) -> list[float]:
    """The 18 numbers of one user, computed one after another."""
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
def test_every_number_equals_that_of_a_loop(stars: list[list[float]], best: float) -> None:
    found = compute_user_features(Interactions.create(np.array(stars)), best=best)
    assert len(found.names) == len(set(found.names)) == 18
    assert found.values.dtype == np.float32
    np.testing.assert_allclose(found.values, [oracle(row, best) for row in stars], atol=1e-6)


@given(st.sets(st.sampled_from([*ATTRIBUTES, "age_group", "region"])))
def test_columns_are_counted_without_computing_them(known: set[str]) -> None:
    more = {
        "age_group": Attribute(codes=np.array([0, 3]), categories=("a", "b", "c", "d")),
        "region": Attribute(codes=np.array([0, 1]), categories=("north", "south")),
    }
    attributes = {key: one for key, one in {**ATTRIBUTES, **more}.items() if key in known}
    data = Interactions.create(np.ones((2, 3)), attributes=attributes)
    assert count_user_features(data) == compute_user_features(data).values.shape[1]


def test_attributes_are_one_hot_and_ages_fall_into_three_groups() -> None:
    data = Interactions.create(np.zeros((2, 3)), attributes=ATTRIBUTES)
    found = compute_user_features(data)
    assert not found.values[:, :18].any()
    ones = [{found.names[at] for at in np.flatnonzero(row)} for row in found.values]
    assert ones == [
        {"gender M", "occupation c", "age_group 35 to 45"},
        {"gender F", "occupation a", "age_group over 45"},
    ]
    assert len(found.names) == 18 + 2 + 3 + 3


def test_age_groups_are_preferred_to_years() -> None:
    group = Attribute(codes=np.array([0, 0]), categories=("young", "old"))
    data = Interactions.create(np.zeros((2, 3)), attributes={**ATTRIBUTES, "age_group": group})
    assert compute_user_features(data).names[-2:] == ("age_group young", "age_group old")


def test_ratings_off_the_scale_count_as_its_ends() -> None:
    found = compute_user_features(Interactions.create(np.array([[7.0, -3.0]])))
    shares = dict(zip(found.names, found.values[0], strict=True))
    assert shares["share of level 1"] == shares["share of level 5"] == 0.5


@pytest.mark.parametrize("best", [0, -1, float("nan"), float("inf")])
def test_a_scale_needs_a_best_rating(best: float) -> None:
    with pytest.raises(InputError, match="best > 0"):
        compute_user_features(Interactions.create(np.eye(2)), best=best)


def test_ages_other_than_years_are_groups() -> None:
    age = Attribute(codes=np.array([0, 1]), categories=("young", ""))
    found = compute_user_features(Interactions.create(np.eye(2), attributes={"age": age}))
    assert found.names[-2:] == ("age_group young", "age_group ")


def make_interactions(table: np.ndarray) -> Interactions:
    n_users, n_items = table.shape
    data = Interactions.create(table)
    codes = np.arange(n_users) % 2
    return Interactions.create(
        table,
        timestamps=np.arange(data.ratings.nnz),
        attributes={"gender": Attribute(codes=codes, categories=("F", "M"))},
        genres=np.arange(n_items)[:, None] % 3 == np.arange(3),
        genre_names=("a", "b", "c"),
        titles=tuple(f"item {item}" for item in range(n_items)),
    )


def drop_one_by_one(
    table: np.ndarray, min_user: int, min_item: int, items_first: bool
) -> tuple[list[int], list[int]]:
    """The part that remains if users and items are dropped one by one, in either order."""
    users, items = list(range(table.shape[0])), list(range(table.shape[1]))
    while True:
        weak_users = [u for u in users if np.count_nonzero(table[u, items]) < min_user]
        weak_items = [i for i in items if np.count_nonzero(table[users, i]) < min_item]
        if weak_items and (items_first or not weak_users):
            items.remove(weak_items[0])
        elif weak_users:
            users.remove(weak_users[0])
        else:
            return users, items


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
)
def test_filters_leave_the_same_as_dropping_one_by_one(
    shape: tuple[int, int], seed: int, min_user: int, min_item: int, items_first: bool
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, shape) * (rng.random(shape) < rng.random())
    data = make_interactions(table.astype(float))
    users, items = drop_one_by_one(table, min_user, min_item, items_first)
    one = Filter(min_user=min_user, min_item=min_item)
    if not table[np.ix_(users, items)].any() and (min_user or min_item):
        with pytest.raises(InputError, match="Lower min_user"):
            one(data)
        return
    left = one(data)
    assert left.users.tolist() == users
    assert left.items.tolist() == items
    np.testing.assert_array_equal(left.ratings.toarray(), table[np.ix_(users, items)])
    times = data.ratings.copy()
    times.data = np.arange(1.0, times.nnz + 1, dtype=np.float32)
    expected = times.toarray()[np.ix_(users, items)]
    assert (left.timestamps + 1).tolist() == expected[expected > 0].tolist()
    assert left.attributes["gender"].codes.tolist() == [user % 2 for user in users]
    assert left.titles == tuple(f"item {item}" for item in items)
    assert left.genres.argmax(axis=1).tolist() == [item % 3 for item in items]


def test_filters_without_limits_keep_the_data() -> None:
    check_ranges(Filter())
    data = make_interactions(np.array([[0.0, 1], [0, 0]]))
    assert Filter()(data) is data
    assert Filter(min_user=1)(data).users.tolist() == [0]
    assert Filter(min_user=1)(data).items.tolist() == [0, 1]


def test_low_ratings_are_dropped_before_interactions_are_counted() -> None:
    data = make_interactions(np.array([[5.0, 4, 3, 0], [4, 1, 0, 0], [3, 2, 0, 5]]))
    left = Filter(min_rating=4)(data)
    assert left.ratings.toarray().tolist() == [[5, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 5]]
    assert Filter(min_rating=4, min_user=2)(data).users.tolist() == [0]
    with pytest.raises(InputError, match="Expected ratings of at least 6"):
        Filter(min_rating=6)(data)


USERS = {
    "user_id": ["c", "a", "b", "d", "x"],
    "gender": ["F", "M", "", "M", "F"],
    "level": ["10", "2", "10", "NA", "7"],
}


@pytest.fixture
def table(tmp_path: Path) -> Interactions:
    rows = "".join(f"{user},{item}\n" for user in "abcd" for item in (3, 5, 8))
    (tmp_path / "r.csv").write_text(f"user,item\n{rows}e,3\n")
    return Table().load(tmp_path / "r.csv")


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path)
        return path
    between = {".csv": ",", ".tsv": "\t"}[path.suffix]
    lines = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(between.join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_users_are_joined_by_identifier(table: Interactions, tmp_path: Path, ending: str) -> None:
    found = SideTables(users=write(tmp_path / f"u.{ending}", USERS))(table)
    gender, level = found.attributes["gender"], found.attributes["level"]
    assert gender.classes == ("F", "M")
    assert gender.codes.tolist() == [1, 2, 0, 1, 2]
    assert gender.has_value.tolist() == [True, False, True, True, False]
    assert level.classes == ("2", "10")
    assert level.codes.tolist() == [0, 1, 1, 2, 2]
    assert found.digest() != table.digest()
    assert found.name == f"r.csv with u.{ending}"
    assert found.notes == (
        f"1 of 5 users have no row in u.{ending}.",
        f"1 of 5 rows of u.{ending} match no user.",
        "2 users have no value of gender: attacks skip them.",
        "2 users have no value of level: attacks skip them.",
    )


def test_numbers_are_cut_at_given_edges_or_in_thirds(tmp_path: Path) -> None:
    data = Interactions.create(np.ones((90, 2)))
    ids = list(map(str, range(90)))
    path = write(tmp_path / "u.csv", {"id": ids, "age": [str(10 + at) for at in range(90)]})
    thirds = SideTables(users=path)(data).attributes["age"]
    assert thirds.classes == ("below 39", "39 to below 69", "69 and more")
    assert np.bincount(thirds.codes).tolist() == [29, 30, 31]
    cut = SideTables(users=path, bins={"age": (0, 18, 200)})(data).attributes["age"]
    assert cut.classes == ("0 to below 18", "18 to below 200")
    assert np.bincount(cut.codes).tolist() == [8, 82]


def test_items_have_titles_genres_and_other_flags(table: Interactions, tmp_path: Path) -> None:
    columns = {
        "item": ["3", "8", "9"],
        "title": ["T3", "T8", "T9"],
        "genres": ["b|a", "", "z"],
        "brand": ["x", "y", "w"],
    }
    found = SideTables(items=write(tmp_path / "i.csv", columns))(table)
    assert found.titles == ("T3", "", "T8")
    assert found.genre_names == ("a", "b", "brand: x", "brand: y")
    assert found.genres is not None
    assert found.genres.astype(int).tolist() == [[1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("name", ["title", "genres"])
def test_titles_and_genres_have_no_bins(table: Interactions, tmp_path: Path, name: str) -> None:
    path = write(
        tmp_path / "i.csv", {"item": ["3", "8"], "title": ["1", "2"], "genres": ["3", "4"]}
    )
    with pytest.raises(InputError, match=f"got '{name}' of .*Leave its bins out"):
        SideTables(items=path, bins={name: (2.0,)})(table)


def test_thirds_are_of_the_audited_users(tmp_path: Path) -> None:
    """Older users have one interaction each; items are read before users are dropped."""
    ratings = np.ones((90, 2))
    ratings[45:, 1] = 0.0
    ages = {"id": list(map(str, range(90))), "age": [str(10 + at) for at in range(90)]}
    users = write(tmp_path / "u.csv", ages)
    items = write(tmp_path / "i.csv", {"item": ["0", "1"], "brand": ["x", "y"]})
    data = SideTables(users=users, items=items)(Interactions.create(ratings), Filter(min_user=2))
    assert np.bincount(data.attributes["age"].codes).tolist() == [14, 15, 16]
    assert data.genre_names == ("brand: x", "brand: y")


BORN = {"user": ["a", "b", "c"], "born": ["1990-01-02", "1991-03-04", ""], "sex": ["F", "M", "F"]}


@pytest.mark.parametrize(
    ("columns", "asked", "said"),
    [
        (BORN, {}, r"column 'born' .*got dates\. Give an age"),
        (BORN, {"attributes": ("born",)}, "got dates"),
        (BORN, {"attributes": ("gender",)}, r"got 'gender'\. The attributes are: sex"),
        (BORN, {"attributes": ("sex",), "bins": {"sex": (1.0,)}}, "got 'F'. Leave its bins out"),
        (BORN, {"attributes": ("sex",), "bins": {"age": (1.0,)}}, "'age'. Name one of: born"),
        (USERS, {"bins": {"level": (99.0,)}}, "which lie between 2 and 10, got the edges 99"),
        ({"user": ["1", "2"], "sex": ["F", "M"]}, {}, "such as a, got only unknown ones"),
        ({"user": ["a", "a"], "sex": ["F", "M"]}, {}, "line 3, got 'a'"),
        ({"who": ["a", "b"], "sex": ["F", "M"]}, {}, r"usual name \(user, user_id, id\)"),
    ],
)
def test_unreadable_columns_give_one_error(
    table: Interactions, tmp_path: Path, columns: dict[str, list[str]], asked: dict, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        SideTables(users=write(tmp_path / "u.csv", columns), **asked)(table)


def test_dates_are_left_out_if_other_columns_are_named(table: Interactions, tmp_path: Path) -> None:
    found = SideTables(users=write(tmp_path / "u.csv", BORN), attributes=("sex",))(table)
    assert set(found.attributes) == {"sex"}
    assert any("born of u.csv is not used: dates." in note for note in found.notes)


def test_row_numbers_and_identifiers_are_not_attributes(
    table: Interactions, tmp_path: Path
) -> None:
    path = tmp_path / "users.csv"
    rows = [f"{row},{user},{user},{row % 2}" for row, user in enumerate("abcde")]
    path.write_text("\n".join([",user_id,id,sex", *rows]), "utf-8")
    joined = SideTables(users=path)(table)
    assert set(joined.attributes) == {"sex"}
    assert any("left out as identifiers: '', 'id'" in note for note in joined.notes)
