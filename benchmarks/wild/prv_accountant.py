"""Accountants of prv-accountant 0.2.0: numerical composition with bounds on its error."""

from __future__ import annotations

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
PRV = PACKAGE.load("prv_accountant")


def sampled(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """The package's upper bound of epsilon for Poisson-sampled Gaussian noise."""
    accountant = PRV.PRVAccountant(
        prvs=PRV.PoissonSubsampledGaussianMechanism(rate, gaussian),
        max_self_compositions=rounds,
        eps_error=0.1,
        delta_error=delta / 1000.0,
    )
    return float(accountant.compute_epsilon(delta=delta, num_self_compositions=rounds)[2])


def laplace(laplace: float, rounds: int, delta: float) -> float:
    """The package's upper bound of epsilon for Laplace noise."""
    accountant = PRV.PRVAccountant(
        prvs=PRV.LaplaceMechanism(mu=1.0 / laplace),
        max_self_compositions=rounds,
        eps_error=0.1,
        delta_error=delta / 1000.0,
    )
    return float(accountant.compute_epsilon(delta=delta, num_self_compositions=rounds)[2])
