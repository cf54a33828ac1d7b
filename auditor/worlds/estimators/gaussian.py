"""A lower bound on epsilon if scores are Gaussian, with a test of whether they are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.auditor.worlds.estimators.base import (
    Asked,
    Assumption,
    Limit,
    Rates,
    RuleAndLimit,
    Seen,
)
from fedrec_auditor.auditor.worlds.estimators.parts.sample import drawn_scores
from fedrec_auditor.auditor.worlds.worlds import Worlds

Scores = NDArray[np.float64]
_TEST_LEVEL = 0.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class GaussianEstimator(RuleAndLimit):
    """Holds at the stated confidence if scores of both worlds are Gaussian with one deviation.

    The means' distance over the common deviation is bounded by Student's noncentral t; epsilon
    follows at any delta. Before, the assumption is tested, at one per cent together: normality of
    both worlds (skewness and kurtosis, D'Agostino and Pearson 1973) and equal variances (F test).
    Where a test rejects it, the bound is 0 and says so; that no test does proves nothing. All
    scores are kept, 8 bytes each.

    >>> from fedrec_auditor.auditor.worlds.sampler import Sampler
    >>> worlds = Sampler.of(lambda x, rng, size: rng.normal(x, 1.0, size)).worlds([0.0, 1.0])
    >>> bound = GaussianEstimator().bound(
    ...     worlds, delta=1e-5, confidence=0.95, samples=1000, rng=np.random.default_rng(0)
    ... )
    >>> print(f"at least {bound.epsilon:.1f}, and in truth 4.4")
    at least 3.9, and in truth 4.4
    """

    conditional: ClassVar[Assumption] = Assumption.GAUSSIAN
    reference = "noncentral t of two means; Balle and Wang 2018 for epsilon"
    source = "means of Gaussian scores"
    assumptions = ("scores are Gaussian with one deviation in both worlds",)

    def look(self, worlds: Worlds, asked: Asked, rng: np.random.Generator) -> Seen:
        """All scores; an output is one number."""
        scores = drawn_scores(worlds, worlds.sizes(asked.samples), rng)
        pairs = list(itertools.combinations(range(len(scores)), 2))
        refusal = _not_gaussian(scores)

        def limit(alpha: float) -> Limit:
            shown = [_least_mu(scores[a], scores[b], alpha / len(pairs)) for a, b in pairs]
            mu, (a, b) = max(zip(shown, pairs, strict=True))
            event = f"means {scores[a].mean():.6g} and {scores[b].mean():.6g}"
            note = (
                f"at least {mu:.4g} deviations apart; the probabilities are those of the half of "
                "the scores on one side"
            )
            chances = special.ndtr(mu / 2), special.ndtr(-mu / 2)
            if refusal:
                return Limit(0.0)
            epsilon = gaussian_epsilon(asked.delta, mu)
            return Limit(epsilon, witness=worlds.witness((a, b), event, chances, note))

        return Seen(sum(map(len, scores)), limit, refusal)

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """See ``RuleAndLimit``; infinite of means without noise."""
        apart = float((special.ndtri(rates[0]) - special.ndtri(rates[1])).max())
        if math.isinf(apart):
            return math.inf
        t = apart / np.sqrt(2 / samples)
        return gaussian_epsilon(delta, _least_apart(t, samples, samples, alpha))


def _not_gaussian(scores: Sequence[Scores]) -> str:
    """Why these are no Gaussians of one deviation, at ``_TEST_LEVEL``; nothing if none is known."""
    level = _TEST_LEVEL / (len(scores) + comb(len(scores), 2))
    for values in scores:
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            return "; 0, for scores are constant or infinite, not Gaussian"
        p = float(stats.normaltest(values).pvalue)
        if p < level:
            return f"; 0, for a test rejects that they are Gaussian (p = {p:.1e})"
    for one, other in itertools.combinations(scores, 2):
        ratio = float(one.var(ddof=1) / other.var(ddof=1))
        freedom = len(one) - 1, len(other) - 1
        p = 2 * float(min(stats.f.cdf(ratio, *freedom), stats.f.sf(ratio, *freedom)))
        if p < level:
            return f"; 0, for a test rejects that their deviations are equal (p = {p:.1e})"
    return ""


def _least_mu(one: Scores, other: Scores, alpha: float) -> float:
    """The least distance of the means in deviations, at level 1 - ``alpha`` in either direction."""
    n, m = len(one), len(other)
    pooled = ((n - 1) * one.var(ddof=1) + (m - 1) * other.var(ddof=1)) / (n + m - 2)
    if pooled == 0 or not np.isfinite(pooled):
        return 0.0
    t = abs(float(one.mean() - other.mean())) / (np.sqrt(pooled) * np.sqrt(1 / n + 1 / m))
    return _least_apart(t, n, m, alpha)


def _least_apart(t: float, n: int, m: int, alpha: float) -> float:
    """The same where Student's t of ``n`` and ``m`` scores is so large."""
    freedom, scale = n + m - 2, np.sqrt(1 / n + 1 / m)
    if stats.t.sf(t, freedom) >= alpha / 2:
        return 0.0
    # A noncentral t is above t with the chance P(Z + shift > t S), where S is the root of a
    # chi-square over its degrees: integrated over the quantiles of S.
    spread = np.sqrt(special.chdtri(freedom, (1 - _NODES) / 2) / freedom)
    low, high = 0.0, t
    for _ in range(60):
        middle = (low + high) / 2
        beyond = float(special.ndtr(middle - t * spread) @ _WEIGHTS) / 2
        low, high = (low, middle) if beyond >= alpha / 2 else (middle, high)
    return low * float(scale)
