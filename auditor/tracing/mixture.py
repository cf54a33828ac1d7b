"""Certified comparison of two distributions of a number: pieces of densities, lattices, points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from fedrec_auditor.accountants.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SAME = 1e-12
"""Places nearer than this, relative to their size and the spread of all, differ by rounding."""
_GAP = 1e-10
# The mass, at least, of an event that shows how a ratio grows without bound.
_SEEN = 1e-6
_ROUNDS = 200
_MOST_ENTRIES = 1 << 19
_MOST_POINTS = 1 << 12
_MOST_RESIDUES = 256
# Distance of points of a lattice, in lengths in which its masses fall by e.
_FAR_OUT = 40.0
_ULPS = 2.0**-50
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True, slots=True)
class Piece:
    """``weight`` times a probability distribution on [low, high].

    The density is proportional to exp(rate * y), or with ``sd`` > 0 the normal density of that
    ``mean``, cut to [low, high]. With ``step`` > 0 it is a lattice instead: the points low,
    low + step, ... up to high (high, high - step, ... if low is -inf), with masses proportional to
    exp(rate * y). An end is infinite only where the distribution vanishes. Else: InputError.
    """

    weight: float
    low: float
    high: float
    rate: float = 0.0
    mean: float = 0.0
    sd: float = 0.0
    step: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        normal = self.sd > 0.0 and not self.rate and not self.step
        vanishes = (self.low > -math.inf or self.rate > 0.0 or normal) and (
            self.high < math.inf or self.rate < 0.0 or normal
        )
        numbers = (self.weight, self.rate, self.mean, self.sd, self.step)
        if not (
            all(map(math.isfinite, numbers))
            and self.weight > 0.0
            and (self.low < self.high or (self.low == self.high and self.step > 0.0))
            and min(self.sd, self.step) >= 0.0
            and (not self.sd or (normal and 1e-150 < self.sd < 1e150))
            and vanishes
        ):
            raise InputError(
                "Expected a positive weight, low < high, and ends that are infinite only where "
                f"the density vanishes, got {self}. Cut the piece or correct its rate."
            )


@dataclass(frozen=True, slots=True)
class _Term:
    """exp(value + slope (y - anchor) - curve (y - anchor)^2 / 2) on [low, high].

    ``anchor`` is where it is largest, ``centre`` the mean, or the rate where ``curve`` is 0. With
    ``step`` it is a mass at every step from an end.
    """

    low: float
    high: float
    anchor: float
    value: float
    centre: float = 0.0
    curve: float = 0.0
    step: float = 0.0

    @classmethod
    def of(cls, piece: Piece) -> _Term:
        """The piece with its normalizer."""
        low, high = piece.low, piece.high
        if piece.step and math.isfinite(high - low):
            high = low + math.floor((high - low) / piece.step + 1e-9) * piece.step
        if piece.sd:
            anchor, centre, curve = min(max(piece.mean, low), high), piece.mean, piece.sd**-2
        else:
            anchor, centre, curve = high if piece.rate > 0.0 else low, piece.rate, 0.0
        term = cls(low, high, anchor, math.log(piece.weight), centre, curve, piece.step)
        sides = np.array([anchor - low, high - anchor])
        logs = _log_integral(np.full(2, abs(term.slope)), curve, sides, piece.step)
        total = np.logaddexp(*logs) if piece.sd else logs.max()
        return replace(term, value=term.value - float(total))

    @property
    def slope(self) -> float:
        """Of the logarithm, at the anchor."""
        return (self.centre - self.anchor) * self.curve if self.curve else self.centre

    def at(self, y: Floats) -> Floats:
        """Its logarithm, of a density or a mass, as if it went on beyond its ends."""
        away = y - self.anchor
        return self.value + self.slope * away - self.curve / 2.0 * away * away

    def nearest(self, y: Floats) -> tuple[Floats, Floats]:
        """Of a lattice: the nearest points of its line, and how far off these are in steps."""
        origin = self.low if math.isfinite(self.low) else self.high
        index = (y - origin) / self.step
        return origin + np.rint(index) * self.step, np.abs(index - np.rint(index))

    @property
    def shape(self) -> tuple[float, float]:
        """What terms share that differ by a factor."""
        return self.centre, self.curve


def _log_integral(fall: Floats, curve: Floats | float, width: Floats, step: float) -> Floats:
    """ln of the integral of exp(-fall t - curve t^2 / 2) for t in [0, width]; falls >= 0.

    With ``step`` the sum over t = 0, step, ..., width.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = width + step
        flat = np.log(width / step if step else width)
        unit = np.log(-np.expm1(-fall * step)) if step else np.log(fall)
        straight = np.where(fall > 0.0, np.log(-np.expm1(-fall * width)) - unit, flat)
        if not np.any(curve):
            return np.asarray(straight)
        # Mills ratios at both ends, in units of the deviation; where these cancel, quadrature.
        root = np.sqrt(curve)
        near, wide = fall / root, width * root
        drop = np.where(width < np.inf, np.exp(-wide * (near + wide / 2.0)), 0.0)
        beyond = drop * np.where(drop > 0.0, erfcx((near + wide) / math.sqrt(2.0)), 0.0)
        mills = np.log(math.sqrt(math.pi / 2.0) * (erfcx(near / math.sqrt(2.0)) - beyond) / root)
        x = np.minimum(wide, 1.0) / 2.0
        heights = (
            weight * np.exp(-x * (1.0 + node) * (near + x * (1.0 + node) / 2.0))
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        )
        quadrature = flat + np.log(sum(heights) / 2.0)
        curved = np.where((near + 1.0) * wide <= 1.0, quadrature, mills)
        return np.asarray(np.where(np.asarray(curve) > 0.0, curved, straight))


@dataclass(frozen=True, slots=True)
class Mixture:
    """A distribution of a number, or a part of one: ``pieces``, and masses at ``points``."""

    pieces: tuple[Piece, ...] = ()
    points: Mapping[float, float] = field(default_factory=dict)

    def listed(self) -> list[float]:
        """The points, and those of lattices that are short or not far out."""
        places = [*self.points]
        for piece in self.pieces:
            if piece.step:
                reach = _FAR_OUT / abs(piece.rate) if piece.rate else math.inf
                count = int(min(_MOST_POINTS, (min(piece.high - piece.low, reach)) / piece.step))
                up = math.isfinite(piece.low) and (piece.rate <= 0 or piece.high == math.inf)
                origin, step = (piece.low, piece.step) if up else (piece.high, -piece.step)
                places += [origin + k * step for k in range(count + 1)]
        return places

    def log_mass(self, y: Floats) -> Floats:
        """ln of the mass at every y, of points and of lattices; -inf where there is none."""
        y = np.asarray(y, dtype=np.float64)
        mass = np.full(y.shape, -np.inf)
        if self.points:
            values = np.array(sorted(self.points))
            nearest = np.searchsorted((values[1:] + values[:-1]) / 2.0, y)
            with np.errstate(divide="ignore"):
                masses = np.log([self.points[value] for value in values.tolist()])
            near = np.abs(y - values[nearest]) <= SAME * np.abs(values).max()
            mass = np.where(near, masses[nearest], mass)
        for term in map(_Term.of, self.pieces):
            if term.step:
                place, off = term.nearest(y)
                slack = term.step / 2.0
                on = (off <= 1e-9) & (term.low - slack < y) & (y < term.high + slack)
                mass = np.where(on, np.logaddexp(mass, term.at(place)), mass)
        return mass

    def log_density(self, y: Floats) -> Floats:
        """ln of the density at every y; where it jumps, the larger of its two limits."""
        y = np.asarray(y, dtype=np.float64)
        left, right = (np.full(y.shape, -np.inf) for _ in range(2))
        for term in map(_Term.of, self.pieces):
            if not term.step:
                log = np.where((term.low <= y) & (y <= term.high), term.at(y), -np.inf)
                left = np.logaddexp(left, np.where(y > term.low, log, -np.inf))
                right = np.logaddexp(right, np.where(y < term.high, log, -np.inf))
        return np.asarray(np.maximum(left, right))


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A value in [lower, upper], and the event [low, high] that attains ``lower``.

    low == high is a point, or a place at which a density is meant (infinite: its tail). ``p`` and
    ``q`` are the masses of all that a divergence counts.
    """

    lower: float
    upper: float
    low: float
    high: float
    p: float = 0.0
    q: float = 0.0


class NumberEvent(NamedTuple):
    """The numbers between ``low`` and ``high``, or the one that both are, with their masses."""

    low: float
    high: float
    p: float
    q: float


def log_ratio(p: Mixture, q: Mixture) -> Enclosure:
    """The supremum over events of ln P(event) / Q(event); infinite where Q has no mass.

    Exact, up to rounding, where each stretch between two ends has a ratio that is monotone or
    convex; else by branch and bound to a gap of 1e-10 relative, or what 2^19 numbers tell. -inf
    if ``p`` is empty.
    """
    parts = [pair.supremum() for pair in _pairs(p, q)]
    best = max(
        parts, key=lambda part: part.lower, default=Enclosure(-math.inf, -math.inf, 0.0, 0.0)
    )
    return replace(best, upper=max([best.upper, *(part.upper for part in parts)]))


def event_of_ratio(p: Mixture, q: Mixture, apart: Iterable[float] = ()) -> NumberEvent:
    """An event that shows ``log_ratio``: a point, or a stretch that holds none of those ``apart``.

    Its ratio is the largest one to 1e-7 relative; or, where none is the largest, a smaller one.
    """
    suprema = [(pair, pair.supremum()) for pair in _pairs(p, q, apart)]
    pair, found = max(suprema, key=lambda each: each[1].lower)
    if not pair.discrete:
        return pair.event(found)
    places = np.array(p.listed() if math.isinf(found.lower) else [found.low])
    masses = np.exp([mixture.log_mass(places) for mixture in (p, q)])
    k = int(np.where(_clearest(masses), masses[0], -1.0).argmax())
    return NumberEvent(*[float(places[k])] * 2, *masses[:, k].tolist())


def divergence(p: Mixture, q: Mixture, epsilon: float) -> Enclosure:
    """The hockey-stick divergence: the largest P(event) - e^epsilon Q(event), ``epsilon`` >= 0.

    What is counted has its rounding inside the enclosure; a ratio of e^epsilon to all digits counts
    nothing. The event is the one interval, or point, that adds most.
    """
    if not epsilon >= 0.0:
        raise InputError(f"Expected epsilon >= 0, got {epsilon}. Exchange the two inputs.")
    parts = [pair.excess(epsilon) for pair in _pairs(p, q)]
    _, event = max(parts, key=lambda part: part[0], default=(0.0, Enclosure(0.0, 0.0, 0.0, 0.0)))
    sums = {
        name: math.fsum(getattr(part, name) for _, part in parts)
        for name in ("lower", "upper", "p", "q")
    }
    return replace(event, **sums)


@dataclass(frozen=True)
class _Pair:
    """Two measures on stretches of a line, in each of which both are sums of S shapes.

    ``low``, ``high`` (J,); ``p`` and ``q`` (S, J) are the logarithms of the terms at ``anchor``
    (S, J), where they have ``slope``; -inf where there is no term. With ``discrete`` the line is
    the integers, a stretch holds both its ends. ``place`` tells where on the line of answers.
    """

    low: Floats
    high: Floats
    p: Floats
    q: Floats
    anchor: Floats
    slope: Floats
    curve: Floats
    discrete: bool
    place: Callable[[float], float]

    @classmethod
    def of(
        cls,
        sides: tuple[list[_Term], list[_Term]],
        discrete: bool = False,
        place: Callable[[float], float] = float,
        apart: Iterable[float] = (),
    ) -> _Pair:
        """The partition at all ends and means, and at what is ``apart``."""
        terms = [*sides[0], *sides[1]]
        gap = 1.0 if discrete else 0.0
        shapes = {shape: k for k, shape in enumerate(sorted({term.shape for term in terms}))}
        means = [mean for mean, curve in shapes if curve]
        ends = [[term.low, term.high + gap] for term in terms]
        edges = np.unique(np.concatenate([np.ravel(ends), means, list(apart)]))
        low, high = edges[:-1], edges[1:] - gap
        if len(shapes) * len(low) > 8 * _MOST_ENTRIES:
            raise InputError(
                f"Expected at most {8 * _MOST_ENTRIES} shapes times stretches of a density, got "
                f"{len(shapes)} times {len(low)}. Trace fewer inputs or branches."
            )
        centre, curve = (np.array(column)[:, None] for column in zip(*shapes, strict=True))
        rising = np.where(curve > 0.0, centre >= high, centre > 0.0)
        anchor = np.where((rising & (high < np.inf)) | (low == -np.inf), high, low)
        slope = np.where(curve > 0.0, (centre - anchor) * curve, centre + 0.0 * anchor)
        logs = np.full((2, *anchor.shape), -np.inf)
        for side, of_side in zip(logs, sides, strict=True):
            for term in of_side:
                first, last = np.searchsorted(edges, [term.low, term.high + gap])
                row = side[shapes[term.shape], first:last]
                row[:] = np.logaddexp(row, term.at(anchor[shapes[term.shape], first:last]))
        return cls(low, high, logs[0], logs[1], anchor, slope, curve, discrete, place)

    @cached_property
    def swapped(self) -> _Pair:
        """The other way round."""
        return replace(self, p=self.q, q=self.p)

    @cached_property
    def limits(self) -> tuple[Floats, Indices]:
        """For each stretch (J,): ln p/q at its infinite end, and the shape that leads q there."""
        limit, leader = np.zeros(len(self.low)), np.zeros(len(self.low), dtype=np.intp)
        for j in np.flatnonzero(~np.isfinite(self.high - self.low)):
            outward = self.slope[:, j] * (1.0 if self.high[j] == np.inf else -1.0)
            order = np.lexsort((-outward, self.curve[:, 0]))
            leads = [order[logs[order, j] > -np.inf] for logs in (self.p, self.q)]
            if not all(map(len, leads)):
                continue
            one, other = (int(lead[0]) for lead in leads)
            ahead = int(np.flatnonzero(order == other)[0] - np.flatnonzero(order == one)[0])
            limit[j] = math.copysign(math.inf, ahead) if ahead else self.p[one, j] - self.q[one, j]
            leader[j] = other
        return limit, leader

    @cached_property
    def same_factor(self) -> Floats:
        """For each stretch (J,) a bound on ln p/q: the largest ratio of terms of one shape."""
        has_p, has_q = self.p > -np.inf, self.q > -np.inf
        with np.errstate(invalid="ignore"):
            ratios = np.where(has_p, np.where(has_q, self.p - self.q, np.inf), -np.inf)
        return np.asarray(ratios.max(axis=0))

    @cached_property
    def monotone(self) -> NDArray[np.bool_]:
        """Stretches (J,) with two shapes at most, of equal curve: p/q is monotone (Moebius)."""
        here = (self.p > -np.inf) | (self.q > -np.inf)
        curve = np.broadcast_to(self.curve, here.shape)
        spread = np.ptp(np.where(here, curve, curve[here.argmax(axis=0), 0]), axis=0)
        return np.asarray((here.sum(axis=0) <= 2) & (spread == 0.0))

    def above(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats, Floats]:
        """ln p/q at both ends of cells [low, high] in stretches j, and a bound on it between.

        Three arrays (cells,). The least of three bounds. With K no less than the negative second
        derivative: the larger end + K width^2 / 8. The largest of every p-term over the leading
        q-term. The largest ratio of two terms of one shape.
        """
        p, q, curve = self.p[:, j], self.q[:, j], self.curve
        has_p, has_q = p > -np.inf, q > -np.inf
        starts, stops = low > -np.inf, high < np.inf
        ends = [np.where(starts, low, high), np.where(stops, high, low)]
        away = [end - self.anchor[:, j] for end in ends]
        slopes = [self.slope[:, j] - curve * t for t in away]
        shape = [t * (self.slope[:, j] - curve * t / 2.0) for t in away]
        limit, leader = self.limits
        left, right = (
            np.where(inner, _sum(p + log) - _sum(q + log), limit[j])
            for inner, log in zip((starts, stops), shape, strict=True)
        )
        finite = starts & stops
        lead = np.where(finite, np.argmax(q + (shape[0] + shape[1]) / 2.0, axis=0), leader[j])[None]
        falls = [s - np.take_along_axis(s, lead, 0) for s in slopes]
        more = [log - np.take_along_axis(log, lead, 0) for log in shape]
        bend = curve - np.take_along_axis(np.broadcast_to(curve, p.shape), lead, 0)
        with np.errstate(all="ignore"):
            grows = np.where(bend != 0.0, -bend, falls[0] * np.where(stops, -1.0, 1.0))
            tail = np.where(grows == 0.0, more[0], np.copysign(np.inf, grows))
            top = ((falls[0] > 0.0) | ~starts) & ((falls[1] < 0.0) | ~stops) & (bend > 0.0)
            peak = np.where(top, more[0] + falls[0] ** 2 / (2.0 * bend), -np.inf)
            most = np.maximum(np.maximum(*more), np.maximum(peak, np.where(finite, -np.inf, tail)))
            led = np.take_along_axis(q, lead, 0)
            by_lead = _sum(np.where(has_p, p + most, -np.inf)) - led[0]
            share = np.where(has_q & (np.arange(len(p))[:, None] != lead), q + most - led, -np.inf)
            steps = np.maximum(*np.abs(falls)) ** 2
            by_share = np.where(share > -np.inf, np.exp(np.minimum(share, 0.0)) * steps, 0.0)
            spread = np.maximum(*(np.ptp(_within(s, has_q), axis=0) for s in slopes))
            variance = np.minimum(spread**2 / 4.0, by_share.sum(axis=0))
            curves = np.where(has_p, curve, 0.0).max(axis=0) - np.where(has_q, curve, np.inf).min(0)
            bound = np.maximum(curves + variance, 0.0)
            width = high - low
            straight = self.monotone[j] | (self.discrete & (width <= 1.0))
            straight |= (curves <= 0.0) & (has_q.sum(axis=0) == 1)
            rise = np.where(straight, 0.0, bound * width**2 / 8.0)
            rise = np.where(straight | finite, rise, np.inf)
        larger = np.maximum(left, right)
        least = np.minimum(np.minimum(larger + rise, by_lead), self.same_factor[j])
        return left, right, np.maximum(least, larger)

    def log_mass(self, logs: Floats, low: Floats, high: Floats, j: Indices) -> Floats:
        """ln of the mass (cells,) of the measure whose terms are ``logs``, ``p`` or ``q``."""
        anchor, curve = self.anchor[:, j], self.curve
        falling = anchor <= low
        top = np.where(falling, low, high)
        top = np.where(np.isfinite(top), top, np.where(falling, high, low))
        away = top - anchor
        fall = np.abs(self.slope[:, j] - curve * away)
        inside = away * (self.slope[:, j] - curve * away / 2.0)
        widths = np.broadcast_to(high - low, away.shape)
        whole = _log_integral(fall, curve, widths, 1.0 if self.discrete else 0.0)
        with np.errstate(invalid="ignore"):
            return _sum(np.where(logs[:, j] > -np.inf, logs[:, j] + inside + whole, -np.inf))

    def split(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats, Indices]:
        """Each cell in two: halves, or of an infinite one a part that grows by a factor of 3."""
        here = (self.p > -np.inf) | (self.q > -np.inf)
        steep = np.where(here, np.abs(self.slope) + np.sqrt(self.curve), 0.0).max(axis=0)[j]
        reach = 1.0 / np.maximum(steep, 1e-300)
        with np.errstate(invalid="ignore"):
            up = low + np.maximum(reach, 2.0 * (low - self.low[j]))
            down = high - np.maximum(reach, 2.0 * (self.high[j] - high))
            middle = np.where(
                high == np.inf, up, np.where(low == -np.inf, down, low / 2 + high / 2)
            )
        if self.discrete:
            middle = np.floor(middle)
        after = middle + 1.0 if self.discrete else middle
        return np.append(low, after), np.append(middle, high), np.append(j, j)

    def supremum(self) -> Enclosure:
        """Of ln p/q, by branch and bound."""
        j = np.flatnonzero((self.p > -np.inf).any(axis=0))
        if not len(j):
            return Enclosure(-math.inf, -math.inf, 0.0, 0.0)
        unbounded = ~(self.q[:, j] > -np.inf).any(axis=0) | (self.limits[0][j] == np.inf)
        if unbounded.any():
            j = j[unbounded]
            j = j[np.argmax(self.log_mass(self.p, self.low[j], self.high[j], j))]
            return Enclosure(math.inf, math.inf, self.place(self.low[j]), self.place(self.high[j]))
        best, at, upper, low, high = -math.inf, 0.0, -math.inf, self.low[j], self.high[j]
        for _ in range(_ROUNDS):
            left, right, above = self.above(low, high, j)
            logs, ends = np.append(left, right), np.append(low, high)
            if logs.max() > best:
                best = float(logs.max())
                at = min(ends[logs == best].tolist(), key=abs)
            doubt = above > best + _GAP * max(1.0, abs(best))
            if doubt.sum() * len(self.p) > _MOST_ENTRIES:
                break
            upper = float(above[~doubt].max(initial=upper))
            if not doubt.any():
                above = above[:0]
                break
            low, high, j = self.split(low[doubt], high[doubt], j[doubt])
        upper = max(best, float(above.max(initial=upper)))
        return Enclosure(best, upper, self.place(at), self.place(at))

    def event(self, found: Enclosure) -> NumberEvent:
        """A stretch, or a part of one, whose ratio is all but ``found.lower``, with its masses."""

        def masses(low: Floats, high: Floats, j: Indices) -> Floats:
            return np.exp([self.log_mass(logs, low, high, j) for logs in (self.p, self.q)])

        def close(low: Floats, high: Floats, j: Indices, gap: float) -> NDArray[np.bool_]:
            least = -self.swapped.above(low, high, j)[2]
            return np.asarray(least >= found.lower - gap * max(1.0, abs(found.lower)))

        j = np.flatnonzero((self.p > -np.inf).any(axis=0))
        low, high = self.low[j], self.high[j]
        if math.isfinite(found.lower):
            best = close(low, high, j, _GAP)
        else:  # where the second is nowhere, or that of the largest ratio that is not too far out
            best = _clearest(masses(low, high, j))
        for _ in range(_ROUNDS):
            if best.any():
                break
            # The part of each stretch that is next to where the ratio is largest.
            left, right, _ = self.above(low, high, j)
            low, high, j = self.split(low, high, j)
            best = close(low, high, j, 1e-7)
            ends = self.above(low, high, j)
            near = np.maximum(ends[0], ends[1]) >= np.maximum(left, right).max() - _GAP
            low, high, j, best = low[near], high[near], j[near], best[near]
        both = masses(low, high, j)
        k = int(np.where(best, both[0], -1.0).argmax())
        return NumberEvent(float(low[k]), float(high[k]), *both[:, k].tolist())

    def excess(self, epsilon: float) -> tuple[float, Enclosure]:
        """The integral of max(0, p - e^epsilon q), and what its event adds."""
        j = np.flatnonzero((self.p > -np.inf).any(axis=0))
        low, high, lower, upper = self.low[j], self.high[j], 0.0, 0.0
        runs: list[Floats] = []
        for turn in range(_ROUNDS):
            if not len(j):
                break
            most = self.above(low, high, j)[2]
            least = -self.swapped.above(low, high, j)[2]
            log_p, log_q = (self.log_mass(logs, low, high, j) for logs in (self.p, self.q))
            alone = log_q == -np.inf
            with np.errstate(invalid="ignore", over="ignore"):
                mass = np.exp(log_p)
                known = np.where(alone, mass, -mass * np.expm1(epsilon + log_q - log_p))
                sure = alone | (most <= epsilon) | (least >= epsilon)
                known = np.where(alone | (most > epsilon), np.maximum(known, 0.0), 0.0)
                most_of = np.where(alone, mass, -mass * np.expm1(np.minimum(epsilon - most, 0.0)))
                missed = mass * np.expm1(np.maximum(epsilon - least, 0.0))
                gap = np.where(sure, 0.0, np.maximum(np.minimum(most_of - known, missed), 0.0))
                part = np.where(alone, 0.0, np.exp(np.minimum(epsilon + log_q - log_p, 0.0)))
                errors = 16.0 + np.abs(log_p) + np.where(part > 0.0, part * (16.0 - log_q), 0.0)
                error = np.where(known + gap > 0.0, _ULPS * mass * errors, 0.0)
            doubt = gap > 1e-14 * (lower + known.sum()) + 1e-40
            if doubt.sum() * len(self.p) > _MOST_ENTRIES or turn == _ROUNDS - 1:
                doubt[:] = False
            lower += float(np.maximum(known - error, 0.0)[~doubt].sum())
            upper += float((known + gap + error)[~doubt].sum())
            mass_q = np.where(alone, 0.0, np.exp(log_q))
            runs.append(np.stack([low, high, known, mass, mass_q])[:, ~doubt & (known > 0.0)])
            low, high, j = self.split(low[doubt], high[doubt], j[doubt])
        cells = np.concatenate(runs, axis=1) if runs else np.zeros((5, 0))
        if not cells.size:
            return 0.0, Enclosure(lower, upper, 0.0, 0.0)
        low, high, known, *masses = cells[:, np.argsort(cells[0])]
        apart = low[1:] > high[:-1] + (1.0 if self.discrete else 0.0)
        run = np.append(0, np.cumsum(apart))
        sums = np.bincount(run, known)
        heaviest = run == sums.argmax()
        ends = self.place(low[heaviest].min()), self.place(high[heaviest].max())
        both = (math.fsum(mass.tolist()) for mass in masses)
        return float(sums.max()), Enclosure(lower, upper, *ends, *both)


def _clearest(masses: Floats) -> NDArray[np.bool_]:
    """The events (n,) of the largest ratio of the masses (2, n), without those far out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = masses[0] >= min(_SEEN, masses[0].max())
        ratios = np.where(seen, masses[0] / masses[1], 0.0)
    return np.asarray(ratios == ratios.max())


def _sum(logs: Floats) -> Floats:
    """ln of the sum of exponentials over the first axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0))


def _within(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """``values`` with those that are not chosen replaced by the first chosen of the column."""
    return np.where(chosen, values, np.take_along_axis(values, chosen.argmax(axis=0)[None], 0))


def _snapped(values: Iterable[float], least: float = 0.0) -> dict[float, float]:
    """Each finite value, to the first of those that differ from their neighbour by rounding."""
    ordered = np.unique([value for value in values if math.isfinite(value)])
    fresh = np.diff(ordered) > SAME * np.maximum(np.abs(ordered[1:]), least)
    first = np.append(True, fresh)[: len(ordered)]
    return dict(zip(ordered.tolist(), ordered[first][np.cumsum(first) - 1].tolist(), strict=True))


def _spelt_out(mixture: Mixture) -> Mixture:
    """With the points of short lattices among the points."""
    points = {value: mass for value, mass in mixture.points.items() if mass > 0.0}
    pieces = []
    for piece in mixture.pieces:
        if not piece.step or piece.high - piece.low > _MOST_POINTS * piece.step:
            pieces.append(piece)
            continue
        term = _Term.of(piece)
        count = round((term.high - term.low) / term.step) + 1
        places = term.low + np.arange(count, dtype=np.float64) * term.step
        for value, log in zip(places.tolist(), term.at(places).tolist(), strict=True):
            points[value] = points.get(value, 0.0) + math.exp(log)
    return Mixture(tuple(pieces), points)


def _goes_on(sliver: Piece, pieces: Iterable[Piece]) -> bool:
    """Whether a piece that is no wider than rounding goes on where one as dense ends."""
    width, near = sliver.high - sliver.low, 2.0 * SAME * max(abs(sliver.low), abs(sliver.high))
    dense = False
    for other in pieces:
        if other is sliver or other.step:
            continue
        if other.low < sliver.high and sliver.low < other.high:
            return False
        gap = max(other.low - sliver.high, sliver.low - other.high)
        if gap <= near + width:
            end = np.array(other.low if other.low >= sliver.high else other.high)
            density = float(np.exp(Mixture((other,)).log_density(end)))
            dense |= sliver.weight <= (1.0 + 1e-6) * density * width
    return dense and sliver.weight <= SAME


def _aligned(p: Mixture, q: Mixture) -> Iterator[tuple[list[_Term], dict[float, float]]]:
    """The terms and the points of both, with numbers that differ by rounding made equal."""
    mixtures = _spelt_out(p), _spelt_out(q)
    pieces = [piece for mixture in mixtures for piece in mixture.pieces]
    places = [value for mixture in mixtures for value in mixture.points]
    for piece in pieces:
        places += [piece.low, piece.high]
        places += [min(max(piece.mean, piece.low), piece.high)] * (piece.sd > 0.0)
    finite = [place for place in places if math.isfinite(place)]
    places += [piece.mean for piece in pieces if piece.sd]
    spread = max(finite, default=0.0) - min(finite, default=0.0)
    place = _snapped(places, 0.01 * spread)
    size = _snapped(size for piece in pieces for size in (piece.rate, piece.sd, piece.step))
    for mixture in mixtures:
        terms = []
        for piece in mixture.pieces:
            low, high = (place.get(end, end) for end in (piece.low, piece.high))
            if low == high and not piece.step:
                if _goes_on(piece, mixture.pieces):
                    continue
                raise InputError(
                    f"Expected pieces wider than {SAME} of the spread of all, got {piece}. "
                    "Give it as a point."
                )
            rate, sd, step = (size[value] for value in (piece.rate, piece.sd, piece.step))
            mean = place.get(piece.mean, piece.mean)
            terms.append(_Term.of(Piece(piece.weight, low, high, rate, mean, sd, step)))
        points: dict[float, float] = {}
        for value, mass in mixture.points.items():
            points[place[value]] = points.get(place[value], 0.0) + mass
        yield terms, points


def _common_step(step: float, steps: Iterable[float]) -> tuple[float, int]:
    """The least common multiple of the step and those commensurable with it, and in steps."""
    multiple = Fraction(1)
    for other in steps:
        ratio = Fraction(other / step).limit_denominator(10**4)
        if ratio and abs(float(ratio) * step - other) <= SAME * other:
            multiple = Fraction(
                math.lcm(multiple.numerator, ratio.numerator),
                math.gcd(multiple.denominator, ratio.denominator),
            )
    if multiple > _MOST_RESIDUES:
        raise InputError(
            f"Expected steps of lattices with a common multiple of at most {_MOST_RESIDUES} steps, "
            f"got {sorted(steps)}. Trace them apart."
        )
    return step * float(multiple), int(multiple)


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Terms of both measures on origin + step * n, in the coordinate n."""

    origin: float
    step: float
    sides: tuple[list[_Term], list[_Term]] = field(default_factory=lambda: ([], []))

    def index(self, y: float) -> int | None:
        """n, if y is on it."""
        n = (y - self.origin) / self.step
        off = abs(n - round(n)) * self.step
        return round(n) if off <= 1e-9 * self.step + SAME * max(abs(y), abs(self.origin)) else None

    def place(self, n: float) -> float:
        """Where the index is."""
        return self.origin + self.step * float(n)


def _pairs(p: Mixture, q: Mixture, apart: Iterable[float] = ()) -> Iterator[_Pair]:
    """The two measures, on each kind of support alone: densities, lattices, points."""
    aligned = list(_aligned(p, q))
    (one, _), (other, _) = aligned
    smooth = [[term for term in terms if not term.step] for terms in (one, other)]
    if any(smooth):
        yield _Pair.of((smooth[0], smooth[1]), apart=apart)
    lattices: list[_Lattice] = []
    steps = sorted({term.step for term in [*one, *other] if term.step})
    for side, (terms, _) in enumerate(aligned):
        for term in terms:
            if term.step:
                _place(term, side, lattices, *_common_step(term.step, steps))
    rest: dict[float, list[float]] = {}
    for side, (_, points) in enumerate(aligned):
        for value, mass in points.items():
            for lattice in lattices:
                n = lattice.index(value)
                if n is not None:
                    lattice.sides[side].append(_Term(n, n, n, math.log(mass)))
                    break
            else:
                rest.setdefault(value, [0.0, 0.0])[side] += mass
    for lattice in lattices:
        yield _Pair.of(lattice.sides, True, lattice.place)
    if rest:
        values = sorted(rest)
        # Every other integer: two points are never one event.
        sides = tuple(
            [
                _Term(2.0 * k, 2.0 * k, 2.0 * k, math.log(rest[value][side]))
                for k, value in enumerate(values)
                if rest[value][side]
            ]
            for side in (0, 1)
        )
        yield _Pair.of((sides[0], sides[1]), True, lambda n: values[int(n) // 2])


def _place(term: _Term, side: int, lattices: list[_Lattice], step: float, residues: int) -> None:
    """Put the term on lattices of ``step``, one for each of its residues; make those it lacks."""
    forward = math.isfinite(term.low)
    sign = 1.0 if forward else -1.0
    count = (term.high - term.low) / term.step
    if term.step < 1e4 * SAME * abs(term.anchor):
        raise InputError(
            f"Expected a lattice with a step of at least {1e4 * SAME} of its offset, got step "
            f"{term.step} at {term.anchor}. Release the index instead."
        )
    for k in range(residues):
        start = (term.low if forward else term.high) + sign * k * term.step
        for lattice in lattices:
            n = lattice.index(start) if abs(lattice.step - step) <= SAME * step else None
            if n is not None:
                break
        else:
            lattice, n = _Lattice(start, step), 0
            lattices.append(lattice)
        length = (round(count) - k) // residues if math.isfinite(count) else math.inf
        low, high = sorted((n, n + sign * length))
        anchor = n + (term.anchor - start) / step
        lattice.sides[side].append(_Term(low, high, anchor, term.value, term.slope * step))
