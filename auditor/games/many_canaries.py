"""Many canary users of a single training, each with one of two histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.worlds.one_run import FEWEST_CANARIES
from fedrec_auditor.targets.datasets.base import Interactions

CANARIES, QUICK_CANARIES = 1_000, 200
"""Canaries where a plan says nothing, if there are half as many users."""


def designed(
    scope: Scope, interactions: Interactions, count: int, rng: np.random.Generator
) -> Canaries | None:
    """``count`` users whose histories differ by what ``scope`` asks about, in new items.

    Items of its own for each canary, where they do not more than double the catalogue; else as
    many as there are items, of which each canary has two or more, few others the same ones. New
    items are of random genres, and canaries have random attributes of the users, so that what
    knows no items tells canaries apart, too. A user who comes and goes has an empty history in
    the second world. None where all ratings have one value and the scope asks for it.
    """
    data = interactions.ratings.data
    high, low = (float(data.max()), float(data.min())) if len(data) else (1.0, 1.0)
    if scope.is_value and high == low:
        return None
    swapped = scope.adjacency is not Adjacency.ADD_REMOVE and not scope.is_value
    wide = 1 if count * (1 + swapped) <= interactions.n_items else 2
    alone = scope.unit is not Unit.USER  # in one rating, beside others that stay
    first, common = (1, wide - 1) if alone else (wide, 0)
    each = first * (1 + swapped) + common
    pool = count * each if wide == 1 else max(interactions.n_items, each)
    fitting = pool // each
    words = np.concatenate(
        [
            rng.permutation(pool)[: fitting * each].reshape(fitting, each)
            for _ in range(-(-count // fitting))
        ]
    )[:count]
    ours, theirs = words[:, :first], words[:, first : each - common]
    stays = words[:, each - common :]
    text = f"{first} new items" if first > 1 else "a new item"
    if scope.is_value:
        second, names = ours, (f"a new item {high:g}", f"it {low:g}")
    elif swapped:
        second, names = theirs, (text, "others" if first > 1 else "another one")
    else:
        second, names = theirs, (text, "nothing")
    if common:
        names = (f"{names[0]} beside another", f"{names[1]} beside it")
    grown, old = _with_items(interactions, pool, rng), interactions.n_items
    history = [
        _rated(
            old + np.concatenate([chosen, stays], axis=1),
            np.repeat([value, high], [chosen.shape[1], common]),
            grown.n_items,
        )
        for chosen, value in ((ours, high), (second, low if scope.is_value else high))
    ]
    ratings = sparse.csr_array(sparse.vstack(history, format="csr"))
    times = grown.timestamps
    profiles = replace(
        grown,
        users=np.arange(2 * count),
        ratings=ratings,
        timestamps=None if times is None else np.full(ratings.nnz, times.max(initial=0)),
        attributes={
            name: replace(held, codes=np.tile(rng.choice(held.codes, count), 2))
            for name, held in grown.attributes.items()
        },
    )
    told = f"a canary rated {names[0]}", f"it rated {names[1]}"
    return Canaries(names=told, profiles=profiles, crowd=grown, known=old)


def default_canaries(interactions: Interactions, quick: bool) -> int:
    """How many canaries a training on these data has: at most twice as many as users."""
    most = QUICK_CANARIES if quick else CANARIES
    return max(FEWEST_CANARIES, min(most, 2 * interactions.n_users))


def _rated(items: NDArray[np.intp], values: NDArray[Any], width: int) -> sparse.csr_array:
    """Histories (m, ``width``) in which ``items`` (m, k) have ``values`` (k,)."""
    count, each = items.shape
    numbers = np.tile(values.astype(np.float32), count), items.ravel(), np.arange(count + 1) * each
    made: Any = sparse.csr_array(numbers, shape=(count, width))
    made.sort_indices()
    return sparse.csr_array(made)


def _with_items(interactions: Interactions, more: int, rng: np.random.Generator) -> Interactions:
    """The interactions with new items at the end, each of a random half of the genres."""
    table, genres, titles = interactions.ratings, interactions.genres, interactions.titles
    width = interactions.n_items + more
    numbers = table.data, table.indices, table.indptr
    if genres is not None:
        genres = np.concatenate([genres, rng.random((more, genres.shape[1])) < 0.5])
    last = interactions.items.max(initial=-1)
    return replace(
        interactions,
        items=np.append(interactions.items, last + 1 + np.arange(more)),
        ratings=sparse.csr_array(numbers, shape=(interactions.n_users, width)),
        genres=genres,
        titles=(*titles, *(f"new item {k + 1}" for k in range(more))) if titles else (),
    )
