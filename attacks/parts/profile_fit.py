"""How well models fit whole profiles: what they tell of whether a known user was trained on.

A model with a row v_i an item is read without knowing how it was trained. For a profile y (0 or 1
of every item) the vector that fits it best by least squares is x = (V'V + c I)^-1 V'y. From it
follow

1. the share of y that V explains, y'Vx / y'y;
2. the share of the profile's ratings that a vector fitted to them alone explains;
3. where the model has rows of users, the best cosine of y and what any of them predicts.

Where similarities of items are published, it is the mean similarity within the profile. None of
them is compared with a threshold: how each differs between members and others is learned from
reference models. Source: least squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.parts.item_steps import (
    item_table,
    last_model,
    similarities,
    user_table,
)
from fedrec_auditor.targets.transcript import View

Floats = NDArray[np.float64]

_RIDGE = 0.01  # of the mean square of a row
_TINY = 1e-12
_NUMBERS = 2**22  # of one block of Gram matrices: 32 MiB


def reads(view: View) -> bool:
    """Whether the last model that is seen has a row an item, or similarities of items."""
    model, items = last_model(view), view.public.n_items
    return item_table(model, items) is not None or similarities(model, items) is not None


def fits(view: View, profiles: sparse.csr_array) -> Floats:
    """What the models of a view tell of ``profiles`` (n, M) of ratings: (n, f), f by the view.

    The view must be one that ``reads`` says it reads. Memory: some arrays of n times the users of
    the model, and 32 MiB.
    """
    model, items = last_model(view), view.public.n_items
    held = profiles.astype(np.bool_).astype(np.float64)
    table = item_table(model, items)
    if table is None:
        similarity = similarities(model, items)
        assert similarity is not None, "refused"
        pairs = np.asarray((held @ similarity).multiply(held).sum(axis=1)).ravel()
        return np.asarray(pairs / np.maximum(held.sum(axis=1), 1))[:, None]
    columns = [_explained(table, held), _rated(table, profiles)]
    users = user_table(model, table)
    if users is not None:
        columns.append(_nearest(table, users, held))
    return np.stack(columns, axis=1)


def _vectors(table: Floats, held: sparse.csr_array) -> Floats:
    """x of each profile: (n, d)."""
    gram = table.T @ table
    gram += (_RIDGE * np.trace(gram) / len(gram) + _TINY) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, np.asarray(held @ table).T).T)


def _explained(table: Floats, held: sparse.csr_array) -> Floats:
    along = np.asarray(held @ table)
    share = np.einsum("nd,nd->n", along, _vectors(table, held))
    return np.asarray(share / np.maximum(held.sum(axis=1), 1))


def _rated(table: Floats, profiles: sparse.csr_array) -> Floats:
    n, width = profiles.shape[0], table.shape[1]
    squares = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
    ridge = _RIDGE * float(np.mean(np.einsum("md,md->m", table, table))) + _TINY
    ratings = profiles.astype(np.float64)
    held = profiles.astype(np.bool_).astype(np.float64)
    counts = np.diff(profiles.indptr)
    along, explained = np.asarray(ratings @ table), np.zeros(n)
    step = max(1, _NUMBERS // width**2)
    for start in range(0, n, step):
        some = slice(start, start + step)
        gram = np.asarray(held[some] @ squares).reshape(-1, width, width)
        gram += (ridge * np.maximum(counts[some], 1))[:, None, None] * np.eye(width)
        vectors = np.linalg.solve(gram, along[some][:, :, None])[:, :, 0]
        explained[some] = np.einsum("nd,nd->n", vectors, along[some])
    squared = np.asarray(ratings.multiply(ratings).sum(axis=1))
    return np.asarray(explained / np.maximum(squared, _TINY))


def _nearest(table: Floats, users: Floats, held: sparse.csr_array) -> Floats:
    """Largest cosine of a profile and what a row of users predicts of all items."""
    gram = table.T @ table
    lengths = np.sqrt(np.maximum(np.einsum("nd,de,ne->n", users, gram, users), _TINY))
    scores = np.asarray(held @ table) @ (users / lengths[:, None]).T
    return np.asarray(scores.max(axis=1) / np.sqrt(np.maximum(held.sum(axis=1), 1)))
