"""App_usage_trace.txt and App2Category.txt. All rows are made up."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.targets.datasets.published_datasets import AppUsage
from tests.targets.datasets.broken import check_named

ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.datetimes(datetime(2016, 2, 27), datetime(2016, 5, 1)),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=25,
)
LINES = ["7 20160420071501 4F1 12 3500.5", "7 20160421000000 99 3 10", "8 20160420071500 4F1 12 1"]


def write(folder: Path, lines: list[str], *categories: str) -> Path:
    (folder / "App_usage_trace.txt").write_text("".join(f"{line}\n" for line in lines))
    if categories:
        text = "".join(f"{line}\n" for line in categories)
        (folder / "App2Category.txt").write_text(text)
    return folder


@settings(max_examples=60)
@given(ROWS)
def test_uses_are_counted_and_the_last_one_is_the_time(
    rows: list[tuple[int, datetime, int]],
) -> None:
    times: dict[tuple[int, int], list[int]] = defaultdict(list)
    for user, time, app in rows:
        times[user, app].append(int(time.replace(tzinfo=UTC, microsecond=0).timestamp()))
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"{u} {t:%Y%m%d%H%M%S} station {a} 5" for u, t, a in rows]
        data = AppUsage().load(write(Path(folder), lines))
    row, column = data.ratings.nonzero()
    pairs = list(zip(data.users[row].tolist(), data.items[column].tolist(), strict=True))
    assert pairs == sorted(times)
    assert data.ratings.data.tolist() == [len(times[pair]) for pair in pairs]
    assert data.timestamps.tolist() == [max(times[pair]) for pair in pairs]
    assert data.attributes == {}


def test_categories_are_flags_of_the_applications_used(tmp_path: Path) -> None:
    data = AppUsage().load(write(tmp_path, LINES, "12\t4", "3\t1", "99\t2"))
    assert data.items.tolist() == [3, 12]
    assert data.genre_names == ("category 1", "category 4")
    assert data.genres.tolist() == [[True, False], [False, True]]


def test_users_may_be_texts(tmp_path: Path) -> None:
    data = AppUsage().load(write(tmp_path, [f"u{line}" for line in LINES]))
    assert data.users.tolist() == [0, 1]
    assert data.ratings.toarray().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("20160421000000", "20160431000000", ["time YYYYMMDDhhmmss", "line 2", "20160431000000"]),
        ("20160421000000", "20161321000000", ["time YYYYMMDDhhmmss", "line 2"]),
        ("20160421000000", "20160421240000", ["time YYYYMMDDhhmmss", "line 2"]),
        ("20160421000000", "20160400000000", ["time YYYYMMDDhhmmss", "line 2"]),
        ("20160421000000", "2016", ["time YYYYMMDDhhmmss", "line 2"]),
        (" 99 3 10", " 99 x 10", ["an item id", "line 2", "'x'"]),
        (" 99 3 10", " 99 3", ["5 fields", "line 2"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, said: list[str]
) -> None:
    file = write(tmp_path, LINES) / "App_usage_trace.txt"
    check_named(AppUsage(), file, old, new, said)
