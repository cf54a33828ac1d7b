"""Mixture distributions on the real line, made of density pieces, lattices (equally spaced points)
and single points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from fedrec_auditor.accountants.errors import InputError

# Array of doubles, of any shape.
Floats = NDArray[np.float64]

# Numbers count as equal if their difference, relative to their size and to the spread of all
# numbers, is smaller.
EQUALITY_TOLERANCE = 1e-12
_MOST_POINTS = 1 << 12
# Largest distance of listed points of a lattice, in lengths over which its masses fall by a factor
# of e.
_FAR_OUT = 40.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True, slots=True)
class MixturePart:
    """Part of a mixture: ``weight`` times a probability distribution on [``low``, ``high``].

    - By default: a density proportional to exp(rate * y), uniform if ``rate`` is 0.
    - With ``sd`` > 0: a normal density of mean ``mean`` and standard deviation ``sd``, restricted
      to [low, high].
    - With ``step`` > 0: masses proportional to exp(rate * y) on the points low, low + step, ... up
      to high. If low is -inf, the points are high, high - step, ...

    An end may be infinite only if the density tends to 0 there.
    """

    weight: float
    low: float
    high: float
    rate: float = 0.0
    mean: float = 0.0
    sd: float = 0.0
    step: float = 0.0

    def __post_init__(self) -> None:
        """Raises InputError if the fields do not define a distribution."""
        normal = self.sd > 0.0 and not self.rate and not self.step
        vanishes = (self.low > -math.inf or self.rate > 0.0 or normal) and (
            self.high < math.inf or self.rate < 0.0 or normal
        )
        numbers = np.array([self.weight, self.rate, self.mean, self.sd, self.step])
        wide = self.low < self.high or (self.low == self.high and self.step > 0.0)
        scaled = self.step >= 0.0 and (self.sd == 0.0 or (normal and 1e-150 < self.sd < 1e150))
        if not (np.isfinite(numbers).all() and self.weight > 0.0 and wide and scaled and vanishes):
            raise InputError(
                "Expected finite fields with weight > 0, low < high and step >= 0, sd = 0 or sd in "
                "(1e-150, 1e150) with rate = step = 0, and infinite low or high only where the "
                f"density decays, got {self}. Correct each field that violates this."
            )


@dataclass(frozen=True, slots=True)
class ExpTerm:
    """Normal or exponential term of a density, or of the masses of a lattice (equally spaced
    points).

    At y in [low, high], the term is exp(max_log_term + slope (y - argmax) - curvature (y -
    argmax)^2 / 2). Elsewhere, it is 0.

    - ``low``, ``high``: ends of the interval.
    - ``argmax``: point of the interval at which the term is largest.
    - ``max_log_term``: logarithm of the term at ``argmax``.
    - ``normal_mean_or_exp_rate``: for a normal term, the mean, with slope = curvature (mean -
      argmax). For an exponential term, the rate, which is the slope.
    - ``curvature``: 1 / variance of a normal term; 0 for an exponential term.
    - ``step``: distance of the lattice points, which begin at a finite end; 0 for a density.
    """

    low: float
    high: float
    argmax: float
    max_log_term: float
    normal_mean_or_exp_rate: float = 0.0
    curvature: float = 0.0
    step: float = 0.0

    @classmethod
    def from_part(cls, part: MixturePart) -> ExpTerm:
        """Converts one part of a mixture to a term whose total mass is the part's weight."""
        low, high = part.low, part.high
        if part.step and math.isfinite(high - low):
            high = low + math.floor((high - low) / part.step + 1e-9) * part.step
        if part.sd:
            anchor, centre, curve = min(max(part.mean, low), high), part.mean, part.sd**-2
        else:
            anchor, centre, curve = high if part.rate > 0.0 else low, part.rate, 0.0
        term = cls(low, high, anchor, 0.0, centre, curve, part.step)
        whole = float(term.compute_log_masses(np.array(low), np.array(high)))
        return replace(term, max_log_term=math.log(part.weight) - whole)

    def compute_log_masses(self, low: Floats, high: Floats) -> Floats:
        """Computes ln of the mass of this term on each interval [low, high], which lies within the
        interval of the term.

        For a lattice, ``low`` and ``high`` are lattice points, and both count.
        """
        nearest = np.clip(self.argmax, low, high)
        slope = np.abs(self.slope - self.curvature * (nearest - self.argmax))
        sides = np.stack([nearest - low, high - nearest])
        logs = compute_log_integral(np.stack([slope, slope]), self.curvature, sides, self.step)
        # Without curvature, argmax is an end of the term's interval, so each interval [low, high]
        # lies on one side of it.
        whole = np.logaddexp(*logs) if self.curvature else logs.max(axis=0)
        return np.asarray(self.compute_log_term(nearest) + whole)

    @property
    def slope(self) -> float:
        """Slope of the logarithm of the term at ``argmax``, the point at which the term is
        largest.
        """
        value = self.normal_mean_or_exp_rate
        return (value - self.argmax) * self.curvature if self.curvature else value

    def compute_log_term(self, y: Floats) -> Floats:
        """Computes the logarithm of the density or mass at each number of ``y``.

        The formula of the term is also applied to numbers outside the interval of the term.
        """
        away = y - self.argmax
        return self.max_log_term + self.slope * away - self.curvature / 2.0 * away * away

    def snap_to_lattice(self, y: Floats) -> tuple[Floats, Floats]:
        """Returns the lattice points nearest to ``y``, and the distances of ``y`` from them, in
        units of the lattice step.
        """
        origin = self.low if math.isfinite(self.low) else self.high
        index = (y - origin) / self.step
        return origin + np.rint(index) * self.step, np.abs(index - np.rint(index))

    @property
    def shape_parameters(self) -> tuple[float, float]:
        """Pair of the fields ``normal_mean_or_exp_rate`` and ``curvature``. Terms with equal pairs
        differ only by a constant factor.
        """
        return self.normal_mean_or_exp_rate, self.curvature


def compute_log_integral(fall: Floats, curve: Floats | float, width: Floats, step: float) -> Floats:
    """Computes ln of the integral of exp(-fall t - curve t^2 / 2) over t from 0 to ``width``.

    - ``fall``: initial decay rate of the integrand, at least 0.
    - ``curve``: increase of the decay rate per unit of t.
    - ``step``: 0 for the integral. If positive, the sum over t = 0, step, ..., width replaces the
      integral.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = width + step
        flat = np.log(width / step if step else width)
        unit = np.log(-np.expm1(-fall * step)) if step else np.log(fall)
        straight = np.where(fall > 0.0, np.log(-np.expm1(-fall * width)) - unit, flat)
        if not np.any(curve):
            return np.asarray(straight)
        # Mills ratios at both ends, in units of the standard deviation; quadrature where the ratios
        # cancel.
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
    """Distribution on the real line or, more generally, a measure of any total mass.

    - ``pieces``: density pieces and lattices (equally spaced points).
    - ``atoms``: probability of each single point.
    """

    pieces: tuple[MixturePart, ...] = ()
    atoms: Mapping[float, float] = field(default_factory=dict)

    def scale(self, factor: float) -> Mixture:
        """Returns the mixture with all masses multiplied by ``factor``. Masses that underflow are
        dropped.
        """
        pieces = (replace(p, weight=p.weight * factor) for p in self.pieces if p.weight * factor)
        return Mixture(tuple(pieces), {y: mass * factor for y, mass in self.atoms.items()})

    def add(self, other: Mixture) -> Mixture:
        """Returns the sum of this mixture and the ``other`` one, as measures. Pieces that differ
        only in ``weight`` are merged.
        """
        weights: dict[MixturePart, float] = {}
        for piece in (*self.pieces, *other.pieces):
            shape = replace(piece, weight=1.0)
            weights[shape] = weights.get(shape, 0.0) + piece.weight
        pieces = tuple(replace(shape, weight=weight) for shape, weight in weights.items())
        values = dict.fromkeys((*self.atoms, *other.atoms))
        points = {y: self.atoms.get(y, 0.0) + other.atoms.get(y, 0.0) for y in values}
        return Mixture(pieces, points)

    def list_atoms(self) -> list[float]:
        """Lists numbers with a positive probability: all single points, and up to 4,097 points of
        each lattice.

        Lattice points far out, with negligible probabilities, are omitted.
        """
        places = [*self.atoms]
        for piece in self.pieces:
            if piece.step:
                reach = _FAR_OUT / abs(piece.rate) if piece.rate else math.inf
                count = int(min(_MOST_POINTS, (min(piece.high - piece.low, reach)) / piece.step))
                up = math.isfinite(piece.low) and (piece.rate <= 0 or piece.high == math.inf)
                origin, step = (piece.low, piece.step) if up else (piece.high, -piece.step)
                places += [origin + k * step for k in range(count + 1)]
        return places

    def compute_log_mass(self, y: Floats) -> Floats:
        """Computes ln of the probability of every number ``y``; -inf if ``y`` is neither an atom
        nor a lattice point.
        """
        y = np.asarray(y, dtype=np.float64)
        mass = np.full(y.shape, -np.inf)
        if self.atoms:
            values = np.array(sorted(self.atoms))
            nearest = np.searchsorted((values[1:] + values[:-1]) / 2.0, y)
            with np.errstate(divide="ignore"):
                masses = np.log([self.atoms[value] for value in values.tolist()])
            near = np.abs(y - values[nearest]) <= EQUALITY_TOLERANCE * np.abs(values).max()
            mass = np.where(near, masses[nearest], mass)
        for term in map(ExpTerm.from_part, self.pieces):
            if term.step:
                place, off = term.snap_to_lattice(y)
                slack = term.step / 2.0
                on = (off <= 1e-9) & (term.low - slack < y) & (y < term.high + slack)
                mass = np.where(on, np.logaddexp(mass, term.compute_log_term(place)), mass)
        return mass

    def compute_log_density(self, y: Floats) -> Floats:
        """Computes ln of the density at every number ``y``. At a jump of the density, the value is
        the larger of the two limits.
        """
        y = np.asarray(y, dtype=np.float64)
        left, right = (np.full(y.shape, -np.inf) for _ in range(2))
        for term in map(ExpTerm.from_part, self.pieces):
            if not term.step:
                ln = np.where((term.low <= y) & (y <= term.high), term.compute_log_term(y), -np.inf)
                left = np.logaddexp(left, np.where(y > term.low, ln, -np.inf))
                right = np.logaddexp(right, np.where(y < term.high, ln, -np.inf))
        return np.asarray(np.maximum(left, right))


def _snap_values(values: Iterable[float], least: float = 0.0) -> dict[float, float]:
    """Maps each finite value to the smallest value of its run of values, in which neighbours differ
    only by rounding.
    """
    ordered = np.unique([value for value in values if math.isfinite(value)])
    fresh = np.diff(ordered) > EQUALITY_TOLERANCE * np.maximum(np.abs(ordered[1:]), least)
    first = np.append(True, fresh)[: len(ordered)]
    return dict(zip(ordered.tolist(), ordered[first][np.cumsum(first) - 1].tolist(), strict=True))


def _continues_a_piece(sliver: MixturePart, pieces: Iterable[MixturePart]) -> bool:
    """Whether a very narrow density piece (``sliver``) continues a neighbouring piece with at least
    its density.

    Such a piece comes from rounding and may be dropped.
    """
    others = tuple(piece for piece in pieces if piece is not sliver and not piece.step)
    if any(other.low < sliver.high and sliver.low < other.high for other in others):
        return False
    width, size = sliver.high - sliver.low, max(abs(sliver.low), abs(sliver.high))
    near = 2.0 * EQUALITY_TOLERANCE * size
    beside = np.linspace(sliver.low - near - width, sliver.high + near + width, 64)
    density = math.exp(Mixture(others).compute_log_density(beside).max())
    return sliver.weight <= min(EQUALITY_TOLERANCE, (1.0 + 1e-6) * density * width)


def align_mixtures(p: Mixture, q: Mixture) -> Iterator[tuple[list[ExpTerm], dict[float, float]]]:
    """Yields the terms of the mixture ``p``, then those of ``q``, after removal of rounding
    differences.

    Numbers of both mixtures that differ only by rounding get one value. Each result has two parts:
    the density pieces and lattices as ``ExpTerm`` objects, and the probabilities of single points,
    by point. Raises InputError for a piece that is too narrow, unless it continues another piece.
    """
    # The replaced numbers are points (ends, means, single points), rates, deviations and steps of
    # both mixtures.
    mixtures = p, q
    pieces = [piece for mixture in mixtures for piece in mixture.pieces]
    places = [value for mixture in mixtures for value in mixture.atoms]
    for piece in pieces:
        places += [piece.low, piece.high]
        places += [min(max(piece.mean, piece.low), piece.high)] * (piece.sd > 0.0)
    finite = [place for place in places if math.isfinite(place)]
    places += [piece.mean for piece in pieces if piece.sd]
    spread = max(finite, default=0.0) - min(finite, default=0.0)
    place = _snap_values(places, 0.01 * spread)
    size = _snap_values(size for piece in pieces for size in (piece.rate, piece.sd, piece.step))
    for mixture in mixtures:
        terms = []
        for piece in mixture.pieces:
            low, high, mean = (place.get(x, x) for x in (piece.low, piece.high, piece.mean))
            if low < high or piece.step:
                rate, sd, step = (size[value] for value in (piece.rate, piece.sd, piece.step))
                part = MixturePart(piece.weight, low, high, rate, mean, sd, step)
                terms.append(ExpTerm.from_part(part))
            elif not _continues_a_piece(piece, mixture.pieces):
                raise InputError(
                    f"Expected each piece of a density wider than {EQUALITY_TOLERANCE:g} times "
                    f"its ends, got {piece}. Replace this piece by an atom of the same weight."
                )
        points: dict[float, float] = {}
        for value, mass in mixture.atoms.items():
            if mass > 0.0:
                points[place[value]] = points.get(place[value], 0.0) + mass
        yield terms, points


@dataclass(frozen=True, slots=True)
class Lattice:
    """Lattice (equally spaced points origin + step * n, with integer n), with the terms of two
    measures P and Q on it.

    - ``origin``: the point at n = 0.
    - ``step``: distance of neighbouring points.
    - ``terms_of_p_and_q``: terms of P, and terms of Q. Each term gives masses as a function of n,
      not of the point.
    """

    origin: float
    step: float
    terms_of_p_and_q: tuple[list[ExpTerm], list[ExpTerm]] = field(default_factory=lambda: ([], []))

    def find_lattice_index(self, y: float) -> float:
        """Returns the integer n of the number ``y`` = origin + step * n; NaN if ``y`` is not on the
        lattice, and ``y`` itself if it is infinite.
        """
        n = (y - self.origin) / self.step
        if math.isinf(n):
            return n
        off = abs(n - round(n)) * self.step
        slack = EQUALITY_TOLERANCE * max(abs(y), abs(self.origin))
        return float(round(n)) if off <= 1e-9 * self.step + slack else math.nan

    def get_point(self, n: float) -> float:
        """Returns the lattice point origin + step * ``n``."""
        return self.origin + self.step * float(n)


def group_lattices(sides: Sequence[list[ExpTerm]]) -> list[Lattice]:
    """Groups terms of two measures P and Q into as few lattices (equally spaced points) as
    possible.

    ``sides`` has the terms of P and the terms of Q. Raises InputError if the steps of the terms
    differ, or a step is too small relative to the points of its lattice.
    """
    steps = {term.step for term in [*sides[0], *sides[1]]}
    if len(steps) > 1:
        raise InputError(
            f"Expected the same grid spacing for all discrete noise, got {sorted(steps)}. "
            "Scale the noise by the same factor for every input."
        )
    lattices: list[Lattice] = []
    for side, term in ((k, term) for k in (0, 1) for term in sides[k]):
        if term.step < 1e4 * EQUALITY_TOLERANCE * abs(term.argmax):
            raise InputError(
                f"Expected a grid spacing >= {1e4 * EQUALITY_TOLERANCE:g} times the output "
                f"{abs(term.argmax):g}, got spacing {term.step:g}. Use noise on a coarser grid."
            )
        fits = (each for each in lattices if not math.isnan(each.find_lattice_index(term.argmax)))
        lattice = next(fits, None)
        if lattice is None:
            lattice = Lattice(term.argmax, term.step)
            lattices.append(lattice)
        low, high, anchor = map(lattice.find_lattice_index, (term.low, term.high, term.argmax))
        made = ExpTerm(low, high, anchor, term.max_log_term, term.slope * term.step)
        lattice.terms_of_p_and_q[side].append(made)
    return lattices
