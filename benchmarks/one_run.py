"""One bound from 100,000 canaries of a single training: ours, and a scan over every count.

The scan is what the theorem of Steinke, Nasr and Jagielski 2023 says literally and what jax_privacy
computes: all terms of its maximum, at each epsilon that a root finder asks for. Delta is 1e-5, the
confidence 95%. The rest are what each way shows of ideal Gaussian scores (quantiles, the best
number of guesses) of a true epsilon; the note has the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, special, stats

from benchmarks import Row, best_of
from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.auditor.estimators.parts.one_run_guesses import OneRunGuesses
from fedrec_auditor.auditor.one_run import OneRunScores

DELTA, ALPHA = 1e-5, 0.05
COUNTS = ((100_000, 1_000, 990), (100_000, 20_000, 16_000), (100_000, 100_000, 80_000))
IDEAL = ((1.0, 10_000), (2.0, 10_000), (4.0, 1_000), (4.0, 10_000), (8.0, 10_000))


def scanned(m: int, r: int, v: int) -> float:
    """The same bound by a scan."""

    def excess(epsilon: float) -> float:
        q = special.expit(epsilon)
        tail = stats.binom.sf(v - 1, r, q)
        i = np.arange(1, v + 1)
        means = (stats.binom.sf(v - i - 1, r, q) - tail) / i
        return float(tail + 2 * m * DELTA * means.max() - ALPHA)

    return float(optimize.brentq(excess, 0.0, 12.0, xtol=1e-6))


def timed(m: int, r: int, v: int) -> list[Row]:
    found = OneRunGuesses(canaries=m, guesses=r, right=v)
    ways: dict[str, Callable[[], float]] = {
        "scan": lambda: scanned(m, r, v),
        "guesses": lambda: found.epsilon(delta=DELTA, alpha=ALPHA),
        "trade-off": lambda: found.trade_off_epsilon(delta=DELTA, alpha=ALPHA),
    }
    seconds = best_of(ways)
    job = f"{v:,} of {r:,} guesses right, {m:,} canaries"
    return [
        Row(
            job=job,
            way=way,
            seconds=seconds[way],
            work=1,
            unit="bounds",
            note=f"epsilon {ask():.4f}",
        )
        for way, ask in ways.items()
    ]


def ideal(truth: float, m: int) -> Row:
    """The best bounds of quantile scores, and the median of ten default calls on drawn ones."""
    n, mu = m // 2, gaussian_mu(truth, DELTA)
    scores = special.ndtri((np.arange(n) + 0.5) / n)
    right = np.cumsum(np.argsort(-np.concatenate([scores + mu, scores]), kind="stable") < n)
    sizes = np.unique(np.geomspace(10, m / 5, 120).astype(int)).tolist()
    ones = [
        OneRunGuesses(canaries=m, guesses=r, right=int(right[r - 1]), both=False) for r in sizes
    ]
    twos = [OneRunGuesses(canaries=m, guesses=2 * r, right=2 * int(right[r - 1])) for r in sizes]
    methods = (
        ("guesses", OneRunGuesses.epsilon),
        ("trade-off", OneRunGuesses.trade_off_epsilon),
        ("Gaussian", OneRunGuesses.gaussian_epsilon),
    )
    parts = []
    for name, method in methods:
        best = [
            max(method(each, delta=DELTA, alpha=ALPHA) for each in side) for side in (ones, twos)
        ]
        parts.append(f"{name} {best[0]:.3f} / {best[1]:.3f}")

    def drawn(seed: int) -> float:
        rng = np.random.default_rng(seed)
        included = rng.random(m) < 0.5
        return OneRunScores.of(rng.normal(mu * included), included).bound(delta=DELTA).epsilon

    seconds = best_of({"auto": lambda: drawn(0)})["auto"]
    median = float(np.median([drawn(seed) for seed in range(10)]))
    return Row(
        job=f"ideal Gaussian of epsilon {truth:g}, {m:,} canaries",
        way="one default call",
        seconds=seconds,
        work=m,
        unit="canaries",
        note=f"one side / two: {'; '.join(parts)}; the call on drawn scores {median:.3f}",
    )


def measure() -> tuple[Row, ...]:
    rows = [row for counts in COUNTS for row in timed(*counts)]
    return (*rows, *(ideal(*each) for each in IDEAL))
