"""Reader of randomly flipped bits, one per item, with public flipping probabilities.

A bit b in {0, 1} (1 if the user has the item) is reported as 1 with probability p if b = 1 and q if
b = 0; each report y adds ln P(y | 1) - ln P(y | 0) to the log-odds of b, and fresh reports of one
bit add up. The prior uses the bits of all users together. The share pi_i of users who have item i
follows from the mean report m_i = q + (p - q) pi_i of the item; the prior log-odds of user u and
item i are those of pi_i plus the activity of u, which is normal over users. Gao et al., SIGIR 2020,
describe the channel; the decoding is Bayes' rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts.uploads import (
    find_component,
    item_odds,
    read_entries,
    read_rounds,
)
from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence, MessageReader
from fedrec_auditor.targets.transcript import Kind, View

_STEPS, _FIRST, _LEAST, _MOST = 24, 3, 1e-3, 4.0
_OPEN = 0.3  # minimum information in a step, as a share of that of unflipped bits


class FlippedBits(MessageReader):
    """Reader of messages with one randomly flipped bit per item; the true bit is 1 for own items.

    The probabilities of a flip are public. The reader returns the log-likelihood ratio of each
    user's interaction with each item, and prior log-odds; ratios of several rounds add up. The
    ratio is infinite if a message proves the bit: a 1 is proof if true 0s are never flipped, and a
    0 if true 1s are never flipped.
    """

    reference = "Bayes' rule on the channel of Gao et al., SIGIR 2020, section 3"

    requirement = "bits of all items and their distribution"

    def can_read(self, view: View) -> bool:
        """Checks whether the view links bits to users, and flipping probabilities are public."""
        return view.public.channel is not None and find_component(view, Kind.BITS) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-ratios of interactions from bits of all rounds, and prior log-odds."""
        channel, name = view.public.channel, find_component(view, Kind.BITS)
        assert channel is not None
        assert name is not None
        shape = (len(users), view.public.n_items)
        ones, reports = np.zeros(shape, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
        total, senders = np.zeros(shape[1], dtype=np.int64), 0
        for _, uploads, component in read_rounds(view, name):
            for whose, bits in read_entries(users, uploads.users, component):
                ones[whose] += bits != 0
                reports[whose] += 1
            total += np.rint(component.total()).astype(np.int64)
            senders += len(component)
        zeros = reports[:, None] - ones
        log_probs = channel.log_prob(np.array([[0], [1]]), np.array([[0, 1]]))  # (report, bit)
        log_ratio = _times(ones, log_probs[1]) + _times(zeros, log_probs[0])
        p, q = float(np.exp(log_probs[1, 1])), float(np.exp(log_probs[1, 0]))
        items = _shares(total, np.full(shape[1], senders), p, q)
        known = item_odds(view)
        odds = logit(items) if known is None else known
        activity = fit_activity(log_ratio, odds)
        return Evidence(users=users, log_ratio=log_ratio, item_odds=logit(items), activity=activity)


def fit_activity(
    ratio: NDArray[np.floating[Any]], items: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fits the term, (n,), that each user's activity adds to the log-odds of items.

    ratio: log-likelihood ratios of interactions (n, M); exact, because errors of the ratios would
        appear as activity
    items: log-odds of the items' popularity (M,)

    Activity is normal over users, with the mean and variance that fit all ratios best, so that a
    user with little evidence gets about the mean. The fit takes Newton steps on the observed
    information (Louis 1982), because expectation maximisation is far from convergence after twenty
    steps if bits are noisy. The variance stays 1 in the first steps.
    """
    ratio = np.clip(ratio, -CERTAIN, CERTAIN).astype(np.float32)
    activity, mean, variance = np.zeros(len(ratio)), 0.0, 1.0
    for count in range(_STEPS):
        prior = (items + activity[:, None]).astype(np.float32)
        before, after = expit(prior), expit(prior + ratio)
        curve = np.sum(before * (1 - before), axis=1, dtype=np.float64)
        gain = np.sum(after - before, axis=1, dtype=np.float64)
        information = curve - np.sum(after * (1 - after), axis=1, dtype=np.float64)
        step = gain - (activity - mean) / variance
        activity += (step / (np.maximum(information, _OPEN * curve) + 1 / variance)).clip(-1, 1)
        mean = float(activity.mean())
        if count >= _FIRST:
            doubt = 1 / (np.maximum(information, 0) + 1 / variance)
            variance = float(np.mean((activity - mean) ** 2 + doubt).clip(_LEAST, _MOST))
    return activity


def _times(counts: NDArray[np.int32], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns log-likelihood ratios of bits from the numbers of equal reports, (n, M).

    counts: number of reports of one value y for each bit (n, M)
    log_probs: ln P(y | 0) and ln P(y | 1) for the true bits 0 and 1 (2,)

    A count of 0 gives 0, even if y proves the bit.
    """
    step = float(log_probs[1]) - float(log_probs[0]) if log_probs[0] != log_probs[1] else 0.0
    if np.isinf(step):
        return np.where(counts > 0, step, 0.0)
    return np.asarray(counts * step)


def _shares(
    ones: NDArray[np.integer[Any]], reports: NDArray[np.integer[Any]], p: float, q: float
) -> NDArray[np.float64]:
    """Returns the estimated share of true 1s behind the flipped reports of each item, (M,).

    ones: number of reported 1s (M,)
    reports: number of reports (M,)
    p, q: probability that a true 1, and a true 0, is reported as 1

    The estimate is debiased, and shrunk to the overall mean. The weight of an item's own mean is
    the empirical-Bayes weight: the part of the variance between items that sampling and flipping do
    not explain. Shares stay half a report away from 0 and 1. An uninformative channel (p = q) gives
    a share of 1/2; an item without reports gets the overall mean.
    """
    if p == q or not reports.any():
        return np.full(len(ones), 0.5)
    overall = ones.sum() / reports.sum()
    centre = (overall - q) / (p - q)
    counts = np.where(reports > 0, reports, reports.max())
    share = np.where(reports > 0, (ones / counts - q) / (p - q), centre)
    noise = overall * (1 - overall) / counts / (p - q) ** 2
    between = max(float(np.mean(((share - centre) ** 2 - noise)[reports > 0])), 0.0)
    if between + noise.max() > 0:
        share = centre + between / (between + noise) * (share - centre)
    edge = 0.5 / counts
    return np.asarray(share.clip(edge, 1 - edge))
