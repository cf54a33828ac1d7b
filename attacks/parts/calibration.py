"""Evidence held against popularity, which tells how much of it can be true.

Of an item that a known share pi of the users met, a score falls into bin b with chance
pi f1(b) + (1 - pi) f0(b), where f1 and f0 are the laws of scores of pairs that were met and that
were not. So items of different shares tell both laws without anybody's history, and log f1 / f0 is
what a score says. A reader that is sure of what it reads, where noise decides it, explains the
counts worse than evidence that says nothing does: then its ratios are replaced by these.

Source: maximum likelihood of a mixture with known weights (EM: Dempster, Laird and Rubin, 1977),
isotonic in the score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp
from sklearn.isotonic import IsotonicRegression

from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.compute import blocks

_BINS, _STEPS = 64, 300
_SAMPLE = 2**20  # scores by which bins are cut
_LEAST = 1e-3  # pairs, added to each bin of each law
_TOGETHER = 2**22  # scores counted at once
_CLEAR = 20.0  # nats by which evidence is refuted

Numbers = NDArray[np.floating[Any]]


def calibrated(
    evidence: Evidence, items: Numbers, tell: Callable[[str], None] | None = None
) -> Evidence:
    """The evidence, weaker where popularity refutes its log-likelihood ratios.

    ``items`` (M,) are log-odds of the share of the users who met each item, NaN where they are not
    known. Entries that are proved stay as they are. No ratio changes its sign or grows, for scores
    may go with popularity for other reasons. It is said to ``tell``.
    """
    ratio = evidence.log_ratio
    assert ratio is not None
    known = np.flatnonzero(np.isfinite(items))
    counts, stated = _counted(ratio, known)
    some = counts.any(axis=1)
    counts, odds, nothing = counts[some], items[known[some], None], np.zeros_like(stated)
    least = _likelihood(counts, odds, nothing)
    if _likelihood(counts, odds, stated) >= least - _CLEAR:
        return evidence
    if tell is not None:
        tell("Evidence is weakened to what popularity allows, which refutes more.")
    fitted = stated
    for _ in range(_STEPS):
        met = counts * expit(odds + fitted)
        one, zero = (part.sum(axis=0) + _LEAST for part in (met, counts - met))
        fitted = np.log(one / one.sum()) - np.log(zero / zero.sum())
    law = IsotonicRegression(out_of_bounds="clip")
    law.fit(stated, fitted, sample_weight=counts.sum(axis=0))

    def weaker(scores: Numbers) -> Numbers:
        told = law.predict(np.clip(scores, -SURE, SURE).ravel()).reshape(scores.shape)
        least, most = np.minimum(scores, 0), np.maximum(scores, 0)
        return np.asarray(np.clip(told, least, most), dtype=scores.dtype)

    if _likelihood(counts, odds, weaker(stated)) <= least:
        told = np.zeros_like(ratio)
    else:
        told = weaker(ratio)
    return replace(evidence, log_ratio=np.where(np.isfinite(ratio), told, ratio))


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
