"""A case for every data set, for the contract that outsiders run too.

``tests/specimens/`` holds data sets that must fail it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedrec_auditor.auditor.testing.datasets import DatasetCase
from fedrec_auditor.targets.datasets.app_usage import AppUsage
from fedrec_auditor.targets.datasets.frappe import Frappe
from fedrec_auditor.targets.datasets.libimseti import Libimseti
from fedrec_auditor.targets.datasets.ml_1m import Ml1m
from fedrec_auditor.targets.datasets.ml_10m import Ml10m
from fedrec_auditor.targets.datasets.ml_20m import Ml20m
from fedrec_auditor.targets.datasets.ml_25m import Ml25m
from fedrec_auditor.targets.datasets.ml_100k import HEADERS, Ml100k
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.datasets.table import Table


def _files(**files: list[str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, lines in files.items():
            text = "".join(f"{line}\n" for line in lines)
            plain = name.replace("___", "/").replace("__", "-").replace("_", ".")
            (folder / plain.replace("/", "_")).write_text(text, "latin-1")

    return write


_RATED = ["userId,movieId,rating,timestamp", "9,4,5.0,30", "2,4,0.5,20", "2,1,3.5,10"]
_MOVIES = ["movieId,title,genres", '1,"Film, The (1990)",Drama|IMAX', "4,B,(no genres listed)"]
_FRAPPE = "user item cnt daytime weekday isweekend homework cost weather country city"
_FLAGS = "|".join("0" * 18 + "1")
# Rows out of order, an unrated movie and an idle user, ages on the borders.
CASES: dict[str, tuple[DatasetCase, ...]] = {
    "ml-100k": (
        DatasetCase(
            Ml100k(),
            _files(
                u_data=["9\t4\t5\t30", "2\t4\t3\t20", "2\t1\t1\t10"],
                u_user=["9|45|M|writer|Z", "2|34|F|none|Z", "3|46|M|other|Z"],
                u_item=[f"{i}|Film {i}|||u|{_FLAGS}" for i in (1, 4, 7)],
            ),
        ),
        DatasetCase(
            Ml100k(),
            _files(
                ml__100k_inter=[HEADERS["ml-100k.inter"], "9\t4\t5\t30", "2\t4\t3\t20"],
                ml__100k_user=[HEADERS["ml-100k.user"], "9\t45\tM\twriter\tZ", "2\t34\tF\tnone\tZ"],
                ml__100k_item=[HEADERS["ml-100k.item"], "4\tFilm\t1990\tDrama War"],
            ),
        ),
    ),
    "ml-1m": (
        DatasetCase(
            Ml1m(),
            _files(
                ratings_dat=["9::4::5::30", "2::4::3::20", "2::1::1::10"],
                users_dat=["9::M::35::20::Z", "2::F::25::0::Z", "3::M::45::1::Z"],
                movies_dat=[f"{i}::Film (1990)::Drama|War" for i in (1, 4, 7)],
            ),
        ),
    ),
    "ml-10m": (
        DatasetCase(
            Ml10m(),
            _files(
                ratings_dat=["9::4::5::30", "2::4::0.5::20", "2::1::3.5::10"],
                movies_dat=[f"{i}::Film (1990)::Drama|IMAX" for i in (1, 4, 7)],
            ),
            attributes=(),
        ),
    ),
    "ml-20m": (
        DatasetCase(Ml20m(), _files(ratings_csv=_RATED, movies_csv=_MOVIES), attributes=()),
        DatasetCase(
            Ml20m(),
            _files(ratings_csv=_RATED, movies_csv=_MOVIES, README_txt=["This (ml-20m) has"]),
            attributes=(),
        ),
    ),
    "ml-25m": (
        DatasetCase(
            Ml25m(),
            _files(ratings_csv=_RATED, movies_csv=_MOVIES, README_txt=["This (ml-25m) has"]),
            attributes=(),
        ),
    ),
    "libimseti": (
        DatasetCase(
            Libimseti(),
            _files(ratings_dat=["9,4,10", "2,4,1", "2,9,3"], gender_dat=["4,F", "9,M", "2,U"]),
            attributes=("gender",),
        ),
    ),
    "frappe": (
        DatasetCase(
            Frappe(),
            _files(
                frappe_csv=[
                    _FRAPPE.replace(" ", "\t"),
                    "9\t4\t5\tnight\tsunday\tweekend\thome\tfree\tsunny\tSpain\t0",
                    "2\t4\t1\tnight\tsunday\tweekend\thome\tpaid\tsunny\tJapan\t7",
                    "9\t4\t2\tnight\tmonday\tworkday\twork\tfree\tsunny\tSpain\t3",
                ]
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
                App___usage___trace_txt=[
                    "9 20160420071501 4F1 12 3500",
                    "2 20160421000000 99 3 10",
                    "9 20160420071500 4F1 12 1",
                ],
                App2Category_txt=["12\t4", "3\t1"],
            ),
            attributes=(),
        ),
    ),
    "table": (
        DatasetCase(
            Table(),
            _files(t_csv=["user,item,rating,timestamp", "9,b,5,30", "2,a,3,20", "2,b,1,10"]),
            attributes=(),
            file="t.csv",
        ),
        DatasetCase(
            Table(columns={"user": "who", "item": "what"}),
            _files(t_tsv=["what\tat\twho", "b\tx\tU1", "a\ty\tU2", "a\tz\tU1"]),
            attributes=(),
            file="t.tsv",
        ),
    ),
    "synthetic": (
        DatasetCase(Synthetic(n_users=12, n_items=9, profile=4)),
        DatasetCase(Synthetic(n_users=1, n_items=2, profile=1)),
    ),
}
