"""ratings.csv and movies.csv, and which data set of this layout it is. All rows are made up."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from fedrec_auditor.targets.datasets.ml_20m import Ml20m
from fedrec_auditor.targets.datasets.ml_25m import Ml25m
from tests.targets.datasets.broken import check_named
from tests.targets.datasets.large import SMALL, Movies, Pairs, oracle, rows


def text(header: str, lines: list[list[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows([header.split(","), *lines])
    return stream.getvalue()


def write(folder: Path, movies: Movies, pairs: Pairs) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    films = [[m, t, "|".join(g) or "(no genres listed)"] for m, (t, g) in movies.items()]
    rated = [[u, m, r, t] for (u, m), (r, t) in pairs.items()]
    files = {
        "movies.csv": text("movieId,title,genres", films),
        "ratings.csv": text("userId,movieId,rating,timestamp", rated),
    }
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8", newline="")
    return folder


@settings(max_examples=60)
@given(rows())
def test_what_was_written_comes_back(given_rows: tuple[Movies, Pairs]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Ml25m().load(write(Path(folder), *given_rows))
        expected = oracle(*given_rows)
        assert data.digest() == expected.digest()
        assert data.titles == expected.titles


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "ratings.csv",
            "userId",
            "user",
            ["the header 'userId,", "line 1", "'user,movieId"],
        ),
        ("ratings.csv", "2,6,0.5,8", "2,6,0.5", ["4 fields", "line 3"]),
        ("ratings.csv", "2,6,0.5,8", '2,6,"0.5",8', ["a rating", "line 3"]),
        ("ratings.csv", "2,6,0.5,8", "2,6,0,8", ["a rating", "line 3", "'0'"]),
        ("ratings.csv", "2,6,0.5,8", "2,8,0.5,8", ["movie of movies.csv", "line 3", "movie 8"]),
        ("ratings.csv", "2,6,0.5,8", "1,5,0.5,8", ["once", "line 3", "before", "line 2"]),
        ("movies.csv", '"Anon', "Anon", ["3 fields", "line 2"]),
        ("movies.csv", ' The"', " The", ["quotes closed", "line 2"]),
        ("movies.csv", "War", "Warr", ["genres among", "line 2", "'Warr'"]),
        ("movies.csv", "genres", "genre", ["the header 'movieId,title,genres'", "line 1"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, old: str, new: str, said: list[str]
) -> None:
    check_named(Ml20m(), write(tmp_path, *SMALL) / name, old, new, said)


@pytest.mark.parametrize(
    ("folder", "readme", "name"),
    [
        ("somewhere", "", "MovieLens of unknown size"),
        ("my-ml-20m", "", "ml-20m"),
        ("ml-25m", "", "ml-25m"),
        ("ML-25M", "", "ml-25m"),
        ("ml-25m", "This dataset (ml-20m) describes", "ml-20m"),
        ("ml-20m", "This dataset (ml-25m) describes", "ml-25m"),
        ("ml-32m", "", "ml-32m"),
        ("x", "This dataset (ml-latest-small) describes", "ml-latest-small"),
    ],
)
def test_the_readme_and_then_the_folder_say_which_it_is(
    tmp_path: Path, folder: str, readme: str, name: str
) -> None:
    place = write(tmp_path / folder, *SMALL)
    if readme:
        (place / "README.txt").write_text(readme)
    archive = tmp_path / f"{folder}.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        for file in place.iterdir():
            stream.write(file, f"{folder}/{file.name}")
    for path in (place, archive):
        assert (Ml25m().recognises(path), Ml20m().recognises(path)) == (
            name == "ml-25m",
            name != "ml-25m",
        )
        assert Ml20m().load(path).name == name
        assert Ml20m().load(path).digest() == oracle(*SMALL).digest()


def test_the_folder_in_a_folder_says_it_too(tmp_path: Path) -> None:
    write(tmp_path / "ml-25m", *SMALL)
    assert Ml25m().recognises(tmp_path)
    assert not Ml20m().recognises(tmp_path)
    assert Ml25m().load(tmp_path).name == "ml-25m"
