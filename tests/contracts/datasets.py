"""What every data set must keep. Each check raises AssertionError naming what is broken.

A member runs them on its ``Case``, with small files of its own layout written into a folder, or
none where data are drawn. Outsiders can run ``check_dataset`` on their own; ``tests/specimens/``
holds data sets that must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Dataset, Interactions
from fedrec_auditor.targets.datasets.frappe import Frappe
from fedrec_auditor.targets.datasets.libimseti import Libimseti
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_10m import Ml10m
from fedrec_auditor.targets.datasets.ml_20m import Ml20m
from fedrec_auditor.targets.datasets.ml_25m import Ml25m
from fedrec_auditor.targets.datasets.ml_100k import HEADERS, Ml100k
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.datasets.table import Table

# What the audit infers (Table I of the FedRec paper), with the categories every member shares.
AGE_GROUPS = ("under 35", "35 to 45", "over 45")
GENDERS = ("F", "M")
PEOPLE = ("age_group", "gender", "occupation")


@dataclass(frozen=True, slots=True)
class Case:
    """A data set, and what writes small files of its layout into a folder.

    ``attributes`` are those its users have; ``file`` is what to load where it is not the folder.
    """

    dataset: Dataset
    write: Callable[[Path], None] | None = None
    attributes: tuple[str, ...] = PEOPLE
    file: str = ""


def _files(**files: list[str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, lines in files.items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / name.replace("__", "-").replace("_", ".")).write_text(text, "latin-1")

    return write


_RATED = ["userId,movieId,rating,timestamp", "9,4,5.0,30", "2,4,0.5,20", "2,1,3.5,10"]
_MOVIES = ["movieId,title,genres", '1,"Film, The (1990)",Drama|IMAX', "4,B,(no genres listed)"]
_FRAPPE = "user item cnt daytime weekday isweekend homework cost weather country city"
_FLAGS = "|".join("0" * 18 + "1")
# Rows out of order, an unrated movie and an idle user, ages on the borders.
CASES: dict[str, tuple[Case, ...]] = {
    "ml-100k": (
        Case(
            Ml100k(),
            _files(
                u_data=["9\t4\t5\t30", "2\t4\t3\t20", "2\t1\t1\t10"],
                u_user=["9|45|M|writer|Z", "2|34|F|none|Z", "3|46|M|other|Z"],
                u_item=[f"{i}|Film {i}|||u|{_FLAGS}" for i in (1, 4, 7)],
            ),
        ),
        Case(
            Ml100k(),
            _files(
                ml__100k_inter=[HEADERS["ml-100k.inter"], "9\t4\t5\t30", "2\t4\t3\t20"],
                ml__100k_user=[HEADERS["ml-100k.user"], "9\t45\tM\twriter\tZ", "2\t34\tF\tnone\tZ"],
                ml__100k_item=[HEADERS["ml-100k.item"], "4\tFilm\t1990\tDrama War"],
            ),
        ),
    ),
    "ml-1m": (
        Case(
            Ml1m(),
            _files(
                ratings_dat=["9::4::5::30", "2::4::3::20", "2::1::1::10"],
                users_dat=["9::M::35::20::Z", "2::F::25::0::Z", "3::M::45::1::Z"],
                movies_dat=[f"{i}::Film (1990)::Drama|War" for i in (1, 4, 7)],
            ),
        ),
    ),
    "ml-10m": (
        Case(
            Ml10m(),
            _files(
                ratings_dat=["9::4::5::30", "2::4::0.5::20", "2::1::3.5::10"],
                movies_dat=[f"{i}::Film (1990)::Drama|IMAX" for i in (1, 4, 7)],
            ),
            attributes=(),
        ),
    ),
    "ml-20m": (
        Case(Ml20m(), _files(ratings_csv=_RATED, movies_csv=_MOVIES), attributes=()),
        Case(
            Ml20m(),
            _files(ratings_csv=_RATED, movies_csv=_MOVIES, README_txt=["This (ml-20m) has"]),
            attributes=(),
        ),
    ),
    "ml-25m": (
        Case(
            Ml25m(),
            _files(ratings_csv=_RATED, movies_csv=_MOVIES, README_txt=["This (ml-25m) has"]),
            attributes=(),
        ),
    ),
    "libimseti": (
        Case(
            Libimseti(),
            _files(ratings_dat=["9,4,10", "2,4,1", "2,9,3"], gender_dat=["4,F", "9,M", "2,U"]),
            attributes=("gender",),
        ),
    ),
    "frappe": (
        Case(
            Frappe(),
            _files(
                frappe_csv=[
                    _FRAPPE.replace(" ", "\t"),
                    "9\t4\t5\tnight\tsunday\tweekend\thome\tfree\tsunny\tSpain\t0",
                    "2\t4\t1\tnight\tsunday\tweekend\thome\tpaid\tsunny\tJapan\t7",
                    "9\t4\t2\tnight\tmonday\tworkday\twork\tfree\tsunny\tSpain\t3",
                ]
            ),
            attributes=("country", "city"),
        ),
    ),
    "table": (
        Case(
            Table(),
            _files(t_csv=["user,item,rating,timestamp", "9,b,5,30", "2,a,3,20", "2,b,1,10"]),
            attributes=(),
            file="t.csv",
        ),
        Case(
            Table(columns={"user": "who", "item": "what"}),
            _files(t_tsv=["what\tat\twho", "b\tx\tU1", "a\ty\tU2", "a\tz\tU1"]),
            attributes=(),
            file="t.tsv",
        ),
    ),
    "synthetic": (
        Case(Synthetic(n_users=12, n_items=9, profile=4)),
        Case(Synthetic(n_users=1, n_items=2, profile=1)),
    ),
}


def _load(case: Case, folder: Path) -> Interactions:
    if case.write is None:
        return case.dataset.load()
    folder.mkdir(exist_ok=True)
    case.write(folder)
    return case.dataset.load(folder / case.file)


def check_ratings(case: Case, folder: Path) -> None:
    """A canonical float32 csr_array without stored zeros; every user has an interaction."""
    data = _load(case, folder)
    ratings = data.ratings
    assert ratings.format == "csr"
    assert ratings.shape == (data.n_users, data.n_items)
    assert ratings.dtype == np.float32
    assert np.isfinite(ratings.data).all()
    assert (ratings.data != 0).all(), "a stored entry is no interaction"
    assert (np.diff(ratings.indptr) > 0).all(), "a user has no interaction"
    rows = np.repeat(np.arange(data.n_users), np.diff(ratings.indptr))
    key = rows * data.n_items + ratings.indices
    assert (np.diff(key) > 0).all(), "columns of a row are not ascending, or a pair stands twice"


def check_identifiers(case: Case, folder: Path) -> None:
    """Users and items are ascending and differ; titles are one an item, if there are any."""
    data = _load(case, folder)
    for ids in (data.users, data.items):
        assert ids.dtype == np.int64
        assert (np.diff(ids) > 0).all(), "identifiers do not ascend"
    assert len(data.titles) in (0, data.n_items)
    assert data.name


def check_timestamps(case: Case, folder: Path) -> None:
    """Timestamps are whole seconds, one an interaction."""
    data = _load(case, folder)
    if data.timestamps is not None:
        assert data.timestamps.dtype == np.int64
        assert data.timestamps.shape == data.ratings.data.shape
        assert (data.timestamps >= 0).all()


def check_attributes(case: Case, folder: Path) -> None:
    """One code a user in every attribute, and the attributes that an audit infers."""
    data = _load(case, folder)
    for name, attribute in data.attributes.items():
        assert attribute.codes.shape == (data.n_users,), name
        assert attribute.codes.dtype == np.int64, name
        assert attribute.codes.min() >= 0, name
        assert attribute.codes.max() < len(attribute.categories), name
        assert len(set(attribute.categories)) == len(attribute.categories), name
    assert sorted(data.attributes) == sorted(case.attributes)
    for name, categories in (("gender", GENDERS), ("age_group", AGE_GROUPS)):
        if name in data.attributes:
            assert data.attributes[name].categories in (categories, (*categories, "unknown")), name


def check_genres(case: Case, folder: Path) -> None:
    """Flags, a row an item and a column a genre."""
    data = _load(case, folder)
    if data.genres is not None:
        assert data.genres.dtype == np.bool_
        assert data.genres.shape == (data.n_items, len(data.genre_names))


def check_determinism(case: Case, folder: Path) -> None:
    """The same source gives the same interactions."""
    assert _load(case, folder).digest() == _load(case, folder).digest()


def check_recognition(case: Case, folder: Path) -> None:
    """It knows its own files, takes no others for them, and refuses what is not there."""
    others = [other for cases in CASES.values() for other in cases if other.write is not None]
    for position, other in enumerate(others):
        place = folder / str(position)
        place.mkdir()
        assert other.write is not None
        other.write(place)
        own = type(other.dataset) is type(case.dataset)
        try:
            known = case.dataset.recognises(place / other.file)
        except InputError:  # a file where a directory or an archive was expected
            known = False
        assert known == own, f"{place} recognised: {known}"
    empty = folder / "empty"
    empty.mkdir()
    assert not case.dataset.recognises(empty)
    for place in (empty, folder / "absent"):
        try:
            case.dataset.load(place)
        except InputError:
            continue
        raise AssertionError(f"{place} was loaded")


CHECKS = (
    check_ratings,
    check_identifiers,
    check_timestamps,
    check_attributes,
    check_genres,
    check_determinism,
    check_recognition,
)


def check_dataset(case: Case, folder: Path) -> None:
    """Run every check, each in a folder of its own."""
    for check in CHECKS:
        place = folder / check.__name__
        place.mkdir()
        check(case, place)
