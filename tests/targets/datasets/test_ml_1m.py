"""The official layout, and the pairs alone. All rows but the last test's are made up."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.ml_1m import AGES, OCCUPATIONS, Ml1m
from fedrec_auditor.targets.datasets.parts.movielens import GENRES
from tests.targets.datasets.broken import check_named

SHARED = Path(__file__).parents[4] / "shared" / "data" / "ml-1m"
Users = dict[int, tuple[str, str, int]]
Movies = dict[int, tuple[str, list[str]]]
Pairs = dict[tuple[int, int], tuple[int, int]]

USERS = st.dictionaries(
    st.integers(1, 10**6),
    st.tuples(st.sampled_from("FM"), st.sampled_from(list(AGES)), st.integers(0, 20)),
    min_size=1,
    max_size=6,
)
MOVIES = st.dictionaries(
    st.integers(1, 10**6),
    st.tuples(st.text("Aé'\",( #", min_size=1), st.lists(st.sampled_from(GENRES), max_size=4)),
    min_size=1,
    max_size=6,
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Users, Movies, Pairs]:
    users, movies = draw(USERS), draw(MOVIES)
    pair = st.tuples(st.sampled_from(list(users)), st.sampled_from(list(movies)))
    values = st.tuples(st.integers(1, 5), st.integers(0, 2**40))
    return users, movies, draw(st.dictionaries(pair, values, min_size=1, max_size=20))


def write(folder: Path, users: Users, movies: Movies, pairs: Pairs) -> Path:
    files = {
        "users.dat": [f"{u}::{g}::{a}::{o}::Z" for u, (g, a, o) in users.items()],
        "movies.dat": [f"{m}::{t} (1990)::{'|'.join(g)}" for m, (t, g) in movies.items()],
        "ratings.dat": [f"{u}::{m}::{r}::{t}" for (u, m), (r, t) in pairs.items()],
    }
    for name, lines in files.items():
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    return folder


def write_parquet(folder: Path, columns: dict[str, list[Any]]) -> Path:
    parquet.write_table(pyarrow.table(columns), folder / "interactions.parquet")
    (folder / "ratings.dat").unlink(missing_ok=True)
    return folder


def oracle(users: Users, movies: Movies, pairs: Pairs, whole: bool) -> Interactions:
    """Dense arrays and dictionaries; ages by their ranges' first years."""
    rows, columns = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    ratings = np.zeros((len(rows), len(columns)), dtype=np.float32)
    for (user, movie), (rating, _) in pairs.items():
        ratings[rows.index(user), columns.index(movie)] = rating if whole else 1
    groups = [sum(int(users[user][1]) >= border for border in (35, 45)) for user in rows]
    return Interactions(
        name="oracle",
        users=np.array(rows),
        items=np.array(columns),
        ratings=sparse.csr_array(ratings),
        timestamps=np.array([pairs[pair][1] for pair in sorted(pairs)]) if whole else None,
        attributes={
            "gender": Attribute(
                codes=np.array(["FM".index(users[user][0]) for user in rows]), categories=("F", "M")
            ),
            "age_group": Attribute(
                codes=np.array(groups), categories=("under 35", "35 to 45", "over 45")
            ),
            "occupation": Attribute(
                codes=np.array([users[user][2] for user in rows]), categories=OCCUPATIONS
            ),
        },
        genres=np.array([[name in movies[movie][1] for name in GENRES] for movie in columns]),
        genre_names=GENRES,
    )


@settings(max_examples=60)
@given(rows())
def test_what_was_written_comes_back(given_rows: tuple[Users, Movies, Pairs]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Ml1m().load(write(Path(folder), *given_rows))
        assert data.digest() == oracle(*given_rows, whole=True).digest()
        assert data.name == "ml-1m"
        pairs = list(given_rows[2])
        columns = {"userID": [u for u, _ in pairs], "movieID": [m for _, m in pairs]}
        alone = Ml1m().load(write_parquet(Path(folder), columns))
        assert alone.digest() == oracle(*given_rows, whole=False).digest()
        assert alone.name == "ml-1m (pairs only)"


SMALL: tuple[Users, Movies, Pairs] = (
    {1: ("F", "45", 3), 2: ("M", "35", 0)},
    {5: ("Anon", ["War"]), 6: ("Café", []), 7: ("Unseen", [])},
    {(1, 5): (4, 9), (2, 6): (2, 8), (1, 6): (3, 7)},
)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ratings.dat", "2::6::2::8", "2::6::2", ["4 fields", "line 2"]),
        ("ratings.dat", "2::6::2::8", "2::6::2:8", ["4 fields", "line 2"]),
        ("ratings.dat", "2::6::2::8", "2::6::nan::8", ["a rating", "line 2"]),
        ("ratings.dat", "2::6::2::8", "2::6::0::8", ["a rating", "line 2"]),
        ("ratings.dat", "2::6::2::8", "3::6::2::8", ["user of users.dat", "line 2", "user 3"]),
        ("ratings.dat", "2::6::2::8", "2::8::2::8", ["movie of movies.dat", "line 2", "movie 8"]),
        ("ratings.dat", "2::6::2::8", "1::5::2::8", ["once", "line 2", "before", "line 1"]),
        ("users.dat", "::35::", "::36::", ["an age code", "line 2", "'36'"]),
        ("users.dat", "::0::", "::21::", ["an occupation code", "line 2", "'21'"]),
        ("movies.dat", "War", "Warr", ["genres among", "line 1", "'Warr'"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, old: str, new: str, said: list[str]
) -> None:
    check_named(Ml1m(), write(tmp_path, *SMALL) / name, old, new, said, "latin-1")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"userID": [1]}, "a column movieID of integers"),
        ({"userID": [1, None], "movieID": [5, 6]}, "a column userID of integers without gaps"),
        ({"userID": [1.5], "movieID": [5]}, "a column userID of integers"),
        ({"userID": [1, 1], "movieID": [5, 5]}, "row 2, and before in interactions.parquet"),
        ({"userID": [1, 4], "movieID": [5, 5]}, "row 2, got user 4"),
    ],
)
def test_broken_pairs_are_named(tmp_path: Path, columns: dict[str, list[Any]], said: str) -> None:
    write_parquet(write(tmp_path, *SMALL), columns)
    with pytest.raises(InputError) as caught:
        Ml1m().load(tmp_path)
    assert said in str(caught.value)


def test_the_shared_pairs() -> None:
    """Counts that the data set's README states, and papers (3,706 rated movies)."""
    if not SHARED.is_dir():
        pytest.skip(f"the pairs of MovieLens 1M are not at {SHARED}")
    data = Ml1m().load(SHARED)
    assert (data.n_users, data.n_items, data.ratings.nnz) == (6040, 3706, 1_000_209)
    assert data.timestamps is None
    assert (data.ratings.data == 1).all()
    assert np.diff(data.ratings.indptr).min() == 20
    assert data.genres.any(axis=1).all()
