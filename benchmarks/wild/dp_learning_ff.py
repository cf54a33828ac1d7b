"""Mechanisms of dp-learning-ff 0.0.8: noisy means (prototypes) of classes."""

from __future__ import annotations

import contextlib
import io
import math
from functools import cache
from typing import Any

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PROTOTYPES = PACKAGE.load("dp_learning_ff.prototypes")
RECORDS, RATE, DELTA, SEED = 1000, 0.1, 1e-5, 42


@cache
def _make_coinpress() -> Any:
    made = PROTOTYPES.CoinpressPrototyping(epsilon=1.0, delta=DELTA, Ps=[1.0], p_sampling=RATE)
    with contextlib.redirect_stdout(io.StringIO()):
        made.try_calibrate()
    return made


def _count_samples() -> Any:
    """The number of times that each record is in the sample of the default seed."""
    return np.random.default_rng(SEED).poisson(RATE, RECORDS)


@draw_one_by_one()
def sample(x: int) -> float:
    """The noisy prototype of records at 0; the most sampled record is at -1000 or (x = 1) 1000."""
    data = np.zeros((RECORDS, 1))
    data[np.argmax(_count_samples())] = 1000.0 * (2 * x - 1)
    return float(_make_coinpress().prototypes(data, np.zeros(RECORDS))[0, 0])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the zCDP of a record and the times it is sampled."""
    return {
        "sample": find_gaussian_epsilon(
            DELTA, math.sqrt(2.0 * 0.31548309326171875) * int(_count_samples().max())
        )
    }
