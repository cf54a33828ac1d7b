"""A decision tree of many columns: CART (Breiman et al. 1984) with Gini impurity, to pure leaves.

The columns are sorted once, for all trees that are grown of some of their rows: 10^5 columns of a
few hundred rows are otherwise sorted again in every node of each tree. Nodes of one depth are split
together, in one pass over all columns. On MovieLens 100K (FCF, FedRec and FedMF-LDP, three
attributes, ten draws) the attack takes 2.2 times as long with scikit-learn's tree, 3.3 times on
8,410 columns, and its mean macro F1 is .513 instead of .518.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compiled import compiled

Table = NDArray[np.float32]
_TIED = np.uint16(1 << 15)
"""Marks a row whose value is that of the row before it."""
_CLOSE = np.float32(1e-7)  # values that are not told apart, as scikit-learn's


@dataclass(frozen=True, slots=True)
class SortedColumns:
    """``values`` (n, d), and of each column its rows by value, ascending: ``order`` (d, n)."""

    values: Table
    order: NDArray[np.uint16]

    @classmethod
    def of(cls, values: Table) -> Self:
        """Sort all columns. InputError for 2^15 rows or more."""
        if len(values) >= int(_TIED):
            raise InputError(
                f"Expected fewer than {int(_TIED):,} rows of a tree, got {len(values):,}. "
                "Give a part of them."
            )
        order = np.empty((values.shape[1], len(values)), dtype=np.uint16)
        _sort(np.ascontiguousarray(values), order)
        return cls(values, order)


@dataclass(frozen=True, slots=True)
class Part:
    """Some columns of the rows in question: ``rows`` (k,) of a sorted table."""

    table: SortedColumns
    rows: NDArray[np.integer[Any]]


class DecisionTree:
    """Grown on columns in ``parts``, of k rows of classes ``codes`` (k,), until leaves are pure.

    Classes are numbered from 0. Of equally good splits the first in an order of the columns that
    ``seed`` draws is taken, a new one at each depth. Thresholds lie halfway between values.
    """

    def __init__(self, parts: Sequence[Part], codes: NDArray[np.int64], seed: int) -> None:
        dice = np.random.default_rng(seed)
        k, classes = len(codes), int(codes.max()) + 1
        order = np.empty((sum(len(part.table.order) for part in parts), k), dtype=np.uint16)
        start = 0
        for part in parts:
            place = np.full(len(part.table.values), -1, dtype=np.int32)
            place[part.rows] = np.arange(k)
            stop = start + len(part.table.order)
            _select(part.table.order, place, order[start:stop])
            start = stop
        node_of = np.zeros(k, dtype=np.int32)  # -1 in leaves
        self._nodes: list[tuple[int, np.float64, int]] = []  # column, threshold, first child
        self._counts = [np.bincount(codes, minlength=classes)]
        start = 0
        while True:
            counts = np.array(self._counts[start:], dtype=np.float64)
            counts[(counts > 0).sum(axis=1) < 2] = 0
            splits = _splits(order, dice.permutation(len(order)), node_of, codes, counts)
            first = len(self._counts)
            child = np.full(k, -1, dtype=np.int32)
            for node, (column, below, above) in enumerate(splits):
                if column < 0:
                    self._nodes.append((-1, np.float64(0), -1))
                    continue
                inside = np.flatnonzero(node_of == node)
                values = _column(parts, int(column))
                low, high = np.float64(values[below]), np.float64(values[above])
                threshold = low / 2 + high / 2
                self._nodes.append((int(column), threshold, len(self._counts)))
                right = values[inside] > threshold
                for side in (~right, right):
                    child[inside[side]] = len(self._counts) - first
                    self._counts.append(np.bincount(codes[inside[side]], minlength=classes))
            if len(self._counts) == first:
                break
            node_of, start = child, first

    def shares(self, parts: Sequence[Part]) -> NDArray[np.float64]:
        """The shares of the classes in the leaf that each row of the same columns comes to."""
        counts = np.array(self._counts, dtype=np.float64)
        at = np.zeros(len(parts[0].rows), dtype=np.int64)
        for node, (column, threshold, child) in enumerate(self._nodes):  # parents come first
            if column >= 0 and (here := at == node).any():
                at[here] = child + (_column(parts, column)[here] > threshold)
        return np.asarray(counts[at] / counts[at].sum(axis=1, keepdims=True))


def _column(parts: Sequence[Part], column: int) -> Table:
    """One column of the rows in question, (k,)."""
    for part in parts:
        if column < part.table.values.shape[1]:
            return np.asarray(part.table.values[part.rows, column])
        column -= part.table.values.shape[1]
    raise AssertionError(f"no column {column}")


@compiled()
def _sort(values: Table, order: NDArray[np.uint16]) -> None:
    n, d = values.shape
    block = np.empty((64, n), dtype=np.float32)
    for start in range(0, d, 64):
        width = min(64, d - start)
        for row in range(n):
            for place in range(width):
                block[place, row] = values[row, start + place]
        for place in range(width):
            column = block[place]
            ranked = np.argsort(column)
            for at in range(n):
                tied = at > 0 and column[ranked[at]] <= column[ranked[at - 1]] + _CLOSE
                order[start + place, at] = np.uint16(ranked[at]) | (_TIED if tied else np.uint16(0))


@compiled()
def _select(order: NDArray[np.uint16], place: NDArray[np.int32], out: NDArray[np.uint16]) -> None:
    """The order of some rows, renamed: a row is tied if all between it and the one before are."""
    for column in range(len(order)):
        at, tied = 0, False
        for entry in order[column]:
            tied = tied and (entry & _TIED) != 0
            row = place[entry & ~_TIED]
            if row >= 0:
                out[column, at] = np.uint16(row) | (_TIED if tied else np.uint16(0))
                at += 1
                tied = True


@compiled()
def _splits(
    order: NDArray[np.uint16],
    visited: NDArray[np.int64],
    node_of: NDArray[np.int32],
    codes: NDArray[np.int64],
    counts: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Of each node its best column and the rows at both sides of the cut, or -1: (nodes, 3).

    ``counts`` (nodes, C) are a node's rows by class, 0 where it is not to be split. The best split
    has the largest sum, over both sides, of squared counts by the side's size.
    """
    nodes, classes = counts.shape
    out = np.full((nodes, 3), -1, dtype=np.int64)
    best = np.full(nodes, -1.0)
    sizes, whole = np.zeros(nodes), np.zeros(nodes)
    for node in range(nodes):
        for code in range(classes):
            sizes[node] += counts[node, code]
            whole[node] += counts[node, code] ** 2
    left, size = np.zeros((nodes, classes)), np.zeros(nodes)
    low, high = np.zeros(nodes), np.zeros(nodes)
    last, group = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    for column in visited:
        left[:] = 0
        size[:] = 0
        low[:] = 0
        for node in range(nodes):
            high[node] = whole[node]
        value = 0  # which of the distinct values this is
        for entry in order[column]:
            if (entry & _TIED) == 0:
                value += 1
            row = np.int64(entry & ~_TIED)
            node = node_of[row]
            if node < 0 or sizes[node] == 0:
                continue
            if size[node] > 0 and group[node] != value:
                gain = low[node] / size[node] + high[node] / (sizes[node] - size[node])
                if gain > best[node]:
                    best[node] = gain
                    out[node, 0], out[node, 1], out[node, 2] = column, last[node], row
            code = codes[row]
            low[node] += 2 * left[node, code] + 1
            high[node] -= 2 * (counts[node, code] - left[node, code]) - 1
            left[node, code] += 1
            size[node] += 1
            last[node], group[node] = row, value
    return out
