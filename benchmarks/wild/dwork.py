"""dwork 0.0.13: queries on data frames with a schema. It draws from the system's generator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
FRAMES = INSTALLED.load("dwork.dataset.pandas")
SCHEMA = INSTALLED.load("dwork.dataschema")
TYPES = INSTALLED.load("dwork.language.types")
HEAVIEST = 200
"""The largest weight by the schema; the least is 0."""


def _table(column: Any, **rows: Sequence[Any]) -> Any:
    """A data set whose columns are all of one type."""
    import pandas as pd

    schema = type("Schema", (SCHEMA.DataSchema,), dict.fromkeys(rows, column))
    return FRAMES.PandasDataset(schema, pd.DataFrame(rows))


def _draw(query: Any, epsilon: float, size: int) -> NDArray[Any]:
    return np.array([query.dp(epsilon) for _ in range(size)])


def total(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """The sum of two weights modulo the largest; the second is 70 or 71."""
    table = _table(TYPES.Integer(0, HEAVIEST), weight=[80, 70 + x])
    return _draw(table["weight"].sum(), 0.5, size) % HEAVIEST


def mean(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """The mean of ten weights of 80; the last may be 81."""
    table = _table(TYPES.Integer(0, HEAVIEST), weight=[80] * 9 + [80 + x])
    return np.round(_draw(table["weight"].sum() / table.len(), 0.5, size), 6)


def added(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """The sums of two columns, added; the only row has 0 or 1 in both."""
    table = _table(TYPES.Float(0, 1), a=[x], b=[x])
    return _draw(table["a"].sum() + table["b"].sum(), 1.0, size)


def groups(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether a group is listed that has no row, or one of twelve."""
    frame = _table(TYPES.Integer(), group=["common"] * 11 + [["common", "rare"][x]])
    return np.array(["rare" in str(frame.group_by(by="group").groups) for _ in range(size)])


def length(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """The number of rows, four or five."""
    return _draw(_table(TYPES.Integer(), a=[0] * (4 + x)).len(), 1.0, size)


def column(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """The sum of a column of numbers between 0 and 1."""
    return _draw(_table(TYPES.Float(0, 1), a=[0.5, x])["a"].sum(), 1.0, size)


def geometric(epsilon: float, largest: int) -> Mapping[int, float]:
    """The distribution of noise up to a size: 0 in half of the successful draws, else a sign."""
    p = math.exp(-epsilon)
    noise = {0: (1.0 - p) / 2.0}
    for j in range(1, largest + 1):
        noise[j] = noise[-j] = (1.0 + p) / 4.0 * (1.0 - p) * p ** (j - 1)
    return noise


def second_routes() -> dict[str, float]:
    """Shift by scale where two columns are added, the listed outputs of the geometric noise."""
    ranges = [1.0, 1.0]  # of the columns that are added
    noise = geometric(1.0, 30)
    return {
        "added": sum(ranges) / max(ranges),
        "length": max(abs(math.log(noise[j] / noise[j - 1])) for j in range(-29, 31)),
    }
