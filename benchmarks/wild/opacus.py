"""Accountants of DP-SGD in opacus 1.6.0."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ACCOUNTANTS = PACKAGE.load("opacus.accountants", "opacus")


def _compute_epsilon(kind: str, gaussian: float, rate: float, rounds: int, delta: float) -> float:
    accountant: Any = getattr(ACCOUNTANTS, kind)()
    accountant.history = [(gaussian, rate, rounds)]
    return float(accountant.get_epsilon(delta))


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's Renyi accountant, for Poisson samples."""
    return _compute_epsilon("RDPAccountant", gaussian, rate, rounds, delta)


def prv(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's accountant of privacy loss random variables, for Poisson samples."""
    return _compute_epsilon("PRVAccountant", gaussian, rate, rounds, delta)
