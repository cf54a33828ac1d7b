"""Metrics of attacks with confidence intervals over users: means, ROC curves, and F1 and AUC of
guessed classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import check_confidence
from fedrec_auditor.attacks.parts.supervised import get_auc_influences, get_class_f1, get_macro_f1
from fedrec_auditor.attacks.parts.uploads import divide_or_zero
from fedrec_auditor.targets.compiled import jit_compile

# Success of an attack: point estimates with confidence intervals over users.
#
# Every interval is a percentile bootstrap over users, the unit that is sampled, except the exact
# interval of a share. All replicates are computed at once, as weights times per-user statistics. A
# bootstrap of n users is too narrow for two reasons: its variance is biased by (n - 1) / n, and
# quantiles of Student's t exceed the quantiles of the normal distribution. Intervals are widened by
# both factors (Hesterberg 2015, What teachers should know about the bootstrap). The interval of a
# single user is the whole range. If a statistic is the same for every user, all replicates are
# equal, and the interval is the exact binomial interval for n successes of n users. Users with
# another value may exist, but their share is at most the share that a sample of n users misses with
# probability a/2, for intervals of confidence 1 - a.

# Number of bootstrap replicates of an interval.
N_BOOTSTRAPS = 1000
# Number of points at which a ROC curve is stored.
N_CURVE_POINTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimated value with its confidence interval.

    ``value``: the point estimate.
    ``low``, ``high``: ends of the interval.
    ``confidence``: confidence of the interval, in (0, 1).
    ``n_users``: number of independent units (users) over which the value was estimated.
    """

    value: float
    low: float
    high: float
    confidence: float
    n_users: int


def estimate_mean(
    values: NDArray[Any], *, confidence: float, rng: np.random.Generator, min_value: float = 0.0
) -> Estimate:
    """Estimates the mean of one value per user, with a bootstrap interval over users.

    ``values``: value of each user (n,), in [``min_value``, 1].
    ``confidence``: confidence of the interval, in (0, 1).

    Raises InputError if there are no values, or if a value is not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if len(bad := data[~np.isfinite(data)]) or not len(data):
        raise InputError(f"Expected finite values, got {next(iter(bad), 'none')}. Give numbers.")
    replicates = draw_bootstrap_weights(len(data), rng) @ data / len(data)
    return make_bootstrap_interval(float(data.mean()), replicates, len(data), confidence, min_value)


def estimate_share(successes: NDArray[np.bool_], *, confidence: float) -> Estimate:
    """Estimates the share of users with a true entry in ``successes`` (n,), with the exact
    Clopper-Pearson interval.
    """
    n, k = len(successes), int(np.count_nonzero(successes))
    ends = stats.binomtest(k, n).proportion_ci(check_confidence(confidence), method="exact")
    return Estimate(
        value=k / n, low=float(ends.low), high=float(ends.high), confidence=confidence, n_users=n
    )


def compute_set_f1(guessed: NDArray[np.bool_], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """F1 of the guessed item set of each user (n,); 1 if the guessed and the true set are empty.

    ``guessed``: whether each user is guessed to have each item (n, n_items).
    ``truth``: whether each user has each item (n, n_items).
    """
    both = np.count_nonzero(guessed & truth, axis=1)
    sizes = np.count_nonzero(guessed, axis=1) + np.count_nonzero(truth, axis=1)
    return np.asarray(np.divide(2.0 * both, sizes, out=np.ones(len(sizes)), where=sizes > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RocBand:
    """ROC curve with its pointwise confidence band, at k false positive rates.

    Members are the candidates for which a guess of "yes" is right.

    ``fpr``: false positive rates (k,), evenly spaced on a logarithmic scale from 1 / number of
        non-members to 1.
    ``tpr``: true positive rates (k,).
    ``low``, ``high``: ends of the confidence intervals of ``tpr`` (k,).
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc:
    """ROC curve of an attack, its area, and its true positive rates at chosen false positive rates.

    ``auc``: area under the curve.
    ``tpr``: true positive rate by false positive rate. False positive rates below 1 / number of
        non-members are absent.
    ``band``: the curve and its confidence band.
    ``baseline_auc``, ``baseline_tpr``: area and true positive rates of the baseline.
    ``auc_gain``, ``tpr_gain``: ``auc`` and ``tpr`` minus the values of the baseline.
    """

    auc: Estimate
    tpr: Mapping[float, Estimate]
    band: RocBand
    baseline_auc: float
    baseline_tpr: Mapping[float, float]
    auc_gain: Estimate
    tpr_gain: Mapping[float, Estimate]


def get_auc(scores: NDArray[Any], members: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: P(a member scores above a non-member) + P(tie) / 2.

    ``scores``: score per candidate (m,), larger if the attack guesses "member".
    ``members``: whether each candidate is a member (m,).
    """
    return float(_compute_roc(scores, members, np.empty(0))[0])


def get_user_aucs(
    scores: NDArray[Any], members: NDArray[np.bool_], users: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Area under the ROC curve (``get_auc``) of each user's candidates, in ascending order of
    users.

    ``scores``: score per candidate (m,).
    ``members``: whether a guess of "yes" is right for each candidate (m,).
    ``users``: index of the user of each candidate (m,).

    The result has one value per user. The value is NaN without members or without non-members.
    """
    names, cluster = np.unique(users, return_inverse=True)
    order = np.lexsort((scores, cluster))
    ranked = scores[order]
    first = np.append(True, (np.diff(cluster[order]) != 0) | (ranked[1:] != ranked[:-1]))
    # Ranks among all candidates, sorted by user and score (ties share their average rank). Below,
    # the number of candidates of preceding users is subtracted to get the rank within each user.
    rank = np.empty(len(scores))
    rank[order] = stats.rankdata(np.cumsum(first))
    sizes = np.bincount(cluster, minlength=len(names))
    positives = np.bincount(cluster, weights=members, minlength=len(names))
    ranks = np.bincount(cluster, weights=members * rank, minlength=len(names))
    total = ranks - positives * (np.cumsum(sizes) - sizes) - positives * (positives + 1) / 2
    pairs = positives * (sizes - positives)
    return np.asarray(np.divide(total, pairs, out=np.full(len(names), np.nan), where=pairs > 0))


def make_roc(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    users: NDArray[np.integer[Any]],
    *,
    fprs: Sequence[float],
    confidence: float,
    rng: np.random.Generator,
    baseline: NDArray[Any],
    trainings: NDArray[np.integer[Any]] | None = None,
) -> Roc:
    """Computes the ROC curve, its area and its height at ``fprs``, with confidence intervals over
    users.

    ``scores``: score per candidate (m,), larger if the attack guesses "member".
    ``members``: whether each candidate is a member (m,).
    ``users``: index of the user of each candidate (m,).
    ``fprs``: false positive rates. Rates below 1 / number of non-members are left out.
    ``baseline``: scores of the candidates without the attack (m,).
    ``trainings``: training of each candidate (m,), if the candidates of a training share
        randomness; otherwise None.

    Bootstrap over users and trainings: Owen 2007, The pigeonhole bootstrap.
    """
    # The candidates of one user are resampled together, and thresholds are recomputed in each
    # replicate. Trainings are resampled like users: the weight of a candidate is the number of
    # draws of its user times the number of draws of its training. So the intervals cover at least
    # as often as stated (Owen 2007). Gains are paired: both curves are computed from the same
    # resampled users.
    names, cluster = np.unique(users, return_inverse=True)
    negatives = int(np.count_nonzero(~members))
    resolved = [fpr for fpr in fprs if 1.0 - 1e-9 <= fpr * negatives < negatives]
    grid = np.geomspace(1 / max(negatives, 1), 1.0, N_CURVE_POINTS)
    rates = np.concatenate([resolved, grid])
    weights = draw_bootstrap_weights(len(names), rng)
    training_of = np.zeros_like(cluster) if trainings is None else trainings
    groups, group = np.unique(training_of, return_inverse=True)
    is_single = len(groups) <= 1
    again = np.ones((N_BOOTSTRAPS, 1)) if is_single else draw_bootstrap_weights(len(groups), rng)

    def compute_bootstrap_rocs(scored: NDArray[Any]) -> NDArray[np.float64]:
        """Area under the ROC curve, then true positive rates at ``rates``, of the candidates'
        scores in each bootstrap replicate, one row each.
        """
        return get_weighted_rocs(scored, members, rates, (cluster, group), (weights, again))

    value, replicates = _compute_roc(scores, members, rates), compute_bootstrap_rocs(scores)
    # A replicate without members or without non-members has no curve.
    whole = np.isfinite(replicates[:, 0])
    n, k = len(names), 1 + len(resolved)
    figures = _make_intervals(value[:k], replicates[whole, :k], n, confidence, 0.0)
    below = _compute_roc(baseline, members, rates)
    gained = (replicates - compute_bootstrap_rocs(baseline))[whole, :k]
    gains = _make_intervals((value - below)[:k], gained, n, confidence, -1.0)
    low, high = _interval_ends(value[k:], replicates[whole, k:], n, confidence, 0.0)
    return Roc(
        auc=figures[0],
        tpr=dict(zip(resolved, figures[1:], strict=True)),
        band=RocBand(fpr=grid, tpr=value[k:], low=low, high=high),
        baseline_auc=float(below[0]),
        baseline_tpr=dict(zip(resolved, below[1:k].tolist(), strict=True)),
        auc_gain=gains[0],
        tpr_gain=dict(zip(resolved, gains[1:], strict=True)),
    )


def _compute_roc(
    scores: NDArray[Any], members: NDArray[np.bool_], rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Area under the ROC curve, and its heights at the false positive rates ``rates`` (k,), as one
    array (1 + k,).
    """
    cluster, once = np.zeros(len(scores), dtype=np.int64), np.ones((1, 1))
    (curve,) = get_weighted_rocs(scores, members, rates, (cluster, cluster), (once, once))
    return np.asarray(curve)


def _make_intervals(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    min_value: float,
) -> list[Estimate]:
    """Estimates with percentile intervals, one for each of k ``values``.

    ``replicates``: values of b bootstrap replicates (b, k).
    """
    return [
        make_bootstrap_interval(float(value), some, n, confidence, min_value)
        for value, some in zip(values, replicates.T, strict=True)
    ]


def draw_bootstrap_weights(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draws bootstrap weights (``N_BOOTSTRAPS``, n): the number of times that each of n users
    occurs in each replicate.
    """
    draws = rng.integers(n, size=(N_BOOTSTRAPS, n)) + n * np.arange(N_BOOTSTRAPS)[:, None]
    counts = np.bincount(draws.ravel(), minlength=n * N_BOOTSTRAPS)
    return counts.reshape(N_BOOTSTRAPS, n).astype(np.float64)


def make_bootstrap_interval(
    value: float, replicates: NDArray[np.float64], n: int, confidence: float, min_value: float = 0.0
) -> Estimate:
    """Returns an estimate with the percentile interval of a bootstrap, within [``min_value``, 1].

    ``value``: the point estimate.
    ``replicates``: values of the bootstrap replicates (b,).
    ``n``: number of independent units (users), for which the interval is widened if they are few.
    ``confidence``: confidence of the interval, in (0, 1).
    """
    ends = _interval_ends(np.array([value]), replicates[:, None], n, confidence, min_value)
    low, high = (float(end[0]) for end in ends)
    # An end that equals ``value`` is replaced by the end of the exact binomial interval for n users
    # with the same value.
    missed = 1 - ((1 - confidence) / 2) ** (1 / n)
    if value - low <= 1e-9:
        low = value - missed * (value - min_value)
    if high - value <= 1e-9:
        high = value + missed * (1 - value)
    return Estimate(value=value, low=low, high=high, confidence=confidence, n_users=n)


def _interval_ends(
    values: NDArray[np.float64],
    replicates: NDArray[np.float64],
    n: int,
    confidence: float,
    min_value: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends (k,) of the widened bootstrap intervals of k ``values``.

    ``replicates``: values of b bootstrap replicates (b, k).
    ``n``: number of users. With one user, the interval is [``min_value``, 1].
    """
    tail = (1 - check_confidence(confidence)) / 2
    if n < 2:
        return np.full(len(values), min_value), np.ones(len(values))
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    wider = math.sqrt(n / (n - 1)) * stats.t.isf(tail, n - 1) / stats.norm.isf(tail)
    return (
        (values - wider * (values - low).clip(min=0)).clip(min=min_value),
        (values + wider * (high - values).clip(min=0)).clip(max=1.0),
    )


# ROC curves of the same candidates for many bootstrap weights at once, in compiled code.


def get_weighted_rocs(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    rates: NDArray[np.float64],
    clusters: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Computes the ROC curve for each of b bootstrap weightings.

    ``scores``: score of each candidate (m,), larger if the attack guesses "member".
    ``members``: whether each candidate is a member (m,).
    ``rates``: false positive rates (k,).
    ``clusters``: index of the user, and of the training, of each candidate (m,).
    ``weights``: weight of each user (b, users) and of each training (b, trainings). The weight of a
        candidate is the product of the two.

    The result (b, 1 + k) has the area, then the true positive rates at ``rates``. Curves are linear
    across equal scores. A weighting without members, or without non-members, gives NaN.

    Raises InputError if ``scores`` contain NaN, or if ``members`` are all true or all false.
    """
    if np.isnan(scores).any():
        raise InputError("Expected scores without NaN, got NaN. Let the attack return numbers.")
    if members.all() or not members.any():
        raise InputError("Expected True and False in members, got only one of them. Add the other.")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    ascending = np.argsort(rates, kind="stable")
    totals = [_sum_weights(kind, clusters, weights) for kind in (members, ~members)]
    results = np.full((len(weights[0]), 1 + len(rates)), np.nan)
    users, trainings = (cluster[order].astype(np.uint32) for cluster in clusters)
    _fill_rocs(
        (members[order].astype(np.float64), last, users, trainings),
        weights,
        (totals[0], totals[1]),
        (rates[ascending], ascending + 1),
        results,
    )
    return results


def _sum_weights(
    chosen: NDArray[np.bool_],
    clusters: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Total weight of the ``chosen`` candidates (m,) in each of b bootstrap weightings, shape (b,).

    ``clusters``: index of the user, and of the training, of each candidate (m,).
    ``weights``: weight of each user (b, users) and of each training (b, trainings).
    """
    counts = np.zeros([part.shape[1] for part in weights])
    np.add.at(counts, tuple(cluster[chosen] for cluster in clusters), 1.0)
    return np.asarray(np.einsum("bt,bt->b", weights[0] @ counts, weights[1]))


@jit_compile()
def _fill_rocs(
    candidates: tuple[
        NDArray[np.float64], NDArray[np.bool_], NDArray[np.uint32], NDArray[np.uint32]
    ],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
    totals: tuple[NDArray[np.float64], NDArray[np.float64]],
    rates: tuple[NDArray[np.float64], NDArray[np.int64]],
    results: NDArray[np.float64],
) -> None:
    """Fills ``results`` (b, 1 + k) with the area and the heights of the ROC curve, for b
    weightings.

    ``candidates``: four arrays (m,), in descending order of scores: 1 for a member and 0 for a
        non-member; whether the candidate is the last of equal scores; its user; its training.
    ``weights``: weight of each user (b, users) and of each training (b, trainings).
    ``totals``: total weight of members and of non-members (b,).
    ``rates``: ascending false positive rates, and the column of ``results`` for each rate.
    """
    is_member, is_last, users, trainings = candidates
    of_users, of_trainings = weights
    limits = np.full(len(rates[0]) + 1, np.inf)  # the last limit is never exceeded
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


# Metrics of guessed classes (averages of F1, and AUC), over users and draws of the known users,
# whose class the adversary knows.
#
# An interval covers two sources of variation. The first is the sample of users, covered by a
# percentile bootstrap of the mean over draws. For AUC, placement values are used instead (DeLong et
# al. 1988), on the scale of log-odds, where intervals of few users err equally often on both sides
# (Qin and Hotilovac 2008). The second source is the draw of the known users, covered by Student's t
# over the values of the draws. The two half-widths are added in squares, by the square-and-add rule
# (Zou and Donner 2008). Draws are tested on users that partly differ, so that the second source
# includes a part of the first, and the interval is too wide rather than too narrow.
#
# In a class with few users all guesses may be right, or all wrong, so that all replicates are
# equal. The replicates of macro F1, and of its gain over other guesses of the same users, are
# therefore computed a second time with half a user more in each class, whose guess is right with
# probability 1/2 (for shares, Agresti and Coull 1998). The reported interval contains both
# intervals. For balanced accuracy, a class without users in the sample counts as 0 in one
# computation and as 1 in another.

# Class code that stands for: the adversary knows the user's class, so that it is not guessed.
NOT_GUESSED_CODE = -1
# Names of metrics in reports; ``CERTAIN`` is the share of users whose attribute is inferred with
# certainty.
MACRO_F1, BALANCED_ACC, AUC, CERTAIN = "macro F1", "balanced accuracy", "AUC", "read for certain"
# Key of ``estimate_metrics`` for the gain in macro F1 over a baseline.
GAIN_METRIC = "gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """Guesses of the class of each of n users, in r draws. A draw chooses at random the users whose
    class the adversary knows.

    ``true_classes``: code of each user's true class (n,).
    ``class_guesses``: guessed codes (r, n); ``NOT_GUESSED_CODE`` for users whose class is known.
    ``n_classes``: number C of classes.
    ``scores``: score of each class (r, n, C), larger if the class is more likely; or None.
    ``guess_probs``: for random guesses, the probability of each class in a draw (r, C); otherwise
        None. With probabilities, ``class_guesses`` only marks known users.
    """

    true_classes: NDArray[np.int64]
    class_guesses: NDArray[np.int64]
    n_classes: int
    scores: NDArray[np.float64] | None = None
    guess_probs: NDArray[np.float64] | None = None

    @property
    def counts_by_class(self) -> NDArray[np.float64]:
        """Counts of right guesses, of true classes and of guesses, (r, n, 3, C).

        A count is 0 or 1 for each draw, user and class; if guesses are random, it is the expected
        count. All counts of a user are 0 in a draw in which the adversary knows the user's class.
        """
        eye = np.eye(self.n_classes + 1, self.n_classes)  # row -1 is 0: NOT_GUESSED_CODE
        is_unknown = (self.class_guesses != NOT_GUESSED_CODE)[:, :, None]
        truth = eye[self.true_classes][None] * is_unknown
        guess = eye[self.class_guesses] if self.guess_probs is None else self.guess_probs[:, None]
        guessed = guess * is_unknown
        return np.stack([truth * guessed, truth, guessed], axis=2)


def _weighted_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean F1 over classes, weighted by the frequencies of the classes in the truth (...).

    ``tally``: counts of right guesses, true classes and guesses (..., 3, C).
    """
    sizes = tally[..., 1, :]
    return divide_or_zero((get_class_f1(tally) * sizes).sum(axis=-1), sizes.sum(axis=-1))


def _micro_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of all guesses together, which is the share of right guesses (...).

    ``tally``: counts of right guesses, true classes and guesses (..., 3, C).
    """
    return divide_or_zero(tally[..., 0, :].sum(axis=-1), tally[..., 1, :].sum(axis=-1))


def _balanced_accuracy(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean recall of the classes that occur in the truth (...).

    ``tally``: counts of right guesses, true classes and guesses (..., 3, C).
    """
    recalls = divide_or_zero(tally[..., 0, :], tally[..., 1, :]).sum(axis=-1)
    return divide_or_zero(recalls, (tally[..., 1, :] > 0).sum(axis=-1).astype(np.float64))


_FIGURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    MACRO_F1: get_macro_f1,
    "micro F1": _micro_f1,
    "weighted F1": _weighted_f1,
    BALANCED_ACC: _balanced_accuracy,
}


def estimate_metrics(
    guess: Guesses, *, confidence: float, rng: np.random.Generator, baseline: Guesses | None = None
) -> dict[str, Estimate]:
    """Estimates every metric of guessed classes with its interval, by name of the metric.

    ``guess``: the guesses. Values are means over the draws of known users.
    ``confidence``: confidence of the intervals, in (0, 1).
    ``baseline``: guesses of a baseline for the same users and draws, or None.

    The metrics are macro, micro and weighted F1, balanced accuracy and, with scores, AUC. With a
    ``baseline``, ``GAIN_METRIC`` is the gain in macro F1 over the baseline.
    """
    tallies = guess.counts_by_class
    _, n, _, classes = tallies.shape
    subjects = int(np.count_nonzero(tallies.any(axis=(0, 2, 3))))
    weights = draw_bootstrap_weights(n, rng)
    per_draw, replicates = tallies.sum(axis=1), _resample(tallies, weights)
    occurring = float((per_draw[:, 1] > 0).mean())
    # Half a user more in each class, guessed right with probability 1/2: (b, 3, C).
    right = rng.integers(2, size=(len(weights), classes)) / 2
    coins = np.stack([right, np.full(right.shape, 0.5), right], axis=1)
    out = {}
    for name, figure in _FIGURES.items():
        figures = figure(per_draw)
        value, drawn = float(figures.mean()), [figure(replicates).mean(axis=0)]
        if name == MACRO_F1:
            drawn.append(figure(replicates + coins).mean(axis=0))
        if name == BALANCED_ACC:
            drawn += [drawn[0] * occurring, drawn[0] * occurring + 1 - occurring]
        out[name] = _join_intervals(value, drawn, figures, subjects, confidence)
        if name == MACRO_F1 and baseline is not None:
            guessing, random = baseline.counts_by_class, compute_f1_per_draw(baseline)
            bias = get_macro_f1(guessing.sum(axis=1)) - random  # F1 of mean counts minus mean F1
            below = get_macro_f1(_resample(guessing, weights)).mean(axis=0) - bias.mean()
            drawn, gained = [one - below for one in drawn], figures - random
            gain = float(gained.mean())
            out[GAIN_METRIC] = _join_intervals(gain, drawn, gained, subjects, confidence, -1.0)
    if guess.scores is not None:
        out[AUC] = _estimate_auc(guess, subjects, confidence)
    return out


def compute_f1_per_draw(guesses: Guesses) -> NDArray[np.float64]:
    """Macro F1 in each of r draws (r,). A draw chooses at random the users whose class the
    adversary knows.

    If guesses are random (``guess_probs``), the value is the exact expectation.
    """
    per_draw = guesses.counts_by_class.sum(axis=1)
    if guesses.guess_probs is None:
        return get_macro_f1(per_draw)
    pairs = zip(per_draw[:, 1], guesses.guess_probs, strict=True)
    return np.array([get_random_f1(counts, shares) for counts, shares in pairs])


def get_mean_f1(guesses: Guesses) -> float:
    """Returns macro F1, averaged over all draws. A draw chooses at random the users whose class the
    adversary knows.
    """
    return float(compute_f1_per_draw(guesses).mean())


def get_random_f1(counts: NDArray[np.floating], probabilities: NDArray[np.float64]) -> float:
    """Exact expected macro F1 of a guesser who names class c with probability p_c for every user.

    ``counts``: number n_c of users of each class (C,), with sum n.
    ``probabilities``: p_c of each class (C,).
    """
    # The guesser names class c K times, K ~ Binomial(n, p_c), and is right K n_c / n times on
    # average, so E F1_c = sum over K of P(K) 2 K (n_c / n) / (K + n_c).
    n = round(float(counts.sum()))
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k[None, :], n, probabilities[:, None])
    f1 = divide_or_zero(2.0 * k * counts[:, None] / n, k[None, :] + counts[:, None])
    return float((mass * f1).sum(axis=1).mean())


def _resample(tallies: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bootstrap sums of the counts ``tallies`` over users, shape (r, b, 3, C).

    ``tallies``: counts by draw, user, kind and class (r, n, 3, C).
    ``weights``: weight of each user in b replicates (b, n).
    """
    r, n, _, classes = tallies.shape
    return (weights @ tallies.reshape(r, n, -1)).reshape(r, -1, 3, classes)


def _join_intervals(
    value: float,
    drawn: list[NDArray[np.float64]],
    figures: NDArray[np.float64],
    subjects: int,
    confidence: float,
    min_value: float = 0.0,
) -> Estimate:
    """Estimate with the smallest interval that contains the interval of each set of replicates,
    widened by the spread over draws of the known users.

    ``drawn``: sets of bootstrap replicates (b,).
    ``figures``: value of each draw of the users whose class is known (r,).
    """
    ends = [make_bootstrap_interval(value, one, subjects, confidence, min_value) for one in drawn]
    low, high = min(one.low for one in ends), max(one.high for one in ends)
    return _widen(replace(ends[0], low=low, high=high), figures, min_value)


def _estimate_auc(guesses: Guesses, subjects: int, confidence: float) -> Estimate:
    """Area under the ROC curve of one class against all others, averaged over classes and draws of
    the users whose class is known.

    ``subjects``: number of users.
    """
    assert guesses.scores is not None
    influence = np.zeros(len(guesses.true_classes))
    areas = np.full(len(guesses.class_guesses), 0.5)
    for draw, guessed in enumerate(guesses.class_guesses):
        unknown = np.flatnonzero(guessed != NOT_GUESSED_CODE)
        placed = get_auc_influences(guesses.true_classes[unknown], guesses.scores[draw][unknown])
        if not placed:
            continue
        areas[draw] = np.mean([area for area, _ in placed])
        influence[unknown] += np.mean([one for _, one in placed], axis=0) / len(areas)
    value = float(areas.mean())
    half = float(np.sqrt(np.square(influence).sum()))
    if half > 0 and 0 < value < 1 and subjects > 1:
        half *= float(stats.t.isf((1 - confidence) / 2, subjects - 1)) / (value * (1 - value))
        low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
        users = Estimate(value=value, low=low, high=high, confidence=confidence, n_users=subjects)
    else:
        users = make_bootstrap_interval(value, np.array([value]), subjects, confidence)
    return _widen(users, areas)


def _widen(users: Estimate, figures: NDArray[np.float64], min_value: float = 0.0) -> Estimate:
    """The estimate ``users``, with its interval widened by the spread of the value over draws of
    the users whose class is known.

    ``figures``: value of each draw (r,).
    ``min_value``: smallest possible value.
    """
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
        n_users=users.n_users,
    )
