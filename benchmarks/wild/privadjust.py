"""Mechanisms of privadjust 1.0.13: sketches of one value, sent with a hash function's index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once, exact
from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
SKETCH = INSTALLED.load("privadjust.count_mean.private_cms_client")
HADAMARD = INSTALLED.load("privadjust.hadamard_count_mean.private_hcms_client")
EPSILON = 1.0
FUNCTIONS, CODES = 2, 4


def _hash(function: int) -> Callable[[int], int]:
    """A public hash function, which maps the four values to different codes."""
    return lambda x: (x + function) % CODES


def _reports(module: Any, kind: str, functions: str, x: int, size: int) -> list[Any]:
    """Reports of a client whose attribute ``functions`` is replaced by our hash functions."""
    import pandas as pd

    vars(module)["primerange"] = lambda low, high: [low + 3]  # for its own functions, slow to find
    client = getattr(module, kind)(EPSILON, FUNCTIONS, CODES, pd.DataFrame({"value": range(CODES)}))
    setattr(client, functions, [_hash(j) for j in range(FUNCTIONS)])
    return [client.client(x) for _ in range(size)]


@at_once()
def sketch(x: int, size: int) -> NDArray[np.int64]:
    """Noisy signs, and the index of the hash function."""
    reports = _reports(SKETCH, "privateCMSClient", "H", x, size)
    return np.array([[*signs, j] for signs, j in reports])


@at_once()
def hadamard(x: int, size: int) -> NDArray[np.int64]:
    """A noisy sign, the index of the hash function, and that of the Hadamard row."""
    return np.array(_reports(HADAMARD, "privateHCMSClient", "hashes", x, size))


def hadamard_distribution(x: int) -> exact.Distribution:
    """The distribution of (sign, function, row); signs flip at odds 1 to e^epsilon."""
    kept = math.exp(EPSILON) / (math.exp(EPSILON) + 1.0)
    report: Counter[Hashable] = Counter()
    for j in range(FUNCTIONS):
        for row in range(CODES):
            sign = -1 if (row & _hash(j)(x)).bit_count() % 2 else 1
            for sent, mass in ((sign, kept), (-sign, 1.0 - kept)):
                report[sent, j, row] += mass / FUNCTIONS / CODES
    return report


def sketch_distribution(x: int) -> exact.Distribution:
    """The distribution of signs and function; signs flip at odds 1 to e^(epsilon / 2)."""
    kept = math.exp(EPSILON / 2.0) / (math.exp(EPSILON / 2.0) + 1.0)
    return exact.mixture(
        (
            1.0 / FUNCTIONS,
            exact.product([exact.unary(_hash(j)(x), CODES, kept, 1.0 - kept), {j: 1.0}]),
        )
        for j in range(FUNCTIONS)
    )


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {
        "sketch": exact.epsilon(sketch_distribution(x) for x in range(CODES)),
        "hadamard": exact.epsilon(hadamard_distribution(x) for x in range(CODES)),
    }
