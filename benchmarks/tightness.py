"""Our lower bounds of epsilon compared with the best that samples allow, at 95%.

The limit, L_CP, is the bound of an auditor who knows both distributions: the event of Neyman and
Pearson with the largest bound, at expected counts, by two Clopper-Pearson limits at half the error
each. Ours is one call of ``JointBinomial`` on a callable, at its defaults, without knowledge of the
distribution or the event; some of the n draws choose the event. Ours may exceed L_CP, because it
needs one limit only, on guesses of both inputs. A bound above the truth is marked with "!". At 95%,
one bound in twenty may be above the truth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from benchmarks._side_by_side import compare_packages
from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.guesses import clopper_pearson_lower, clopper_pearson_upper
from fedrec_auditor.auditor.worlds.sampler import Sampler

Values = NDArray[np.float64]
RESULTS = Path(__file__).with_name("TIGHTNESS.md")
SIZES = (10_000, 100_000, 1_000_000)
SEEDS = 21
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Case:
    """A randomizer of 0 or 1, its true epsilon at ``delta``, and its events of largest ratio.

    events: function without arguments that returns two arrays (m,), the probabilities of m events
        under the input that makes them likelier, and under the other input.
    """

    name: str
    call: Callable[[int, np.random.Generator, int], Values]
    truth: float
    events: Callable[[], tuple[Values, Values]]
    delta: float = 0.0

    def compute_limit(self, n: int) -> float:
        """The largest lower bound if both distributions are known (L_CP), at n draws each."""
        p, q = self.events()
        error = (1 - CONFIDENCE) / 2
        low = clopper_pearson_lower(n * p, n, error) - self.delta
        high = clopper_pearson_upper(n * q, n, error)
        return float(np.log(np.maximum(low, 1e-300) / high).max())

    def measure(self, n: int, seed: int) -> float:
        """Our lower bound of epsilon from ``n`` draws per input."""
        bound = JointBinomial().measure_bound(
            Sampler.wrap(self.call).make_worlds([0, 1]),
            delta=self.delta,
            confidence=CONFIDENCE,
            samples=n,
            rng=np.random.default_rng(seed),
        )
        return bound.epsilon


def _make_response(epsilon: float) -> Case:
    keep = 1 / (1 + math.exp(-epsilon))

    def call(x: int, rng: np.random.Generator, size: int) -> Values:
        return np.where(rng.random(size) < keep, float(x), 1.0 - x)

    return Case(
        name=f"randomized response, epsilon {epsilon:g}",
        call=call,
        truth=epsilon,
        events=lambda: (np.array([keep]), np.array([1 - keep])),
    )


def _make_events(law: stats.rv_continuous) -> Callable[[], tuple[Values, Values]]:
    """Events that the output exceeds a threshold, for noise on the input."""
    cuts = np.linspace(-1, 8, 1801)
    return lambda: (law.sf(cuts, loc=1), law.sf(cuts))


def _find_gaussian_truth(delta: float) -> float:
    """Epsilon of unit Gaussian noise, by Theorem 8 of Balle and Wang 2018."""

    def holds(epsilon: float) -> bool:
        beyond = math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
        return bool(stats.norm.cdf(0.5 - epsilon) - beyond <= delta)

    return bisect_threshold(holds)


CASES = (
    _make_response(1.0),
    _make_response(4.0),
    Case(
        name="Laplace, epsilon 1",
        call=lambda x, rng, size: x + rng.laplace(size=size),
        truth=1.0,
        events=_make_events(stats.laplace),
    ),
    Case(
        name="Gaussian, sigma 1, delta 1e-5",
        call=lambda x, rng, size: x + rng.normal(size=size),
        truth=_find_gaussian_truth(1e-5),
        events=_make_events(stats.norm),
        delta=1e-5,
    ),
    Case(
        name="asymmetric flip: 1 stays, 0 turns into 1 with probability 1/e",
        call=lambda x, rng, size: np.where(rng.random(size) < math.exp(-1), 1.0, float(x)),
        truth=math.inf,
        events=lambda: (np.array([1 - math.exp(-1)]), np.array([0.0])),
    ),
)
NO_LEAK = Case(
    name="no leak, delta 1e-5",
    call=lambda x, rng, size: rng.normal(size=size),
    truth=0.0,
    events=lambda: (np.array([0.5]), np.array([0.5])),
    delta=1e-5,
)


def format_row(case: Case, n: int) -> str:
    """One table line: truth, limit, and quantiles of our bounds over seeds."""
    limit, start = case.compute_limit(n), time.perf_counter()
    found = np.array([case.measure(n, seed) for seed in range(SEEDS)])
    seconds = (time.perf_counter() - start) / SEEDS
    low, median, high = np.quantile(found, [0.05, 0.5, 0.95])
    above = int(np.count_nonzero(found > case.truth))
    marked = f"! in {above} of {SEEDS}" if above else "no"
    return (
        f"| {case.name} | {n:,} | {case.truth:.4g} | {limit:.4f} | {median:.4f} | "
        f"{low:.4f} to {high:.4f} | {median / limit:.4f} | {marked} | {seconds:.2f} s |"
    )


def format_page() -> str:
    """Measures all mechanisms, and returns the table of our bounds and limits in Markdown."""
    lines = [
        "# Tightness",
        "",
        (__doc__ or "").strip(),
        "",
        "| mechanism | n per world | truth | L_CP | ours, median | 5% to 95% | ours / L_CP "
        "| above the truth | time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with threadpool_limits(1):
        lines += [format_row(case, n) for n in SIZES for case in CASES]
        lines += ["", *compare_packages((*CASES, NO_LEAK))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = format_page()
    print(text)
    RESULTS.write_text(text, encoding="utf-8")
