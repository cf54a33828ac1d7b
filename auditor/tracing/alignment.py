"""Two distributions of a number on one line: places that differ by rounding are equal there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.tracing.mixture import SAME, Mixture, Piece, Term


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
    density = math.exp(Mixture(others).log_density(beside).max())
    return sliver.weight <= min(SAME, (1.0 + 1e-6) * density * width)


def aligned(p: Mixture, q: Mixture) -> Iterator[tuple[list[Term], dict[float, float]]]:
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
                terms.append(Term.of(Piece(piece.weight, low, high, rate, mean, sd, step)))
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
class Lattice:
    """Terms of both measures on origin + step * n, in the coordinate n."""

    origin: float
    step: float
    sides: tuple[list[Term], list[Term]] = field(default_factory=lambda: ([], []))

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


def lattices_of(sides: Sequence[list[Term]]) -> list[Lattice]:
    """The terms that are lattices, on as few as there are."""
    steps = {term.step for term in [*sides[0], *sides[1]]}
    if len(steps) > 1:
        raise InputError(
            f"Expected lattices of one step, got {sorted(steps)}. Scale noise in the same way for "
            "every input."
        )
    lattices: list[Lattice] = []
    for side, term in ((k, term) for k in (0, 1) for term in sides[k]):
        if term.step < 1e4 * SAME * abs(term.anchor):
            raise InputError(
                f"Expected a lattice with a step of at least {1e4 * SAME} of its offset, got step "
                f"{term.step} at {term.anchor}. Release the index instead."
            )
        lattice = next((each for each in lattices if not math.isnan(each.index(term.anchor))), None)
        if lattice is None:
            lattice = Lattice(term.anchor, term.step)
            lattices.append(lattice)
        low, high, anchor = map(lattice.index, (term.low, term.high, term.anchor))
        lattice.sides[side].append(Term(low, high, anchor, term.value, term.slope * term.step))
    return lattices
