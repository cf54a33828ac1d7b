"""Audits the mechanisms of pytorch_recsys: reports of users in each computation of similarity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.rows import compare_rows
from benchmarks.wild.pytorch_recsys import EPSILON, ITEMS

CODE = Checkout(
    "HenryNebula/pytorch_recsys",
    "bb7c9e4",
    {
        "noise/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "utility/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "noise/ItemSimSparse.py": "0d1f7a463c9c40b2021c275038cc317e831a50a5",
        "noise/ItemSim.py": "4a160cfa11c04c07b2ecc6bd5eebc9f4308cbaaa",
    },
)
UNUSED = ("pybloom_live", "tqdm", "utility.fast_rank_topK", "utility.utils")
ALL_NEIGHBOURS = -1


class _StopError(Exception):
    """Raised with the reports as argument, to stop the computation after they are made."""


def _capture(module: ModuleType, flip: str, similarity: str, *inputs: Any, **settings: Any) -> Any:
    """The reports that the module's function ``flip`` returns when ``similarity`` calls it."""
    original = getattr(module, flip)

    def stop(*arguments: Any) -> None:
        raise _StopError(original(*arguments))

    try:
        setattr(module, flip, stop)
        getattr(module, similarity)(*inputs, **settings)
    except _StopError as made:
        return made.args[0]
    finally:
        setattr(module, flip, original)


def audit(folder: Path) -> Iterator[str]:
    """Yields lines with the measured and the stored results for each computation of similarity."""
    sparse, paired = CODE.load(folder, "noise.ItemSimSparse", "noise.ItemSim", blank=UNUSED)

    def wrap(flip: str, similarity: str, **settings: Any) -> Callable[..., NDArray[Any]]:
        """Returns a function that draws reports of users with one item."""

        def call(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
            seed_globals(rng)
            histories = csr_matrix(np.full((size, 1), x))
            reports = _capture(
                sparse, flip, similarity, histories, EPSILON, neighbors=ALL_NEIGHBOURS, **settings
            )
            return reports.toarray()[:, 0].astype(int)

        return call

    def draw_dense(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Reports of one item by ``size`` users, once for each other item."""
        seed_globals(rng)
        users = np.arange(size) if x else np.array([], dtype=int)
        pairs = [
            _capture(
                paired,
                "construct_fake_report_pairs",
                "helper_sim",
                ([users, users], size, EPSILON, None),
            )
            for _ in range(ITEMS - 1)
        ]
        return np.hstack([first for first, _ in pairs]).astype(int)

    calls = {
        "symmetric": wrap("flipping_helper", "fast_item_sim"),
        "asymmetric": wrap("flipping_helper", "fast_item_sim_optimal"),
        "plain_asymmetric": wrap("sparse_conditional_flipping", "noisy_item_sim", optimal=True),
        "dense": draw_dense,
    }
    yield from compare_rows("pytorch_recsys", calls)
