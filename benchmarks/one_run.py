"""Lower bound of epsilon from 100,000 canaries of one training: ours, and a scan over every count.

The scan is the theorem of Steinke, Nasr and Jagielski 2023 as it stands, like that of jax_privacy:
all terms of its maximum, at each epsilon that a root finder tries. Delta is 1e-5, the confidence
95%.

The other rows show each theorem's bound for ideal Gaussian scores of a true epsilon: the quantiles
(i + 1/2) / n of the two distributions. The number of guesses is the best of 120, without correction
for the choice.

- jax_privacy guesses one side only, and has only the Gaussian curve. It is called with `Explicit`
  thresholds at the same numbers of guesses.
- "Gaussian" counts canaries as jax_privacy does, without our halved curve for guesses of one side.
- "Two samples" is not a one-run bound. It treats the scores as those of independent trainings, with
  one threshold, two Clopper-Pearson limits, and the Gaussian curve through them.
- Numbers in brackets are reference bounds, whose thresholds we do not know. None exceeds ours, and
  all are within .07 of ours; a coarser grid of thresholds would explain that. jax_privacy at our
  thresholds has our bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from benchmarks import Row, time_best
from benchmarks._peers import ERROR, Scores, try_import
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon, find_gaussian_mu
from fedrec_auditor.auditor.worlds.guesses import clopper_pearson_lower, clopper_pearson_upper
from fedrec_auditor.auditor.worlds.one_run import OneRunGuesses
from fedrec_auditor.auditor.worlds.scores import OneRunScores

DELTA, ALPHA = 1e-5, ERROR
COUNTS = ((100_000, 1_000, 990), (100_000, 20_000, 16_000), (100_000, 100_000, 80_000))
REFERENCE_BOUNDS = {
    (1.0, 10_000): (0.401, 0.473, 0.497, 0.719),
    (2.0, 10_000): (0.938, 1.075, 1.159, 1.689),
    (4.0, 1_000): (1.312, 1.568, 1.884, 2.878),
    (4.0, 10_000): (1.967, 2.171, 2.495, 3.642),
    (8.0, 10_000): (3.587, 3.929, 4.974, 7.543),
}
"""Reference bounds by (true epsilon, canaries): one side, two sides, Gaussian, two samples."""
PEER = "jax_privacy"


def scan_counts(m: int, r: int, v: int) -> float:
    """The bound of epsilon for v of r right guesses on m canaries, by a scan of all counts."""

    def compute_excess(epsilon: float) -> float:
        q = special.expit(epsilon)
        tail = stats.binom.sf(v - 1, r, q)
        i = np.arange(1, v + 1)
        means = (stats.binom.sf(v - i - 1, r, q) - tail) / i
        return float(tail + 2 * m * DELTA * means.max() - ALPHA)

    return float(optimize.brentq(compute_excess, 0.0, 12.0, xtol=1e-6))


def time_bounds(m: int, r: int, v: int) -> list[Row]:
    """Times of each bound for v right ones of r guesses on m canaries."""
    found = OneRunGuesses(n_canaries=m, n_guesses=r, n_right=v)
    ways: dict[str, Callable[[], float]] = {
        "scan": lambda: scan_counts(m, r, v),
        "guesses": lambda: found.bound_epsilon(delta=DELTA, alpha=ALPHA),
        "trade-off": lambda: found.bound_epsilon_by_curve(delta=DELTA, alpha=ALPHA),
    }
    module, label = try_import(PEER)
    if module is not None:
        inside = np.arange(max(v, m // 2)) < v
        outside = np.arange(m - len(inside)) < r - v
        auditor = module.CanaryScoreAuditor(inside.astype(float), outside.astype(float))
        explicit = module.Explicit(1.0)
        ways[label] = lambda: auditor.epsilon_one_run(ALPHA, DELTA, threshold_strategy=explicit)
    seconds = time_best(ways)
    job = f"{v:,} of {r:,} guesses right, {m:,} canaries"
    rows = [
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
    if module is None:
        rows.append(Row(job=job, way=PEER, seconds=math.nan, work=0, unit="bounds", note=label))
    return rows


def time_drawn_scores(m: int = 100_000) -> list[Row]:
    """Times of a lower bound from drawn scores of m canaries, by ours and by jax_privacy."""
    rng = np.random.default_rng(0)
    included = rng.random(m) < 0.5
    scores = rng.normal(find_gaussian_mu(4.0, DELTA) * included)
    ways: dict[str, Callable[[], float]] = {
        each: lambda each=each: (
            OneRunScores.build(scores, included).bound(delta=DELTA, estimator=each).epsilon
        )
        for each in ("auto", "guesses")
    }
    module, label = try_import(PEER)
    if module is not None:
        split = module.HoldOut(seed=0)
        ways[f"{label}, split"] = lambda: module.CanaryScoreAuditor(
            scores[included], scores[~included]
        ).epsilon_one_run(ALPHA, DELTA, threshold_strategy=split)
    seconds = time_best(ways)
    return [
        Row(
            job=f"drawn Gaussian scores of epsilon 4, {m:,} canaries",
            way=way,
            seconds=seconds[way],
            work=m,
            unit="canaries",
            note=f"epsilon {ask():.4f}",
        )
        for way, ask in ways.items()
    ]


def bound_ideal_scores(truth: float, m: int) -> Row:
    """Best bounds of each method on ideal Gaussian scores of epsilon ``truth``, m canaries.

    The row also has the median of ten bounds on drawn scores.
    """
    n, mu = m // 2, find_gaussian_mu(truth, DELTA)
    quantiles = special.ndtri((np.arange(n) + 0.5) / n)
    scores = np.concatenate([quantiles + mu, quantiles])
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(order < n)
    sizes = np.unique(np.geomspace(10, m / 5, 120).astype(int)).tolist()

    def count_guesses(r: int, sides: int) -> OneRunGuesses:
        v = int(right[r - 1])
        return OneRunGuesses(
            n_canaries=m, n_guesses=sides * r, n_right=sides * v, is_two_sided=sides == 2
        )

    def find_best(method: Callable[..., float], sides: int) -> float:
        return max(method(count_guesses(r, sides), delta=DELTA, alpha=ALPHA) for r in sizes)

    def bound_like_jax(r: int) -> float:
        found = OneRunGuesses(n_canaries=m, n_guesses=r, n_right=int(right[r - 1]))
        return bound_by_gaussian(found)

    ours = (
        find_best(OneRunGuesses.bound_epsilon, 1),
        find_best(OneRunGuesses.bound_epsilon, 2),
        max(bound_like_jax(r) for r in sizes),
        _bound_two_samples(right, n),
    )
    names = ("guesses, one side", "two sides", "Gaussian", "two samples")
    parts = [
        f"{name} {value:.3f} ({given:.3f})"
        for name, value, given in zip(names, ours, REFERENCE_BOUNDS[truth, m], strict=True)
    ]
    parts += [f"trade-off, two sides {find_best(OneRunGuesses.bound_epsilon_by_curve, 2):.3f}"]
    module, label = try_import(PEER)
    if module is not None:
        theirs = _bound_by_jax(module, scores[:n], scores[n:], scores[order[np.array(sizes) - 1]])
        parts.append(f"{label}: guesses, one side {theirs[0]:.3f}, Gaussian {theirs[1]:.3f}")
    else:
        parts.append(f"{PEER}: {label}")

    def bound_drawn_scores(seed: int) -> float:
        rng = np.random.default_rng(seed)
        included = rng.random(m) < 0.5
        return OneRunScores.build(rng.normal(mu * included), included).bound(delta=DELTA).epsilon

    seconds = time_best({"auto": lambda: bound_drawn_scores(0)})["auto"]
    median = float(np.median([bound_drawn_scores(seed) for seed in range(10)]))
    return Row(
        job=f"ideal Gaussian of epsilon {truth:g}, {m:,} canaries",
        way="one default call",
        seconds=seconds,
        work=m,
        unit="canaries",
        note=f"{'; '.join(parts)}; the call on drawn scores {median:.3f}",
    )


def make_gaussian_inverse(mu: float) -> Callable[[float], float]:
    """The inverse of 1 - f, for the trade-off f of unit normal distributions ``mu`` apart."""
    return lambda y: float(special.ndtr(special.ndtri(y) - mu))


def bound_by_gaussian(found: OneRunGuesses) -> float:
    """Epsilon of the smallest ``mu`` that explains the guesses, if the trade-off is Gaussian."""
    # The project has no such estimator, because it may be wrong for other mechanisms.
    return find_gaussian_epsilon(DELTA, found.find_max_refuted_param(make_gaussian_inverse, ALPHA))


def _bound_two_samples(right: NDArray[np.int64], n: int) -> float:
    """Gaussian epsilon at the best threshold of two samples of n scores each."""
    guesses = np.arange(1, n + 1)
    hits, misses = right[:n], guesses - right[:n]
    apart = special.ndtri(clopper_pearson_lower(hits, n, ALPHA / 2)) - special.ndtri(
        clopper_pearson_upper(misses, n, ALPHA / 2)
    )
    return find_gaussian_epsilon(DELTA, float(apart.max()))


def _bound_by_jax(
    module: Any, inside: Scores, outside: Scores, thresholds: Scores
) -> tuple[float, float]:
    """The best bounds of jax_privacy over ``thresholds``: by guesses, and by the Gaussian curve."""
    auditor = module.CanaryScoreAuditor(inside, outside)
    methods = (auditor.epsilon_one_run, auditor.epsilon_one_run_fdp)
    one, curve = (
        max(
            method(ALPHA, DELTA, threshold_strategy=module.Explicit(threshold))
            for threshold in thresholds.tolist()
        )
        for method in methods
    )
    return float(one), float(curve)


def measure() -> tuple[Row, ...]:
    rows = [row for counts in COUNTS for row in time_bounds(*counts)]
    return (*rows, *time_drawn_scores(), *(bound_ideal_scores(*each) for each in REFERENCE_BOUNDS))
