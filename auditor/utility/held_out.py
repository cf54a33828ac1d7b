"""Common code of the evaluation protocols: held-out data, scores in blocks of users, ranking
metrics and rows of the report.

Confidence intervals measure the variation between users, and not between trainings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.baselines import POPULARITY
from fedrec_auditor.reports.record.rows import Baseline, FurtherFigure, UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, NoScoresError, Target

# Largest number of tested users. If there are more, this number of users is drawn at random.
MAX_TESTED_USERS = 20_000
_NUMBERS = 1 << 23  # scores at once


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutData:
    """Data that are split for an evaluation of utility: training data, and held-out data.

    ``training_data``: the training data.

    Subclasses add the held-out data of their protocols. This base class has no held-out data, so
    that utility is not measured.
    """

    training_data: Interactions

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """Computes the utility metrics of the system ``target`` with its trained ``model`` on the
        held-out data.

        The result has one row per metric, with a normal confidence interval. Raises NoScoresError
        if there are no held-out data.
        """
        raise NoScoresError("Nothing is held out of the data, so utility is not measured.")


def draw_tested_users(
    users: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], str]:
    """Draws at most ``MAX_TESTED_USERS`` of ``users`` (indices) at random, and returns them in the
    order of ``users``, with a sentence about the draw.

    If there are no more than ``MAX_TESTED_USERS``, all users and "" are returned.
    """
    if len(users) <= MAX_TESTED_USERS:
        return users, ""
    few = np.sort(rng.choice(len(users), size=MAX_TESTED_USERS, replace=False))
    return users[few], f"This audit tested {MAX_TESTED_USERS:,} of {len(users):,} users, at random."


def iter_user_blocks(users: NDArray[np.int64], n_items: int) -> Iterator[NDArray[np.int64]]:
    """Yields ``users`` (user indices) in consecutive blocks.

    The scores of all items for the users of a block take at most 64 MiB, unless it has one user.
    """
    step = max(1, _NUMBERS // max(1, n_items))
    for start in range(0, len(users), step):
        yield users[start : start + step]


def score_items_by_user(
    target: Target, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Computes the scores that the system ``target`` gives to all items for each of ``users``
    (indices), (len(users), n_items).

    ``interactions`` are the known data of the users. Raises InputError unless all scores are
    finite.
    """
    # No score is greater than NaN, so an item with the score NaN would rank first.
    scores = np.array(target.score(model, interactions, users), dtype=np.float64)
    expected = (len(users), interactions.n_items)
    if scores.shape != expected:
        raise InputError(
            f"Expected scores of shape {expected} from {target.name}, got shape {scores.shape}. "
            "Return one score per item for every requested user."
        )
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, item = bad[0]
        raise InputError(
            f"Expected finite scores from {target.name}, got {scores[row, item]} for item {item} "
            f"of user {users[row]} ({len(bad)} such scores). If the training diverged, lower its "
            "learning rate; otherwise correct the function that computes scores."
        )
    return scores


def make_utility_row(
    target: Target,
    metric: str,
    protocol: str,
    values: NDArray[np.float64],
    baseline_values: NDArray[np.float64],
    *,
    baseline: str,
    random_value: float,
    confidence: float,
    owners: NDArray[np.int64] | None = None,
    max_value: float = 1.0,
    note: str = "",
) -> UtilityRow:
    """Builds the report row of a utility metric: mean, normal confidence interval, baseline, and
    value in the paper.

    - ``values``: values of the metric, one per test item, rating or user, (n,).
    - ``baseline_values``: values of the baseline on the same test data, (n,).
    - ``baseline``: name of the baseline.
    - ``random_value``: value of the metric for random scores.
    - ``owners``: index of each value's user, from 0, (n,); None if all users differ.
    - ``max_value``: upper limit of the interval. The lower limit is 0.
    - ``note``: sentences on choices of this audit, each beginning with "This audit ".
    """
    mean, half = _estimate_mean(values, owners, confidence)
    # The difference is computed value by value, on one split and with one set of ranked items.
    ahead, error = _estimate_mean(values - baseline_values, owners, confidence)
    key = metric, protocol
    paper = next((r for r in target.reported_metrics if (r.metric, r.protocol) == key), None)
    conditions = f"{paper.note.rstrip('.')}." if paper and paper.note else ""
    return UtilityRow(
        target=target.name,
        metric=metric,
        protocol=protocol,
        value=mean,
        ci_low=max(0.0, mean - half),
        ci_high=min(max_value, mean + half),
        confidence=confidence,
        random=random_value,
        baseline=Baseline(
            name=baseline,
            value=float(baseline_values.mean()),
            difference=FurtherFigure(value=ahead, ci_low=ahead - error, ci_high=ahead + error),
        ),
        n=len(values),
        paper_value=None if paper is None else paper.value,
        paper_note=" ".join(filter(None, (conditions, note))),
        unprotected=target.unprotected_name,
    )


def _estimate_mean(
    values: NDArray[np.float64], owners: NDArray[np.int64] | None, confidence: float
) -> tuple[float, float]:
    """Mean of the values, and half the width of its normal interval at ``confidence`` (infinite for
    a single user).

    ``owners``: index of each value's user; None if each value belongs to a different user.
    """
    mean = float(values.mean())
    sums = values - mean if owners is None else np.bincount(owners, weights=values - mean)
    if len(sums) < 2:
        return mean, math.inf
    deviation = np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / len(values)
    return mean, float(stats.norm.ppf((1 + confidence) / 2) * deviation)


def iter_ranking_rows(
    target: Target,
    protocol: str,
    rival_counts: NDArray[np.int64],
    popularity_counts: NDArray[np.int64],
    n_rivals: NDArray[np.int64],
    *,
    confidence: float,
    average_per_user: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray,
    note: str = "",
) -> Iterator[UtilityRow]:
    """Yields two rows of the report, HR@K and NDCG@K, for each cutoff K of the system.

    The rivals of a tested item are the other items in its ranking.

    - ``rival_counts``: for each of n tested items, the number of rivals with a higher score (first
      row) and with an equal score (second row), (2, n).
    - ``popularity_counts``: numbers of rivals with higher and with equal popularity, (2, n).
    - ``n_rivals``: number of rivals of each tested item, (n,).
    - ``average_per_user``: function that maps values of tested items, (n,), to one value per user.
    - ``note``: sentence for each row.
    """
    blind = np.stack([np.zeros_like(n_rivals), n_rivals])
    for cutoff in target.evaluation.cutoffs:
        pairs = [compute_hr_dcg(a, b, cutoff) for a, b in (rival_counts, popularity_counts, blind)]
        for metric, values, popular, random in zip(("HR", "NDCG"), *pairs, strict=True):
            yield make_utility_row(
                target,
                f"{metric}@{cutoff}",
                protocol,
                average_per_user(values),
                average_per_user(popular),
                baseline=POPULARITY,
                random_value=float(average_per_user(random).mean()),
                confidence=confidence,
                note=note,
            )


def compute_hr_dcg(
    n_above: NDArray[np.int64], n_tied: NDArray[np.int64], cutoff: int
) -> NDArray[np.float64]:
    """Computes, for n ranked items, the probability of a place up to ``cutoff`` (first row) and the
    expected gain (second row), (2, n).

    ``n_above``: for each ranked item, the number of items with a higher score, (n,).
    ``n_tied``: for each ranked item, the number of other items with an equal score, (n,).

    The gain is 1/log2(1 + place) if the place (from 1) is at most ``cutoff``, otherwise 0. Items
    with equal scores are in random order.
    """
    places = np.arange(cutoff)
    reached = (places >= n_above[:, None]) & (places <= (n_above + n_tied)[:, None])
    hit = reached.sum(axis=1) / (n_tied + 1)
    gain = (reached / np.log2(places + 2)).sum(axis=1) / (n_tied + 1)
    return np.stack([hit, gain])
