"""Output distributions of a randomizer, one per input, summed over its execution paths.

An output consists of a structure (its nested containers) and single values, called leaves. A leaf
is fixed if its value is constant on each execution path. A tag is a structure together with its
fixed leaves. The remaining leaves are divided into independent blocks, each with a table of its
values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.tracing.affine_noise import ValuesByDraw
from fedrec_auditor.auditor.tracing.outputs import are_close, get_value_key, split_output
from fedrec_auditor.auditor.tracing.paths import Draw, Probability
from fedrec_auditor.auditor.tracing.run import AllPaths, PathResult
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.tracing.tables import (
    DENSITY_SLOT,
    MAX_OUTCOMES,
    MassTable,
    OutputKey,
    OutputMass,
    add_entry,
    check_rounding_ties,
    collect_output_atoms,
    combine_tables,
    get_log_probs,
    list_numbers_at,
    make_joint_table,
    merge_points_into_lattices,
    to_log,
)

# Relative error of a product of probabilities; maximum number of blocks to compare in pairs.
_ROUNDING, _MAX_PARTS = 1e-12, 16

# Key of a group of outputs: their structure, and their values that are constant on every path.
OutputTag = tuple[Hashable, OutputKey]


@dataclass(frozen=True, slots=True)
class TagOutputs:
    """The distribution of all outputs with one tag (structure and fixed values of an output).

    A block is a group of positions in the output whose values depend on one another.

    - ``probability``: probability of the tag.
    - ``cells``: for each random draw the set of its values that leads to the tag, on one execution
      path.
    - ``tables``: for each block, by its positions, the probabilities of its values among these
      outputs.
    - ``atoms``: for each block, by its positions, the values with a positive probability under at
      least one input; empty for a block without densities.
    """

    probability: Probability
    cells: ValuesByDraw
    tables: dict[tuple[int, ...], MassTable]
    # The log-probability of an output uses the probability of atoms, and the density of other
    # values.
    atoms: dict[tuple[int, ...], MassTable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TracedDist:
    """Output distribution of a randomizer for one input.

    An output consists of a structure (its nested containers) and single values, which have
    positions 0, 1 and so on. A value is fixed if it is constant on each execution path. A tag is a
    structure together with its fixed values.

    - ``tag_outputs``: for each tag, the distribution of the outputs with this tag.
    - ``fixed_places``: for each structure, the positions of its fixed values.
    - ``n_paths``: number of execution paths that were followed to their end.
    - ``n_untraced_paths``: number of execution paths that were too rare to follow.
    """

    tag_outputs: dict[OutputTag, TagOutputs]
    fixed_places: dict[Hashable, tuple[int, ...]]
    n_paths: int
    n_untraced_paths: int = 0

    @property
    def has_underflow(self) -> bool:
        """Whether some outputs were left out because their probabilities are below the range of
        doubles.
        """
        tables = (table for group in self.tag_outputs.values() for table in group.tables.values())
        return any(entry.has_underflow for table in tables for entry in table.values())

    def log_prob(self, outputs: Any) -> Any:
        """Returns the log-probability or log-density of one output, or of each output of an array.

        ``outputs``: one output, or an array with n outputs along its first axis. The result has the
        shape (n,) for an array.
        """
        if not (isinstance(outputs, np.ndarray) and outputs.ndim):
            return self.log_probs([outputs])[0]
        if not len(outputs):
            return np.empty(0)
        structure = split_output(outputs[0]).structure
        return self._row_log_probs(structure, outputs.reshape(len(outputs), -1))

    def log_probs(self, outputs: Sequence[Any]) -> NDArray[np.float64]:
        """Returns the log-probabilities or log-densities of a sequence of outputs, shape (n,)."""
        logs = np.empty(len(outputs))
        places: dict[Hashable, list[int]] = {}
        every = [split_output(output) for output in outputs]
        for place, output in enumerate(every):
            places.setdefault(output.structure, []).append(place)
        for structure, here in places.items():
            logs[here] = self._row_log_probs(structure, [every[place].leaves for place in here])
        return logs

    def _row_log_probs(self, structure: Hashable, rows: Any) -> NDArray[np.float64]:
        is_array = isinstance(rows, np.ndarray)
        columns = list(rows.T if is_array else map(np.asarray, zip(*rows, strict=True)))
        fixed = self.fixed_places.get(structure)
        logs = np.full(len(rows), -np.inf)
        if fixed is None:
            return logs
        places: dict[OutputKey, list[int]] = {}
        tags = zip(*(columns[place].tolist() for place in fixed), strict=True)
        for row, tag in enumerate(tags) if fixed else ((row, ()) for row in range(len(rows))):
            places.setdefault(tuple(map(get_value_key, tag)), []).append(row)
        for tag, here in places.items():
            group = self.tag_outputs.get((structure, tag)) or self._find_close_tag(structure, tag)
            if group is None:
                continue
            logs[here] = to_log(group.probability)
            for block, table in group.tables.items():
                of_block = [columns[k][here] for k in block]
                logs[here] += get_log_probs(table, group.atoms[block], of_block)
        return logs

    @property
    def atom_values(self) -> list[float]:
        """Single outputs of positive probability beside outputs with a density, such as 0 and 1 of
        clipped noise.

        The probability is positive under at least one traced input. The list is empty if no output
        has a density, or if outputs are not single numbers.
        """
        group = self.tag_outputs.get(("value", ()))
        tables = [] if group is None else group.atoms.values()
        return [number for table in tables for number in list_numbers_at(table, 0)]

    def list_outputs(self, max_size: int) -> dict[Hashable, OutputMass] | None:
        """Returns the probability of each output, keyed by (structure of the output, values in
        order).

        The result is None if there are densities, or more than ``max_size`` outputs.
        """
        outputs: dict[Hashable, OutputMass] = {}
        for (structure, tag), group in self.tag_outputs.items():
            tables = group.tables.values()
            max_size -= math.prod(map(len, tables))
            if max_size < 0 or any(DENSITY_SLOT in key for table in tables for key in table):
                return None
            places = (*self.fixed_places[structure], *itertools.chain.from_iterable(group.tables))
            order = np.argsort(places).tolist()
            for key, entry in combine_tables(tables).items():
                leaves = *tag, *key
                output = structure, tuple(leaves[k] for k in order)
                cells = {**group.cells, **entry.cells}
                mass = group.probability * entry.mass
                outputs[output] = OutputMass(mass, cells, has_underflow=entry.has_underflow)
        return outputs

    def _find_close_tag(self, structure: Hashable, tag: OutputKey) -> TagOutputs | None:
        """Returns the distribution of the outputs whose fixed values equal ``tag`` up to rounding.

        The result is None if there are no such outputs with this structure.
        """
        for (kind, known), group in self.tag_outputs.items():
            if kind == structure and all(map(are_close, known, tag)):
                return group
        return None


def make_distributions(inputs: Sequence[AllPaths]) -> list[TracedDist]:
    """Computes the output distributions of several inputs from their execution paths.

    Positions of fixed values and of independent blocks are equal for all inputs, so that the
    distributions can be compared. Raises NotTraced if a distribution has too many entries.
    """
    fixed: dict[Hashable, set[int]] = {}
    for result in (result for ran in inputs for result in ran.path_results):
        structure, leaves = result.output
        plain = {k for k, entry in enumerate(leaves) if not isinstance(entry, Symbol)}
        fixed[structure] = fixed.get(structure, plain) & plain
    tags = {structure: tuple(sorted(places)) for structure, places in fixed.items()}
    grouped: list[dict[OutputTag, list[PathResult]]] = []
    for ran in inputs:
        groups: dict[OutputTag, list[PathResult]] = {}
        for result in ran.path_results:
            structure, leaves = result.output
            tag = structure, tuple(leaves[k] for k in tags[structure])
            groups.setdefault(tag, []).append(result)
        grouped.append(groups)
    blocks = _find_blocks(grouped, tags)
    dists = [
        TracedDist(
            {tag: _combine_paths(members, blocks[tag]) for tag, members in groups.items()},
            tags,
            len(ran.path_results),
            ran.n_untraced_paths,
        )
        for ran, groups in zip(inputs, grouped, strict=True)
    ]
    for tag, places in blocks.items():
        known = [dist.tag_outputs[tag] for dist in dists if tag in dist.tag_outputs]
        for block in places:
            tables = [group.tables[block] for group in known]
            check_rounding_ties(tables)
            merge_points_into_lattices(tables)
            atoms = collect_output_atoms(tables)
            for group in known:
                group.atoms[block] = atoms
    return dists


def _find_blocks(
    grouped: list[dict[OutputTag, list[PathResult]]], tags: dict[Hashable, tuple[int, ...]]
) -> dict[OutputTag, list[tuple[int, ...]]]:
    """Returns for each tag the positions of its values that are not fixed, in independent blocks.

    A tag is the structure of an output with its fixed values.
    ``grouped``: execution paths by tag, for each input.
    ``tags``: positions of the fixed values, by structure.
    """
    blocks: dict[OutputTag, list[tuple[int, ...]]] = {}
    for tag in dict.fromkeys(itertools.chain.from_iterable(grouped)):
        groups = [groups[tag] for groups in grouped if tag in groups]
        leaves = groups[0][0].output.leaves
        fixed = set(tags[groups[0][0].output.structure])
        free = [k for k in range(len(leaves)) if k not in fixed]
        together: list[tuple[int, int]] = []
        for result in itertools.chain.from_iterable(groups):
            owners: dict[Draw, int] = {}
            for k in free:
                sources = _list_sources(result.output.leaves[k])
                together += [(owners.setdefault(source, k), k) for source in sources]
        parts = _group_places(free, together)
        several = [members for members in groups if len(members) > 1]
        if several and len(parts) > 1:
            entries = sum(map(len, several)) * len(parts)
            parts = _unite_parts(several, parts) if entries <= MAX_OUTCOMES else [tuple(free)]
        blocks[tag] = parts
    return blocks


def _unite_parts(
    groups: list[list[PathResult]], parts: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Returns ``parts`` after uniting parts that depend on each other across execution paths.

    A part is a tuple of positions in the output. ``groups``: the execution paths of each input.
    """
    whole = [tuple(sorted(itertools.chain.from_iterable(parts)))]
    weighed = [_number_kinds(members, parts) for members in groups]
    if all(_are_independent(kinds, weights) for kinds, weights in weighed):
        return parts
    if len(parts) > _MAX_PARTS:
        return whole
    together = [
        (first[0], second[0])
        for (a, first), (b, second) in itertools.combinations(enumerate(parts), 2)
        if not all(_are_independent(kinds[:, [a, b]], weights) for kinds, weights in weighed)
    ]
    together += [(part[0], place) for part in parts for place in part]
    parts = _group_places(list(whole[0]), together)
    weighed = [_number_kinds(members, parts) for members in groups]
    return parts if all(_are_independent(kinds, w) for kinds, w in weighed) else whole


def _group_places(places: list[int], together: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Groups positions, so that both positions of each pair in ``together`` are in one group."""
    part = {k: [k] for k in places}
    for first, second in together:
        if part[first] is not part[second]:
            part[first] += part[second]
            part.update(dict.fromkeys(part[second], part[first]))
    return list(dict.fromkeys(tuple(sorted(part[k])) for k in places))


def _number_kinds(
    members: list[PathResult], blocks: list[tuple[int, ...]]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Returns an index of the distribution of each block on each path, (paths, blocks), and the
    probabilities of the paths, (paths,).

    Equal indices in a column mean equal distributions of the block.
    """
    columns = []
    for block in blocks:
        known: dict[Hashable, int] = {}
        columns.append([known.setdefault(_make_block_key(b, block), len(known)) for b in members])
    return np.array(columns).T, np.array([float(result.probability) for result in members])


def _make_block_key(result: PathResult, block: tuple[int, ...]) -> Hashable:
    """Returns a hashable form of the distribution of a block of output values on one path.

    ``block``: positions of the values.
    """
    leaves = [result.output.leaves[k] for k in block]
    if not any(isinstance(entry, Symbol) for entry in leaves):
        return tuple(leaves)
    return tuple(
        (key, entry.mass, entry.mixture.pieces, tuple(entry.mixture.atoms.items()))
        for key, entry in make_joint_table(result, leaves).items()
    )


def _are_independent(kinds: NDArray[np.intp], weights: NDArray[np.float64]) -> bool:
    """Whether blocks of output values are independent across execution paths.

    ``kinds``: index of the distribution of each block on each path, (paths, blocks).
    ``weights``: probabilities of the paths.
    """
    counts = kinds.max(axis=0) + 1
    if math.prod(counts.tolist()) > len(kinds):
        return False
    # The blocks are independent if the joint distribution of the indices is a product.
    shares = weights / weights.sum()
    product = np.ones(tuple(counts))
    for axis, kind in enumerate(kinds.T):
        marginal = np.bincount(kind, shares)
        product *= marginal.reshape([-1 if k == axis else 1 for k in range(len(counts))])
    joint = np.zeros_like(product)
    np.add.at(joint, tuple(kinds.T), shares)
    return bool(np.all(np.abs(joint - product) <= _ROUNDING * product))


def _list_sources(entry: Any) -> set[Draw]:
    pieces = entry.list_values() if isinstance(entry, Symbol) else ()
    return {source for cells, _ in pieces for source in cells}


def _combine_paths(members: list[PathResult], blocks: list[tuple[int, ...]]) -> TagOutputs:
    weight = sum((result.probability for result in members), Fraction(0))
    tables: dict[tuple[int, ...], MassTable] = {block: {} for block in blocks}
    for block, table in tables.items():
        alike: dict[Hashable, list[PathResult]] = {}
        for result in members:
            kind = _make_block_key(result, block) if len(members) > 1 else ()
            alike.setdefault(kind, []).append(result)
        for result, *others in alike.values():
            share = sum((each.probability for each in others), result.probability) / weight
            leaves = [result.output.leaves[k] for k in block]
            for key, entry in make_joint_table(result, leaves).items():
                alone = len(members) == 1
                add_entry(table, key, entry if alone else entry.combine_with(share, result.cells))
    return TagOutputs(weight, members[0].cells, tables)
