"""Tables of interactions against a dictionary filled row by row; bad files give one error."""

from __future__ import annotations

import contextlib
import csv
import io
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts import source as _source
from fedrec_auditor.targets.datasets.table import Table

TEXTS = st.sampled_from(["7", "07", "a", "é,ü", 'q"q', " x", "-1", "z" * 40])
NUMBERS = st.integers(0, 6) | st.integers(0, 10**15)
STARS = st.sampled_from([-1.0, 0.5, 1, 3.25, 5, 1e-3])


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[Any, Any, float, int]]:
    users = draw(st.sampled_from([NUMBERS, TEXTS, NUMBERS | TEXTS]))
    items = draw(st.sampled_from([NUMBERS, TEXTS]))
    row = st.tuples(users, items, STARS, st.integers(0, 5) | st.integers(0, 2**40))
    return draw(st.lists(row, min_size=1, max_size=15))


def write(path: Path, names: list[str], lines: list[tuple[Any, ...]]) -> Path:
    stream = io.StringIO()
    delimiter = "\t" if path.suffix == ".tsv" else ","
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows([names, *lines])
    path.write_text(stream.getvalue(), "utf-8")
    return path


def write_parquet(path: Path, columns: Mapping[str, Any]) -> Path:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=4)
    return path


def ends(given_ids: list[Any]) -> dict[Any, int]:
    """What each identifier becomes: itself, or its place among all texts."""
    plain = all(isinstance(i, int) or (i.isdecimal() and str(int(i)) == i) for i in given_ids)
    if plain:
        return {i: int(i) for i in given_ids}
    texts = sorted({str(i) for i in given_ids}, key=str.encode)
    return {i: texts.index(str(i)) for i in given_ids}


def oracle(
    lines: list[tuple[Any, Any, float, int]], timed: bool
) -> dict[tuple[int, int], tuple[float, int]]:
    """A later row takes an earlier one's place unless its time is before."""
    users, items = ends([line[0] for line in lines]), ends([line[1] for line in lines])
    kept: dict[tuple[int, int], tuple[float, int]] = {}
    for user, item, stars, time in lines:
        pair = users[user], items[item]
        if pair not in kept or not timed or time >= kept[pair][1]:
            kept[pair] = float(np.float32(stars)), time
    return kept


def contents(path: Path, columns: Mapping[str, str] | None = None) -> dict[Any, Any]:
    data = Table(columns=columns).load(path)
    row = np.repeat(np.arange(data.n_users), np.diff(data.ratings.indptr))
    column = data.ratings.indices
    pairs = zip(data.users[row].tolist(), data.items[column].tolist(), strict=True)
    times = data.timestamps.tolist() if data.timestamps is not None else [None] * len(row)
    return dict(zip(pairs, zip(data.ratings.data.tolist(), times, strict=True), strict=True))


@settings(max_examples=80)
@given(rows(), st.booleans(), st.sampled_from([".csv", ".tsv"]))
def test_the_latest_of_each_pair_is_kept(
    lines: list[tuple[Any, Any, float, int]], timed: bool, ending: str
) -> None:
    names = ["userId", "item_id:token", "Rating", "timestamp" if timed else "other"]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / f"t{ending}", names, lines)
        found, notes = contents(path), Table().load(path).notes
    expected = oracle(lines, timed)
    assert found == {pair: (r, t if timed else None) for pair, (r, t) in expected.items()}
    repeated = len(lines) - len(found)
    assert bool(notes) == bool(repeated)
    assert all(f"that another row of t{ending} has: {repeated}, left out" in note for note in notes)


@settings(max_examples=60)
@given(rows(), st.booleans())
def test_parquet_gives_what_csv_gives(
    lines: list[tuple[Any, Any, float, int]], coded: bool
) -> None:
    """Texts get a letter in front, since Parquet keeps the text "7" from the number 7."""
    columns: dict[str, Any] = {}
    for at, name in enumerate(("user", "item")):
        ids = [line[at] for line in lines]
        if not all(isinstance(i, int) for i in ids):
            ids = [f"t{i}" for i in ids]
        column = pyarrow.array(ids)
        columns[name] = column.dictionary_encode() if coded and isinstance(ids[0], str) else column
    columns |= {"rating": [line[2] for line in lines], "timestamp": [line[3] for line in lines]}
    with tempfile.TemporaryDirectory() as folder:
        found = Table().load(write_parquet(Path(folder) / "t.parquet", columns))
        plain = zip(*(_plain(column) for column in columns.values()), strict=True)
        text = Table().load(write(Path(folder) / "t.csv", list(columns), list(plain)))
    assert found.digest() == text.digest()
    assert found.titles == text.titles


def _plain(column: Any) -> list[Any]:
    return column if isinstance(column, list) else list(column.to_pylist())


def test_only_the_named_columns_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["a", "b", "rating", "c"], [("u", "i", "bad", 4.9)])
    assert contents(path, {"user": "a", "item": "b"}) == {(0, 0): (1.0, None)}
    assert contents(path, {"user": "a", "item": "b", "timestamp": "c"}) == {(0, 0): (1.0, 4)}


def test_times_of_parquet_are_unix_seconds(tmp_path: Path) -> None:
    moment = datetime(2001, 9, 9, 1, 46, 40, 900_000, tzinfo=UTC)
    for unit in ("ms", "us", "ns"):
        times = pyarrow.array([moment], pyarrow.timestamp(unit, tz="UTC"))
        path = write_parquet(tmp_path / "t.parquet", {"user": [1], "item": [2], "timestamp": times})
        assert contents(path) == {(1, 2): (1.0, 1_000_000_000)}


@pytest.mark.parametrize(
    "written",
    [
        "2001-09-09T01:46:40Z",
        "2001-09-09 01:46:40.999",
        "2001-09-09T03:46:40+02:00",
        "1000000000",
        "1e9",
    ],
)
@pytest.mark.parametrize("other", ["0", "1970-01-01", "1970-01-01T00:00:00Z"])
def test_times_are_unix_seconds_or_iso_8601(tmp_path: Path, written: str, other: str) -> None:
    columns = {"user": [1, 1], "item": [2, 3], "time": [written, other]}
    expected = {(1, 2): (1.0, 10**9), (1, 3): (1.0, 0)}
    assert contents(write_parquet(tmp_path / "t.parquet", columns)) == expected
    rows = list(zip(*columns.values(), strict=True))
    assert contents(write(tmp_path / "t.csv", list(columns), rows)) == expected
    assert contents(write(tmp_path / "t.csv", list(columns), rows[::-1])) == expected


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
def test_the_separator_is_found(tmp_path: Path, separator: str, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_text("user,item,rating\na,1,2.5\n".replace(",", separator))
    assert contents(path) == contents(path, {"separator": separator}) == {(0, 1): (2.5, None)}
    for other in {",", "::"} - {separator}:
        with pytest.raises(InputError, match=f"separated by '{other}' in .*line 1, got 'user"):
            contents(path, {"separator": other})


def test_a_separator_that_cannot_be_told_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("user,item,x|item|user\n1,2,3|4|5\n")
    with pytest.raises(InputError, match=r"got ',' or '\|'\. Say which: --separator"):
        contents(tmp_path / "t.txt")
    assert contents(tmp_path / "t.txt", {"separator": ","}) == {(1, 2): (1.0, None)}
    with pytest.raises(InputError, match=r"among , ; \| :: and tab, got 'x'"):
        contents(tmp_path / "t.txt", {"separator": "x"})


def test_a_rating_of_0_is_what_is_said_of_it(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["user", "item", "rating"], [("a", 1, 0), ("b", 2, 3)])
    missing = Table().load(path)
    assert (missing.names, missing.items.tolist()) == (("b",), [2])
    assert contents(path, {"zeros": "missing"}) == {(0, 2): (3.0, None)}
    assert "Ratings of 0 in t.csv: 1, left out" in missing.notes[0]
    rated = Table(columns={"zeros": "rating"}).load(path)
    assert rated.names == ("a", "b")
    assert rated.ratings.nnz == 2
    np.testing.assert_allclose(rated.ratings.toarray(), [[0, 0], [0, 3]], atol=1e-30)
    assert "Ratings of 0 in t.csv: 1, kept" in rated.notes[0]
    with pytest.raises(InputError, match="missing or rating, got 'no'"):
        Table(columns={"zeros": "no"}).load(path)
    write(path, ["user", "item", "rating"], [("a", 1, 0)])
    with pytest.raises(InputError, match="ratings other than 0 in"):
        Table().load(path)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (None, r"name for the column of users and that of items, got none.*are: a, b, c\."),
        ({"user": "a"}, r"a column for item, got none\. The columns of .* are: a, b, c\."),
        ({"user": "a", "item": "x"}, r"a column 'x', got none\. The columns of .* are: a, b, c\."),
        ({"user": "a", "item": "a"}, r"different columns"),
        ({"user": "a", "item": "b", "stars": "c"}, r"columns for user, item.*, got stars"),
    ],
)
def test_wrong_columns_are_one_error_that_names_those_there_are(
    tmp_path: Path, columns: Mapping[str, str] | None, said: str
) -> None:
    path = write(tmp_path / "t.csv", ["a", "b", "c"], [(1, 2, 3)])
    with pytest.raises(InputError, match=said):
        Table(columns=columns).load(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5,6,,8", "a rating (a number)"),
        ("5,6,nan,8", "a rating (a number)"),
        ("5,6,1e300,8", "that float32 can hold"),
        ("5,6,1e-300,8", "that float32 can hold"),
        ("5,6,3,-8", "a timestamp (a number from 0"),
        ("5,6,3,2001-02-29", "an ISO 8601 date or time"),
        ("5,6,3,1969-12-31", "an ISO 8601 date or time"),
        (",6,3,8", "a user of 1 to 1024 bytes"),
        ("5,6,3", "4 fields"),
        ("", "4 fields"),
        ('5,"6,3,8', "quotes closed"),
        ("5,\udcff,3,8", "UTF-8 text"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    text = f"user,item,rating,timestamp\n1,2,3,4\n{line}\n7,8,5,6\n"
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        Table().load(tmp_path / "t.csv")
    assert said in str(caught.value)
    assert "t.csv, line 3, got" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"user": [1, None], "item": [1, 2]}, "row 2, got 'no value'"),
        ({"user": [1.5], "item": [1]}, "users that are whole numbers or texts"),
        ({"user": [1], "item": [1], "rating": ["x"]}, "ratings that are numbers"),
        ({"user": [1], "item": [1], "rating": [float("inf")]}, "row 1, got 'inf'"),
        ({"user": [1, 2], "item": [1, 2], "timestamp": ["2001-09-09", ""]}, "row 2, got ''"),
        ({"user": np.array([1, 2**63], dtype=np.uint64), "item": [1, 1]}, "row 2, got '922"),
    ],
)
def test_broken_parquet_columns_are_named(
    tmp_path: Path, columns: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        Table().load(write_parquet(tmp_path / "t.parquet", columns))
    assert said in str(caught.value)


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text('user,item\n12"é').map(str.encode), st.booleans())
def test_no_file_at_all_gives_anything_but_interactions_or_one_error(
    data: bytes, headed: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("t.csv", "t.parquet"):
            path = Path(folder) / name
            path.write_bytes(b"user,item\n" * headed + data)
            said = "Expected none"
            try:
                assert Table().load(path).ratings.nnz > 0
            except InputError as error:
                said = str(error)
            assert said.startswith("Expected ")
            assert "\n" not in said


def test_damaged_parquet_is_one_error(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"user": [1] * 99, "item": ["x"] * 99})
    whole = path.read_bytes()
    for cut in range(0, len(whole), 97):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"t\.parquet"):
            Table().load(path)
    for at in range(0, len(whole), 29):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(InputError):
            Table().load(path)


def test_a_file_that_does_not_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.csv", ["user", "item"], [(1, 2)] * 20)
    monkeypatch.setattr(_source, "STREAMED", 50)
    with pytest.raises(InputError, match=r"at most 50 bytes in .*t\.csv, got more"):
        Table().load(path)


def test_a_table_needs_a_path_to_a_file(tmp_path: Path) -> None:
    for path in (None, tmp_path, tmp_path / "t.csv", tmp_path / "t.txt"):
        with pytest.raises(InputError):
            Table().load(path)


def test_users_of_texts_keep_their_names_in_whatever_order_they_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("user,item\nzoe,1\nadam,2\nmia,3\n")
    found = Table().load(path)
    assert found.names == ("adam", "mia", "zoe")
    assert found.take(np.array([2, 0, 2])).names == ("zoe", "adam", "zoe")
