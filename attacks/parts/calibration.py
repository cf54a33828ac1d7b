"""Evidence that is no more sure than it should be, by one scale of its log-likelihood ratios.

A scale in [0, 1] keeps every sign and the order of all ratios; entries that are proved stay. It is
settled on what the adversary may have:

1. Shadows. The devices' code is run, in the rounds that were seen, on histories that are made up:
   items by their popularity, users of log-normal activity. The readers read these messages as they
   read users', and the scale is the likeliest for the histories, which are known: a logistic
   regression on the ratios beside the log-odds of popularity, with a single weight (Platt 1999).
   Evidence stays to the last bit unless shadows refute it by three standard errors over shadows.
2. Popularity, with or without the code. Of an item that a known share pi of the users met, a score
   falls into bin b with chance pi f1(b) + (1 - pi) f0(b), where f1 and f0 are the laws of scores of
   pairs that were met and that were not. So items of different shares tell how far apart the laws
   are without anybody's history. Popularity weakens only evidence that it refutes clearly, for
   scores may go with it for other reasons. Source: likelihood of a mixture with known weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, logsumexp

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.parts.shadow_reader import (
    FEWEST,
    HELD,
    SECONDS,
    KnownForms,
    ShadowReader,
    alike,
    chosen_rounds,
    numbers_of,
    taken_by_code,
)
from fedrec_auditor.attacks.parts.uploads import item_odds
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.transcript import View

_SHADOWS = 200
_ERRORS = 3.0  # standard errors over shadows by which evidence is refuted
_BINS = 64
_SAMPLE = 2**20  # scores by which bins are cut
_TOGETHER = 2**22  # scores counted at once
_CLEAR = 20.0  # nats by which evidence is refuted
_MEMO = "scale"

Numbers = NDArray[np.floating[Any]]


def calibrated_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """Evidence of the view's readers on ``users`` (n,), as sure as shadows and popularity allow.

    InputError where no reader reads the view.
    """
    evidence = reading.evidence(view, users)
    if evidence.log_ratio is None:
        return evidence
    odds = item_odds(view)
    if _MEMO not in view.memo:
        view.memo[_MEMO] = _scale_by_shadows(view, prior(evidence)[0] if odds is None else odds)
    if (scale := view.memo[_MEMO]) < 1:
        view.tell(f"Evidence is scaled by {scale:.2f}, as shadows of the devices' code bear out.")
    evidence = _scaled(evidence, scale)
    return evidence if odds is None else calibrated(evidence, odds, view.tell)


def calibrated(
    evidence: Evidence, items: Numbers, tell: Callable[[str], None] | None = None
) -> Evidence:
    """The evidence, weaker where popularity refutes its log-likelihood ratios.

    ``items`` (M,) are log-odds of the share of the users who met each item, NaN where they are not
    known. Entries that are proved stay as they are. It is said to ``tell``.
    """
    ratio = evidence.log_ratio
    assert ratio is not None
    known = np.flatnonzero(np.isfinite(items))
    counts, stated = _counted(ratio, known)
    some = counts.any(axis=1)
    counts, odds = counts[some], items[known[some], None]
    nothing = _likelihood(counts, odds, 0 * stated)
    if _likelihood(counts, odds, stated) >= nothing - _CLEAR:
        return evidence
    if tell is not None:
        tell("Evidence is weakened to what popularity allows, which refutes more.")
    scale = _maximum(lambda scale: _likelihood(counts, odds, scale * stated))
    return _scaled(evidence, scale)


def shadow_scale(ratio: Numbers, met: NDArray[np.bool_], odds: Numbers) -> float:
    """The scale in [0, 1] of log-likelihood ratios (n, M) that is likeliest for those who ``met``.

    ``odds`` (M,) are log-odds of items. 1 unless a smaller one is likelier by three standard errors
    over the n shadows; entries that are proved do not count.
    """
    finite = np.isfinite(ratio)
    ratio = np.where(finite, np.clip(ratio, -SURE, SURE), 0).astype(np.float64)
    slopes = ((met - expit(odds + ratio)) * ratio).sum(axis=1)
    if slopes.mean() >= -_ERRORS * slopes.std() / np.sqrt(len(slopes)) - 1e-9:
        return 1.0
    way = np.where(met, 1.0, -1.0)
    return _maximum(lambda scale: float(log_expit(way * (odds + scale * ratio)).sum()))


def _scale_by_shadows(view: View, odds: Numbers) -> float:
    """The scale that shadows bear out; 1 where devices' code cannot be run, or by others' readers.

    Learned readers settle theirs themselves.
    """
    readers, client = reading.reading(view), view.public.client
    learned = any(isinstance(reader, ShadowReader) for reader in readers)
    if client is None or learned or ShadowReader().refusal(view):
        return 1.0
    rounds = chosen_rounds(view)
    most = min(_SHADOWS, HELD // numbers_of(view))
    if FEWEST * len(rounds) * client.seconds > SECONDS:
        return 1.0
    if most * len(rounds) * client.seconds > SECONDS:
        most = FEWEST
    rng = np.random.default_rng(0)
    activity = rng.normal(-0.5, 1.0, size=(most, 1))
    met = alike(most, expit(odds + activity).astype(np.float32), client.sizes, rng)
    known = KnownForms(readers, replace(view, rounds=tuple(rounds)))
    try:
        taken, sent, _ = taken_by_code(
            met, lambda some: [client(met[some], s.broadcast, rng).components for s in rounds]
        )
        told = known.of_shadows(sent, len(taken))
    except InputError as error:
        view.tell(f"Evidence is not held against shadows: {error}")
        return 1.0
    return shadow_scale(told, met[taken], odds)


def _scaled(evidence: Evidence, scale: float) -> Evidence:
    """The evidence with its finite ratios, and the activity that they tell, times the scale."""
    ratio, activity = evidence.log_ratio, evidence.activity
    if scale == 1 or ratio is None:
        return evidence
    ratio = np.where(np.isfinite(ratio), np.float32(scale) * ratio, ratio)
    return replace(
        evidence, log_ratio=ratio, activity=None if activity is None else scale * activity
    )


def _maximum(likelihood: Callable[[float], float]) -> float:
    """The scale in [0, 1] that is likeliest; 0 where none is likelier than that."""
    best = minimize_scalar(lambda scale: -likelihood(scale), bounds=(0, 1), method="bounded")
    return float(best.x) if likelihood(best.x) > likelihood(0.0) else 0.0


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
