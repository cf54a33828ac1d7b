"""Metrics of attacks: success with intervals over users, and by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import check_confidence
from fedrec_auditor.attacks.parts.supervised import f1_of_classes, macro_f1, placements
from fedrec_auditor.targets.compiled import compiled

# Success of an attack: point estimates with confidence intervals over users.
#
# Every interval is a percentile bootstrap over users, the unit that is sampled, except the exact
# interval of a share. All replicates are computed at once, as weights times per-user statistics. A
# bootstrap of n users is too narrow in two ways: its variance is biased by (n - 1) / n, and
# quantiles of Student's t exceed the quantiles of the normal distribution. Intervals are widened by
# both factors (Hesterberg 2015, What teachers should know about the bootstrap). The interval of a
# single user is the whole range. If a statistic is the same for every user, the bootstrap does not
# vary, and the interval is the exact binomial one for n of n users: users outside of the sample may
# differ in any way, but their share is at most the one that a sample of n misses with probability
# a/2.

REPLICATES = 1000
POINTS = 60
"""Number of points at which a curve is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value, its interval at ``confidence``, and the number of independent subjects."""

    value: float
    low: float
    high: float
    confidence: float
    n: int


def mean(
    values: NDArray[Any], *, confidence: float, rng: np.random.Generator, min_value: float = 0.0
) -> Estimate:
    """Mean of values (n,), one in [``min_value``, 1] per user, with its bootstrap interval."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0 or not np.isfinite(data).all():
        raise InputError("Expected at least one finite value, got none or NaN. Correct the attack.")
    replicates = draw_weights(len(data), rng) @ data / len(data)
    return percentile_interval(float(data.mean()), replicates, len(data), confidence, min_value)


def share(successes: NDArray[np.bool_], *, confidence: float) -> Estimate:
    """Share of true entries, one per user, with the exact (Clopper-Pearson) interval."""
    n, k = len(successes), int(np.count_nonzero(successes))
    ends = stats.binomtest(k, n).proportion_ci(check_confidence(confidence), method="exact")
    return Estimate(
        value=k / n, low=float(ends.low), high=float(ends.high), confidence=confidence, n=n
    )


def set_f1(guessed: NDArray[np.bool_], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """F1 of each user's guessed set of items, (n,), from flags (n, M); 1 if both are empty."""
    both = np.count_nonzero(guessed & truth, axis=1)
    sizes = np.count_nonzero(guessed, axis=1) + np.count_nonzero(truth, axis=1)
    return np.asarray(np.divide(2.0 * both, sizes, out=np.ones(len(sizes)), where=sizes > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RocBand:
    """ROC curve with its pointwise confidence band, at k false positive rates.

    ``fpr``: share of non-members that are accused (k,), evenly spaced in its logarithm from the
        resolution, 1 / number of non-members, up to 1.
    ``tpr``: share of members that are found (k,).
    ``low``, ``high``: ends of the interval of ``tpr`` (k,).
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc:
    """ROC curve of an attack, its area, and true positive rates at chosen false positive rates.

    ``auc``: area under the curve.
    ``tpr``: true positive rate by false positive rate; rates below the resolution are absent.
    ``band``: the curve and its band.
    ``auc_gain``, ``tpr_gain``: difference of ``auc`` and ``tpr`` from the baseline's; None and
        empty without a baseline.
    """

    auc: Estimate
    tpr: Mapping[float, Estimate]
    band: RocBand
    auc_gain: Estimate | None = None
    tpr_gain: Mapping[float, Estimate] = field(default_factory=dict)


def auc(scores: NDArray[Any], members: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: P(a member scores above a non-member) + P(tie) / 2."""
    return float(_curve(scores, members, np.empty(0))[0])


def tpr_at_fpr(scores: NDArray[Any], members: NDArray[np.bool_], fpr: float) -> float:
    """True positive rate: share of members found while at most ``fpr`` of non-members are accused.

    Among equal scores the adversary accuses at random, so the curve is linear across ties.
    InputError if ``fpr`` is below the resolution, 1 / number of non-members.
    """
    _check_fpr(members, fpr)
    return float(_curve(scores, members, np.array([fpr]))[1])


def auc_of_users(
    scores: NDArray[Any], members: NDArray[np.bool_], users: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Computes ``auc`` over the candidates of each user separately: (n,), users ascending.

    NaN for users without members or without non-members.
    """
    names, cluster = np.unique(users, return_inverse=True)
    order = np.lexsort((scores, cluster))
    ranked = scores[order]
    first = np.append(True, (np.diff(cluster[order]) != 0) | (ranked[1:] != ranked[:-1]))
    # Average rank of ties among all candidates in this order, then within each user's candidates.
    rank = np.empty(len(scores))
    rank[order] = stats.rankdata(np.cumsum(first))
    sizes = np.bincount(cluster, minlength=len(names))
    positives = np.bincount(cluster, weights=members, minlength=len(names))
    ranks = np.bincount(cluster, weights=members * rank, minlength=len(names))
    total = ranks - positives * (np.cumsum(sizes) - sizes) - positives * (positives + 1) / 2
    pairs = positives * (sizes - positives)
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
    baseline: NDArray[Any] | None = None,
) -> Roc:
    """Computes the ROC curve, its area and its height at ``fprs``, with intervals over users.

    ``scores``: score per candidate (m,).
    ``members``: whether each candidate is a member (m,).
    ``users``: user of each candidate (m,). Candidates of one user are resampled together, and
        thresholds are recomputed in each replicate.
    ``fprs``: false positive rates; rates below the resolution are left out.
    ``trainings``: training of each candidate (m,), if several trainings share randomness. They are
        resampled, too: the weight of a candidate is the number of draws of its user times the
        number of draws of its training, which covers at least as often as stated (Owen 2007, The
        pigeonhole bootstrap).
    ``baseline``: other scores of the candidates (m,). The interval of the gain is paired: both
        curves are computed from the same resampled users.
    """
    names, cluster = np.unique(users, return_inverse=True)
    negatives = int(np.count_nonzero(~members))
    resolved = [fpr for fpr in fprs if _is_resolved(fpr, negatives)]
    grid = np.geomspace(1 / max(negatives, 1), 1.0, POINTS)
    rates = np.concatenate([resolved, grid])
    weights = draw_weights(len(names), rng)
    groups, group = np.unique(
        np.zeros_like(cluster) if trainings is None else trainings, return_inverse=True
    )
    again = draw_weights(len(groups), rng) if len(groups) > 1 else np.ones((REPLICATES, 1))

    def drawn(scored: NDArray[Any]) -> NDArray[np.float64]:
        return areas_and_heights(scored, members, rates, (cluster, group), (weights, again))

    value, replicates = _curve(scores, members, rates), drawn(scores)
    # A replicate without members or non-members has no curve.
    whole = np.isfinite(replicates[:, 0])
    n, k = len(names), 1 + len(resolved)
    figures = _intervals(value[:k], replicates[whole, :k], n, confidence, 0.0)
    gains = []
    if baseline is not None:
        gain = value - _curve(baseline, members, rates)
        gained = (replicates - drawn(baseline))[whole, :k]
        gains = _intervals(gain[:k], gained, n, confidence, -1.0)
    low, high = _interval_ends(value[k:], replicates[whole, k:], n, confidence, 0.0)
    return Roc(
        auc=figures[0],
        tpr=dict(zip(resolved, figures[1:], strict=True)),
        band=RocBand(fpr=grid, tpr=value[k:], low=low, high=high),
        auc_gain=gains[0] if gains else None,
        tpr_gain=dict(zip(resolved, gains[1:], strict=False)),
    )


def _curve(
    scores: NDArray[Any], members: NDArray[np.bool_], rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Area under the curve and its heights at ``rates`` (k,): (1 + k,)."""
    cluster, once = np.zeros(len(scores), dtype=np.int64), np.ones((1, 1))
    (curve,) = areas_and_heights(scores, members, rates, (cluster, cluster), (once, once))
    return np.asarray(curve)


def _intervals(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    min_value: float,
) -> list[Estimate]:
    """``percentile_interval`` of each of ``values`` (k,), by ``replicates`` (b, k)."""
    return [
        percentile_interval(float(value), some, n, confidence, min_value)
        for value, some in zip(values, replicates.T, strict=True)
    ]


def _is_resolved(fpr: float, negatives: int) -> bool:
    return 1.0 - 1e-9 <= fpr * negatives < negatives


def _check_fpr(members: NDArray[np.bool_], fpr: float) -> None:
    negatives = int(np.count_nonzero(~members))
    if not _is_resolved(fpr, negatives):
        raise InputError(
            f"Expected fpr in [1/{negatives}, 1), the resolution of {negatives} non-members, "
            f"got fpr={fpr!r}. Give more non-members or a larger fpr."
        )


def draw_weights(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws the number of times that each of n subjects occurs per replicate: (REPLICATES, n)."""
    draws = rng.integers(n, size=(REPLICATES, n)) + n * np.arange(REPLICATES)[:, None]
    counts = np.bincount(draws.ravel(), minlength=n * REPLICATES)
    return counts.reshape(REPLICATES, n).astype(np.float64)


def percentile_interval(
    value: float, replicates: NDArray[np.float64], n: int, confidence: float, min_value: float = 0.0
) -> Estimate:
    """Percentile interval in [``min_value``, 1]; an end without variation is the binomial one."""
    ends = _interval_ends(np.array([value]), replicates[:, None], n, confidence, min_value)
    low, high = (float(end[0]) for end in ends)
    missed = 1 - ((1 - confidence) / 2) ** (1 / n)
    if value - low <= 1e-9:
        low = value - missed * (value - min_value)
    if high - value <= 1e-9:
        high = value + missed * (1 - value)
    return Estimate(value=value, low=low, high=high, confidence=confidence, n=n)


def _interval_ends(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    min_value: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends (k,) of intervals of ``values`` (k,), by ``replicates`` (b, k)."""
    tail = (1 - check_confidence(confidence)) / 2
    if n < 2:
        return np.full(len(values), min_value), np.ones(len(values))
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    wider = math.sqrt(n / (n - 1)) * stats.t.isf(tail, n - 1) / stats.norm.isf(tail)
    return (
        (values - wider * (values - low).clip(min=0)).clip(min=min_value),
        (values + wider * (high - values).clip(min=0)).clip(max=1.0),
    )


# ROC curves of many weightings of the same candidates at once, compiled.


def areas_and_heights(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    rates: NDArray[np.float64],
    clusters: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Area under the ROC curve, and its heights at ``rates``, for b weightings: (b, 1 + k).

    ``scores``, ``members``: score of each candidate (m,), and whether it is a member (m,).
    ``rates``: false positive rates (k,).
    ``clusters``: user and training of each candidate (m,).
    ``weights``: weight of each user (b, users) and of each training (b, trainings); the weight of a
        candidate is the product of both.

    Curves are linear across equal scores. NaN if a weighting leaves no members or no non-members.
    InputError if ``scores`` contain NaN, or if all candidates are members or all are not.
    """
    if np.isnan(scores).any():
        raise InputError("Expected scores that are numbers, got NaN. Correct the attack.")
    if members.all() or not members.any():
        raise InputError("Expected members and non-members, got only one of both. Give both.")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    ascending = np.argsort(rates, kind="stable")
    totals = [_total(kind, clusters, weights) for kind in (members, ~members)]
    results = np.full((len(weights[0]), 1 + len(rates)), np.nan)
    users, trainings = (cluster[order].astype(np.uint32) for cluster in clusters)
    _fill(
        (members[order].astype(np.float64), last, users, trainings),
        weights,
        (totals[0], totals[1]),
        (rates[ascending], ascending + 1),
        results,
    )
    return results


def _total(
    chosen: NDArray[np.bool_],
    clusters: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Total weight of the ``chosen`` candidates (m,) in each weighting: (b,)."""
    counts = np.zeros([part.shape[1] for part in weights])
    np.add.at(counts, tuple(cluster[chosen] for cluster in clusters), 1.0)
    return np.asarray(np.einsum("bt,bt->b", weights[0] @ counts, weights[1]))


@compiled()
def _fill(
    candidates: tuple[
        NDArray[np.float64], NDArray[np.bool_], NDArray[np.uint32], NDArray[np.uint32]
    ],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
    totals: tuple[NDArray[np.float64], NDArray[np.float64]],
    rates: tuple[NDArray[np.float64], NDArray[np.int64]],
    results: NDArray[np.float64],
) -> None:
    """Fills ``results`` (b, 1 + k).

    ``candidates``: in descending order of scores, four arrays (m,): 1 for a member and 0 for a
        non-member, whether the candidate is the last of equal scores, its user, its training.
    ``totals``: total weight of members and of non-members (b,).
    ``rates``: ascending false positive rates, and the column of ``results`` for each.
    """
    is_member, is_last, users, trainings = candidates
    of_users, of_trainings = weights
    limits = np.full(len(rates[0]) + 1, np.inf)  # the last is never passed
    for b in range(len(results)):
        all_hits, all_others = totals[0][b], totals[1][b]
        if all_hits == 0 or all_others == 0:
            continue
        limits[:-1] = all_others * rates[0] * (1 + 1e-12)
        hits = alarms = hits_above = alarms_above = area = 0.0
        k = 0
        for i in range(len(users)):
            weight = of_users[b, users[i]] * of_trainings[b, trainings[i]]
            hits += weight * is_member[i]
            alarms += weight * (1 - is_member[i])
            if is_last[i]:
                area += (hits_above + hits) * (alarms - alarms_above)
                while limits[k] < alarms:
                    part = (limits[k] - alarms_above) / (alarms - alarms_above)
                    results[b, rates[1][k]] = (hits_above + part * (hits - hits_above)) / all_hits
                    k += 1
                hits_above, alarms_above = hits, alarms
        results[b, 0] = area / 2 / (all_hits * all_others)
        results[b, rates[1][k:]] = 1.0


# Success of guesses of classes, over users and draws of the known users: averages of F1, AUC.
#
# An interval covers two sources of variation. The first is the sample of users: percentile
# bootstrap of the mean over draws. For AUC, placement values are used instead (DeLong et al. 1988),
# on the scale of log-odds, where the interval of few users errs as often on one side as on the
# other (Qin and Hotilovac 2008). The second is the draw of the known users: Student's t over the
# draws' figures. The two half-widths are added in squares, the square-and-add rule (Zou and Donner
# 2008). Draws are tested on users that partly differ, so the second source includes some of the
# first: the interval errs on the wide side.
#
# In a class with few users all guesses may be right, or all wrong, so that no replicate varies. The
# replicates of macro F1, and of its gain over other guesses of the same users, are therefore
# computed a second time with half a user more in each class, whose guess is right with probability
# 1/2 (for shares, Agresti and Coull 1998); the interval contains the intervals of both. For
# balanced accuracy, a class without users in the sample counts as 0 in one computation and as 1 in
# another.

CLASS_KNOWN = -1
MACRO, BALANCED, AUC, CERTAIN = "macro F1", "balanced accuracy", "AUC", "read for certain"
GAIN = "gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """Guesses of the class of each of n users, in r draws of the known users.

    ``truth``: code of each user's class (n,).
    ``guessed``: guessed codes (r, n); ``CLASS_KNOWN`` for a user whose class is known in that draw.
    ``classes``: number C of classes.
    ``scores``: score of each class (r, n, C), larger if it is more likely; or None.
    ``shares``: probability of guessing each class, independent of the user (r, C), for a random
        guesser; or None. If given, tallies have expected hits, and ``guessed`` only marks
        ``CLASS_KNOWN``.
    """

    truth: NDArray[np.int64]
    guessed: NDArray[np.int64]
    classes: int
    scores: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None

    @property
    def tallies(self) -> NDArray[np.float64]:
        """One-hot codes (r, n, 3, C) of the class if guessed right, the class, and the guess."""
        eye = np.eye(self.classes + 1, self.classes)  # the last row is 0: a guess of no class
        is_unknown = (self.guessed != CLASS_KNOWN)[:, :, None]
        truth = eye[self.truth][None] * is_unknown
        guess = eye[self.guessed] if self.shares is None else self.shares[:, None]
        guessed = guess * is_unknown
        return np.stack([truth * guessed, truth, guessed], axis=2)


def _weighted_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the classes' F1, weighted by their frequency."""
    return ratio(
        (f1_of_classes(tally) * tally[..., 1, :]).sum(axis=-1), tally[..., 1, :].sum(axis=-1)
    )


def _micro_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of all guesses together: the share of right guesses."""
    return ratio(tally[..., 0, :].sum(axis=-1), tally[..., 1, :].sum(axis=-1))


def _balanced(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean recall of the classes that occur."""
    recalls = ratio(tally[..., 0, :], tally[..., 1, :]).sum(axis=-1)
    return ratio(recalls, (tally[..., 1, :] > 0).sum(axis=-1).astype(np.float64))


_FIGURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    MACRO: macro_f1,
    "micro F1": _micro_f1,
    "weighted F1": _weighted_f1,
    BALANCED: _balanced,
}


def estimates(
    guess: Guesses, *, confidence: float, rng: np.random.Generator, baseline: Guesses | None = None
) -> dict[str, Estimate]:
    """Every figure of ``guess``, a mean over draws, with its interval; no AUC without scores.

    ``GAIN`` is the macro F1 minus the macro F1 of ``baseline``, in the same draws.
    """
    tallies = guess.tallies
    _, n, _, classes = tallies.shape
    subjects = int(np.count_nonzero(tallies.any(axis=(0, 2, 3))))
    weights = draw_weights(n, rng)
    per_draw, replicates = tallies.sum(axis=1), _replicates(tallies, weights)
    occurring = float((per_draw[:, 1] > 0).mean())
    # Half a user more of each class, guessed right with probability 1/2: (b, 3, C).
    right = rng.integers(2, size=(len(weights), classes)) / 2
    coins = np.stack([right, np.full(right.shape, 0.5), right], axis=1)
    out = {}
    for name, figure in _FIGURES.items():
        figures = figure(per_draw)
        value, drawn = float(figures.mean()), [figure(replicates).mean(axis=0)]
        if name == MACRO:
            drawn.append(figure(replicates + coins).mean(axis=0))
        if name == BALANCED:
            drawn += [drawn[0] * occurring, drawn[0] * occurring + 1 - occurring]
        out[name] = _hull(value, drawn, figures, subjects, confidence)
        if name == MACRO and baseline is not None:
            guessing, random = baseline.tallies, macro_f1_per_draw(baseline)
            bias = macro_f1(guessing.sum(axis=1)) - random  # F1 of mean hits minus mean F1
            below = macro_f1(_replicates(guessing, weights)).mean(axis=0) - bias.mean()
            drawn, gained = [one - below for one in drawn], figures - random
            out[GAIN] = _hull(float(gained.mean()), drawn, gained, subjects, confidence, -1.0)
    if guess.scores is not None:
        out[AUC] = _auc(guess, subjects, confidence)
    return out


def macro_f1_per_draw(guesses: Guesses) -> NDArray[np.float64]:
    """Macro F1 of each draw (r,); for a random guesser (``shares``) the exact expectation."""
    per_draw = guesses.tallies.sum(axis=1)
    if guesses.shares is None:
        return macro_f1(per_draw)
    pairs = zip(per_draw[:, 1], guesses.shares, strict=True)
    return np.array([stratified_guess_f1(counts, shares) for counts, shares in pairs])


def mean_macro_f1(guesses: Guesses) -> float:
    """Macro F1, a mean over draws."""
    return float(macro_f1_per_draw(guesses).mean())


def stratified_guess_f1(counts: NDArray[np.floating], probabilities: NDArray[np.float64]) -> float:
    """Exact expected macro F1 if class c is guessed with probability p_c for every user.

    ``counts``: number n_c of users of each class (C,), n in all.
    ``probabilities``: p_c of each class (C,).

    K ~ Binomial(n, p_c) guesses of class c hit K n_c / n users on average, so
    E F1_c = sum over K of P(K) 2 K (n_c / n) / (K + n_c).
    """
    n = round(float(counts.sum()))
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k[None, :], n, probabilities[:, None])
    sizes = k[None, :] + counts[:, None]
    f1 = np.divide(2.0 * k * counts[:, None] / n, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
    return float((mass * f1).sum(axis=1).mean())


def _replicates(tallies: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of ``tallies`` (r, n, 3, C) over users with ``weights`` (b, n): (r, b, 3, C)."""
    r, n, _, classes = tallies.shape
    return (weights @ tallies.reshape(r, n, -1)).reshape(r, -1, 3, classes)


def _hull(
    value: float,
    drawn: list[NDArray[np.float64]],
    figures: NDArray[np.float64],
    subjects: int,
    confidence: float,
    min_value: float = 0.0,
) -> Estimate:
    """Smallest interval around those of all sets of replicates ``drawn``, widened by draws."""
    ends = [percentile_interval(value, one, subjects, confidence, min_value) for one in drawn]
    low, high = min(one.low for one in ends), max(one.high for one in ends)
    return _widen(replace(ends[0], low=low, high=high), figures, min_value)


def _auc(guesses: Guesses, subjects: int, confidence: float) -> Estimate:
    """Mean over draws and classes of the area under each class's ROC against all others."""
    assert guesses.scores is not None
    influence = np.zeros(len(guesses.truth))
    areas = np.full(len(guesses.guessed), 0.5)
    for draw, guessed in enumerate(guesses.guessed):
        unknown = np.flatnonzero(guessed != CLASS_KNOWN)
        placed = placements(guesses.truth[unknown], guesses.scores[draw][unknown])
        if not placed:
            continue
        areas[draw] = np.mean([area for area, _ in placed])
        influence[unknown] += np.mean([one for _, one in placed], axis=0) / len(areas)
    value = float(areas.mean())
    half = float(np.sqrt(np.square(influence).sum()))
    if half > 0 and 0 < value < 1 and subjects > 1:
        half *= float(stats.t.isf((1 - confidence) / 2, subjects - 1)) / (value * (1 - value))
        low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
        users = Estimate(value=value, low=low, high=high, confidence=confidence, n=subjects)
    else:
        users = percentile_interval(value, np.array([value]), subjects, confidence)
    return _widen(users, areas)


def _widen(users: Estimate, figures: NDArray[np.float64], min_value: float = 0.0) -> Estimate:
    """The interval over users, widened by the spread of the ``figures`` (r,) of the draws."""
    draws = len(figures)
    spread = 0.0
    if draws > 1:
        tail = (1 - users.confidence) / 2
        spread = float(stats.t.isf(tail, draws - 1) * figures.std(ddof=1) / np.sqrt(draws))
    return Estimate(
        value=users.value,
        low=max(min_value, users.value - float(np.hypot(users.value - users.low, spread))),
        high=min(1.0, users.value + float(np.hypot(users.high - users.value, spread))),
        confidence=users.confidence,
        n=users.n,
    )


def ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Computes ``part / whole``, and 0 where ``whole`` is not positive."""
    return np.asarray(np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0))
