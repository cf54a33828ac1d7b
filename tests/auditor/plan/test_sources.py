"""Tests of ``--data``: names, paths, and the refusal of other values."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.plan.planned_data import load_planned_data
from fedrec_auditor.auditor.plan.sources import load_data, read_data_object
from fedrec_auditor.targets.datasets.base import Interactions


def test_a_name_loads_its_data_set() -> None:
    assert load_data("synthetic").n_users > 0


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        load_data(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="not there"):
        load_data("a" * 5000)


def test_an_archive_with_a_damaged_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("u.data", "1")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(InputError, match=r"a\.zip, which is damaged"):
        load_data(str(path))


def test_a_hostile_archive_is_refused_before_it_is_recognised(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../other", "1")
    with pytest.raises(InputError, match=r"safe archive, got .* leads out"):
        load_data(str(tmp_path / "a.zip"))


def test_a_directory_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"such files\. Give .*unpacked file"):
        load_data(str(tmp_path))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "ml-100k.zip"
    broken.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(InputError, match="not a complete zip archive"):
        load_data(str(broken))


def test_the_data_set_of_a_directory_is_known_by_its_files(tmp_path: Path) -> None:
    genres = "|".join(["0", "1", *["0"] * 17])
    (tmp_path / "u.data").write_text("1\t1\t5\t10\n2\t1\t3\t20\n")
    (tmp_path / "u.user").write_text("1|30|M|writer|0\n2|50|F|artist|0\n")
    (tmp_path / "u.item").write_text(f"1|A|01-Jan-1990||x|{genres}\n")
    assert load_data(str(tmp_path)).name == "ml-100k"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "T.CSV"])
def test_a_table_is_read_by_its_columns(tmp_path: Path, name: str) -> None:
    separator = "\t" if name.endswith("tsv") else ","
    rows = [("who", "what", "when"), ("7", "b", "30"), ("7", "a", "20"), ("3", "b", "10")]
    (tmp_path / name).write_text("".join(f"{separator.join(row)}\n" for row in rows))
    columns = {"user": "who", "item": "what", "timestamp": "when"}
    data = load_data(str(tmp_path / name), columns)
    assert data.users.tolist() == [3, 7]
    assert data.titles == ("a", "b")
    assert data.timestamps.tolist() == [10, 20, 30]
    with pytest.raises(InputError, match=r"column 'was', got none\. The columns .* who, what, w"):
        load_data(str(tmp_path / name), {"user": "who", "item": "was"})


def test_columns_are_for_tables_only(tmp_path: Path) -> None:
    for data in ("synthetic", str(tmp_path)):
        with pytest.raises(InputError, match=r"columns for a table \(text"):
            load_data(data, {"user": "a", "item": "b"})


def test_filters_apply_to_loaded_data() -> None:
    data = load_planned_data(Plan(data="synthetic", min_user=50))
    assert 0 < data.n_users < load_data("synthetic").n_users
    with pytest.raises(InputError, match="Lower min_user"):
        load_planned_data(Plan(data="synthetic", min_item=10_000))


@pytest.mark.parametrize(
    "name", ["fifo", "fifo.csv", "fifo.parquet", "zero", "zero.csv", "zero.zip"]
)
def test_endless_files_are_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if "fifo" in name:
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"a device, a FIFO or a socket\. Copy"):
        load_data(str(path))


@pytest.mark.parametrize("name", ["u.data", "ratings.dat"])
@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_a_folder_with_endless_files_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    for file_name in ("u.user", "u.item", "users.dat", "movies.dat"):
        (tmp_path / file_name).write_text("movieId,title,genres\n1,a,b\n")
    if kind == "fifo":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError):
        load_data(str(tmp_path))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_one_very_long_identifier_takes_seconds(tmp_path: Path, ending: str) -> None:
    """One long text costs its own length, not that of a column as wide as the text."""
    users = [f"u{i % 999}" if i % 100 else "L" * 1000 + f"{i:08d}" for i in range(200_000)]
    items = [f"i{i % 501}" if i else "L" * 1024 for i in range(200_000)]
    path = tmp_path / f"long{ending}"
    table = pyarrow.table({"user": users, "item": items})
    (csv.write_csv if ending == ".csv" else parquet.write_table)(table, path)
    before = time.process_time()
    data = load_data(str(path))
    assert time.process_time() - before < 10
    assert data.n_users == len(set(users))
    assert data.titles[0] == "L" * 1024


MATRIX = np.array([[5.0, 0.0, 3.0], [0.0, 4.0, 0.0]])


def test_a_dataframe_is_read_like_its_file(tmp_path: Path) -> None:
    frame = pa.table({"userId": ["b", "a", "b"], "movieId": [7, 7, 9], "rating": [5.0, 4.0, 3.0]})
    lines = ["userId,movieId,rating", "b,7,5.0", "a,7,4.0", "b,9,3.0"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    found, name = read_data_object(frame)
    assert name == found.name == "table"
    assert found.digest() == load_data(str(tmp_path / "t.csv")).digest()


def test_columns_may_have_other_names() -> None:
    frame = pa.table({"who": [1, 2], "what": [3, 3]})
    found, _ = read_data_object(frame, {"user": "who", "item": "what"})
    assert found.ratings.toarray().tolist() == [[1.0], [1.0]]
    with pytest.raises(InputError, match="user"):
        read_data_object(frame)


@pytest.mark.parametrize("data", [MATRIX, sparse.csr_array(MATRIX), sparse.coo_matrix(MATRIX)])
def test_a_matrix_is_read_as_ratings(data: Any) -> None:
    found, _ = read_data_object(data)
    np.testing.assert_array_equal(found.ratings.toarray(), MATRIX)


def test_interactions_and_names_are_returned_unchanged() -> None:
    data = Interactions.create(MATRIX, name="mine")
    assert read_data_object(data) == (data, "mine")
    assert read_data_object("ml-100k") == (None, "ml-100k")
    assert read_data_object(Path("r.csv")) == (None, "r.csv")


@pytest.mark.parametrize("data", [np.zeros(3), 7, [[1, 2]], None])
def test_other_data_objects_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="Give"):
        read_data_object(data)
