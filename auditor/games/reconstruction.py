"""Reconstruction, scored: how much of every user's interaction set, and vector, came back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Attack, Background, Reconstruction
from fedrec_auditor.auditor import metrics
from fedrec_auditor.auditor.games.truth import Truth
from fedrec_auditor.reports.record import AttackRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A metric's value, what is reached without the upload, and what the metric means."""

    metric: str
    estimate: metrics.Estimate
    baselines: dict[str, float]
    note: str


def play(
    attack: Attack,
    view: View,
    truth: Truth,
    *,
    target: str,
    name: str,
    quick: bool,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[AttackRow, ...]:
    """Rows for F1 and exactness of the sets, entries proved, and user vectors.

    All are means over users. Baselines: guessing every item for everybody (``all items``), and for
    everybody the popular items, as many as serve the mean F1 best (``popular items``).
    """
    if not attack.applies(view):
        return ()
    guess = attack.infer(view, Background(), rng)
    if not isinstance(guess, Reconstruction):
        raise TypeError(f"Expected a Reconstruction from {name}, got {type(guess)}.")
    held = truth.interactions.ratings.toarray() != 0
    results = [*_sets(guess, held, confidence, rng)]
    if guess.certain is not None:
        results.append(_proved(guess.certain, guess.items, held, confidence, rng))
    if guess.vectors is not None and truth.user_vectors is not None:
        results.append(_vectors(guess.vectors, truth.user_vectors, confidence, rng))
    return tuple(
        AttackRow(
            target=target,
            attack=name,
            family=attack.family,
            vantage=attack.vantage,
            metric=result.metric,
            value=result.estimate.value,
            ci_low=result.estimate.low,
            ci_high=result.estimate.high,
            confidence=confidence,
            baseline=max(result.baselines.values(), default=None),
            baselines=result.baselines,
            n=result.estimate.n,
            subject="users",
            reference=attack.reference,
            note=f"Knows the algorithm and what the server receives. {result.note}",
        )
        for result in results
    )


def _sets(
    guess: Reconstruction, truth: NDArray[np.bool_], confidence: float, rng: np.random.Generator
) -> Iterator[Result]:
    hits = np.count_nonzero(guess.items & truth, axis=1)
    precision = _ratio(hits, np.count_nonzero(guess.items, axis=1))
    recall = _ratio(hits, np.count_nonzero(truth, axis=1))
    chosen = np.broadcast_to(popular_set(truth), truth.shape)
    yield Result(
        metric="interaction F1",
        estimate=metrics.mean(metrics.set_f1(guess.items, truth), confidence=confidence, rng=rng),
        baselines={
            "all items": float(metrics.set_f1(np.ones_like(truth), truth).mean()),
            "popular items": float(metrics.set_f1(chosen, truth).mean()),
        },
        note=(f"Mean over users; precision {precision.mean():.3f}, recall {recall.mean():.3f}."),
    )
    yield Result(
        metric="users reconstructed exactly",
        estimate=metrics.share((guess.items == truth).all(axis=1), confidence=confidence),
        baselines={"popular items": float((chosen == truth).all(axis=1).mean())},
        note="Share of users whose whole interaction set was guessed without a mistake.",
    )


def _proved(
    certain: NDArray[np.bool_],
    guessed: NDArray[np.bool_],
    truth: NDArray[np.bool_],
    confidence: float,
    rng: np.random.Generator,
) -> Result:
    """Share of entries known for sure; none of them may be wrong, or the attack is."""
    wrong = int(np.count_nonzero(certain & (guessed != truth)))
    if wrong:
        raise AssertionError(
            f"Expected no mistake among entries marked certain, got {wrong}. Repair the attack, or "
            "the channel that the target publishes."
        )
    return Result(
        metric="entries proved",
        estimate=metrics.mean(certain.mean(axis=1), confidence=confidence, rng=rng),
        baselines={"no upload": 0.0},
        note="Share of (user, item) entries that the upload settles, whatever the prior.",
    )


def _vectors(guess: Floats, truth: Floats, confidence: float, rng: np.random.Generator) -> Result:
    dots = np.einsum("nf,nf->n", guess, truth)
    norms = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    cosine = np.divide(dots, norms, out=np.zeros(len(dots)), where=norms > 0).clip(-1, 1)
    lengths = np.linalg.norm(truth, axis=1)
    errors = np.linalg.norm(guess - truth, axis=1)[lengths > 0] / lengths[lengths > 0]
    mean = truth.mean(axis=0)
    apart = lengths * np.linalg.norm(mean)
    alike = np.divide(truth @ mean, apart, out=np.zeros(len(apart)), where=apart > 0)
    return Result(
        metric="user vector cosine",
        estimate=metrics.mean(cosine, confidence=confidence, rng=rng),
        baselines={"mean vector": float(alike.mean())},
        note=f"Median relative error of the vectors {np.median(errors):.1e}.",
    )


def popular_set(truth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The most popular items, as many as give the best mean F1 when guessed for all: (M,)."""
    order = np.argsort(-truth.sum(axis=0), kind="stable")
    hits = np.cumsum(truth[:, order], axis=1, dtype=np.int32)
    sizes = np.arange(1, truth.shape[1] + 1) + np.count_nonzero(truth, axis=1)[:, None]
    best = int(np.argmax((2.0 * hits / sizes).mean(axis=0)))
    chosen = np.zeros(truth.shape[1], dtype=np.bool_)
    chosen[order[: best + 1]] = True
    return chosen


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    """part / whole, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
