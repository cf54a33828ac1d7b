"""The loops of parties' and devices' local steps, in compiled code; numba is imported with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import FUSED, compiled
from fedrec_auditor.targets.systems.federated_mf.parts.table_noise import fill

_compiled = compiled(fastmath=FUSED, error_model="numpy")


@_compiled
def _move(
    table: NDArray[np.float32], slope: NDArray[np.float32], size: np.float32, bound: np.float32
) -> None:
    """A step against the slope and, with a bound, the projection onto equation 6."""
    for j in range(len(table)):
        square = np.float32(0.0)
        for f in range(table.shape[1]):
            x = table[j, f] - size * slope[j, f]
            if bound > 0:
                x = max(x, np.float32(0.0))
                square += x * x
            table[j, f] = x
        if bound > 0 and square > bound:
            scale = np.float32(np.sqrt(bound / square))
            for f in range(table.shape[1]):
                table[j, f] *= scale


@_compiled
def advance(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float32],
    seeds: NDArray[np.uint64],
    sizes: NDArray[np.float32],
    weight: np.float32,
    sigma: np.float32,
    bound: np.float32,
) -> None:
    """In place; ``bound`` 0 is no projection."""
    (m, p), two = items.shape, np.float32(2.0)
    wide = np.zeros((1, m * p), np.float32)
    slope = wide.reshape(m, p)
    of_users = np.zeros(users.shape, np.float32)
    for step in range(len(sizes)):
        if sigma > 0:
            fill(seeds[step : step + 1], wide)
            for k in range(m * p):
                wide[0, k] *= sigma
        else:
            wide[:] = 0
        for k in range(starts[step], starts[step + 1]):
            i, j = rows[k], columns[k]
            error = -values[k]
            for f in range(p):
                error += users[i, f] * items[j, f]
            for f in range(p):
                slope[j, f] += two * error * users[i, f]
            if weight > 0:
                for f in range(p):
                    of_users[i, f] += two * error * items[j, f]
        _move(items, slope, sizes[step], bound)
        if weight > 0:
            for k in range(starts[step], starts[step + 1]):
                i = rows[k]
                if k == starts[step] or rows[k - 1] != i:
                    one = slice(i, i + 1)
                    _move(users[one], of_users[one], sizes[step] * weight, bound)
                    of_users[i] = 0


@_compiled
def advance_all(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    starts: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float32],
    seeds: NDArray[np.uint64],
    sizes: NDArray[np.float32],
    weight: np.float32,
    sigma: np.float32,
    bound: np.float32,
) -> None:
    """One party of one user after the other."""
    count = sizes.shape[1]
    rows = np.zeros(len(columns), np.int64)
    for i in range(len(users)):
        own = starts[i * count : (i + 1) * count + 1]
        advance(
            users[i : i + 1],
            items[i],
            own,
            rows,
            columns,
            values,
            seeds[i],
            sizes[i],
            weight,
            sigma,
            bound,
        )


@_compiled
def own_steps(
    users: NDArray[np.float32],
    own: NDArray[np.float32],
    indptr: NDArray[np.integer[Any]],
    values: NDArray[np.float32],
    sizes: NDArray[np.float32],
    share: np.float32,
    count: int,
    bound: np.float32,
) -> None:
    """``count`` steps of devices that have a copy ``own`` (nnz, p) of the rows they rated each.

    In place. Steps on items are ``sizes`` (n,) long, on the device's user ``share`` times that.
    """
    p, two = users.shape[1], np.float32(2.0)
    of_user, of_item = np.zeros((1, p), np.float32), np.zeros((1, p), np.float32)
    for i in range(len(users)):
        for _ in range(count):
            of_user[:] = 0
            for k in range(indptr[i], indptr[i + 1]):
                error = -values[k]
                for f in range(p):
                    error += users[i, f] * own[k, f]
                for f in range(p):
                    of_user[0, f] += two * error * own[k, f]
                    of_item[0, f] = two * error * users[i, f]
                _move(own[k : k + 1], of_item, sizes[i], bound)
            _move(users[i : i + 1], of_user, sizes[i] * share, bound)
