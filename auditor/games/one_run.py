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

OWN = 2
"""Items of each canary; what they show of one another is what a similarity of items is made of."""
# Steps of wider rows are not compared with the linear map that explains them best.
_WIDEST = 64
# Parts of a training over each of which steps are averaged: known coins are few.
_STAGES = 8
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

    Each canary has met ``OWN`` items with the highest rating, which nobody else has; the items of
    all canaries are in the catalogue, whatever the coins. Its features are what ``vantage``, the
    release or the peers, sees of its items in all broadcast arrays that have a row for each item:
    how large the rows are at the end, and, of each stage of the training, how they moved. A bound
    of these scores speaks of ``scope_of(vantage)``. InputError for another vantage, and if nothing
    of the kind is broadcast.
    """
    included = rng.random(canaries) < 0.5
    run = target.run(with_canaries(interactions, included, rng), rng, compute=compute)
    seen = run.transcript.view(scope_of(vantage).vantage).rounds
    return OneRunScores.of(_features(seen, interactions.n_items, canaries), included)


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
    """The interactions, with items for each canary, and a user for each that is included.

    ``rng`` draws what else users and items have: attributes, a time, genres, those of others.
    """
    users, items = int(included.sum()), OWN * len(included)
    table = interactions.ratings
    met = interactions.n_items + np.flatnonzero(np.repeat(included, OWN))
    ratings = sparse.csr_array(
        (
            np.concatenate([table.data, np.full(len(met), table.data.max(), table.data.dtype)]),
            np.concatenate([table.indices, met]).astype(table.indices.dtype),
            np.concatenate([table.indptr, table.indptr[-1] + OWN * np.arange(1, users + 1)]),
        ),
        shape=(interactions.n_users + users, interactions.n_items + items),
    )
    times, genres = interactions.timestamps, interactions.genres
    return replace(
        interactions,
        users=_continued(interactions.users, users),
        items=_continued(interactions.items, items),
        ratings=ratings,
        timestamps=None if times is None else np.append(times, rng.choice(times, len(met))),
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


def _features(seen: tuple[RoundView, ...], first: int, canaries: int) -> NDArray[np.float64]:
    """What broadcasts say of the items from ``first`` on, (canaries, d), the mean over its items.

    All logarithms are of norms, so that a ratio of two is a difference of columns.
    """
    models = [each.broadcast for each in seen if each.broadcast is not None]
    stop = first + OWN * canaries
    names = [
        name
        for name, array in (models[-1].items() if models else ())
        if array.ndim and len(array) == stop
    ]
    if not names:
        raise InputError(
            "Expected broadcasts with a row for each item, got none. Nothing shows a canary's own "
            "items: play another game."
        )
    columns = []
    for name in names:
        tables = [
            np.asarray(model[name], dtype=np.float64).reshape(stop, -1)
            for model in models
            if name in model
        ]
        common = tables[-1][:first].mean(axis=0)
        rows = [each[first:] for each in tables]
        columns += [_log_norm(rows[-1]), rows[-1] @ common]
        steps = np.array([_step(*pair) for pair in itertools.pairwise(rows)])
        columns += [
            column
            for block in np.array_split(steps, min(len(steps), _STAGES) or 1)
            if len(block)
            for column in block.mean(axis=0)
        ]
    of_items = np.stack(columns, axis=1).reshape(canaries, OWN, -1)
    return np.asarray(of_items.mean(axis=1))


def _step(before: NDArray[np.float64], after: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """How far rows moved, in all and along themselves, and how far from how all rows moved.

    Where the step of most rows is linear in the row, as in a gradient of a squared loss, what a
    canary did is what is left of it.
    """
    steps = [after - before]
    if before.shape[1] <= _WIDEST:
        steps.append(after - before @ np.linalg.lstsq(before, after)[0])
    norm = np.maximum((before**2).sum(axis=1), _LEAST)
    sizes = [
        each for step in steps for each in (_log_norm(step), (step * before).sum(axis=1) / norm)
    ]
    return [_log_norm(after), *sizes]


def _log_norm(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log(np.maximum(np.linalg.norm(rows, axis=1), _LEAST)))
