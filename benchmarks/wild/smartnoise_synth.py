"""Mechanisms of smartnoise-synth 1.0.8: statistics that its synthesizers learn first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
BLANK = "snsql", "snsql.sql", "faker", "sqlalchemy"
STANDARD = PACKAGE.load("snsynth.transform.standard", "snsynth", "snsynth.transform", *BLANK)
COVARIANCE = PACKAGE.load("snsynth.models.dp_covariance", "snsynth.models")
LABELS = PACKAGE.load("snsynth.transform.label")
TABLES = PACKAGE.load("snsynth.transform.table")
MWEM = PACKAGE.load("snsynth.mwem")
RECORDS, MAX_VALUE = 100, 1000.0


def mean(x: float, rng: np.random.Generator) -> bool:
    """Whether the noisy mean of nine zeros and x is above .05; OpenDP has its own generator."""
    scaler = STANDARD.StandardScaler(lower=0.0, upper=1.0, epsilon=1.0)
    scaler.fit([0.0] * 9 + [float(x)])
    return bool(scaler.mean > 0.05)


def _release(columns: int, x: float) -> list[float]:
    """Noisy covariances of columns in [0, 1], except the second, which is in [0, 1000]."""
    # All records are 0 but one, which has ``x`` of the largest value.
    import pandas as pd

    largest = np.ones(columns)
    largest[1] = MAX_VALUE
    bounds = pd.DataFrame([np.zeros(columns), largest])
    names = list("abc"[:columns])
    data = pd.DataFrame(np.zeros((RECORDS, columns)), columns=names)
    data.loc[0] = x * largest * (1.0 if columns == 2 else np.arange(columns) == 1)
    released: Any = COVARIANCE.DPcovariance(RECORDS, names, bounds, 1.0).release(data)
    return list(released)


@draw_one_by_one()
def variance(x: float) -> float:
    """The noisy variance of the second of three columns; x is the share of its range."""
    return float(_release(3, x)[2])


@draw_one_by_one()
def covariance(x: float) -> NDArray[np.float64]:
    """The three noisy covariances of two columns, in units of their range."""
    return np.asarray(_release(2, x)) * np.array([1.0, 1.0 / MAX_VALUE, 1.0 / MAX_VALUE**2])


@draw_one_by_one()
def synthetic(x: int) -> bool:
    """Whether "c" is among 40 synthetic records; one record has it if x = 1, else none."""
    table = TABLES.TableTransformer([LABELS.LabelTransformer()])
    table.fit([("a",), ("b",), ("c",)])
    made = MWEM.MWEMSynthesizer(epsilon=1.0, iterations=2, q_count=2)
    made.fit([("a",)] * 6 + [("b",)] * 5 + [("bc"[int(x)],)], transformer=table)
    return "c" in {row[0] for row in made.sample(40)}


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the change of the variance divided by the noise scale."""
    return {"variance": (MAX_VALUE**2 / RECORDS) / (6.0 * 2.0 / RECORDS)}
