"""A case for every data set, for the contract that outsiders run too.

``tests/specimens/`` holds data sets that must fail it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedrec_auditor.auditor.testing.datasets import DatasetCase
from fedrec_auditor.targets.datasets.base import Dataset
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_10m import Ml10m
from fedrec_auditor.targets.datasets.ml_20m import Ml20m
from fedrec_auditor.targets.datasets.ml_25m import Ml25m
from fedrec_auditor.targets.datasets.ml_100k import Ml100k
from fedrec_auditor.targets.datasets.published_datasets import AppUsage, Frappe, Libimseti
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.datasets.table import Table
from tests.targets.datasets import written


def _files(files: Mapping[str, list[str]]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, found in files.items():
            written.lines(folder / name, found)

    return write


def _movielens(
    dataset: Dataset, write: Callable[[Path, written.Rows], Path], said: str = "", **rest: Any
) -> DatasetCase:
    """Rows with an unrated movie and an idle user, beside a README that says which they are."""

    def files(folder: Path) -> None:
        write(folder, written.SMALL)
        if said:
            (folder / "README.txt").write_text(f"This ({said}) has")

    return DatasetCase(dataset, files, **rest)


_FRAPPE = "user item cnt daytime weekday isweekend homework cost weather country city"
CASES: dict[str, tuple[DatasetCase, ...]] = {
    "ml-100k": (
        _movielens(Ml100k(), written.official_100k),
        _movielens(Ml100k(), written.recbole_100k),
    ),
    "ml-1m": (_movielens(Ml1m(), written.official_1m),),
    "ml-10m": (_movielens(Ml10m(), written.official_10m, attributes=()),),
    "ml-20m": (
        _movielens(Ml20m(), written.official_20m, attributes=()),
        _movielens(Ml20m(), written.official_20m, "ml-20m", attributes=()),
    ),
    "ml-25m": (_movielens(Ml25m(), written.official_20m, "ml-25m", attributes=()),),
    "libimseti": (
        DatasetCase(
            Libimseti(),
            _files(
                {"ratings.dat": ["9,4,10", "2,4,1", "2,9,3"], "gender.dat": ["4,F", "9,M", "2,U"]}
            ),
            attributes=("gender",),
        ),
    ),
    "frappe": (
        DatasetCase(
            Frappe(),
            _files(
                {
                    "frappe.csv": [
                        _FRAPPE.replace(" ", "\t"),
                        "9\t4\t5\tnight\tsunday\tweekend\thome\tfree\tsunny\tSpain\t0",
                        "2\t4\t1\tnight\tsunday\tweekend\thome\tpaid\tsunny\tJapan\t7",
                        "9\t4\t2\tnight\tmonday\tworkday\twork\tfree\tsunny\tSpain\t3",
                    ]
                }
            ),
            attributes=(
                "daytime",
                "weekday",
                "isweekend",
                "homework",
                "weather",
                "country",
                "city",
            ),
        ),
    ),
    "app-usage": (
        DatasetCase(
            AppUsage(),
            _files(
                {
                    "App_usage_trace.txt": [
                        "9 20160420071501 4F1 12 3500",
                        "2 20160421000000 99 3 10",
                        "9 20160420071500 4F1 12 1",
                    ],
                    "App2Category.txt": ["12\t4", "3\t1"],
                }
            ),
            attributes=(),
        ),
    ),
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
