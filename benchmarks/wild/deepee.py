"""deepee 0.1.9: an accountant of DP-SGD."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
ACCOUNTING = INSTALLED.load("deepee.privacy_accounting", "deepee")
RECORDS, BATCH = 1000, 10


def uniform(gaussian: float, rounds: int, delta: float) -> float:
    """The result of ``compute_eps_uniform`` for this many batches."""
    epochs = rounds * BATCH / RECORDS
    said: Any = ACCOUNTING.compute_eps_uniform(epochs, gaussian, RECORDS, BATCH, delta)
    return float(said)
