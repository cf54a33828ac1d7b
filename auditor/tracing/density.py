"""The density, or the masses, of a line of one real source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.lines import Line
from fedrec_auditor.auditor.tracing.mixture import Mixture, Piece
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


def mixture_of(line: Line, cell: Any) -> Mixture:
    """The distribution, with the mass of the cell, of a line whose source is in a cell.

    NotTraced for noise that is rounded to a lattice of unknown masses.
    """
    scale, shift = float(line.coefficient), float(line.constant)
    if line.inner is not None and line.function is math.floor:
        bare = _floored(mixture_of(line.inner, cell))
    else:
        bare = Mixture(tuple(_bare(line, cell)))
    pieces = tuple(_moved(piece, scale, shift) for piece in bare.pieces)
    for piece in pieces:
        ends = [end for end in (piece.low, piece.high, piece.mean) if math.isfinite(end)]
        width = piece.sd or (1.0 / abs(piece.rate) if piece.rate else piece.high - piece.low)
        if max(map(abs, ends), default=0.0) * _RESOLVED > width:
            raise NotTraced("noise is too small beside the number that it is added to")
    return Mixture(pieces, {scale * value + shift: mass for value, mass in bare.points.items()})


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


def _floored(mixture: Mixture) -> Mixture:
    """Whole parts: full steps of an exponential are a lattice, all else is points.

    Those of normal numbers beyond 38 deviations are left out: their masses are below 1e-314.
    """
    if mixture.points or any(piece.step for piece in mixture.pieces):
        raise NotTraced("noise is rounded twice")
    points: dict[float, float] = {}
    lattices: list[Piece] = []
    for piece in mixture.pieces:
        low, high = piece.low, piece.high
        if piece.sd:
            low = max(low, math.floor(piece.mean - _REACH * piece.sd))
            high = min(high, math.ceil(piece.mean + _REACH * piece.sd))
            if high - low > _MOST_POINTS:
                raise NotTraced(f"noise is rounded to more than {_MOST_POINTS:,} values")
        first, beyond = float(np.ceil(low)), float(np.floor(high))
        steps = np.arange(first, beyond + 1.0) if piece.sd else np.array([first, beyond])
        ends = np.unique([low, high, *(steps if first <= beyond else [])])
        for a, b, mass in zip(ends[:-1], ends[1:], piece.masses(ends).tolist(), strict=True):
            if (a, b) == (first, beyond) and not piece.sd:
                lattices.append(Piece(mass, a, b - 1.0, rate=piece.rate, step=1.0))
            elif mass > 0.0:
                value = math.floor(a)
                points[value] = points.get(value, 0.0) + mass
    return Mixture(tuple(lattices), points)
