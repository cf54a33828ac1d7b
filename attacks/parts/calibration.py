"""Evidence that is no more sure than it should be, by scales of its ratios and of activity.

A scale in [0, 1] of all log-likelihood ratios keeps their signs and their order, and so does a bend
of those that are too sure for how often they are wrong; entries that are proved stay. They are
settled on what the adversary may have:

1. Shadows. The devices' code is run, in the rounds that were seen, on histories that are made up:
   items by their popularity, users of log-normal activity. The readers read these messages as they
   read users', and scales and bend are the likeliest for the histories, which are known: a logistic
   regression on ratios and activity beside the log-odds of popularity (Platt 1999).
   Evidence stays to the last bit unless shadows refute it by three standard errors over shadows.
   Where popularity clearly bears it out against them, for made-up messages may be unlike users',
   it is bent only, to ratios of 16 nats at most.
2. Popularity, with or without the code. Of an item that a known share pi of the users met, a score
   falls into bin b with chance pi f1(b) + (1 - pi) f0(b), where f1 and f0 are the laws of scores of
   pairs that were met and that were not. So items of different shares tell how far apart the laws
   are without anybody's history. Popularity weakens only evidence that it refutes clearly, for
   scores may go with it for other reasons. Source: likelihood of a mixture with known weights.
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
    FEWEST,
    SECONDS,
    KnownForms,
    ShadowReader,
    alike,
    chosen_rounds,
    taken_by_code,
)
from fedrec_auditor.attacks.parts.uploads import item_odds, kept, names
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import OF_DATA, View

_ERRORS = 3.0  # standard errors over shadows by which evidence is refuted
_BINS = 64
_SAMPLE = 2**20  # scores by which bins are cut
_TOGETHER = 2**22  # scores counted at once
_CLEAR = 20.0  # nats by which evidence is refuted
_TINY = 1e-9
_MEMO = "scales"
_BENDS = 0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0

Numbers = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]


class Scales(NamedTuple):
    """Factors of ratios r and of activity; r is r / (1 + ``bend`` |r|) before."""

    ratio: float
    activity: float
    bend: float

    def of(self, ratio: Numbers) -> Numbers:
        """Ratios scaled; large ones come close to the scale over the bend."""
        return np.asarray(self.ratio * ratio / (1 + self.bend * np.abs(ratio)))


WHOLE = Scales(1.0, 1.0, 0.0)
"""The scales of evidence that is left as it is."""
_NOTHING = Scales(0.0, 0.0, 0.0)
_DISPUTED = Scales(1.0, 1.0, _BENDS[1])  # a few users may be read wrongly, and surely


def calibrated_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """Evidence of the view's readers on ``users`` (n,), as sure as shadows and popularity allow.

    InputError where no reader reads the view.
    """
    evidence = reading.evidence(view, users)
    if evidence.log_ratio is None:
        return evidence
    if _MEMO not in view.memo:
        view.memo[_MEMO] = _scales_of_shadows(view, evidence)
    by, odds = view.memo[_MEMO], item_odds(view)
    return _scaled(evidence, by) if odds is None else calibrated(evidence, odds, view.tell, by)


def calibrated(
    evidence: Evidence,
    items: Floats,
    tell: Callable[[str], None] | None = None,
    by: Scales | None = None,
) -> Evidence:
    """The evidence, scaled ``by`` these or left, as popularity allows, and weaker where it refutes.

    ``items`` (M,) are log-odds of the share of the users who met each item, NaN where they are not
    known. Entries that are proved stay as they are. It is said to ``tell``.
    """
    ratio = evidence.log_ratio
    assert ratio is not None
    known = np.flatnonzero(np.isfinite(items))
    counts, stated = _counted(ratio, known)
    some = counts.any(axis=1)
    counts, odds = counts[some], items[known[some], None]

    def loss(scales: Scales) -> float:
        return -_likelihood(counts, odds, scales.of(stated))

    best, said = WHOLE, ""
    if by is not None and by != WHOLE:
        best, said = by, "Evidence is weakened to what shadows of the devices' code bear out."
        if loss(by) > loss(WHOLE) + _CLEAR:
            best, said = _DISPUTED, "Popularity bears out evidence that shadows of code refute."
    if loss(best) > loss(_NOTHING) + _CLEAR:
        said = "Evidence is weakened to what popularity allows, which refutes more."
        fit = minimize_scalar(
            lambda scale: loss(Scales(scale, scale, 0.0)), bounds=(0, 1), method="bounded"
        )
        best = Scales(float(fit.x), float(fit.x), 0.0)
        best = best if loss(best) < loss(_NOTHING) else _NOTHING
    if said and tell is not None:
        tell(said)
    return _scaled(evidence, best)


def scales(evidence: Evidence, met: NDArray[np.bool_], items: Floats) -> Scales:
    """The scales that are likeliest for n users who ``met`` (n, M) these.

    ``items`` (M,) are log-odds of the items. ``WHOLE`` unless a smaller scale of ratios or activity
    is likelier by three standard errors over users; entries that are proved do not count.
    """
    assert evidence.log_ratio is not None
    finite = np.isfinite(evidence.log_ratio)
    ratio = np.where(finite, evidence.log_ratio, 0).clip(-SURE, SURE).astype(np.float64)
    activity = np.where(finite, prior(evidence, items)[1][:, None], 0)

    def slopes(bent: Floats, weights: Floats) -> Floats:
        wrong = met - expit(items + weights[0] * bent + weights[1] * activity)
        return np.stack([(wrong * part).sum(axis=1) for part in (bent, activity)])

    def loss(weights: Floats, bent: Floats) -> tuple[float, Floats]:
        odds = items + weights[0] * bent + weights[1] * activity
        likelihood = log_expit(np.where(met, odds, -odds)).mean()
        return -likelihood, -slopes(bent, weights).sum(axis=1) / met.size

    whole = slopes(ratio, np.ones(2))
    error = _ERRORS * whole.std(axis=1) / np.sqrt(len(met)) + _TINY
    if (whole.mean(axis=1) >= -error).all():
        return WHOLE
    fits = []
    for bend in _BENDS:
        bent = (Scales(1.0, 1.0, bend).of(ratio),)
        fit = minimize(loss, np.ones(2), bent, "L-BFGS-B", jac=True, bounds=[(0, 1), (0, 1)])
        fits.append((float(fit.fun), Scales(float(fit.x[0]), float(fit.x[1]), bend)))
    return min(fits, key=lambda fit: fit[0])[1]


def _scales_of_shadows(view: View, evidence: Evidence) -> Scales:
    """The scales that shadows bear out; 1 where the code of the devices is not at hand.

    Learned readers settle theirs themselves.
    """
    readers, client = reading.reading(view), view.public.client
    learned = any(isinstance(reader, ShadowReader) for reader in readers)
    if client is None or learned or ShadowReader().refusal(view):
        return WHOLE
    read, odds, rng = kept(view, names(view)[0]), item_odds(view), np.random.default_rng(0)
    of_data = all(part.kind in OF_DATA for _, _, part in read)
    rounds = [seen for seen, _, _ in read] if of_data else chosen_rounds(view)
    if FEWEST * len(rounds) * client.seconds > SECONDS:
        return WHOLE
    items = prior(evidence)[0] if odds is None else odds
    chance = expit(items + rng.normal(-0.5, 1.0, size=(FEWEST, 1)))
    met = alike(FEWEST, chance.astype(np.float32), client.sizes, rng)
    known = KnownForms(readers, replace(view, rounds=tuple(rounds)))
    try:
        taken, sent, _ = taken_by_code(
            met, lambda some: [client(met[some], s.broadcast, rng).components for s in rounds]
        )
    except InputError as error:
        view.tell(f"Evidence is not held against shadows: {error}")
        return WHOLE
    shadows = known.evidence_of(sent, len(taken))
    return WHOLE if shadows.log_ratio is None else scales(shadows, met[taken], items)


def _scaled(evidence: Evidence, by: Scales) -> Evidence:
    """The evidence with its finite ratios, and the activity that they tell, scaled."""
    if by == WHOLE:
        return evidence
    ratio = evidence.log_ratio
    assert ratio is not None
    items, activity = prior(evidence)
    finite = np.isfinite(ratio)
    weaker = by.of(np.where(finite, ratio, 0))
    ratio = np.where(finite, weaker.astype(ratio.dtype), ratio)
    return replace(evidence, log_ratio=ratio, items=items, activity=by.activity * activity)


def _counted(ratio: Numbers, items: NDArray[np.intp]) -> tuple[Numbers, Numbers]:
    """How many pairs of each item have a score in each bin (m, B), and the bins' mean scores (B,).

    Entries that are proved are left out.
    """
    few = ratio[:: 1 + ratio.size // _SAMPLE]
    few = few[np.isfinite(few)].clip(-SURE, SURE)
    shares = np.linspace(0, 1, _BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(few, shares)) if len(few) else few
    counts, total = np.zeros((len(items), len(cuts) + 1)), np.zeros(len(cuts) + 1)
    for some in blocks(len(ratio), len(items), _TOGETHER):
        scores = ratio[some][:, items]
        user, item = np.isfinite(scores).nonzero()
        scores = scores[user, item].clip(-SURE, SURE)
        bins = np.searchsorted(cuts, scores)
        total += np.bincount(bins, scores, counts.shape[1])
        cells = np.bincount(item * counts.shape[1] + bins, minlength=counts.size)
        counts += cells.reshape(counts.shape)
    filled = counts.any(axis=0)
    counts = counts[:, filled]
    return counts, total[filled] / counts.sum(axis=0)


def _likelihood(counts: Numbers, odds: Numbers, ratio: Numbers) -> float:
    """The largest log-likelihood of the counts (m, B) if scores mean the log-``ratio`` (B,).

    The law of scores of pairs that were not met is that by which all counts of a bin add up.
    """
    chance = np.logaddexp(log_expit(-odds), log_expit(odds) + ratio)
    size = np.log(counts.sum(axis=1, keepdims=True))
    chance += np.log(counts.sum(axis=0)) - logsumexp(size + chance, axis=0)
    chance -= logsumexp(chance, axis=1, keepdims=True)
    return float((counts * chance).sum())
