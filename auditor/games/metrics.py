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

# How well an attack did: point estimates with confidence intervals over users.
#
# Every interval, but the exact one of a share, is a percentile bootstrap over users, the unit that
# is sampled: all replicates at once, as weights times per-user statistics. A bootstrap of n users
# is too narrow by the bias of its variance, (n - 1) / n, and by the quantiles of Student's t over
# those of the normal distribution: intervals are widened by both (Hesterberg 2015, What teachers
# should know about the bootstrap); of one user nothing is told. A statistic that is the same for
# every user leaves the bootstrap nothing to vary. Its interval then is the exact binomial one for n
# of n users: others may be as different as can be, but no more of them than are missed by n with
# probability a/2.

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


# ROC curves of many weightings of the same candidates at once, compiled.


def areas_and_heights(
    scores: NDArray[Any],
    members: NDArray[np.bool_],
    rates: NDArray[np.float64],
    clusters: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]],
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """The area under each curve and its heights at ``rates`` (k,) of accusation: (b, 1 + k).

    Of candidates (m,), each of a user and of a training, the two ``clusters`` (m,), a curve counts
    one as often as its row of the two ``weights``, (b, users) and (b, trainings), says: once the
    product of both. Curves are linear across equal scores; NaN where a weighting leaves no members
    or no others. InputError for NaN among ``scores``, or candidates of one kind only.
    """
    if np.isnan(scores).any():
        raise InputError("Expected scores that are numbers, got NaN. Repair the attack.")
    if members.all() or not members.any():
        raise InputError("Expected members and non-members, got one kind only. Give both.")
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
    """The weight of the ``chosen`` candidates (m,) in each weighting: (b,)."""
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
    """Fill ``results``: each of the ascending ``rates`` has its column.

    ``candidates`` come by falling score: 1 for a member and 0 for another, whether it is the last
    of equal scores, its user and its training. ``totals`` are of members and of others.
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


# How well classes were guessed, over users and draws of the known: several averages of F1, AUC.
#
# An interval covers both what is sampled: users, by a percentile bootstrap of the mean over draws
# (or, of AUC, by its placement values, DeLong et al. 1988, on the scale of log-odds, where few
# users make an interval that is as wrong on one side as on the other, Qin and Hotilovac 2008), and
# draws of the known users, by Student's t of the draws' figures. The two half-widths are added in
# squares, the square-and-add rule (Zou and Donner 2008). Draws are tested on users that partly
# differ, so the second includes some of the first: the interval errs on the wide side.
#
# Of a class with few users all may be guessed right, or wrong, and no replicate shows that others
# are not. The replicates of macro F1, also of its gain over other guesses of the same users, are
# drawn again with half a user more of each class, of whom a coin says whether the guess is right
# (for shares, Agresti and Coull 1998); the interval holds both. A class of which there is no user
# in the sample counts as 0 and as 1.

NOT_ASKED = -1
MACRO, BALANCED, AUC, CERTAIN = "macro F1", "balanced accuracy", "AUC", "read for certain"
GAIN = "gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What was guessed of n users in r draws, of C classes.

    ``truth`` (n,) are codes, ``guessed`` (r, n) codes, or ``NOT_ASKED`` of users whose class was
    known in that draw, and ``scores`` (r, n, C), larger for likelier classes, or None. ``shares``
    (r, C) are of who guesses without looking, and each class so often: of ``guessed`` only who is
    asked then counts, and tallies have the expected hits.
    """

    truth: NDArray[np.int64]
    guessed: NDArray[np.int64]
    classes: int
    scores: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None

    @property
    def tallies(self) -> NDArray[np.float64]:
        """A one-hot (r, n, 3, C): of each user's class if guessed right, the class, the guess."""
        eye = np.eye(self.classes + 1, self.classes)  # of no class the last row: it guesses none
        asked = (self.guessed != NOT_ASKED)[:, :, None]
        truth = eye[self.truth][None] * asked
        said = eye[self.guessed] if self.shares is None else self.shares[:, None]
        guessed = said * asked
        return np.stack([truth * guessed, truth, guessed], axis=2)


def _weighted_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the classes' F1, weighted by their frequency."""
    return ratio(
        (f1_of_classes(tally) * tally[..., 1, :]).sum(axis=-1), tally[..., 1, :].sum(axis=-1)
    )


def _micro_f1(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of all guesses together: the share of right ones."""
    return ratio(tally[..., 0, :].sum(axis=-1), tally[..., 1, :].sum(axis=-1))


def _balanced(tally: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that occur of the share found."""
    found = ratio(tally[..., 0, :], tally[..., 1, :]).sum(axis=-1)
    return ratio(found, (tally[..., 1, :] > 0).sum(axis=-1).astype(np.float64))


_FIGURES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    MACRO: macro_f1,
    "micro F1": _micro_f1,
    "weighted F1": _weighted_f1,
    BALANCED: _balanced,
}


def estimates(
    found: Guesses, *, confidence: float, rng: np.random.Generator, beside: Guesses | None = None
) -> dict[str, Estimate]:
    """Every figure, a mean over draws, with its interval; no AUC without scores.

    ``GAIN`` is by how much macro F1 is above that of the guesses ``beside``, in the same draws.
    """
    tallies = found.tallies
    _, n, _, classes = tallies.shape
    subjects = int(np.count_nonzero(tallies.any(axis=(0, 2, 3))))
    weights = resampled(n, rng)
    per_draw, replicates = tallies.sum(axis=1), _replicates(tallies, weights)
    seen = float((per_draw[:, 1] > 0).mean())
    # Half a user more of each class, whom a coin says to be guessed right: (b, 3, C).
    right = rng.integers(2, size=(len(weights), classes)) / 2
    coins = np.stack([right, np.full(right.shape, 0.5), right], axis=1)
    out = {}
    for name, figure in _FIGURES.items():
        each = figure(per_draw)
        value, drawn = float(each.mean()), [figure(replicates).mean(axis=0)]
        if name == MACRO:
            drawn.append(figure(replicates + coins).mean(axis=0))
        if name == BALANCED:
            drawn += [drawn[0] * seen, drawn[0] * seen + 1 - seen]
        out[name] = _hull(value, drawn, each, subjects, confidence)
        if name == MACRO and beside is not None:
            others, theirs = beside.tallies, macro_f1_of(beside)
            bent = macro_f1(others.sum(axis=1)) - theirs  # F1 of mean hits, less the mean F1
            below = macro_f1(_replicates(others, weights)).mean(axis=0) - bent.mean()
            drawn, gained = [one - below for one in drawn], each - theirs
            out[GAIN] = _hull(float(gained.mean()), drawn, gained, subjects, confidence, -1.0)
    if found.scores is not None:
        out[AUC] = _auc(found, subjects, confidence)
    return out


def macro_f1_of(found: Guesses) -> NDArray[np.float64]:
    """The macro F1 alone, of each draw (r,); exactly expected of who guesses without looking."""
    per_draw = found.tallies.sum(axis=1)
    if found.shares is None:
        return macro_f1(per_draw)
    pairs = zip(per_draw[:, 1], found.shares, strict=True)
    return np.array([stratified_guess_f1(counts, shares) for counts, shares in pairs])


def mean_of(found: Guesses) -> float:
    """The macro F1 alone, a mean over draws."""
    return float(macro_f1_of(found).mean())


def stratified_guess_f1(counts: NDArray[np.floating], probabilities: NDArray[np.float64]) -> float:
    """Exact expected macro F1 of guessing class c with probability p_c, whoever the user.

    With n_c true members of n, K ~ Binomial(n, p_c) guesses hit K n_c / n of them on average, so
    E F1_c = sum over K of P(K) 2 K (n_c / n) / (K + n_c).
    """
    n = round(float(counts.sum()))
    k = np.arange(n + 1)
    mass = stats.binom.pmf(k[None, :], n, probabilities[:, None])
    sizes = k[None, :] + counts[:, None]
    f1 = np.divide(2.0 * k * counts[:, None] / n, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
    return float((mass * f1).sum(axis=1).mean())


def _replicates(tallies: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tallies (r, n, 3, C) of the users drawn by ``weights`` (b, n): (r, b, 3, C)."""
    r, n, _, classes = tallies.shape
    return (weights @ tallies.reshape(r, n, -1)).reshape(r, -1, 3, classes)


def _hull(
    value: float,
    drawn: list[NDArray[np.float64]],
    each: NDArray[np.float64],
    subjects: int,
    confidence: float,
    least: float = 0.0,
) -> Estimate:
    """The interval that holds those of all replicates ``drawn``, widened as ``_both`` does."""
    ends = [percentile_interval(value, one, subjects, confidence, least) for one in drawn]
    low, high = min(one.low for one in ends), max(one.high for one in ends)
    return _both(replace(ends[0], low=low, high=high), each, least)


def _auc(found: Guesses, subjects: int, confidence: float) -> Estimate:
    """Mean over draws and classes of the area under each class's ROC against all others."""
    assert found.scores is not None
    influence = np.zeros(len(found.truth))
    each = np.full(len(found.guessed), 0.5)
    for draw, guessed in enumerate(found.guessed):
        asked = np.flatnonzero(guessed != NOT_ASKED)
        places = placements(found.truth[asked], found.scores[draw][asked])
        if not places:
            continue
        each[draw] = np.mean([area for area, _ in places])
        influence[asked] += np.mean([one for _, one in places], axis=0) / len(each)
    value = float(each.mean())
    half = float(np.sqrt(np.square(influence).sum()))
    if half > 0 and 0 < value < 1 and subjects > 1:
        half *= float(stats.t.isf((1 - confidence) / 2, subjects - 1)) / (value * (1 - value))
        low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
        users = Estimate(value=value, low=low, high=high, confidence=confidence, n=subjects)
    else:
        users = percentile_interval(value, np.array([value]), subjects, confidence)
    return _both(users, each)


def _both(users: Estimate, each: NDArray[np.float64], least: float = 0.0) -> Estimate:
    """The interval over users, widened by what the figures (r,) of the draws vary."""
    draws = len(each)
    spread = 0.0
    if draws > 1:
        tail = (1 - users.confidence) / 2
        spread = float(stats.t.isf(tail, draws - 1) * each.std(ddof=1) / np.sqrt(draws))
    return Estimate(
        value=users.value,
        low=max(least, users.value - float(np.hypot(users.value - users.low, spread))),
        high=min(1.0, users.value + float(np.hypot(users.high - users.value, spread))),
        confidence=users.confidence,
        n=users.n,
    )


def ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """``part / whole``, 0 where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0))
