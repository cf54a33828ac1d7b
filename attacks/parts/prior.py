"""How likely an interaction is before its own evidence: by its item and by its user.

The share of the users who met an item is that under which the evidence of all users on this item is
likeliest, sum_u log(pi e^L_u + 1 - pi), which is concave in pi; so is a user's share of all items.
Half an observation of the overall share keeps both away from 0 and 1. The prior odds of a pair are
those of its item times the user's share over the mean one. Source: maximum likelihood of a mixture
of two known densities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.readers.base import SURE, Evidence

_HALVINGS = 16  # down to the share of one user in 60,000
_TINY = 1e-12
_WEIGHT = 0.5  # observations of the overall share

Numbers = NDArray[np.floating[Any]]


def posterior(evidence: Evidence, known: NDArray[np.float64] | None = None) -> NDArray[np.float32]:
    """Probability that each user met each item: (n, M). See ``prior`` for ``known``."""
    items, activity = prior(evidence, known)
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
        overall = _share(ratio.reshape(1, -1), 0.5)
        if items is None:
            items = logit(_share(ratio.T, overall[0]))
        if activity is None:
            own = _share(ratio, overall[0])
            activity = np.log(own / own.mean())
    return items, activity


def shrunk_activity(evidence: Evidence) -> NDArray[np.float64]:
    """Log-odds added by each user's activity, (n,), as far as the user's items are settled.

    For evidence that may be too large or too small for all items of a user alike.
    """
    chance = posterior(evidence).astype(np.float64)
    open_ = (chance * (1 - chance)).sum(axis=1) / np.maximum(chance.sum(axis=1), _TINY)
    return np.asarray((1 - open_) * prior(evidence)[1])


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
