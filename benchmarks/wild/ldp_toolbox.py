"""Mechanisms of ldp-toolbox 0.1.3: reports of one value out of four."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.wild import draw_in_batch, exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
GRR, HE, LH, SS, UE = (
    PACKAGE.load(f"ldp_toolbox.protocols.frequency.{name}")
    for name in ("grr", "he", "lh", "ss", "ue")
)
EPSILON, SUBSETS = 1.0, 0.5
"""Epsilons of all other protocols and of subset selection, which has subsets of two at .5."""
K = 4
THRESHOLD = 0.61855
"""Threshold that the package finds best at this epsilon, to five places."""


@numba.njit  # type: ignore[untyped-decorator]
def _seed_compiled(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002


def _draw_reports(protocol: Any, x: int, size: int) -> list[Any]:
    return [protocol.obfuscate(x) for _ in range(size)]


def _draw_supports(protocol: Any, x: int, size: int) -> NDArray[np.bool_]:
    """Whether each value has the reported hash, by the reported hash function (size, K)."""
    import xxhash

    def hash_value(value: int, seed: int) -> int:
        return int(xxhash.xxh32(str(value), seed=seed).intdigest() % protocol.g)

    reports = _draw_reports(protocol, x, size)
    return np.array([[hash_value(v, seed) == code for v in range(K)] for code, seed in reports])


@draw_in_batch(_seed_compiled)
def response(x: int, size: int) -> NDArray[Any]:
    """Reports of x by randomized response."""
    return np.array(_draw_reports(GRR.GeneralizedRandomizedResponse(K, EPSILON), x, size))


@draw_in_batch(_seed_compiled)
def subset(x: int, size: int) -> NDArray[Any]:
    """Reports of x by subset selection."""
    return np.array(_draw_reports(SS.SubsetSelection(K, SUBSETS), x, size))


@draw_in_batch(_seed_compiled)
def symmetric_unary(x: int, size: int) -> NDArray[Any]:
    """Reports of x by symmetric unary encoding."""
    return np.array(_draw_reports(UE.UnaryEncoding(K, EPSILON, optimal=False), x, size))


@draw_in_batch(_seed_compiled)
def optimal_unary(x: int, size: int) -> NDArray[Any]:
    """Reports of x by optimal unary encoding."""
    return np.array(_draw_reports(UE.UnaryEncoding(K, EPSILON), x, size))


@draw_in_batch(_seed_compiled)
def optimal_hash(x: int, size: int) -> NDArray[np.bool_]:
    """Values with the reported hash (size, K), by optimal local hashing of x."""
    return _draw_supports(LH.LocalHashing(K, EPSILON), x, size)


@draw_in_batch(_seed_compiled)
def binary_hash(x: int, size: int) -> NDArray[np.bool_]:
    """Values with the reported hash (size, K), by binary local hashing of x."""
    return _draw_supports(LH.LocalHashing(K, EPSILON, optimal=False), x, size)


@draw_in_batch(_seed_compiled)
def threshold(x: int, size: int) -> NDArray[np.bool_]:
    """Whether each noisy bit of the one-hot vector of x is above the threshold (size, K)."""
    reports = _draw_reports(HE.HistogramEncoding(K, EPSILON), x, size)
    return np.array([np.isin(np.arange(K), above) for above in reports])


@draw_in_batch(_seed_compiled)
def histogram(x: int, size: int) -> NDArray[np.float64]:
    """The noisy bits of the one-hot vector of x (size, K)."""
    return np.array(_draw_reports(HE.HistogramEncoding(K, EPSILON, thresholding=False), x, size))


def make_subset(x: int, omega: int) -> exact.Distribution:
    """The distribution of subsets of size ``omega``; those with x are e^epsilon times as likely."""
    weights = {
        order: math.exp(SUBSETS) if x in order else 1.0
        for order in itertools.permutations(range(K), omega)
    }
    return {order: weight / sum(weights.values()) for order, weight in weights.items()}


def make_hash(x: int, g: int) -> exact.Distribution:
    """The distribution of the values with the reported hash, for random hashes to ``g`` codes."""
    seen: Counter[Hashable] = Counter()
    for function in itertools.product(range(g), repeat=K):
        for code, mass in exact.make_response(function[x], range(g), EPSILON).items():
            seen[tuple(value == code for value in function)] += mass / g**K
    return seen


def make_threshold(x: int) -> exact.Distribution:
    """The distribution of bits above the threshold after Laplace noise of scale 2 / epsilon."""
    above = stats.laplace.sf(THRESHOLD, loc=[1.0, 0.0], scale=2.0 / EPSILON)
    return exact.make_unary(x, K, *above)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    kept = math.exp(EPSILON / 2.0) / (math.exp(EPSILON / 2.0) + 1.0)
    other = 1.0 / (math.exp(EPSILON) + 1.0)
    laws = {
        "response": [exact.make_response(x, range(K), EPSILON) for x in range(K)],
        "subset": [make_subset(x, 2) for x in range(K)],
        "symmetric_unary": [exact.make_unary(x, K, kept, 1.0 - kept) for x in range(K)],
        "optimal_unary": [exact.make_unary(x, K, 0.5, other) for x in range(K)],
        "optimal_hash": [make_hash(x, 4) for x in range(K)],
        "binary_hash": [make_hash(x, 2) for x in range(K)],
        "threshold": [make_threshold(x) for x in range(K)],
    }
    return {key: exact.find_epsilon(distributions) for key, distributions in laws.items()}
