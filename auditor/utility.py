"""How well a target recommends: leave-last-out, HR@10 and NDCG@10, as the papers measure it.

One interaction of every user is held out (the latest; without timestamps a random one), the
target is trained on the rest, and the held-out item is ranked among 99 sampled items that the
user has not met, or among all of them. Ties are ranked by expectation, so that a model that says
nothing scores like a random one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from accountants.errors import InputError
from reports.record import UtilityRow
from targets.datasets.base import Interactions
from targets.systems.base import Model, Target
from targets.transcript import Floats

CUTOFF = 10
NEGATIVES = 99
_CHUNK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Interactions without one held-out item a user: ``held_out`` (n_users,), -1 where none is."""

    train: sparse.csr_array
    held_out: NDArray[np.int64]


def leave_last_out(interactions: Interactions, rng: np.random.Generator) -> Split:
    """Hold out the latest interaction of every user with at least two.

    Equal timestamps are broken by the larger item number; without timestamps a random interaction
    is held out.
    """
    ratings = interactions.ratings
    counts = np.diff(ratings.indptr)
    if not (counts >= 2).any():
        raise InputError(
            "Expected at least one user with two interactions, got none. Give more data."
        )
    times = interactions.timestamps
    key = rng.random(ratings.nnz) if times is None else times.astype(np.float64)
    rows = np.repeat(np.arange(ratings.shape[0]), counts)
    last = np.lexsort((ratings.indices, key, rows))[ratings.indptr[1:] - 1]
    chosen = counts >= 2
    held_out = np.full(ratings.shape[0], -1, dtype=np.int64)
    held_out[chosen] = ratings.indices[last[chosen]]
    keep = np.ones(ratings.nnz, dtype=bool)
    keep[last[chosen]] = False
    indptr = np.concatenate([[0], np.cumsum(counts - chosen)])
    train = sparse.csr_array(
        (ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape
    )
    return Split(train=train, held_out=held_out)


def evaluate(
    target: Target,
    model: Model,
    split: Split,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[UtilityRow, ...]:
    """HR@10 and NDCG@10 under both protocols, with normal intervals over users."""
    tested = np.flatnonzero(split.held_out >= 0)
    sampled = np.empty((2, len(tested)))
    overall = np.empty((2, len(tested)))
    n_items = split.train.shape[1]
    width = min(NEGATIVES, n_items - 1)
    for start in range(0, len(tested), _CHUNK):
        part = slice(start, start + _CHUNK)
        users = tested[part]
        known = split.train[users].toarray() > 0
        scores = np.asarray(target.score(model, split.train, users), dtype=np.float64)
        item = split.held_out[users]
        truth = np.take_along_axis(scores, item[:, None], axis=1)
        known[np.arange(len(users)), item] = True
        scores[known] = -np.inf
        overall[:, part] = _gains((scores > truth).sum(1), (scores == truth).sum(1))
        # 99 of the items the user has not met, without replacement: the smallest random keys
        keys = np.where(known, np.inf, rng.random(scores.shape))
        drawn = np.argpartition(keys, width - 1, axis=1)[:, :width]
        negatives = np.take_along_axis(scores, drawn, axis=1)
        sampled[:, part] = _gains((negatives > truth).sum(1), (negatives == truth).sum(1))
    choices = n_items - np.diff(split.train.indptr)[tested]
    chance = {"99 sampled negatives": _chance(np.array([width + 1])), "all items": _chance(choices)}
    rows = []
    for protocol, gains in (
        ("99 sampled negatives", sampled),
        ("all items", overall),
    ):
        for which, metric in enumerate((f"HR@{CUTOFF}", f"NDCG@{CUTOFF}")):
            low, high = _interval(gains[which], confidence)
            paper = next(
                (r for r in target.reported if (r.metric, r.protocol) == (metric, protocol)), None
            )
            rows.append(
                UtilityRow(
                    target=target.name,
                    metric=metric,
                    protocol=protocol,
                    value=float(gains[which].mean()),
                    ci_low=low,
                    ci_high=high,
                    confidence=confidence,
                    random=chance[protocol][which],
                    n=len(tested),
                    paper_value=None if paper is None else paper.value,
                    paper_note="" if paper is None else paper.note,
                )
            )
    return tuple(rows)


def _gains(above: NDArray[np.int64], tied: NDArray[np.int64]) -> NDArray[np.float64]:
    """Expected hit and discounted gain (2, n) when ``tied`` others share the item's score."""
    places = np.arange(CUTOFF)
    reached = (places >= above[:, None]) & (places <= (above + tied)[:, None])
    hit = reached.sum(axis=1) / (tied + 1)
    gain = (reached / np.log2(places + 2)).sum(axis=1) / (tied + 1)
    return np.stack([hit, gain])


def _chance(choices: NDArray[np.int64]) -> tuple[float, float]:
    """Expected HR and NDCG of a random order of so many choices, averaged."""
    gains = _gains(np.zeros_like(choices), choices - 1).mean(axis=1)
    return float(gains[0]), float(gains[1])


def _interval(values: Floats, confidence: float) -> tuple[float, float]:
    if len(values) < 2:
        return 0.0, 1.0
    half = stats.norm.ppf((1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return max(0.0, float(values.mean() - half)), min(1.0, float(values.mean() + half))
