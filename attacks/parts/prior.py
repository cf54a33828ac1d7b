"""Prior and posterior probabilities of an interaction, from its item and its user.

The share pi of users who interacted with an item maximises the likelihood of the evidence on this
item, sum_u log(pi e^L_u + 1 - pi), which is concave in pi; L_u is the evidence: the log-likelihood
ratio that user u interacted with the item. A user's share of all items is estimated in the same
way. Half an observation of the overall share keeps both estimates away from 0 and 1. The prior odds
of a (user, item) pair are the odds of the item times the ratio of the user's share to the mean
share. Source: maximum likelihood of a mixture of two known densities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence

_HALVINGS = 16  # enough for a share of one user in 60,000
_TINY = 1e-12
_WEIGHT = 0.5  # weight of the overall share, in observations

Numbers = NDArray[np.floating[Any]]


def posterior(evidence: Evidence, known: NDArray[np.float64] | None = None) -> NDArray[np.float32]:
    """Returns the probability that each user interacted with each item, (n, M).

    evidence: log-likelihood ratios of the interactions, from the messages (n, M)
    known: log-odds of the items' popularity (M,); None to estimate them from ``evidence``
    """
    items, activity = prior(evidence, known)
    assert evidence.log_ratio is not None
    odds = evidence.log_ratio + items + activity[:, None]
    return np.asarray(expit(odds), dtype=np.float32)


def prior(
    evidence: Evidence, known: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns prior log-odds of interactions: a term per item (M,) and a term per user (n,).

    evidence: log-likelihood ratios of the interactions (n, M)
    known: log-odds of the items to use instead of an estimate, or None (M,)

    A user's term expresses the user's activity: users with more interactions have higher log-odds
    of any item. The prior log-odds of a pair are the sum of both terms.
    """
    assert evidence.log_ratio is not None
    items, activity = evidence.item_odds if known is None else known, evidence.activity
    if items is None or activity is None:
        ratio = np.clip(evidence.log_ratio, -CERTAIN, CERTAIN).astype(np.float32)
        overall = _share(ratio.reshape(1, -1), 0.5)
        if items is None:
            items = logit(_share(ratio.T, overall[0]))
        if activity is None:
            own = _share(ratio, overall[0])
            activity = np.log(own / own.mean())
    return items, activity


def shrunk_activity(evidence: Evidence) -> NDArray[np.float64]:
    """Returns the term (n,) that a user's activity adds to log-odds of interactions, shrunk to 0.

    ``evidence`` is the log-likelihood ratios of the interactions. The more uncertain the user's
    items are, the more the term shrinks. This suits ratios that may be too large, or too small, for
    all items of a user.
    """
    chance = posterior(evidence).astype(np.float64)
    open_ = (chance * (1 - chance)).sum(axis=1) / np.maximum(chance.sum(axis=1), _TINY)
    return np.asarray((1 - open_) * prior(evidence)[1])


def _share(ratio: NDArray[Any], overall: float) -> NDArray[np.float64]:
    """Returns the most likely share of interactions (n,) in each row of log-ratios (n, m).

    A log-ratio is the log-likelihood ratio of one interaction. ``overall`` is the share of
    interactions over all rows, which counts as half an observation.
    """
    gain = np.expm1(ratio)
    low, high = np.zeros(len(ratio)), np.ones(len(ratio))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        slope = (gain / (1.0 + middle[:, None] * gain)).sum(axis=1)
        slope += _WEIGHT * (overall / middle - (1.0 - overall) / (1.0 - middle))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.asarray(0.5 * (low + high))
