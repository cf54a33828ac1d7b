"""Accountants of DP-SGD in jax-privacy 2.0.0."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ACCOUNTING = PACKAGE.load("jax_privacy.accounting", "jax_privacy", "chex", "optax")
RECORDS = 10_000
INTERVAL = 1e-3
"""Grid step of privacy losses; the default 1e-4 gives a bound below the audit's."""


def _compute_epsilon(config: Any, gaussian: float, rate: float, rounds: int, delta: float) -> float:
    accountant = ACCOUNTING.DpsgdTrainingAccountant(dp_accountant_config=config)
    parameters = ACCOUNTING.DpParams(
        noise_multipliers=gaussian,
        num_samples=RECORDS,
        delta=delta,
        batch_size=round(rate * RECORDS),
    )
    return float(accountant.compute_epsilon(rounds, parameters))


def losses(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's accountant of privacy losses."""
    config = ACCOUNTING.PldAccountantConfig(value_discretization_interval=INTERVAL)
    return _compute_epsilon(config, gaussian, rate, rounds, delta)


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by the package's accountant of Renyi divergences."""
    return _compute_epsilon(ACCOUNTING.RdpAccountantConfig(), gaussian, rate, rounds, delta)
