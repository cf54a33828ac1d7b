"""The order of the rows of messages: which item each is, by users whose items are known.

An order is held against what users met by

    z = (T - mean) / deviation,  T = sum over users u of S(u, items of u),

where S is the evidence that readers find in a user's messages, in standard units of that user, and
mean and deviation are those of T over all permutations of the users (with few of them, of the
rows): popularity alone supports no order, and noise none. An order is fitted as the assignment of
rows to items of the largest T, and counts only if users to whom it was not fitted bear it out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DEVIATIONS = 6.0
"""The z from which an order counts."""
SPECIAL = 8
"""Rows for padding, masks and unknown items, at most."""
SHIFTS = sorted(range(-SPECIAL, SPECIAL + 1), key=abs)
"""How far rows may stand from where they are looked for, the nearest first."""
_BY_USERS = 12  # users from which these are permuted, not rows
_FOLDS, _KEPT = 8, 0.8
"""Groups of users of whom each is left out once, and the share of z that they must keep."""
_UNEVEN = 0.8  # deviations of items' agreement over its mean, at most
_MATCHED = 2048  # rows of which a permutation is fitted, at most


def in_standard_units(evidence: Floats, met: sparse.csr_array) -> tuple[Floats, sparse.csr_array]:
    """Evidence (n, R), and items met (n, M), of users who have both; of mean 0 and deviation 1."""
    centred = evidence - evidence.mean(axis=1, keepdims=True)
    size = centred.std(axis=1, keepdims=True)
    some = np.flatnonzero((size[:, 0] > 0) & (np.diff(met.indptr) > 0))
    return centred[some] / size[some], sparse.csr_array(met[some])


def support(evidence: Floats, met: sparse.csr_array, order: Ints) -> float:
    """Deviations from its mean over permutations of what messages say of their senders' items."""
    if len(evidence) >= _BY_USERS:
        return _of_users(_agreement(evidence, met, order))
    here, placed = np.flatnonzero(order >= 0), np.zeros(evidence.shape)
    placed[:, order[here]] = met[:, here].toarray()
    placed -= placed.mean(axis=1, keepdims=True)
    squares = ((evidence @ evidence.T) * (placed @ placed.T)).sum() / (evidence.shape[1] - 1)
    return abs(float((evidence * placed).sum())) / np.sqrt(squares) if squares > 0 else 0.0


def uniform_support(evidence: Floats, met: sparse.csr_array, order: Ints) -> tuple[bool, float]:
    """Deviations of agreement from its mean over histories of the same sizes, of any items.

    And whether items share it: in many a wrong order some stand where they should.
    """
    here, share = np.flatnonzero(order >= 0), np.diff(met.indptr)[:, None] / met.shape[1]
    size = np.sqrt(max((share * (1 - share)).sum(), 1e-12))
    agreement = (evidence[:, order[here]] * (met[:, here].toarray() - share)).sum(axis=0) / size
    mean, by_luck = float(agreement.mean()), 1 + 3 * np.sqrt(2 / len(here))
    return agreement.var() <= by_luck + (_UNEVEN * mean) ** 2, mean * np.sqrt(len(here))


def dependence(messages: Floats, met: NDArray[np.bool_]) -> float:
    """Deviations by which messages (n, d) are alike if histories (n, M) of any items are.

    In whatever order their numbers stand, and whatever they say of the sizes of histories.
    """
    alike = []
    for each in (messages - messages.mean(axis=0), met - met.mean(axis=1, keepdims=True)):
        each = each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12)
        alike.append((each @ each.T)[np.triu_indices(len(each), 1)])
    product = alike[0] * alike[1]
    return float(product.sum() / np.sqrt((product**2).sum())) if product.any() else 0.0


def complete(order: Ints, rows: int) -> Ints:
    """An order of which items outside of the rows have those that are left, as far as there are."""
    outside = np.flatnonzero((order < 0) | (order >= rows))
    left = np.setdiff1d(np.arange(rows), order)[: len(outside)]
    order = order.copy()
    order[outside] = np.pad(left, (0, len(outside) - len(left)), constant_values=-1)
    return order


def _of_users(agreement: Floats) -> float:
    """Agreement of each user's evidence (n,) with the items of each user (n,), added: (n, n)."""
    rest = agreement - agreement.mean(axis=0) - agreement.mean(axis=1, keepdims=True)
    rest += agreement.mean()
    spread = np.sqrt((rest**2).sum() / (len(rest) - 1))
    told = spread > 1e-9 * abs(agreement).max(initial=0)
    return abs(float(np.trace(rest))) / spread if told else 0.0


def fitted(evidence: Floats, met: sparse.csr_array) -> tuple[Ints, float] | None:
    """The order that fits best, and its support by users who are left out of the fit.

    None where these do not bear it out: they support it by less than ``_KEPT`` of what those do by
    whom it is fitted, which a permutation of so many rows overdoes.
    """
    count, rows = evidence.shape
    if count < _BY_USERS or max(rows, met.shape[1]) > _MATCHED:
        return None
    items, left_out = met.toarray(), np.zeros((count, count))
    for fold in range(_FOLDS):
        out = np.arange(count) % _FOLDS == fold
        order = _assigned(evidence[~out], items[~out])
        left_out[out] = _agreement(evidence[out], items, order)
    order = _assigned(evidence, items)
    support, most = _of_users(left_out), _of_users(_agreement(evidence, items, order))
    return (order, support) if support >= max(DEVIATIONS, _KEPT * most) else None


def _agreement(evidence: Floats, met: Any, order: Ints) -> Floats:
    """Evidence of each user (n,) on the items that each of others (m,) met, added: (n, m)."""
    here = np.flatnonzero(order >= 0)
    return np.asarray((met[:, here] @ evidence[:, order[here]].T).T)


def _assigned(evidence: Floats, items: Floats) -> Ints:
    """The row of each item (M,), -1 of none, such that most is said of what users met."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(evidence.T @ items, maximize=True)
    order = np.full(items.shape[1], -1)
    order[columns] = rows
    return order
