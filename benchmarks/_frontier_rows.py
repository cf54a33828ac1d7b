"""The systems whose utility and leakage are compared, by family, and their stored results."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.record import store

RESULTS = Path(__file__).with_name("frontier.csv")
TRAININGS = 3
PRINTED_NOISE = ("1",)
STUDY: Mapping[str, tuple[str, ...]] = {"ml-100k": ("0.0625", "1", "16"), "ml-1m": PRINTED_NOISE}
"""Noise of the trainings per data set of the page, as multiples of the printed noise."""
MAIN_DATA, *_ = STUDY


@dataclass(frozen=True)
class Family:
    """Systems with the same metric of utility, which share a panel of the drawing.

    learns: whether tuned settings replace the printed ones, with which the systems recommend badly.
    quick: whether audits train for at most twenty rounds.
    large: whether the family is fast enough for further data sets.
    slow: whether trainings are so slow that only the printed noise is used.
    """

    name: str
    title: str
    targets: tuple[str, ...]
    learns: bool = False
    quick: bool = True
    large: bool = False
    slow: bool = False


FAMILIES = (
    Family(
        "dplcf",
        "Neighbours and factors of perturbed histories",
        ("lcf-ub", "lcf-sp", "lcf-ap", "dplcf-sp", "dplcf-ap", "bpr-mf", "gmf"),
        large=True,
    ),
    Family(
        "fmf-ldp", "Factors of implicit feedback", ("fcf", "mf-np", "fmf-ldp", "random"), large=True
    ),
    Family(
        "fedrec",
        "Graph convolution on devices",
        (
            "fedrec",
            "fedrec-apm",
            "fedrec-gn",
            "fixrec-min",
            "fixrec-max",
            "fednews",
            "f-gerai",
            "f-gerai-nl",
        ),
        learns=True,
        quick=False,
        slow=True,
    ),
    Family(
        "fedmf",
        "Factors on devices",
        ("fedmf", "fedmf-ldp", "fedmf-apm", "f-dpmf"),
        learns=True,
        large=True,
    ),
    Family(
        "fedncf",
        "Networks and light graphs on devices",
        ("fedncf", "fedncf-ldp", "fedncf-apm", "fedlightgcn", "fedlightgcn-ldp", "fedlightgcn-apm"),
        learns=True,
        large=True,
    ),
    Family(
        "parties",
        "Ratings that parties hold",
        (
            "fmf-hfl",
            "hfl-local-sgd",
            "hfl-sgdmf",
            "hfl-synsgd",
            "fmf-vfl",
            "vfl-sgdmf",
            "local-only",
            "dp-sgd-mf",
            "dp-sgld",
        ),
        learns=True,
        quick=False,
    ),
    Family(
        "devices",
        "Ratings that devices hold",
        ("fmf-lfl", "lfl-sgdmf", "lfl-ldp", "lfl-pretrained", "gd-dr", "obj-pertb"),
        learns=True,
        quick=False,
    ),
    Family("fedgnn", "Graphs of ratings", ("fedgnn", "fedpergnn"), learns=True, quick=False),
    Family(
        "privrec",
        "Users whom training never saw",
        ("privrec", "privrec-cen", "dp-privrec", "fofl-self", "nn-self", "fcf-meta"),
        slow=True,
    ),
)


@dataclass(frozen=True)
class Setting:
    """Utility and leakage of one system at one noise, as a row of frontier.csv.

    Names in ``_low`` and ``_high`` are the ends of an interval. Missing numbers are NaN, missing
    texts empty.

    noise: factor of the printed noise; 0 without noise, NaN for systems without a noise setting.
    relative: utility divided by the utility of ``twin``, the system without noise; more is better.
    popularity: utility of the baseline: popularity, or user and item means.
    random: utility of a random list, or of the mean rating.
    ahead: utility minus the baseline's, compared per user.
    gain: largest gain over guessing, reached by ``attack``.
    gain_high: largest upper end of all attacks' intervals.
    claimed: epsilon that the authors claim in ``scope``.
    proved, shown: upper and lower bound of epsilon of a whole user over the training, against the
        server.
    rounds: number of rounds if trainings were cut, such as "20 of 40".
    """

    data: str
    family: str
    system: str
    twin: str
    noise: float
    learns: bool
    metric: str
    protocol: str
    utility: float
    utility_low: float
    utility_high: float
    relative: float
    relative_low: float
    relative_high: float
    popularity: float
    random: float
    ahead: float
    ahead_low: float
    ahead_high: float
    attack: str
    gain: float
    gain_low: float
    gain_high: float
    claimed: float
    scope: str
    proved: float
    proved_basis: str
    shown: float
    shown_basis: str
    trainings: int
    rounds: str

    @property
    def is_read(self) -> bool:
        """Whether ``attack`` uses messages that the server sees."""
        # An attack that reads nothing has gain 0 and a symmetric interval.
        coin = self.gain == 0.0 and self.gain_low == -self.gain_high
        return not coin and self.attack.rpartition(", ")[2] == str(Vantage.SERVER)

    @property
    def noise_growth(self) -> float:
        """Noise of the tuned settings (``learns``) divided by printed noise; 1 without these."""
        if not self.learns:
            return 1.0
        plans = Plan(settings={self.system: {"learns": True}}), Plan()
        taken, printed = (getattr(make_target(self.system, plan), "noise", None) for plan in plans)
        return taken / printed if isinstance(taken, float) and printed else 1.0


def write_rows(rows: Sequence[Setting], path: Path = RESULTS) -> None:
    """Writes the rows as CSV, and keeps stored rows of other families and data sets."""
    fresh = {(row.data, row.family) for row in rows}
    known = read_rows(path) if path.exists() else ()
    kept = [row for row in known if (row.data, row.family) not in fresh]
    data, families = [*STUDY], [family.name for family in FAMILIES]
    every = sorted(
        [*kept, *rows], key=lambda row: (data.index(row.data), families.index(row.family))
    )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(field.name for field in fields(Setting))
    table.writerows([_format_cell(value) for value in astuple(row)] for row in every)
    store.write_files({path: text.getvalue().encode()})


def _format_cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.5g}"
    return value


def read_rows(path: Path = RESULTS) -> tuple[Setting, ...]:
    """Reads the rows of frontier.csv."""
    kinds = {field.name: field.type for field in fields(Setting)}
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Setting(**{name: _PARSERS[kinds[name]](cell) for name, cell in row.items()})
            for row in csv.DictReader(file)
        )


_PARSERS: dict[object, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "bool": lambda cell: cell == "True",
    "float": lambda cell: float(cell or "nan"),
}
