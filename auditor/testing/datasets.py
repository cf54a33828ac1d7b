"""What every data set must keep. Each check raises AssertionError naming what is broken.

A ``DatasetCase`` holds the data set and small files of its own layout, written into a folder, or
none where data are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import SkipTest

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.testing.parts.checks import Contract, check_ranges, check_refused
from fedrec_auditor.targets.datasets.base import Dataset, Interactions

# What the audit infers (Table I of the FedRec paper), with the categories every member shares.
AGE_GROUPS = ("under 35", "35 to 45", "over 45")
GENDERS = ("F", "M")
PEOPLE = ("age_group", "gender", "occupation")


@dataclass(frozen=True, slots=True)
class DatasetCase:
    """A data set, and what writes small files of its layout into a folder.

    ``attributes`` are those its users have; ``file`` is what to load where it is not the folder.
    ``others`` are cases of other data sets, whose files this one must not take for its own.
    """

    dataset: Dataset
    write: Callable[[Path], None] | None = None
    attributes: tuple[str, ...] = PEOPLE
    file: str = ""
    others: tuple[DatasetCase, ...] = ()


def _load(case: DatasetCase) -> Interactions:
    if case.write is None:
        return case.dataset.load()
    with TemporaryDirectory() as folder:
        case.write(Path(folder))
        return case.dataset.load(Path(folder) / case.file)


def check_settings(case: DatasetCase) -> None:
    """No setting is taken outside its declared range."""
    check_ranges(case.dataset)


def check_ratings(case: DatasetCase) -> None:
    """A canonical float32 csr_array without stored zeros; every user has an interaction."""
    data = _load(case)
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


def check_identifiers(case: DatasetCase) -> None:
    """Users and items are ascending and differ; titles are one an item, if there are any."""
    data = _load(case)
    for ids in (data.users, data.items):
        assert ids.dtype == np.int64, ids.dtype
        assert (np.diff(ids) > 0).all(), "identifiers do not ascend"
    assert len(data.titles) in (0, data.n_items), f"{len(data.titles)} titles"
    assert data.name, "it has no name"


def check_timestamps(case: DatasetCase) -> None:
    """Timestamps are whole seconds, one an interaction."""
    data = _load(case)
    if data.timestamps is None:
        raise SkipTest("it has no timestamps")
    assert data.timestamps.dtype == np.int64, data.timestamps.dtype
    assert data.timestamps.shape == data.ratings.data.shape, "not one an interaction"
    assert (data.timestamps >= 0).all(), "a time before 1970"


def check_attributes(case: DatasetCase) -> None:
    """One code a user in every attribute, and the attributes that an audit infers."""
    data = _load(case)
    for name, attribute in data.attributes.items():
        assert attribute.codes.shape == (data.n_users,), name
        assert attribute.codes.dtype == np.int64, name
        assert attribute.codes.min() >= 0, name
        assert attribute.codes.max() < len(attribute.categories), name
        assert len(set(attribute.categories)) == len(attribute.categories), name
    assert sorted(data.attributes) == sorted(case.attributes), f"it has {list(data.attributes)}"
    for name, categories in (("gender", GENDERS), ("age_group", AGE_GROUPS)):
        if name in data.attributes:
            assert data.attributes[name].classes == categories, name


def check_genres(case: DatasetCase) -> None:
    """Flags, a row an item and a column a genre."""
    data = _load(case)
    if data.genres is None:
        raise SkipTest("it has no genres")
    assert data.genres.dtype == np.bool_, data.genres.dtype
    assert data.genres.shape == (data.n_items, len(data.genre_names)), data.genres.shape


def check_determinism(case: DatasetCase) -> None:
    """The same source gives the same interactions."""
    first, again = (_load(case).digest() for _ in range(2))
    assert first == again, "loaded twice, and not alike"


def check_recognition(case: DatasetCase) -> None:
    """It knows its own files, takes no others for them, and refuses what is not there."""
    for other in (case, *case.others):
        if other.write is None:
            continue
        own = type(other.dataset) is type(case.dataset)
        with TemporaryDirectory() as folder:
            other.write(Path(folder))
            try:
                known = case.dataset.recognises(Path(folder) / other.file)
            except InputError:  # a file where a directory or an archive was expected
                known = False
        assert known == own, f"files of {other.dataset} recognised: {known}"
    with TemporaryDirectory() as folder:
        empty = Path(folder)
        assert not case.dataset.recognises(empty), "an empty folder is recognised"
        for place in (empty, empty / "absent"):
            check_refused(partial(case.dataset.load, place), str(place))


class DatasetContract(Contract, suite=__name__):
    """What every data set must keep; a subject is a ``DatasetCase``.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> DatasetContract.check(DatasetCase(Synthetic(n_users=12, n_items=9, profile=4)))
    ()
    """
