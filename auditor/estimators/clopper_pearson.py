"""A lower bound on epsilon from one event, chosen on one half and certified on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from accountants.bound import Bound, Side, Witness, check_confidence, check_delta
from accountants.errors import InputError
from accountants.scope import Scope


def clopper_pearson_lower(
    successes: ArrayLike, trials: ArrayLike, alpha: float
) -> NDArray[np.float64]:
    """Exact lower confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), np.asarray(trials) - k + 1, alpha)
    return np.where(k > 0, limit, 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    """Exact upper confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alpha)
    return np.where(k < trials, limit, 1.0)


def event_epsilon(
    hits: ArrayLike, trials: int, misses: ArrayLike, others: int, *, delta: float, alpha: float
) -> NDArray[np.float64]:
    """Least epsilon that explains an event: ln((P_low - delta) / Q_high), at least 0.

    ``hits`` of ``trials`` samples of one world and ``misses`` of ``others`` of the other fell into
    the event; each limit takes alpha/2, so the bound holds at level 1 - alpha. Vectorised over
    events.
    """
    low = clopper_pearson_lower(hits, trials, alpha / 2) - delta
    high = clopper_pearson_upper(misses, others, alpha / 2)
    ratio = np.divide(low, high, out=np.ones_like(low), where=low > high)
    return np.asarray(np.log(ratio))


def certified(
    hits: int,
    trials: int,
    misses: int,
    others: int,
    *,
    delta: float,
    confidence: float,
    scope: Scope,
    samples: int,
    inputs: tuple[str, str],
    event: str,
) -> Bound:
    """The bound that one event shows, chosen before these counts were seen: see ``event_epsilon``.

    ``inputs`` and ``event`` put the two worlds and the event in words; ``samples`` counts all
    that were drawn, those that chose the event included.
    """
    alpha = 1 - confidence
    return Bound(
        epsilon=float(event_epsilon(hits, trials, misses, others, delta=delta, alpha=alpha)),
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source="Clopper-Pearson on a held-out half",
        confidence=confidence,
        samples=samples,
        witness=Witness(
            input_a=inputs[0],
            input_b=inputs[1],
            output=event,
            probability_a=float(clopper_pearson_lower(hits, trials, alpha / 2)),
            probability_b=float(clopper_pearson_upper(misses, others, alpha / 2)),
            note=(
                f"seen in {hits} of {trials} held-out samples against {misses} of {others}; the "
                "probabilities are the confidence limits"
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """Scores at or beyond a threshold, on either side, counted for either world."""

    threshold: float
    above: bool
    swapped: bool

    def count(self, scores: NDArray[Any]) -> int:
        inside = scores >= self.threshold if self.above else scores <= self.threshold
        return int(np.count_nonzero(inside))

    def __str__(self) -> str:
        return f"score {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True)
class ClopperPearson:
    """Holds at the stated confidence: the event is chosen on samples it is not scored on.

    One half of each world's scores chooses the threshold, the side and the direction (which world
    is in the numerator) with the largest bound; the other half certifies that one event with two
    Clopper-Pearson limits at half the error each. Costs a factor of about two in samples against
    the best fixed event; certifies at most about ln(samples / (2 ln(4/alpha))).

    Simulated at 95% with 2,000 samples a world, 5,000 runs each (``make calibrate``), the bound is
    above the truth in 0.04% of runs without a leak, 0.02%, 0.50% and 1.34% for randomized response
    at epsilon 0.1, 1 and 4, and 0.24% for Laplace at 1.
    """

    reference = "Clopper and Pearson 1934, event chosen on a separate half"

    def bound(
        self,
        scores_a: NDArray[Any],
        scores_b: NDArray[Any],
        *,
        delta: float,
        confidence: float,
        scope: Scope,
        rng: np.random.Generator,
    ) -> Bound:
        """Lower bound on epsilon from scores (n,) in world a and (m,) in world b.

        NaN scores are refused; infinite ones are allowed.
        """
        check_delta(delta)
        alpha = 1 - check_confidence(confidence)
        train_a, test_a = _halves("scores_a", scores_a, rng)
        train_b, test_b = _halves("scores_b", scores_b, rng)
        event = _choose(train_a, train_b, delta, alpha)
        one, other = (test_b, test_a) if event.swapped else (test_a, test_b)
        return certified(
            event.count(one),
            len(one),
            event.count(other),
            len(other),
            delta=delta,
            confidence=confidence,
            scope=scope,
            samples=len(scores_a) + len(scores_b),
            inputs=("world b", "world a") if event.swapped else ("world a", "world b"),
            event=str(event),
        )


def _halves(
    name: str, scores: NDArray[Any], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) < 4:
        raise InputError(
            f"Expected {name} of shape (n,) with n >= 4, got shape {values.shape}. "
            "Draw more samples."
        )
    if np.isnan(values).any():
        raise InputError(f"Expected {name} without NaN, got some. Mend the score function.")
    order = rng.permutation(len(values))
    half = len(values) // 2
    return values[order[:half]], values[order[half:]]


def _choose(
    train_a: NDArray[np.float64], train_b: NDArray[np.float64], delta: float, alpha: float
) -> _Event:
    """The event with the largest bound on the training halves, over all thresholds at once."""
    sorted_a, sorted_b = np.sort(train_a), np.sort(train_b)
    thresholds = np.unique(np.concatenate([sorted_a, sorted_b]))
    n, m = len(sorted_a), len(sorted_b)
    above = n - np.searchsorted(sorted_a, thresholds), m - np.searchsorted(sorted_b, thresholds)
    below = (
        np.searchsorted(sorted_a, thresholds, side="right"),
        np.searchsorted(sorted_b, thresholds, side="right"),
    )
    options = [
        (is_above, swapped, event_epsilon(hits, trials, misses, others, delta=delta, alpha=alpha))
        for is_above, (in_a, in_b) in ((True, above), (False, below))
        for swapped, hits, trials, misses, others in (
            (False, in_a, n, in_b, m),
            (True, in_b, m, in_a, n),
        )
    ]
    is_above, swapped, bounds = max(options, key=lambda option: float(option[2].max()))
    return _Event(float(thresholds[int(np.argmax(bounds))]), is_above, swapped)
