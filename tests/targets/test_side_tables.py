"""Files of users and items: joined by identifier, counted where they do not match, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.table import Table
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.side_tables import SideTables

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
    assert gender.known.tolist() == [True, False, True, True, False]
    assert level.classes == ("2", "10")
    assert level.codes.tolist() == [0, 1, 1, 2, 2]
    assert found.digest() != table.digest()
    assert found.name == f"r.csv with u.{ending}"
    assert found.notes == (
        f"Of 5 users 1 have no row in u.{ending}.",
        f"Of 5 rows of u.{ending} 1 are of no user here.",
        "Users without a value of gender: 2, left out there.",
        "Users without a value of level: 2, left out there.",
    )


def test_numbers_are_cut_at_given_edges_or_in_thirds(tmp_path: Path) -> None:
    data = Interactions.of(np.ones((90, 2)))
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


def test_thirds_are_of_the_users_who_are_audited(tmp_path: Path) -> None:
    """The older half has one interaction each; items are read before any is dropped."""
    ratings = np.ones((90, 2))
    ratings[45:, 1] = 0.0
    ages = {"id": list(map(str, range(90))), "age": [str(10 + at) for at in range(90)]}
    users = write(tmp_path / "u.csv", ages)
    items = write(tmp_path / "i.csv", {"item": ["0", "1"], "brand": ["x", "y"]})
    data = SideTables(users=users, items=items)(Interactions.of(ratings), Filter(min_user=2))
    assert np.bincount(data.attributes["age"].codes).tolist() == [14, 15, 16]
    assert data.genre_names == ("brand: x", "brand: y")


BORN = {"user": ["a", "b", "c"], "born": ["1990-01-02", "1991-03-04", ""], "sex": ["F", "M", "F"]}


@pytest.mark.parametrize(
    ("columns", "asked", "said"),
    [
        (BORN, {}, r"column 'born' .*got dates\. Give an age"),
        (BORN, {"wanted": ("born",)}, "got dates"),
        (BORN, {"wanted": ("gender",)}, r"got 'gender'\. There are: sex"),
        (BORN, {"wanted": ("sex",), "bins": {"sex": (1.0,)}}, "got 'F'. Leave its bins out"),
        (BORN, {"wanted": ("sex",), "bins": {"age": (1.0,)}}, "got 'age'. The columns are: born"),
        (USERS, {"bins": {"level": (99.0,)}}, "'level' in u.csv, which are from 2 to 10, got 99"),
        ({"user": ["1", "2"], "sex": ["F", "M"]}, {}, "such as a, got others, such as 1"),
        ({"user": ["a", "a"], "sex": ["F", "M"]}, {}, "line 3, got 'a'"),
        ({"who": ["a", "b"], "sex": ["F", "M"]}, {}, r"usual name \(user, user_id, id\)"),
    ],
)
def test_what_cannot_be_read_is_one_error(
    table: Interactions, tmp_path: Path, columns: dict[str, list[str]], asked: dict, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        SideTables(users=write(tmp_path / "u.csv", columns), **asked)(table)


def test_dates_are_left_out_where_others_are_named(table: Interactions, tmp_path: Path) -> None:
    found = SideTables(users=write(tmp_path / "u.csv", BORN), wanted=("sex",))(table)
    assert set(found.attributes) == {"sex"}
    assert any("born of u.csv is no attribute: dates." in note for note in found.notes)


def test_row_numbers_and_other_identifiers_are_no_attributes(
    table: Interactions, tmp_path: Path
) -> None:
    path = tmp_path / "users.csv"
    rows = [f"{row},{user},{user},{row % 2}" for row, user in enumerate("abcde")]
    path.write_text("\n".join([",user_id,id,sex", *rows]), "utf-8")
    joined = SideTables(users=path)(table)
    assert set(joined.attributes) == {"sex"}
    assert any("left out as identifiers: '', 'id'" in note for note in joined.notes)
