"""What every protocol of utility leaves to train on, and how it tells its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.reports.record import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, Target

_NUMBERS = 1 << 23  # scores at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Interactions to train on; what was held out of them is added by each protocol."""

    train: Interactions


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
    values: NDArray[np.floating[Any]],
    *,
    random: float,
    confidence: float,
    most: float = 1.0,
) -> UtilityRow:
    """The mean of ``values`` (n,) with a normal interval within [0, most], beside the paper's."""
    low, high = _interval(values, confidence, most)
    paper = next((r for r in target.reported if (r.metric, r.protocol) == (metric, protocol)), None)
    return UtilityRow(
        target=target.name,
        metric=metric,
        protocol=protocol,
        value=float(values.mean()),
        ci_low=low,
        ci_high=high,
        confidence=confidence,
        random=random,
        n=len(values),
        paper_value=None if paper is None else paper.value,
        paper_note="" if paper is None else paper.note,
    )


def _interval(
    values: NDArray[np.floating[Any]], confidence: float, most: float
) -> tuple[float, float]:
    if len(values) < 2:
        return 0.0, most
    half = stats.norm.ppf((1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return max(0.0, float(values.mean() - half)), min(most, float(values.mean() + half))
