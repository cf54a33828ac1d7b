"""Both layouts say the same; broken files are named by line. All rows here are made up."""

import hashlib
import logging
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.targets.cache import cached
from fedrec_auditor.targets.datasets import ml_100k
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.ml_100k import GENRE_NAMES, HEADERS, OCCUPATIONS, Ml100k
from tests.targets.datasets.broken import check_named


@dataclass(frozen=True)
class Rows:
    """What the files say, in the order of their lines."""

    users: dict[int, tuple[int, str, str]]
    items: dict[int, tuple[str, list[str]]]
    pairs: dict[tuple[int, int], tuple[int, int]]

    def official(self, folder: Path) -> Path:
        flags = {
            item: "|".join(str(int(name in genres)) for name in GENRE_NAMES)
            for item, (_, genres) in self.items.items()
        }
        write(folder / "u.data", [f"{u}\t{i}\t{r}\t{t}" for (u, i), (r, t) in self.pairs.items()])
        write(folder / "u.user", [f"{u}|{a}|{g}|{o}|Z" for u, (a, g, o) in self.users.items()])
        write(
            folder / "u.item",
            [f"{i}|{t} (1990)|01-Jan-1990||u|{flags[i]}" for i, (t, _) in self.items.items()],
            "latin-1",
        )
        return folder

    def recbole(self, folder: Path) -> Path:
        head = HEADERS
        ratings = [f"{u}\t{i}\t{r}\t{t}" for (u, i), (r, t) in self.pairs.items()]
        users = [f"{u}\t{a}\t{g}\t{o}\tZ" for u, (a, g, o) in self.users.items()]
        items = [f"{i}\t{t}\t1990\t{' '.join(g)}" for i, (t, g) in self.items.items()]
        write(folder / "ml-100k.inter", [head["ml-100k.inter"], *ratings])
        write(folder / "ml-100k.user", [head["ml-100k.user"], *users])
        write(folder / "ml-100k.item", [head["ml-100k.item"], *items])
        return folder

    def interactions(self) -> Interactions:
        """The slow obvious oracle: dense arrays and dictionaries."""
        users, items = (sorted({pair[side] for pair in self.pairs}) for side in (0, 1))
        ratings = np.zeros((len(users), len(items)), dtype=np.float32)
        for (user, item), (rating, _) in self.pairs.items():
            ratings[users.index(user), items.index(item)] = rating
        ages = [self.users[user][0] for user in users]
        groups = [0 if age < 35 else 1 if age <= 45 else 2 for age in ages]
        return Interactions(
            name="oracle",
            users=np.array(users),
            items=np.array(items),
            ratings=sparse.csr_array(ratings),
            timestamps=np.array([self.pairs[pair][1] for pair in sorted(self.pairs)]),
            attributes={
                "gender": Attribute(
                    codes=np.array(["FM".index(self.users[user][1]) for user in users]),
                    categories=("F", "M"),
                ),
                "age_group": Attribute(
                    codes=np.array(groups), categories=("under 35", "35 to 45", "over 45")
                ),
                "occupation": Attribute(
                    codes=np.array([OCCUPATIONS.index(self.users[user][2]) for user in users]),
                    categories=OCCUPATIONS,
                ),
            },
            genres=np.array(
                [[name in self.items[item][1] for name in GENRE_NAMES] for item in items]
            ),
            genre_names=GENRE_NAMES,
        )


def write(path: Path, lines: list[str], encoding: str = "utf-8") -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))


USERS = st.dictionaries(
    st.integers(1, 10**6),
    st.tuples(st.integers(1, 99), st.sampled_from("FM"), st.sampled_from(OCCUPATIONS)),
    min_size=1,
    max_size=6,
)
ITEMS = st.dictionaries(
    st.integers(1, 10**6),
    st.tuples(
        st.text("Aé:'\",( #", min_size=1, max_size=5),
        st.lists(st.sampled_from(GENRE_NAMES), max_size=4),  # in any order, with repeats, or none
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    users, items = draw(USERS), draw(ITEMS)
    pair = st.tuples(st.sampled_from(list(users)), st.sampled_from(list(items)))
    values = st.tuples(st.integers(1, 5), st.integers(0, 2**40))
    return Rows(users, items, draw(st.dictionaries(pair, values, min_size=1, max_size=20)))


@settings(max_examples=60)
@given(rows())
def test_what_was_written_comes_back_from_both_layouts(given_rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        official = Ml100k().load(given_rows.official(Path(one)))
        recbole = Ml100k().load(given_rows.recbole(Path(other)))
    assert official.digest() == recbole.digest() == given_rows.interactions().digest()
    assert official.ratings.has_canonical_format
    assert recbole.titles == tuple(given_rows.items[item][0] for item in recbole.items)


SMALL = Rows(
    users={
        7: (34, "F", "writer"),
        2: (35, "M", "none"),
        5: (45, "M", "doctor"),
        3: (46, "F", "artist"),
        9: (20, "M", "other"),
    },
    items={
        30: ("Café", ["Children's", "Animation"]),
        10: ("Anon", []),
        20: ("unknown", ["unknown"]),
        40: ("Nobody's", ["Drama"]),
    },
    pairs={
        (7, 30): (5, 40),
        (2, 20): (1, 30),
        (7, 10): (2, 10),
        (5, 30): (4, 20),
        (3, 10): (3, 50),
    },
)
LAYOUTS = ["official", "recbole"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_small_files(tmp_path: Path, layout: str, packed: bool) -> None:
    path = getattr(SMALL, layout)(tmp_path)
    if packed:
        path = tmp_path / "ml-100k.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in tmp_path.glob("*[!p]"):
                archive.write(file, f"some/where/{file.name}")
    data = Ml100k().load(path)
    assert data.users.tolist() == [2, 3, 5, 7]  # 9 rated nothing
    assert data.items.tolist() == [10, 20, 30]  # nobody rated 40
    assert data.ratings.toarray().tolist() == [[0, 1, 0], [3, 0, 0], [0, 0, 4], [2, 0, 5]]
    assert data.timestamps.tolist() == [30, 50, 20, 10, 40]
    groups = data.attributes["age_group"]
    assert [groups.categories[code] for code in groups.codes] == [
        "35 to 45",
        "over 45",
        "35 to 45",
        "under 35",
    ]
    assert [[GENRE_NAMES[at] for at in np.flatnonzero(row)] for row in data.genres] == [
        [],
        ["unknown"],
        ["Animation", "Children's"],
    ]
    assert data.titles[2].startswith("Café")


@pytest.mark.parametrize(
    ("layout", "name", "old", "new", "said"),
    [
        ("official", "u.data", "2\t20\t1\t30", "2\t20\t1", ["4 fields", "line 2"]),
        ("official", "u.data", "\t1\t30", "\t9\t30", ["a rating", "line 2", "'9'"]),
        ("official", "u.data", "\t1\t30", "\tnan\t30", ["a rating", "line 2", "nan"]),
        ("recbole", "ml-100k.inter", "\t1\t30", "\tnan\t30", ["a rating", "line 3"]),
        ("official", "u.data", "5\t30", "6\t30", ["user of u.user", "line 4", "user 6"]),
        ("recbole", "ml-100k.inter", "5\t30", "6\t30", ["line 5", "user 6"]),
        ("official", "u.data", "5\t30", "5\t31", ["movie of u.item", "line 4", "31"]),
        ("official", "u.data", "5\t30", "7\t30", ["once", "line 4", "before", "line 1"]),
        ("official", "u.data", "*", "", ["at least one row", "empty"]),
        ("official", "u.user", "*", "", ["at least one row", "empty"]),
        ("official", "u.user", "|35|", "|x|", ["an age", "line 2", "'x'"]),
        ("official", "u.user", "|35|", "|" + "9" * 5000 + "|", ["an age", "line 2"]),
        ("official", "u.user", "|M|doctor", "|X|doctor", ["a gender", "line 3", "'X'"]),
        ("recbole", "ml-100k.user", "doctor", "spy", ["an occupation", "line 4", "spy"]),
        ("official", "u.user", "5|45", "7|45", ["identifier", "line 3", "line 1"]),
        ("official", "u.item", "|u|0", "|u|2", ["a genre flag, one of 0, 1", "line 1", "'2'"]),
        ("recbole", "ml-100k.item", "Children's", "Kids", ["genres among", "'Kids'"]),
        ("recbole", "ml-100k.item", "item_id", "id", ["the header", "line 1"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, layout: str, name: str, old: str, new: str, said: list[str]
) -> None:
    file = getattr(SMALL, layout)(tmp_path) / name
    encoding = "latin-1" if name == "u.item" else "utf-8"
    check_named(Ml100k(), file, old, new, said, encoding)


class Index:
    """A stand-in for pip: leaves ``wheel`` in the folder it is told, or fails."""

    def __init__(self, wheel: Path | None) -> None:
        self.wheel, self.calls = wheel, 0

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        if self.wheel is None:
            return subprocess.CompletedProcess(command, 1, "", "WARNING: x\nERROR: no network")
        folder = Path(command[command.index("--dest") + 1])
        (folder / self.wheel.name).write_bytes(self.wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """A cold cache, and an index whose wheel holds the small files and another one."""
    files = tmp_path / "files"
    files.mkdir()
    wheel = tmp_path / "recbole-1.2.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("recbole/dataset_example/ml-100k/ml-100k.link", "not wanted")
        for file in SMALL.recbole(files).iterdir():
            archive.write(file, f"recbole/dataset_example/ml-100k/{file.name}")
    index = Index(wheel)
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", index)
    monkeypatch.setattr(ml_100k, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    return index


def test_the_first_load_fetches_and_says_the_terms(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedrec_auditor.targets.datasets"):
        first = Ml100k().load()
        assert len(caplog.records) == 1
        for term in ("research", "Harper and Konstan", "pass them on", "commercially"):
            assert term in caplog.text
        second = Ml100k().load()
        assert len(caplog.records) == index.calls == 1
    assert first.digest() == second.digest() == SMALL.interactions().digest()
    place = cached("ml-100k")
    assert sorted(file.name for file in place.iterdir()) == sorted(HEADERS)


def test_another_wheel_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ml_100k, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(IncompleteError, match="SHA-256 0000"):
        Ml100k().load()
    assert cached("ml-100k") is None


def test_no_network_says_what_to_do(index: Index) -> None:
    index.wheel = None
    with pytest.raises(IncompleteError, match=r"ERROR: no network Give the path of ml-100k\.zip"):
        Ml100k().load()
    assert cached("ml-100k") is None


def test_a_path_is_never_replaced_by_a_download(index: Index, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        Ml100k().load(tmp_path / "no")
    assert index.calls == 0


def test_the_whole_data_set() -> None:
    """Counts as GroupLens publishes them (ml-100k README, u.info, u.genre, u.occupation)."""
    place = cached("ml-100k")
    if place is None:
        pytest.skip("MovieLens 100K is not in the cache")
    data = Ml100k().load(place)
    assert (data.n_users, data.n_items, data.ratings.nnz) == (943, 1682, 100_000)
    assert np.array_equal(data.users, np.arange(1, 944))
    assert np.bincount(data.attributes["gender"].codes).tolist() == [273, 670]
    assert (np.bincount(data.attributes["occupation"].codes, minlength=21) > 0).all()
    assert np.diff(data.ratings.indptr).min() == 20
    assert data.genres.any(axis=1).all()
    assert data.genres[:, 0].sum() == 2  # unknown
