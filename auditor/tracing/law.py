"""The distribution of a randomizer's answers, input by input, as its paths add up to it.

Answers that have a tag in common (their structure, and the leaves that no open coin touches) share
blocks of leaves: within a tag the blocks are independent, and a block has a table of its values.
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

from fedrec_auditor.auditor.tracing.answers import close, leaf, read
from fedrec_auditor.auditor.tracing.lines import Cells
from fedrec_auditor.auditor.tracing.paths import Mass, Source
from fedrec_auditor.auditor.tracing.run import AllPaths, Branch
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.tracing.tables import (
    HOLE,
    MOST_ENTRIES,
    AnswerLaw,
    Key,
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

# Relative error of a probability that is a product; and blocks of which each pair is looked at.
_ROUNDING, _MOST_PARTS = 1e-12, 16

Tag = tuple[Hashable, Key]
"""A structure, and the leaves of it that no open coin touches."""


@dataclass(frozen=True, slots=True)
class TagGroup:
    """Answers of one tag: their mass, and the table of each block of leaves, given the tag.

    ``atoms`` are the keys of a block that have a probability for any input, where others have
    densities: there a density counts nothing, for it is of a measure without these points.
    """

    weight: Mass
    cells: Cells
    tables: dict[tuple[int, ...], Table]
    atoms: dict[tuple[int, ...], Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Law:
    """The groups of one input, by tag; ``fixed`` are the places of a structure that tags hold."""

    groups: dict[Tag, TagGroup]
    fixed: dict[Hashable, tuple[int, ...]]
    paths: int
    left_out: int = 0

    @property
    def cut(self) -> bool:
        """Whether answers are left out whose masses doubles do not hold."""
        tables = (table for group in self.groups.values() for table in group.tables.values())
        return any(entry.cut for table in tables for entry in table.values())

    def log_prob(self, outputs: Any) -> Any:
        """Log-probabilities, or densities, of one answer, or of those along the first axis."""
        if not (isinstance(outputs, np.ndarray) and outputs.ndim):
            return self.log_probs([outputs])[0]
        if not len(outputs):
            return np.empty(0)
        return self._of_rows(read(outputs[0]).structure, outputs.reshape(len(outputs), -1))

    def log_probs(self, answers: Sequence[Any]) -> NDArray[np.float64]:
        """Log-probabilities, or densities, of many answers, (n,)."""
        found = np.empty(len(answers))
        places: dict[Hashable, list[int]] = {}
        every = [read(answer) for answer in answers]
        for place, answer in enumerate(every):
            places.setdefault(answer.structure, []).append(place)
        for structure, here in places.items():
            found[here] = self._of_rows(structure, [every[place].leaves for place in here])
        return found

    def _of_rows(self, structure: Hashable, rows: Any) -> NDArray[np.float64]:
        columns = list(
            rows.T if isinstance(rows, np.ndarray) else map(np.asarray, zip(*rows, strict=True))
        )
        fixed = self.fixed.get(structure)
        found = np.full(len(rows), -np.inf)
        if fixed is None:
            return found
        places: dict[Key, list[int]] = {}
        tags = zip(*(columns[place].tolist() for place in fixed), strict=True)
        for row, tag in enumerate(tags) if fixed else ((row, ()) for row in range(len(rows))):
            places.setdefault(tuple(map(leaf, tag)), []).append(row)
        for tag, here in places.items():
            group = self.groups.get((structure, tag)) or self._near(structure, tag)
            if group is None:
                continue
            found[here] = log(group.weight)
            for block, table in group.tables.items():
                of_block = [columns[k][here] for k in block]
                found[here] += table_log_prob(table, group.atoms[block], of_block)
        return found

    @property
    def atoms(self) -> list[float]:
        """The numbers that have a probability for any input, where others have densities."""
        group = self.groups.get(("value", ()))
        tables = [] if group is None else group.atoms.values()
        return [number for table in tables for number in numbers_of(table, 0)]

    def listed(self, most: int) -> dict[Hashable, AnswerLaw] | None:
        """The mass of each answer, leaves in order; None for densities, or more than ``most``."""
        answers: dict[Hashable, AnswerLaw] = {}
        for (structure, tag), group in self.groups.items():
            tables = group.tables.values()
            most -= math.prod(map(len, tables))
            if most < 0 or any(HOLE in key for table in tables for key in table):
                return None
            places = *self.fixed[structure], *itertools.chain.from_iterable(group.tables)
            order = np.argsort(places).tolist()
            for key, entry in product(tables).items():
                leaves = *tag, *key
                answer = structure, tuple(leaves[k] for k in order)
                cells = {**group.cells, **entry.cells}
                answers[answer] = AnswerLaw(group.weight * entry.mass, cells, cut=entry.cut)
        return answers

    def _near(self, structure: Hashable, tag: Key) -> TagGroup | None:
        """The group of a tag that differs by rounding."""
        for (kind, known), group in self.groups.items():
            if kind == structure and all(map(close, known, tag)):
                return group
        return None


def laws_of(inputs: Sequence[AllPaths]) -> list[Law]:
    """The laws of several inputs, with the same tags and blocks; NotTraced if they are too many."""
    fixed: dict[Hashable, set[int]] = {}
    for branch in (branch for ran in inputs for branch in ran.branches):
        structure, leaves = branch.answer
        plain = {k for k, entry in enumerate(leaves) if not isinstance(entry, Symbol)}
        fixed[structure] = fixed.get(structure, plain) & plain
    tags = {structure: tuple(sorted(places)) for structure, places in fixed.items()}
    grouped: list[dict[Tag, list[Branch]]] = []
    for ran in inputs:
        groups: dict[Tag, list[Branch]] = {}
        for branch in ran.branches:
            structure, leaves = branch.answer
            tag = structure, tuple(leaves[k] for k in tags[structure])
            groups.setdefault(tag, []).append(branch)
        grouped.append(groups)
    blocks = _blocks(grouped, tags)
    laws = [
        Law(
            {tag: _group(members, blocks[tag]) for tag, members in groups.items()},
            tags,
            len(ran.branches),
            ran.left_out,
        )
        for ran, groups in zip(inputs, grouped, strict=True)
    ]
    for tag, places in blocks.items():
        known = [law.groups[tag] for law in laws if tag in law.groups]
        for block in places:
            tables = [group.tables[block] for group in known]
            check_ties(tables)
            put_points_on_lattices(tables)
            atoms = atoms_of(tables)
            for group in known:
                group.atoms[block] = atoms
    return laws


def _blocks(
    grouped: list[dict[Tag, list[Branch]]], tags: dict[Hashable, tuple[int, ...]]
) -> dict[Tag, list[tuple[int, ...]]]:
    """For each tag the places that are not fixed, those that depend on each other together."""
    blocks: dict[Tag, list[tuple[int, ...]]] = {}
    for tag in dict.fromkeys(itertools.chain.from_iterable(grouped)):
        groups = [groups[tag] for groups in grouped if tag in groups]
        leaves = groups[0][0].answer.leaves
        fixed = set(tags[groups[0][0].answer.structure])
        free = [k for k in range(len(leaves)) if k not in fixed]
        together: list[tuple[int, int]] = []
        for branch in itertools.chain.from_iterable(groups):
            owners: dict[Source, int] = {}
            for k in free:
                sources = _open_sources(branch.answer.leaves[k])
                together += [(owners.setdefault(source, k), k) for source in sources]
        parts = _parts(free, together)
        several = [members for members in groups if len(members) > 1]
        if several and len(parts) > 1:
            entries = sum(map(len, several)) * len(parts)
            parts = _independent_parts(several, parts) if entries <= MOST_ENTRIES else [tuple(free)]
        blocks[tag] = parts
    return blocks


def _independent_parts(
    groups: list[list[Branch]], parts: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The parts, those together that depend on each other by what the paths decide."""
    whole = [tuple(sorted(itertools.chain.from_iterable(parts)))]
    weighed = [_kinds(members, parts) for members in groups]
    if all(_independent(kinds, weights) for kinds, weights in weighed):
        return parts
    if len(parts) > _MOST_PARTS:
        return whole
    together = [
        (one[0], other[0])
        for (a, one), (b, other) in itertools.combinations(enumerate(parts), 2)
        if not all(_independent(kinds[:, [a, b]], weights) for kinds, weights in weighed)
    ]
    together += [(part[0], place) for part in parts for place in part]
    parts = _parts(list(whole[0]), together)
    weighed = [_kinds(members, parts) for members in groups]
    return parts if all(_independent(kinds, w) for kinds, w in weighed) else whole


def _parts(places: list[int], together: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The places in parts, pairs that are together in the same one."""
    part = {k: [k] for k in places}
    for one, other in together:
        if part[one] is not part[other]:
            part[one] += part[other]
            part.update(dict.fromkeys(part[other], part[one]))
    return list(dict.fromkeys(tuple(sorted(part[k])) for k in places))


def _kinds(
    members: list[Branch], blocks: list[tuple[int, ...]]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Equal numbers where paths give a block the same distribution, (paths, blocks); weights."""
    columns = []
    for block in blocks:
        known: dict[Hashable, int] = {}
        columns.append([known.setdefault(_kind(b, block), len(known)) for b in members])
    return np.array(columns).T, np.array([float(branch.weight) for branch in members])


def _kind(branch: Branch, block: tuple[int, ...]) -> Hashable:
    """The distribution of a block of leaves on a path, to be compared."""
    leaves = [branch.answer.leaves[k] for k in block]
    if not any(isinstance(entry, Symbol) for entry in leaves):
        return tuple(leaves)
    return tuple(
        (key, entry.mass, entry.mixture.pieces, tuple(entry.mixture.points.items()))
        for key, entry in table_of(branch, leaves).items()
    )


def _independent(kinds: NDArray[np.intp], weights: NDArray[np.float64]) -> bool:
    """Whether blocks of these kinds are independent: all combinations are there, as products."""
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
            for key, entry in table_of(branch, [branch.answer.leaves[k] for k in block]).items():
                alone = len(members) == 1
                add(table, key, entry if alone else entry.beside(share, branch.cells))
    return TagGroup(weight, members[0].cells, tables)
