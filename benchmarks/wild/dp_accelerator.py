"""The accountant of DP-SGD in dp-accelerator 0.1.0."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.wild import exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ACCOUNTING = PACKAGE.load("dp_accelerator")
RECORDS = 60_000


def _make_accountant(gaussian: float, rate: float) -> Any:
    return ACCOUNTING.DPSGDAccountant(gaussian, round(rate * RECORDS), RECORDS)


def curve(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon from the package's ``get_rdp_curve``, by the conversion of Mironov."""
    orders = _make_accountant(gaussian, rate).get_rdp_curve(rounds)
    return float(min(loss + math.log(1.0 / delta) / (a - 1.0) for a, loss in orders.items()))


def epsilon(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``get_epsilon``."""
    return float(_make_accountant(gaussian, rate).get_epsilon(rounds, delta))


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon of ``curve``'s setting, from normal tails."""
    return {"curve": exact.find_sampled_epsilon(0.01, 1.0, 1e-5)}
