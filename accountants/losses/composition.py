"""Privacy losses of composed pairs, tilted to where the answer lies, from above or from below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from fedrec_auditor.accountants.losses.grid import least_epsilon
from fedrec_auditor.accountants.losses.pairs import Array, AtomicPair, Pair

Uses = tuple[tuple[Pair, int], ...]
"""Pairs, each with how often it is used."""
# Points of a grid, at most: of one use, and of the window in which the sum is looked at.
_MOST = 2**19
# Steps to a standard deviation of the loss of one use, where there is room.
_FINE = 256
# Share of the tilted law that may lie outside the window on either side.
_OUTSIDE = 1e-9
# Of the best tilt, which may lie where rare large losses are about to dominate.
_OFF_CENTRE = 0.75
_ROUNDING = 2.0**-42
_TRIES = 6


@dataclass(frozen=True, slots=True)
class _Grid:
    """The loss of one use at the points low, low + 1, ... times the step, and how often it is used.

    From below, the true points lie ``offset`` lower, and ``ceded`` is the mean and the variance of
    what rounding down gave away.
    """

    low: int
    mass: Array
    infinite: float
    count: int
    offset: float = 0.0
    ceded: tuple[float, float] = (0.0, 0.0)

    def log_moments(self, tilts: Array, step: float) -> Array:
        """ln E_P[e^(t l)] of one use for every tilt t, the infinite loss left out."""
        seen = self.mass > 0
        log_mass = np.log(self.mass[seen])
        loss = (self.low + np.flatnonzero(seen)) * step
        if len(loss) <= 2**12:
            powers = log_mass + tilts[:, None] * loss
            top = powers.max(axis=1)
            return np.asarray(top + np.log(np.exp(powers - top[:, None]).sum(axis=1)))
        return np.array([_log_sum(log_mass + tilt * loss) for tilt in tilts])


def epsilon_above(uses: Uses, delta: float) -> float:
    """The least epsilon of all uses together at ``delta`` > 0, from above; a proof.

    The P-mass of an interval of losses is split over its two ends so that P and Q keep their
    masses, which dominates ("connect the dots", Doroshenko et al. 2022) and is off by the second
    order of the step only; tails of 1e-5 delta in all count as infinite. The sum's law is that of
    the tilted losses, e^(t l) P(l) up to a constant, composed by Fourier transform
    modulo a window and tilted back: with the tilt at which the Chernoff bound is least the answer
    is in the middle of the window, no matter how rare. Mass that wraps around only adds, and what
    the top of the window cuts off is charged as infinite by its Chernoff bound. Rounding of the
    transforms is relative to the largest mass, that is to delta; 2^-42 of delta is charged for
    each use, and 2^-42 of epsilon and 2^-46 a use for the arithmetic. Never above the Chernoff
    bound itself. Within 1e-3 of the truth up to a million uses; looser beyond, where the grid's
    step no longer resolves one use.
    """
    return _cached(tuple(uses), delta, True)


def epsilon_below(uses: Uses, delta: float) -> float:
    """An epsilon that the pairs together do not keep at ``delta`` > 0; a proof, from below.

    The losses of each cell around a point of the grid are merged to one output, which is
    post-processing; its loss lies near the point, by the second order of the step, and is rounded
    down to the grid less an offset. What n uses give away so is a sum of independent variables in
    [0, step]: by Bernstein's inequality it is no less than its mean less a deviation but with
    probability eta, a thousandth of delta, and that much is given back. What wraps around the
    window is taken off.
    """
    return _cached(tuple(uses), delta, False)


@lru_cache(maxsize=512)
def _cached(uses: Uses, delta: float, above: bool) -> float:
    uses = tuple((pair, count) for pair, count in uses if count)
    if not uses:
        return 0.0
    tail = max(delta * 1e-5 / sum(count for _, count in uses), 1e-307)
    step = _step(uses, tail)
    found = math.inf if above else 0.0
    for _ in range(_TRIES):
        grids = [_discretized(pair, count, step, tail, above) for pair, count in uses]
        told = sum(g.count * math.log1p(-min(g.infinite, 1 - 1e-16)) for g in grids)
        one = _above if above else _below
        shown, fits = one(grids, step, -math.expm1(told), delta)
        found = min(found, shown) if above else max(found, shown)
        if fits:
            break
        step *= 4.0
    return found


def _charge(grids: Sequence[_Grid]) -> float:
    """Share of delta that rounding may have moved."""
    return min(0.5, sum(grid.count for grid in grids) * _ROUNDING)


def _moved(grids: Sequence[_Grid], epsilon: float) -> float:
    """Epsilon with what arithmetic may have lost: a share, and 2^-46 a use for its masses."""
    return epsilon * (1.0 + _ROUNDING) + 2.0**-46 * sum(grid.count for grid in grids)


def _above(
    grids: Sequence[_Grid], step: float, infinite: float, delta: float
) -> tuple[float, bool]:
    """An upper bound, and whether the window had room."""
    left = delta * (1.0 - _charge(grids))
    if infinite >= left:
        return math.inf, True
    tilt, chernoff = _least_tilt(grids, step, left - infinite)
    found = _in_window(grids, step, _OFF_CENTRE * tilt, infinite, left)
    shown = chernoff if found is None else min(found, chernoff)
    return _moved(grids, shown) if shown > 0 else 0.0, found is not None


def _below(
    grids: Sequence[_Grid], step: float, infinite: float, delta: float
) -> tuple[float, bool]:
    """A lower bound, and whether the window had room."""
    if infinite > delta:
        return math.inf, True
    eta = 1e-3 * delta
    ceded = _given_back(grids, step, eta) - sum(g.count * g.offset for g in grids)
    tilt, _ = _least_tilt(grids, step, delta - infinite)
    tilt = min(_OFF_CENTRE * tilt, 0.1 / step)
    moment = _log_total(grids, step, np.array([tilt]))[0]
    extra = 1e-6 * delta
    for _ in range(_TRIES):
        needed = (delta + eta) * (1.0 + _charge(grids)) + extra
        found = _in_window(grids, step, tilt, infinite, needed, ceded)
        if found is None:
            return 0.0, False
        wrapped = 2.0 * _OUTSIDE * math.exp(min(moment - tilt * (found - ceded), 700.0))
        if wrapped <= extra:
            return max(0.0, 2.0 * found - _moved(grids, found)), True
        extra = 2.0 * wrapped
    return 0.0, True


def _step(uses: Uses, tail: float) -> float:
    """Fine enough for each pair as far as it matters in the sum, and no finer than there is room.

    It sets how tight the answer is, not whether it is a bound.
    """
    spreads = [_spread(pair, tail) for pair, _ in uses]
    widths = [high - low for low, high in (pair.span(tail) for pair, _ in uses)]
    total = math.sqrt(sum(n * s**2 for s, (_, n) in zip(spreads, uses, strict=True)))
    if total == 0:
        return max(1.0, max(widths) / _MOST)
    wanted = (
        max(s / _FINE, 1e-5 * total**2 / (n * s))
        for s, (_, n) in zip(spreads, uses, strict=True)
        if s > 0
    )
    room = min(_MOST, max(2**16, 2**21 // len(uses)))
    wish = min(min(wanted), total / 2000.0)
    step = max(wish, 20.0 * total / room, max(widths) / _MOST)
    # Nothing need be split where the losses used most often lie on the grid.
    atoms = [(n, max(p.losses)) for p, n in uses if isinstance(p, AtomicPair) and p.losses]
    _, loss = max(atoms, default=(0, 0.0))
    return loss / math.ceil(loss / step) if loss >= step else step


def _spread(pair: Pair, tail: float) -> float:
    """About the standard deviation of the loss."""
    low, high = pair.span(tail)
    reach = 1.01 * max(abs(low), abs(high), 1e-300)
    near = np.geomspace(1e-9, 1.0, 200) * reach
    edges = np.unique(np.concatenate([-near, near, np.linspace(low, high, 400), [-np.inf, np.inf]]))
    log_p, _ = pair.between(edges)
    mass = np.exp(log_p[1:-1])
    middle = (edges[1:-2] + edges[2:-1]) / 2.0
    mean = float(mass @ middle)
    return math.sqrt(max(float(mass @ (middle - mean) ** 2), 0.0))


def _discretized(pair: Pair, count: int, step: float, tail: float, above: bool) -> _Grid:
    low, high = pair.span(tail)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    points = np.arange(first, last + 1)
    if not above:
        return _merged(pair, count, step, points)
    inner = points * step
    log_p, log_q = pair.between(np.concatenate([[-np.inf], inner, [np.inf]]))
    p = np.exp(log_p[1:-1])
    with np.errstate(invalid="ignore"):
        share = np.expm1(log_q[1:-1] - log_p[1:-1] + inner[:-1]) / math.expm1(-step)
    share = np.clip(np.where(p > 0, share, 0.0), 0.0, 1.0)
    mass = np.zeros(len(inner))
    mass[:-1] += p * (1.0 - share)
    mass[1:] += p * share
    mass[0] += math.exp(log_p[0])
    return _Grid(first, mass, min(1.0, pair.infinite + math.exp(log_p[-1])), count)


def _merged(pair: Pair, count: int, step: float, points: NDArray[np.int64]) -> _Grid:
    """One output a cell, its loss rounded down; of a few offsets, that which gives least away."""
    middles = (points[:-1] + 0.5) * step
    log_p, log_q = pair.between(np.concatenate([[-np.inf], middles, [np.inf]]))
    seen = log_p > -700.0
    p, loss = np.exp(log_p[seen]), log_p[seen] - log_q[seen]
    best: _Grid | None = None
    for part in (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1):
        offset = part * step
        lowest, highest = int(points[0]) - 1, int(points[-1]) + 1
        cell = np.floor((loss + offset) / step)
        at = np.clip(cell, lowest, highest).astype(np.int64)
        rest = np.clip(loss + offset - at * step, 0.0, step)
        mean = float(p @ rest)
        if best is None or mean < best.ceded[0]:
            # What would be rounded up is left out.
            kept = np.where(cell < lowest, 0.0, p)
            mass: Array = np.bincount(
                at - lowest, weights=kept, minlength=highest - lowest + 1
            ).astype(np.float64)
            variance = max(float(p @ rest**2) - mean**2, 0.0)
            best = _Grid(lowest, mass, pair.infinite, count, offset, (mean, variance))
    assert best is not None
    return best


def _given_back(grids: Sequence[_Grid], step: float, eta: float) -> float:
    """What rounding down gave away at least, but with probability ``eta``: Bernstein."""
    mean = sum(g.count * g.ceded[0] for g in grids)
    variance = sum(g.count * g.ceded[1] for g in grids)
    log_eta = -math.log(eta)
    return max(0.0, mean - math.sqrt(2.0 * variance * log_eta) - step * log_eta / 3.0)


def _log_sum(x: Array) -> float:
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum()))


def _log_total(grids: Sequence[_Grid], step: float, tilts: Array) -> Array:
    """ln E[e^(t L)] of the sum L of all finite losses."""
    parts = [grid.count * grid.log_moments(tilts, step) for grid in grids]
    return np.asarray(np.sum(parts, axis=0))


def _coarse(grid: _Grid, blocks: int = 2048) -> tuple[_Grid, float]:
    """The same mass on fewer points, rounded up; and how many old points make one."""
    factor = max(1, -(-len(grid.mass) // blocks))
    low = grid.low // factor
    at = -((-(grid.low + np.arange(len(grid.mass)))) // factor)
    mass: Array = np.bincount(at - low, weights=grid.mass).astype(np.float64)
    return _Grid(low, mass, grid.infinite, grid.count), float(factor)


def _least_tilt(grids: Sequence[_Grid], step: float, delta: float) -> tuple[float, float]:
    """The tilt t at which the conversion of the moment at 1 + t is least, and that epsilon.

    Canonne, Kamath and Steinke 2020, Proposition 12: every t is a bound.
    """

    def converted(moments: Array, tilts: Array) -> Array:
        orders = 1.0 + tilts
        return np.asarray(
            (moments - math.log(delta) - np.log(orders)) / tilts - np.log1p(1.0 / tilts)
        )

    rough = [_coarse(grid) for grid in grids]
    tilts = np.geomspace(1e-3, 1e3, 50)
    moments, variance = np.zeros(0), 0.0
    for grid, factor in rough:
        loss = (grid.low + np.arange(len(grid.mass))) * step * factor
        mean = float(grid.mass @ loss)
        variance += grid.count * float(grid.mass @ (loss - mean) ** 2)
    tilts = tilts * math.sqrt(max(1.0, -2.0 * math.log(delta)) / max(variance, step**2))
    moments = sum(
        (g.count * g.log_moments(tilts, step * factor) for g, factor in rough),
        np.zeros(len(tilts)),
    )
    least = float(tilts[int(np.argmin(converted(moments, tilts)))])
    near = least * np.array([0.8, 1.0, 1.2])
    values = converted(_log_total(grids, step, near), near)
    best = int(np.argmin(values))
    return float(near[best]), float(values[best])


def _in_window(
    grids: Sequence[_Grid],
    step: float,
    tilt: float,
    infinite: float,
    delta: float,
    ceded: float | None = None,
) -> float | None:
    """The least epsilon at ``delta`` of the sum's law, seen in a window; None if it has no room.

    From below with what it ``ceded``; from above what the window leaves out is charged.
    """
    mean = variance = moment = 0.0
    tilted = []
    for grid in grids:
        loss = (grid.low + np.arange(len(grid.mass))) * step
        with np.errstate(divide="ignore"):
            log_mass = np.log(grid.mass) + tilt * loss
        log_moment = _log_sum(log_mass)
        law = np.exp(log_mass - log_moment)
        centre = float(law @ loss)
        mean += grid.count * centre
        variance += grid.count * float(law @ (loss - centre) ** 2)
        moment += grid.count * log_moment
        tilted.append((grid, law, round(centre / step)))
    deviation = max(math.sqrt(variance), step)
    low, high = _window(grids, step, tilt, moment, mean, deviation)
    for _ in range(4):
        first, size = math.floor(low / step), math.ceil((high - low) / step) + 2
        if size > 2 * _MOST:
            return None
        size = fft.next_fast_len(max(size, 64), real=True)
        law = _composed(tilted, first, size)
        loss = (first + np.arange(size)) * step
        with np.errstate(divide="ignore"):
            log_p = np.log(np.maximum(law, 0.0)) + (moment - tilt * loss)
        cut = _OUTSIDE * math.exp(min(moment - tilt * high, 0.0)) if ceded is None else 0.0
        top = math.log(infinite + cut) if infinite + cut > 0 else -math.inf
        log_p = np.minimum(np.concatenate([[top], log_p[::-1]]), 300.0)
        loss += ceded or 0.0
        found = least_epsilon(log_p, log_p - np.concatenate([[np.inf], loss[::-1]]), delta)
        if found > loss[0] + step or loss[0] < 0:
            return found
        low -= (high - low) / 2.0
    return None


def _window(
    grids: Sequence[_Grid], step: float, tilt: float, moment: float, mean: float, deviation: float
) -> tuple[float, float]:
    """Outside of these losses the tilted law has a mass of ``_OUTSIDE`` at most, by Chernoff."""
    shifts = np.array([0.3, 0.6, 1.0, 1.7, 3.0, 5.0, 8.0]) / deviation
    need = -math.log(_OUTSIDE)
    high = float(np.min((_log_total(grids, step, tilt + shifts) - moment + need) / shifts))
    shifts = np.concatenate([shifts, np.minimum(shifts, 0.9 * tilt)])
    low = float(np.max((moment - _log_total(grids, step, tilt - shifts) - need) / shifts))
    return min(low, mean - 8.0 * deviation), high


def _composed(tilted: list[tuple[_Grid, Array, int]], first: int, size: int) -> Array:
    """The law of the sum of tilted losses modulo the window that begins at point ``first``."""
    total, offset = np.ones(size // 2 + 1, dtype=np.complex128), 0
    for grid, law, centre in tilted:
        at = (grid.low - centre + np.arange(len(law))) % size
        wave = fft.rfft(np.bincount(at, weights=law, minlength=size), n=size)
        if grid.count > 1:
            size_of, angle = np.abs(wave), np.angle(wave)
            wave = size_of**grid.count * np.exp(1j * (grid.count * angle))
        total *= wave
        offset += grid.count * centre
    return np.roll(fft.irfft(total, n=size), -((first - offset) % size))
