"""Mechanisms of pure-ldp 1.2.0: frequency oracles."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_one_by_one, exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ORACLES = PACKAGE.load("pure_ldp.frequency_oracles", "statsmodels", "statsmodels.api")
CORE = PACKAGE.load("pure_ldp.core")
SKETCH = PACKAGE.load("pure_ldp.frequency_oracles.priv_count_sketch")
F, M = 0.5, 8
LARGE_EPS = 12.0
"""An epsilon that ``convert_eps_to_f`` rounds to no noise."""


@cache
def _make_clients() -> dict[str, Any]:
    """Clients of all oracles, with fixed hash functions."""

    def keep(x: int) -> int:
        return x

    hashes = [CORE.generate_hash(M, seed) for seed in (2, 6)]
    pairs = [(CORE.generate_hash(4, 3), CORE.generate_hash(2, 2))]  # hashes of 0 and 1 differ
    rappor = ORACLES.RAPPORClient(F, M, [hashes], num_of_cohorts=1, index_mapper=keep)
    converted = ORACLES.RAPPORClient(
        rappor.convert_eps_to_f(LARGE_EPS), M, [hashes[:1]], num_of_cohorts=1, index_mapper=keep
    )
    return {
        "rappor": rappor,
        "converted": converted,
        "direct": ORACLES.DEClient(epsilon=1.0, d=4, index_mapper=keep),
        "symmetric": ORACLES.UEClient(epsilon=1.0, d=4, index_mapper=keep),
        "optimal": ORACLES.UEClient(epsilon=1.0, d=4, use_oue=True, index_mapper=keep),
        "fast_hashing": ORACLES.FastLHClient(1.0, 4, 8, use_olh=True, index_mapper=keep),
        "histogram": ORACLES.HEClient(epsilon=1.0, d=4, index_mapper=keep),
        "hadamard": ORACLES.HadamardResponseClient(1.0, 4, None, index_mapper=keep),
        "mean_sketch": ORACLES.CMSClient(1.0, [CORE.generate_hash(4, s) for s in (3, 4)], 4),
        "count_sketch": SKETCH.PCSClient(1.0, 1, 4, pairs),
    }


@draw_one_by_one()
def rappor(x: int) -> list[int]:
    """Bits and cohort of a report of x by RAPPOR."""
    bits, cohort = _make_clients()["rappor"].privatise(x)
    return [*bits, cohort]


@draw_one_by_one()
def converted(x: int) -> list[int]:
    """Bits and cohort of a report of x by RAPPOR, with f converted from ``LARGE_EPS``."""
    bits, cohort = _make_clients()["converted"].privatise(x)
    return [*bits, cohort]


@draw_one_by_one()
def direct(x: int) -> int:
    """A report of x by direct encoding."""
    return int(_make_clients()["direct"].privatise(x))


@draw_one_by_one()
def symmetric(x: int) -> NDArray[np.int64]:
    """A report of x by symmetric unary encoding."""
    return np.asarray(_make_clients()["symmetric"].privatise(x))


@draw_one_by_one()
def optimal(x: int) -> NDArray[np.int64]:
    """A report of x by optimal unary encoding."""
    return np.asarray(_make_clients()["optimal"].privatise(x))


@draw_one_by_one()
def fast_hashing(x: int) -> tuple[int, int]:
    """The hash and the seed that a report of x by local hashing has."""
    value, seed = _make_clients()["fast_hashing"].privatise(x)
    return int(value), int(seed)


@draw_one_by_one()
def histogram(x: int) -> NDArray[np.float64]:
    """The noisy bits of the one-hot vector of x."""
    return np.asarray(_make_clients()["histogram"].privatise(x))


@draw_one_by_one()
def hadamard(x: int) -> int:
    """A report of x by Hadamard response."""
    return int(_make_clients()["hadamard"].privatise(x))


@draw_one_by_one()
def mean_sketch(x: int) -> list[int]:
    """Bits of a report of x by count-mean sketch, and the index of the hash function."""
    bits, which = _make_clients()["mean_sketch"].privatise(x)
    return [*bits, which]


@draw_one_by_one()
def count_sketch(x: int) -> list[int]:
    """Bits of a report of x by count sketch, and the index of the hash function."""
    bits, which = _make_clients()["count_sketch"].privatise(x)
    return [*bits, which]


def make_rappor(ones: tuple[int, ...], f: float = F, m: int = M) -> exact.Distribution:
    """The distribution of RAPPOR's bits: set bits stay, others are set with probability f/2."""
    return exact.join(exact.make_bit(1.0 if i in ones else f / 2.0) for i in range(m))


def convert_epsilon(epsilon: float) -> float:
    """The noise parameter f for ``epsilon`` by the package's ``convert_eps_to_f``."""
    return round(2.0 / (math.exp(epsilon / 2.0) + 1.0), 2)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    f = convert_epsilon(LARGE_EPS)
    return {
        "rappor": exact.find_epsilon([make_rappor((1, 4)), make_rappor((0, 5))]),
        "converted": exact.find_epsilon(make_rappor((one,), f) for one in (1, 0)),
    }
