"""Mechanisms of pure-ldp 1.2.0: frequency oracles."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact, one_by_one
from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
ORACLES = INSTALLED.load("pure_ldp.frequency_oracles", "statsmodels", "statsmodels.api")
CORE = INSTALLED.load("pure_ldp.core")
SKETCH = INSTALLED.load("pure_ldp.frequency_oracles.priv_count_sketch")
F, M = 0.5, 8
LARGE = 12.0
"""An epsilon that ``convert_eps_to_f`` rounds to no noise."""


@cache
def _clients() -> dict[str, Any]:
    def same(x: int) -> int:
        return x

    hashes = [CORE.generate_hash(M, seed) for seed in (2, 6)]
    pairs = [(CORE.generate_hash(4, 3), CORE.generate_hash(2, 2))]  # seeds that tell 0 from 1
    rappor = ORACLES.RAPPORClient(F, M, [hashes], num_of_cohorts=1, index_mapper=same)
    converted = ORACLES.RAPPORClient(
        rappor.convert_eps_to_f(LARGE), M, [hashes[:1]], num_of_cohorts=1, index_mapper=same
    )
    return {
        "rappor": rappor,
        "converted": converted,
        "direct": ORACLES.DEClient(epsilon=1.0, d=4, index_mapper=same),
        "symmetric": ORACLES.UEClient(epsilon=1.0, d=4, index_mapper=same),
        "optimal": ORACLES.UEClient(epsilon=1.0, d=4, use_oue=True, index_mapper=same),
        "fast_hashing": ORACLES.FastLHClient(1.0, 4, 8, use_olh=True, index_mapper=same),
        "histogram": ORACLES.HEClient(epsilon=1.0, d=4, index_mapper=same),
        "hadamard": ORACLES.HadamardResponseClient(1.0, 4, None, index_mapper=same),
        "mean_sketch": ORACLES.CMSClient(1.0, [CORE.generate_hash(4, s) for s in (3, 4)], 4),
        "count_sketch": SKETCH.PCSClient(1.0, 1, 4, pairs),
    }


@one_by_one()
def rappor(x: int) -> list[int]:
    bits, cohort = _clients()["rappor"].privatise(x)
    return [*bits, cohort]


@one_by_one()
def converted(x: int) -> list[int]:
    bits, cohort = _clients()["converted"].privatise(x)
    return [*bits, cohort]


@one_by_one()
def direct(x: int) -> int:
    return int(_clients()["direct"].privatise(x))


@one_by_one()
def symmetric(x: int) -> NDArray[np.int64]:
    return np.asarray(_clients()["symmetric"].privatise(x))


@one_by_one()
def optimal(x: int) -> NDArray[np.int64]:
    return np.asarray(_clients()["optimal"].privatise(x))


@one_by_one()
def fast_hashing(x: int) -> tuple[int, int]:
    value, seed = _clients()["fast_hashing"].privatise(x)
    return int(value), int(seed)


@one_by_one()
def histogram(x: int) -> NDArray[np.float64]:
    return np.asarray(_clients()["histogram"].privatise(x))


@one_by_one()
def hadamard(x: int) -> int:
    return int(_clients()["hadamard"].privatise(x))


@one_by_one()
def mean_sketch(x: int) -> list[int]:
    bits, which = _clients()["mean_sketch"].privatise(x)
    return [*bits, which]


@one_by_one()
def count_sketch(x: int) -> list[int]:
    bits, which = _clients()["count_sketch"].privatise(x)
    return [*bits, which]


def rappor_distribution(ones: tuple[int, ...], f: float = F, m: int = M) -> exact.Distribution:
    """The distribution of RAPPOR's bits: set bits stay, others are set with probability f/2."""
    return exact.product(exact.bit(1.0 if i in ones else f / 2.0) for i in range(m))


def converted_f(epsilon: float) -> float:
    """The noise parameter f for ``epsilon`` by the package's ``convert_eps_to_f``."""
    return round(2.0 / (math.exp(epsilon / 2.0) + 1.0), 2)


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    f = converted_f(LARGE)
    return {
        "rappor": exact.epsilon([rappor_distribution((1, 4)), rappor_distribution((0, 5))]),
        "converted": exact.epsilon(rappor_distribution((one,), f) for one in (1, 0)),
    }
