"""Interactions of MovieLens' shape, and one FCF round by our kernel, for the benchmarks."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import own_peak
from fedrec_auditor.targets.components import RankOne
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import item_gradients

ALPHA, REGULARIZATION = 1.0, 1e-6


def interactions(users: int, items: int, count: int) -> sparse.csr_array:
    """Synthetic interactions with the skew of MovieLens (activity between 20 and 737)."""
    rng = np.random.default_rng(0)
    activity = np.exp(rng.normal(size=users))
    activity = np.clip(activity * count / activity.sum(), 20, 737 * items / 1682)
    popularity = np.log(1.0 / (np.arange(items) + 20.0))
    keys = popularity + rng.gumbel(size=(users, items))  # a weighted draw without replacement
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return sparse.csr_array((ranks < activity[:, None]).astype(np.float64))


def broadcast(items: int, factors: int) -> NDArray[np.float64]:
    """A table of items."""
    return np.random.default_rng(1).normal(scale=0.3, size=(items, factors))


def ours(items: NDArray[Any], ratings: sparse.csr_array) -> tuple[NDArray[Any], RankOne]:
    """The sum of all gradients, and the gradients as factors."""
    gradient = item_gradients(items, ratings, alpha=ALPHA, regularization=REGULARIZATION)
    return gradient.total(), gradient


def peak(way: Callable[[], Any]) -> float:
    """MiB that numpy held at most, the result included and the input not."""
    tracemalloc.start()
    way()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held / 2**20


def main(path: str, factors: str) -> None:
    """One round in a fresh process, uploads dropped: prints its peak memory in MiB."""
    ratings = sparse.csr_array(sparse.load_npz(path))
    ours(broadcast(ratings.shape[1], int(factors)), ratings)
    print(own_peak())


if __name__ == "__main__":
    main(*sys.argv[1:])
