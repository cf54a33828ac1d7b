"""Audits the code of decentrailized_mf_with_hdp: the noisy change of an item's factors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.rows import compare_rows
from benchmarks.wild.decentralized_mf import BUDGET, DIMENSION, EPOCHS

CODE = Checkout(
    "wentao-hu/decentrailized_mf_with_hdp",
    "2ee0588",
    {"utils.py": "715e1a307368bd89d806be44857289dae9c6eb1b"},
)
SAMPLES = 3_000  # of 100 epochs each, which take milliseconds
RATING = 3.0
"""Middle of the ratings. ``RATING + x / 2`` changes an upload as x does in the reimplementation."""


def audit(folder: Path) -> Iterator[str]:
    """Yields lines with the measured and the stored results of each mechanism."""
    (utils,) = CODE.load(folder, "utils")

    def run_epochs(x: float, user: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        """The changes (size, dimension) of an item's factors in epochs with one rating of one user.

        user: the user's factors.
        x: gradient without noise, in units of the user's factors.
        """
        model = utils.MFModel(1, 1, DIMENSION, reg=0.0, stddev=0.0)
        moved = np.empty((size, DIMENSION))
        for epoch in range(size):
            model.user_embedding[:], model.item_embedding[:] = user, 0.0
            model.fit(BUDGET, [(0, 0, RATING + x / 2.0)], 1.0, [1])
            moved[epoch] = model.item_embedding[0]
        return moved

    along = np.eye(DIMENSION)[0]
    even = np.full(DIMENSION, DIMENSION**-0.5)

    def draw_epoch(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return run_epochs(x, along, size)[:, 0]

    def draw_vector(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return run_epochs(x, even, size)

    def draw_training(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return run_epochs(x, along, size * EPOCHS)[:, 0].reshape(size, EPOCHS)

    calls = {"epoch": draw_epoch, "vector": draw_vector, "training": draw_training}
    yield from compare_rows("decentralized_mf", calls, SAMPLES)
