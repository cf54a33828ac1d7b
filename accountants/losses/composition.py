"""Composition of dominating pairs of distributions: upper and lower bounds on epsilon at a delta.

The distribution of the total privacy loss is tilted exponentially towards the losses that determine
the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from fedrec_auditor.accountants.losses.divergences import find_min_epsilon
from fedrec_auditor.accountants.losses.pairs import Array, ArrayPair, AtomicPair, Pair, logsumexp

# Pairs of distributions, each with its number of uses.
PairCounts = tuple[tuple[Pair, int], ...]
# For each pair, the interval of losses that contains all but a negligible mass.
LossRanges = Sequence[tuple[float, float]]
# Largest number of points of a grid for one use, and for the window of the sum.
_MOST = 2**19
# Grid steps per standard deviation of the loss of one use, if the grid is large enough: for upper
# bounds, and for lower bounds, where the error is larger.
_FINE, _FINE_BELOW = 256, 1024
# Largest mass of the tilted distribution outside the window on either side: for a bound, and for a
# curve.
_OUTSIDE, _OUTSIDE_OF_CURVE = 1e-9, 1e-16
# Factor on the tilt of the best Chernoff bound. At a factor of 1, rare large losses might nearly
# dominate.
_OFF_CENTRE = 0.75
_ROUNDING = 2.0**-42
# Largest total error of the masses of small cells, as a fraction of delta.
_CELL_ROUNDING = 2.0**-30
_TRIES = 6


@dataclass(frozen=True, slots=True)
class _Grid:
    """Distribution of the privacy loss of one use of a mechanism on a grid: the losses are
    consecutive multiples of a step.

    - ``low``: index of the first point. The points are the losses low * step, (low + 1) * step, ...
    - ``mass``: probability of each point under P, (points,).
    - ``infinite_mass``: probability of an infinite loss under P.
    - ``count``: number of uses.
    - ``offset``: in a lower bound, the distance by which the true losses lie below the points.
    - ``rounding_loss``: in a lower bound, mean and variance of the loss that rounding down removed.
    """

    low: int
    mass: Array
    infinite_mass: float
    count: int
    offset: float = 0.0
    rounding_loss: tuple[float, float] = (0.0, 0.0)

    def compute_log_moments(self, tilts: Array, step: float) -> Array:
        """Computes ln E[e^(t l)] of the privacy loss l of one use, under P, for every t of
        ``tilts``, (tilts,).

        Infinite losses are left out; ``step`` is the step of the grid.
        """
        seen = self.mass > 0
        log_mass = np.log(self.mass[seen])
        loss = (self.low + np.flatnonzero(seen)) * step
        if len(loss) <= 2**12:
            powers = log_mass + tilts[:, None] * loss
            top = powers.max(axis=1)
            return np.asarray(top + np.log(np.exp(powers - top[:, None]).sum(axis=1)))
        return np.array([logsumexp(log_mass + tilt * loss) for tilt in tilts])


_Grids = Sequence[_Grid]


def compute_upper_epsilon(uses: PairCounts, delta: float) -> float:
    """Computes an upper bound on the epsilon at ``delta`` > 0 of composed pairs of distributions.

    ``uses`` lists the pairs (P, Q), each with its number of uses. The bound is within 1e-3 of the
    true epsilon for up to a million uses, and within a few per cent for more uses. All errors raise
    the bound. Method: "connect the dots" (Doroshenko et al. 2022) and Fourier transform.

    >>> from fedrec_auditor.accountants.losses.pairs import GaussianPair
    >>> round(compute_upper_epsilon(((GaussianPair(0.1), 100),), 1e-5), 3)  # Gaussian, mu = 1
    4.377
    """
    # The P-mass of an interval of losses is split between its two ends so that P and Q keep their
    # masses, which dominates the original pair ("connect the dots"). For more than a million uses,
    # the step of the grid of losses no longer resolves one use.
    # The error of connecting the dots is of second order in the step. Tails of 1e-5 delta in total
    # count as infinite losses. The losses are tilted, e^(t l) P(l) up to a constant, composed by
    # Fourier transform modulo a window, and tilted back. At the tilt with the smallest Chernoff
    # bound, the result lies in the middle of the window, even if it is very rare. Mass that wraps
    # around can only raise the bound, and the mass above the window counts as infinite by its
    # Chernoff bound. Rounding errors of the transforms are relative to the largest mass, that is to
    # delta. So 2^-42 of delta is subtracted for each use, and 2^-42 of epsilon plus 2^-46 per use
    # is added for the arithmetic.
    return _recall_epsilon(tuple(uses), delta, True)


def compute_lower_epsilon(uses: PairCounts, delta: float) -> float:
    """Computes a lower bound on the epsilon at ``delta`` > 0 of composed pairs of distributions.

    ``uses`` lists the pairs (P, Q), each with its number of uses. All errors lower the bound.
    """
    # Outputs whose losses ln(P/Q) lie near the same point of a grid are merged into one output.
    # Merging is post-processing, so it never raises epsilon. The loss of the merged output is
    # rounded down to the grid, and the losses of all uses are added by Fourier transform. Finally,
    # part of the loss that rounding removed is added back: a lower bound on its total, by
    # Bernstein's inequality.
    # The loss of the merged output differs from the point by a term of second order in the step,
    # and is rounded down to the grid minus an offset. The total that n uses lose by rounding is a
    # sum of independent variables in [0, step]. By Bernstein's inequality this total is at least
    # its mean minus a deviation, except with probability eta, a thousandth of delta. The mass that
    # wraps around the window is subtracted.
    return _recall_epsilon(tuple(uses), delta, False)


@dataclass(frozen=True, slots=True, eq=False)
class LowerCurve:
    """Lower bound on the privacy curve (delta by epsilon) of composed distribution pairs (P, Q).

    - ``losses``: values of the total privacy loss ln(P/Q) in ascending order, (n,).
    - ``masses``: probabilities of these values under P, (n,).
    - ``delta_error``: largest numerical error of a delta, which ``compute_delta`` subtracts.
    """

    losses: Array
    masses: Array
    delta_error: float

    def compute_delta(self, epsilon: float) -> float:
        """Computes a lower bound on the delta of the composed pairs at ``epsilon`` >= 0."""
        above = slice(int(np.searchsorted(self.losses, epsilon)), None)
        return max(
            0.0,
            float(self.masses[above] @ -np.expm1(epsilon - self.losses[above])) - self.delta_error,
        )


def compute_lower_curve(uses: PairCounts) -> LowerCurve:
    """Computes a lower bound on the privacy curve (delta by epsilon) of composed pairs of
    distributions.

    ``uses`` lists the pairs (P, Q), each with its number of uses. The absolute error of delta is
    about 1e-13. Deltas near that error count as 0.
    """
    # Losses are rounded down to a grid and added by Fourier transform.
    spans = [pair.find_loss_range(_OUTSIDE_OF_CURVE) for pair, _ in uses]
    step, _ = _choose_steps(uses, spans, False)
    for _ in range(2 * _TRIES):
        grids = _discretize(uses, spans, step, False)
        ceded, eta = _bound_removed_loss(grids, step, _OUTSIDE_OF_CURVE)
        total = _sum_losses(grids, step, 0.0, _OUTSIDE_OF_CURVE)
        if total is not None:
            break
        step *= 2.0
    else:
        return LowerCurve(np.zeros(0), np.zeros(0), 0.0)
    # Three errors are subtracted: mass that wraps around the window, the chance that too much was
    # added back, and rounding.
    lost = eta + 2.0 * _OUTSIDE_OF_CURVE + 2.0**-46 * sum(grid.count for grid in grids)
    infinite = _infinite_probability(grids)
    return LowerCurve(
        np.append(total.losses + ceded, np.inf), np.append(np.exp(total.log_p), infinite), lost
    )


def convolve_distributions(parts: Sequence[tuple[Array, int, int]], first: int, size: int) -> Array:
    """Computes the distribution of a sum of independent integers, shape (size,).

    - ``parts``: one tuple (probabilities, start, count) per distribution. Each of ``count``
      variables has the value start + j with probability probabilities[j].
    - ``first``, ``size``: entry i of the result is the probability that the sum equals ``first`` +
      i modulo ``size``.

    >>> coin = np.array([0.5, 0.5])
    >>> convolve_distributions([(coin, 0, 3)], first=0, size=4).round(3).tolist()
    [0.125, 0.375, 0.375, 0.125]
    """
    total, offset = np.ones(size // 2 + 1, dtype=np.complex128), 0
    for masses, low, count in parts:
        # The distribution is centred before a power is taken, so that the phase of its transform
        # varies slowly.
        centre = round(float(masses @ np.arange(len(masses))) / max(float(masses.sum()), 1e-300))
        at = (np.arange(len(masses)) - centre) % size
        wave = fft.rfft(np.bincount(at, weights=masses, minlength=size), n=size)
        if count > 1:
            # For many variables most frequencies are negligible.
            kept = wave.real**2 + wave.imag**2 > 10.0 ** (-80.0 / count)
            power = np.abs(wave[kept]) ** count * np.exp(1j * (count * np.angle(wave[kept])))
            wave = np.zeros_like(wave)
            wave[kept] = power
        total *= wave
        offset += count * (low + centre)
    return np.roll(fft.irfft(total, n=size), -((first - offset) % size))


def _recall_epsilon(uses: PairCounts, delta: float, above: bool) -> float:
    """Bound on the epsilon of composed pairs, cached by the values of the pairs; an upper bound if
    ``above`` is true, otherwise a lower bound.

    Results for pairs that are stored in arrays are not cached.
    """
    if any(isinstance(pair, ArrayPair) for pair, _ in uses):
        return _bound_epsilon(uses, delta, above)
    return _cached(uses, delta, above)


def _bound_epsilon(uses: PairCounts, delta: float, above: bool) -> float:
    uses = tuple((pair, count) for pair, count in uses if count)
    if not uses:
        return 0.0
    if len(uses) == 1 and uses[0][1] == 1:
        return _bound_single_use(uses[0][0], delta, above)
    tail = max(delta * 1e-5 / sum(count for _, count in uses), 1e-307)
    spans = [pair.find_loss_range(tail) for pair, _ in uses]
    step, finest = _choose_steps(uses, spans, above)
    epsilon = math.inf if above else 0.0
    if above and step > 2.0 * finest:
        # There are too many uses for a grid that resolves one use; Chernoff's bound needs no grid
        # of the sum.
        grids = _discretize(uses, spans, finest, above)
        budget = delta * (1.0 - _rounding_share(grids)) - _infinite_probability(grids)
        if budget > 0:
            epsilon = _add_rounding(grids, max(0.0, _find_best_tilt(grids, finest, budget)[1]))
    for _ in range(_TRIES if above else 2 * _TRIES):
        grids = _discretize(uses, spans, step, above)
        compute = _bound_up if above else _bound_low
        bound, fits = compute(grids, step, _infinite_probability(grids), delta)
        epsilon = min(epsilon, bound) if above else max(epsilon, bound)
        if fits:
            break
        step *= 4.0 if above else 2.0
    return epsilon


_cached = lru_cache(maxsize=512)(_bound_epsilon)


def _bound_single_use(pair: Pair, delta: float, above: bool) -> float:
    """Bound on the epsilon of a single use of ``pair``; an upper bound if ``above`` is true,
    otherwise a lower bound.
    """
    # No Fourier transform is needed. For an upper bound, the mass of each interval of losses is
    # split between its ends. For a lower bound, each cell of losses is one output.
    spans = [pair.find_loss_range(max(delta * 1e-5, 1e-307))]
    step, _ = _choose_steps(((pair, 1),), spans, above)
    points = _list_points(spans[0], step)
    if above:
        grid = _split_upwards(pair, 1, step, points)
        budget = delta * (1.0 - _CELL_ROUNDING)
        if grid.infinite_mass >= budget:
            return math.inf
        with np.errstate(divide="ignore"):
            log_p = np.log(np.append(grid.mass, grid.infinite_mass))
        log_q = log_p - np.append((grid.low + np.arange(len(grid.mass))) * step, np.inf)
        least = find_min_epsilon(log_p[::-1], log_q[::-1], budget)
        return _add_rounding([grid], least) if least > 0 else 0.0
    log_p, log_q = pair.bin_losses(np.concatenate([[-np.inf], points * step, [np.inf]]))
    infinite = math.log(pair.infinite_mass) if pair.infinite_mass > 0 else -math.inf
    log_p, log_q = np.append(log_p, infinite), np.append(log_q, -np.inf)
    epsilon = find_min_epsilon(log_p[::-1], log_q[::-1], delta * (1.0 + _CELL_ROUNDING))
    return epsilon if math.isinf(epsilon) else max(0.0, epsilon * (1.0 - _ROUNDING) - 2.0**-46)


def _infinite_probability(grids: _Grids) -> float:
    """Probability that the privacy loss of at least one use is infinite."""
    log_never = sum(g.count * math.log1p(-min(g.infinite_mass, 1 - 1e-16)) for g in grids)
    return -math.expm1(log_never)


def _rounding_share(grids: _Grids) -> float:
    """Relative error of delta that rounding may cause in all uses together, at most 0.5."""
    return min(0.5, sum(grid.count for grid in grids) * _ROUNDING)


def _add_rounding(grids: _Grids, epsilon: float) -> float:
    """``epsilon`` plus an allowance for rounding errors: 2^-42 of epsilon, and 2^-46 per use."""
    return epsilon * (1.0 + _ROUNDING) + 2.0**-46 * sum(grid.count for grid in grids)


def _bound_up(grids: _Grids, step: float, chance: float, delta: float) -> tuple[float, bool]:
    """An upper bound on epsilon at ``delta``, and whether the window of summed losses fits on the
    grid.

    ``chance`` is the probability of an infinite loss.
    """
    budget = delta * (1.0 - _rounding_share(grids))
    if chance >= budget:
        return math.inf, True
    tilt, chernoff = _find_best_tilt(grids, step, budget - chance)
    epsilon = _solve_in_window(grids, step, _OFF_CENTRE * tilt, chance, budget)
    least = chernoff if epsilon is None else min(epsilon, chernoff)
    return _add_rounding(grids, least) if least > 0 else 0.0, epsilon is not None


def _bound_low(grids: _Grids, step: float, chance: float, delta: float) -> tuple[float, bool]:
    """A lower bound on epsilon at ``delta``, and whether the window of summed losses fits on the
    grid.

    ``chance`` is the probability of an infinite loss.
    """
    if chance * (1.0 - _rounding_share(grids)) > delta:
        return math.inf, True
    ceded, eta = _bound_removed_loss(grids, step, 1e-3 * delta)
    tilt, _ = _find_best_tilt(grids, step, max(delta - chance, 1e-3 * delta))
    tilt = min(_OFF_CENTRE * tilt, 0.1 / step)
    moment = _log_moments(grids, step, np.array([tilt]))[0]
    extra = 1e-6 * delta
    for _ in range(_TRIES):
        needed = (delta + eta) * (1.0 + _rounding_share(grids)) + extra
        epsilon = _solve_in_window(grids, step, tilt, chance, needed, ceded)
        if epsilon is None:
            return 0.0, False
        wrapped = 2.0 * _OUTSIDE * math.exp(min(moment - tilt * (epsilon - ceded), 700.0))
        if wrapped <= extra:
            return max(0.0, 2.0 * epsilon - _add_rounding(grids, epsilon)), True
        extra = 2.0 * wrapped
    return 0.0, True


def _choose_steps(uses: PairCounts, spans: LossRanges, above: bool) -> tuple[float, float]:
    """Two steps of the grid of losses: one for the summed loss, and one that is fine enough for the
    moments of the loss of each use.

    A coarser step gives a looser bound, never a wrong one.
    """
    # The first step is as fine as each pair needs, according to its weight in the sum, but limited
    # by the size of the grid.
    spreads = [_estimate_spread(pair, *span) for (pair, _), span in zip(uses, spans, strict=True)]
    # One use must fit on the grid, and the indices of its points must be exact integers.
    limit = max(max((high - low) / _MOST, 1e-12 * max(abs(low), abs(high))) for low, high in spans)
    total = math.sqrt(sum(n * s**2 for s, (_, n) in zip(spreads, uses, strict=True)))
    if total == 0:
        return (max(1.0, limit),) * 2
    wanted = min(
        max(s / (_FINE if above else _FINE_BELOW), 1e-5 * total**2 / (n * s))
        for s, (_, n) in zip(spreads, uses, strict=True)
        if s > 0
    )
    room = min(_MOST, max(2**16, 2**21 // len(uses)))
    wish = min(wanted, total / 2000.0)
    step = max(wish, 20.0 * total / room, limit)
    # If the losses that are used most often lie on the grid, their mass needs no splitting.
    atoms = [(n, max(p.losses)) for p, n in uses if isinstance(p, AtomicPair) and p.losses]
    _, loss = max(atoms, default=(0, 0.0))
    return (loss / math.ceil(loss / step) if loss >= step else step), max(4.0 * wanted, limit)


def _estimate_spread(pair: Pair, low: float, high: float) -> float:
    """An estimate of the standard deviation of the privacy loss of ``pair``, which lies mostly in
    [low, high].
    """
    reach = 1.01 * max(abs(low), abs(high), 1e-300)
    near = np.geomspace(1e-9, 1.0, 200) * reach
    edges = np.unique(np.concatenate([-near, near, np.linspace(low, high, 400), [-np.inf, np.inf]]))
    log_p, _ = pair.bin_losses(edges)
    mass = np.exp(log_p[1:-1])
    middle = (edges[1:-2] + edges[2:-1]) / 2.0
    mean = float(mass @ middle)
    return math.sqrt(max(float(mass @ (middle - mean) ** 2), 0.0))


def _discretize(uses: PairCounts, spans: LossRanges, step: float, above: bool) -> list[_Grid]:
    return [
        (_split_upwards if above else _merge_downwards)(pair, n, step, _list_points(span, step))
        for (pair, n), span in zip(uses, spans, strict=True)
    ]


def _list_points(span: tuple[float, float], step: float) -> NDArray[np.int64]:
    return np.arange(math.floor(span[0] / step) - 1, math.ceil(span[1] / step) + 2)


def _split_upwards(pair: Pair, count: int, step: float, points: NDArray[np.int64]) -> _Grid:
    """Places the privacy loss of one use of ``pair`` on a grid for an upper bound, at the multiples
    ``points`` of ``step``.
    """
    # The mass of each interval is split between its two ends so that both P and Q keep their
    # masses.
    inner = points * step
    log_p, log_q = pair.bin_losses(np.concatenate([[-np.inf], inner, [np.inf]]))
    p = np.exp(log_p[1:-1])
    with np.errstate(invalid="ignore"):
        share = np.expm1(log_q[1:-1] - log_p[1:-1] + inner[:-1]) / math.expm1(-step)
    share = np.clip(np.where(p > 0, share, 0.0), 0.0, 1.0)
    mass = np.zeros(len(inner))
    mass[:-1] += p * (1.0 - share)
    mass[1:] += p * share
    mass[0] += math.exp(log_p[0])
    return _Grid(int(points[0]), mass, min(1.0, pair.infinite_mass + math.exp(log_p[-1])), count)


def _merge_downwards(pair: Pair, count: int, step: float, points: NDArray[np.int64]) -> _Grid:
    """Places the privacy loss of one use of ``pair`` on a grid for a lower bound, around the
    multiples ``points`` of ``step``.
    """
    # The outputs with losses in one cell become one output, and its loss is rounded down. The
    # offset of the grid is chosen from a few candidates so that rounding removes the least loss.
    middles = (points[:-1] + 0.5) * step
    log_p, log_q = pair.bin_losses(np.concatenate([[-np.inf], middles, [np.inf]]))
    seen = log_p > -700.0
    p, loss = np.exp(log_p[seen]), log_p[seen] - log_q[seen]
    lowest, highest = int(points[0]) - 1, int(points[-1]) + 1

    def rounded(offset: float) -> tuple[Array, Array]:
        """Cell index of every loss, and the loss that rounding down to this cell removes."""
        cell = np.floor((loss + offset) / step)
        return cell, np.clip(loss + offset - np.clip(cell, lowest, highest) * step, 0.0, step)

    offsets = [part * step for part in (0.0, 1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)]
    offset = min(offsets, key=lambda offset: float(p @ rounded(offset)[1]))
    cell, rest = rounded(offset)
    mean = float(p @ rest)
    # Cells below the grid would be rounded up, so they are left out.
    kept = np.where(cell < lowest, 0.0, p)
    at = np.clip(cell, lowest, highest).astype(np.int64) - lowest
    mass: Array = np.bincount(at, weights=kept, minlength=highest - lowest + 1).astype(np.float64)
    variance = max(float(p @ rest**2) - mean**2, 0.0)
    return _Grid(lowest, mass, pair.infinite_mass, count, offset, (mean, variance))


def _bound_removed_loss(grids: _Grids, step: float, eta: float) -> tuple[float, float]:
    """A lower bound on the true total loss minus the total loss on the grid, and the probability
    that the bound fails (``eta``, or 0).
    """
    # Bernstein's inequality bounds the total loss that rounding down removed, except with
    # probability ``eta``. The offsets of the grids are subtracted. If the inequality gives nothing
    # above 0, the bound is minus the offsets, and never fails.
    mean = sum(g.count * g.rounding_loss[0] for g in grids)
    variance = sum(g.count * g.rounding_loss[1] for g in grids)
    offset = sum(g.count * g.offset for g in grids)
    log_eta = -math.log(eta)
    least = mean - math.sqrt(2.0 * variance * log_eta) - step * log_eta / 3.0
    return (least - offset, eta) if least > 0 else (-offset, 0.0)


def _log_moments(grids: _Grids, step: float, tilts: Array) -> Array:
    """ln E[e^(t L)] of the sum L of all finite losses, for every tilt t."""
    return np.asarray(sum(grid.count * grid.compute_log_moments(tilts, step) for grid in grids))


def _coarsen(grid: _Grid) -> tuple[_Grid, float]:
    """A coarser version of a grid, with losses rounded up, and the number of old points per new
    point.
    """
    factor = max(1, -(-len(grid.mass) // 2048))
    low = grid.low // factor
    at = -((-(grid.low + np.arange(len(grid.mass)))) // factor)
    mass: Array = np.bincount(at - low, weights=grid.mass).astype(np.float64)
    return _Grid(low, mass, grid.infinite_mass, grid.count), float(factor)


def _find_best_tilt(grids: _Grids, step: float, delta: float) -> tuple[float, float]:
    """Tilt t for which the Rényi moment at order 1 + t converts to the smallest epsilon at
    ``delta``, and that epsilon.

    Canonne, Kamath and Steinke 2020, Proposition 12: every t gives a bound.
    """

    # Epsilon to which the log-moments at the tilts t convert.
    def convert(moments: Array, t: Array) -> Array:
        return np.asarray((moments - math.log(delta) - np.log(1.0 + t)) / t - np.log1p(1.0 / t))

    rough = [_coarsen(grid) for grid in grids]
    tilts = np.geomspace(1e-3, 1e3, 50)
    moments, variance = np.zeros(0), 0.0
    for grid, factor in rough:
        loss = (grid.low + np.arange(len(grid.mass))) * step * factor
        mean = float(grid.mass @ loss)
        variance += grid.count * float(grid.mass @ (loss - mean) ** 2)
    tilts = tilts * math.sqrt(max(1.0, -2.0 * math.log(delta)) / max(variance, step**2))
    moments = sum(
        (g.count * g.compute_log_moments(tilts, step * size) for g, size in rough), 0.0 * tilts
    )
    least = float(tilts[int(np.argmin(convert(moments, tilts)))])
    near = least * np.array([0.8, 1.0, 1.2])
    values = convert(_log_moments(grids, step, near), near)
    best = int(np.argmin(values))
    return float(near[best]), float(values[best])


@dataclass(frozen=True, slots=True)
class _LossDistribution:
    """Distribution of the sum of all finite losses, in a window.

    - ``losses``: losses in the window, in ascending order, (n,). Mass outside the window wraps
      around.
    - ``log_p``: log-masses of the losses under P, (n,).
    - ``tail_mass``: largest mass above the window, by its Chernoff bound.
    """

    losses: Array
    log_p: Array
    tail_mass: float


def _solve_in_window(
    grids: _Grids,
    step: float,
    tilt: float,
    infinite: float,
    delta: float,
    ceded: float | None = None,
) -> float | None:
    """Smallest epsilon of the summed loss at ``delta``, computed in a window of losses; None if the
    window does not fit on the grid.

    - ``infinite``: probability of an infinite loss.
    - ``ceded``: in a lower bound, the number that is added to all losses. In an upper bound it is
      None, and the mass outside the window counts as infinite.
    """
    lower = 0.0
    for _ in range(4):
        total = _sum_losses(grids, step, tilt, _OUTSIDE, lower)
        if total is None:
            return None
        top = infinite + (total.tail_mass if ceded is None else 0.0)
        log_top = math.log(top) if top > 0 else -math.inf
        log_p = np.minimum(np.concatenate([[log_top], total.log_p[::-1]]), 300.0)
        losses = total.losses + (ceded or 0.0)
        epsilon = find_min_epsilon(log_p, log_p - np.concatenate([[np.inf], losses[::-1]]), delta)
        if epsilon > losses[0] + step or losses[0] < 0:
            return epsilon
        lower = 1.5 * lower + 0.5
    return None


def _sum_losses(
    grids: _Grids, step: float, tilt: float, outside: float, lower: float = 0.0
) -> _LossDistribution | None:
    """Distribution of the summed loss in a window that excludes at most ``outside`` of the tilted
    mass on either side.

    Tilted masses are multiplied by e^(tilt * loss) and normalized. The window is extended downwards
    by ``lower`` times its width. The result is None if the window does not fit on the grid.
    """
    mean = variance = moment = 0.0
    tilted = []
    for grid in grids:
        loss = (grid.low + np.arange(len(grid.mass))) * step
        with np.errstate(divide="ignore"):
            log_mass = np.log(grid.mass) + tilt * loss
        log_moment = logsumexp(log_mass)
        masses = np.exp(log_mass - log_moment)
        centre = float(masses @ loss)
        mean += grid.count * centre
        variance += grid.count * float(masses @ (loss - centre) ** 2)
        moment += grid.count * log_moment
        tilted.append((masses, grid.low, grid.count))
    deviation = max(math.sqrt(variance), step)
    low, high = _find_window(grids, step, tilt, moment, mean, deviation, outside)
    cut = outside * math.exp(min(moment - tilt * high, 0.0))
    low -= lower * (high - low)
    first, size = math.floor(low / step), math.ceil((high - low) / step) + 2
    if size > 2 * _MOST:
        return None
    size = fft.next_fast_len(max(size, 64), real=True)
    losses = np.arange(first, first + size, dtype=np.float64) * step
    with np.errstate(divide="ignore"):
        log_p = np.log(np.maximum(convolve_distributions(tilted, first, size), 0.0))
    return _LossDistribution(losses, np.asarray(log_p + (moment - tilt * losses)), cut)


def _find_window(
    grids: _Grids,
    step: float,
    tilt: float,
    moment: float,
    mean: float,
    deviation: float,
    outside: float,
) -> tuple[float, float]:
    """Interval of the summed loss whose tilted distribution has a mass of at most ``outside`` on
    either side of it, by Chernoff's bound.

    Tilted masses are multiplied by e^(tilt * loss) and normalized.

    - ``moment``: ln E[e^(tilt L)] of the sum L.
    - ``mean``, ``deviation``: mean and standard deviation of the tilted sum.
    """
    shifts = np.array([0.3, 0.6, 1.0, 1.7, 3.0, 5.0, 8.0]) / deviation
    need = -math.log(outside)
    high = float(np.min((_log_moments(grids, step, tilt + shifts) - moment + need) / shifts))
    if tilt > 0:
        shifts = np.concatenate([shifts, np.minimum(shifts, 0.9 * tilt)])
    low = float(np.max((moment - _log_moments(grids, step, tilt - shifts) - need) / shifts))
    return min(low, mean - 8.0 * deviation), high
