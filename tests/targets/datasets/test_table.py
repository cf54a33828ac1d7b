"""Tables of interactions equal a dictionary filled row by row; invalid files give one error."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import lzma
import re
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets.datasets.parts import source as _source
from fedrec_auditor.targets.datasets.table import Table

TEXTS = st.sampled_from(["7", "07", "a", "é,ü", 'q"q', " x", "-1", "z" * 40])
NUMBERS = st.integers(0, 6) | st.integers(0, 10**15)
STARS = st.sampled_from([-1.0, 0.5, 1, 3.25, 5, 1e-3])


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[Any, Any, float, int]]:
    users = draw(st.sampled_from([NUMBERS, TEXTS, NUMBERS | TEXTS]))
    items = draw(st.sampled_from([NUMBERS, TEXTS]))
    row = st.tuples(users, items, STARS, st.integers(0, 5) | st.integers(0, 4 * 10**9))
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


def assign_ids(given_ids: list[Any]) -> dict[Any, int]:
    """Identifier in the data per identifier in the file: itself, or its rank among all texts."""
    plain = all(isinstance(i, int) or (i.isdecimal() and str(int(i)) == i) for i in given_ids)
    if plain:
        return {i: int(i) for i in given_ids}
    texts = sorted({str(i) for i in given_ids}, key=str.encode)
    return {i: texts.index(str(i)) for i in given_ids}


def oracle(
    lines: list[tuple[Any, Any, float, int]], timed: bool
) -> dict[tuple[int, int], tuple[float, int]]:
    """The expected content: a later row replaces an earlier one unless its time is earlier."""
    users, items = assign_ids([line[0] for line in lines]), assign_ids([line[1] for line in lines])
    kept: dict[tuple[int, int], tuple[float, int]] = {}
    for user, item, stars, time in lines:
        pair = users[user], items[item]
        if pair not in kept or not timed or time >= kept[pair][1]:
            kept[pair] = float(np.float32(stars)), time
    return kept


def find_options(said: str) -> dict[str, str]:
    """The column options that an error or a note recommends."""
    found = dict(re.findall(r"--column (\w+)=(\w+)", said))
    for option in re.findall(r"--no-(\w+)", said):
        found.pop("header", None)  # options of the alternative remedy
        found |= {option: "no"}
    return found


def read(path: Path, columns: Mapping[str, str] | None = None) -> dict[Any, Any]:
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
        found, notes = read(path), Table().load(path).notes
    expected = oracle(lines, timed)
    assert found == {pair: (r, t if timed else None) for pair, (r, t) in expected.items()}
    repeated = len(lines) - len(found)
    said = [note for note in notes if f"{repeated} rows of t{ending} are left out" in note]
    assert len(said) == bool(repeated)
    assert len(notes) == bool(repeated) + (not timed)


@settings(max_examples=60)
@given(rows(), st.booleans())
def test_parquet_gives_what_csv_gives(
    lines: list[tuple[Any, Any, float, int]], coded: bool
) -> None:
    """Texts get a letter in front, because Parquet distinguishes the text "7" from the number 7."""
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


def test_a_named_column_replaces_the_default_of_its_role_only(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["a", "item", "rating", "c"], [("u", "i", 3.5, 4.9)])
    assert read(path, {"user": "a"}) == {(0, 0): (3.5, None)}
    assert read(path, {"user": "a", "timestamp": "c"}) == {(0, 0): (3.5, 4)}
    assert read(path, {"user": "a", "rating": "c"}) == {(0, 0): (float(np.float32(4.9)), None)}
    assert read(path, {"user": "item", "item": "a"}) == {(0, 0): (3.5, None)}


def test_unusable_columns_of_default_names_are_left_out_with_a_note(tmp_path: Path) -> None:
    names = ["user", "item", "rating", "time"]
    path = write(tmp_path / "t.csv", names, [("u", "i", "good", "July 5")])
    said: dict[str, str] = {}
    for role in ("rating", "timestamp"):
        with pytest.raises(InputError) as caught:
            read(path, said)
        said |= find_options(str(caught.value))
        assert said[role] == "none"
    assert read(path, said) == {(0, 0): (1.0, None)}
    assert Table(columns=said).load(path).notes == ()


def test_times_of_parquet_are_unix_seconds(tmp_path: Path) -> None:
    moment = datetime(2001, 9, 9, 1, 46, 40, 900_000, tzinfo=UTC)
    for unit in ("ms", "us", "ns"):
        times = pyarrow.array([moment], pyarrow.timestamp(unit, tz="UTC"))
        path = write_parquet(tmp_path / "t.parquet", {"user": [1], "item": [2], "timestamp": times})
        assert read(path) == {(1, 2): (1.0, 1_000_000_000)}


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
    assert read(write_parquet(tmp_path / "t.parquet", columns)) == expected
    rows = list(zip(*columns.values(), strict=True))
    assert read(write(tmp_path / "t.csv", list(columns), rows)) == expected
    assert read(write(tmp_path / "t.csv", list(columns), rows[::-1])) == expected


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
def test_the_separator_is_found(tmp_path: Path, separator: str, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_text("user,item,rating\na,1,2.5\n".replace(",", separator))
    assert read(path) == read(path, {"separator": separator}) == {(0, 1): (2.5, None)}
    for other in {",", "::"} - {separator}:
        with pytest.raises(InputError, match=f"separated by '{other}' in .*line 1, got 'user"):
            read(path, {"separator": other})


def test_ambiguous_separators_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("user,item,x|item|user\n1,2,3|4|5\n")
    with pytest.raises(InputError, match=r"got ',' or '\|'\. Choose one by --separator"):
        read(tmp_path / "t.txt")
    assert read(tmp_path / "t.txt", {"separator": ","}) == {(1, 2): (1.0, None)}
    with pytest.raises(InputError, match=r"'tab' 'space', got 'x'"):
        read(tmp_path / "t.txt", {"separator": "x"})


def test_ratings_of_0_follow_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["user", "item", "rating"], [("a", 1, 0), ("b", 2, 3)])
    missing = Table().load(path)
    assert (missing.user_names, missing.items.tolist()) == (("b",), [2])
    assert read(path, {"zeros": "missing"}) == {(0, 2): (3.0, None)}
    assert "1 ratings in t.csv are 0 and left out" in missing.notes[0]
    rated = Table(columns={"zeros": "rating"}).load(path)
    assert rated.user_names == ("a", "b")
    assert rated.ratings.nnz == 2
    np.testing.assert_allclose(rated.ratings.toarray(), [[0, 0], [0, 3]], atol=1e-30)
    assert "1 ratings in t.csv are 0 and count as ratings" in rated.notes[0]
    with pytest.raises(InputError, match="missing or rating, got 'no'"):
        Table(columns={"zeros": "no"}).load(path)
    write(path, ["user", "item", "rating"], [("a", 1, 0)])
    with pytest.raises(InputError, match="ratings other than 0 in"):
        Table().load(path)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        (None, r"a column of users and one of items with a usual name, got none.*are: a, b, c\."),
        ({"user": "a"}, r"a column of items with a usual name, got none\. .* are: a, b, c\."),
        ({"user": "a", "item": "x"}, r"a column 'x', got none\. The columns of .* are: a, b, c\."),
        ({"user": "a", "item": "a"}, r"one column per key"),
        ({"user": "a", "item": "b", "stars": "c"}, r"keys of columns among user, .*, got stars"),
    ],
)
def test_wrong_columns_give_one_error_that_lists_the_columns(
    tmp_path: Path, columns: Mapping[str, str] | None, parts: str
) -> None:
    path = write(tmp_path / "t.csv", ["a", "b", "c"], [(1, 2, 3)])
    with pytest.raises(InputError, match=parts):
        Table(columns=columns).load(path)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("5,6,,8", "a rating (a number)"),
        ("5,6,nan,8", "a rating (a number)"),
        ("5,6,1e300,8", "that float32 can hold"),
        ("5,6,1e-300,8", "that float32 can hold"),
        ("5,6,3,-8", "a timestamp (a number from 0"),
        ("5,6,3,2001-02-29", "an ISO 8601 date or time, or 11/15"),
        ("5,6,3,1969-12-31", "an ISO 8601 date or time, or 11/15"),
        (",6,3,8", "a user (1 to 1024 bytes of text)"),
        ("5,6,3", "4 fields"),
        ("", "4 fields"),
        ('5,"6,3,8', "quotes closed"),
        ("5,\udcff,3,8", "UTF-8 text"),
    ],
)
def test_invalid_lines_are_named(tmp_path: Path, line: str, parts: str) -> None:
    text = f"user,item,rating,timestamp\n1,2,3,4\n{line}\n7,8,5,6\n"
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        Table().load(tmp_path / "t.csv")
    assert parts in str(caught.value)
    assert "t.csv, line 3, got" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"user": [1, None], "item": [1, 2]}, "row 2, got 'no value'"),
        ({"user": [1.5], "item": [1]}, "users as whole numbers or texts"),
        ({"user": [1], "item": [1], "rating": ["x"]}, "ratings as numbers"),
        ({"user": [1], "item": [1], "rating": [float("inf")]}, "row 1, got 'inf'"),
        ({"user": [1, 2], "item": [1, 2], "timestamp": ["2001-09-09", ""]}, "row 2, got ''"),
    ],
)
def test_invalid_parquet_columns_are_named(
    tmp_path: Path, columns: Mapping[str, Any], parts: str
) -> None:
    with pytest.raises(InputError) as caught:
        Table().load(write_parquet(tmp_path / "t.parquet", columns))
    assert parts in str(caught.value)


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text('user,item\n12"é').map(str.encode), st.booleans())
def test_any_file_gives_interactions_or_one_error(data: bytes, headed: bool) -> None:
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


def test_damaged_parquet_gives_one_error(tmp_path: Path) -> None:
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


def test_endless_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.csv", ["user", "item"], [(1, 2)] * 20)
    monkeypatch.setattr(_source, "MAX_STREAMED_BYTES", 50)
    with pytest.raises(InputError, match=r"at most 50 bytes in .*t\.csv, got more"):
        Table().load(path)


def test_a_table_needs_a_path_to_a_file(tmp_path: Path) -> None:
    for path in (None, tmp_path, tmp_path / "t.csv", tmp_path / "t.txt"):
        with pytest.raises(InputError):
            Table().load(path)


def test_text_identifiers_follow_users_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("user,item\nzoe,1\nadam,2\nmia,3\n")
    found = Table().load(path)
    assert found.user_names == ("adam", "mia", "zoe")
    assert found.take_users(np.array([2, 0, 2])).user_names == ("zoe", "adam", "zoe")


HEADERS = {
    "user_id,parent_asin,rating,timestamp": "parent_asin",
    "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio": "video_id",
    "review_id,user_id,business_id,stars,useful,text,date": "business_id",
    "app_id,helpful,date,is_recommended,hours,user_id,review_id": "app_id",
    "user_id,book_id,rating": "book_id",
}


@pytest.mark.parametrize("header", HEADERS)
def test_options_recommended_by_a_refusal_work(tmp_path: Path, header: str) -> None:
    names = header.split(",")
    row = {"rating": "4", "stars": "4", "timestamp": "1593878903.4", "time": "2020-07-04 16:08:23"}
    lines = [tuple(row.get(name, f"{name}{at}") for name in names) for at in range(3)]
    path = write(tmp_path / "t.csv", names, lines)
    with pytest.raises(InputError) as caught:
        read(path)
    (role,) = said = find_options(str(caught.value))
    assert said == {"item": "NAME"}
    data = Table(columns={role: HEADERS[header]}).load(path)
    assert (data.n_users, data.n_items) == (3, 3)
    rated = "rating" in names or "stars" in names
    assert data.ratings.data.tolist() == [4.0 if rated else 1.0] * 3
    assert (data.timestamps is not None) == ("timestamp" in names)
    lacking = (not rated) * ["rating"] + ("timestamp" not in names) * ["timestamp"]
    unread = set(names) - {"user_id", HEADERS[header], "rating", "stars", "timestamp"}
    assert len(data.notes) == bool(lacking and unread)
    assert all(f"is read as {' or '.join(lacking)}; not read: " in note for note in data.notes)


def test_unread_columns_of_dates_are_offered_as_times(tmp_path: Path) -> None:
    """Reviews on Steam, for example, have hours instead of ratings."""
    names = ["user", "item", "hours", "date"]
    path = write(tmp_path / "t.csv", names, [("a", "b", 2, "2018-03-02")])
    (note,) = Table().load(path).notes
    assert note.endswith("say --column rating=NAME or --column timestamp=date.")
    found = Table(columns={"timestamp": "date"}).load(path).timestamps
    assert found is not None
    assert found.tolist() == [1_519_948_800]


HEADLESS = {
    "ratings_Books.csv": ["A1,0001,4.0,1506602368", "A2,0001,5.0,1506602369"],
    "ml.train.rating": ["0\t7\t4\t1506602368", "1\t7\t5\t1506602369"],
    "u.data": ["196\t242\t3\t881250949", "186\t302\t3\t891717742"],
    "ratings.dat": ["1::1193::5::978300760", "1::661::3::978302109"],
    "gowalla.txt": [
        "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22",
        "0\t2010-10-18T22:17:43Z\t30\t-9\t4",
    ],
    "names.csv": ["ann,heat", "bob,alien", "ann,alien"],
    "epinions.txt": ["1 100 4", "1 101 5"],
    "alike.csv": ["1,1,5", "1,2,5"],
    "quoted.csv": ['"u1","i1","5"', '"u2","i1","4"'],
    "dated.csv": ["ann,2020-01-02,heat", "bob,2020-01-03,alien"],
    "texts.txt": ["7\tSmith, John\t5", "8\tDoe, Jane\t5"],
}


@pytest.mark.parametrize("name", HEADLESS)
def test_files_without_a_header_are_read_with_the_advised_options(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("\n".join(HEADLESS[name]))
    match = r"names of columns in .*line 1, got .* looks like a row"
    with pytest.raises(InputError, match=match) as caught:
        Table().load(tmp_path / name)
    said = find_options(str(caught.value))
    assert said == {"user": "1", "item": "2", "header": "no"}
    assert Table(columns=said).load(tmp_path / name).ratings.nnz == len(HEADLESS[name])


def test_first_rows_are_not_lost_as_column_names(tmp_path: Path) -> None:
    for name, lines in HEADLESS.items():
        (tmp_path / name).write_text("\n".join(lines))
        user, *_, item = re.split(r"\t|,|::| ", lines[0].replace('"', ""))
        with pytest.raises(InputError, match=r"looks like a row|got none|different columns"):
            Table(columns={"user": user, "item": item}).load(tmp_path / name)
    late = [f"u{at},i{at % 5000}" for at in range(9000)]
    (tmp_path / "late.csv").write_text("\n".join(late))
    with pytest.raises(InputError, match="looks like a row"):
        Table(columns={"user": "u0", "item": "i0"}).load(tmp_path / "late.csv")


def test_a_first_line_that_may_be_a_row_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["ann", "heat"], [("bob", "alien"), ("eve", "up")])
    (note,) = Table(columns={"user": "ann", "item": "heat"}).load(path).notes
    assert note == (
        "Line 1 of t.csv is read as names of columns: ann, heat. If it is a row, say --no-header."
    )
    said = {"user": "ann", "item": "heat", "header": "yes"}
    assert Table(columns=said).load(path).notes == ()


def test_columns_of_row_numbers_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["", "user", "item"], [(0, 1, 2), (1, 3, 4)])
    assert Table().load(path).notes == ()


def test_column_names_may_begin_like_other_formats(tmp_path: Path) -> None:
    for name in ("PK", "ORCID", "FEA1", "BZip"):
        path = write(tmp_path / "t.csv", [name, "user", "item"], [(1, 2, 3)])
        assert read(path) == {(2, 3): (1.0, None)}


def test_numbers_are_column_names_if_declared(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ["0", "1"], [("a", "b"), ("c", "d")])
    with pytest.raises(InputError, match="looks like a row"):
        read(path, {"user": "0", "item": "1"})
    assert len(read(path, {"user": "0", "item": "1", "header": "yes"})) == 2
    path = write(tmp_path / "t.csv", ["user", "item", "0"], [("a", "b", 3)])
    assert len(read(path)) == 1


@pytest.mark.parametrize(
    ("lines", "pairs", "times"),
    [
        (["0 5 6 7", "1 6"], [("0", "5"), ("0", "6"), ("0", "7"), ("1", "6")], None),
        (
            [
                "1\tU1\t11/11/2019 9:05:58 AM\tN5 N6 N4\tN7-1 N8-0",
                "2\tU2\t1/2/2020 12:00:01 PM\t\tN8-1 N7-0 N5-1",
            ],
            [("U1", "N7"), ("U2", "N8"), ("U2", "N5")],
            [1_573_463_158, 1_577_966_401, 1_577_966_401],
        ),
    ],
)
def test_the_command_advised_for_lists_of_items_writes_pairs(
    tmp_path: Path, lines: list[str], pairs: list[tuple[str, str]], times: list[int] | None
) -> None:
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"a user and an item in each line") as caught:
        Table().load(tmp_path / "train.txt")
    said = str(caught.value)
    command = said.split("`")[1].replace("FILE", "train.txt")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    written = (tmp_path / "pairs.csv").read_text().splitlines()
    assert [tuple(line.split(",")[:2]) for line in written] == pairs
    found = Table(columns=find_options(said)).load(tmp_path / "pairs.csv")
    assert found.ratings.nnz == len(pairs)
    assert (None if found.timestamps is None else sorted(found.timestamps)) == times


@pytest.mark.parametrize(
    "name", ["x.inter", "x.data", "x.jsonl", "x.csv.gz", "x.feather", "x", "x.xz"]
)
def test_formats_follow_the_content_of_a_file(tmp_path: Path, name: str) -> None:
    rows = [("a", 7, 3.0), ("b", 7, 4.0), ("b", 8, 5.0)]
    names = ["user", "item", "rating"]
    plain = read(write(tmp_path / "t.csv", names, rows))
    path, text = tmp_path / name, (tmp_path / "t.csv").read_bytes()
    if name.endswith("jsonl"):
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    elif name.endswith("feather"):
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        feather.write_feather(pyarrow.table({k: list(v) for k, v in columns.items()}), path)
    else:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(text.replace(b",", b"\t")))
    assert read(path) == plain


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x89HDF\r\n", "an HDF5 file"),
        (b"<!doctype html>", "a web page"),
        (b"\x80\x04\x95", "a pickle"),
        ("user,item\n1,2".encode("utf-16"), "text in UTF-16"),
        (b'[{"user": 1}]', "one JSON array"),
        (b"\x28\xb5\x2f\xfd", "packed by zstd"),
        (gzip.compress(b"\0" * 99, mtime=0), "zero bytes"),
    ],
)
def test_files_other_than_tables_are_named_by_kind(tmp_path: Path, start: bytes, kind: str) -> None:
    (tmp_path / "ratings.csv").write_bytes(start)
    with pytest.raises(InputError, match=rf"ratings\.csv: {kind}|ratings\.csv: .*{kind}"):
        Table().load(tmp_path / "ratings.csv")


@pytest.mark.parametrize("line", ["no JSON", "[1, 2]"])
def test_json_lines_that_are_not_objects_are_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"user": 1, "item": 2}\n' + line)
    with pytest.raises(InputError) as caught:
        read(path)
    assert f"a line that is not a JSON object: {line}" in str(caught.value)


BIG = 1234567890123456768


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (pyarrow.float64(), [1.0, float(2**53)]),
        (pyarrow.float32(), [1.0, float(2**24)]),
        (pyarrow.float64(), [1.0, float(-BIG)]),
    ],
)
def test_identifiers_that_floats_cannot_distinguish_are_refused(
    tmp_path: Path, kind: Any, ids: list[float]
) -> None:
    columns = {"user": pyarrow.array(ids, kind), "item": [1, 2]}
    match = r"a user with all its digits in .*row 2, got .*a (float|double)"
    with pytest.raises(InputError, match=match):
        read(write_parquet(tmp_path / "t.parquet", columns))
    below = pyarrow.array([1.0, ids[1] / 2 - 1 if ids[1] > 0 else 2.0], kind)
    found = read(write_parquet(tmp_path / "t.parquet", columns | {"user": below}))
    assert {user for user, _ in found} == {int(each) for each in below.to_pylist()}


@pytest.mark.parametrize(
    "written", [repr(float(BIG)), "1.23E+18", "9007199254740993.0", "1.23457E+11", "1.2345678E19"]
)
def test_identifiers_written_from_a_float_are_refused(tmp_path: Path, written: str) -> None:
    for row in ((written, 1), (1, written)):
        path = write(tmp_path / "t.csv", ["user", "item"], [(5, 6), row])
        with pytest.raises(InputError, match=r"(a user|an item) with all its digits .*line 3, got"):
            read(path)


def test_small_floats_are_numbers_and_hashes_stay_texts(tmp_path: Path) -> None:
    rows = [("1.0", "5e3"), ("2.0", "1e18"), ("10.0", "v1.10")]
    data = Table().load(write(tmp_path / "t.csv", ["user", "item"], rows))
    assert data.users.tolist() == [1, 2, 10]
    assert data.titles == ("1e18", "5e3", "v1.10")
    with pytest.raises(InputError, match=r"to be written in one way, got '1\.0' and '1'"):
        read(write(tmp_path / "t.csv", ["user", "item"], [("1.0", 2), (1, 3)]))


@pytest.mark.parametrize("scale", [10**3, 10**6, 10**9])
def test_the_unit_of_times_is_found_by_their_size(tmp_path: Path, scale: int) -> None:
    seconds = [1_500_000_000, 1_600_000_000]
    rows = [(at, 1, second * scale) for at, second in enumerate(seconds)]
    data = Table().load(write(tmp_path / "t.csv", ["user", "item", "timestamp"], rows))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == seconds
    assert re.search(r"are read as (milli|micro|nano)seconds", data.notes[0])
    mixed = [*rows, (7, 1, 1_550_000_000)]
    data = Table().load(write(tmp_path / "t.csv", ["user", "item", "timestamp"], mixed))
    assert data.timestamps.tolist() == [*seconds, 1_550_000_000]
    assert "have several units, determined by their size: seconds 1, " in data.notes[0]


@pytest.mark.parametrize(
    ("written", "seconds", "note"),
    [
        (["20200901", "20200229"], [1598918400, 1582934400], "read as YYYYMMDD."),
        (["20200901010203", "20200229000000"], [1598922123, 1582934400], "YYYYMMDDhhmmss"),
        (["20200931", "20200229"], [20200931, 20200229], None),
        (["5000000000", "9"], [5_000_000_000, 9], "after the year 2100: 1."),
    ],
)
def test_dates_may_be_numbers(
    tmp_path: Path, written: list[str], seconds: list[int], note: str | None
) -> None:
    rows = [(at, 1, time) for at, time in enumerate(written)]
    data = Table().load(write(tmp_path / "t.csv", ["user", "item", "timestamp"], rows))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == seconds
    assert [note in each for each in data.notes] == [True] * (note is not None)


KEYS = [uuid.UUID(int=1), uuid.UUID(int=2)]
TYPED = {
    "decimal": (pyarrow.array([Decimal(7), Decimal(9)], pyarrow.decimal128(20, 0)), [7, 9]),
    "scaled": (pyarrow.array([Decimal("7.00"), Decimal(9)], pyarrow.decimal128(20, 2)), [7, 9]),
    "large": (pyarrow.array([Decimal(7), Decimal(2**63)], pyarrow.decimal128(20, 0)), ["7", 2**63]),
    "unsigned": (pyarrow.array([7, 2**63], pyarrow.uint64()), ["7", 2**63]),
    "uuid": (pyarrow.array([key.bytes for key in KEYS], pyarrow.binary(16)), KEYS),
    "extension": (pyarrow.array([key.bytes for key in KEYS], pyarrow.uuid()), KEYS),
    "view": (pyarrow.array(["a", "b"], pyarrow.string_view()), ["a", "b"]),
    "bytes": (pyarrow.array([b"a", b"b"], pyarrow.large_binary()), ["a", "b"]),
    "coded": (pyarrow.array([7, 9]).dictionary_encode(), [7, 9]),
}


@pytest.mark.parametrize("name", TYPED)
def test_identifiers_of_any_distinguishing_type(tmp_path: Path, name: str) -> None:
    column, ids = TYPED[name]
    data = Table().load(write_parquet(tmp_path / "t.parquet", {"user": column, "item": [1, 2]}))
    found = data.user_names if data.user_names else data.users.tolist()
    assert sorted(map(str, found)) == sorted(map(str, ids))


def test_a_folder_of_parquet_parts_is_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "ratings"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for at in range(3):
        write_parquet(folder / f"part-{at:05}-x.snappy.parquet", {"user": [at], "item": [f"i{at}"]})
    assert load_data(str(folder)).titles == ("i0", "i1", "i2")
    assert load_data(str(folder), {"user": "user"}).n_users == 3
    write_parquet(folder / "part-9.parquet", {"who": [1], "item": ["x"]})
    with pytest.raises(InputError, match=r"columns item, user in each part .*got who, item"):
        load_data(str(folder))


def test_unbalanced_quotes_between_tabs_are_text(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('user\titem\n1\t"weird al" yankovic\n2\t12" mixes\n3\t"x"\n')
    assert set(Table().load(path).titles) == {'"weird al" yankovic', '12" mixes', '"x"'}
    path.write_text('user\titem\n1\t"weird ""al"""\n2\t"x"\n')
    assert set(Table().load(path).titles) == {'weird "al"', "x"}
    assert '"x"' in Table(columns={"quotes": "no"}).load(path).titles
    path = tmp_path / "t.csv"
    path.write_text('user,item\n1,"weird al" yankovic\n')
    with pytest.raises(
        InputError, match=r"quotes closed .*Close the quote, or give --no-quotes"
    ) as caught:
        read(path)
    said = find_options(str(caught.value))
    assert Table(columns=said).load(path).titles == ('"weird al" yankovic',)


@pytest.mark.parametrize(
    ("columns", "parts"),
    [({"header": "maybe"}, "header=yes or no"), ({"quotes": "x"}, "quotes=yes or no")],
)
def test_options_of_text_files_are_booleans(
    tmp_path: Path, columns: dict[str, str], parts: str
) -> None:
    path = write(tmp_path / "t.csv", ["user", "item"], [(1, 2)])
    with pytest.raises(InputError, match=parts):
        read(path, columns)
    with pytest.raises(InputError, match=r"Expected no (header|quotes) for"):
        read(write_parquet(tmp_path / "t.parquet", {"user": [1], "item": [2]}), columns)
