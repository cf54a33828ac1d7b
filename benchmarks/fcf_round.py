"""One FCF round: user vectors (equation 4), item gradients (equation 5), their sum over users.

One thread everywhere, float64 unless said. A round must deliver every client's upload, so the first
loop (ratio 1) keeps them, in fresh memory as in a training whose rounds are all kept: V^T V once,
each client's Gram matrix by BLAS over the rows it has touched, `numpy.linalg.solve`, the M x F
gradient as an outer product. Much of its time is the operating system's, for 812 MB at F = 64; so
the same loop is shown with gradients written to one buffer that every round uses again, and with
each gradient added up and dropped, which no audit could use, and as equation 4 is printed, with the
products over all items; and with the gradient by torch's autograd, as a federated client is usually
written. Ours keeps every upload as its factors (vector and sparse correction) and sums them without
building one; in one row it builds every M x F gradient as well. Interactions are synthetic with the
counts and the skew of MovieLens (activity between 20 and 737 at the 100K shape).

In the jobs "fresh process" an interpreter starts, imports what it needs, reads the interactions
and does the rounds: what a short run costs, loading or compiling the kernel included.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import Row, best_of, own_peak
from fedrec_auditor.targets.components import RankOne
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.closed_form import Kernel, item_gradients

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


def broadcast(items: int, factors: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(scale=0.3, size=(items, factors))


def loop(
    items: NDArray[np.float64],
    ratings: sparse.csr_array,
    keep: bool,
    printed: bool = False,
    buffer: NDArray[np.float64] | None = None,
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
        gradient = np.multiply(left[:, None], x, out=None if buffer is None else buffer[user])
        aggregate += gradient
        if keep:
            kept.append(gradient)
    return aggregate, kept


def autograd(items: NDArray[np.float64], ratings: sparse.csr_array) -> tuple[Any, list[Any]]:
    import torch

    model = torch.nn.Parameter(torch.from_numpy(items))
    shared = model.detach().T @ model.detach() + REGULARIZATION * torch.eye(items.shape[1])
    aggregate, kept = torch.zeros_like(model), []
    for user in range(ratings.shape[0]):
        touched = torch.from_numpy(
            ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]].astype(np.int64)
        )
        rows = model.detach()[touched]
        x = torch.linalg.solve(shared + ALPHA * (rows.T @ rows), (1 + ALPHA) * rows.sum(dim=0))
        target, confidence = torch.zeros(len(items)).double(), torch.ones(len(items)).double()
        target[touched], confidence[touched] = 1.0, 1.0 + ALPHA
        loss = (confidence * (target - model @ x) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, model)
        gradient *= -0.5
        aggregate += gradient
        kept.append(gradient)
    return aggregate, kept


def ours(
    items: NDArray[Any], ratings: sparse.csr_array, kernel: Kernel, build: bool = False
) -> tuple[NDArray[Any], RankOne]:
    gradient = item_gradients(
        items, ratings, alpha=ALPHA, regularization=REGULARIZATION, kernel=kernel
    )
    if build:
        for start in range(0, len(gradient), 4):
            gradient.dense(np.arange(start, min(start + 4, len(gradient))))
    return gradient.total(), gradient


def trim() -> None:
    """Gives freed memory back to the system, where the C library can (glibc)."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


def peak(way: Callable[[], Any]) -> float:
    """MiB that numpy held at most, the result included and the input not."""
    tracemalloc.start()
    way()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held / 2**20


def megabytes(gradient: RankOne) -> float:
    """What the uploads of a round take, without the broadcast."""
    s = gradient.corrections
    arrays = (gradient.vectors, s.data, s.indices, s.indptr)
    return sum(array.nbytes for array in arrays) / 1e6


def measure() -> tuple[Row, ...]:
    rows: list[Row] = []
    with threadpool_limits(1):
        ratings = interactions(943, 1682, 100_000)
        for factors in (64, 5):
            rows += _steady(ratings, factors)
        rows += _large()
        rows += _fresh(ratings)
    return tuple(rows)


def _steady(ratings: sparse.csr_array, factors: int) -> list[Row]:
    import torch

    torch.set_num_threads(1)
    users, count = ratings.shape
    items = broadcast(count, factors)
    single = items.astype(np.float32)
    aggregate = loop(items, ratings, False)[0]
    for kernel in ("numpy", "numba"):
        np.testing.assert_allclose(ours(items, ratings, kernel)[0], aggregate, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(autograd(items, ratings)[0], aggregate, rtol=1e-6, atol=1e-8)
    buffer = np.zeros((users, count, factors))
    ways: dict[str, Callable[[], Any]] = {
        KEPT: lambda: loop(items, ratings, True),
        "client loop, uploads kept in one buffer": lambda: loop(
            items, ratings, True, buffer=buffer
        ),
        "client loop, autograd, uploads kept": lambda: autograd(items, ratings),
        "client loop, uploads dropped": lambda: loop(items, ratings, False),
        "client loop, equation 4 as printed, dropped": lambda: loop(items, ratings, False, True),
        "numpy, uploads kept as factors": lambda: ours(items, ratings, "numpy"),
        "numba, uploads kept as factors": lambda: ours(items, ratings, "numba"),
        "numba, float32": lambda: ours(single, ratings, "numba"),
        "numba, and every gradient built": lambda: ours(items, ratings, "numba", True),
    }
    dense = items.nbytes * users / 1e6
    notes = {
        KEPT: f"uploads {dense:.0f} MB, peak {peak(ways[KEPT]):.0f} MiB",
        "client loop, autograd, uploads kept": f"uploads {dense:.0f} MB",
    }
    for way, start in (
        ("numpy, uploads kept as factors", items),
        ("numba, uploads kept as factors", items),
        ("numba, float32", single),
    ):
        kernel = cast(Kernel, way.partition(",")[0])
        uploads = megabytes(ours(start, ratings, kernel)[1])
        notes[way] = f"uploads {uploads:.1f} MB, peak {peak(ways[way]):.0f} MiB"
    job = f"{users} users, {count} items, F = {factors}"
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(7):
        for way in ways:
            trim()
            seconds[way] = min(seconds[way], best_of({way: ways[way]}, 1)[way])
    return [
        Row(job=job, way=way, seconds=t, work=users, unit="users", note=notes.get(way, ""))
        for way, t in seconds.items()
    ]


def _large() -> list[Row]:
    ratings = interactions(6040, 3706, 1_000_000)
    items = broadcast(3706, 64)
    single = items.astype(np.float32)
    ways: dict[str, Callable[[], Any]] = {
        "numpy, uploads kept as factors": lambda: ours(items, ratings, "numpy"),
        "numba, uploads kept as factors": lambda: ours(items, ratings, "numba"),
        "numba, float32": lambda: ours(single, ratings, "numba"),
    }
    return [
        Row(
            job=f"6040 users, 3706 items, F = 64, {ratings.nnz:,} interactions",
            way=way,
            seconds=seconds,
            work=6040,
            unit="users",
            note=f"peak {peak(ways[way]):.0f} MiB",
        )
        for way, seconds in best_of(ways, 3).items()
    ]


def _fresh(ratings: sparse.csr_array) -> list[Row]:
    """A process a time: the best of three, and of one where the kernel is compiled."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.npz"
        sparse.save_npz(path, ratings)
        for factors, rounds in ((64, 1), (64, 30), (5, 30)):
            job = f"fresh process, 943 users, F = {factors}, {rounds} round{'s' * (rounds > 1)}"
            for way, kernel, compiled in (
                ("client loop, uploads dropped", "loop", True),
                ("auto", "auto", True),
                ("numpy", "numpy", True),
                ("numba, from its cache", "numba", True),
                ("numba, compiled anew", "numba", False),
            ):
                seconds = min(
                    _process(
                        path,
                        kernel,
                        factors,
                        rounds,
                        None if compiled else f"{folder}/{len(rows)}-{n}",
                    )
                    for n in range(3)
                )
                rows.append(
                    Row(job=job, way=way, seconds=seconds, work=943 * rounds, unit="user rounds")
                )
    return rows


def _process(path: Path, kernel: str, factors: int, rounds: int, cache: str | None) -> float:
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, "-m", "benchmarks.fcf_round", str(path), kernel]
    start = time.perf_counter()
    command += [str(factors), str(rounds)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main(path: str, kernel: str, factors: str, rounds: str) -> None:
    """The rounds of one fresh process, uploads dropped: prints its peak memory in MiB."""
    ratings = sparse.csr_array(sparse.load_npz(path))
    items = broadcast(ratings.shape[1], int(factors))
    for _ in range(int(rounds)):
        if kernel == "loop":
            loop(items, ratings, False)
        else:
            item_gradients(
                items,
                ratings,
                alpha=ALPHA,
                regularization=REGULARIZATION,
                kernel=cast(Kernel, kernel),
                rounds=int(rounds),
            ).total()
    print(own_peak())


if __name__ == "__main__":
    main(*sys.argv[1:])
