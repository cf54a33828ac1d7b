"""How well an attack did: point estimates with confidence intervals over users.

Every interval, but the exact one of a share, is a percentile bootstrap over users, the unit that is
sampled: all replicates at once, as weights times per-user statistics. A bootstrap of n users is too
narrow by the bias of its variance, (n - 1) / n, and by the quantiles of Student's t over those of
the normal distribution: intervals are widened by both (Hesterberg 2015, What teachers should know
about the bootstrap); of one user nothing is told. A statistic that is the same for every user
leaves the bootstrap nothing to vary. Its interval then is the exact binomial one for n of n users:
others may be as different as can be, but no more of them than are missed by n with probability a/2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_confidence
from fedrec_auditor.auditor.games.curves import areas_and_heights

REPLICATES = 1000
POINTS = 60
"""Points of a curve that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value, its interval at ``confidence``, and the number of independent subjects."""

    value: float
    low: float
    high: float
    confidence: float
    n: int


def mean(
    values: NDArray[Any], *, confidence: float, rng: np.random.Generator, least: float = 0.0
) -> Estimate:
    """Mean of one value in [``least``, 1] a user: (n,)."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0 or not np.isfinite(data).all():
        raise InputError("Expected at least one finite value, got none or NaN. Repair the attack.")
    replicates = resampled(len(data), rng) @ data / len(data)
    return percentile_interval(float(data.mean()), replicates, len(data), confidence, least)


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
class RocBand:
    """A curve and its pointwise band: shares of members found at shares of non-members accused.

    ``fpr``, ``tpr``, ``low`` and ``high`` are (k,), evenly spaced in the logarithm of ``fpr`` from
    the resolution, 1 / number of non-members, up to 1.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc:
    """Area under the curve, shares of members found at chosen rates of accusation, and the curve.

    ``tpr`` has those rates that are not below the resolution. ``auc_gain`` and ``tpr_gain`` are how
    far these are above those of other scores, if there are some.
    """

    auc: Estimate
    tpr: Mapping[float, Estimate]
    band: RocBand
    auc_gain: Estimate | None = None
    tpr_gain: Mapping[float, Estimate] = field(default_factory=dict)


def auc(scores: NDArray[Any], members: NDArray[np.bool_]) -> float:
    """P(a member scores higher than a non-member) + P(tie) / 2, over candidates (m,)."""
    return float(_curve(scores, members, np.empty(0))[0])


def tpr_at_fpr(scores: NDArray[Any], members: NDArray[np.bool_], fpr: float) -> float:
    """Share of members found while at most ``fpr`` of the non-members are accused.

    Among equal scores the adversary accuses at random, so the curve is linear across ties.
    InputError if ``fpr`` is below the resolution, 1 / number of non-members.
    """
    _check_fpr(members, fpr)
    return float(_curve(scores, members, np.array([fpr]))[1])


def auc_of_users(
    scores: NDArray[Any], members: NDArray[np.bool_], users: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """``auc`` of each user's candidates alone, in ascending order of users: (n,).

    NaN for users without both kinds.
    """
    names, cluster = np.unique(users, return_inverse=True)
    order = np.lexsort((scores, cluster))
    ranked = scores[order]
    first = np.append(True, (np.diff(cluster[order]) != 0) | (ranked[1:] != ranked[:-1]))
    # Average rank of ties, among all candidates in this order; then among the user's own.
    rank = np.empty(len(scores))
    rank[order] = stats.rankdata(np.cumsum(first))
    sizes = np.bincount(cluster, minlength=len(names))
    held = np.bincount(cluster, weights=members, minlength=len(names))
    ranks = np.bincount(cluster, weights=members * rank, minlength=len(names))
    total = ranks - held * (np.cumsum(sizes) - sizes) - held * (held + 1) / 2
    pairs = held * (sizes - held)
    return np.asarray(np.divide(total, pairs, out=np.full(len(names), np.nan), where=pairs > 0))


def roc(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    users: NDArray[np.integer[Any]],
    *,
    fprs: Sequence[float],
    confidence: float,
    rng: np.random.Generator,
    trainings: NDArray[np.integer[Any]] | None = None,
    beside: NDArray[Any] | None = None,
) -> Roc:
    """``auc``, ``tpr_at_fpr`` at each of ``fprs`` and the curve, with intervals over users.

    Those of the gain over the scores ``beside`` (m,) are paired: both are of the same users drawn.

    ``users`` (m,) says whose each candidate is: candidates of one user are drawn in or out
    together, and the thresholds are found anew in each replicate. So are those of one of several
    ``trainings`` (m,), where chance is shared: a candidate then counts as often as its user is
    drawn times as often as its training is, which covers at least as often as is said (Owen 2007,
    The pigeonhole bootstrap).
    """
    names, cluster = np.unique(users, return_inverse=True)
    negatives = int(np.count_nonzero(~members))
    asked = [fpr for fpr in fprs if _resolved(fpr, negatives)]
    grid = np.geomspace(1 / max(negatives, 1), 1.0, POINTS)
    rates = np.concatenate([asked, grid])
    weights = resampled(len(names), rng)
    groups, group = np.unique(
        np.zeros_like(cluster) if trainings is None else trainings, return_inverse=True
    )
    again = resampled(len(groups), rng) if len(groups) > 1 else np.ones((REPLICATES, 1))

    def drawn(scored: NDArray[Any]) -> NDArray[np.float64]:
        return areas_and_heights(scored, members, rates, (cluster, group), (weights, again))

    value, replicates = _curve(scores, members, rates), drawn(scores)
    # A replicate without members or non-members has no curve.
    whole = np.isfinite(replicates[:, 0])
    n, k = len(names), 1 + len(asked)
    figures = _intervals(value[:k], replicates[whole, :k], n, confidence, 0.0)
    gains = []
    if beside is not None:
        gain = value - _curve(beside, members, rates)
        gained = (replicates - drawn(beside))[whole, :k]
        gains = _intervals(gain[:k], gained, n, confidence, -1.0)
    low, high = _between(value[k:], replicates[whole, k:], n, confidence, 0.0)
    return Roc(
        auc=figures[0],
        tpr=dict(zip(asked, figures[1:], strict=True)),
        band=RocBand(fpr=grid, tpr=value[k:], low=low, high=high),
        auc_gain=gains[0] if gains else None,
        tpr_gain=dict(zip(asked, gains[1:], strict=False)),
    )


def _curve(
    scores: NDArray[Any], members: NDArray[np.bool_], rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The area under the curve and its heights at ``rates`` (k,): (1 + k,)."""
    alike, once = np.zeros(len(scores), dtype=np.int64), np.ones((1, 1))
    (curve,) = areas_and_heights(scores, members, rates, (alike, alike), (once, once))
    return np.asarray(curve)


def _intervals(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    least: float,
) -> list[Estimate]:
    """The ``percentile_interval`` of each value, (k,) with (b, k)."""
    return [
        percentile_interval(float(value), some, n, confidence, least)
        for value, some in zip(values, replicates.T, strict=True)
    ]


def _resolved(fpr: float, negatives: int) -> bool:
    return 1.0 - 1e-9 <= fpr * negatives < negatives


def _check_fpr(members: NDArray[np.bool_], fpr: float) -> None:
    negatives = int(np.count_nonzero(~members))
    if not _resolved(fpr, negatives):
        raise InputError(
            f"Expected fpr in [1/{negatives}, 1), the resolution of {negatives} non-members, "
            f"got fpr={fpr!r}. Give more non-members or a larger fpr."
        )


def resampled(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each of n subjects is drawn in each replicate: (REPLICATES, n)."""
    draws = rng.integers(n, size=(REPLICATES, n)) + n * np.arange(REPLICATES)[:, None]
    counts = np.bincount(draws.ravel(), minlength=n * REPLICATES)
    return counts.reshape(REPLICATES, n).astype(np.float64)


def percentile_interval(
    value: float,
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    least: float = 0.0,
) -> Estimate:
    """Percentile interval in [``least``, 1], widened to the binomial one where nothing varies."""
    ends = _between(np.array([value]), replicates[:, None], n, confidence, least)
    low, high = (float(end[0]) for end in ends)
    missed = 1 - ((1 - confidence) / 2) ** (1 / n)
    if value - low <= 1e-9:
        low = value - missed * (value - least)
    if high - value <= 1e-9:
        high = value + missed * (1 - value)
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=n)


def _between(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    least: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the intervals of ``values`` (k,) by ``replicates`` (b, k) over n users: (k,) each."""
    tail = (1 - check_confidence(confidence)) / 2
    if n < 2:
        return np.full(len(values), least), np.ones(len(values))
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    wider = math.sqrt(n / (n - 1)) * stats.t.isf(tail, n - 1) / stats.norm.isf(tail)
    return (
        (values - wider * (values - low).clip(min=0)).clip(min=least),
        (values + wider * (high - values).clip(min=0)).clip(max=1.0),
    )
