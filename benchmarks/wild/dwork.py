"""Mechanisms of dwork 0.0.13: queries on data frames with a schema.

The package draws from the system's generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
FRAMES = PACKAGE.load("dwork.dataset.pandas")
SCHEMA = PACKAGE.load("dwork.dataschema")
TYPES = PACKAGE.load("dwork.language.types")
MAX_WEIGHT = 200
"""Maximum weight in the schema; the minimum is 0."""


def _make_table(column: Any, **rows: Sequence[Any]) -> Any:
    """A data set with the columns ``rows``, all of the type ``column``."""
    import pandas as pd

    schema = type("Schema", (SCHEMA.DataSchema,), dict.fromkeys(rows, column))
    return FRAMES.PandasDataset(schema, pd.DataFrame(rows))


def _draw(query: Any, epsilon: float, size: int) -> NDArray[Any]:
    return np.array([query.dp(epsilon) for _ in range(size)])


def total(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Noisy sums of two weights, 80 and 70 + x, modulo the largest weight."""
    table = _make_table(TYPES.Integer(0, MAX_WEIGHT), weight=[80, 70 + x])
    return _draw(table["weight"].sum(), 0.5, size) % MAX_WEIGHT


def mean(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy means of ten weights of 80, of which the last is 80 + x."""
    table = _make_table(TYPES.Integer(0, MAX_WEIGHT), weight=[80] * 9 + [80 + x])
    return np.round(_draw(table["weight"].sum() / table.len(), 0.5, size), 6)


def added(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Sums of the noisy sums of two columns; their only row is (x, x)."""
    table = _make_table(TYPES.Float(0, 1), a=[x], b=[x])
    return _draw(table["a"].sum() + table["b"].sum(), 1.0, size)


def groups(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether "rare" is in the list of groups; one of twelve rows is in it if x = 1."""
    frame = _make_table(TYPES.Integer(), group=["common"] * 11 + [["common", "rare"][x]])
    return np.array(["rare" in str(frame.group_by(by="group").groups) for _ in range(size)])


def length(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Noisy numbers of rows, of 4 + x rows."""
    return _draw(_make_table(TYPES.Integer(), a=[0] * (4 + x)).len(), 1.0, size)


def column(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy sums of a column with the values 0.5 and x in [0, 1]."""
    return _draw(_make_table(TYPES.Float(0, 1), a=[0.5, x])["a"].sum(), 1.0, size)


def make_geometric(epsilon: float, largest: int) -> Mapping[int, float]:
    """The distribution of the package's geometric noise, from -``largest`` to ``largest``."""
    p = math.exp(-epsilon)
    noise = {0: (1.0 - p) / 2.0}
    for j in range(1, largest + 1):
        noise[j] = noise[-j] = (1.0 + p) / 4.0 * (1.0 - p) * p ** (j - 1)
    return noise


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from sensitivities and from listed outputs."""
    ranges = [1.0, 1.0]  # of the columns that are added
    noise = make_geometric(1.0, 30)
    return {
        "added": sum(ranges) / max(ranges),
        "length": max(abs(math.log(noise[j] / noise[j - 1])) for j in range(-29, 31)),
    }
