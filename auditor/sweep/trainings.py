"""An interval over trainings and users: of several trainings on the data of the same users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.stats import t as student

METHOD = "Student's t over trainings and the users' interval, added in quadrature (MOVER)"


@dataclass(frozen=True, slots=True)
class OverTrainings:
    """The mean of some trainings, its interval, and how far one more training may lie above it.

    Of one training the interval is of its users alone, and nothing is said of another (``nan``).
    """

    value: float
    ci_low: float
    ci_high: float
    next_low: float
    next_high: float
    trainings: int


def over_trainings(
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    confidence: float,
    users: float | None = None,
) -> OverTrainings:
    """Combine the figures of trainings, each with an interval over its users, (n,) each.

    A figure is taken as mean + training + users, of which the users' part is the same people's in
    every training, and does not average out. The half-widths are those of Student's t over the
    trainings and the mean of the users' ones; their squares are added, the method of variance
    estimates recovery (Zou and Donner, Statistics in Medicine 2008). The part of the users is also
    in each training's figure as far as splits are drawn anew, so that the interval is rather wide.
    Where the users' intervals are at another confidence, ``users``, they are scaled as normal ones.

    >>> found = over_trainings([0.50, 0.52, 0.54], [0.49, 0.51, 0.53], [0.51, 0.53, 0.55], 0.95)
    >>> round(found.value, 3), round(found.ci_low, 3), round(found.ci_high, 3)
    (0.52, 0.469, 0.571)
    """
    each = np.asarray(values, dtype=float)
    count, mean = len(each), float(np.mean(each))
    of_users = confidence if users is None else users
    scale = _quantile(confidence) / _quantile(of_users)
    below = scale * float(np.mean(each - np.asarray(lows, dtype=float)))
    above = scale * float(np.mean(np.asarray(highs, dtype=float) - each))
    if count == 1:
        return OverTrainings(mean, mean - below, mean + above, math.nan, math.nan, 1)
    quantile = float(student.ppf((1.0 + confidence) / 2.0, count - 1))
    spread = quantile * float(np.std(each, ddof=1))
    between, further = spread / math.sqrt(count), spread * math.sqrt(1.0 + 1.0 / count)
    return OverTrainings(
        value=mean,
        ci_low=mean - math.hypot(between, below),
        ci_high=mean + math.hypot(between, above),
        next_low=mean - further,
        next_high=mean + further,
        trainings=count,
    )


def _quantile(confidence: float) -> float:
    """How many standard deviations a two-sided normal interval reaches."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def shown(bounds: Sequence[float]) -> float:
    """A lower bound from those of several trainings, each at one confidence: their lower median.

    It is too large only if half of them or more are: of trainings that share nothing no more often
    than one of them, and at most twice as often whatever they share.

    >>> shown([1.0, 3.0]), shown([1.0, 3.0, 2.0])
    (1.0, 2.0)
    """
    return sorted(bounds)[(len(bounds) - 1) // 2]
