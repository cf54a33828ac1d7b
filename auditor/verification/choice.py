"""Choosing a rule: the cuts and guesses of one statistic that promise the largest bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.verification.guess import (
    FIRST,
    NEITHER,
    SECOND,
    Foreseen,
    Guess,
    Stake,
    Statistic,
    cuts_between,
    histogram,
)

Counts = NDArray[np.int64]
# Cuts of which every two are tried together, and levels of the log-ratio that are tried.
_TAILS = 96
_LEVELS = 64
_SMOOTHING = 1.0


def best_guess(
    statistic: Statistic, first: NDArray[np.float64], second: NDArray[np.float64], stake: Stake
) -> Foreseen:
    """The rule on ``statistic`` whose bound is foreseen to be largest, from a pilot's outputs.

    ``first`` and ``second`` are the statistic's values under the two inputs, equally many and in
    random order. Two kinds of rule are tried: guess one input above a cut and one below another,
    in every combination; and guess the likelier input in each part where the log-ratio is large,
    judged on the half of the pilot that did not set the ratio.
    """
    cuts = cuts_between(np.concatenate([first, second]))
    if len(cuts) == 0:
        return Foreseen(epsilon=0.0)
    halves = [
        (histogram(first[fold::2], cuts), histogram(second[fold::2], cuts)) for fold in (0, 1)
    ]
    seen = len(first) + len(second)
    found = [by_tails(halves[0][0] + halves[1][0], halves[0][1] + halves[1][1], seen, stake)]
    if len(cuts) > 1:
        found.append(by_ratio(halves, seen, stake))
    epsilon, table = max(found, key=lambda option: option[0])
    return Foreseen(epsilon=epsilon, guess=Guess(statistic=statistic, cuts=cuts, table=table))


def by_tails(
    first: Counts, second: Counts, seen: int, stake: Stake
) -> tuple[float, NDArray[np.int8]]:
    """The best two cuts: a guess at or above the upper one, a guess below the lower one."""
    below = np.stack([np.cumsum(first)[:-1], np.cumsum(second)[:-1]]).astype(np.float64)
    above = np.array([[first.sum()], [second.sum()]]) - below
    lows = np.append(-1, _spread(below.sum(axis=0)))  # -1: no guess below
    highs = np.append(_spread(above.sum(axis=0)[::-1]) * -1 + below.shape[1] - 1, below.shape[1])
    padded_low = np.concatenate([below, np.zeros((2, 1))], axis=1)[:, lows]
    padded_high = np.concatenate([above, np.zeros((2, 1))], axis=1)[:, highs]
    apart = highs[:, None] >= lows[None, :]
    best, table = 0.0, np.full(below.shape[1] + 1, NEITHER, dtype=np.int8)
    for up in (FIRST, SECOND):
        for down in (FIRST, SECOND):
            high = padded_high if up == FIRST else padded_high[::-1]
            low = padded_low if down == FIRST else padded_low[::-1]
            right, wrong = high[:, :, None] + low[:, None, :]
            foreseen = np.where(apart, stake.foresee(right, wrong, seen, both=up != down), -np.inf)
            i, j = np.unravel_index(int(np.argmax(foreseen)), foreseen.shape)
            if foreseen[i, j] > best:
                best = float(foreseen[i, j])
                table = np.full(below.shape[1] + 1, NEITHER, dtype=np.int8)
                table[highs[i] + 1 :] = up
                table[: lows[j] + 1] = down
    return best, table


def by_ratio(
    halves: list[tuple[Counts, Counts]], seen: int, stake: Stake
) -> tuple[float, NDArray[np.int8]]:
    """The best level of the smoothed log-ratio, crosswise: ordered by one half, judged by other."""
    first, second = halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]
    strength, _ = _strength(first, second)
    levels = np.unique(np.quantile(strength, np.linspace(0, 1, _LEVELS), method="lower"))
    right, wrong = np.zeros(len(levels)), np.zeros(len(levels))
    for train, test in (halves, halves[::-1]):
        judged, side = _strength(*train)
        order = np.argsort(judged)
        for_first, for_second = test[0][order], test[1][order]
        likely = side[order] == FIRST
        from_top = [
            np.append(np.cumsum(counts[::-1])[::-1], 0)
            for counts in (
                np.where(likely, for_first, for_second),
                np.where(likely, for_second, for_first),
            )
        ]
        start = np.searchsorted(judged[order], levels)
        right += from_top[0][start]
        wrong += from_top[1][start]
    foreseen = stake.foresee(right, wrong, seen, both=True)
    best = int(np.argmax(foreseen))
    strength, side = _strength(first, second)
    return float(foreseen[best]), np.where(strength >= levels[best], side, NEITHER).astype(np.int8)


def _strength(first: Counts, second: Counts) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """How surely each part speaks for an input, |log-ratio| less its error, and for which."""
    a, b = first + _SMOOTHING, second + _SMOOTHING
    ratio = np.log(a / b)
    side = np.where(ratio >= 0, FIRST, SECOND).astype(np.int8)
    return np.abs(ratio) - np.sqrt(1 / a + 1 / b), side


def _spread(tails: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions in increasing ``tails``, about ``_TAILS``, evenly in rank and in its logarithm."""
    if len(tails) <= _TAILS:
        return np.arange(len(tails))
    n = tails[-1]
    wanted = np.concatenate([np.geomspace(1, n, _TAILS // 2), np.linspace(1, n, _TAILS // 2)])
    return np.unique(np.minimum(np.searchsorted(tails, wanted), len(tails) - 1))
