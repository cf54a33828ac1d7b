"""How much a user's messages hold, in numbers that any form has.

Of each component the logarithms of the sum of absolute entries and of the length, how many rows
and entries are not zero (of models: moved), and the sum; how many messages were sent; and how many
interactions a reader counts behind them, where one is fast. Of tables with a row a user, of each
party: how long the row is, and how far it is moved from round to round and in all.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.model_messages import part_of
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.parts.shadow_reader import ShadowReader
from fedrec_auditor.attacks.parts.uploads import entries_of, kept, names, user_rows
from fedrec_auditor.attacks.readers.noisy_rows import NoisyRows
from fedrec_auditor.targets.transcript import Kind, View

Floats = NDArray[np.float64]

_TINY = 1e-12
_ROUNDS = 2
_COLUMNS = 5
_SLOW = NoisyRows, ShadowReader
"""Readers that cost more than all else, and tell no more of activity than amounts do."""


def amounts(view: View, users: NDArray[np.int64]) -> Floats:
    """Those of ``users`` (n,), ascending: (n, f). Memory: 64 MiB of messages, and rows of users."""
    parts = [_of(view, name, users) for name in names(view)]
    if parts:
        sent = [seen.uploads.users for seen in view.rounds if seen.uploads is not None]
        parts.append(
            np.stack([np.isin(users, each) for each in sent], axis=1).sum(1, keepdims=True)
        )
        readers = reading.reading(view)
        if readers and not any(isinstance(each, _SLOW) for each in readers):
            told = reading.evidence(view, users)
            if told.log_ratio is not None:
                parts.append(np.log1p(posterior(told).sum(axis=1, keepdims=True)))
    parts += [_of_rows([np.take(t, users, axis=0) for t in tables]) for tables in user_rows(view)]
    return np.concatenate(parts, axis=1, dtype=np.float64)


def _of(view: View, name: str, users: NDArray[np.int64]) -> Floats:
    """Of one component, the mean over the messages that are read of a user: (n, 5)."""
    out, count = np.zeros((len(users), _COLUMNS)), np.zeros((len(users), 1))
    for seen, uploads, component in kept(view, name, _ROUNDS):
        key = part_of(name, component.shape, seen.broadcast)
        base = None
        if component.kind is Kind.MODEL and key is not None and seen.broadcast is not None:
            base = np.asarray(seen.broadcast[key])
        for places, sent in entries_of(users, uploads.users, component):
            moved = (sent if base is None else sent - base).reshape(len(sent), -1)
            moved = moved.astype(np.float64)
            rows = moved.reshape(len(sent), sent.shape[1] if sent.ndim > 1 else 1, -1)
            out[places] += np.stack(
                [
                    np.log(np.abs(moved).sum(axis=1) + _TINY),
                    np.log(np.linalg.norm(moved, axis=1) + _TINY),
                    np.log1p(rows.any(axis=2).sum(axis=1)),
                    np.log1p(np.count_nonzero(moved, axis=1)),
                    moved.sum(axis=1),
                ],
                axis=1,
            )
            count[places] += 1
    return out / np.maximum(count, 1)


def _of_rows(tables: list[Floats]) -> Floats:
    """Of rows (n, k) of users as they were in each round: (n, 3)."""
    steps = [np.linalg.norm(b - a, axis=1) for a, b in pairwise(tables)]
    lengths = [
        np.linalg.norm(tables[-1], axis=1),
        np.linalg.norm(tables[-1] - tables[0], axis=1),
        np.sum(steps, axis=0) if steps else np.zeros(len(tables[-1])),
    ]
    return np.log(np.stack(lengths, axis=1) + _TINY)
