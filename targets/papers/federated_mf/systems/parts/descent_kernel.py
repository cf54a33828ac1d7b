"""Compiled loops of the gradient steps of parties and devices. The module imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import FUSED_MATH_FLAGS, jit_compile
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import write_normals

_compiled = jit_compile(fastmath=FUSED_MATH_FLAGS, error_model="numpy")
_part = jit_compile(cache=False, fastmath=FUSED_MATH_FLAGS, error_model="numpy")


# Start of each step's ratings, and the row, column and value of every rating.
_Drawn = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
# Noise seeds, step lengths and noise deviations, (2, count) each: users first, then items.
_Steps = tuple[NDArray[np.uint64], NDArray[np.float32], NDArray[np.float32]]
# Fields of ``Clipping``, in its order.
_Clipping = tuple[float, float, float, float, float]


@_compiled
def add_gradients(
    users: NDArray[Any],
    items: NDArray[Any],
    entries: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]],
    user_sums: NDArray[Any],
    item_sums: NDArray[Any],
    clipping: _Clipping,
) -> None:
    """Adds the clipped gradients of ratings to two tables of sums, in place; for calls from Python.

    ``users``, ``items``: embeddings, one row per user or item.
    ``entries``: user (ascending), item and value of each rating.
    ``user_sums``, ``item_sums``: sums of gradients, in the shapes of ``users`` and ``items``.
    ``clipping``: fields of ``Clipping``, in their order.
    """
    _accumulate(users, items, entries, user_sums, item_sums, clipping)


@_part
def _accumulate(
    users: NDArray[Any],
    items: NDArray[Any],
    entries: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]],
    of_users: NDArray[Any],
    of_items: NDArray[Any],
    clipping: _Clipping,
) -> None:
    """Does the work of ``add_gradients``; for calls from compiled code."""
    rows, columns, values = entries
    error, rating, user = clipping[0], clipping[1], clipping[2]
    p, stop = users.shape[1], len(rows)
    slopes = np.empty(stop, users.dtype)  # 2 (u.v - x) of every rating, after clipping
    own = np.empty(p, users.dtype)
    begin = 0
    while begin < stop:
        i, end, energy = rows[begin], begin, 0.0
        own[:] = 0
        while end < stop and rows[end] == i:
            j, e = columns[end], -values[end]
            for f in range(p):
                e += users[i, f] * items[j, f]
            slope = 2.0 * min(max(e, -error), error)
            if rating < np.inf:
                square = 0.0
                for f in range(p):
                    square += users[i, f] * users[i, f] + items[j, f] * items[j, f]
                slope *= rating / max(rating, abs(slope) * np.sqrt(square))
            slopes[end] = slope
            for f in range(p):
                own[f] += slopes[end] * items[j, f]
            energy += slope * slope
            end += 1
        if user < np.inf:
            square = 0.0
            for f in range(p):
                square += own[f] * own[f] + energy * users[i, f] * users[i, f]
            scale = user / max(user, np.sqrt(square))
            for f in range(p):
                own[f] *= scale
            for k in range(begin, end):
                slopes[k] *= scale
        for f in range(p):
            of_users[i, f] += own[f]
        for k in range(begin, end):
            for f in range(p):
                of_items[columns[k], f] += slopes[k] * users[i, f]
        begin = end


@_part
def _fill_noise(out: NDArray[np.float32], seed: NDArray[np.uint64], sigma: np.float32) -> None:
    """Fills a table of one row with normal noise of deviation ``sigma``, which may be 0."""
    if sigma > 0:
        write_normals(seed, out)
        for k in range(out.shape[1]):
            out[0, k] *= sigma
    else:
        out[:] = 0


@_part
def _move(
    table: NDArray[np.float32],
    slope: NDArray[np.float32],
    size: np.float32,
    ball: np.float32,
    floor: np.float32,
) -> None:
    """Adds -``size`` times ``slope`` to the rows of ``table``, then projects them, in place.

    Rows are projected to entries >= ``floor`` and norm^2 <= ``ball``, which may be infinite.
    """
    clipped = ball < np.inf or floor > -np.inf
    for j in range(len(table)):
        square = np.float32(0.0)
        for f in range(table.shape[1]):
            x = table[j, f] - size * slope[j, f]
            if clipped:
                x = max(x, floor)
                square += x * x
            table[j, f] = x
        if square > ball:
            scale = np.float32(np.sqrt(ball / square))
            for f in range(table.shape[1]):
                table[j, f] *= scale


@_compiled
def run_party_steps(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    drawn: _Drawn,
    steps: _Steps,
    clipping: _Clipping,
) -> None:
    """Runs all gradient steps of one party, and updates its embeddings in place.

    ``users``, ``items``: embeddings, one row per user or item.
    ``drawn``: sampled ratings, as four arrays: index of the first rating of each step, and user,
        item and value of each rating.
    ``steps``: noise seeds, step lengths and noise deviations, (2, count) each: for steps on users,
        then on items.
    ``clipping``: fields of ``Clipping``, in their order.

    At step length 0, user embeddings do not move.
    """
    # Without noise on users, only the embeddings of sampled users move.
    _advance(users, items, drawn, steps, clipping)


@_part
def _advance(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    drawn: _Drawn,
    steps: _Steps,
    clipping: _Clipping,
) -> None:
    """Does the work of ``run_party_steps``; for calls from compiled code."""
    (starts, rows, columns, values), (seeds, sizes, sigmas) = drawn, steps
    ball, floor = np.float32(clipping[3]), np.float32(clipping[4])
    noise_of_users = np.zeros((1, users.size), np.float32)
    noise_of_items = np.zeros((1, items.size), np.float32)
    of_users, of_items = noise_of_users.reshape(users.shape), noise_of_items.reshape(items.shape)
    for step in range(sizes.shape[1]):
        start, stop = starts[step], starts[step + 1]
        here = slice(step, step + 1)
        noisy = sizes[0, step] > 0 and sigmas[0, step] > 0
        _fill_noise(noise_of_items, seeds[1, here], sigmas[1, step])
        if noisy:
            _fill_noise(noise_of_users, seeds[0, here], sigmas[0, step])
        entries = rows[start:stop], columns[start:stop], values[start:stop]
        _accumulate(users, items, entries, of_users, of_items, clipping)
        _move(items, of_items, sizes[1, step], ball, floor)
        if noisy:
            _move(users, of_users, sizes[0, step], ball, floor)
            continue
        for k in range(start, stop):
            i = rows[k]
            if k == start or rows[k - 1] != i:
                if sizes[0, step] > 0:
                    _move(users[i : i + 1], of_users[i : i + 1], sizes[0, step], ball, floor)
                of_users[i] = 0


@_compiled
def run_device_steps(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    item_starts: NDArray[np.int64],
    drawn: _Drawn,
    steps: _Steps,
    clipping: _Clipping,
) -> None:
    """Runs all gradient steps of n parties of one user each, and updates embeddings in place.

    ``users``: user embeddings, one row per party.
    ``items``: item embeddings of all parties, one below the other.
    ``item_starts``: party i has the rows ``item_starts[i]`` to ``item_starts[i + 1]`` - 1 of
        ``items``.
    ``drawn``: sampled ratings of all steps, party after party, as four arrays: index of the first
        rating of each step, and party, item and value of each rating. Items are counted from the
        party's first row of ``items``.
    ``steps``: noise seeds, step lengths and noise deviations, (n, 2, count) each: for steps on user
        and on item embeddings.
    ``clipping``: fields of ``Clipping``, in their order.
    """
    (starts, rows, columns, values), (seeds, sizes, sigmas) = drawn, steps
    count, one = sizes.shape[2], np.zeros(len(rows), np.int64)
    for i in range(len(users)):
        begin = starts[i * count : (i + 1) * count + 1]
        _advance(
            users[i : i + 1],
            items[item_starts[i] : item_starts[i + 1]],
            (begin, one, columns, values),
            (seeds[i], sizes[i], sigmas[i]),
            clipping,
        )
