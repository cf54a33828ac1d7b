"""The one-run game: many canary users, each put into a single training by a coin of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope, Vantage
from fedrec_auditor.auditor.canaries import CANARY_USER
from fedrec_auditor.auditor.one_run import OneRunScores
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import RoundView

# Wider rows of an item are summed up by their sum, size and largest entry.
_WIDEST = 64
_LEAST = 1e-150


def play(
    target: Target,
    interactions: Interactions,
    canaries: int,
    rng: np.random.Generator,
    vantage: Vantage = Vantage.RELEASE,
    compute: Compute = DEFAULT,
) -> OneRunScores:
    """Train once, and score ``canaries`` users whose coins decided whether they took part.

    Each canary has met one item with the highest rating, which nobody else has; the items of all
    canaries are in the catalogue, whatever the coins. Its features are what ``vantage``, the
    release or the peers, sees of its item: the rows of all broadcast arrays that have one an item,
    at the end, and of each broadcast their size, and how far they moved since the last one, in all
    and along themselves. A bound of these scores
    speaks of ``scope_of(vantage)``. InputError for another vantage, and if nothing of the kind is
    broadcast.
    """
    included = rng.random(canaries) < 0.5
    run = target.run(with_canaries(interactions, included, rng), rng, compute=compute)
    seen = run.transcript.view(scope_of(vantage).vantage).rounds
    return OneRunScores.of(
        _features(seen, interactions.n_items, interactions.n_items + canaries), included
    )


def scope_of(vantage: Vantage) -> Scope:
    """A canary user in or out of a training, as ``vantage`` sees it; InputError for uploads."""
    if vantage not in (Vantage.RELEASE, Vantage.PEERS):
        raise InputError(
            f"Expected the vantage of the release or of peers, got {vantage}. Uploads name their "
            "senders, so there is nothing to guess."
        )
    return replace(CANARY_USER, vantage=vantage)


def with_canaries(
    interactions: Interactions, included: NDArray[np.bool_], rng: np.random.Generator
) -> Interactions:
    """The interactions, an item more for each canary, and a user more for each that is included.

    ``rng`` draws what else users and items have: attributes, a time, genres, those of others.
    """
    users, items = int(included.sum()), len(included)
    table = interactions.ratings
    met = interactions.n_items + np.flatnonzero(included)
    ratings = sparse.csr_array(
        (
            np.concatenate([table.data, np.full(users, table.data.max(), table.data.dtype)]),
            np.concatenate([table.indices, met]).astype(table.indices.dtype),
            np.concatenate([table.indptr, table.indptr[-1] + np.arange(1, users + 1)]),
        ),
        shape=(interactions.n_users + users, interactions.n_items + items),
    )
    times, genres = interactions.timestamps, interactions.genres
    return replace(
        interactions,
        users=_continued(interactions.users, users),
        items=_continued(interactions.items, items),
        ratings=ratings,
        timestamps=None if times is None else np.append(times, rng.choice(times, users)),
        attributes={
            key: Attribute(
                codes=np.append(each.codes, rng.choice(each.codes, users)),
                categories=each.categories,
            )
            for key, each in interactions.attributes.items()
        },
        genres=None if genres is None else np.concatenate([genres, rng.choice(genres, items)]),
        titles=(*interactions.titles, *(f"canary {i}" for i in range(items)))
        if interactions.titles
        else (),
    )


def _continued(identifiers: NDArray[np.int64], more: int) -> NDArray[np.int64]:
    return np.append(identifiers, identifiers[-1] + np.arange(1, more + 1))


def _features(seen: tuple[RoundView, ...], first: int, stop: int) -> NDArray[np.float64]:
    """What broadcasts say of the items from ``first`` to ``stop``, a row each."""
    models = [each.broadcast for each in seen if each.broadcast is not None]
    names = [
        name
        for name, array in (models[-1].items() if models else ())
        if array.ndim and len(array) == stop
    ]
    if not names:
        raise InputError(
            "Expected broadcasts with a row for each item, got none. Nothing shows a canary's own "
            "item: play another game."
        )
    columns = []
    for name in names:
        rows = [
            np.asarray(model[name][first:], dtype=np.float64).reshape(stop - first, -1)
            for model in models
            if name in model
        ]
        last = rows[-1]
        if last.shape[1] <= _WIDEST:
            columns.append(last)
        else:
            columns += [last.sum(axis=1), np.abs(last).max(axis=1)]
        columns += [_log_size(each) for each in rows]
        for before, after in itertools.pairwise(rows):
            steps = [after - before]
            if before.shape[1] <= _WIDEST:
                steps.append(after - before @ np.linalg.lstsq(before, after)[0])
            norm = np.maximum((before**2).sum(axis=1), _LEAST)
            for step in steps:
                columns += [_log_size(step), (step * before).sum(axis=1) / norm]
    return np.column_stack(columns)


def _log_size(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of each row's norm, so that a ratio of two is a difference of columns."""
    return np.log(np.maximum(np.linalg.norm(rows, axis=1), _LEAST))
