"""Every layout of MovieLens is read as written; errors name the line of a broken file."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets import ml_1m, ml_100k
from fedrec_auditor.targets.datasets.base import Dataset, Interactions
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_100k import Ml100k
from fedrec_auditor.targets.datasets.parts.joined import MOVIELENS_GENRES
from tests.targets.datasets import written
from tests.targets.datasets.broken import check_named
from tests.targets.datasets.written import Rows

SHARED = Path(__file__).parents[4] / "shared" / "data" / "ml-1m"


@dataclass(frozen=True)
class Layout:
    """A file layout with its loader, writer, generator of rows, and reference reader."""

    dataset: Dataset
    write: Callable[[Path, Rows], Path]
    rows: st.SearchStrategy[Rows]
    oracle: Callable[[Rows], Interactions]


OF_100K = partial(Rows.interactions, genres=ml_100k.ALL_GENRES, jobs=ml_100k.OCCUPATIONS)
OF_1M = partial(
    Rows.interactions,
    genres=MOVIELENS_GENRES,
    jobs=ml_1m.OCCUPATIONS,
    groups=lambda first: (first >= 35) + (first >= 45),
)
LAYOUTS = {
    "100k": Layout(Ml100k(), written.official_100k, written.OF_100K, OF_100K),
    "recbole": Layout(Ml100k(), written.recbole_100k, written.OF_100K, OF_100K),
    "1m": Layout(Ml1m(), written.official_1m, written.OF_1M, OF_1M),
    "pairs": Layout(Ml1m(), written.pairs_1m, written.OF_1M, partial(OF_1M, alone=True)),
}


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=20)
@given(st.data())
def test_written_rows_are_read_back(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    given_rows = data.draw(layout.rows)
    with tempfile.TemporaryDirectory() as folder:
        found = layout.dataset.load(layout.write(Path(folder), given_rows))
    expected = layout.oracle(given_rows)
    assert found.digest() == expected.digest()
    assert found.titles == expected.titles


@pytest.mark.parametrize("name", LAYOUTS)
def test_archives_are_read_as_their_folder(name: str, tmp_path: Path) -> None:
    layout, packed = LAYOUTS[name], tmp_path / "packed.zip"
    (tmp_path / "files").mkdir()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in layout.write(tmp_path / "files", written.SMALL).iterdir():
            archive.write(file, f"some/where/{file.name}")
    assert layout.dataset.load(packed).digest() == layout.oracle(written.SMALL).digest()


BROKEN = [
    ("100k", "u.data", "2\t6\t2\t8", "2\t6\t2", ["4 fields", "line 2"]),
    ("100k", "u.data", "\t2\t8", "\t9\t8", ["a rating", "line 2", "'9'"]),
    ("100k", "u.data", "\t2\t8", "\tnan\t8", ["a rating", "line 2", "nan"]),
    ("recbole", "ml-100k.inter", "\t2\t8", "\tnan\t8", ["a rating", "line 3"]),
    ("100k", "u.data", "2\t6", "3\t6", ["a line of u.user", "line 2", "user 3"]),
    ("recbole", "ml-100k.inter", "2\t6", "3\t6", ["line 3", "user 3"]),
    ("100k", "u.data", "2\t6", "2\t8", ["a line of u.item", "line 2", "movie 8"]),
    ("100k", "u.data", "2\t6", "1\t5", ["once", "line 2", "before", "line 1"]),
    ("100k", "u.data", "*", "", ["at least one row", "empty"]),
    ("100k", "u.user", "*", "", ["at least one row", "empty"]),
    ("100k", "u.user", "|35|", "|x|", ["an age", "line 2", "'x'"]),
    ("100k", "u.user", "|35|", "|" + "9" * 5000 + "|", ["an age", "line 2"]),
    ("100k", "u.user", "|M|other", "|X|other", ["a gender", "line 2", "'X'"]),
    ("recbole", "ml-100k.user", "doctor", "spy", ["an occupation", "line 2", "spy"]),
    ("100k", "u.user", "2|35", "1|35", ["identifier", "line 2", "line 1"]),
    ("100k", "u.item", "|u|0", "|u|2", ["a genre flag, one of 0, 1", "line 1", "'2'"]),
    ("recbole", "ml-100k.item", "War", "Wars", ["genres among", "'Wars'"]),
    ("recbole", "ml-100k.item", "item_id", "id", ["the header", "line 1"]),
    ("1m", "ratings.dat", "2::6::2::8", "2::6::2", ["4 fields", "line 2"]),
    ("1m", "ratings.dat", "2::6::2::8", "2::6::2:8", ["4 fields", "line 2"]),
    ("1m", "ratings.dat", "2::6::2::8", "2::6::nan::8", ["a rating", "line 2"]),
    ("1m", "ratings.dat", "2::6::2::8", "2::6::0::8", ["a rating", "line 2"]),
    ("1m", "ratings.dat", "2::6::2::8", "3::6::2::8", ["a line of users.dat", "line 2", "user 3"]),
    ("1m", "ratings.dat", "2::6::2::8", "2::8::2::8", ["a line of movies.dat", "line 2"]),
    ("1m", "users.dat", "::35::", "::36::", ["an age code", "line 2", "'36'"]),
    ("1m", "users.dat", "::0::", "::21::", ["an occupation code", "line 2", "'21'"]),
    ("1m", "movies.dat", "War", "Warr", ["genres among", "line 1", "'Warr'"]),
]


@pytest.mark.parametrize(("name", "file", "old", "new", "parts"), BROKEN)
def test_broken_files_are_named_with_their_line(
    tmp_path: Path, name: str, file: str, old: str, new: str, parts: list[str]
) -> None:
    layout = LAYOUTS[name]
    encoding = "latin-1" if file == "u.item" or name == "1m" else "utf-8"
    place = layout.write(tmp_path, written.SMALL) / file
    check_named(layout.dataset, place, old, new, parts, encoding)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"userID": [1]}, "a column movieID of integers"),
        ({"userID": [1, None], "movieID": [5, 6]}, "a column userID of integers without gaps"),
        ({"userID": [1.5], "movieID": [5]}, "column userID of integers"),
        ({"userID": [1, 1], "movieID": [5, 5]}, "row 2, and before that in interactions.parquet"),
        ({"userID": [1, 4], "movieID": [5, 5]}, "got none for user 4 in"),
    ],
)
def test_broken_pairs_are_named(tmp_path: Path, columns: dict[str, list[Any]], parts: str) -> None:
    written.write_pairs(written.official_1m(tmp_path, written.SMALL), columns)
    with pytest.raises(InputError) as caught:
        Ml1m().load(tmp_path)
    assert parts in str(caught.value)


def test_the_shared_pairs() -> None:
    """Counts as in the data set's README and in papers (3,706 rated movies)."""
    if not SHARED.is_dir():
        pytest.skip(f"the pairs of MovieLens 1M are not at {SHARED}")
    data = Ml1m().load(SHARED)
    assert (data.n_users, data.n_items, data.ratings.nnz) == (6040, 3706, 1_000_209)
    assert data.name == "ml-1m (pairs only)"
    assert data.timestamps is None
    assert (data.ratings.data == 1).all()
    assert np.diff(data.ratings.indptr).min() == 20
    assert data.genres is not None
    assert data.genres.any(axis=1).all()
