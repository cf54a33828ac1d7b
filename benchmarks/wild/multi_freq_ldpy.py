"""Mechanisms of multi-freq-ldpy 0.2.5: frequency oracles for one or several attributes."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_one_by_one, exact
from benchmarks.wild.package import Package
from fedrec_auditor.auditor.verification import Density

PACKAGE = Package.from_module(__name__)
EPSILON, K, D = 1.0, 3, 3
SUBSETS = 4, 0.5
"""Domain size and epsilon at which the sent subsets have two values."""
PERMANENT_EPSILON, REPORTS = 2.0, 4
"""Epsilon of all reports of a user, each of which has ``EPSILON``; and number of reports."""
GRR, HE, SS, UE = (
    PACKAGE.load(f"multi_freq_ldpy.pure_frequency_oracles.{n}") for n in ["GRR", "HE", "SS", "UE"]
)
RSPFD, SMP, SPL = (
    PACKAGE.load(f"multi_freq_ldpy.mdim_freq_est.{name}_solution")
    for name in ("RSpFD", "SMP", "SPL")
)
L_SUE = PACKAGE.load("multi_freq_ldpy.long_freq_est.L_SUE")


@numba.njit(cache=False)
def _seed_compiled(number: int) -> None:
    np.random.seed(number)  # noqa: NPY002


def _seed(number: int) -> None:
    """Seeds the generator of numba, which is separate from numpy's."""
    _seed_compiled(number)


@draw_one_by_one(_seed)
def subset(x: int) -> NDArray[np.int64]:
    """The reported subset for x, in the order of the package."""
    return np.asarray(SS.SS_Client(x, *SUBSETS))


@draw_one_by_one(_seed)
def subset_sorted(x: int) -> NDArray[np.int64]:
    """The reported subset for x, sorted."""
    return np.sort(SS.SS_Client(x, *SUBSETS))


@draw_one_by_one(_seed)
def fakes_response(x: NDArray[np.int64]) -> list[int]:
    """A report of one sampled attribute of x by randomized response, and fakes of the others."""
    return list(RSPFD.RSpFD_GRR_Client(x, [K] * D, D, EPSILON))


@draw_one_by_one(_seed)
def fakes_zero(x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unary encodings of one sampled attribute of x, and of zeros for the others."""
    return np.concatenate(RSPFD.RSpFD_UE_zero_Client(x, [2, 2], 2, EPSILON))


@draw_one_by_one(_seed)
def fakes_random(x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unary encodings of one sampled attribute of x, and of random values for the others."""
    return np.concatenate(RSPFD.RSpFD_UE_rnd_Client(x, [4, 4], 2, EPSILON))


@draw_one_by_one(_seed)
def response(x: int) -> int:
    """A report of x by randomized response."""
    return int(GRR.GRR_Client(x, K, EPSILON))


@draw_one_by_one(_seed)
def unary(x: int) -> NDArray[np.float64]:
    """A report of x by unary encoding."""
    return np.asarray(UE.UE_Client(x, K, EPSILON))


@draw_one_by_one(_seed)
def histogram(x: int) -> NDArray[np.float64]:
    """The noisy bits of the one-hot vector of x."""
    return np.asarray(HE.HE_Client(x, K, EPSILON))


@draw_one_by_one(_seed)
def split(x: NDArray[np.int64]) -> list[int]:
    """Reports of both attributes of x, which share epsilon."""
    client = SPL.SPL_GRR_Client
    return list(client(x, [K] * 2, 2, EPSILON))


@draw_one_by_one(_seed)
def sampled(x: NDArray[np.int64]) -> list[int]:
    """A report of one sampled attribute of x."""
    client = SMP.SMP_GRR_Client
    return list(client(x, [K] * 2, 2, EPSILON))


@draw_one_by_one(_seed)
def repeated_unary(x: int) -> NDArray[np.float64]:
    """One of the repeated reports of x by unary encoding."""
    client = L_SUE.L_SUE_Client
    return np.asarray(client(x, K, PERMANENT_EPSILON, EPSILON))


@draw_one_by_one(_seed)
def several_unary(x: int) -> NDArray[np.float64]:
    """``REPORTS`` repeated reports of x by unary encoding."""
    client = L_SUE.L_SUE_Client
    return np.concatenate([client(x, K, PERMANENT_EPSILON, EPSILON) for _ in range(REPORTS)])


def make_subset(x: int, k: int, epsilon: float, *, ordered: bool) -> exact.Distribution:
    """The distribution of subsets from ``SS_Client``.

    If ``ordered``, a subset is a tuple, in which the true value comes first; else a set.
    """
    size = int(max(1, round(k / (math.exp(epsilon) + 1.0))))
    p = size * math.exp(epsilon) / (size * math.exp(epsilon) + k - size)
    others = [y for y in range(k) if y != x]
    with_x = [(x, *rest) for rest in itertools.permutations(others, size - 1)]
    without = list(itertools.permutations(others, size))
    written = exact.mix([(p, exact.make_uniform(with_x)), (1.0 - p, exact.make_uniform(without))])
    if ordered:
        return written
    return exact.mix((mass, {frozenset(y): 1.0}) for y, mass in written.items())


def amplify(epsilon: float, d: int) -> float:
    """Epsilon of the report of one sampled attribute of d, in a message with ``epsilon``."""
    return math.log(d * math.expm1(epsilon) + 1.0)


def make_fakes(x: tuple[int, ...], k: int, kind: str) -> exact.Distribution:
    """The distribution of a message with one sampled attribute of ``x`` and fake others.

    ``kind`` is "response" (randomized response), "zero" or "random" (unary encoding).
    """
    inner = amplify(EPSILON, len(x))
    if kind == "response":
        fake = exact.make_uniform(range(k))
        return exact.mix_with_fakes(x, lambda v: exact.make_response(v, range(k), inner), fake)
    p, q = 0.5, 1.0 / (math.exp(inner) + 1.0)
    fake = exact.make_unary(None, k, p, q)
    if kind == "random":
        fake = exact.mix((1.0 / k, exact.make_unary(v, k, p, q)) for v in range(k))
    return exact.mix_with_fakes(x, lambda v: exact.make_unary(v, k, p, q), fake)


def compute_log_prob(output: Any, x: Any) -> Any:
    """Log-probability of flattened outputs of ``fakes_random`` for the tuple x."""
    masses = _compute_masses(tuple(int(v) for v in x))
    rows = np.asarray(output, dtype=int)
    found = np.log([masses[tuple(row)] for row in rows.reshape(-1, 8).tolist()])
    return found.reshape(rows.shape[:-1])


@cache
def _compute_masses(x: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    law = make_fakes(x, 4, "random")
    return {(*first, *second): mass for (first, second), mass in law.items()}


fakes_density = Density(sample=fakes_random, log_prob=compute_log_prob)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""

    def find_fakes_epsilon(kind: str, k: int, *inputs: tuple[int, ...]) -> float:
        return exact.find_epsilon(make_fakes(x, k, kind) for x in inputs)

    k, epsilon = SUBSETS
    routes = {
        key: exact.find_epsilon(make_subset(x, k, epsilon, ordered=ordered) for x in range(k))
        for key, ordered in (("subset", True), ("subset_sorted", False))
    }
    return routes | {
        "fakes_response": find_fakes_epsilon("response", K, (0,) * D, (1,) * D),
        "fakes_zero": find_fakes_epsilon("zero", 2, (0, 0), (1, 1)),
        "fakes_density": find_fakes_epsilon("random", 4, (0, 0), (1, 0)),
    }
