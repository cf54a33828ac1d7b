"""Calibration of evidence: scales of log-likelihood ratios and of activity, against overconfidence.

A scale in [0, 1] of all log-likelihood ratios keeps their signs and their order, and so does a bend
of large ratios that are wrong too often; entries that are proved stay unchanged. Both are fitted to
information that the adversary may have:

1. Shadows. The devices' code runs, in the rounds of the view, on simulated histories: items by
   their popularity, users of log-normal activity. The readers read these messages in the same way
   as users' messages, and scales and bend maximise the likelihood of the histories, which are
   known: a logistic regression on ratios and activity, with the log-odds of popularity as an offset
   (Platt 1999).
   Evidence is unchanged unless shadows refute it by three standard errors over
   shadows. If popularity clearly supports it against the shadows, it is only bent, to ratios of at
   most 16 nats, because simulated messages may differ from users' messages.
2. Popularity, with or without the code. For an item that a known share pi of the users interacted
   with, a score falls into bin b with the probability pi f1(b) + (1 - pi) f0(b), where f1 and f0
   are the distributions of scores of positives and of negatives. Items of different shares
   therefore show the difference between the distributions, without any user's history. Popularity
   weakens only evidence that it refutes clearly, because scores may depend on it for other reasons.
   Source: likelihood of a mixture with known weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logsumexp

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.parts.shadow_reader import (
    MAX_SECONDS,
    MIN_SHADOWS,
    FormReaders,
    ShadowReader,
    choose_rounds,
    draw_like_users,
    run_on_accepted,
)
from fedrec_auditor.attacks.parts.uploads import item_odds, list_names, read_rounds
from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.transcript import DATA_KINDS, View

_ERRORS = 3.0  # standard errors over shadows that refute evidence
_BINS = 64
_SAMPLE = 2**20  # number of scores that define the bins
_TOGETHER = 2**22  # number of scores that are counted at once
_CLEAR = 20.0  # difference in log-likelihood, in nats, that refutes evidence
_TINY = 1e-9
_MEMO = "scales"
_BENDS = 0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0

Numbers = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]


class Calibration(NamedTuple):
    """Factors by which evidence is weakened, to correct overconfidence.

    ratio: factor of the log-likelihood ratios r, after they become r / (1 + bend |r|)
    activity: factor of the terms that users' activities add to log-odds
    bend: inverse of the limit of bent ratios, in 1 / nats; 0 without a bend
    """

    ratio: float
    activity: float
    bend: float

    def rescale(self, ratio: Numbers) -> Numbers:
        """Returns log-likelihood ratios r scaled to ratio * r / (1 + bend |r|)."""
        return np.asarray(self.ratio * ratio / (1 + self.bend * np.abs(ratio)))


# Factors that leave evidence unchanged.
UNSCALED = Calibration(1.0, 1.0, 0.0)
_NOTHING = Calibration(0.0, 0.0, 0.0)
_DISPUTED = Calibration(1.0, 1.0, _BENDS[1])  # in case evidence on a few users is wrong but strong


def calibrate_readers(view: View, users: NDArray[np.int64]) -> Evidence:
    """Returns the readers' evidence on ``users`` (n,), weakened where it is overconfident.

    Simulated users and the popularity of items show how much the evidence overstates. Raises
    InputError if no reader can read the view.
    """
    evidence = reading.read_evidence(view, users)
    if evidence.log_ratio is None:
        return evidence
    if _MEMO not in view.cache:
        view.cache[_MEMO] = _scales_of_shadows(view, evidence)
    by, odds = view.cache[_MEMO], item_odds(view)
    return _scale(evidence, by) if odds is None else calibrated(evidence, odds, view.add_note, by)


def calibrated(
    evidence: Evidence,
    items: Floats,
    tell: Callable[[str], None] | None = None,
    by: Calibration | None = None,
) -> Evidence:
    """Weakens evidence that overstates what the known popularity of items supports.

    evidence: the evidence, with log-likelihood ratios
    items: log-odds of the share of users who interacted with each item, NaN if unknown (M,)
    tell: receives a sentence if the evidence is weakened or disputed
    by: scales that were fitted to simulated users, which are applied first; they are replaced by a
        mere bend if popularity clearly contradicts them

    If popularity refutes the result, ratios are scaled to the value that it supports. Entries that
    are proved stay unchanged.
    """
    ratio = evidence.log_ratio
    assert ratio is not None
    known = np.flatnonzero(np.isfinite(items))
    counts, stated = _count(ratio, known)
    some = counts.any(axis=1)
    counts, odds = counts[some], items[known[some], None]

    def loss(scales: Calibration) -> float:
        return -_likelihood(counts, odds, scales.rescale(stated))

    best, note = UNSCALED, ""
    if by is not None and by != UNSCALED:
        best, note = by, "The evidence is weakened to the strength that simulated users support."
        if loss(by) > loss(UNSCALED) + _CLEAR:
            best, note = _DISPUTED, "Popularity supports evidence that simulated users refute."
    if loss(best) > loss(_NOTHING) + _CLEAR:
        note = "The evidence is weakened to the strength that the popularity of items supports."
        fit = minimize_scalar(
            lambda scale: loss(Calibration(scale, scale, 0.0)), bounds=(0, 1), method="bounded"
        )
        best = Calibration(float(fit.x), float(fit.x), 0.0)
        best = best if loss(best) < loss(_NOTHING) else _NOTHING
    if note and tell is not None:
        tell(note)
    return _scale(evidence, best)


def fit_scales(evidence: Evidence, histories: NDArray[np.bool_], items: Floats) -> Calibration:
    """Fits the factors of evidence that make the known ``histories`` (n, M) of users most likely.

    ``items`` (M,) are the log-odds of the items. The result is ``UNSCALED`` unless a smaller factor
    of ratios or activity is better by three standard errors over users. Entries that are proved do
    not count.
    """
    assert evidence.log_ratio is not None
    finite = np.isfinite(evidence.log_ratio)
    ratio = np.where(finite, evidence.log_ratio, 0).clip(-CERTAIN, CERTAIN).astype(np.float64)
    activity = np.where(finite, prior(evidence, items)[1][:, None], 0)

    def slopes(bent: Floats, weights: Floats) -> Floats:
        wrong = histories - expit(items + weights[0] * bent + weights[1] * activity)
        return np.stack([(wrong * part).sum(axis=1) for part in (bent, activity)])

    def loss(weights: Floats, bent: Floats) -> tuple[float, Floats]:
        odds = items + weights[0] * bent + weights[1] * activity
        likelihood = log_expit(np.where(histories, odds, -odds)).mean()
        return -likelihood, -slopes(bent, weights).sum(axis=1) / histories.size

    whole = slopes(ratio, np.ones(2))
    error = _ERRORS * whole.std(axis=1) / np.sqrt(len(histories)) + _TINY
    if (whole.mean(axis=1) >= -error).all():
        return UNSCALED
    fits = []
    for bend in _BENDS:
        bent = (Calibration(1.0, 1.0, bend).rescale(ratio),)
        fit = minimize(loss, np.ones(2), bent, "L-BFGS-B", jac=True, bounds=[(0, 1), (0, 1)])
        fits.append((float(fit.fun), Calibration(float(fit.x[0]), float(fit.x[1]), bend)))
    return min(fits, key=lambda fit: fit[0])[1]


def _scales_of_shadows(view: View, evidence: Evidence) -> Calibration:
    """Returns the scales that shadows support; ``UNSCALED`` without the devices' code.

    ``ShadowReader`` calibrates its evidence itself.
    """
    readers, client = reading.readers_of(view), view.public.device_code
    learned = any(isinstance(reader, ShadowReader) for reader in readers)
    if client is None or learned or ShadowReader().refusal(view):
        return UNSCALED
    read, odds, rng = (
        read_rounds(view, list_names(view)[0]),
        item_odds(view),
        np.random.default_rng(0),
    )
    of_data = all(part.kind in DATA_KINDS for _, _, part in read)
    rounds = [seen for seen, _, _ in read] if of_data else choose_rounds(view)
    if MIN_SHADOWS * len(rounds) * client.call_seconds > MAX_SECONDS:
        return UNSCALED
    items = prior(evidence)[0] if odds is None else odds
    chance = expit(items + rng.normal(-0.5, 1.0, size=(MIN_SHADOWS, 1)))
    met = draw_like_users(MIN_SHADOWS, chance.astype(np.float32), client.size_range, rng)
    known = FormReaders(readers, replace(view, rounds=tuple(rounds)))
    try:
        taken, sent, _ = run_on_accepted(
            met, lambda some: [client(met[some], s.broadcast, rng).components for s in rounds]
        )
    except InputError as error:
        view.add_note(f"The evidence is not compared with simulated users: {error}")
        return UNSCALED
    shadows = known.shadow_evidence(sent, len(taken))
    return UNSCALED if shadows.log_ratio is None else fit_scales(shadows, met[taken], items)


def _scale(evidence: Evidence, by: Calibration) -> Evidence:
    """Returns the evidence with scaled activity and scaled finite ratios."""
    if by == UNSCALED:
        return evidence
    ratio = evidence.log_ratio
    assert ratio is not None
    items, activity = prior(evidence)
    finite = np.isfinite(ratio)
    weaker = by.rescale(np.where(finite, ratio, 0))
    ratio = np.where(finite, weaker.astype(ratio.dtype), ratio)
    return replace(evidence, log_ratio=ratio, item_odds=items, activity=by.activity * activity)


def _count(ratio: Numbers, items: NDArray[np.intp]) -> tuple[Numbers, Numbers]:
    """Returns counts of scores by item and bin, (m, B), and the bins' mean scores, (B,).

    Entries that are proved are omitted.
    """
    few = ratio[:: 1 + ratio.size // _SAMPLE]
    few = few[np.isfinite(few)].clip(-CERTAIN, CERTAIN)
    shares = np.linspace(0, 1, _BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(few, shares)) if len(few) else few
    counts, total = np.zeros((len(items), len(cuts) + 1)), np.zeros(len(cuts) + 1)
    for some in iter_blocks(len(ratio), len(items), _TOGETHER):
        scores = ratio[some][:, items]
        user, item = np.isfinite(scores).nonzero()
        scores = scores[user, item].clip(-CERTAIN, CERTAIN)
        bins = np.searchsorted(cuts, scores)
        total += np.bincount(bins, scores, counts.shape[1])
        cells = np.bincount(item * counts.shape[1] + bins, minlength=counts.size)
        counts += cells.reshape(counts.shape)
    filled = counts.any(axis=0)
    counts = counts[:, filled]
    return counts, total[filled] / counts.sum(axis=0)


def _likelihood(counts: Numbers, odds: Numbers, ratio: Numbers) -> float:
    """Returns the largest log-likelihood of ``counts`` (m, B) if the bins have these ratios.

    The distribution of scores of negatives is the one that reproduces the total count of each bin.
    """
    chance = np.logaddexp(log_expit(-odds), log_expit(odds) + ratio)
    size = np.log(counts.sum(axis=1, keepdims=True))
    chance += np.log(counts.sum(axis=0)) - logsumexp(size + chance, axis=0)
    chance -= logsumexp(chance, axis=1, keepdims=True)
    return float((counts * chance).sum())
