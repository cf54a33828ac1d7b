"""The accountant of DP-SGD in deepee 0.1.9."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ACCOUNTING = PACKAGE.load("deepee.privacy_accounting", "deepee")
RECORDS, BATCH = 1000, 10


def uniform(gaussian: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``compute_eps_uniform``, for ``rounds`` batches."""
    epochs = rounds * BATCH / RECORDS
    said: Any = ACCOUNTING.compute_eps_uniform(epochs, gaussian, RECORDS, BATCH, delta)
    return float(said)
