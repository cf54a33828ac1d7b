"""How well models fit whole profiles: what they tell of whether a known user was trained on.

A model with a row v_i an item is read without knowing how it was trained. For a profile y (0 or 1
of every item) the vector that fits it best by least squares is x = (V'V + c I)^-1 V'y. From it
follow

1. the share of y that V explains, y'Vx / y'y;
2. the share of the profile's ratings that a vector fitted to them alone explains;
3. the mean logarithm of the lengths of the profile's rows;
4. where the model has rows of users, the best cosine of y and what any of them predicts;
5. where models follow each other, for each step D the inner product with the gradient of the loss
   of the profile, sum_i (y_i - x.v_i) x.D_i, summed over rounds: whoever took part moved the model
   along it. Of messages that a vantage sees but cannot link, D is what they add up to; of parties'
   messages the one of the largest product counts.

Where similarities of items are published, it is the mean similarity within the profile. None of
them is compared with a threshold: how each differs between members and others is learned from
reference models. Source: least squares and the matched filter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.parts.item_steps import (
    item_steps,
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
    columns = [_explained(table, held), _rated(table, profiles), _lengths(table, held)]
    users = user_table(model, table)
    if users is not None:
        columns.append(_nearest(table, users, held))
    moved = _filtered(view, held)
    if moved is not None:
        columns.append(moved)
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


def _lengths(table: Floats, held: sparse.csr_array) -> Floats:
    lengths = np.log(np.linalg.norm(table, axis=1) + _TINY)
    return np.asarray(held @ (lengths - lengths.mean()) / np.maximum(held.sum(axis=1), 1))


def _nearest(table: Floats, users: Floats, held: sparse.csr_array) -> Floats:
    """Largest cosine of a profile and what a row of users predicts of all items."""
    gram = table.T @ table
    lengths = np.sqrt(np.maximum(np.einsum("nd,de,ne->n", users, gram, users), _TINY))
    scores = np.asarray(held @ table) @ (users / lengths[:, None]).T
    return np.asarray(scores.max(axis=1) / np.sqrt(np.maximum(held.sum(axis=1), 1)))


def _filtered(view: View, held: sparse.csr_array) -> Floats | None:
    """Matched filter over all steps, of the largest source; None where no step is seen."""
    total: Floats | None = None
    for table, sources in item_steps(view):
        vectors = _vectors(table, held)
        inner = vectors @ table.T @ np.stack(sources)
        own = np.stack([np.asarray(held @ source) for source in sources])
        products = np.einsum("snd,nd->ns", own - inner, vectors)
        total = products if total is None or total.shape != products.shape else total + products
    return None if total is None else np.asarray(total.max(axis=1))
