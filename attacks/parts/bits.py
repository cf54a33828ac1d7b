"""What flipped bits tell: evidence from the known channel, prior from all users' bits together.

A bit b in {0, 1} is reported as 1 with probability p if b = 1 and q if b = 0; each report y adds
ln P(y | 1) - ln P(y | 0) to the log-odds of b, and fresh reports of the same bit add up. The share
pi_i of users who have item i follows from the mean report m_i = q + (p - q) pi_i of the item, the
share rho_u of items that user u has from the mean report of the user; the prior odds of (u, i) are
those of pi_i times rho_u over its mean. Gao et al., SIGIR 2020, describe the channel; the decoding
is Bayes' rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.uploads import blocks, kept, of_kind
from fedrec_auditor.targets.transcript import Kind, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``log_odds`` (n_users, n_items) of the bits being 1 by the reports alone, +-inf where proved.

    ``items`` (n_items,) are the log-odds of a bit by the item's popularity, ``users`` (n_users,)
    what the user's activity adds to them.
    """

    log_odds: NDArray[np.float64]
    items: NDArray[np.float64]
    users: NDArray[np.float64]

    def posterior(self) -> NDArray[np.float64]:
        """Probability that each bit is 1: (n_users, n_items)."""
        return np.asarray(expit(self.log_odds + self.items + self.users[:, None]))


def carries_bits(view: View) -> bool:
    """Whether the view links flipped bits of a known channel to users."""
    return view.public.channel is not None and of_kind(view, Kind.BITS) is not None


def evidence(view: View) -> Evidence:
    """Read all rounds' bits. Memory: three arrays (n_users, n_items)."""
    channel, name = view.public.channel, of_kind(view, Kind.BITS)
    if channel is None or name is None:
        raise InputError(
            "Expected a view with bits of all items and their channel, got neither. "
            "Ask `refusal` first."
        )
    shape = (view.public.n_users, view.public.n_items)
    ones, reports = np.zeros(shape, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
    for _, uploads, component in kept(view, name):
        for rows, bits in blocks(component):
            ones[uploads.users[rows]] += bits != 0
        reports[uploads.users] += 1
    zeros = reports[:, None] - ones
    log_probs = channel.log_prob(np.array([[0], [1]]), np.array([[0, 1]]))  # (report, bit)
    log_odds = _times(ones, log_probs[1]) + _times(zeros, log_probs[0])
    p, q = float(np.exp(log_probs[1, 1])), float(np.exp(log_probs[1, 0]))
    items = _shares(ones.sum(axis=0), np.full(shape[1], reports.sum()), p, q)
    users = _shares(ones.sum(axis=1), reports * shape[1], p, q)
    return Evidence(log_odds=log_odds, items=logit(items), users=np.log(users / users.mean()))


def _times(counts: NDArray[np.int32], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """``counts`` times ln P(y | 1) - ln P(y | 0); no report is no evidence, however sure one is."""
    step = float(log_probs[1]) - float(log_probs[0]) if log_probs[0] != log_probs[1] else 0.0
    if np.isinf(step):
        return np.where(counts > 0, step, 0.0)
    return np.asarray(counts * step)


def _shares(
    ones: NDArray[np.integer[Any]], reports: NDArray[np.integer[Any]], p: float, q: float
) -> NDArray[np.float64]:
    """Share of 1s behind each row's (or column's) reports: debiased, shrunk by its reliability.

    The weight of a row's own mean is the empirical-Bayes one: the part of the variance between
    rows that sampling and flipping do not explain. Kept within half a report of 0 and 1. A channel
    that says nothing (p = q) leaves even odds; a row without reports has the mean of all.
    """
    if p == q or not reports.any():
        return np.full(len(ones), 0.5)
    overall = ones.sum() / reports.sum()
    centre = (overall - q) / (p - q)
    seen = np.maximum(reports, 1)
    share = np.where(reports > 0, (ones / seen - q) / (p - q), centre)
    noise = overall * (1 - overall) / seen / (p - q) ** 2
    between = max(float(np.mean((share - centre) ** 2 - noise)), 0.0)
    if between + noise.max() > 0:
        share = centre + between / (between + noise) * (share - centre)
    edge = 0.5 / seen
    return np.asarray(share.clip(edge, 1 - edge))
