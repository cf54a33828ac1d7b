"""A case for every data set, for the contract that outsiders run too.

``tests/specimens/`` holds data sets that must fail it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fedrec_auditor.auditor.testing.datasets import DatasetCase
from fedrec_auditor.targets.datasets.base import Dataset
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_100k import Ml100k
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.datasets.table import Table
from tests.targets.datasets import written


def _files(files: Mapping[str, list[str]]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, found in files.items():
            written.lines(folder / name, found)

    return write


def _movielens(dataset: Dataset, write: Callable[[Path, written.Rows], Path]) -> DatasetCase:
    """Rows with an unrated movie and an idle user."""

    def files(folder: Path) -> None:
        write(folder, written.SMALL)

    return DatasetCase(dataset, files)


CASES: dict[str, tuple[DatasetCase, ...]] = {
    "ml-100k": (
        _movielens(Ml100k(), written.official_100k),
        _movielens(Ml100k(), written.recbole_100k),
    ),
    "ml-1m": (_movielens(Ml1m(), written.official_1m),),
    "table": (
        DatasetCase(
            Table(),
            _files({"t.csv": ["user,item,rating,timestamp", "9,b,5,30", "2,a,3,20", "2,b,1,10"]}),
            attributes=(),
            file="t.csv",
        ),
        DatasetCase(
            Table(columns={"user": "who", "item": "what"}),
            _files({"t.tsv": ["what\tat\twho", "b\tx\tU1", "a\ty\tU2", "a\tz\tU1"]}),
            attributes=(),
            file="t.tsv",
        ),
    ),
    "synthetic": (
        DatasetCase(Synthetic(n_users=12, n_items=9, profile=4)),
        DatasetCase(Synthetic(n_users=1, n_items=2, profile=1)),
    ),
}
