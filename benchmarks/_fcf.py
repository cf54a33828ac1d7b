"""Synthetic interactions, and one FCF (federated collaborative filtering) round, for benchmarks."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import get_peak_memory
from fedrec_auditor.targets.components import RankOneMessages
from fedrec_auditor.targets.papers.fmf_ldp.implicit_mf import compute_implicit_gradients

ALPHA, REGULARIZATION = 1.0, 1e-6


def make_interactions(users: int, items: int, count: int) -> sparse.csr_array:
    """Synthetic interactions (users, items), as skewed as MovieLens: 20 to 737 items per user."""
    rng = np.random.default_rng(0)
    activity = np.exp(rng.normal(size=users))
    activity = np.clip(activity * count / activity.sum(), 20, 737 * items / 1682)
    popularity = np.log(1.0 / (np.arange(items) + 20.0))
    keys = popularity + rng.gumbel(size=(users, items))  # a weighted draw without replacement
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return sparse.csr_array((ranks < activity[:, None]).astype(np.float64))


def make_item_table(items: int, factors: int) -> NDArray[np.float64]:
    """A random item table (items, factors) for the clients."""
    return np.random.default_rng(1).normal(scale=0.3, size=(items, factors))


def run_fcf(items: NDArray[Any], ratings: sparse.csr_array) -> tuple[NDArray[Any], RankOneMessages]:
    """One FCF round by this project: the sum of all gradients, and each as rank-one factors."""
    gradient = compute_implicit_gradients(
        items, ratings, alpha=ALPHA, regularization=REGULARIZATION
    )
    return gradient.sum_all(), gradient


def measure_peak_memory(way: Callable[[], Any]) -> float:
    """The peak memory in MiB that numpy allocates during a call of ``way``."""
    tracemalloc.start()
    way()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held / 2**20


def main(path: str, factors: str) -> None:
    """Computes one round in a fresh process, and prints its peak memory in MiB."""
    ratings = sparse.csr_array(sparse.load_npz(path))
    run_fcf(make_item_table(ratings.shape[1], int(factors)), ratings)
    print(get_peak_memory())


if __name__ == "__main__":
    main(*sys.argv[1:])
