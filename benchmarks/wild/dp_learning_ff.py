"""Mechanisms of dp-learning-ff 0.0.8: noisy means (prototypes) of classes."""

from __future__ import annotations

import contextlib
import io
import math
from functools import cache
from typing import Any

import numpy as np

from benchmarks.wild import one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

INSTALLED = Package.of(__name__)
PROTOTYPES = INSTALLED.load("dp_learning_ff.prototypes")
RECORDS, RATE, DELTA, SEED = 1000, 0.1, 1e-5, 42


@cache
def _coinpress() -> Any:
    made = PROTOTYPES.CoinpressPrototyping(epsilon=1.0, delta=DELTA, Ps=[1.0], p_sampling=RATE)
    with contextlib.redirect_stdout(io.StringIO()):
        made.try_calibrate()
    return made


def _times() -> Any:
    """How often each record is in the sample that the default seed draws."""
    return np.random.default_rng(SEED).poisson(RATE, RECORDS)


@one_by_one()
def sample(x: int) -> float:
    """The noisy prototype of records that are 0, except the most sampled: -1000 or (x = 1) 1000."""
    data = np.zeros((RECORDS, 1))
    data[np.argmax(_times())] = 1000.0 * (2 * x - 1)
    return float(_coinpress().prototypes(data, np.zeros(RECORDS))[0, 0])


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from the zCDP of a record and the times it is sampled."""
    return {
        "sample": find_gaussian_epsilon(
            DELTA, math.sqrt(2.0 * 0.31548309326171875) * int(_times().max())
        )
    }
