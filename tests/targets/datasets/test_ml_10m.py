"""ratings.dat and movies.dat of MovieLens 10M. All rows are made up."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from fedrec_auditor.targets.datasets.ml_10m import Ml10m
from tests.targets.datasets.broken import check_named
from tests.targets.datasets.large import SMALL, Movies, Pairs, oracle, rows


def write(folder: Path, movies: Movies, pairs: Pairs) -> Path:
    files = {
        "movies.dat": [
            f"{movie}::{title}::{'|'.join(genres) or '(no genres listed)'}"
            for movie, (title, genres) in movies.items()
        ],
        "ratings.dat": [f"{u}::{m}::{r:g}::{t}" for (u, m), (r, t) in pairs.items()],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


@settings(max_examples=60)
@given(rows())
def test_what_was_written_comes_back(given_rows: tuple[Movies, Pairs]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Ml10m().load(write(Path(folder), *given_rows))
        expected = oracle(*given_rows)
        assert data.digest() == expected.digest()
        assert data.titles == expected.titles
        assert data.name == "ml-10m"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ratings.dat", "2::6::0.5::8", "2::6::0.5", ["4 fields", "line 2"]),
        ("ratings.dat", "2::6::0.5::8", "2:6::0.5::8::", ["a user id", "line 2", "'2:6'"]),
        ("ratings.dat", "2::6::0.5::8", "2::6::0.7::8", ["in steps of 0.5", "line 2", "'0.7'"]),
        ("ratings.dat", "2::6::0.5::8", "2::6::5.5::8", ["a rating", "line 2", "'5.5'"]),
        ("ratings.dat", "2::6::0.5::8", "2::6::nan::8", ["a rating", "line 2", "'nan'"]),
        ("ratings.dat", "2::6::0.5::8", "x::6::0.5::8", ["a user id", "line 2", "'x'"]),
        ("ratings.dat", "2::6::0.5::8", "2::6::0.5::-8", ["a timestamp", "line 2", "'-8'"]),
        ("ratings.dat", "2::6::0.5::8", "2::8::0.5::8", ["movie of movies.dat", "line 2", "ie 8"]),
        ("ratings.dat", "2::6::0.5::8", "1::5::0.5::8", ["once", "line 2", "before", "line 1"]),
        ("movies.dat", "War", "Warr", ["genres among", "line 1", "'Warr'"]),
        ("movies.dat", "6::", "5::", ["not yet on", "line 2"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, old: str, new: str, said: list[str]
) -> None:
    check_named(Ml10m(), write(tmp_path, *SMALL) / name, old, new, said)
