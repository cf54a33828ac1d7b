"""Smallest epsilon of composed randomized responses: exact, or an upper bound if the responses have
many different epsilons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from fedrec_auditor.accountants.losses.pure import EpsilonCounts

# Method:
#
# There are n_j responses of pure epsilon e_j, j = 1 ... m. Each reports the truth with probability
# 1/(1 + e^-e_j), with loss +e_j, or is flipped, with loss -e_j. So the distribution of the total
# loss is that of m numbers of flipped responses, each binomial. The divergence at eps is the sum
# over losses x > eps of P(x) (1 - e^(eps - x)). For equal responses this is Theorem 3.3 of Kairouz,
# Oh and Viswanath 2015, and for unequal ones Theorem 1.5 of Murtagh and Vadhan 2016. All terms are
# positive and are added in logs, so deltas may be as small as doubles can be.
#
# The computation uses a tilt (Cramér): P(x) = M(t) e^(-t x) R(x), where t minimises Chernoff's
# bound at delta. The bulk of R then lies where the divergence is decided, so short windows of it
# suffice and rounding errors are relative to delta.

# Array of doubles, in one dimension.
Vector = NDArray[np.float64]

# Tilted mass outside every window, e^-60; it can leave out at most e^-28 = 7e-13 of delta.
_TAIL, _SPENT = 60.0, 28.0
# Largest number of losses listed for all epsilons, of listed total losses, and of different
# epsilons.
_MOST_ALONE, _MOST_TOGETHER = 2**21, 2**20
_MOST_KINDS = 2**12
# Largest number of totals that one bundle enumerates before it is placed on the grid, and number of
# cells of the grid.
_BUNDLE, _CELLS = 2**12, 2**16
# Rounding error of a cell in a Fourier transform, per factor.
_ROUNDING = 2.0**-51


@dataclass(frozen=True, slots=True)
class _FlipDistribution:
    """Tilted distribution of the number of flipped responses (not true values), for responses of
    one epsilon.

    Tilted means that each probability is multiplied by e^(t loss), and then normalized.

    - ``log_mass``: log-masses of the numbers in the window, (n,).
    - ``loss``: privacy losses of the numbers, relative to the loss of the mode, (n,).
    - ``mode``: the most likely number.
    - ``is_whole``: true if the window contains all numbers.
    """

    log_mass: Vector
    loss: Vector
    mode: float
    is_whole: bool


@lru_cache(maxsize=4096)
def compose_pure_epsilons(counts: EpsilonCounts, delta: float) -> float:
    """Computes the smallest epsilon at ``delta`` of composed randomized responses, or an upper
    bound on it.

    ``counts`` lists the different pure epsilons, each with its number of responses. The precision
    is:

    - One epsilon with up to 10^10 responses, or several epsilons with up to 10^6 total privacy
      losses that are not negligible: exact to 1e-9.
    - More total losses: an upper bound with a relative error of about 1e-5 (compare Murtagh and
      Vadhan 2016, Theorem 1.7).
    - More responses of one epsilon, or more than 4096 epsilons: Chernoff's bound, a few per cent
      too large.

    Memory stays below 300 MB.
    """
    # Few losses are enumerated, and more losses are placed on a grid. The absolute error of the
    # grid is at most its step times the number of groups of epsilons that are enumerated together.
    total = math.fsum(epsilon * count for epsilon, count in counts)
    if delta <= 0 or not counts or math.isinf(total):
        return total
    tilt, chernoff = _find_best_tilt(counts, -math.log(delta))
    cells = sum(_bound_width(epsilon, count, tilt) for epsilon, count in counts)
    if cells > _MOST_ALONE or len(counts) > _MOST_KINDS:
        return min(total, max(0.0, total + chernoff))
    tail = _TAIL + math.log(len(counts))
    parts = [_distribute_flips(epsilon, count, tilt, tail) for epsilon, count in counts]
    spared = math.fsum(
        2.0 * epsilon * part.mode for (epsilon, _), part in zip(counts, parts, strict=True)
    )
    # ln of P/(delta R) at loss 0, where losses are counted from total - spared.
    saved = _compute_saving(counts, tilt)
    shift = -math.log(delta) - saved + tilt * spared
    # An allowance for the errors of arithmetic and windows is added; it decides if delta is nearly
    # 1.
    terms = abs(saved) + tilt * spared + sum(float(np.ptp(part.loss)) for part in parts) + cells
    shift += 2.0**-50 * (terms - math.log(delta)) + math.exp(_SPENT - _TAIL)
    if math.prod(len(part.loss) for part in parts) <= _MOST_TOGETHER or len(parts) == 1:
        log_mass, loss = _enumerate_sums(parts)
        order = np.argsort(-loss, kind="stable")
        log_mass, loss = log_mass[order], loss[order]
        is_whole = all(part.is_whole for part in parts)
    else:
        log_mass, loss = _place_on_grid(parts, tilt)
        is_whole = False
    found = _solve_divergence(log_mass + shift - tilt * loss, loss)
    if not is_whole:
        # At smaller epsilons the losses outside the windows might matter.
        found = max(found, (shift - (_TAIL - _SPENT) - float(_log_hockey_factor(tilt))) / tilt)
    return min(total, max(0.0, total - spared + found))


def _compute_saving(kinds: EpsilonCounts, tilt: float) -> float:
    """The value t x - ln M(t), with t = ``tilt``, x the largest total privacy loss, and M the
    moment-generating function of the total privacy loss.
    """
    return math.fsum(
        count * float(_save_by_one(np.float64(e), np.float64(tilt))) for e, count in kinds
    )


def _save_by_one(epsilon: Vector | np.float64, tilt: Vector | np.float64) -> Vector:
    """ln(1 + e^-e) - ln(1 + e^-(e (1 + 2 t))): the value of ``_compute_saving`` for one response of
    epsilon e, at tilt t.

    The two logarithms nearly cancel at small tilts, so they are not subtracted.
    """
    less = np.exp(-epsilon) * -np.expm1(-2.0 * epsilon * tilt)
    return np.asarray(np.log1p(less / (1.0 + np.exp(-epsilon * (1.0 + 2.0 * tilt)))))


def _find_best_tilt(kinds: EpsilonCounts, level: float) -> tuple[float, float]:
    """The tilt that minimises Chernoff's bound on epsilon at delta = e^-level, and that bound minus
    the largest total loss.
    """
    epsilon, count = (np.array(column, dtype=np.float64) for column in zip(*kinds, strict=True))
    # At higher tilts no response is flipped any more; at lower ones Chernoff's bound exceeds the
    # total.
    highest = 5.0 / float(epsilon[0])
    lowest = min(highest, level / float(2.0 * (epsilon * count).sum())) / 4.0
    tilts = np.geomspace(lowest, highest, 241)
    saved = np.zeros_like(tilts)
    for block in np.array_split(np.arange(len(epsilon)), 1 + len(epsilon) // 4096):
        e, n = epsilon[block, None], count[block, None]
        saved += (n * _save_by_one(e, tilts)).sum(axis=0)
    bound = (level - saved - _log_hockey_factor(tilts)) / tilts
    best = int(np.argmin(bound))
    return float(tilts[best]), float(bound[best])


def _log_hockey_factor(tilt: float | Vector) -> Vector:
    """Minus the logarithm of the largest e^(-t u) (1 - e^-u) over u > 0, with t = ``tilt``."""
    return np.asarray(np.log1p(tilt) + tilt * np.log1p(1.0 / tilt))


def _bound_width(epsilon: float, count: int, tilt: float) -> float:
    """Size of a window of counts of flipped responses that contains all but e^-60 of the tilted
    mass, by Bernstein's inequality.
    """
    flip = 1.0 / (1.0 + math.exp(min(epsilon * (1.0 + 2.0 * tilt), 700.0)))
    reach = math.sqrt(2.0 * count * flip * (1.0 - flip) * _TAIL) + 2.0 * _TAIL / 3.0
    return min(float(count), 2.0 * reach) + 1.0


def _distribute_flips(epsilon: float, count: int, tilt: float, tail: float) -> _FlipDistribution:
    """Tilted binomial distribution of the number of flipped responses, computed from ratios of
    neighbouring masses, from the mode outwards.
    """
    odds = -epsilon * (1.0 + 2.0 * tilt)
    flip = 1.0 / (1.0 + math.exp(min(-odds, 700.0)))
    reach = math.sqrt(2.0 * count * flip * (1.0 - flip) * tail) + 2.0 * tail / 3.0 + 1.0
    low = max(0, math.floor(count * flip - reach))
    high = min(count, math.ceil(count * flip + reach))
    mode = min(high, max(low, math.floor((count + 1) * flip)))
    numbers = np.arange(low, high, dtype=np.float64)
    ratios = np.log((count - numbers) / (numbers + 1.0)) + odds
    up = np.cumsum(ratios[mode - low :])
    down = -np.cumsum(ratios[: mode - low][::-1])[::-1]
    log_mass = np.concatenate([down, [0.0], up])
    log_mass -= math.log(math.fsum(np.exp(log_mass)))
    # The window by Bernstein is generous: numbers with masses below the tail are dropped.
    kept = np.flatnonzero(log_mass > -tail - math.log(len(log_mass)))
    first, last = int(kept[0]), int(kept[-1])
    numbers = np.arange(low + first, low + last + 1, dtype=np.float64)
    return _FlipDistribution(
        log_mass=log_mass[first : last + 1],
        loss=-2.0 * epsilon * (numbers - mode),
        mode=float(mode),
        is_whole=first == 0 and low == 0 and last == count - low,
    )


def _enumerate_sums(parts: list[_FlipDistribution]) -> tuple[Vector, Vector]:
    """All sums of one loss from each part: their tilted log-masses and their values, (sums,)
    each.
    """
    log_mass, loss = np.zeros(1), np.zeros(1)
    for part in parts:
        log_mass = np.add.outer(log_mass, part.log_mass).ravel()
        loss = np.add.outer(loss, part.loss).ravel()
    return log_mass, loss


def _solve_divergence(log_mass: Vector, loss: Vector) -> float:
    """The epsilon at which the hockey-stick divergence is 1, for masses in units of delta and
    descending losses.
    """
    # Between two losses the divergence is linear in e^eps: from x_i down to eps it grows by C_i (1
    # - e^(eps - x_i)), where C_i is the sum over j <= i of P_j e^(x_i - x_j), with P_j the mass at
    # loss x_j.
    below = loss[0] - loss
    log_sum = np.logaddexp.accumulate(log_mass + below) - below
    weight = np.exp(np.minimum(log_sum, 600.0))
    spent = np.concatenate([[0.0], np.cumsum(weight[:-1] * -np.expm1(np.diff(loss)))])
    i = int(np.searchsorted(spent, 1.0)) - 1
    share = (1.0 - spent[i]) / weight[i]
    left = math.log(max(1.0 - share, 0.0) + 1e-14)
    # Below the smallest loss the divergence does not grow any more.
    end = float(loss[i + 1]) if i + 1 < len(loss) else -math.inf
    return max(end, float(loss[i]) + left)


def _place_on_grid(parts: list[_FlipDistribution], tilt: float) -> tuple[Vector, Vector]:
    """Places the total loss of all ``parts`` on a grid, for an upper bound on epsilon.

    The results are the tilted log-masses of the cells and their losses, in descending order of
    loss, (cells,) each.
    """
    bundles = [_enumerate_sums(bundle) for bundle in _group_parts(parts)]
    low, high = _find_window(parts)
    step = (high - low) / (_CELLS - 2 * len(bundles) - 2)
    spectrum = np.ones(_CELLS // 2 + 1, dtype=np.complex128)
    for log_mass, loss in bundles:
        cell = np.floor(loss / step)
        rest = loss - cell * step
        mass = np.exp(log_mass - tilt * rest)
        # P-mass m at x becomes m s at the cell above and m (1 - s) at the one below, where
        # s e^-step + 1 - s = e^-rest; tilted masses follow.
        share = np.clip(np.expm1(-rest) / math.expm1(-step), 0.0, 1.0)
        at = np.mod(cell, _CELLS).astype(np.int64)
        cells = np.bincount(at, weights=mass * (1.0 - share), minlength=_CELLS)
        moved = np.mod(at + 1, _CELLS)
        cells += np.bincount(moved, weights=mass * share * math.exp(tilt * step), minlength=_CELLS)
        spectrum *= fft.rfft(cells)
    total = fft.irfft(spectrum, _CELLS)
    first = math.floor(low / step) - 1
    index = np.arange(first + _CELLS - 1, first - 1, -1)
    tilted = np.maximum(total[np.mod(index, _CELLS)], 0.0) + _ROUNDING * len(bundles)
    return np.asarray(np.log(tilted), dtype=np.float64), np.asarray(index * step)


def _group_parts(parts: list[_FlipDistribution]) -> list[list[_FlipDistribution]]:
    """Groups the distributions ``parts`` into bundles whose total losses can be enumerated."""
    bundles: list[list[_FlipDistribution]] = [[]]
    size = 1
    for part in sorted(parts, key=lambda part: len(part.loss)):
        size *= len(part.loss)
        if bundles[-1] and size > _BUNDLE:
            bundles.append([])
            size = len(part.loss)
        bundles[-1].append(part)
    return bundles


def _find_window(parts: list[_FlipDistribution]) -> tuple[float, float]:
    """Interval of total losses with at most e^-60 of the tilted mass on either side, by Chernoff's
    bound.

    The interval lies within the range of the total loss.
    """
    means = [float(np.exp(part.log_mass) @ part.loss) for part in parts]
    centred = [part.loss - mean for part, mean in zip(parts, means, strict=True)]
    variance = math.fsum(
        float(np.exp(part.log_mass) @ loss**2) for part, loss in zip(parts, centred, strict=True)
    )
    widest = max(float(np.ptp(part.loss)) for part in parts)
    sigma = math.sqrt(variance)
    ends = []
    for sign, extreme in ((-1.0, np.min), (1.0, np.max)):
        most = math.fsum(float(extreme(part.loss)) for part in parts)
        reach = abs(most - math.fsum(means))
        for factor in np.geomspace(0.5, 2.0, 5):
            slope = factor * math.sqrt(2.0 * _TAIL) / sigma
            grown = math.fsum(
                _log_sum_exp(part.log_mass + sign * slope * loss)
                for part, loss in zip(parts, centred, strict=True)
            )
            reach = min(reach, (grown + _TAIL) / slope)
        ends.append(math.fsum(means) + sign * reach)
    return ends[0], max(ends[1], ends[0] + 1e-9 * widest)


def _log_sum_exp(terms: Vector) -> float:
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum()))
