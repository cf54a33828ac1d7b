"""Accountants of DP-SGD in opacus 1.6.0."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
ACCOUNTANTS = INSTALLED.load("opacus.accountants", "opacus")


def _after(kind: str, gaussian: float, rate: float, rounds: int, delta: float) -> float:
    accountant: Any = getattr(ACCOUNTANTS, kind)()
    accountant.history = [(gaussian, rate, rounds)]
    return float(accountant.get_epsilon(delta))


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    return _after("RDPAccountant", gaussian, rate, rounds, delta)


def prv(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    return _after("PRVAccountant", gaussian, rate, rounds, delta)
