"""Mechanisms of plato-learn 1.0: noise on features that clients send."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, exact
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
UNARY = PACKAGE.load("plato.utils.unary_encoding", "plato", "plato.utils", "plato.processors")


class _Feature:
    """A stand-in for the package's base class of processors, which keeps the method."""

    def __init__(self, method: Callable[..., Any], **settings: Any) -> None:
        self.method = method


sys.modules["plato.processors.feature"] = ModuleType("plato.processors.feature")
vars(sys.modules["plato.processors.feature"])["Processor"] = _Feature
NOISE = PACKAGE.load("plato.processors.feature_gaussian")
EPSILON, LARGE_EPSILON, DELTA, WIDTH = 1.0, 8.0, 1e-5, 4


def gaussian() -> float:
    """The standard deviation of the noise at epsilon 8, sensitivity 1."""
    np.random.seed(0)  # noqa: NPY002
    processor = NOISE.Processor(epsilon=LARGE_EPSILON, delta=DELTA, sensitivity=1.0)
    return float(np.std(processor.method(np.zeros(1_000_000), None)[0]))


def _randomize(bits: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    return np.asarray(UNARY.randomize(np.tile(bits, (size, 1)), EPSILON))


@draw_in_batch()
def signs(x: float, size: int) -> NDArray[np.int64]:
    """Noisy messages of ``WIDTH`` features that are all 1 (x = 1) or all -1."""
    return _randomize(UNARY.encode(np.full(WIDTH, 2.0 * x - 1.0)), size)


@draw_in_batch()
def one_hot(x: int, size: int) -> NDArray[np.int64]:
    """Noisy messages of a one-hot vector, the intended input of the encoding."""
    return _randomize(np.eye(WIDTH)[int(x)], size)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed bits and from the noise."""
    p = math.exp(EPSILON / 2.0) / (math.exp(EPSILON / 2.0) + 1.0)
    laws = {bit: exact.join([exact.make_bit(p if bit else 1.0 - p)] * WIDTH) for bit in (0, 1)}
    places = (exact.make_unary(x, WIDTH, p, 1.0 - p) for x in (0, 1))
    return {
        "gaussian": find_gaussian_epsilon(DELTA, LARGE_EPSILON**2 / (2.0 * math.log(1.25 / DELTA))),
        "signs": exact.find_epsilon(laws.values()),
        "one_hot": exact.find_epsilon(places),
    }
