"""hll-py 0.1.13: counting distinct words."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.wild import load, one_by_one
from benchmarks.wild.finding import Finding

PACKAGE = load("hll_py")
EPSILON, BITS = 4.0, 64


@one_by_one()
def hashed(x: int) -> int:
    sketch = PACKAGE.HyperLogLogLDP(PACKAGE.SketchConfig(epsilon=EPSILON))
    return np.uint64(sketch._random_or_true_hash(f"word{x}") % 2**BITS)


def findings() -> tuple[Finding, ...]:
    return (
        Finding(
            library="hll-py",
            name="HyperLogLogLDP",
            call=hashed,
            epsilon=EPSILON,
            inputs=(0, 1),
            exact=math.log(1.0 + math.exp(EPSILON) * 2.0**BITS),
            setting="the default epsilon; one hash of 64 bits; a course's final project, by the "
            "name of its repository",
            claim="summary of the package: locally differentially private counting; "
            "`SketchConfig(epsilon=4.0)`. Read for one hash, the word replaced",
            remark="the true hash is kept with probability e^epsilon / (e^epsilon + 1), and else "
            "replaced by one of 2^64: a hash that was seen is true all but certainly. "
            "ln(1 + 2^64 e^epsilon) at the least. `insert_segments` keeps the words themselves as "
            "keys beside it",
        ),
    )
