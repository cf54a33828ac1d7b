"""ratings.dat and gender.dat of LibimSeTi. All rows are made up."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.published_datasets import Libimseti
from tests.targets.datasets.broken import check_named

GENDERS = st.dictionaries(st.integers(1, 300_000), st.sampled_from("FMU"), min_size=1, max_size=8)


@st.composite
def rows(draw: st.DrawFn) -> tuple[dict[int, str], dict[tuple[int, int], int]]:
    genders = draw(GENDERS)
    pair = st.tuples(*[st.sampled_from(list(genders))] * 2)
    return genders, draw(st.dictionaries(pair, st.integers(1, 10), min_size=1, max_size=15))


def write(folder: Path, genders: dict[int, str], pairs: dict[tuple[int, int], int]) -> Path:
    (folder / "gender.dat").write_text("".join(f"{u},{g}\n" for u, g in genders.items()))
    (folder / "ratings.dat").write_text("".join(f"{u},{p},{r}\n" for (u, p), r in pairs.items()))
    return folder


@settings(max_examples=60)
@given(rows())
def test_what_was_written_comes_back(
    given_rows: tuple[dict[int, str], dict[tuple[int, int], int]],
) -> None:
    genders, pairs = given_rows
    with tempfile.TemporaryDirectory() as folder:
        data = Libimseti().load(write(Path(folder), genders, pairs))
    row, column = data.ratings.nonzero()
    found = zip(data.users[row].tolist(), data.items[column].tolist(), strict=True)
    assert dict(zip(found, data.ratings.data.tolist(), strict=True)) == pairs
    assert data.timestamps is None
    gender = data.attributes["gender"]
    assert gender.classes == ("F", "M")
    assert ["FMU"[code] for code in gender.codes] == [genders[user] for user in data.users]
    assert data.genre_names == ("F", "M")
    expected = [[genders[item] == name for name in "FM"] for item in data.items]
    np.testing.assert_array_equal(data.genres, expected)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ratings.dat", "2,1,3", "2,1", ["3 fields", "line 2"]),
        ("ratings.dat", "2,1,3", "2,1,11", ["a rating", "line 2", "'11'"]),
        ("ratings.dat", "2,1,3", "2,1,0", ["a rating", "line 2", "'0'"]),
        ("ratings.dat", "2,1,3", "2,1,3.5", ["in steps of 1", "line 2", "'3.5'"]),
        ("ratings.dat", "2,1,3", "2,9,3", ["profile of gender.dat", "line 2", "profile 9"]),
        ("ratings.dat", "2,1,3", "9,1,3", ["user of gender.dat", "line 2", "user 9"]),
        ("ratings.dat", "2,1,3", "1,2,3", ["user and profile once", "line 2", "before", "line 1"]),
        ("gender.dat", "2,M", "2,X", ["one of F, M, U", "line 2", "'X'"]),
        ("gender.dat", "2,M", "2,A", ["one of F, M, U", "line 2", "'A'"]),
        ("gender.dat", "2,M", "1,M", ["an identifier not yet on", "line 1", "line 2", "'1'"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, old: str, new: str, said: list[str]
) -> None:
    file = write(tmp_path, {1: "F", 2: "M"}, {(1, 2): 10, (2, 1): 3}) / name
    check_named(Libimseti(), file, old, new, said)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text("1,2,3\n")
    with pytest.raises(InputError, match=r"Expected ratings\.dat, gender\.dat; got"):
        Libimseti().load(tmp_path)
