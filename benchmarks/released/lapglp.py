"""Audits LapGLP's released report of degrees: one bit per item of a user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.rows import compare_rows
from benchmarks.wild.lapglp import P_KEEP

CODE = Checkout(
    "Limhady/LapGLP",
    "5d94706",
    {
        "LapGLP/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "LapGLP/algorithm/__init__.py": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "LapGLP/algorithm/loss.py": "a2207996960ec76aaa49c802fae846b5d688e05e",
    },
)


def audit(folder: Path) -> Iterator[str]:
    """Yields lines with the measured and the stored result."""
    (loss,) = CODE.load(folder, "LapGLP.algorithm.loss")

    def draw_degree(x: int, rng: np.random.Generator, size: int) -> Any:
        seed_globals(rng)
        return loss.rr_items_D(np.full((1, size), float(x)), 1, size, P_KEEP)[0]

    yield from compare_rows("lapglp", {"degree": draw_degree})
