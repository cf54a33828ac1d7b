"""What the protocols of utility share: held-out data, scores in blocks, gains and rows.

Intervals are over users, who are independent, of one training. The difference from a baseline is
taken user by user, on the same split and the same candidates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
from fedrec_auditor.targets.systems.base import Model, Target

TESTED = 20_000
"""Most users who are tested: of more, so many are drawn at random."""
_NUMBERS = 1 << 23  # scores at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(ABC):
    """Interactions to train on; what was held out of them is added by each protocol."""

    train: Interactions

    @abstractmethod
    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """The target's metrics on what was held out, with normal intervals at ``confidence``."""


def drawn(users: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.int64], str]:
    """At most ``TESTED`` of these users in their order, and a sentence that says so if fewer."""
    if len(users) <= TESTED:
        return users, ""
    few = np.sort(rng.choice(len(users), size=TESTED, replace=False))
    return users[few], f"Of {len(users):,} users {TESTED:,} were tested, drawn at random."


def blocks(users: NDArray[np.int64], n_items: int) -> Iterator[NDArray[np.int64]]:
    """The users in blocks, in order: a few tables of 64 MiB at a time, however many items."""
    step = max(1, _NUMBERS // max(1, n_items))
    for start in range(0, len(users), step):
        yield users[start : start + step]


def scored(
    target: Target, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """A copy of the target's scores, (len(users), n_items); InputError unless all are finite.

    Nothing is above nan, so an item with it would rank first.
    """
    scores = np.array(target.score(model, interactions, users), dtype=np.float64)
    expected = (len(users), interactions.n_items)
    if scores.shape != expected:
        raise InputError(
            f"Expected scores of shape {expected} from {target.name}, got {scores.shape}. "
            "Score all items for every user that is asked for."
        )
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, item = bad[0]
        raise InputError(
            f"Expected finite scores from {target.name}, got {scores[row, item]} for item {item} "
            f"of user {users[row]} and {len(bad)} in all. Its training has probably diverged: "
            "lower its learning_rate."
        )
    return scores


def row(
    target: Target,
    metric: str,
    protocol: str,
    values: NDArray[np.float64],
    theirs: NDArray[np.float64],
    *,
    baseline: str,
    random: float,
    confidence: float,
    owners: NDArray[np.int64] | None = None,
    most: float = 1.0,
    note: str = "",
) -> UtilityRow:
    """The mean of ``values`` (n,) with a normal interval within [0, most], beside the paper's.

    ``theirs`` (n,) are the values of the ``baseline``. ``owners`` (n,) number the users from 0;
    without them each value is of another user.
    """
    mean, half = _mean(values, owners, confidence)
    ahead, error = _mean(values - theirs, owners, confidence)
    paper = next((r for r in target.reported if (r.metric, r.protocol) == (metric, protocol)), None)
    return UtilityRow(
        target=target.name,
        metric=metric,
        protocol=protocol,
        value=mean,
        ci_low=max(0.0, mean - half),
        ci_high=min(most, mean + half),
        confidence=confidence,
        random=random,
        baseline=Baseline(
            name=baseline,
            value=float(theirs.mean()),
            difference=FurtherFigure(value=ahead, ci_low=ahead - error, ci_high=ahead + error),
        ),
        n=len(values),
        paper_value=None if paper is None else paper.value,
        paper_note=". ".join(filter(None, ("" if paper is None else paper.note, note))),
        unprotected=target.unprotected,
    )


def _mean(
    values: NDArray[np.float64], owners: NDArray[np.int64] | None, confidence: float
) -> tuple[float, float]:
    """The mean and half of its normal interval; users, who may own many values, are independent."""
    mean = float(values.mean())
    sums = values - mean if owners is None else np.bincount(owners, weights=values - mean)
    if len(sums) < 2:
        return mean, math.inf
    deviation = np.sqrt(len(sums) / (len(sums) - 1) * np.square(sums).sum()) / len(values)
    return mean, float(stats.norm.ppf((1 + confidence) / 2) * deviation)


def ranked(
    target: Target,
    protocol: str,
    ours: NDArray[np.int64],
    theirs: NDArray[np.int64],
    others: NDArray[np.int64],
    *,
    confidence: float,
    per_user: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray,
    note: str = "",
) -> Iterator[UtilityRow]:
    """HR@K and NDCG@K of tested items at the target's cutoffs, beside popularity and random scores.

    Of each tested item: how many of its ``others`` (n,) are scored above it, and how many the same,
    by the target, ``ours`` (2, n), and by popularity, ``theirs``. ``per_user`` takes the figures of
    tested items to those of users.
    """
    blind = np.stack([np.zeros_like(others), others])
    for cutoff in target.evaluation.cutoffs:
        found = [gains(above, tied, cutoff) for above, tied in (ours, theirs, blind)]
        for metric, values, popular, random in zip(("HR", "NDCG"), *found, strict=True):
            yield row(
                target,
                f"{metric}@{cutoff}",
                protocol,
                per_user(values),
                per_user(popular),
                baseline=POPULARITY,
                random=float(per_user(random).mean()),
                confidence=confidence,
                note=note,
            )


def gains(above: NDArray[np.int64], tied: NDArray[np.int64], cutoff: int) -> NDArray[np.float64]:
    """Expected hit and discounted gain (2, n) when ``tied`` others share the item's score."""
    places = np.arange(cutoff)
    reached = (places >= above[:, None]) & (places <= (above + tied)[:, None])
    hit = reached.sum(axis=1) / (tied + 1)
    gain = (reached / np.log2(places + 2)).sum(axis=1) / (tied + 1)
    return np.stack([hit, gain])
