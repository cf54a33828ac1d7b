"""How well an attack did: point estimates with confidence intervals over users.

Every interval, but the exact one of a share, is a percentile bootstrap over users, the unit that is
sampled: all replicates at once, as weights times per-user statistics. A statistic in [0, 1] that is
0 or 1 for every user leaves the bootstrap nothing to vary; its interval then is the exact binomial
one for n of n users (a mean m of values in [0, 1] makes n ones with probability at most m^n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_confidence

REPLICATES = 1000
# Numbers of one block of replicates: 32 MiB in float64.
_BLOCK = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value, its interval at ``confidence``, and the number of independent subjects."""

    value: float
    low: float
    high: float
    confidence: float
    n: int


def mean(values: NDArray[Any], *, confidence: float, rng: np.random.Generator) -> Estimate:
    """Mean of one value in [0, 1] a user: (n,)."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0 or not np.isfinite(data).all():
        raise InputError("Expected at least one finite value, got none or NaN. Repair the attack.")
    replicates = resampled(len(data), rng) @ data / len(data)
    return percentile_interval(float(data.mean()), replicates, len(data), confidence)


def share(successes: NDArray[np.bool_], *, confidence: float) -> Estimate:
    """Share of users of whom something is true, with the exact (Clopper-Pearson) interval."""
    n, k = len(successes), int(np.count_nonzero(successes))
    found = stats.binomtest(k, n).proportion_ci(check_confidence(confidence), method="exact")
    return Estimate(
        value=k / n, low=float(found.low), high=float(found.high), confidence=confidence, n=n
    )


def set_f1(guessed: NDArray[np.bool_], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """F1 of a guessed set for every user, (n, M) against (n, M); 1 where both are empty."""
    both = np.count_nonzero(guessed & truth, axis=1)
    sizes = np.count_nonzero(guessed, axis=1) + np.count_nonzero(truth, axis=1)
    return np.asarray(np.divide(2.0 * both, sizes, out=np.ones(len(sizes)), where=sizes > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc:
    """Area under the curve, and the share of members found at a share of non-members accused."""

    auc: Estimate
    tpr: Estimate


def auc(scores: NDArray[Any], members: NDArray[np.bool_]) -> float:
    """P(a member scores higher than a non-member) + P(tie) / 2, over candidates (m,)."""
    return float(_area(*_curves(scores, members))[0])


def tpr_at_fpr(scores: NDArray[Any], members: NDArray[np.bool_], fpr: float) -> float:
    """Share of members found while at most ``fpr`` of the non-members are accused.

    Among equal scores the adversary accuses at random, so the curve is linear across ties.
    InputError if ``fpr`` is below the resolution, 1 / number of non-members.
    """
    _check_fpr(members, fpr)
    return float(_height(*_curves(scores, members), fpr)[0])


def roc(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    users: NDArray[np.integer[Any]],
    *,
    fpr: float,
    confidence: float,
    rng: np.random.Generator,
) -> Roc:
    """``auc`` and ``tpr_at_fpr`` with intervals over users.

    ``users`` (m,) says whose each candidate is: candidates of one user are drawn in or out
    together, and the threshold at ``fpr`` is found anew in each replicate.
    """
    _check_fpr(members, fpr)
    names, cluster = np.unique(users, return_inverse=True)
    weights = resampled(len(names), rng)
    step = max(1, _BLOCK // len(scores))
    areas, heights = [], []
    for start in range(0, REPLICATES, step):
        curves = _curves(scores, members, weights[start : start + step, :], cluster)
        areas.append(_area(*curves))
        heights.append(_height(*curves, fpr))
    area, height = np.concatenate(areas), np.concatenate(heights)
    # A replicate without members or non-members has no curve.
    area, height = area[np.isfinite(area)], height[np.isfinite(height)]
    n = len(names)
    return Roc(
        auc=percentile_interval(auc(scores, members), area, n, confidence),
        tpr=percentile_interval(tpr_at_fpr(scores, members, fpr), height, n, confidence),
    )


def _check_fpr(members: NDArray[np.bool_], fpr: float) -> None:
    negatives = int(np.count_nonzero(~members))
    if not 1.0 - 1e-9 <= fpr * negatives < negatives:
        raise InputError(
            f"Expected fpr in [1/{negatives}, 1), the resolution of {negatives} non-members, "
            f"got fpr={fpr!r}. Give more non-members or a larger fpr."
        )


def _curves(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    weights: NDArray[np.float64] | None = None,
    cluster: NDArray[np.integer[Any]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Unnormalised ROC curves: weight of members, of non-members, at or above each distinct score.

    Each (b, g + 1), from 0 to the total, for b rows of cluster weights; b = 1 without weights.
    """
    if np.isnan(scores).any():
        raise InputError("Expected scores that are numbers, got NaN. Repair the attack.")
    if members.all() or not members.any():
        raise InputError("Expected members and non-members, got one kind only. Give both.")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    found = []
    for kind in (members, ~members):
        chosen = order[kind[order]]
        if weights is None or cluster is None:
            total = np.arange(len(chosen) + 1, dtype=np.float64)[None, :]
        else:
            total = np.zeros((len(weights), len(chosen) + 1))
            np.cumsum(weights[:, cluster[chosen]], axis=1, out=total[:, 1:])
        above = np.cumsum(kind[order])[ends]
        found.append(total[:, np.append(0, above)])
    return found[0], found[1]


def _area(hits: NDArray[np.float64], accused: NDArray[np.float64]) -> NDArray[np.float64]:
    """Trapezium rule, (b, g + 1) -> (b,): exact with ties."""
    area = np.einsum("bg,bg->b", hits[:, 1:] + hits[:, :-1], np.diff(accused, axis=1)) / 2
    whole = hits[:, -1] * accused[:, -1]
    return np.asarray(np.divide(area, whole, out=np.full(len(area), np.nan), where=whole > 0))


def _height(
    hits: NDArray[np.float64], accused: NDArray[np.float64], fpr: float
) -> NDArray[np.float64]:
    """Height of the curves where ``fpr`` of the non-members are accused, (b, g + 1) -> (b,)."""
    limit = fpr * accused[:, -1] * (1 + 1e-12)
    last = (accused <= limit[:, None]).sum(axis=1) - 1
    rows = np.arange(len(hits))
    after = np.minimum(last + 1, hits.shape[1] - 1)
    step = accused[rows, after] - accused[rows, last]
    part = np.divide(limit - accused[rows, last], step, out=np.zeros(len(rows)), where=step > 0)
    found = hits[rows, last] + part.clip(0, 1) * (hits[rows, after] - hits[rows, last])
    whole = hits[:, -1] * (accused[:, -1] > 0)
    return np.asarray(np.divide(found, whole, out=np.full(len(found), np.nan), where=whole > 0))


def resampled(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each of n subjects is drawn in each replicate: (REPLICATES, n)."""
    draws = rng.integers(n, size=(REPLICATES, n)) + n * np.arange(REPLICATES)[:, None]
    counts = np.bincount(draws.ravel(), minlength=n * REPLICATES)
    return counts.reshape(REPLICATES, n).astype(np.float64)


def percentile_interval(
    value: float, replicates: NDArray[np.float64], n: int, confidence: float
) -> Estimate:
    """Percentile interval, widened to the binomial one where nothing varies."""
    tail = (1 - check_confidence(confidence)) / 2
    low, high = (float(x) for x in np.quantile(replicates, [tail, 1 - tail]))
    if value >= 1 - 1e-9:
        low = min(low, tail ** (1 / n))
    if abs(value) <= 1e-9:
        high = max(high, 1 - tail ** (1 / n))
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), confidence=confidence, n=n
    )
