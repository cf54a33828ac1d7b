"""ROC curves of many weightings of the same candidates at once, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compiled import compiled


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
