"""Mechanisms of privadjust 1.0.13: sketches of one value, sent with a hash function's index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
SKETCH = PACKAGE.load("privadjust.count_mean.private_cms_client")
HADAMARD = PACKAGE.load("privadjust.hadamard_count_mean.private_hcms_client")
EPSILON = 1.0
FUNCTIONS, CODES = 2, 4


def _make_hash(function: int) -> Callable[[int], int]:
    """A public hash function, which maps the four values to different codes."""
    return lambda x: (x + function) % CODES


def _draw_reports(module: Any, kind: str, functions: str, x: int, size: int) -> list[Any]:
    """Reports of a client whose attribute ``functions`` is replaced by our hash functions."""
    import pandas as pd

    vars(module)["primerange"] = lambda low, high: [low + 3]  # for its own functions, slow to find
    client = getattr(module, kind)(EPSILON, FUNCTIONS, CODES, pd.DataFrame({"value": range(CODES)}))
    setattr(client, functions, [_make_hash(j) for j in range(FUNCTIONS)])
    return [client.client(x) for _ in range(size)]


@draw_in_batch()
def sketch(x: int, size: int) -> NDArray[np.int64]:
    """Noisy signs, and the index of the hash function."""
    reports = _draw_reports(SKETCH, "privateCMSClient", "H", x, size)
    return np.array([[*signs, j] for signs, j in reports])


@draw_in_batch()
def hadamard(x: int, size: int) -> NDArray[np.int64]:
    """A noisy sign, the index of the hash function, and that of the Hadamard row."""
    return np.array(_draw_reports(HADAMARD, "privateHCMSClient", "hashes", x, size))


def make_hadamard(x: int) -> exact.Distribution:
    """The distribution of (sign, function, row); signs flip at odds 1 to e^epsilon."""
    kept = math.exp(EPSILON) / (math.exp(EPSILON) + 1.0)
    report: Counter[Hashable] = Counter()
    for j in range(FUNCTIONS):
        for row in range(CODES):
            sign = -1 if (row & _make_hash(j)(x)).bit_count() % 2 else 1
            for sent, mass in ((sign, kept), (-sign, 1.0 - kept)):
                report[sent, j, row] += mass / FUNCTIONS / CODES
    return report


def make_sketch(x: int) -> exact.Distribution:
    """The distribution of signs and function; signs flip at odds 1 to e^(epsilon / 2)."""
    kept = math.exp(EPSILON / 2.0) / (math.exp(EPSILON / 2.0) + 1.0)
    return exact.mix(
        (
            1.0 / FUNCTIONS,
            exact.join([exact.make_unary(_make_hash(j)(x), CODES, kept, 1.0 - kept), {j: 1.0}]),
        )
        for j in range(FUNCTIONS)
    )


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {
        "sketch": exact.find_epsilon(make_sketch(x) for x in range(CODES)),
        "hadamard": exact.find_epsilon(make_hadamard(x) for x in range(CODES)),
    }
