"""Contract tests of every data set: its loaded contents, and the files that it recognises.

A new data set needs a case in ``CASES``, which writes small files of its layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.base import Attribute, Dataset, Interactions
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_100k import Ml100k
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.datasets.table import Table
from tests.contracts.laws import BROKEN, catches, make_fixture
from tests.targets.datasets import written

# Inferred attributes (Table I of the FedRec paper), with the classes of every data set.
CLASSES = {"age_group": ("under 35", "35 to 45", "over 45"), "gender": ("F", "M")}


@dataclass(frozen=True, slots=True)
class DatasetCase:
    """A data set, and the function that writes small files of its layout, if it reads files.

    ``attributes`` are the names of the users' attributes. ``file`` is the file to load, if it is
    not the folder.
    """

    dataset: Dataset
    write: Callable[[Path], object] | None = None
    attributes: tuple[str, ...] = ("age_group", "gender", "occupation")
    file: str = ""

    def load(self) -> Interactions:
        if self.write is None:
            return self.dataset.load()
        with TemporaryDirectory() as folder:
            self.write(Path(folder))
            return self.dataset.load(Path(folder) / self.file)


def movielens(dataset: Dataset, write: Callable[[Path, written.Rows], Path]) -> DatasetCase:
    """Returns a case with an item without ratings and a user without interactions."""
    return DatasetCase(dataset, lambda folder: write(folder, written.SMALL))


def table(dataset: Dataset, file: str, lines: list[str]) -> DatasetCase:
    return DatasetCase(dataset, lambda folder: written.write(folder / file, lines), (), file)


CASES: dict[str, tuple[DatasetCase, ...]] = {
    "ml-100k": (
        movielens(Ml100k(), written.official_100k),
        movielens(Ml100k(), written.recbole_100k),
    ),
    "ml-1m": (movielens(Ml1m(), written.official_1m),),
    "table": (
        table(Table(), "t.csv", ["user,item,rating,timestamp", "9,b,5,30", "2,a,3,20", "2,b,1,10"]),
        table(
            Table(columns={"user": "who", "item": "what"}),
            "t.tsv",
            ["what\tat\twho", "b\tx\tU1", "a\ty\tU2", "a\tz\tU1"],
        ),
    ),
    "synthetic": (
        DatasetCase(Synthetic(n_users=12, n_items=9, profile=4)),
        DatasetCase(Synthetic(n_users=1, n_items=2, profile=1)),
    ),
}
NAMED = {f"{name} {at}": case for name, cases in CASES.items() for at, case in enumerate(cases)}


case = make_fixture(NAMED)


@pytest.mark.parametrize("name", FAMILIES["datasets"].list_names())
def test_every_member_has_a_case_of_its_class(name: str) -> None:
    assert CASES.get(name), f"Add a case for {name}."
    member = FAMILIES["datasets"].load_class(name)
    assert all(isinstance(case.dataset, member) for case in CASES[name])


def test_ratings(case: DatasetCase) -> None:
    """Checks that ratings are a sorted float32 csr_array without zeros or empty rows."""
    data = case.load()
    ratings = data.ratings
    assert ratings.format == "csr", ratings.format
    assert ratings.shape == (data.n_users, data.n_items), ratings.shape
    assert ratings.dtype == np.float32, ratings.dtype
    assert np.isfinite(ratings.data).all(), "a rating is not finite"
    assert (ratings.data != 0).all(), "a stored entry is no interaction"
    assert (np.diff(ratings.indptr) > 0).all(), "a user has no interaction"
    rows = np.repeat(np.arange(data.n_users), np.diff(ratings.indptr))
    key = rows * data.n_items + ratings.indices
    assert (np.diff(key) > 0).all(), "columns of a row are not ascending, or a pair stands twice"


def test_names_and_times(case: DatasetCase) -> None:
    """Checks identifiers (ascending), titles and genres (one per item), and timestamps (int64)."""
    data = case.load()
    for ids in (data.users, data.items):
        assert ids.dtype == np.int64, ids.dtype
        assert (np.diff(ids) > 0).all(), "identifiers do not ascend"
    assert len(data.titles) in (0, data.n_items), f"{len(data.titles)} titles"
    assert data.name, "it has no name"
    if data.timestamps is not None:
        assert data.timestamps.dtype == np.int64, data.timestamps.dtype
        assert data.timestamps.shape == data.ratings.data.shape, "not one an interaction"
        assert (data.timestamps >= 0).all(), "a time before 1970"
    if data.genres is not None:
        assert data.genres.dtype == np.bool_, data.genres.dtype
        assert data.genres.shape == (data.n_items, len(data.genre_names)), data.genres.shape


def test_attributes(case: DatasetCase) -> None:
    """Checks that every attribute has one valid code per user, and that no attribute is missing."""
    data = case.load()
    for name, attribute in data.attributes.items():
        assert attribute.codes.shape == (data.n_users,), name
        assert attribute.codes.dtype == np.int64, name
        assert np.isin(attribute.codes, np.arange(len(attribute.categories))).all(), name
        assert len(set(attribute.categories)) == len(attribute.categories), name
        assert attribute.classes == CLASSES.get(name, attribute.classes), name
    assert sorted(data.attributes) == sorted(case.attributes), f"it has {list(data.attributes)}"


def test_determinism(case: DatasetCase) -> None:
    """Checks that loading a source twice gives equal data."""
    first, again = (case.load().digest() for _ in range(2))
    assert first == again, "loaded twice, and not alike"


def test_recognition(case: DatasetCase) -> None:
    """Checks that a data set recognises its own files only, and refuses missing files."""
    for other in NAMED.values():
        if other.write is None:
            continue
        with TemporaryDirectory() as folder:
            other.write(Path(folder))
            try:
                known = case.dataset.recognises(Path(folder) / other.file)
            except InputError:  # a file instead of a directory or an archive
                known = False
        own = type(other.dataset) is type(case.dataset)
        assert known == own, f"files of {other.dataset} recognised: {known}"
    with TemporaryDirectory() as folder:
        empty = Path(folder)
        assert not case.dataset.recognises(empty), "an empty folder is recognised"
        for place in (empty, empty / "absent"):
            with pytest.raises(InputError, match=str(place)):
                case.dataset.load(place)


@pytest.mark.parametrize("name", sorted({*CASES} - {"ml-100k", "synthetic", "table"}))
def test_the_cache_is_used_and_an_empty_one_names_the_download(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path))
    case, place = CASES[name][-1], tmp_path / name
    with pytest.raises(InputError, match="Fetch ") as caught:
        case.dataset.load()
    assert str(tmp_path) in str(caught.value)
    assert f"Fetch {name}.zip" in str(caught.value) or not name.startswith("ml-")
    place.mkdir()
    assert case.write is not None
    case.write(place)
    assert case.dataset.load().digest() == case.dataset.load(place).digest()


@dataclass(frozen=True)
class _Drawn:
    """Correct synthetic data; each subclass makes one fault."""

    def recognises(self, path: Path) -> bool:
        return False

    def load(self, path: Path | None = None) -> Interactions:
        return self._wrong(Synthetic(n_users=12, n_items=9, profile=4).load(path))

    def _wrong(self, data: Interactions) -> Interactions:
        return data


class RecognisesAll(_Drawn):
    """Faulty data set: recognises every folder as its own."""

    def recognises(self, path: Path) -> bool:
        return True


class NewEveryTime(_Drawn):
    """Faulty data set: draws from the operating system's generator."""

    def load(self, path: Path | None = None) -> Interactions:
        seed = int(np.random.default_rng().integers(2**31))
        return Synthetic(n_users=12, n_items=9, profile=4, seed=seed).load(path)


class StoredZeros(_Drawn):
    """Faulty data set: stores a rating of zero."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.data[3] = 0.0
        return data


class UnsortedColumns(_Drawn):
    """Faulty data set: the item indices of a user are not sorted."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.indices[:2] = data.ratings.indices[1::-1].copy()
        return data


class IdleUser(_Drawn):
    """Faulty data set: the last user has no interaction."""

    def _wrong(self, data: Interactions) -> Interactions:
        ratings = sparse.vstack([data.ratings, sparse.csr_array((1, data.n_items), dtype="f4")])
        attributes = {
            name: Attribute(codes=np.append(a.codes, 0), categories=a.categories)
            for name, a in data.attributes.items()
        }
        users = np.append(data.users, data.users[-1] + 1)
        return replace(data, users=users, ratings=sparse.csr_array(ratings), attributes=attributes)


class ShiftedTimes(_Drawn):
    """Faulty data set: the first timestamp is missing."""

    def _wrong(self, data: Interactions) -> Interactions:
        return replace(data, timestamps=data.timestamps[1:])


class CodeBeyond(_Drawn):
    """Faulty data set: an attribute code stands for no category."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.attributes["gender"].codes[0] = 2
        return data


class NoAge(_Drawn):
    """Faulty data set: an attribute that the audit infers is missing."""

    def _wrong(self, data: Interactions) -> Interactions:
        kept = {name: a for name, a in data.attributes.items() if name != "age_group"}
        return replace(data, attributes=kept)


class DoubleIds(_Drawn):
    """Faulty data set: two users have one identifier."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.users[1] = data.users[0]
        return data


@catches(
    (test_recognition, RecognisesAll()),
    (test_determinism, NewEveryTime()),
    (test_ratings, StoredZeros()),
    (test_ratings, UnsortedColumns()),
    (test_ratings, IdleUser()),
    (test_names_and_times, ShiftedTimes()),
    (test_attributes, CodeBeyond()),
    (test_attributes, NoAge()),
    (test_names_and_times, DoubleIds()),
)
def test_the_law_catches(law: Callable[[DatasetCase], None], broken: Dataset) -> None:
    with pytest.raises(BROKEN):
        law(DatasetCase(broken))
