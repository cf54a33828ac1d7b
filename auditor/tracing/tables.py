"""Tables of the values that a block of leaves takes: masses, and numbers with densities.

A key holds a value for each leaf of the block; one stands for a number that has a density.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.densities import Mixture, Piece, Term
from fedrec_auditor.auditor.tracing.answers import NAN, close, leaf
from fedrec_auditor.auditor.tracing.lines import Cells, Line
from fedrec_auditor.auditor.tracing.paths import Mass, NotTraced
from fedrec_auditor.auditor.tracing.run import Branch
from fedrec_auditor.auditor.tracing.symbols import joined

HOLE = "a number with a density"
"""Stands in a key for the leaf that ``AnswerLaw.mixture`` describes."""
MOST_ENTRIES = 1 << 16
# The scale of noise, at least, relative to where it is: what is closer counts as rounding.
_RESOLVED = 1e-8

_REACH, _MOST_ROUNDED = 38.0, 1 << 14

_BRANCHES = {
    "uniform": ((-math.inf, math.inf, 0.0),),
    "exponential": ((0.0, math.inf, -1.0),),
    "laplace": ((-math.inf, 0.0, 1.0), (0.0, math.inf, -1.0)),
    "normal": ((-math.inf, math.inf, 0.0),),
    "geometric": ((0.5, math.inf, -1.0),),
    "integers": ((-math.inf, math.inf, 0.0),),
    "two-sided geometric": ((-math.inf, 0.5, 1.0), (0.5, math.inf, -1.0)),
}


Key = tuple[Hashable, ...]


@dataclass(slots=True)
class AnswerLaw:
    """The mass of a key; ``mixture`` is how its number is distributed; ``cells`` lead there.

    ``cut`` says that others like it were left out, whose masses doubles do not hold.
    """

    mass: Mass
    cells: Cells
    mixture: Mixture = field(default_factory=Mixture)
    cut: bool = False

    def beside(self, mass: Mass, cells: Cells) -> AnswerLaw:
        """The law where an independent event of this mass happens too."""
        mixture = self.mixture.times(float(mass))
        return AnswerLaw(self.mass * mass, {**self.cells, **cells}, mixture, self.cut)


Table = dict[Key, AnswerLaw]
"""Values of a block of leaves, and how likely each is."""
NOWHERE = AnswerLaw(Fraction(0), {})
"""An answer that never comes."""


def log(mass: Mass) -> float:
    """The logarithm of a mass, however small."""
    if not mass:
        return -math.inf
    if isinstance(mass, Fraction):
        return math.log(mass.numerator) - math.log(mass.denominator)
    return math.log(mass)


def numbers_of(atoms: Table, place: int) -> list[float]:
    """The numbers that stand in a place of keys that have a probability."""
    return [
        float(number)
        for key, entry in atoms.items()
        for number in (entry.mixture.listed() if key[place] is HOLE else [key[place]])
        if isinstance(number, (int, float))
    ]


def product(tables: Iterable[Table]) -> Table:
    """The table of independent blocks together, none of which has densities."""
    joint: Table = {(): AnswerLaw(Fraction(1), {})}
    for table in tables:
        if len(joint) * len(table) > MOST_ENTRIES:
            raise NotTraced(f"its coins mix more than {MOST_ENTRIES:,} answers")
        joint = {
            one + other: replace(a.beside(b.mass, b.cells), cut=a.cut or b.cut)
            for (one, a) in joint.items()
            for (other, b) in table.items()
        }
    return joint


def add(table: Table, key: Key, entry: AnswerLaw) -> None:
    """Add an entry to a table, in place, to what the key has already."""
    known = table.get(key)
    if known is None:
        table[key] = entry
        return
    known.mass += entry.mass
    known.cut |= entry.cut
    known.mixture = known.mixture.plus(entry.mixture)


def table_of(branch: Branch, leaves: list[Any]) -> Table:
    """The joint distribution of leaves of one path, given the path."""
    together = joined(leaves, MOST_ENTRIES)
    if together is None:
        raise NotTraced(f"its open coins mix more than {MOST_ENTRIES:,} answers")
    table: Table = {}
    for cells, values in together:
        mass: Mass = Fraction(1)
        for source, cell in cells.items():
            given = branch.cells.get(source, source.whole)
            mass *= source.mass(cell) / source.mass(given)
        if mass:
            for key, entry in _entries(mass, cells, values):
                add(table, key, entry)
    return table


def _entries(mass: Mass, cells: Cells, values: tuple[Any, ...]) -> Iterator[tuple[Key, AnswerLaw]]:
    """A key with the density of its number, of lines of one source the first one's, and points."""
    lines = [value for value in values if isinstance(value, Line)]
    if not lines:
        yield tuple(map(leaf, values)), AnswerLaw(mass, cells)
        return
    main, source = lines[0], lines[0].source
    if any(line.variable != main.variable for line in lines):
        raise NotTraced("numbers with several noises depend on the same coins")
    key: list[Hashable] = []
    for value in values:
        if not isinstance(value, Line):
            key.append(leaf(value))
        elif HOLE not in key:
            key.append(HOLE)
        else:
            slope = value.coefficient / main.coefficient
            key.append(("tied", float(slope), float(value.constant - slope * main.constant)))
    mixture = mixture_of(main, cells[source])
    smooth = sum(piece.weight for piece in mixture.pieces)
    total = smooth + sum(mixture.points.values())
    share = float(mass) / total
    cut = main.function is math.floor and source.family == "normal"
    if smooth:
        dense = Mixture(mixture.pieces).times(share)
        yield tuple(key), AnswerLaw(mass * smooth / total, cells, dense)
    for number, weight in mixture.points.items():
        if len(lines) > 1:
            raise NotTraced("one noise is rounded in several numbers")
        at = tuple(number if value is HOLE else value for value in key)
        yield at, AnswerLaw(weight * share, cells, cut=cut)


def put_points_on_lattices(tables: Sequence[Table]) -> None:
    """Plain numbers where any table has a lattice become points: they may be the same numbers."""
    lattices = {
        (place, key[:place] + key[place + 1 :]): key
        for table in tables
        for key, entry in table.items()
        if any(piece.step for piece in entry.mixture.pieces)
        for place in [key.index(HOLE)]
    }
    plain = any(HOLE not in key for table in tables for key in table)
    tied = any(isinstance(entry, tuple) for key in lattices.values() for entry in key)
    if len({place for place, _ in lattices}) > 1 or (tied and plain):
        raise NotTraced("whole numbers of one noise stand in several places")
    for table in tables if lattices else ():
        for other in list(table):
            for place, number in enumerate(other):
                key = lattices.get((place, other[:place] + other[place + 1 :]))
                if key is not None and isinstance(number, (int, float)):
                    entry = table.pop(other)
                    point = Mixture((), {float(number): float(entry.mass)})
                    add(table, key, replace(entry, mixture=point))
                    break


def check_ties(tables: Sequence[Table]) -> None:
    """One noise in several numbers: constants that rounding alone could make tell nothing."""
    ties = {entry for table in tables for key in table for entry in key if isinstance(entry, tuple)}
    ordered = sorted(ties)
    for one, other in itertools.pairwise(ordered):
        if all(map(close, one[1:], other[1:])):
            raise NotTraced("one noise stands in several numbers, which differ by rounding")


def _same(column: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    """Mask of a column of outputs that have a value, but for rounding."""
    if isinstance(value, (int, float)) and column.dtype.kind in "biuf":
        return np.asarray(np.isclose(column, float(value), rtol=1e-9, atol=1e-12))
    if value is NAN and column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    return np.asarray([entry == value for entry in column.tolist()], dtype=bool)


def atoms_of(tables: Sequence[Table]) -> Table:
    """The keys, points and lattices with a probability in any table, if any has a density."""
    atoms: Table = {}
    smooth = False
    for key, entry in itertools.chain.from_iterable(table.items() for table in tables):
        lattices = tuple(piece for piece in entry.mixture.pieces if piece.step)
        smooth |= len(lattices) < len(entry.mixture.pieces)
        if HOLE not in key or lattices or entry.mixture.points:
            add(atoms, key, replace(entry, mixture=replace(entry.mixture, pieces=lattices)))
    return atoms if smooth else {}


def table_log_prob(table: Table, atoms: Table, columns: list[NDArray[Any]]) -> NDArray[np.float64]:
    """ln of the mass of every row, or of its density where it is no atom."""
    masses, densities = _logs(table, columns)
    plain = (masses == -np.inf) & (_logs(atoms, columns)[0] == -np.inf)
    return np.asarray(np.where(plain, densities, masses))


def _logs(table: Table, columns: list[NDArray[Any]]) -> NDArray[np.float64]:
    """ln of the masses and of the densities, (2, rows), by a table."""
    found = np.full((2, len(columns[0])), -np.inf)
    for key, entry in table.items():
        here = np.ones(found.shape[1], dtype=bool)
        for column, value in zip(columns, key, strict=True):
            if isinstance(value, tuple):
                main = columns[key.index(HOLE)].astype(float)
                here &= np.isclose(column.astype(float), value[1] * main + value[2], rtol=1e-7)
            elif value is not HOLE:
                here &= _same(column, value)
        if not here.any():
            continue
        logs: Any = [[log(entry.mass)], [-np.inf]]
        if HOLE in key:
            numbers = columns[key.index(HOLE)][here].astype(float)
            logs = entry.mixture.log_mass(numbers), entry.mixture.log_density(numbers)
        found[:, here] = np.logaddexp(found[:, here], logs)
    return found


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
            if high - low > _MOST_ROUNDED:
                raise NotTraced(f"noise is rounded to more than {_MOST_ROUNDED:,} values")
        first, beyond = float(np.ceil(low)), float(np.floor(high))
        steps = np.arange(first, beyond + 1.0) if piece.sd else np.array([first, beyond])
        ends = np.unique([low, high, *(steps if first <= beyond else [])])
        masses = np.exp(Term.of(piece).log_masses(ends[:-1], ends[1:]))
        for a, b, mass in zip(ends[:-1], ends[1:], masses.tolist(), strict=True):
            if (a, b) == (first, beyond) and not piece.sd:
                lattices.append(Piece(mass, a, b - 1.0, rate=piece.rate, step=1.0))
            elif mass > 0.0:
                value = math.floor(a)
                points[value] = points.get(value, 0.0) + mass
    return Mixture(tuple(lattices), points)
