"""Reader of randomized one-coordinate reports of item gradients, which infers interactions.

An FMF-LDP client holds the FCF gradient G = (s - V x) x^T clipped to [-1, 1], where V is the item
table, x the user's vector, and s is 0 at untouched items (see ``rank_one_gradients``). A touched
item is one with which the user interacted. The client reports random coordinates (i, f) as one
sign, + with probability (1 + kappa G_if) / 2, kappa = tanh(epsilon / 2). The few reports of one
user do not show x, but the reports of all users together show a typical x:

1. The mean estimate over users is H = E[s_i x] - V E[x x^T]. If the share of users who touched each
   item is known, regression of H on V and these shares gives the direction of the typical x. The
   direction is shrunk by the part that noise may have added (James and Stein 1961). Without known
   shares the part of H outside the span of V, (I - V V^+) H, is close to rank one, E[s_i] x^T: its
   right singular vector is the direction, and E[s_i] >= 0, large for few items, determines its
   sign.
2. For each length t of x the model predicts the gradient g1 at touched and g0 at untouched items,
   and H_i = pi_i g1_i + (1 - pi_i) g0_i gives the share pi_i of users who touched item i. The
   estimate is the length with the smallest squared error.
3. A user's reports on item i then have a log-likelihood ratio of touched against untouched, to
   which the log-odds of pi_i are added.

If the slope of the regression in step 1, or without known shares the singular value, is within the
noise, this method learns nothing and every pair scores 0. x differs between users, and V between
rounds; their means replace them, which makes the score weaker than the optimal one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import item_messages, read_entries
from fedrec_auditor.attacks.readers.base import Evidence, MessageReader
from fedrec_auditor.targets.transcript import Kind, View

_LENGTHS = np.geomspace(0.05, 20.0, 40)
_UNSURE, _TINY = 1 - 1e-12, 1e-30


class CoordinateReports(MessageReader):
    """Reader of randomized reports, each of a single coordinate of a user's item gradient.

    The reports give log-likelihood ratios of interactions, which are added up over rounds.
    """

    reference = (
        "likelihood ratio of the reported signs under a typical gradient; derived in "
        "attacks/readers/coordinate_reports.py from Minto et al. 2021, Algorithm 2"
    )

    requirement = "reports of an item gradient and their distribution"

    def can_read(self, view: View) -> bool:
        """Checks whether the view has reports of an item gradient with public probabilities."""
        known = {"epsilon", "reports"} <= set(view.public.settings)
        return known and bool(item_messages(view, (Kind.REPORTS,)))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns approximate log-likelihood ratios of interactions, from reports of all rounds.

        The result includes prior log-odds of items, estimated from the reports.
        """
        settings = view.public.settings
        kappa = float(np.tanh(settings["epsilon"] / 2))
        alpha = float(settings.get("alpha", 1.0))
        rounds = item_messages(view, (Kind.REPORTS,))
        items = np.mean([np.asarray(sent.broadcast, dtype=np.float64) for sent in rounds], axis=0)
        ratio = np.zeros((len(users), view.public.n_items))
        senders = sum(len(sent.users) for sent in rounds)
        if kappa == 0 or not senders:
            return Evidence(users=users, log_ratio=ratio)
        mean = sum(sent.component.total() for sent in rounds) / senders
        unit = items.size / kappa / settings["reports"]
        noise = 1.0 / (kappa**2 * senders * settings["reports"] / items.size)
        typical = _typical(np.asarray(mean), items, alpha, noise, view.public.popularity)
        if typical is None:
            return Evidence(users=users, log_ratio=ratio)
        touched, untouched, share = typical
        # Gradients are only typical, so that no report is a proof, even with little randomness.
        kappa = min(kappa, _UNSURE)
        plus = np.log1p(kappa * touched) - np.log1p(kappa * untouched)
        minus = np.log1p(-kappa * touched) - np.log1p(-kappa * untouched)
        for sent in rounds:
            for whose, estimates in read_entries(users, sent.users, sent.component):
                signs = np.rint(estimates / unit)
                ratio[whose] += np.einsum("nmf,mf->nm", signs, (plus - minus) / 2)
                ratio[whose] += np.einsum("nmf,mf->nm", np.abs(signs), (plus + minus) / 2)
        prior = np.log(share) - np.log1p(-share)
        return Evidence(users=users, log_ratio=ratio, item_odds=prior)


def _gradients(
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


def _typical(
    mean: NDArray[np.float64],
    items: NDArray[np.float64],
    alpha: float,
    noise: float,
    known: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Returns typical gradients (M, F) at touched and untouched items, and shares (M,).

    The shares are those of users who touched (interacted with) each item.

    mean: mean report (M, F)
    items: mean broadcast (M, F)
    alpha: public parameter of the loss
    noise: variance of an entry of ``mean``
    known: shares of items, if they are public (M,)

    The result is None if the reports do not show a typical gradient.
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
        touched, untouched = _gradients(length * direction, items, alpha)
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
