"""Mechanisms of dp-mobility-report 0.2.11: bounds and quartiles of trips."""

from __future__ import annotations

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load(
    "dp_mobility_report.privacy.diff_privacy",
    "dp_mobility_report",
    "dp_mobility_report.privacy",
    "diffprivlib.models",
)


@draw_one_by_one()
def bounds(x: int) -> bool:
    """Whether the largest record, 77.7 for x = 1, is among the returned bounds."""
    data = np.array([1.0, 2.0, 3.0, 4.0, (4.5, 77.7)[int(x)]])
    return bool(np.isin(77.7, PRIVACY.bounds_dp(data, 1.0, 1)))
