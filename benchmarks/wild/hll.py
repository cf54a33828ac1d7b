"""Mechanism of hll-py 0.1.13: noisy hashes for counting distinct words."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
MODULE = PACKAGE.load("hll_py")
EPSILON, BITS = 4.0, 64


@draw_one_by_one()
def hashed(x: int) -> int:
    """The noisy hash of a word that depends on x."""
    sketch = MODULE.HyperLogLogLDP(MODULE.SketchConfig(epsilon=EPSILON))
    return np.uint64(sketch._random_or_true_hash(f"word{x}") % 2**BITS)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the probability of the true hash over that of any other."""
    return {"hashed": math.log(1.0 + math.exp(EPSILON) * 2.0**BITS)}
