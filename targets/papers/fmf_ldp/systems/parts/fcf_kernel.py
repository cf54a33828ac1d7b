"""User vectors of equation 4, user by user, in compiled code (numba).

With the whitened items Z = V L^-T of ``closed_form`` and a user's rows Z_S, every user's system is
(I + alpha Z_S^T Z_S) y = Z_S^T 1, whose eigenvalues lie in [1, 1 + alpha]. Conjugate gradients
(Hestenes and Stiefel 1952) therefore need about log(2 / tolerance) sqrt(1 + alpha) / 2 steps of one
pass over the history each, and as no eigenvalue is below 1, the distance of y from the solution is
at most the residual, which they watch: they stop at ``TOLERANCE`` times |Z_S^T 1|.

Users do not see each other: a user's numbers are the same to the last bit whatever users stand
beside it, in any order, and however many threads share them out (the interpreter's lock is
released). For this no loop both adds up and stores: whether such a loop is vectorized, and with it
the order of its sum, hangs on how far apart its arrays happen to lie. Memory beyond the result: a
copy of V and a few rows; with few factors, the longest history's rows.

Only ``closed_form`` imports this module, when it has enough to solve.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compiled import REORDERED, compiled
from fedrec_auditor.targets.components import Floats

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
PATIENCE = 16  # steps a factor, where in exact arithmetic one is enough
_LINE = 64  # bytes of a cache line, and of the widest register

_compiled = compiled(fastmath=REORDERED, error_model="numpy")
_part = compiled(kept=False, fastmath=REORDERED, error_model="numpy")


def solve(
    whitened: Floats, root: Floats, touched: sparse.csr_array, alpha: float, threads: int = 1
) -> tuple[Floats, Floats]:
    """x (n, F) and x.v at every stored entry of ``touched`` (n, M), both without the (1 + alpha).

    ``whitened`` is Z (M, F), whose precision (float64 or float32) the results have; ``root`` is L.
    """
    count, factors = whitened.shape
    kind = whitened.dtype
    indices = touched.indices.view(f"u{touched.indices.itemsize}")  # unsigned: never from the end
    if indices.size and indices.max() >= count:
        raise InputError(
            f"Expected item numbers in [0, {count}), got one outside. Renumber the columns."
        )
    vectors = np.zeros((touched.shape[0], factors), kind)
    predicted = np.empty(len(indices), kind)
    lanes = _LINE // kind.itemsize
    rows = _aligned(count, -(-factors // lanes) * lanes, kind)
    rows[:, :factors] = whitened
    square, limit = kind.type(TOLERANCE[kind] ** 2), PATIENCE * (factors + 4)

    def part(start: int, stop: int) -> int:
        starts = touched.indptr[start : stop + 1]
        options = kind.type(alpha), square, limit
        late: int = _conjugate(
            rows, root, starts, indices, *options, vectors[start:stop], predicted
        )
        return late

    shares = np.linspace(0, touched.nnz, threads + 1)
    bounds = np.searchsorted(touched.indptr, shares[1:-1]).tolist()
    bounds = [0, *bounds, touched.shape[0]]
    if threads == 1:
        late = part(*bounds)
    else:
        with ThreadPoolExecutor(threads) as pool:
            late = sum(pool.map(part, bounds[:-1], bounds[1:]))
    if late:
        raise InputError(
            f"Expected conjugate gradients to converge in {limit} steps, got {late} users "
            f"for whom they did not at alpha={alpha!r}. Choose kernel='numpy'."
        )
    return vectors, predicted


def _aligned(rows: int, columns: int, kind: np.dtype[Any]) -> Floats:
    """Zeros whose rows start on cache lines: a load across two lines costs twice."""
    size = rows * columns * kind.itemsize
    raw = np.zeros(size + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + size].view(kind).reshape(rows, columns)


@_compiled
def _conjugate(
    rows: Any,
    root: Any,
    indptr: Any,
    indices: Any,
    alpha: Any,
    tolerance: Any,
    limit: int,
    vectors: Any,
    predicted: Any,
) -> int:
    """Conjugate gradients for each user in turn; returns how many were not done by ``limit``.

    ``rows`` is Z (M, width), zero beyond F; ``tolerance`` is on the squared residual.
    """
    width = rows.shape[1]
    zero = rows.dtype.type(0)
    y = np.empty(width, rows.dtype)
    residual = np.empty(width, rows.dtype)
    direction = np.empty(width, rows.dtype)
    image = np.empty(width, rows.dtype)
    late = 0
    for user in range(len(indptr) - 1):
        start, stop = np.intp(indptr[user]), np.intp(indptr[user + 1])
        y[:] = zero
        residual[:] = zero
        for k in range(start, stop):
            item = indices[k]
            for f in range(width):
                residual[f] += rows[item, f]
        square = zero
        for f in range(width):
            square += residual[f] * residual[f]
        for f in range(width):
            direction[f] = residual[f]
        goal = tolerance * square
        steps = 0
        while square > goal and steps < limit:
            _image(rows, indices, start, stop, alpha, direction, image)
            curvature = zero
            for f in range(width):
                curvature += direction[f] * image[f]
            length = square / curvature
            before = square
            for f in range(width):
                y[f] += length * direction[f]
                residual[f] -= length * image[f]
            square = zero
            for f in range(width):
                square += residual[f] * residual[f]
            turn = square / before
            for f in range(width):
                direction[f] = residual[f] + turn * direction[f]
            steps += 1
        if square > goal:
            late += 1
        for k in range(start, stop):
            item = indices[k]
            dot = zero
            for f in range(width):
                dot += rows[item, f] * y[f]
            predicted[k] = dot
        _unwhiten(root, y, vectors[user])
    return late


@_part
def _image(
    rows: Any, indices: Any, start: Any, stop: Any, alpha: Any, direction: Any, image: Any
) -> None:
    """image = (I + alpha Z_S^T Z_S) direction, four rows at a time."""
    width = rows.shape[1]
    zero = rows.dtype.type(0)
    for f in range(width):
        image[f] = direction[f]
    k = start
    while k + 4 <= stop:
        i, j, m, n = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
        a, b, c, d = zero, zero, zero, zero
        for f in range(width):
            a += rows[i, f] * direction[f]
            b += rows[j, f] * direction[f]
            c += rows[m, f] * direction[f]
            d += rows[n, f] * direction[f]
        a, b, c, d = alpha * a, alpha * b, alpha * c, alpha * d
        for f in range(width):
            image[f] += (a * rows[i, f] + b * rows[j, f]) + (c * rows[m, f] + d * rows[n, f])
        k += 4
    while k < stop:
        i = indices[k]
        a = zero
        for f in range(width):
            a += rows[i, f] * direction[f]
        a *= alpha
        for f in range(width):
            image[f] += a * rows[i, f]
        k += 1


@_part
def _unwhiten(root: Any, y: Any, x: Any) -> None:
    """x = L^-T y, in float64 whatever the precision of y."""
    factors = len(x)
    left = np.empty(factors)
    for f in range(factors):
        left[f] = y[f]
    for f in range(factors - 1, -1, -1):
        value = left[f] / root[f, f]
        x[f] = value
        for g in range(f):
            left[g] -= value * root[f, g]
