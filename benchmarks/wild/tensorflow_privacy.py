"""Accountants of DP-SGD in tensorflow-privacy 0.9.0."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
_PARENTS = (
    "tensorflow_privacy",
    "tensorflow_privacy.privacy",
    "tensorflow_privacy.privacy.analysis",
)
LIMITS = PACKAGE.load(f"{_PARENTS[-1]}.gdp_accountant", *_PARENTS)
SGD = PACKAGE.load(f"{_PARENTS[-1]}.compute_dp_sgd_privacy_lib", *_PARENTS)
RECORDS = 10_000


def sgd(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``compute_dp_sgd_privacy`` for Poisson samples."""
    batch = round(rate * RECORDS)
    said: Any = SGD.compute_dp_sgd_privacy(
        RECORDS, batch, gaussian, rounds * batch / RECORDS, delta
    )
    return float(said[0])


def poisson(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's ``compute_eps_poisson`` for Poisson samples."""
    batch = round(rate * RECORDS)
    said: Any = LIMITS.compute_eps_poisson(
        rounds * batch / RECORDS, gaussian, RECORDS, batch, delta
    )
    return float(said)
