"""pure-ldp 1.2.0: frequency oracles."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact, load, one_by_one
from benchmarks.wild.finding import Finding

F, M = 0.5, 8
CLAIM = (
    "the clients take `epsilon`, their docstrings call it the privacy budget; one report, replaced"
)


@cache
def _clients() -> dict[str, Any]:
    oracles = load("pure_ldp.frequency_oracles", "statsmodels", "statsmodels.api")
    core = load("pure_ldp.core")

    def same(x: int) -> int:
        return x

    pairs = [(core.generate_hash(4, 3), core.generate_hash(2, 2))]  # seeds that tell 0 from 1
    return {
        "rappor": oracles.RAPPORClient(
            f=F,
            m=M,
            hash_funcs=[[core.generate_hash(M, 2), core.generate_hash(M, 6)]],
            num_of_cohorts=1,
            index_mapper=same,
        ),
        "direct": oracles.DEClient(epsilon=1.0, d=4, index_mapper=same),
        "symmetric": oracles.UEClient(epsilon=1.0, d=4, index_mapper=same),
        "optimal": oracles.UEClient(epsilon=1.0, d=4, use_oue=True, index_mapper=same),
        "fast_hashing": oracles.FastLHClient(1.0, 4, 8, use_olh=True, index_mapper=same),
        "histogram": oracles.HEClient(epsilon=1.0, d=4, index_mapper=same),
        "hadamard": oracles.HadamardResponseClient(1.0, 4, None, index_mapper=same),
        "mean_sketch": oracles.CMSClient(1.0, [core.generate_hash(4, s) for s in (3, 4)], 4),
        "count_sketch": load("pure_ldp.frequency_oracles.priv_count_sketch").PCSClient(
            1.0, 1, 4, pairs
        ),
    }


@one_by_one()
def rappor(x: int) -> list[int]:
    bits, cohort = _clients()["rappor"].privatise(x)
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
    """A set bit stays set, another is set with probability f/2."""
    return exact.product(exact.bit(1.0 if i in ones else f / 2.0) for i in range(m))


def findings() -> tuple[Finding, ...]:
    def honest(call: Any, name: str, setting: str) -> Finding:
        return Finding(
            library="pure-ldp",
            name=name,
            call=call,
            epsilon=1.0,
            inputs=(0, 1),
            exact=1.0,
            setting=setting,
            claim=CLAIM,
        )

    return (
        Finding(
            library="pure-ldp",
            name="RAPPORClient",
            call=rappor,
            epsilon=4.0 * math.log((1.0 - F / 2.0) / (F / 2.0)),
            inputs=(0, 1),
            exact=exact.epsilon([rappor_distribution((1, 4)), rappor_distribution((0, 5))]),
            setting=f"f {F}, two hash functions, {M} bits",
            claim="`RAPPORClient.convert_f_to_eps` and `RAPPORServer.epsilon`: "
            "2k ln((1 - f/2) / (f/2)) for k hash functions; a note in `rappor_client.py` says that "
            "there is no second response and no longitudinal privacy. Read for one report and two "
            "items",
            remark="`_perturb` writes a 1 where the draw says 1, and nothing where it says 0: a "
            "set bit is never cleared. A 0 at a position of an item is impossible for whoever has "
            "it, and has probability 1 - f/2 for others",
        ),
        honest(direct, "DEClient", "4 items"),
        honest(symmetric, "UEClient", "4 items, symmetric"),
        honest(optimal, "UEClient", "4 items, optimized"),
        honest(fast_hashing, "FastLHClient", "4 items, 8 hash functions"),
        honest(histogram, "HEClient", "4 items"),
        honest(hadamard, "HadamardResponseClient", "4 items"),
        honest(mean_sketch, "CMSClient", "4 bits, 2 hash functions"),
        honest(count_sketch, "PCSClient", "4 bits, 1 pair of hash functions"),
    )
