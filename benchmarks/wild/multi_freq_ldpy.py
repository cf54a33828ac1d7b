"""multi-freq-ldpy 0.2.5: frequency oracles for one attribute, several, and repeated reports."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact, load, one_by_one
from benchmarks.wild.finding import Finding
from fedrec_auditor.auditor.verification import Density

EPSILON, K, D = 1.0, 3, 3
SUBSETS = 4, 0.5
"""Domain and epsilon at which subsets of two are sent."""
TUPLE = (
    "; `input_tuple` is the user's true tuple and `epsilon` its privacy guarantee, and the "
    "splitting solution beside it shares epsilon among the attributes so that the tuple has it. "
    "Read for the tuple, replaced as a whole"
)
ATTRIBUTE = "one attribute is replaced: exactly epsilon"
PERMANENT, REPORTS = 2.0, 4
"""The epsilon of all reports of a user, where each spends ``EPSILON``, and how many are drawn."""
ONE = "docstring: `epsilon` is the privacy guarantee; one report, replaced"
GRR, HE, SS, UE = (
    load(f"multi_freq_ldpy.pure_frequency_oracles.{n}") for n in ["GRR", "HE", "SS", "UE"]
)
FAKES, SAMPLED, SPLIT = (
    load(f"multi_freq_ldpy.mdim_freq_est.{name}_solution") for name in ("RSpFD", "SMP", "SPL")
)
REPEATED = load("multi_freq_ldpy.long_freq_est.L_SUE")


@numba.njit(cache=False)
def _compiled_seed(number: int) -> None:
    np.random.seed(number)  # noqa: NPY002


def _seed(number: int) -> None:
    """Numba has a generator of its own."""
    _compiled_seed(number)


@one_by_one(_seed)
def subset(x: int) -> NDArray[np.int64]:
    return np.asarray(SS.SS_Client(x, *SUBSETS))


@one_by_one(_seed)
def subset_sorted(x: int) -> NDArray[np.int64]:
    return np.sort(SS.SS_Client(x, *SUBSETS))


@one_by_one(_seed)
def fakes_response(x: NDArray[np.int64]) -> list[int]:
    return list(FAKES.RSpFD_GRR_Client(x, [K] * D, D, EPSILON))


@one_by_one(_seed)
def fakes_zero(x: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.concatenate(FAKES.RSpFD_UE_zero_Client(x, [2, 2], 2, EPSILON))


@one_by_one(_seed)
def fakes_random(x: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.concatenate(FAKES.RSpFD_UE_rnd_Client(x, [4, 4], 2, EPSILON))


@one_by_one(_seed)
def response(x: int) -> int:
    return int(GRR.GRR_Client(x, K, EPSILON))


@one_by_one(_seed)
def unary(x: int) -> NDArray[np.float64]:
    return np.asarray(UE.UE_Client(x, K, EPSILON))


@one_by_one(_seed)
def histogram(x: int) -> NDArray[np.float64]:
    return np.asarray(HE.HE_Client(x, K, EPSILON))


@one_by_one(_seed)
def split(x: NDArray[np.int64]) -> list[int]:
    client = SPLIT.SPL_GRR_Client
    return list(client(x, [K] * 2, 2, EPSILON))


@one_by_one(_seed)
def sampled(x: NDArray[np.int64]) -> list[int]:
    client = SAMPLED.SMP_GRR_Client
    return list(client(x, [K] * 2, 2, EPSILON))


@one_by_one(_seed)
def repeated_unary(x: int) -> NDArray[np.float64]:
    client = REPEATED.L_SUE_Client
    return np.asarray(client(x, K, PERMANENT, EPSILON))


@one_by_one(_seed)
def several_unary(x: int) -> NDArray[np.float64]:
    client = REPEATED.L_SUE_Client
    return np.concatenate([client(x, K, PERMANENT, EPSILON) for _ in range(REPORTS)])


def subset_distribution(x: int, k: int, epsilon: float, *, ordered: bool) -> exact.Distribution:
    """Subsets as ``SS_Client`` writes them: the true value, if it is one of them, comes first."""
    size = int(max(1, round(k / (math.exp(epsilon) + 1.0))))
    kept = size * math.exp(epsilon) / (size * math.exp(epsilon) + k - size)
    others = [y for y in range(k) if y != x]
    with_x = [(x, *rest) for rest in itertools.permutations(others, size - 1)]
    without = list(itertools.permutations(others, size))
    written = exact.mixture([(kept, exact.uniform(with_x)), (1.0 - kept, exact.uniform(without))])
    if ordered:
        return written
    return exact.mixture((mass, {frozenset(y): 1.0}) for y, mass in written.items())


def amplified(epsilon: float, d: int) -> float:
    """The epsilon at which the one attribute of d that is drawn is reported."""
    return math.log(d * math.expm1(epsilon) + 1.0)


def fakes_distribution(x: tuple[int, ...], k: int, kind: str) -> exact.Distribution:
    """Random sampling plus fake data, by what reports and what the fakes are."""
    inner = amplified(EPSILON, len(x))
    if kind == "response":
        fake = exact.uniform(range(k))
        return exact.sampled_with_fakes(x, lambda v: exact.response(v, range(k), inner), fake)
    p, q = 0.5, 1.0 / (math.exp(inner) + 1.0)
    fake = exact.unary(None, k, p, q)
    if kind == "random":
        fake = exact.mixture((1.0 / k, exact.unary(v, k, p, q)) for v in range(k))
    return exact.sampled_with_fakes(x, lambda v: exact.unary(v, k, p, q), fake)


def log_fakes(output: Any, x: Any) -> Any:
    """Log-probability of the flattened output of ``fakes_random`` for the tuple x."""
    masses = _fakes_masses(tuple(int(v) for v in x))
    rows = np.asarray(output, dtype=int)
    found = np.log([masses[tuple(row)] for row in rows.reshape(-1, 8).tolist()])
    return found.reshape(rows.shape[:-1])


@cache
def _fakes_masses(x: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    law = fakes_distribution(x, 4, "random")
    return {(*first, *second): mass for (first, second), mass in law.items()}


fakes_density = Density(sample=fakes_random, log_prob=log_fakes)


def findings() -> tuple[Finding, ...]:
    def finding(call: Any, name: str, **fields: Any) -> Finding:
        given: dict[str, Any] = {
            "epsilon": EPSILON,
            "exact": EPSILON,
            "inputs": (0, 1),
            "claim": ONE,
        }
        return Finding(library="multi-freq-ldpy", name=name, call=call, **(given | fields))

    def both(kind: str, d: int, k: int) -> float:
        return exact.epsilon(fakes_distribution((v,) * d, k, kind) for v in (0, 1))

    k, epsilon = SUBSETS
    everywhere = (
        "the sampled attribute is reported at ln(d (e^epsilon - 1) + 1), as if it hid among the "
        "fakes. Where every entry of the report agrees with one tuple and none with the other, all "
        "d terms of the mixture have that same ratio: so much is spent, whatever the fakes"
    )
    return (
        finding(
            subset,
            "SS_Client",
            epsilon=epsilon,
            exact=exact.epsilon(subset_distribution(x, k, epsilon, ordered=True) for x in range(k)),
            setting=f"{k} values, so two are sent",
            claim="docstring: `epsilon` is the privacy guarantee, and a set is returned. What is "
            "returned is an array. Read for the array as it is returned, one report",
            holds_if="the subset is sorted before it is sent (see below)",
            remark="the true value, if it is among those sent, is written first. Its second place "
            "is therefore impossible, and a report (a, b) has probability 0 under b, not under a",
        ),
        finding(
            fakes_response,
            "RSpFD_GRR_Client",
            inputs=((0,) * D, (1,) * D),
            exact=both("response", D, K),
            setting=f"{D} attributes of {K} values",
            claim="docstring" + TUPLE,
            holds_if=ATTRIBUTE,
            remark=everywhere,
        ),
        finding(
            fakes_zero,
            "RSpFD_UE_zero_Client",
            inputs=((0, 0), (1, 1)),
            exact=both("zero", 2, 2),
            setting="2 attributes of 2 values, optimized unary encoding",
            claim="docstring" + TUPLE,
            holds_if=ATTRIBUTE,
            remark=everywhere,
        ),
        finding(
            fakes_density,
            "RSpFD_UE_rnd_Client",
            inputs=((0, 0), (1, 0)),
            exact=exact.epsilon(fakes_distribution(x, 4, "random") for x in ((0, 0), (1, 0))),
            setting="2 attributes of 4 values, optimized unary encoding; one attribute replaced",
            again=f"auditor verify {__name__}:fakes_density --epsilon 1 "
            "--inputs '[[0, 0], [1, 0]]'",
            claim="docstring: `epsilon` is the privacy guarantee. Read for one attribute, the "
            "other the same: the mildest reading",
            remark="a fake is a random value, encoded. With r = d (e^epsilon - 1) + 1, the report "
            "in which the replaced attribute shows the bit of a value alone, and the other "
            "attribute every bit but its own value's, is (r / (r + k - 1) + c) / (1 / (r + k - 1) "
            "+ c) times as likely under that value as under another, c = (d - 1) / (1 + (k - 1) "
            "r): more than e^epsilon from 3 values on. The probabilities are listed from the code, "
            "and draws of the package fit them. If the whole tuple is replaced, "
            f"{amplified(EPSILON, 2):.4f} is spent",
        ),
        finding(
            several_unary,
            "L_SUE_Client",
            epsilon=PERMANENT,
            exact=REPORTS * EPSILON,
            setting=f"{REPORTS} reports, eps_perm {PERMANENT:g}, eps_1 {EPSILON:g}; {K} values",
            claim="docstring: `eps_perm` is the upper bound of the privacy guarantee, for "
            "infinitely many reports; the README calls it the longitudinal one. Read for the "
            f"reports of a user whose value stays the same, {REPORTS} calls alike",
            remark="the first round, which its comment calls permanent, is drawn anew in every "
            "call and not returned, so that it can be kept nowhere: r reports are independent and "
            "spend r eps_1, without a bound. The other `L_*_Client` do the same. The package "
            "simulates collections, and in its README's example every user reports once",
            holds_if="every user reports once: eps_1 (see below)",
        ),
        finding(
            subset_sorted,
            "SS_Client, sorted",
            epsilon=epsilon,
            exact=exact.epsilon(
                subset_distribution(x, k, epsilon, ordered=False) for x in range(k)
            ),
            setting=f"{k} values, so two are sent",
        ),
        finding(response, "GRR_Client", setting=f"{K} values"),
        finding(unary, "UE_Client", setting=f"{K} values, optimized"),
        finding(histogram, "HE_Client", setting=f"{K} values"),
        finding(split, "SPL_GRR_Client", setting="2 attributes", inputs=((0, 0), (1, 1))),
        finding(sampled, "SMP_GRR_Client", setting="2 attributes", inputs=((0, 0), (1, 1))),
        finding(
            repeated_unary, "L_SUE_Client", setting=f"one report, eps_perm 2, eps_1 1; {K} values"
        ),
    )
