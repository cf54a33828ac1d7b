"""What flipped bits tell: evidence from the known channel, prior from all users' bits together.

A bit b in {0, 1} is reported as 1 with probability p if b = 1 and q if b = 0; each report y adds
ln P(y | 1) - ln P(y | 0) to the log-odds of b, and fresh reports of the same bit add up. The share
pi_i of users who have item i follows from the mean report m_i = q + (p - q) pi_i. Gao et al.,
SIGIR 2020, describe the channel; the decoding is Bayes' rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accountants.errors import InputError
from attacks._uploads import blocks
from targets.transcript import View

BITS = "bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``log_odds`` (n_users, n_items) of the bits being 1 by the reports alone, +-inf where proved.

    ``prior`` (n_items,) is the estimated share of users who have the item.
    """

    log_odds: NDArray[np.float64]
    prior: NDArray[np.float64]

    def posterior(self) -> NDArray[np.float64]:
        """Probability that each bit is 1: (n_users, n_items)."""
        odds = self.log_odds + np.log(self.prior) - np.log1p(-self.prior)
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(-odds)))


def carries_bits(view: View) -> bool:
    """Whether the view links flipped bits of a known channel to users."""
    return view.public.channel is not None and bool(view.component(BITS))


def evidence(view: View) -> Evidence:
    """Read all rounds' bits. Memory: three arrays (n_users, n_items)."""
    channel = view.public.channel
    if channel is None or not carries_bits(view):
        raise InputError(
            "Expected a view with the component 'bits' and its channel, got neither. "
            "Ask `applies` first."
        )
    shape = (view.public.n_users, view.public.n_items)
    ones, reports = np.zeros(shape, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
    for uploads, component in view.component(BITS):
        for rows, bits in blocks(component):
            ones[uploads.users[rows]] += bits != 0
        reports[uploads.users] += 1
    zeros = reports[:, None] - ones
    law = channel.log_prob(np.array([[0], [1]]), np.array([[0, 1]]))  # (report, bit)
    log_odds = _times(ones, law[1]) + _times(zeros, law[0])
    p, q = np.exp(law[1, 1]), np.exp(law[1, 0])
    return Evidence(
        log_odds=log_odds, prior=_shares(ones.sum(axis=0), int(reports.sum()), float(p), float(q))
    )


def _times(counts: NDArray[np.int32], law: NDArray[np.float64]) -> NDArray[np.float64]:
    """``counts`` times ln P(y | 1) - ln P(y | 0); no report is no evidence, however sure one is."""
    step = float(law[1]) - float(law[0]) if law[0] != law[1] else 0.0
    if np.isinf(step):
        return np.where(counts > 0, step, 0.0)
    return np.asarray(counts * step)


def _shares(ones: NDArray[np.int64], reports: int, p: float, q: float) -> NDArray[np.float64]:
    """Share of users who have each item, debiased, shrunk to the mean by its reliability.

    The weight of an item's own mean is the empirical-Bayes one: the part of the variance between
    items that sampling and flipping do not explain. Kept within half a user of 0 and 1. A channel
    that says nothing (p = q) leaves even odds.
    """
    if reports == 0 or p == q:
        return np.full(len(ones), 0.5)
    mean = ones / reports
    share = (mean - q) / (p - q)
    centre = share.mean()
    grand = mean.mean()
    noise = grand * (1 - grand) / reports / (p - q) ** 2
    between = max(share.var() - noise, 0.0)
    weight = between / (between + noise) if between + noise > 0 else 1.0
    edge = 0.5 / reports
    return np.asarray((centre + weight * (share - centre)).clip(edge, 1 - edge))
