"""diffprivlib's local mechanisms, each with the epsilon and delta that it is constructed for.

They draw from a seeded replacement of the system's generator; ``Staircase`` needs numpy's.
"""

from __future__ import annotations

import importlib
import math
import random
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.others.case import Call, Case
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

DOUBLES = (
    "theirs: value + noise is a sum of doubles, and its last bits depend on the value; that the "
    "noise is made of several draws does not change this"
)
HALF_EXPONENT = "its exponent is halved for normalisers that differ; here they differ less"
FOLDING = "folding mixes outputs of low and high ratio: less is spent than may be"


def load() -> ModuleType:
    """Imports diffprivlib's mechanisms without its models.

    The models (0.6.6) cannot be imported with scikit-learn 1.9.
    """
    if "diffprivlib" not in sys.modules:
        sys.modules["diffprivlib.models"] = ModuleType("diffprivlib.models")
    return importlib.import_module("diffprivlib.mechanisms")


def list_cases() -> tuple[Case, ...]:
    """All mechanisms with their own claim, except Bingham, which takes matrices."""
    dp = load()

    def make_sampler(make: Callable[[Any], Any], numpys: bool = False) -> Call:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            mechanism = make(x)
            seed = int(rng.integers(2**32))
            mechanism._rng = np.random.RandomState(seed) if numpys else _SeededRandom(seed)
            return np.array([mechanism.randomise(x) for _ in range(size)])

        return call

    def build(
        name: str,
        epsilon: float,
        *,
        inputs: tuple[Any, ...] = (0.0, 1.0),
        delta: float = 0.0,
        samples: int = 40_000,
        setting: str = "",
        remark: str = "",
        numpys: bool = False,
        **arguments: Any,
    ) -> Case:
        if delta:
            arguments["delta"] = delta
        if name != "Uniform":
            arguments["epsilon"] = epsilon
        mechanism = getattr(dp, name)(**arguments)
        return Case(
            library="diffprivlib",
            name=name,
            call=make_sampler(lambda _: mechanism.copy(), numpys),
            epsilon=epsilon,
            delta=delta,
            inputs=inputs,
            samples=samples,
            setting=setting,
            remark=remark,
        )

    def make_exponential(name: str, epsilon: float) -> Case:
        """The exponential mechanism ``name`` used locally; utility falls with the distance to x."""

        def make(x: int) -> Any:
            utility = [4.0 - abs(x - y) for y in range(5)]
            return _Chooser(getattr(dp, name)(epsilon=epsilon, sensitivity=4.0, utility=utility))

        return Case(
            library="diffprivlib",
            name=name,
            call=make_sampler(make),
            epsilon=epsilon,
            inputs=(0, 2, 4),
            setting="5 candidates, utility 4 - abs(x - y), sensitivity 4",
            remark=HALF_EXPONENT,
        )

    def make_vector(epsilon: float) -> Case:
        """The mechanism Vector used locally: the output minimises one record's noisy loss."""
        vector = dp.Vector(epsilon=epsilon, function_sensitivity=0.25, dimension=1, alpha=1.0)

        def call(label: float, rng: np.random.Generator, size: int) -> NDArray[Any]:
            mechanism = vector.copy()
            mechanism._rng = _SeededRandom(int(rng.integers(2**32)))
            noise, beyond = np.empty(size), 0.0
            for k in range(size):
                released = mechanism.randomise(lambda w: (0.0, np.zeros(1)))
                noise[k] = released(np.zeros(1))[1][0]
                beyond = released(np.ones(1))[1][0] - noise[k]
            high = (np.abs(noise) + 1.0) / (1.0 + beyond)
            low = -high
            for _ in range(60):
                w = (low + high) / 2.0
                rising = (1.0 + beyond) * w + noise - label * special.expit(-label * w) > 0.0
                low, high = np.where(rising, low, w), np.where(rising, w, high)
            return np.round(low * 2.0**20) / 2.0**20

        return Case(
            library="diffprivlib",
            name="Vector",
            call=call,
            epsilon=epsilon,
            inputs=(-1.0, 1.0),
            samples=20_000,
            setting="1 record, logistic loss, alpha=1, minimiser to 2^-20",
            remark="spends (epsilon - 2 ln 1.25) / 2: gradients of this loss are 1 apart, not 2",
        )

    distances = [["a", "b", 1.0], ["a", "c", 2.0], ["b", "c", 1.0]]
    tree = [["a", "b"], ["c", "d"]]
    bounded: dict[str, Any] = {"sensitivity": 1.0, "lower": 0.0, "upper": 1.0}
    inner: tuple[float, ...] = (0.0, 0.5, 1.0)
    rows: list[Case] = []
    for epsilon in (1.0, 4.0):
        rows += [
            build("Binary", epsilon, value0="0", value1="1", inputs=("0", "1"), samples=100_000),
            build("Geometric", epsilon, inputs=(0, 1)),
            build("GeometricTruncated", epsilon, lower=0, upper=4, sensitivity=4, inputs=(0, 2, 4)),
            build("Laplace", epsilon, remark=DOUBLES, sensitivity=1.0),
            build("LaplaceTruncated", epsilon, remark=DOUBLES, inputs=inner, **bounded),
            build("LaplaceFolded", epsilon, remark=DOUBLES, inputs=inner, **bounded),
            build("LaplaceBoundedDomain", epsilon, remark=DOUBLES, inputs=inner, **bounded),
            build("Staircase", epsilon, remark=DOUBLES, sensitivity=1.0, numpys=True),
            build("Snapping", epsilon, inputs=inner, **bounded),
            build(
                "ExponentialCategorical",
                epsilon,
                remark=HALF_EXPONENT,
                utility_list=distances,
                inputs=("a", "b", "c"),
            ),
            build("ExponentialHierarchical", epsilon, hierarchy=tree, inputs=("a", "b", "c")),
            make_exponential("Exponential", epsilon),
            make_exponential("PermuteAndFlip", epsilon),
        ]
    for epsilon in (0.5, 1.0):
        rows += [
            build("Laplace", epsilon, remark=DOUBLES, delta=0.1, sensitivity=1.0),
            build("Gaussian", epsilon, remark=DOUBLES, delta=1e-3, sensitivity=1.0),
        ]
    for epsilon in (1.0, 4.0):
        rows += [
            build(
                "GeometricFolded",
                epsilon,
                remark=FOLDING,
                lower=0,
                upper=4,
                sensitivity=4,
                inputs=(0, 4),
            ),
            build("LaplaceBoundedNoise", epsilon, remark=DOUBLES, delta=1e-2, sensitivity=1.0),
            build("GaussianAnalytic", epsilon, remark=DOUBLES, delta=1e-3, sensitivity=1.0),
            make_vector(epsilon),
            build("GaussianDiscrete", epsilon, delta=1e-3, inputs=(0, 1)),
        ]
    rows += [
        build("Uniform", 0.0, delta=0.1, sensitivity=1.0),
        build(
            "ExponentialCategorical",
            2.0 * math.log(10.0),
            utility_list=make_half_balanced(),
            inputs=("x", "y"),
            samples=400_000,
            setting="6 categories, balanced at epsilon / 2 only",
            remark="theirs: spends epsilon + ln(2.65 / 2.01) = 4.88, as the exponent is not halved "
            "where normalisers agree at epsilon / 2, and at epsilon these do not",
        ),
    ]
    for epsilon, delta in ((1.0, 1e-3), (20.0, 1e-9)):
        analytic = dp.GaussianAnalytic(epsilon=epsilon, delta=delta, sensitivity=1.0)
        rows.append(
            Case(
                library="diffprivlib",
                name="GaussianAnalytic",
                call=Gaussian(sigma=math.sqrt(analytic.variance(0.0)), low=0.0, high=1.0),
                epsilon=epsilon,
                delta=delta,
                inputs=None,
                setting="its calibrated noise, exactly",
                remark="theirs at 20: tails as (1 + erf) / 2 cancel, so the noise is too small",
            )
        )
    return tuple(rows)


def make_half_balanced() -> list[list[Any]]:
    """Distances of 6 categories with equal normalisers at half of epsilon, but not at epsilon."""
    # Epsilon is 2 ln 10 and the largest distance 1, so weights at epsilon / 2 are 10^-distance.
    # Without the diagonal, each row of weights adds up to 2.1, but rows of their squares have
    # different sums.
    weights = {"xy": 0.1, "ax": 0.5, "bx": 0.5, "cx": 0.5, "dx": 0.5, "ay": 0.9, "by": 0.9}
    weights |= {"cy": 0.1, "dy": 0.1, "ab": 0.1, "cd": 0.9, "ac": 0.3, "ad": 0.3}
    weights |= {"bc": 0.3, "bd": 0.3}
    return [[one, other, -math.log10(weight)] for (one, other), weight in weights.items()]


class _SeededRandom(secrets.SystemRandom):
    """A generator with the interface of ``secrets.SystemRandom``, but with a seed."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        super().__init__()

    def random(self) -> float:
        return self._source.random()

    def getrandbits(self, k: int) -> int:
        return self._source.getrandbits(k)


@dataclass
class _Chooser:
    """An exponential mechanism that is built for one input, with the interface of the others."""

    mechanism: Any

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.mechanism, name, value) if name == "_rng" else super().__setattr__(name, value)

    def randomise(self, _: Any) -> Any:
        return self.mechanism.randomise()
