"""Certified comparison of two distributions of a number: pieces of densities, lattices, points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.hockey_stick import log_ratio as log_ratio_of_masses

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SAME = 1e-12
"""Places nearer than this, relative to their size and the spread of all, differ by rounding."""
_GAP = 1e-10
# The log-mass, at least, of an event that shows how a ratio grows without bound.
_SEEN = math.log(1e-3)
_ROUNDS, _HALVINGS = 200, 48
_MOST_ENTRIES = 1 << 19
_MOST_POINTS = 1 << 12
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
        numbers = np.array([self.weight, self.rate, self.mean, self.sd, self.step])
        wide = self.low < self.high or (self.low == self.high and self.step > 0.0)
        scaled = self.step >= 0.0 and (self.sd == 0.0 or (normal and 1e-150 < self.sd < 1e150))
        if not (np.isfinite(numbers).all() and self.weight > 0.0 and wide and scaled and vanishes):
            raise InputError(
                "Expected a positive weight, low < high, and ends that are infinite only where "
                f"the density vanishes, got {self}. Cut the piece or correct its rate."
            )

    def masses(self, ends: Floats) -> Floats:
        """The masses (n - 1,) between rising ends (n,) that lie within; not of a lattice."""
        term = _Term.of(self)
        nearest = np.clip(term.anchor, ends[:-1], ends[1:])
        slope = np.abs(term.slope - term.curve * (nearest - term.anchor))
        sides = np.stack([nearest - ends[:-1], ends[1:] - nearest])
        logs = _log_integral(np.stack([slope, slope]), term.curve, sides, 0.0)
        return np.asarray(np.exp(term.at(nearest) + np.logaddexp(*logs)))


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

    def times(self, factor: float) -> Mixture:
        """All masses multiplied by a factor; nothing where doubles do not hold them."""
        pieces = (replace(p, weight=p.weight * factor) for p in self.pieces if p.weight * factor)
        return Mixture(tuple(pieces), {y: mass * factor for y, mass in self.points.items()})

    def plus(self, other: Mixture) -> Mixture:
        """The sum of both, pieces of one shape as one."""
        weights: dict[Piece, float] = {}
        for piece in (*self.pieces, *other.pieces):
            shape = replace(piece, weight=1.0)
            weights[shape] = weights.get(shape, 0.0) + piece.weight
        pieces = tuple(replace(shape, weight=weight) for shape, weight in weights.items())
        values = dict.fromkeys((*self.points, *other.points))
        points = {y: self.points.get(y, 0.0) + other.points.get(y, 0.0) for y in values}
        return Mixture(pieces, points)

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
    """A value between ``lower`` and ``upper``; of a ratio, the place where it is ``lower``."""

    lower: float
    upper: float
    place: float = 0.0


class NumberEvent(NamedTuple):
    """The numbers between ``low`` and ``high``, or the one that both are, with their log-masses.

    ``supremum`` is the largest log-ratio of any event.
    """

    low: float
    high: float
    log_p: float
    log_q: float
    supremum: float


class Excess(NamedTuple):
    """A divergence between ``lower`` and ``upper``, and the masses of what it counts."""

    lower: float
    upper: float
    p: float
    q: float


def log_ratio(p: Mixture, q: Mixture) -> Enclosure:
    """The supremum over events of ln P(event) / Q(event); infinite where Q has no mass.

    Exact, up to rounding, where each stretch between two ends has a ratio that is monotone or
    convex; else by branch and bound to a gap of 1e-10 relative, or what 2^19 numbers tell. -inf
    if ``p`` is empty.
    """
    parts = [stretches.supremum() for stretches in _supports(p, q)]
    best = max(parts, key=lambda part: part.lower, default=Enclosure(-math.inf, -math.inf))
    return replace(best, upper=max([best.upper, *(part.upper for part in parts)]))


def event_of_ratio(p: Mixture, q: Mixture, apart: Iterable[float] = ()) -> NumberEvent:
    """An event that shows ``log_ratio``: a point, or a stretch that holds none of those ``apart``.

    Its ratio is the largest one to 1e-7 relative; or, where none is the largest, a smaller one.
    """
    suprema = [(stretches, stretches.supremum()) for stretches in _supports(p, q, apart)]
    stretches, supremum = max(suprema, key=lambda each: each[1].lower)
    if not stretches.discrete:
        return stretches.event(supremum)
    known = math.isfinite(supremum.lower) and math.isfinite(supremum.place)
    places = np.array([supremum.place] if known else p.listed())
    logs = np.stack([mixture.log_mass(places) for mixture in (p, q)])
    k = int(np.where(_clearest(logs), logs[0], -np.inf).argmax())
    place, (log_p, log_q) = float(places[k]), logs[:, k].tolist()
    return NumberEvent(place, place, log_p, log_q, supremum.lower)


def divergence(p: Mixture, q: Mixture, epsilon: float) -> Excess:
    """The hockey-stick divergence: the largest P(event) - e^epsilon Q(event), ``epsilon`` >= 0.

    What is counted has its rounding inside the enclosure; a ratio of e^epsilon to all digits counts
    nothing.
    """
    if not epsilon >= 0.0:
        raise InputError(f"Expected epsilon >= 0, got {epsilon}. Exchange the two inputs.")
    parts = [stretches.excess(epsilon) for stretches in _supports(p, q)]
    return Excess(*map(math.fsum, zip(*parts, strict=True))) if parts else Excess(0, 0, 0, 0)


@dataclass(frozen=True)
class _Stretches:
    """Both measures on the stretches of a line, in each of which they are sums of the same shapes.

    A shape is the exponential of a line or parabola. ``low`` and ``high`` (stretches,) are ends;
    ``logs`` (2, shapes, stretches) are the logarithms of the terms of P and of Q at ``anchor``
    (shapes, stretches), -inf where there is no term; ``slope`` is theirs at the anchor, and
    ``curve`` (shapes, 1) what it falls by. With ``discrete`` the line is the integers, and a
    stretch holds both its ends. ``place`` tells where on the line of answers.
    """

    low: Floats
    high: Floats
    logs: Floats
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
    ) -> _Stretches:
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
        return cls(low, high, logs, anchor, slope, curve, discrete, place)

    @cached_property
    def possible(self) -> Indices:
        """The stretches where P has any mass."""
        return np.flatnonzero((self.logs[0] > -np.inf).any(axis=0))

    @cached_property
    def limits(self) -> tuple[Floats, Indices]:
        """For each stretch: ln p/q at its infinite end, and the shape that leads q there."""
        limit, leader = np.zeros(len(self.low)), np.zeros(len(self.low), dtype=np.intp)
        for j in np.flatnonzero(~np.isfinite(self.high - self.low)):
            outward = self.slope[:, j] * (1.0 if self.high[j] == np.inf else -1.0)
            rank = np.argsort(np.lexsort((-outward, self.curve[:, 0])))
            ranks = np.where(self.logs[:, :, j] > -np.inf, rank, len(rank))
            if ranks.min(axis=1).max() < len(rank):  # both are there
                (lead_p, leader[j]), (rank_p, rank_q) = ranks.argmin(axis=1), ranks.min(axis=1)
                ahead = float(rank_q - rank_p)
                limit[j] = self.logs[0, lead_p, j] - self.logs[1, leader[j], j]
                limit[j] = math.copysign(math.inf, ahead) if ahead else limit[j]
        return limit, leader

    @cached_property
    def factors(self) -> Floats:
        """The least and the largest ratio of terms of one shape, in logs: (2, stretches).

        The ratio of their sums lies between.
        """
        (p, q), (has_p, has_q) = self.logs, self.logs > -np.inf
        with np.errstate(invalid="ignore"):
            ratios = p - q
        least, largest = np.where(has_q, ratios, np.inf), np.where(has_p, ratios, -np.inf)
        return np.stack([least.min(axis=0), largest.max(axis=0)])

    @cached_property
    def at_ends(self) -> NDArray[np.bool_]:
        """Whether cells have their least, and their largest, ln p/q at an end: (2, stretches).

        With two shapes at most, of one curve, it is monotone (Moebius). Over one term of q that is
        curved as much as all of p it is convex; of one term of p, over less curved ones, concave.
        """
        has_p, has_q = self.logs > -np.inf
        here = has_p | has_q
        top, of_p, of_q = (
            np.where(has, self.curve, -np.inf).max(0) for has in (here, has_p, has_q)
        )
        alike = (top == np.where(here, self.curve, np.inf).min(0)) & (here.sum(axis=0) <= 2)
        concave = (has_p.sum(axis=0) == 1) & (of_q <= of_p)
        convex = (has_q.sum(axis=0) == 1) & (of_p <= of_q)
        return np.stack([alike | concave, alike | convex])

    def bounds(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats]:
        """ln p/q at both ends of cells [low, high] of stretches j, and bounds: (2, cells) each.

        Relative to the leading term of q every term is the exponential of a parabola: the bounds
        are the sum of the least (largest) values of p over the sum of the largest (least) ones of
        q; or ``factors``, where these are closer.
        """
        (p, q), slope, curve = self.logs[:, :, j], self.slope[:, j], self.curve
        finite = np.isfinite(high - low)
        near = [np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)]
        away = [end - self.anchor[:, j] for end in near]
        heights = [t * (slope - curve * t / 2.0) for t in away]
        limit, leader = self.limits
        left, right = (
            np.where(np.isfinite(end), _sum(p + height) - _sum(q + height), limit[j])
            for end, height in zip((low, high), heights, strict=True)
        )
        middle = q + (heights[0] + heights[1]) / 2.0
        lead = np.where(finite, middle.argmax(axis=0), leader[j])[None]

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
        ends = np.stack([left, right])
        smaller, larger = ends.min(axis=0), ends.max(axis=0)
        below = np.minimum(smaller, np.maximum(below, self.factors[0, j]))
        above = np.maximum(larger, np.minimum(above, self.factors[1, j]))
        exact = self.at_ends[:, j] | (self.discrete & (high - low <= 1.0))
        return ends, np.where(exact, [smaller, larger], [below, above])

    def log_masses(self, low: Floats, high: Floats, j: Indices) -> Floats:
        """ln of the masses of P and of Q on cells, (2, cells)."""
        anchor, slope = self.anchor[:, j], self.slope[:, j]
        falling = anchor <= low
        top = np.where(falling, low, high)
        top = np.where(np.isfinite(top), top, np.where(falling, high, low))
        away = top - anchor
        fall = np.abs(slope - self.curve * away)
        widths = np.broadcast_to(high - low, away.shape)
        whole = _log_integral(fall, self.curve, widths, 1.0 if self.discrete else 0.0)
        with np.errstate(invalid="ignore"):
            inside = away * (slope - self.curve * away / 2.0) + whole
            logs = self.logs[:, :, j]
            return np.stack(
                [_sum(np.where(side > -np.inf, side + inside, -np.inf)) for side in logs]
            )

    def split(self, low: Floats, high: Floats, j: Indices) -> tuple[Floats, Floats, Indices]:
        """Each cell in two: halves, or of an infinite one a part that grows by a factor of 3."""
        reach = self.reach[j]
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

    @cached_property
    def reach(self) -> Floats:
        """For each stretch the length in which its steepest shape falls by about e."""
        here = (self.logs > -np.inf).any(axis=0)
        steep = np.where(here, np.abs(self.slope) + np.sqrt(self.curve), 0.0).max(axis=0)
        return np.asarray(1.0 / np.maximum(steep, 1e-200))

    def supremum(self) -> Enclosure:
        """The supremum of ln p/q, by branch and bound."""
        j = self.possible
        if not len(j):
            return Enclosure(-math.inf, -math.inf)
        nowhere = ~(self.logs[1][:, j] > -np.inf).any(axis=0)
        if (nowhere | (self.limits[0][j] == np.inf)).any():
            return Enclosure(math.inf, math.inf, math.inf)
        best, at, upper, low, high = -math.inf, 0.0, -math.inf, self.low[j], self.high[j]
        for _ in range(_ROUNDS):
            logs, (_, above) = self.bounds(low, high, j)
            if logs.max() > best:
                best = float(logs.max())
                at = min(np.stack([low, high])[logs == best].tolist(), key=abs)
            doubt = above > best + _GAP * max(1.0, abs(best))
            if doubt.sum() * len(self.curve) > _MOST_ENTRIES:
                break
            upper = float(above[~doubt].max(initial=upper))
            if not doubt.any():
                above = above[:0]
                break
            low, high, j = self.split(low[doubt], high[doubt], j[doubt])
        return Enclosure(best, max(best, float(above.max(initial=upper))), self.place(at))

    def event(self, supremum: Enclosure) -> NumberEvent:
        """A part of a stretch whose ratio is all but the supremum, with its masses."""
        at, low, high = supremum.place, self.low[self.possible], self.high[self.possible]
        reach, shares = self.reach[self.possible], 0.5 ** np.arange(_HALVINGS)[:, None]
        if math.isfinite(at):  # parts around it, smaller and smaller
            size = np.where(np.isfinite(high - low), high - low, 64.0 * reach) * shares
            lows, highs = np.maximum(low, at - size), np.minimum(high, at + size)
        else:  # tails, farther and farther out
            far = reach * (1.0 / shares - 1.0)
            lows, highs = (
                np.where(high < np.inf, low, low + far),
                np.where(low > -np.inf, high, high - far),
            )
        low, high = np.concatenate([[low], lows]).ravel(), np.concatenate([[high], highs]).ravel()
        j = np.tile(self.possible, _HALVINGS + 1)
        low, high, j = low[low < high], high[low < high], j[low < high]
        logs = self.log_masses(low, high, j)
        best = _clearest(logs)
        if math.isfinite(supremum.lower):
            missing = supremum.lower - log_ratio_of_masses(*logs)
            best = missing <= max(1e-7 * max(1.0, abs(supremum.lower)), missing.min())
        k = int(np.where(best, logs[0], -np.inf).argmax())
        log_p, log_q = logs[:, k].tolist()
        return NumberEvent(float(low[k]), float(high[k]), log_p, log_q, supremum.lower)

    def excess(self, epsilon: float) -> Excess:
        """The integral of max(0, p - e^epsilon q), by cells that are on one side of e^epsilon."""
        j = self.possible
        low, high = self.low[j], self.high[j]
        sums = np.zeros(4)
        for turn in range(_ROUNDS):
            if not len(j):
                break
            least, most = self.bounds(low, high, j)[1]
            log_p, log_q = self.log_masses(low, high, j)
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
            if doubt.sum() * len(self.curve) > _MOST_ENTRIES or turn == _ROUNDS - 1:
                doubt[:] = False
            counted = (known > 0.0) * np.stack([mass, mass_q])
            parts = np.stack([np.maximum(known - error, 0.0), known + gap + error, *counted])
            sums += parts[:, ~doubt].sum(axis=1)
            low, high, j = self.split(low[doubt], high[doubt], j[doubt])
        return Excess(*sums.tolist())


def _clearest(logs: Floats) -> NDArray[np.bool_]:
    """The events (n,) of the largest ratio of log-masses (2, n), without those far out."""
    seen = logs[0] >= min(_SEEN, logs[0].max())
    ratios = np.where(seen, log_ratio_of_masses(*logs), -np.inf)
    return np.asarray(ratios == ratios.max())


def _sum(logs: Floats) -> Floats:
    """ln of the sum of exponentials over the first axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0))


def _snapped(values: Iterable[float], least: float = 0.0) -> dict[float, float]:
    """Each finite value, to the first of those that differ from their neighbour by rounding."""
    ordered = np.unique([value for value in values if math.isfinite(value)])
    fresh = np.diff(ordered) > SAME * np.maximum(np.abs(ordered[1:]), least)
    first = np.append(True, fresh)[: len(ordered)]
    return dict(zip(ordered.tolist(), ordered[first][np.cumsum(first) - 1].tolist(), strict=True))


def _goes_on(sliver: Piece, pieces: Iterable[Piece]) -> bool:
    """Whether a piece that is no wider than rounding goes on where one as dense ends."""
    others = tuple(piece for piece in pieces if piece is not sliver and not piece.step)
    if any(other.low < sliver.high and sliver.low < other.high for other in others):
        return False
    width, near = sliver.high - sliver.low, 2.0 * SAME * max(abs(sliver.low), abs(sliver.high))
    beside = np.linspace(sliver.low - near - width, sliver.high + near + width, 64)
    density = np.exp(Mixture(others).log_density(beside).max())
    return sliver.weight <= min(SAME, (1.0 + 1e-6) * density * width)


def _aligned(p: Mixture, q: Mixture) -> Iterator[tuple[list[_Term], dict[float, float]]]:
    """The terms and the points of both, with numbers that differ by rounding made equal."""
    mixtures = p, q
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
            if low < high or piece.step:
                rate, sd, step = (size[value] for value in (piece.rate, piece.sd, piece.step))
                mean = place.get(piece.mean, piece.mean)
                terms.append(_Term.of(Piece(piece.weight, low, high, rate, mean, sd, step)))
            elif not _goes_on(piece, mixture.pieces):
                raise InputError(
                    f"Expected pieces wider than {SAME} of the spread of all, got {piece}. "
                    "Give it as a point."
                )
        points: dict[float, float] = {}
        for value, mass in mixture.points.items():
            if mass > 0.0:
                points[place[value]] = points.get(place[value], 0.0) + mass
        yield terms, points


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Terms of both measures on origin + step * n, in the coordinate n."""

    origin: float
    step: float
    sides: tuple[list[_Term], list[_Term]] = field(default_factory=lambda: ([], []))

    def index(self, y: float) -> float:
        """The number n of y; nan if it is not on the lattice."""
        n = (y - self.origin) / self.step
        if math.isinf(n):
            return n
        off, slack = abs(n - round(n)) * self.step, SAME * max(abs(y), abs(self.origin))
        return float(round(n)) if off <= 1e-9 * self.step + slack else math.nan

    def place(self, n: float) -> float:
        """The place of number n."""
        return self.origin + self.step * float(n)


def _lattices(sides: Sequence[list[_Term]]) -> list[_Lattice]:
    """The terms that are lattices, on as few as there are."""
    steps = {term.step for term in [*sides[0], *sides[1]]}
    if len(steps) > 1:
        raise InputError(
            f"Expected lattices of one step, got {sorted(steps)}. Scale noise in the same way for "
            "every input."
        )
    lattices: list[_Lattice] = []
    for side, term in ((k, term) for k in (0, 1) for term in sides[k]):
        if term.step < 1e4 * SAME * abs(term.anchor):
            raise InputError(
                f"Expected a lattice with a step of at least {1e4 * SAME} of its offset, got step "
                f"{term.step} at {term.anchor}. Release the index instead."
            )
        lattice = next((each for each in lattices if not math.isnan(each.index(term.anchor))), None)
        if lattice is None:
            lattice = _Lattice(term.anchor, term.step)
            lattices.append(lattice)
        low, high, anchor = map(lattice.index, (term.low, term.high, term.anchor))
        lattice.sides[side].append(_Term(low, high, anchor, term.value, term.slope * term.step))
    return lattices


def _supports(p: Mixture, q: Mixture, apart: Iterable[float] = ()) -> Iterator[_Stretches]:
    """The two measures, on each kind of support alone: densities, lattices, points."""
    (one, of_p), (other, of_q) = _aligned(p, q)
    smooth = [[term for term in terms if not term.step] for terms in (one, other)]
    if any(smooth):
        yield _Stretches.of((smooth[0], smooth[1]), apart=apart)
    lattices = _lattices([[term for term in terms if term.step] for terms in (one, other)])
    values = sorted({*of_p, *of_q})
    # Every other integer, where two of them are never one event.
    rest = _Lattice(0.0, 1.0)
    for side, points in enumerate((of_p, of_q)):
        for k, value in enumerate(values):
            if value in points:
                on = (each for each in lattices if not math.isnan(each.index(value)))
                lattice = next(on, rest)
                n = 2.0 * k if lattice is rest else lattice.index(value)
                lattice.sides[side].append(_Term(n, n, n, math.log(points[value])))
    for lattice in lattices:
        yield _Stretches.of(lattice.sides, True, lattice.place)
    if any(rest.sides):
        yield _Stretches.of(rest.sides, True, lambda n: values[int(n) // 2])
