"""Mechanisms of smartnoise-synth 1.0.8: statistics that its synthesizers learn first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import one_by_one
from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
OTHERS = "snsql", "snsql.sql", "faker", "sqlalchemy"
STANDARD = INSTALLED.load("snsynth.transform.standard", "snsynth", "snsynth.transform", *OTHERS)
COVARIANCE = INSTALLED.load("snsynth.models.dp_covariance", "snsynth.models")
LABELS = INSTALLED.load("snsynth.transform.label")
TABLES = INSTALLED.load("snsynth.transform.table")
MWEM = INSTALLED.load("snsynth.mwem")
RECORDS, LARGEST = 100, 1000.0


def mean(x: float, rng: np.random.Generator) -> bool:
    """Whether the noisy mean of nine zeros and x is above .05; OpenDP has its own generator."""
    scaler = STANDARD.StandardScaler(lower=0.0, upper=1.0, epsilon=1.0)
    scaler.fit([0.0] * 9 + [float(x)])
    return bool(scaler.mean > 0.05)


def _released(columns: int, x: float) -> list[float]:
    """Noisy covariances of columns in [0, 1], except the second, which is in [0, 1000]."""
    # All records are 0 but one, which has ``x`` of the largest value.
    import pandas as pd

    largest = np.ones(columns)
    largest[1] = LARGEST
    bounds = pd.DataFrame([np.zeros(columns), largest])
    names = list("abc"[:columns])
    data = pd.DataFrame(np.zeros((RECORDS, columns)), columns=names)
    data.loc[0] = x * largest * (1.0 if columns == 2 else np.arange(columns) == 1)
    released: Any = COVARIANCE.DPcovariance(RECORDS, names, bounds, 1.0).release(data)
    return list(released)


@one_by_one()
def variance(x: float) -> float:
    """The noisy variance of the second of three columns; x is the share of its range."""
    return float(_released(3, x)[2])


@one_by_one()
def covariance(x: float) -> NDArray[np.float64]:
    """The three noisy covariances of two columns, in units of their range."""
    return np.asarray(_released(2, x)) * np.array([1.0, 1.0 / LARGEST, 1.0 / LARGEST**2])


@one_by_one()
def synthetic(x: int) -> bool:
    """Whether "c" is among 40 synthetic records; one record has it if x = 1, else none."""
    table = TABLES.TableTransformer([LABELS.LabelTransformer()])
    table.fit([("a",), ("b",), ("c",)])
    made = MWEM.MWEMSynthesizer(epsilon=1.0, iterations=2, q_count=2)
    made.fit([("a",)] * 6 + [("b",)] * 5 + [("bc"[int(x)],)], transformer=table)
    return "c" in {row[0] for row in made.sample(40)}


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism: the change of the variance divided by the noise scale."""
    return {"variance": (LARGEST**2 / RECORDS) / (6.0 * 2.0 / RECORDS)}
