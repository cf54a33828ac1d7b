"""diffpriv-pure 0.1.0: noise from the standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.wild import exact, load, one_by_one
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.accountants.losses.responses import least_epsilon_of
from fedrec_auditor.auditor.verification import Density
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian

PACKAGE = load("diffpriv_pure")
EPSILON = 1.0
USES, EACH = 100, 1e-5
"""Responses of epsilon 1 that are composed, and the delta of each."""
TINY = 1e-15
"""An epsilon at which ``geometric_noise`` gives up."""
LARGE, DELTA = 10.0, 1e-5
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / LARGE
"""What ``gaussian_sigma(1, LARGE, DELTA)`` gives."""
COMPOSED = math.sqrt(2.0 * USES * math.log(1.0 / EACH))
"""What ``advanced_composition(USES, 1, EACH)`` gives, at a delta of USES * EACH."""
KEPT = math.e / (1.0 + math.e)


@one_by_one()
def count(x: int) -> int:
    return int(PACKAGE.private_count(int(x), EPSILON))


@one_by_one()
def tiny_count(x: int) -> int:
    return int(PACKAGE.private_count(int(x), TINY))


@one_by_one()
def total(x: float) -> float:
    return float(PACKAGE.private_sum([float(x)], (0.0, 1.0), EPSILON))


def ones(x: int, rng: np.random.Generator, size: int) -> Any:
    """How many of ``USES`` randomized responses of epsilon 1 say 1."""
    return rng.binomial(USES, KEPT if x else 1.0 - KEPT, size)


def log_ones(output: Any, x: int) -> Any:
    return stats.binom.logpmf(output, USES, KEPT if x else 1.0 - KEPT)


composed = Density(sample=ones, log_prob=log_ones)


def count_distribution(x: int, epsilon: float, most: int = 60) -> exact.Distribution:
    """x plus a geometric number from 0 on; what is beyond ``most`` goes into one output."""
    ratio = math.exp(-epsilon)
    law = {y: (1.0 - ratio) * ratio ** (y - x) for y in range(x, most)}
    return law | {"more": ratio ** (most - x)}


def findings() -> tuple[Finding, ...]:
    def finding(call: Any, name: str, **fields: Any) -> Finding:
        return Finding(
            library="diffpriv-pure", name=name, call=call, **({"epsilon": EPSILON} | fields)
        )

    return (
        finding(
            count,
            "private_count",
            inputs=(0, 1),
            exact=exact.epsilon(count_distribution(x, EPSILON) for x in (0, 1)),
            setting=f"any epsilon, here {EPSILON:g}",
            claim="README: geometric (discrete Laplace) noise on a count; `geometric_noise`: pure "
            "epsilon-DP for integer counts. Counts of two neighbours are 1 apart",
            remark="the noise is one geometric number, 0 or more, where a difference of two is "
            "called for: the true count or above, never below. An answer of 0 proves that the "
            "count is 0, and the smallest of some answers is the count",
        ),
        finding(
            tiny_count,
            "private_count",
            epsilon=TINY,
            inputs=(0, 1),
            exact=math.inf,
            setting=f"epsilon {TINY:g}",
            claim="README: geometric (discrete Laplace) noise on a count; `geometric_noise` takes "
            "any epsilon above 0. Counts of two neighbours are 1 apart",
            remark="where 1 - e^-epsilon is 1e-15 or less, `geometric_noise` returns 0, a "
            "fallback by its comment: the count itself, at the epsilon that asks for the most "
            "noise. Few will ask for so small an epsilon; an error would do. It returns 0 from "
            "epsilon 34.6 on, too, where the noise would be 0 but for one draw in 1e15",
        ),
        finding(
            Gaussian(sigma=SIGMA, low=0.0, high=1.0),
            "gaussian_sigma",
            epsilon=LARGE,
            delta=DELTA,
            inputs=None,
            again=f"auditor verify gaussian --set sigma={SIGMA!r} --set low=0 --set high=1 "
            f"--epsilon {LARGE:g} --delta {DELTA:g}",
            exact=gaussian_epsilon(DELTA, 1.0 / SIGMA),
            setting=f"sensitivity 1; sigma {SIGMA:.4f}",
            claim="README: the analytic Gaussian sigma of Balle and Wang 2018; any epsilon above 0 "
            "is taken",
            remark="sqrt(2 ln(1.25 / delta)) / epsilon is the classical formula, which is proved "
            "for epsilon below 1 only; the analytic one is another. At this delta it is enough up "
            "to epsilon 8.4, and too little beyond",
        ),
        finding(
            composed,
            "advanced_composition",
            epsilon=COMPOSED,
            delta=USES * EACH,
            inputs=(0, 1),
            exact=least_epsilon_of(((1.0, USES),), USES * EACH),
            setting=f"{USES} uses of (1, {EACH:g}), randomized response being one",
            again=f"auditor verify {__name__}:composed --epsilon {COMPOSED:.12g} "
            f"--delta {USES * EACH:g} --inputs '[0, 1]'",
            claim="`PrivacyBudget.advanced_composition`: the epsilon and delta of n uses; the "
            "README offers it for manual use",
            remark="epsilon sqrt(2 n ln(1 / delta)) is the first term of advanced composition; the "
            "second, n epsilon (e^epsilon - 1), is left out, and so is the delta that the theorem "
            "spends beside n delta",
        ),
        finding(
            total,
            "private_sum",
            inputs=(0.0, 1.0),
            exact=EPSILON,
            setting="values in [0, 1]",
            claim="README: pure epsilon-DP, Laplace noise for a sum of values clamped to `bounds`; "
            "one value replaced",
        ),
    )
