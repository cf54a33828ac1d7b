"""How likely an interaction is before its own evidence: by its item and by its user.

The share of the users who met an item is that under which the evidence of all users on this item is
likeliest, sum_u log(pi e^L_u + 1 - pi), which is concave in pi; so is a user's share of all items.
Half an observation of the overall share keeps both away from 0 and 1. The prior odds of a pair are
those of its item times the user's share over the mean one. Source: maximum likelihood of a mixture
of two known densities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts.calibration import calibrated
from fedrec_auditor.attacks.readers.base import SURE, Evidence

_HALVINGS = 16  # down to the share of one user in 60,000
_STEPS, _TURNS, _LEAST = 20, 5, 1e-3
_WEIGHT = 0.5  # observations of the overall share


def posterior(
    evidence: Evidence,
    known: NDArray[np.float64] | None = None,
    tell: Callable[[str], None] | None = None,
) -> NDArray[np.float32]:
    """Probability that each user met each item: (n, M).

    See ``prior`` for ``known``, ``calibrated`` for ``tell``.
    """
    items, activity = prior(evidence, known)
    if known is not None:
        evidence = calibrated(evidence, known, tell)
    assert evidence.log_ratio is not None
    odds = evidence.log_ratio + items + activity[:, None]
    return np.asarray(expit(odds), dtype=np.float32)


def prior(
    evidence: Evidence, known: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-odds of each item (M,), and what each user's activity adds to them (n,).

    Those of items are the ``known`` ones (M,), where there are some: then evidence that says
    nothing leaves them as they are.
    """
    assert evidence.log_ratio is not None
    items, activity = evidence.items if known is None else known, evidence.activity
    if items is None or activity is None:
        ratio = np.clip(evidence.log_ratio, -SURE, SURE).astype(np.float32)
        if items is None:
            overall = _share(ratio.reshape(1, -1), 0.5)
            items = logit(_share(ratio.T, overall[0]))
        if activity is None:
            activity = _activity(ratio, items, population=known is not None)
    return items, activity


def _activity(
    ratio: NDArray[np.float32], items: NDArray[np.float64], *, population: bool
) -> NDArray[np.float64]:
    """What each user's activity adds to the log-odds of ``items`` (M,): (n,).

    Normal over users, of a mean and variance that all evidence tells: a user of whom little is told
    is like others. Expectation maximisation; what evidence leaves open is counted as by Louis 1982.
    """
    activity, mean, variance = np.zeros(len(ratio)), 0.0, 1.0
    for _ in range(_STEPS):
        prior = (items + activity[:, None]).astype(np.float32)
        before, after = expit(prior), expit(prior + ratio)
        curve = np.sum(before * (1 - before), axis=1, dtype=np.float64)
        gain = np.sum(after - before, axis=1, dtype=np.float64)
        open_ = np.sum(after * (1 - after), axis=1, dtype=np.float64)
        step = (gain - (activity - mean) / variance) / (curve + 1 / variance)
        activity += step.clip(-1, 1)
        mean = -variance / 2 if population else float(activity.mean())
        doubt = 1 / (np.maximum(curve - open_, 0) + 1 / variance)
        variance = float(np.mean((activity - mean) ** 2 + doubt).clip(_LEAST, 1))
    for _ in range(_TURNS if population else 0):  # no more items are met than is known
        after = expit((items + activity[:, None]).astype(np.float32) + ratio)
        most = (1 + len(ratio) ** -0.5) * len(ratio) * float(expit(items).sum())
        activity -= max(float(np.log(after.sum(dtype=np.float64) / most)), 0.0)
    return activity


def _share(ratio: NDArray[Any], overall: float) -> NDArray[np.float64]:
    """The likeliest share behind each row of log-likelihood ratios, (n, m) -> (n,)."""
    gain = np.expm1(ratio)
    low, high = np.zeros(len(ratio)), np.ones(len(ratio))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        slope = (gain / (1.0 + middle[:, None] * gain)).sum(axis=1)
        slope += _WEIGHT * (overall / middle - (1.0 - overall) / (1.0 - middle))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.asarray(0.5 * (low + high))
