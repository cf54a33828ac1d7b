"""Mechanisms of diffpriv 1.0.3: randomized response on a list, Laplace noise on a file."""

from __future__ import annotations

import io
import math
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
vars(PACKAGE.load("DiffPriv", "DiffPriv")).update(numpy=np, random=random, math=math)
DIFF = PACKAGE.load("DiffPriv.diff")
EPSILON = 1.0
ROWS = 10


@draw_one_by_one()
def response(x: int) -> int:
    """The randomized last answer of three: 0, 1 and x."""
    answers = [0, 1, x]
    DIFF.randresponse(answers)
    return answers[2]


@draw_in_batch()
def record(x: int, size: int) -> NDArray[np.float64]:
    """The noisy first of ten records, x, with the sensitivity of the records' mean."""
    return _add_noise(x, size, None)


@draw_in_batch()
def record_of_a_range(x: int, size: int) -> NDArray[np.float64]:
    """The noisy first of ten records, x, with a given sensitivity of 1."""
    return _add_noise(x, size, [1.0] * size)


def _add_noise(x: int, size: int, sensitivity: list[float] | None) -> NDArray[np.float64]:
    """Noisy first records of ``size`` columns in a file, in which all other records are 0."""
    rows = [x] + [0] * (ROWS - 1)
    data = io.StringIO("\n".join(",".join([f"{value}"] * size) for value in rows))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "noisy.csv"
        DIFF.lapmech(data, str(path), EPSILON, np.mean, delta_f=sensitivity).close()
        first = path.read_text(encoding="utf-8").partition("\n")[0]
    return np.array([float(value) for value in first.split(",")[:size]])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the change 1 divided by the scale 2 * sensitivity / epsilon."""
    return {"record": ROWS * EPSILON / 2.0, "record_of_a_range": EPSILON / 2.0}
