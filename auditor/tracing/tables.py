"""Tables of the possible values of a block of a randomizer's output, with their probabilities.

A block is a group of single values in the output that depend on one another. A key is a tuple with
a value for each of them. In a key, ``DENSITY_SLOT`` stands for a number whose distribution is
stored in the table entry (``OutputMass.mixture``).
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

from fedrec_auditor.accountants.losses.densities import ExpTerm, Mixture, MixturePart
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise, ValuesByDraw
from fedrec_auditor.auditor.tracing.outputs import NAN_MARKER, are_close, get_value_key
from fedrec_auditor.auditor.tracing.paths import NotTraced, Probability
from fedrec_auditor.auditor.tracing.run import PathResult
from fedrec_auditor.auditor.tracing.symbols import combine_values

# Placeholder in a key for the number whose distribution is ``OutputMass.mixture``.
DENSITY_SLOT = "a number with a density"
# Maximum number of keys (combinations of output values) of a table of probabilities.
MAX_OUTCOMES = 1 << 16
# Minimum scale of noise relative to its location; smaller noise counts as a rounding error.
_RESOLVED = 1e-8

# Standard deviations beyond which rounded normal noise is left out; maximum number of its values.
_REACH, _MAX_ROUNDED = 38.0, 1 << 14

# Intervals in which each density is e^(rate x) times a constant or a normal density: low, high,
# rate (of a geometric family: times its decay rate).
_BRANCHES = {
    "uniform": ((-math.inf, math.inf, 0.0),),
    "exponential": ((0.0, math.inf, -1.0),),
    "laplace": ((-math.inf, 0.0, 1.0), (0.0, math.inf, -1.0)),
    "normal": ((-math.inf, math.inf, 0.0),),
    "geometric": ((0.5, math.inf, -1.0),),
    "integers": ((-math.inf, math.inf, 0.0),),
    "two-sided geometric": ((-math.inf, 0.5, 1.0), (0.5, math.inf, -1.0)),
}


# Values of an output at the positions of one block.
OutputKey = tuple[Hashable, ...]


@dataclass(slots=True)
class OutputMass:
    """The probability of one key (values at some positions of an output), with the draws behind it.

    - ``mass``: probability of the key.
    - ``cells``: for each random draw the set of its values that leads to the key, on one execution
      path.
    - ``mixture``: distribution of the number for which ``DENSITY_SLOT`` stands in the key; empty
      without ``DENSITY_SLOT``.
    - ``has_underflow``: whether the key depends on a rounded normal draw. Values of the draw beyond
      38 standard deviations are left out, because their probabilities are below the range of
      doubles.
    """

    mass: Probability
    cells: ValuesByDraw
    mixture: Mixture = field(default_factory=Mixture)
    has_underflow: bool = False

    def combine_with(self, mass: Probability, cells: ValuesByDraw) -> OutputMass:
        """Returns the probability that this key and an independent event occur together.

        ``mass``: probability of the event.
        ``cells``: for each random draw the set of its values that leads to the event.
        """
        mixture = self.mixture.scale(float(mass))
        return OutputMass(self.mass * mass, {**self.cells, **cells}, mixture, self.has_underflow)


# The possible values of a block (values of an output that depend on one another), with their
# probabilities.
MassTable = dict[OutputKey, OutputMass]
# Entry of an output that has probability 0.
ZERO_MASS = OutputMass(Fraction(0), {})


def to_log(mass: Probability) -> float:
    """Returns the natural logarithm of a probability; -inf for probability 0.

    A probability that is a ``Fraction`` may be too small to be a double.
    """
    if not mass:
        return -math.inf
    if isinstance(mass, Fraction):
        return math.log(mass.numerator) - math.log(mass.denominator)
    return math.log(mass)


def list_numbers_at(atoms: MassTable, place: int) -> list[float]:
    """Returns the numbers of positive probability at one position of an output.

    ``atoms``: table from ``collect_output_atoms``; its keys are tuples of output values.
    ``place``: index of the position in a key.
    """
    return [
        float(number)
        for key, entry in atoms.items()
        for number in (entry.mixture.list_atoms() if key[place] is DENSITY_SLOT else [key[place]])
        if isinstance(number, (int, float))
    ]


def combine_tables(tables: Iterable[MassTable]) -> MassTable:
    """Returns the joint distribution of independent blocks of output values.

    ``tables``: the distribution of each block, which must be discrete.

    Raises NotTraced if the joint table has more than 2^16 entries.
    """
    joint: MassTable = {(): OutputMass(Fraction(1), {})}
    for table in tables:
        if len(joint) * len(table) > MAX_OUTCOMES:
            raise NotTraced(f"the random draws combine to more than {MAX_OUTCOMES:,} outputs")
        joint = {
            one + other: replace(
                a.combine_with(b.mass, b.cells), has_underflow=a.has_underflow or b.has_underflow
            )
            for (one, a) in joint.items()
            for (other, b) in table.items()
        }
    return joint


def add_entry(table: MassTable, key: OutputKey, entry: OutputMass) -> None:
    """Adds ``entry``, the probability of ``key`` (a tuple of output values), to a table, in place.

    If the table has the key already, the probabilities are summed.
    """
    known = table.get(key)
    if known is None:
        table[key] = entry
        return
    known.mass += entry.mass
    known.has_underflow |= entry.has_underflow
    known.mixture = known.mixture.add(entry.mixture)


def make_joint_table(result: PathResult, leaves: list[Any]) -> MassTable:
    """Returns the joint distribution of the output values ``leaves``, given one execution path.

    ``result``: the path.
    ``leaves``: values that may depend on random draws.

    Raises NotTraced if the distribution has more than 2^16 entries.
    """
    together = combine_values(leaves, MAX_OUTCOMES)
    if together is None:
        raise NotTraced(f"the random draws combine to more than {MAX_OUTCOMES:,} outputs")
    table: MassTable = {}
    for cells, values in together:
        mass: Probability = Fraction(1)
        for source, cell in cells.items():
            given = result.cells.get(source, source.domain)
            mass *= source.compute_mass(cell) / source.compute_mass(given)
        if mass:
            for key, entry in _iter_entries(mass, cells, values):
                add_entry(table, key, entry)
    return table


def _iter_entries(
    mass: Probability, cells: ValuesByDraw, values: tuple[Any, ...]
) -> Iterator[tuple[OutputKey, OutputMass]]:
    """Yields keys (tuples of output values) with their entries, for joint values of probability
    ``mass``.

    Numbers with positive probability become separate keys.
    """
    noises = [value for value in values if isinstance(value, AffineNoise)]
    if not noises:
        yield tuple(map(get_value_key, values)), OutputMass(mass, cells)
        return
    main, source = noises[0], noises[0].source
    if any(noise.variable_key != main.variable_key for noise in noises):
        raise NotTraced("an output holds two noises that depend on the same random draws")
    key: list[Hashable] = []
    # If several numbers hold the same noise, the first number has the density, and the further ones
    # are stored as functions of the first.
    for value in values:
        if not isinstance(value, AffineNoise):
            key.append(get_value_key(value))
        elif DENSITY_SLOT not in key:
            key.append(DENSITY_SLOT)
        else:
            slope = value.coefficient / main.coefficient
            key.append(("tied", float(slope), float(value.constant - slope * main.constant)))
    mixture = make_noise_mixture(main, cells[source])
    smooth = sum(piece.weight for piece in mixture.pieces)
    total = smooth + sum(mixture.atoms.values())
    share = float(mass) / total
    cut = main.function is math.floor and source.family == "normal"
    if smooth:
        dense = Mixture(mixture.pieces).scale(share)
        yield tuple(key), OutputMass(mass * smooth / total, cells, dense)
    for number, weight in mixture.atoms.items():
        if len(noises) > 1:
            raise NotTraced("several output numbers hold one rounded noise. Tracing supports one")
        at = tuple(number if value is DENSITY_SLOT else value for value in key)
        yield at, OutputMass(weight * share, cells, has_underflow=cut)


def merge_points_into_lattices(tables: Sequence[MassTable]) -> None:
    """Moves numbers of positive probability into distributions on equally spaced numbers
    (lattices).

    A key with such a number is merged into the key that has a lattice in its place, and equal
    values elsewhere.

    ``tables``: each table maps keys (tuples of output values) to probabilities, and is changed in
        place.

    Raises NotTraced if several values of an output depend on one integer noise.
    """
    # A key may have a placeholder (``DENSITY_SLOT``) for a number that is distributed on a lattice.
    # Other keys with a plain number in this place, and otherwise equal values, are removed. Their
    # numbers become points of the distribution behind the placeholder.
    lattices = {
        (place, key[:place] + key[place + 1 :]): key
        for table in tables
        for key, entry in table.items()
        if any(piece.step for piece in entry.mixture.pieces)
        for place in [key.index(DENSITY_SLOT)]
    }
    plain = any(DENSITY_SLOT not in key for table in tables for key in table)
    tied = any(isinstance(entry, tuple) for key in lattices.values() for entry in key)
    if len({place for place, _ in lattices}) > 1 or (tied and plain):
        raise NotTraced("several output numbers hold the same integer noise. Tracing supports one")
    for table in tables if lattices else ():
        for other in list(table):
            for place, number in enumerate(other):
                key = lattices.get((place, other[:place] + other[place + 1 :]))
                if key is not None and isinstance(number, (int, float)):
                    entry = table.pop(other)
                    point = Mixture((), {float(number): float(entry.mass)})
                    add_entry(table, key, replace(entry, mixture=point))
                    break


def check_rounding_ties(tables: Sequence[MassTable]) -> None:
    """Raises NotTraced if two numbers computed from one noise differ only by rounding.

    ``tables``: tables whose keys are tuples of output values.

    Whether outputs distinguish two inputs would then depend on the rounding.
    """
    ties = {entry for table in tables for key in table for entry in key if isinstance(entry, tuple)}
    for one, other in itertools.pairwise(sorted(ties)):
        if all(map(are_close, one[1:], other[1:])):
            raise NotTraced("two output numbers differ only by rounding, which could reveal inputs")


def _mask_equal(column: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    """Returns a mask (n,) of the entries of ``column`` that equal ``value`` up to rounding."""
    if isinstance(value, (int, float)) and column.dtype.kind in "biuf":
        return np.asarray(np.isclose(column, float(value), rtol=1e-9, atol=1e-12))
    if value is NAN_MARKER and column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    return np.asarray([entry == value for entry in column.tolist()], dtype=bool)


def collect_output_atoms(tables: Sequence[MassTable]) -> MassTable:
    """Returns the output values of positive probability, if other values have a density.

    ``tables``: tables whose keys are tuples of output values.

    The result is such a table. It is empty if no value has a density.
    """
    atoms: MassTable = {}
    smooth = False
    for key, entry in itertools.chain.from_iterable(table.items() for table in tables):
        lattices = tuple(piece for piece in entry.mixture.pieces if piece.step)
        smooth |= len(lattices) < len(entry.mixture.pieces)
        if DENSITY_SLOT not in key or lattices or entry.mixture.atoms:
            add_entry(atoms, key, replace(entry, mixture=replace(entry.mixture, pieces=lattices)))
    return atoms if smooth else {}


def get_log_probs(
    table: MassTable, atoms: MassTable, columns: list[NDArray[Any]]
) -> NDArray[np.float64]:
    """Returns the log-probability of each output, or its log-density if it has no entry in
    ``atoms``.

    The result has the shape (outputs,).

    ``table``: distribution of the outputs.
    ``atoms``: outputs that have a positive probability.
    ``columns``: the outputs, one array of values per position.
    """
    masses, densities = _compute_logs(table, columns)
    plain = (masses == -np.inf) & (_compute_logs(atoms, columns)[0] == -np.inf)
    return np.asarray(np.where(plain, densities, masses))


def _compute_logs(table: MassTable, columns: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Returns the log-probabilities and the log-densities of rows in a table, shape (2, rows).

    ``columns``: the rows, by column.
    """
    result = np.full((2, len(columns[0])), -np.inf)
    for key, entry in table.items():
        here = np.ones(result.shape[1], dtype=bool)
        for column, value in zip(columns, key, strict=True):
            if isinstance(value, tuple):
                main = columns[key.index(DENSITY_SLOT)].astype(float)
                here &= np.isclose(column.astype(float), value[1] * main + value[2], rtol=1e-7)
            elif value is not DENSITY_SLOT:
                here &= _mask_equal(column, value)
        if not here.any():
            continue
        logs: Any = [[to_log(entry.mass)], [-np.inf]]
        if DENSITY_SLOT in key:
            numbers = columns[key.index(DENSITY_SLOT)][here].astype(float)
            mixture = entry.mixture
            logs = mixture.compute_log_mass(numbers), mixture.compute_log_density(numbers)
        result[:, here] = np.logaddexp(result[:, here], logs)
    return result


def make_noise_mixture(noise: AffineNoise, cell: Any) -> Mixture:
    """Returns the distribution of noise whose random draw lies in ``cell``, a set of values of the
    draw.

    The distribution sums to the probability of the cell. Raises NotTraced in these cases:

    - the noise is rounded twice, or has too many rounded values;
    - the noise is too small relative to the number to which it is added.
    """
    scale, shift = float(noise.coefficient), float(noise.constant)
    if noise.inner_noise is not None and noise.function is math.floor:
        bare = _round_down(make_noise_mixture(noise.inner_noise, cell))
    else:
        bare = Mixture(tuple(_iter_bare_parts(noise, cell)))
    pieces = tuple(_transform(piece, scale, shift) for piece in bare.pieces)
    for piece in pieces:
        ends = [end for end in (piece.low, piece.high, piece.mean) if math.isfinite(end)]
        width = piece.sd or (1.0 / abs(piece.rate) if piece.rate else piece.high - piece.low)
        if max(map(abs, ends), default=0.0) * _RESOLVED > width:
            raise NotTraced("the noise is too small relative to the number to which it is added")
    return Mixture(pieces, {scale * value + shift: mass for value, mass in bare.atoms.items()})


def _iter_bare_parts(noise: AffineNoise, cell: Any) -> Iterator[MixturePart]:
    source = noise.source
    variable = replace(noise, coefficient=Fraction(1), constant=Fraction(0))
    for low, high in cell:
        for start, end, rate in _BRANCHES[source.family]:
            a, b = max(low, start), min(high, end)
            if not a < b or not (weight := float(source.compute_interval_mass(a, b))) > 0.0:
                continue
            if noise.inner_noise is not None:
                ends = sorted((variable.evaluate(float(a)), variable.evaluate(float(b))))
                yield MixturePart(weight, ends[0], ends[1], rate=1.0)
            elif source.is_integer:
                first, last = (v if math.isinf(v) else float(math.ceil(v)) for v in (a, b))
                decay = rate * source.geometric_rate
                yield MixturePart(weight, first, last - 1.0, rate=decay, step=1.0)
            else:
                sd = 1.0 if source.family == "normal" else 0.0
                yield MixturePart(weight, float(a), float(b), rate=rate, sd=sd)


def _transform(piece: MixturePart, scale: float, shift: float) -> MixturePart:
    ends = sorted((scale * piece.low + shift, scale * piece.high + shift))
    return MixturePart(
        piece.weight,
        ends[0],
        ends[1],
        rate=piece.rate / scale,
        mean=scale * piece.mean + shift if piece.sd else 0.0,
        sd=piece.sd * abs(scale),
        step=piece.step * abs(scale),
    )


def _round_down(mixture: Mixture) -> Mixture:
    """Returns the distribution of a number rounded down to an integer.

    Values of normal noise beyond 38 standard deviations are left out; each has a probability below
    1e-314.
    """
    if mixture.atoms or any(piece.step for piece in mixture.pieces):
        raise NotTraced("the code rounds rounded noise again, which tracing cannot follow")
    # Normal noise becomes points (numbers with their probabilities). Other noise becomes lattices
    # (equally spaced numbers), with points at the ends.
    points: dict[float, float] = {}
    lattices: list[MixturePart] = []
    for piece in mixture.pieces:
        low, high = piece.low, piece.high
        if piece.sd:
            low = max(low, math.floor(piece.mean - _REACH * piece.sd))
            high = min(high, math.ceil(piece.mean + _REACH * piece.sd))
            if high - low > _MAX_ROUNDED:
                raise NotTraced(f"the code rounds noise to more than {_MAX_ROUNDED:,} values")
        first, beyond = float(np.ceil(low)), float(np.floor(high))
        steps = np.arange(first, beyond + 1.0) if piece.sd else np.array([first, beyond])
        ends = np.unique([low, high, *(steps if first <= beyond else [])])
        masses = np.exp(ExpTerm.from_part(piece).compute_log_masses(ends[:-1], ends[1:]))
        for a, b, mass in zip(ends[:-1], ends[1:], masses.tolist(), strict=True):
            if (a, b) == (first, beyond) and not piece.sd:
                lattices.append(MixturePart(mass, a, b - 1.0, rate=piece.rate, step=1.0))
            elif mass > 0.0:
                value = math.floor(a)
                points[value] = points.get(value, 0.0) + mass
    return Mixture(tuple(lattices), points)
