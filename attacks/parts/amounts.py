"""How much a user's messages hold, in numbers that any form has.

Of each component the logarithms of the sum of absolute entries and of the length, how many rows
and entries are not zero (of models: moved), and the sum; how many messages were sent; and how many
interactions a reader counts behind them, where one is fast. Of tables with a row a user, of each
party: how long the row is, and how far it is moved from round to round and in all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.model_messages import part_of
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.parts.shadow_reader import ShadowReader
from fedrec_auditor.attacks.parts.uploads import entries_of, kept, last, names, user_rows
from fedrec_auditor.attacks.readers.noisy_rows import NoisyRows
from fedrec_auditor.targets.transcript import Kind, View

Floats = NDArray[np.float64]

_TINY = 1e-12
_ROUNDS = 2
_MANY = 8  # senders of a round that has a mean of its own
_COLUMNS = 5
_SLOW = NoisyRows, ShadowReader
"""Readers that cost more than all else, and tell no more of activity than amounts do."""


def amounts(view: View, users: NDArray[np.int64]) -> Floats:
    """Those of ``users`` (n,), ascending: (n, f).

    Memory: 8 MiB of messages, and the users' own rows of all rounds.
    """
    parts: list[NDArray[Any]] = []
    if sent := names(view):
        counted = _counted(view, users)
        parts += [
            _of(view, name, users) for name in sent if not counted or not _reports(view, name)
        ]
        senders = [seen.uploads.users for seen in view.rounds if seen.uploads is not None]
        heard = np.stack([np.isin(users, each) for each in senders], axis=1)
        parts += [heard.sum(axis=1, keepdims=True), *counted]
    parts += [_of_rows(tables) for tables in user_rows(view, users)]
    return np.concatenate(parts, axis=1, dtype=np.float64)


def _counted(view: View, users: NDArray[np.int64]) -> list[NDArray[Any]]:
    """The logarithm of the interactions that readers count, (n, 1); none where that is slow."""
    readers = reading.reading(view)
    if not readers or any(isinstance(each, _SLOW) for each in readers):
        return []
    told = reading.evidence(view, users)
    if told.log_ratio is None:
        return []
    return [np.log1p(posterior(told).sum(axis=1, keepdims=True))]


def _reports(view: View, name: str) -> bool:
    """Whether messages are of single coordinates, of which readers tell all that there is."""
    return last(view, name).kind is Kind.REPORTS


def _of(view: View, name: str, users: NDArray[np.int64]) -> Floats:
    """Of one component, the mean over the messages that are read of a user: (n, 5).

    In deviations from the mean of the round, since noise and steps change in a training; rounds of
    few senders are taken together.
    """
    whose, sizes, groups = [np.arange(0)], [np.zeros((0, _COLUMNS))], [np.arange(0)]
    for number, (seen, uploads, component) in enumerate(kept(view, name, _ROUNDS)):
        key, base = part_of(name, component.shape, seen.broadcast), None
        if component.kind is Kind.MODEL and key is not None and seen.broadcast is not None:
            base = np.asarray(seen.broadcast[key])
        many = np.count_nonzero(np.isin(uploads.users, users)) >= _MANY
        for places, sent in entries_of(users, uploads.users, component):
            whose.append(places)
            sizes.append(_sizes(sent if base is None else sent - base))
            groups.append(np.full(len(places), number if many else -1))
    places, found, group = np.concatenate(whose), np.concatenate(sizes), np.concatenate(groups)
    for number in np.unique(group):
        mine = group == number
        spread = found[mine].std(axis=0)
        found[mine] -= found[mine].mean(axis=0)
        found[mine] /= np.where(spread > 0, spread, 1.0)
    out = np.zeros((len(users), _COLUMNS))
    np.add.at(out, places, found)
    return out / np.maximum(np.bincount(places, minlength=len(users)), 1)[:, None]


def _sizes(moved: NDArray[Any]) -> Floats:
    """Of messages (n, *shape): (n, 5)."""
    entries = moved.reshape(len(moved), -1).astype(np.float64)
    width = moved.shape[1] if moved.ndim > 1 else 1
    rows = entries.reshape(len(moved), width, entries.shape[1] // max(1, width))
    return np.stack(
        [
            np.log(np.abs(entries).sum(axis=1) + _TINY),
            np.log(np.linalg.norm(entries, axis=1) + _TINY),
            np.log1p(rows.any(axis=2).sum(axis=1)),
            np.log1p(np.count_nonzero(entries, axis=1)),
            entries.sum(axis=1),
        ],
        axis=1,
    )


def _of_rows(tables: list[Floats]) -> Floats:
    """Of rows (n, k) of users as they were in each round: (n, 3)."""
    steps = [np.linalg.norm(b - a, axis=1) for a, b in pairwise(tables)]
    lengths = [
        np.linalg.norm(tables[-1], axis=1),
        np.linalg.norm(tables[-1] - tables[0], axis=1),
        np.sum(steps, axis=0) if steps else np.zeros(len(tables[-1])),
    ]
    return np.log(np.stack(lengths, axis=1) + _TINY)
