"""Largest log-ratio and hockey-stick divergence of two distributions on the real line, with
certified error limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.densities import (
    ExpTerm,
    Floats,
    Lattice,
    Mixture,
    align_mixtures,
    compute_log_integral,
    group_lattices,
)
from fedrec_auditor.accountants.losses.divergences import compute_log_ratios as log_ratio_of_masses

# Array of indices of intervals.
Indices = NDArray[np.intp]

_GAP = 1e-10
# Smallest log-mass of an event that is reported for an unbounded ratio.
_SEEN = math.log(1e-3)
_ROUNDS, _HALVINGS = 200, 48
_MOST_ENTRIES = 1 << 19
_ULPS = 2.0**-50


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Interval [lower, upper] that contains a computed value.

    - ``lower``, ``upper``: limits of the value.
    - ``argmax``: number at which a log-ratio of densities equals ``lower``, if the value is the
      supremum of this log-ratio; infinite for a limit at infinity.
    """

    lower: float
    upper: float
    argmax: float = 0.0


class DistinguishingEvent(NamedTuple):
    """Distinguishing event for two distributions P and Q of a number: an interval, or a single
    number.

    - ``lower_end``, ``upper_end``: ends of the interval, which are equal for a single number.
    - ``log_p``, ``log_q``: logarithms of the probabilities of the event under P and Q.
    - ``supremum_lower_bound``: lower bound on the supremum of ln P(A)/Q(A) over all events A.
    """

    lower_end: float
    upper_end: float
    log_p: float
    log_q: float
    supremum_lower_bound: float


class DivergenceRange(NamedTuple):
    """Interval [lower, upper] that contains the hockey-stick divergence of P and Q at an epsilon.

    - ``lower``, ``upper``: limits of the divergence P(event) - e^epsilon Q(event). The event is the
      set of all outputs at which P/Q exceeds e^epsilon.
    - ``mass_p``, ``mass_q``: probabilities of this event under P and Q.
    """

    lower: float
    upper: float
    mass_p: float
    mass_q: float


def bound_log_ratio(p: Mixture, q: Mixture) -> Enclosure:
    """Returns an interval that contains the supremum of ln(P(event)/Q(event)) over all events.

    ``p``, ``q``: the distributions P and Q of a number.

    The supremum is inf if Q has no mass on an event that is possible under P, and -inf if ``p`` is
    empty. The relative width of the interval is usually at most 1e-10.
    """
    # Both ends of the interval equal the supremum, up to rounding, if the ratio is monotone or
    # convex on each interval between two ends of pieces of the mixtures. Otherwise branch and bound
    # narrows the interval.
    parts = [stretches.find_supremum() for stretches in _split_supports(p, q)]
    best = max(parts, key=lambda part: part.lower, default=Enclosure(-math.inf, -math.inf))
    return replace(best, upper=max([best.upper, *(part.upper for part in parts)]))


def find_distinguishing_event(
    p: Mixture, q: Mixture, apart: Iterable[float] = ()
) -> DistinguishingEvent:
    """Finds an interval or a single number with almost the largest log-ratio ln(P(event)/Q(event)).

    - ``p``, ``q``: the distributions P and Q of a number.
    - ``apart``: numbers that must not lie in the interior of the interval.

    If an event attains the supremum over all events, the log-ratio of the result equals it up to
    1e-7 relative. Otherwise the log-ratio is smaller.
    """
    suprema = [(stretches, stretches.find_supremum()) for stretches in _split_supports(p, q, apart)]
    stretches, supremum = max(suprema, key=lambda each: each[1].lower)
    if not stretches.is_discrete:
        return stretches.find_event(supremum)
    known = math.isfinite(supremum.lower) and math.isfinite(supremum.argmax)
    places = np.array([supremum.argmax] if known else p.list_atoms())
    logs = np.stack([mixture.compute_log_mass(places) for mixture in (p, q)])
    k = int(np.where(_find_largest_ratio(logs), logs[0], -np.inf).argmax())
    place, (log_p, log_q) = float(places[k]), logs[:, k].tolist()
    return DistinguishingEvent(place, place, log_p, log_q, supremum.lower)


def bound_divergence(p: Mixture, q: Mixture, epsilon: float) -> DivergenceRange:
    """Returns an interval that contains the hockey-stick divergence of two distributions P = ``p``
    and Q = ``q``.

    The divergence is the largest P(event) - e^epsilon Q(event) over all events. The interval allows
    for rounding errors. Raises InputError if ``epsilon`` is below 0.
    """
    # A point at which P/Q equals e^epsilon to all digits contributes nothing.
    if not epsilon >= 0.0:
        swapped = "1 - e^epsilon + e^epsilon * bound_divergence(q, p, -epsilon)"
        raise InputError(f"Expected epsilon >= 0, got {epsilon}. For epsilon < 0, use {swapped}.")
    parts = [stretches.bound_excess(epsilon) for stretches in _split_supports(p, q)]
    sums: Iterable[float] = map(math.fsum, zip(*parts, strict=True)) if parts else (0, 0, 0, 0)
    return DivergenceRange(*sums)


@dataclass(frozen=True)
class _Stretches:
    """Measures P and Q on disjoint intervals ("stretches") of a line, each measure a sum of terms.

    A term is a shape times a factor. A shape is the exponential of a line or of a parabola.

    - ``low``, ``high``: ends of the intervals, (stretches,).
    - ``log_terms``: logarithms of the terms of P and of Q at ``anchor``, (2, shapes, stretches);
      -inf if there is no term.
    - ``anchor``: a point of each interval, per shape, (shapes, stretches).
    - ``slope``: slope of the logarithm at the anchor, (shapes, stretches).
    - ``curvature``: rate by which the slope falls, (shapes, 1).
    - ``is_discrete``: true if the line is the integers, and each interval contains both its ends.
    - ``to_number``: function that maps a point of the line to the number that it represents.
    """

    low: Floats
    high: Floats
    log_terms: Floats
    anchor: Floats
    slope: Floats
    curvature: Floats
    is_discrete: bool
    to_number: Callable[[float], float]

    @classmethod
    def from_terms(
        cls,
        sides: tuple[list[ExpTerm], list[ExpTerm]],
        is_discrete: bool = False,
        to_number: Callable[[float], float] = float,
        apart: Iterable[float] = (),
    ) -> _Stretches:
        """Builds disjoint intervals of the line from the terms of two measures P and Q (``sides``).

        - ``sides``: terms (density pieces or lattices) of P, and terms of Q.
        - ``is_discrete``: true if the line is the integers.
        - ``to_number``: function that maps a point of the line to the number that it represents.
        - ``apart``: further points at which the line is split, besides all ends and means of terms.

        Raises InputError if there are too many intervals.
        """
        terms = [*sides[0], *sides[1]]
        gap = 1.0 if is_discrete else 0.0
        shapes = {s: k for k, s in enumerate(sorted({term.shape_parameters for term in terms}))}
        means = [mean for mean, curve in shapes if curve]
        ends = [[term.low, term.high + gap] for term in terms]
        edges = np.unique(np.concatenate([np.ravel(ends), means, list(apart)]))
        low, high = edges[:-1], edges[1:] - gap
        if len(shapes) * len(low) > 8 * _MOST_ENTRIES:
            raise InputError(
                f"Expected at most {8 * _MOST_ENTRIES:,} pieces of output densities, got "
                f"{len(shapes):,} terms x {len(low):,} intervals. Use fewer branches in the code."
            )
        centre, curve = (np.array(column)[:, None] for column in zip(*shapes, strict=True))
        rising = np.where(curve > 0.0, centre >= high, centre > 0.0)
        anchor = np.where((rising & (high < np.inf)) | (low == -np.inf), high, low)
        slope = np.where(curve > 0.0, (centre - anchor) * curve, centre + 0.0 * anchor)
        logs = np.full((2, *anchor.shape), -np.inf)
        for side, of_side in zip(logs, sides, strict=True):
            for term in of_side:
                first, last = np.searchsorted(edges, [term.low, term.high + gap])
                part = shapes[term.shape_parameters], slice(first, last)
                side[part] = np.logaddexp(side[part], term.compute_log_term(anchor[part]))
        return cls(low, high, logs, anchor, slope, curve, is_discrete, to_number)

    @cached_property
    def p_indices(self) -> Indices:
        """Indices of the intervals on which the first measure, P, has any mass."""
        return np.flatnonzero((self.log_terms[0] > -np.inf).any(axis=0))

    @cached_property
    def limits_at_infinity(self) -> tuple[Floats, Indices]:
        """Limit of ln p/q, the log-ratio of the two densities, at the infinite end of each
        interval, (stretches,).

        The second array has the index of the term that dominates q there, (stretches,). For a
        finite interval, both entries are 0.
        """
        limit, leader = np.zeros(len(self.low)), np.zeros(len(self.low), dtype=np.intp)
        for j in np.flatnonzero(~np.isfinite(self.high - self.low)):
            outward = self.slope[:, j] * (1.0 if self.high[j] == np.inf else -1.0)
            rank = np.argsort(np.lexsort((-outward, self.curvature[:, 0])))
            ranks = np.where(self.log_terms[:, :, j] > -np.inf, rank, len(rank))
            if ranks.min(axis=1).max() < len(rank):  # both P and Q have a term
                (lead_p, leader[j]), (rank_p, rank_q) = ranks.argmin(axis=1), ranks.min(axis=1)
                ahead = float(rank_q - rank_p)
                limit[j] = self.log_terms[0, lead_p, j] - self.log_terms[1, leader[j], j]
                limit[j] = math.copysign(math.inf, ahead) if ahead else limit[j]
        return limit, leader

    @cached_property
    def term_ratios(self) -> Floats:
        """Smallest and largest log-ratio of a term of P to the term of Q of equal shape, on each
        interval, (2, stretches).

        ln p/q, for the densities p and q of P and Q, lies between these two values.
        """
        (p, q), (has_p, has_q) = self.log_terms, self.log_terms > -np.inf
        with np.errstate(invalid="ignore"):
            ratios = p - q
        least, largest = np.where(has_q, ratios, np.inf), np.where(has_p, ratios, -np.inf)
        return np.stack([least.min(axis=0), largest.max(axis=0)])

    @cached_property
    def has_end_extremes(self) -> NDArray[np.bool_]:
        """Whether, on every part of an interval, ln p/q has its minimum (first row) and its maximum
        (second row) at the ends of that part, (2, stretches).

        p and q are the densities of the measures P and Q. False means that this is not known.
        """
        # There are three known cases:
        # - At most two shapes, of one curvature: ln p/q is monotone (Moebius).
        # - q is a single term that is curved at least as much as all terms of p: ln p/q is convex.
        # - p is a single term that is curved at least as much as all terms of q: ln p/q is concave.
        has_p, has_q = self.log_terms > -np.inf
        here = has_p | has_q
        top, of_p, of_q = (
            np.where(has, self.curvature, -np.inf).max(0) for has in (here, has_p, has_q)
        )
        alike = (top == np.where(here, self.curvature, np.inf).min(0)) & (here.sum(axis=0) <= 2)
        concave = (has_p.sum(axis=0) == 1) & (of_q <= of_p)
        convex = (has_q.sum(axis=0) == 1) & (of_p <= of_q)
        return np.stack([alike | concave, alike | convex])

    def bound_log_ratio(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats]:
        """Computes ln p/q, the log-ratio of the densities p and q of the measures, at both ends of
        cells, and its limits within the cells, (2, cells) each.

        - ``low``, ``high``: ends of the cells, (cells,).
        - ``j``: index of the interval that contains each cell, (cells,).
        """
        # p and q are sums of terms. Relative to the largest term of q, every term is the
        # exponential of a parabola, so its smallest and largest values in a cell are known. The
        # lower limit is the logarithm of the sum of the smallest terms of p, divided by the sum of
        # the largest terms of q. The upper limit exchanges smallest and largest. Tighter limits of
        # ``term_ratios`` are used where they exist.
        (p, q), slope, curve = self.log_terms[:, :, j], self.slope[:, j], self.curvature
        finite = np.isfinite(high - low)
        near = [np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)]
        away = [end - self.anchor[:, j] for end in near]
        heights = [t * (slope - curve * t / 2.0) for t in away]
        limit, leader = self.limits_at_infinity
        at_low, at_high = (
            np.where(np.isfinite(end), _sum(p + height) - _sum(q + height), limit[j])
            for end, height in zip((low, high), heights, strict=True)
        )
        middle = q + (heights[0] + heights[1]) / 2.0
        lead = np.where(finite, middle.argmax(axis=0), leader[j])[None]

        # Values of all terms, minus the value of the largest term of q.
        def relative(values: Floats) -> Floats:
            values = np.broadcast_to(values, p.shape)
            return values - np.take_along_axis(values, lead, 0)

        bend, rises = relative(curve), [relative(slope - curve * t) for t in away]
        first, last = map(relative, heights)
        with np.errstate(all="ignore"):
            outward = np.where(high == np.inf, rises[0], -rises[0])
            towards = np.where(bend != 0.0, -bend, outward)
            tail = np.where(towards == 0.0, first, np.copysign(np.inf, towards))
            last = np.where(finite, last, tail)
            turns = np.where(finite, rises[0] * rises[1] < 0.0, outward * bend > 0.0)
            turn = np.where(turns, first + rises[0] ** 2 / (2.0 * bend), first)
            most = np.maximum(np.maximum(first, last), turn)
            least = np.minimum(np.minimum(first, last), turn)
            values = [
                [np.where(log > -np.inf, log + m, -np.inf) for m in (least, most)] for log in (p, q)
            ]
            below, above = (_sum(values[0][k]) - _sum(values[1][1 - k]) for k in (0, 1))
        ends = np.stack([at_low, at_high])
        smaller, larger = ends.min(axis=0), ends.max(axis=0)
        below = np.minimum(smaller, np.maximum(below, self.term_ratios[0, j]))
        above = np.maximum(larger, np.minimum(above, self.term_ratios[1, j]))
        exact = self.has_end_extremes[:, j] | (self.is_discrete & (high - low <= 1.0))
        return ends, np.where(exact, [smaller, larger], [below, above])

    def compute_log_masses(self, low: Floats, high: Floats, j: Indices) -> Floats:
        """Computes ln of the masses of the measures P and Q on cells [low, high], (2, cells).

        ``j`` has the index of the interval that contains each cell.
        """
        anchor, slope = self.anchor[:, j], self.slope[:, j]
        falling = anchor <= low
        top = np.where(falling, low, high)
        top = np.where(np.isfinite(top), top, np.where(falling, high, low))
        away = top - anchor
        fall = np.abs(slope - self.curvature * away)
        widths = np.broadcast_to(high - low, away.shape)
        whole = compute_log_integral(fall, self.curvature, widths, 1.0 if self.is_discrete else 0.0)
        with np.errstate(invalid="ignore"):
            inside = away * (slope - self.curvature * away / 2.0) + whole
            logs = self.log_terms[:, :, j]
            return np.stack([_sum(np.where(log > -np.inf, log + inside, -np.inf)) for log in logs])

    def split_cells(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats, Indices]:
        """Splits each cell [low, high] into two, and returns lower ends, upper ends and interval
        indices of all new cells.

        ``j`` has the index of the interval that contains each cell.
        """
        # A finite cell is halved. An infinite cell is split into a finite and an infinite cell;
        # repeated splits grow the finite part by a factor of 3.
        reach = self.decay_length[j]
        with np.errstate(invalid="ignore"):
            up = low + np.maximum(reach, 2.0 * (low - self.low[j]))
            down = high - np.maximum(reach, 2.0 * (self.high[j] - high))
            middle = np.where(
                high == np.inf, up, np.where(low == -np.inf, down, low / 2 + high / 2)
            )
        if self.is_discrete:
            middle = np.floor(middle)
        after = middle + 1.0 if self.is_discrete else middle
        return np.append(low, after), np.append(middle, high), np.append(j, j)

    @cached_property
    def decay_length(self) -> Floats:
        """Length over which the steepest term of each interval falls by a factor of about e,
        (stretches,).
        """
        here = (self.log_terms > -np.inf).any(axis=0)
        steep = np.where(here, np.abs(self.slope) + np.sqrt(self.curvature), 0.0).max(axis=0)
        return np.asarray(1.0 / np.maximum(steep, 1e-200))

    def find_supremum(self) -> Enclosure:
        """Bounds the supremum of ln p/q, the log-ratio of the two densities, by branch and bound
        over all intervals.
        """
        j = self.p_indices
        if not len(j):
            return Enclosure(-math.inf, -math.inf)
        nowhere = ~(self.log_terms[1][:, j] > -np.inf).any(axis=0)
        if (nowhere | (self.limits_at_infinity[0][j] == np.inf)).any():
            return Enclosure(math.inf, math.inf, math.inf)
        best, at, upper, low, high = -math.inf, 0.0, -math.inf, self.low[j], self.high[j]
        for _ in range(_ROUNDS):
            logs, (_, above) = self.bound_log_ratio(low, high, j)
            if logs.max() > best:
                best = float(logs.max())
                at = min(np.stack([low, high])[logs == best].tolist(), key=abs)
            doubt = above > best + _GAP * max(1.0, abs(best))
            if doubt.sum() * len(self.curvature) > _MOST_ENTRIES:
                break
            upper = float(above[~doubt].max(initial=upper))
            if not doubt.any():
                above = above[:0]
                break
            low, high, j = self.split_cells(low[doubt], high[doubt], j[doubt])
        return Enclosure(best, max(best, float(above.max(initial=upper))), self.to_number(at))

    def find_event(self, supremum: Enclosure) -> DistinguishingEvent:
        """Finds an interval on which ln(P/Q) is almost the given ``supremum``, with the masses of
        the measures P and Q on it.
        """
        at, low, high = supremum.argmax, self.low[self.p_indices], self.high[self.p_indices]
        reach, shares = self.decay_length[self.p_indices], 0.5 ** np.arange(_HALVINGS)[:, None]
        if math.isfinite(at):  # smaller and smaller parts around it
            size = np.where(np.isfinite(high - low), high - low, 64.0 * reach) * shares
            lows, highs = np.maximum(low, at - size), np.minimum(high, at + size)
        else:  # tails that begin farther and farther out
            far = reach * (1.0 / shares - 1.0)
            lows, highs = (
                np.where(high < np.inf, low, low + far),
                np.where(low > -np.inf, high, high - far),
            )
        low, high = np.concatenate([[low], lows]).ravel(), np.concatenate([[high], highs]).ravel()
        j = np.tile(self.p_indices, _HALVINGS + 1)
        low, high, j = low[low < high], high[low < high], j[low < high]
        logs = self.compute_log_masses(low, high, j)
        best = _find_largest_ratio(logs)
        if math.isfinite(supremum.lower):
            missing = supremum.lower - log_ratio_of_masses(*logs)
            best = missing <= max(1e-7 * max(1.0, abs(supremum.lower)), missing.min())
        k = int(np.where(best, logs[0], -np.inf).argmax())
        log_p, log_q = logs[:, k].tolist()
        return DistinguishingEvent(float(low[k]), float(high[k]), log_p, log_q, supremum.lower)

    def bound_excess(self, epsilon: float) -> DivergenceRange:
        """Bounds the integral of max(0, p - e^epsilon q), for the densities p and q of the measures
        P and Q.
        """
        # The line is split into cells until p/q is on one side of e^epsilon in each cell, or the
        # remaining doubt is negligible.
        j = self.p_indices
        low, high = self.low[j], self.high[j]
        sums = np.zeros(4)
        for turn in range(_ROUNDS):
            if not len(j):
                break
            least, most = self.bound_log_ratio(low, high, j)[1]
            log_p, log_q = self.compute_log_masses(low, high, j)
            alone = log_q == -np.inf
            with np.errstate(invalid="ignore", over="ignore"):
                mass, mass_q = np.exp(log_p), np.where(alone, 0.0, np.exp(log_q))
                known = np.where(alone, mass, -mass * np.expm1(epsilon + log_q - log_p))
                known = np.where(alone | (most > epsilon), np.maximum(known, 0.0), 0.0)
                most_of = np.where(alone, mass, -mass * np.expm1(np.minimum(epsilon - most, 0.0)))
                missed = mass * np.expm1(np.maximum(epsilon - least, 0.0))
                gap = np.maximum(np.minimum(most_of - known, missed), 0.0)
                gap = np.where(alone | (most <= epsilon) | (least >= epsilon), 0.0, gap)
                part = np.where(alone, 0.0, np.exp(np.minimum(epsilon + log_q - log_p, 0.0)))
                errors = 16.0 + np.abs(log_p) + np.where(part > 0.0, part * (16.0 - log_q), 0.0)
                error = np.where(known + gap > 0.0, _ULPS * mass * errors, 0.0)
            doubt = gap > 1e-14 * (sums[0] + known.sum()) + 1e-40
            if doubt.sum() * len(self.curvature) > _MOST_ENTRIES or turn == _ROUNDS - 1:
                doubt[:] = False
            counted = (known > 0.0) * np.stack([mass, mass_q])
            parts = np.stack([np.maximum(known - error, 0.0), known + gap + error, *counted])
            sums += parts[:, ~doubt].sum(axis=1)
            low, high, j = self.split_cells(low[doubt], high[doubt], j[doubt])
        return DivergenceRange(*sums.tolist())


def _find_largest_ratio(logs: Floats) -> NDArray[np.bool_]:
    """Selects the events with the largest log-ratio, given the log-masses of events under P and Q,
    (2, events).

    Events with a very small mass under P (far tails) are left out.
    """
    seen = logs[0] >= min(_SEEN, logs[0].max())
    ratios = np.where(seen, log_ratio_of_masses(*logs), -np.inf)
    return np.asarray(ratios == ratios.max())


def _sum(logs: Floats) -> Floats:
    """ln of the sum of e^x along the first axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0))


def _split_supports(p: Mixture, q: Mixture, apart: Iterable[float] = ()) -> Iterator[_Stretches]:
    """Splits two measures into parts that cannot overlap: densities, lattices, and single
    points.
    """
    (terms_p, of_p), (terms_q, of_q) = align_mixtures(p, q)
    smooth = [[term for term in terms if not term.step] for terms in (terms_p, terms_q)]
    if any(smooth):
        yield _Stretches.from_terms((smooth[0], smooth[1]), apart=apart)
    lattices = group_lattices([[t for t in terms if t.step] for terms in (terms_p, terms_q)])
    values = sorted({*of_p, *of_q})
    # Points are placed on every other integer, so that two of them never form one event.
    rest = Lattice(0.0, 1.0)
    for side, points in enumerate((of_p, of_q)):
        for k, value in enumerate(values):
            if value in points:
                on = (each for each in lattices if not math.isnan(each.find_lattice_index(value)))
                lattice = next(on, rest)
                n = 2.0 * k if lattice is rest else lattice.find_lattice_index(value)
                lattice.terms_of_p_and_q[side].append(ExpTerm(n, n, n, math.log(points[value])))
    for lattice in lattices:
        yield _Stretches.from_terms(lattice.terms_of_p_and_q, True, lattice.get_point)
    if any(rest.terms_of_p_and_q):
        yield _Stretches.from_terms(rest.terms_of_p_and_q, True, lambda n: values[int(n) // 2])
