"""Readers of randomized reports whose distribution is public: flipped bits and coordinates.

A report y of a bit adds ln P(y | 1) - ln P(y | 0) to the log-odds that the bit is 1. The prior
log-odds of a user's bit for an item are the item's log-odds plus a term for the user's activity
(general tendency to interact).

Source: Bayes' rule on the channel of Gao et al., SIGIR 2020.
"""

# A bit b in {0, 1} (1 if the user has the item) is reported as 1 with probability p if b = 1, and
# with q if b = 0. Fresh reports of one bit add up. The prior uses all users' bits. The share
# pi_i of users who have item i follows from the mean report m_i = q + (p - q) pi_i of the item.
# Activity is normal over users.

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.targets.transcript import Payload, View

_STEPS, _FIRST, _MIN_VAR, _MAX_VAR = 24, 3, 1e-3, 4.0
_OPEN = 0.3  # minimum information in a step, as a share of that of unflipped bits


class FlippedBitsReader(MessageReader):
    """Reader of messages with one randomly flipped bit per item; the true bit is 1 for own items.

    The probabilities of a flip are public. The reader returns prior log-odds, and the
    log-likelihood ratio of each user's interaction with each item, summed over rounds. The ratio is
    infinite if a message proves the bit.
    """

    reference = "Bayes' rule on the channel of Gao et al., SIGIR 2020, section 3"

    required_messages = "bits of all items and their distribution"

    def can_read(self, view: View) -> bool:
        """Checks whether the view links bits to users, and flipping probabilities are public."""
        known = view.public.noise_channel is not None
        return known and uploads.find_item_values_name(view, Payload.BITS) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, from the bits of all rounds.

        The result also has prior log-odds of items and users.
        """
        channel, name = view.public.noise_channel, uploads.find_item_values_name(view, Payload.BITS)
        assert channel is not None
        assert name is not None
        shape = (len(users), view.public.n_items)
        ones, reports = np.zeros(shape, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
        total, senders = np.zeros(shape[1], dtype=np.int64), 0
        for _, sent, component in uploads.select_rounds(view, name):
            for whose, bits in uploads.iter_user_messages(users, sent.users, component):
                ones[whose] += bits != 0
                reports[whose] += 1
            total += np.rint(component.sum_all()).astype(np.int64)
            senders += len(component)
        zeros = reports[:, None] - ones
        log_probs = channel.log_prob(np.array([[0], [1]]), np.array([[0, 1]]))  # (report, bit)
        ratio = _sum_ratios(ones, log_probs[1]) + _sum_ratios(zeros, log_probs[0])
        p, q = float(np.exp(log_probs[1, 1])), float(np.exp(log_probs[1, 0]))
        items = logit(_estimate_shares(total, np.full(shape[1], senders), p, q))
        known = uploads.get_item_log_odds(view)
        active = fit_activity_log_odds(ratio, items if known is None else known)
        return Evidence(users=users, log_ratio=ratio, item_log_odds=items, activity_log_odds=active)


def fit_activity_log_odds(
    log_ratio: NDArray[np.floating[Any]], item_log_odds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fits the term that each user's activity adds to the log-odds of all items, (n,).

    Activity is a user's general tendency to interact. It is normally distributed over users, with
    the mean and variance that fit all ratios best.

    log_ratio: log-likelihood ratios of interactions (n, M), which must be exact: errors would
        appear as activity
    item_log_odds: log-odds that an average user interacted with each item (M,)
    """
    # A user with little evidence gets about the mean.
    # Newton steps on the observed information (Louis 1982): expectation maximisation is far from
    # convergence after twenty steps if bits are noisy. The variance stays 1 in the first steps.
    log_ratio = np.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO).astype(np.float32)
    activity, mean, variance = np.zeros(len(log_ratio)), 0.0, 1.0
    for count in range(_STEPS):
        prior = (item_log_odds + activity[:, None]).astype(np.float32)
        before, after = expit(prior), expit(prior + log_ratio)
        curve = np.sum(before * (1 - before), axis=1, dtype=np.float64)
        gain = np.sum(after - before, axis=1, dtype=np.float64)
        information = curve - np.sum(after * (1 - after), axis=1, dtype=np.float64)
        step = gain - (activity - mean) / variance
        activity += (step / (np.maximum(information, _OPEN * curve) + 1 / variance)).clip(-1, 1)
        mean = float(activity.mean())
        if count >= _FIRST:
            doubt = 1 / (np.maximum(information, 0) + 1 / variance)
            variance = float(np.mean((activity - mean) ** 2 + doubt).clip(_MIN_VAR, _MAX_VAR))
    return activity


def _sum_ratios(counts: NDArray[np.int32], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns log-likelihood ratios of bits from the numbers of equal reports, (n, M).

    counts: number of reports of one value y for each bit (n, M)
    log_probs: ln P(y | 0) and ln P(y | 1) for the true bits 0 and 1 (2,)

    A count of 0 gives 0, even if y proves the bit.
    """
    step = float(log_probs[1]) - float(log_probs[0]) if log_probs[0] != log_probs[1] else 0.0
    if np.isinf(step):
        return np.where(counts > 0, step, 0.0)
    return np.asarray(counts * step)


def _estimate_shares(
    ones: NDArray[np.integer[Any]], reports: NDArray[np.integer[Any]], p: float, q: float
) -> NDArray[np.float64]:
    """Returns the estimated share of true 1s behind the flipped reports of each item, (M,).

    ones: number of reported 1s (M,)
    reports: number of reports (M,)
    p, q: probability that a true 1, and a true 0, is reported as 1

    The estimate is debiased, and shrunk to the overall mean (empirical Bayes). Shares stay half a
    report away from 0 and 1. An uninformative channel (p = q) gives a share of 1/2; an item without
    reports gets the overall mean.
    """
    if p == q or not reports.any():
        return np.full(len(ones), 0.5)
    overall = ones.sum() / reports.sum()
    centre = (overall - q) / (p - q)
    counts = np.where(reports > 0, reports, reports.max())
    share = np.where(reports > 0, (ones / counts - q) / (p - q), centre)
    noise = overall * (1 - overall) / counts / (p - q) ** 2
    # The weight of an item's own mean is the part of the variance between items that sampling and
    # flipping do not explain.
    between = max(float(np.mean(((share - centre) ** 2 - noise)[reports > 0])), 0.0)
    if between + noise.max() > 0:
        share = centre + between / (between + noise) * (share - centre)
    edge = 0.5 / counts
    return np.asarray(share.clip(edge, 1 - edge))


# Reader of randomized one-coordinate reports of item gradients, which infers interactions.
#
# An FMF-LDP client holds the FCF gradient G = (s - V x) x^T clipped to [-1, 1], where V is the item
# table, x the user's vector, and s is 0 at untouched items (see ``rank_one_gradients``). A touched
# item is one with which the user interacted. The client reports random coordinates (i, f) as one
# sign, + with probability (1 + kappa G_if) / 2, kappa = tanh(epsilon / 2). The few reports of one
# user do not show x, but the reports of all users together show a typical x:
#
# 1. The mean estimate over users is H = E[s_i x] - V E[x x^T]. If the share of users who touched
#    each item is known, regression of H on V and these shares gives the direction of the typical x.
#    The direction is shrunk by the part that noise may have added (James and Stein 1961). Without
#    known shares the part of H outside the span of V, (I - V V^+) H, is close to rank one, E[s_i]
#    x^T: its right singular vector is the direction, and E[s_i] >= 0, large for few items,
#    determines its sign.
# 2. For each length t of x the model predicts the gradient g1 at touched and g0 at untouched items,
#    and H_i = pi_i g1_i + (1 - pi_i) g0_i gives the share pi_i of users who touched item i. The
#    estimate is the length with the smallest squared error.
# 3. A user's reports on item i then have a log-likelihood ratio of touched against untouched, to
#    which the log-odds of pi_i are added.
#
# If the slope of the regression in step 1, or without known shares the singular value, is within
# the noise, this method learns nothing and every pair scores 0. x differs between users, and V
# between rounds; their means replace them, which makes the score weaker than the optimal one.

_LENGTHS = np.geomspace(0.05, 20.0, 40)
_UNSURE, _TINY = 1 - 1e-12, 1e-30


class CoordinateReportsReader(MessageReader):
    """Reader of randomized reports, each of a single coordinate of a user's item gradient.

    The reports give log-likelihood ratios of interactions, which are added up over rounds.
    """

    reference = (
        "likelihood ratio of the reported signs under a typical gradient; derived in "
        "attacks/readers/report_readers.py from Minto et al. 2021, Algorithm 2"
    )

    required_messages = "reports of an item gradient and their distribution"

    def can_read(self, view: View) -> bool:
        """Checks whether the view has one-coordinate reports of item gradients, and their epsilon.

        The epsilon of a report gives the probabilities of its randomizer.
        """
        known = {"epsilon", "reports"} <= set(view.public.settings)
        return known and bool(uploads.read_item_messages(view, (Payload.REPORTS,)))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns approximate log-likelihood ratios of interactions, from reports of all rounds.

        The result includes prior log-odds of items, estimated from the reports.
        """
        settings = view.public.settings
        kappa = float(np.tanh(settings["epsilon"] / 2))
        alpha = float(settings.get("alpha", 1.0))
        rounds = uploads.read_item_messages(view, (Payload.REPORTS,))
        items = np.mean([np.asarray(sent.broadcast, dtype=np.float64) for sent in rounds], axis=0)
        ratio = np.zeros((len(users), view.public.n_items))
        senders = sum(len(sent.users) for sent in rounds)
        if kappa == 0 or not senders:
            return Evidence(users=users, log_ratio=ratio)
        mean = sum(sent.component.sum_all() for sent in rounds) / senders
        unit = items.size / kappa / settings["reports"]
        noise = 1.0 / (kappa**2 * senders * settings["reports"] / items.size)
        typical = _fit_gradients(np.asarray(mean), items, alpha, noise, view.public.popularity)
        if typical is None:
            return Evidence(users=users, log_ratio=ratio)
        touched, untouched, share = typical
        # Gradients are only typical, so that no report is a proof, even with little randomness.
        kappa = min(kappa, _UNSURE)
        plus = np.log1p(kappa * touched) - np.log1p(kappa * untouched)
        minus = np.log1p(-kappa * touched) - np.log1p(-kappa * untouched)
        for sent in rounds:
            for whose, estimates in uploads.iter_user_messages(users, sent.users, sent.component):
                signs = np.rint(estimates / unit)
                ratio[whose] += np.einsum("nmf,mf->nm", signs, (plus - minus) / 2)
                ratio[whose] += np.einsum("nmf,mf->nm", np.abs(signs), (plus + minus) / 2)
        prior = np.log(share) - np.log1p(-share)
        return Evidence(users=users, log_ratio=ratio, item_log_odds=prior)


def _predict_gradients(
    vector: NDArray[np.float64], items: NDArray[np.float64], alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns a user's clipped item gradients (M, F), if every item is touched, and if none is.

    vector: the user's vector (F,)
    items: item table (M, F)
    alpha: public parameter of the loss

    A touched item is one with which the user interacted.
    """
    prediction = items @ vector
    touched = np.outer((1 + alpha) * (1 - prediction), vector)
    return touched.clip(-1, 1), np.outer(-prediction, vector).clip(-1, 1)


def _fit_gradients(
    mean: NDArray[np.float64],
    items: NDArray[np.float64],
    alpha: float,
    noise: float,
    known: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Returns typical gradients (M, F) at touched and untouched items, and shares (M,).

    The shares are those of users who touched (interacted with) each item. The result is None if the
    reports do not show a typical gradient.

    mean: mean report (M, F)
    items: mean broadcast (M, F)
    alpha: public parameter of the loss
    noise: variance of an entry of ``mean``
    known: shares of items, if they are public (M,)
    """
    if known is None:
        rest = mean - items @ np.linalg.lstsq(items, mean, rcond=None)[0]
        _, values, right = np.linalg.svd(rest, full_matrices=False)
        edge = np.sqrt(noise) * (np.sqrt(items.shape[0]) + np.sqrt(items.shape[1]))
        if values[0] <= 1.1 * edge:
            return None
        direction = right[0] * np.sign(np.sum((rest @ right[0]) ** 3))
    else:
        residual = known - items @ np.linalg.lstsq(items, known, rcond=None)[0]
        size = float(residual @ residual)
        direction = residual @ mean / max(size, _TINY)
        squared = float(direction @ direction)
        # James and Stein: the part of the slope's length that exceeds the noise.
        shrunk = 1 - len(direction) * noise / max(size, _TINY) / max(squared, _TINY)
        if shrunk <= 0:
            return None
        direction = direction / np.sqrt(squared)
    best, min_error = None, np.inf
    for length in _LENGTHS:
        touched, untouched = _predict_gradients(length * direction, items, alpha)
        gap = touched - untouched
        weight = np.maximum(np.sum(gap * gap, axis=1), 1e-12)
        share = (np.sum((mean - untouched) * gap, axis=1) / weight).clip(0, 1)
        error = float(np.sum((mean - untouched - share[:, None] * gap) ** 2))
        if error < min_error:
            # A tenth of the average share keeps shares away from 0 and 1.
            min_error, best = error, (touched, untouched, 0.9 * share + 0.1 * share.mean())
    if best is None or not 0 < best[2].mean() < 1:
        return None
    if known is not None:  # an uncertain direction weakens each report
        touched, untouched, shares = best
        middle, half = (touched + untouched) / 2, shrunk * (touched - untouched) / 2
        return middle + half, middle - half, shares
    return best
