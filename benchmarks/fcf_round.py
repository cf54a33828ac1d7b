"""One FCF round: user vectors (equation 4), item gradients (equation 5), their sum over users.

One thread, float64, everywhere. A round must deliver every client's upload, so the first loop
(ratio 1) keeps them: V^T V once, each client's Gram matrix by BLAS over the rows it has touched,
`numpy.linalg.solve`, the M x F gradient as an outer product. Keeping 943 dense gradients takes
812 MB, and much of that loop's time is the operating system's for fresh memory; so the same loop
is shown with each gradient added up and dropped, which no audit could use, and as equation 4 is
printed, with the products over all items. Ours solves in padded batches, keeps every upload as its
factors (vector and sparse correction) and sums them without building one; in the last row it
builds every M x F gradient as well. Interactions are synthetic with the counts and the skew of
MovieLens (activity between 20 and 737 at the 100K shape).
"""

from __future__ import annotations

import tracemalloc

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import Row, best_of
from targets.systems.fcf import Fcf
from targets.systems.fmf_ldp import FmfLdp

ALPHA, REGULARIZATION = 1.0, 1e-6
KEPT = "client loop, uploads kept"


def interactions(users: int, items: int, count: int) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    activity = np.exp(rng.normal(size=users))
    activity = np.clip(activity * count / activity.sum(), 20, 737 * items / 1682)
    popularity = np.log(1.0 / (np.arange(items) + 20.0))
    keys = popularity + rng.gumbel(size=(users, items))  # a weighted draw without replacement
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return sparse.csr_array((ranks < activity[:, None]).astype(np.float64))


def loop(
    items: NDArray[np.float64], ratings: sparse.csr_array, keep: bool, printed: bool = False
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    shared = items.T @ items + REGULARIZATION * np.eye(items.shape[1])
    aggregate, kept = np.zeros_like(items), []
    for user in range(ratings.shape[0]):
        touched = ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]]
        rows = items[touched]
        if printed:
            confidence = np.ones(len(items))
            confidence[touched] += ALPHA
            system = (items.T * confidence) @ items + REGULARIZATION * np.eye(items.shape[1])
        else:
            system = shared + ALPHA * (rows.T @ rows)
        x = np.linalg.solve(system, (1 + ALPHA) * rows.sum(axis=0))
        left = -(items @ x)
        left[touched] = (1 + ALPHA) * (1 + left[touched])
        gradient = left[:, None] * x
        aggregate += gradient
        if keep:
            kept.append(gradient)
    return aggregate, kept


def ours(items: NDArray[np.float64], ratings: sparse.csr_array, build: bool) -> NDArray[np.float64]:
    system = Fcf(factors=items.shape[1], alpha=ALPHA, regularization=REGULARIZATION)
    gradient = system.upload(ratings, items, np.random.default_rng(0)).components["gradient"]
    if build:
        for start in range(0, len(gradient), 4):
            gradient.dense(np.arange(start, min(start + 4, len(gradient))))
    return gradient.total()


def measure() -> tuple[Row, ...]:
    rows = []
    ratings = interactions(943, 1682, 100_000)
    for factors in (64, 5):
        items = np.random.default_rng(1).normal(scale=0.3, size=(1682, factors))
        np.testing.assert_allclose(
            ours(items, ratings, False), loop(items, ratings, False)[0], rtol=1e-6, atol=1e-8
        )
        with threadpool_limits(1):
            seconds = best_of(
                {
                    KEPT: lambda v=items: loop(v, ratings, True),
                    "client loop, uploads dropped": lambda v=items: loop(v, ratings, False),
                    "client loop, equation 4 as printed, dropped": lambda v=items: loop(
                        v, ratings, False, printed=True
                    ),
                    "fcf, uploads kept as factors": lambda v=items: ours(v, ratings, False),
                    "fcf, and every gradient built": lambda v=items: ours(v, ratings, True),
                }
            )
        job = f"943 users, 1682 items, F = {factors}"
        rows += [
            Row(job=job, way=way, seconds=time, work=943, unit="users")
            for way, time in seconds.items()
        ]
    rows.append(_large())
    for system, unit, work in (
        (Fcf(), "user rounds", 943 * 20),
        (FmfLdp(), "reports", 943 * 20 * 100),
    ):
        way = f"{system.name}, its defaults"
        time = best_of({way: lambda s=system: s.run(ratings, np.random.default_rng(0))}, 3)[way]
        rows.append(Row(job=f"a training, {unit}", way=way, seconds=time, work=work, unit=unit))
    return tuple(rows)


def _large() -> Row:
    ratings = interactions(6040, 3706, 1_000_000)
    items = np.random.default_rng(1).normal(scale=0.3, size=(3706, 64))
    way = "fcf, uploads kept as factors"
    seconds = best_of({way: lambda: ours(items, ratings, False)}, 2)[way]
    tracemalloc.start()
    ours(items, ratings, False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row(
        job="6040 users, 3706 items, F = 64",
        way=way,
        seconds=seconds,
        work=6040,
        unit="users",
        note=f"{ratings.nnz:,} interactions, {peak / 2**20:.0f} MiB beyond the input",
    )
