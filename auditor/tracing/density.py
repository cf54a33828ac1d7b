"""The density, or the masses, of a line of one real source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from fedrec_auditor.auditor.tracing.lines import Line
from fedrec_auditor.auditor.tracing.mixture import Piece
from fedrec_auditor.auditor.tracing.paths import NotTraced

# The scale of noise, at least, relative to where it is: what is closer counts as rounding.
_RESOLVED = 1e-8
_REACH, _MOST_POINTS = 38.0, 1 << 14
_BRANCHES = {
    "uniform": ((-math.inf, math.inf, 0.0),),
    "exponential": ((0.0, math.inf, -1.0),),
    "laplace": ((-math.inf, 0.0, 1.0), (0.0, math.inf, -1.0)),
    "normal": ((-math.inf, math.inf, 0.0),),
    "geometric": ((0.5, math.inf, -1.0),),
    "integers": ((-math.inf, math.inf, 0.0),),
    "two-sided geometric": ((-math.inf, 0.5, 1.0), (0.5, math.inf, -1.0)),
}


def pieces_of(line: Line, cell: Any) -> tuple[list[Piece], dict[float, float]]:
    """Pieces, weighted by their probabilities, and points of a line whose source is in a cell.

    NotTraced for noise that is rounded to a lattice of unknown masses.
    """
    scale, shift = float(line.coefficient), float(line.constant)
    points: dict[float, float] = {}
    if line.inner is not None and line.function is math.floor:
        bare, inner = _floored(line.inner, cell)
        points = {scale * value + shift: mass for value, mass in inner.items()}
    else:
        bare = list(_bare(line, cell))
    pieces = [_moved(piece, scale, shift) for piece in bare]
    for piece in pieces:
        ends = [end for end in (piece.low, piece.high, piece.mean) if math.isfinite(end)]
        width = piece.sd or (1.0 / abs(piece.rate) if piece.rate else piece.high - piece.low)
        if max(map(abs, ends), default=0.0) * _RESOLVED > width:
            raise NotTraced("noise is too small beside the number that it is added to")
    return pieces, points


def _bare(line: Line, cell: Any) -> Iterator[Piece]:
    source = line.source
    variable = replace(line, coefficient=Fraction(1), constant=Fraction(0))
    for low, high in cell:
        for start, end, rate in _BRANCHES[source.family]:
            a, b = max(low, start), min(high, end)
            if not a < b or not (weight := float(source.between(a, b))) > 0.0:
                continue
            if line.inner is not None:
                ends = sorted((variable.at(float(a)), variable.at(float(b))))
                yield Piece(weight, ends[0], ends[1], rate=1.0)
            elif source.lattice:
                first, last = (v if math.isinf(v) else float(math.ceil(v)) for v in (a, b))
                yield Piece(weight, first, last - 1.0, rate=rate * source.rate, step=1.0)
            else:
                sd = 1.0 if source.family == "normal" else 0.0
                yield Piece(weight, float(a), float(b), rate=rate, sd=sd)


def _moved(piece: Piece, scale: float, shift: float) -> Piece:
    ends = sorted((scale * piece.low + shift, scale * piece.high + shift))
    return Piece(
        piece.weight,
        ends[0],
        ends[1],
        rate=piece.rate / scale,
        mean=scale * piece.mean + shift if piece.sd else 0.0,
        sd=piece.sd * abs(scale),
        step=piece.step * abs(scale),
    )


def _floored(line: Line, cell: Any) -> tuple[list[Piece], dict[float, float]]:
    """Whole parts: full steps of an exponential are a lattice, and its ends are points."""
    pieces, points = pieces_of(line, cell)
    if points or any(piece.step for piece in pieces):
        raise NotTraced("noise is rounded twice")
    lattices: list[Piece] = []
    for piece in pieces:
        if piece.sd:
            points.update(_rounded_normal(piece))
            continue

        def mass(a: float, b: float, piece: Piece = piece) -> float:
            """Of [a, b) within the piece."""
            rate, low, high = piece.rate, piece.low, piece.high
            if not rate:
                return piece.weight * (b - a) / (high - low)
            # From the end at which the density is largest.
            anchor = high if rate > 0 else low
            near, far = sorted((abs(anchor - a), abs(anchor - b)))
            total = -math.expm1(-abs(rate) * (high - low))
            fall = math.exp(-abs(rate) * near) * -math.expm1(-abs(rate) * (far - near))
            return piece.weight * fall / total

        first = math.ceil(piece.low) if math.isfinite(piece.low) else -math.inf
        beyond = math.floor(piece.high) if math.isfinite(piece.high) else math.inf
        if first > beyond:  # within one step
            value = float(math.floor(piece.low))
            points[value] = points.get(value, 0.0) + piece.weight
            continue
        for a, b in ((piece.low, float(first)), (float(beyond), piece.high)):
            if math.isfinite(b - a) and a < b:
                value = float(math.floor(a))
                points[value] = points.get(value, 0.0) + mass(a, b)
        if first < beyond:
            weight = mass(float(first), float(beyond))
            lattices.append(
                Piece(weight, float(first), float(beyond - 1), rate=piece.rate, step=1.0)
            )
    return lattices, points


def _rounded_normal(piece: Piece) -> dict[float, float]:
    """The masses of whole parts, without those beyond 38 deviations: these are below 1e-314."""
    low = math.floor(max(piece.low, piece.mean - _REACH * piece.sd))
    high = math.ceil(min(piece.high, piece.mean + _REACH * piece.sd))
    if high - low > _MOST_POINTS:
        raise NotTraced(f"noise is rounded to more than {_MOST_POINTS:,} values")
    values = np.arange(low, high, dtype=np.float64)
    ends = np.clip(np.append(values, high), piece.low, piece.high)
    z = (ends - piece.mean) / piece.sd
    # Of the nearer tail, where differences keep their digits.
    left = np.diff(special.ndtr(z))
    right = -np.diff(special.ndtr(-z))
    masses = np.where(z[:-1] + z[1:] < 0.0, left, right)
    share = piece.weight / masses.sum()
    return {v: m * share for v, m in zip(values.tolist(), masses.tolist(), strict=True) if m > 0.0}
