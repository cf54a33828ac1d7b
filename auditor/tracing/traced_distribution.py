"""Output distribution of a randomizer per input, added up over its paths.

A tag is the structure of an output with its fixed leaves, which no open draw changes. Outputs that
share a tag are divided into blocks of leaves. Within a tag the blocks are independent, and each
block has a table of its values.
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

from fedrec_auditor.auditor.tracing.affine_noise import Cells
from fedrec_auditor.auditor.tracing.outputs import close, leaf, read
from fedrec_auditor.auditor.tracing.paths import Mass, Source
from fedrec_auditor.auditor.tracing.run import AllPaths, Branch
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.tracing.tables import (
    HOLE,
    MAX_ENTRIES,
    Key,
    OutputMass,
    Table,
    add,
    atoms_of,
    check_ties,
    log,
    numbers_of,
    product,
    put_points_on_lattices,
    table_log_prob,
    table_of,
)

# Relative error of a product of probabilities; maximum number of blocks to compare in pairs.
_ROUNDING, _MAX_PARTS = 1e-12, 16

Tag = tuple[Hashable, Key]
"""A structure, and those of its leaves that no open draw changes."""


@dataclass(frozen=True, slots=True)
class TagGroup:
    """The outputs of one tag.

    - ``weight``: probability of the tag.
    - ``cells``: cells of the first path that leads to the tag.
    - ``tables``: the distribution of each block of leaves, given the tag.
    - ``atoms``: for a block with densities, the keys that have a positive probability under any
      input. A density is ignored there, because it is relative to a measure without these points.
    """

    weight: Mass
    cells: Cells
    tables: dict[tuple[int, ...], Table]
    atoms: dict[tuple[int, ...], Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TracedDist:
    """Output distribution of one input.

    - ``groups``: the outputs of each tag.
    - ``fixed``: per structure, the positions of the leaves that tags hold.
    - ``paths``: number of paths that were followed to their end.
    - ``left_out``: number of paths that were too rare to follow.
    """

    groups: dict[Tag, TagGroup]
    fixed: dict[Hashable, tuple[int, ...]]
    paths: int
    left_out: int = 0

    @property
    def cut(self) -> bool:
        """Whether outputs whose probabilities are below the range of doubles are left out."""
        tables = (table for group in self.groups.values() for table in group.tables.values())
        return any(entry.cut for table in tables for entry in table.values())

    def log_prob(self, outputs: Any) -> Any:
        """Log-probability or log-density of one output, or of the outputs along the first axis."""
        if not (isinstance(outputs, np.ndarray) and outputs.ndim):
            return self.log_probs([outputs])[0]
        if not len(outputs):
            return np.empty(0)
        return self._of_rows(read(outputs[0]).structure, outputs.reshape(len(outputs), -1))

    def log_probs(self, outputs: Sequence[Any]) -> NDArray[np.float64]:
        """Log-probabilities or log-densities of outputs, (n,)."""
        logs = np.empty(len(outputs))
        places: dict[Hashable, list[int]] = {}
        every = [read(output) for output in outputs]
        for place, output in enumerate(every):
            places.setdefault(output.structure, []).append(place)
        for structure, here in places.items():
            logs[here] = self._of_rows(structure, [every[place].leaves for place in here])
        return logs

    def _of_rows(self, structure: Hashable, rows: Any) -> NDArray[np.float64]:
        columns = list(
            rows.T if isinstance(rows, np.ndarray) else map(np.asarray, zip(*rows, strict=True))
        )
        fixed = self.fixed.get(structure)
        logs = np.full(len(rows), -np.inf)
        if fixed is None:
            return logs
        places: dict[Key, list[int]] = {}
        tags = zip(*(columns[place].tolist() for place in fixed), strict=True)
        for row, tag in enumerate(tags) if fixed else ((row, ()) for row in range(len(rows))):
            places.setdefault(tuple(map(leaf, tag)), []).append(row)
        for tag, here in places.items():
            group = self.groups.get((structure, tag)) or self._near(structure, tag)
            if group is None:
                continue
            logs[here] = log(group.weight)
            for block, table in group.tables.items():
                of_block = [columns[k][here] for k in block]
                logs[here] += table_log_prob(table, group.atoms[block], of_block)
        return logs

    @property
    def atoms(self) -> list[float]:
        """Numbers with a positive probability under any input, in a distribution with densities."""
        group = self.groups.get(("value", ()))
        tables = [] if group is None else group.atoms.values()
        return [number for table in tables for number in numbers_of(table, 0)]

    def listed(self, max_size: int) -> dict[Hashable, OutputMass] | None:
        """The mass of each output; None if there are densities, or more than ``max_size`` outputs.

        Keys are (structure, leaves in order).
        """
        outputs: dict[Hashable, OutputMass] = {}
        for (structure, tag), group in self.groups.items():
            tables = group.tables.values()
            max_size -= math.prod(map(len, tables))
            if max_size < 0 or any(HOLE in key for table in tables for key in table):
                return None
            places = *self.fixed[structure], *itertools.chain.from_iterable(group.tables)
            order = np.argsort(places).tolist()
            for key, entry in product(tables).items():
                leaves = *tag, *key
                output = structure, tuple(leaves[k] for k in order)
                cells = {**group.cells, **entry.cells}
                outputs[output] = OutputMass(group.weight * entry.mass, cells, cut=entry.cut)
        return outputs

    def _near(self, structure: Hashable, tag: Key) -> TagGroup | None:
        """The group of a tag that differs by rounding alone."""
        for (kind, known), group in self.groups.items():
            if kind == structure and all(map(close, known, tag)):
                return group
        return None


def distributions_of(inputs: Sequence[AllPaths]) -> list[TracedDist]:
    """Output distributions of several inputs, with common tags and blocks.

    Raises NotTraced if a distribution has too many entries.
    """
    fixed: dict[Hashable, set[int]] = {}
    for branch in (branch for ran in inputs for branch in ran.branches):
        structure, leaves = branch.output
        plain = {k for k, entry in enumerate(leaves) if not isinstance(entry, Symbol)}
        fixed[structure] = fixed.get(structure, plain) & plain
    tags = {structure: tuple(sorted(places)) for structure, places in fixed.items()}
    grouped: list[dict[Tag, list[Branch]]] = []
    for ran in inputs:
        groups: dict[Tag, list[Branch]] = {}
        for branch in ran.branches:
            structure, leaves = branch.output
            tag = structure, tuple(leaves[k] for k in tags[structure])
            groups.setdefault(tag, []).append(branch)
        grouped.append(groups)
    blocks = _blocks(grouped, tags)
    dists = [
        TracedDist(
            {tag: _group(members, blocks[tag]) for tag, members in groups.items()},
            tags,
            len(ran.branches),
            ran.left_out,
        )
        for ran, groups in zip(inputs, grouped, strict=True)
    ]
    for tag, places in blocks.items():
        known = [dist.groups[tag] for dist in dists if tag in dist.groups]
        for block in places:
            tables = [group.tables[block] for group in known]
            check_ties(tables)
            put_points_on_lattices(tables)
            atoms = atoms_of(tables)
            for group in known:
                group.atoms[block] = atoms
    return dists


def _blocks(
    grouped: list[dict[Tag, list[Branch]]], tags: dict[Hashable, tuple[int, ...]]
) -> dict[Tag, list[tuple[int, ...]]]:
    """Per tag, the positions of leaves that are not fixed, in blocks of dependent leaves."""
    blocks: dict[Tag, list[tuple[int, ...]]] = {}
    for tag in dict.fromkeys(itertools.chain.from_iterable(grouped)):
        groups = [groups[tag] for groups in grouped if tag in groups]
        leaves = groups[0][0].output.leaves
        fixed = set(tags[groups[0][0].output.structure])
        free = [k for k in range(len(leaves)) if k not in fixed]
        together: list[tuple[int, int]] = []
        for branch in itertools.chain.from_iterable(groups):
            owners: dict[Source, int] = {}
            for k in free:
                sources = _open_sources(branch.output.leaves[k])
                together += [(owners.setdefault(source, k), k) for source in sources]
        parts = _parts(free, together)
        several = [members for members in groups if len(members) > 1]
        if several and len(parts) > 1:
            entries = sum(map(len, several)) * len(parts)
            parts = _independent_parts(several, parts) if entries <= MAX_ENTRIES else [tuple(free)]
        blocks[tag] = parts
    return blocks


def _independent_parts(
    groups: list[list[Branch]], parts: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The parts; parts that depend on each other through decisions of the paths are united."""
    whole = [tuple(sorted(itertools.chain.from_iterable(parts)))]
    weighed = [_kinds(members, parts) for members in groups]
    if all(_independent(kinds, weights) for kinds, weights in weighed):
        return parts
    if len(parts) > _MAX_PARTS:
        return whole
    together = [
        (first[0], second[0])
        for (a, first), (b, second) in itertools.combinations(enumerate(parts), 2)
        if not all(_independent(kinds[:, [a, b]], weights) for kinds, weights in weighed)
    ]
    together += [(part[0], place) for part in parts for place in part]
    parts = _parts(list(whole[0]), together)
    weighed = [_kinds(members, parts) for members in groups]
    return parts if all(_independent(kinds, w) for kinds, w in weighed) else whole


def _parts(places: list[int], together: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The positions in groups; the positions of each pair in ``together`` share a group."""
    part = {k: [k] for k in places}
    for first, second in together:
        if part[first] is not part[second]:
            part[first] += part[second]
            part.update(dict.fromkeys(part[second], part[first]))
    return list(dict.fromkeys(tuple(sorted(part[k])) for k in places))


def _kinds(
    members: list[Branch], blocks: list[tuple[int, ...]]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Kinds (paths, blocks), equal if paths give a block one distribution; weights of paths."""
    columns = []
    for block in blocks:
        known: dict[Hashable, int] = {}
        columns.append([known.setdefault(_kind(b, block), len(known)) for b in members])
    return np.array(columns).T, np.array([float(branch.weight) for branch in members])


def _kind(branch: Branch, block: tuple[int, ...]) -> Hashable:
    """A comparable form of the distribution of a block of leaves on a path."""
    leaves = [branch.output.leaves[k] for k in block]
    if not any(isinstance(entry, Symbol) for entry in leaves):
        return tuple(leaves)
    return tuple(
        (key, entry.mass, entry.mixture.pieces, tuple(entry.mixture.points.items()))
        for key, entry in table_of(branch, leaves).items()
    )


def _independent(kinds: NDArray[np.intp], weights: NDArray[np.float64]) -> bool:
    """Whether blocks of these kinds are independent: the joint distribution is a product."""
    counts = kinds.max(axis=0) + 1
    if math.prod(counts.tolist()) > len(kinds):
        return False
    shares = weights / weights.sum()
    product = np.ones(tuple(counts))
    for axis, kind in enumerate(kinds.T):
        marginal = np.bincount(kind, shares)
        product *= marginal.reshape([-1 if k == axis else 1 for k in range(len(counts))])
    joint = np.zeros_like(product)
    np.add.at(joint, tuple(kinds.T), shares)
    return bool(np.all(np.abs(joint - product) <= _ROUNDING * product))


def _open_sources(entry: Any) -> set[Source]:
    if not isinstance(entry, Symbol):
        return set()
    return {source for cells, _ in entry.pieces() for source in cells}


def _group(members: list[Branch], blocks: list[tuple[int, ...]]) -> TagGroup:
    weight = sum((branch.weight for branch in members), Fraction(0))
    tables: dict[tuple[int, ...], Table] = {block: {} for block in blocks}
    for block, table in tables.items():
        alike: dict[Hashable, list[Branch]] = {}
        for branch in members:
            kind = _kind(branch, block) if len(members) > 1 else ()
            alike.setdefault(kind, []).append(branch)
        for branch, *others in alike.values():
            share = sum((each.weight for each in others), branch.weight) / weight
            for key, entry in table_of(branch, [branch.output.leaves[k] for k in block]).items():
                alone = len(members) == 1
                add(table, key, entry if alone else entry.beside(share, branch.cells))
    return TagGroup(weight, members[0].cells, tables)
