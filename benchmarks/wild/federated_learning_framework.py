"""Mechanisms of federated-learning-framework 1.0.1: noise on weights, and its accounting."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load("federated_learning_framework.privacy", "federated_learning_framework")


@draw_one_by_one()
def without_delta(x: float) -> float:
    """The noisy weight x at epsilon 1 and delta 0."""
    noise = PRIVACY.DifferentialPrivacy(epsilon=1.0, delta=0.0)
    return float(noise.add_noise([np.array([float(x)])], 10)[0][0])


def spent(rounds: int, delta: float) -> float:
    """Epsilon by ``get_privacy_spent`` after ``rounds`` steps of epsilon 1 that share ``delta``."""
    noise = PRIVACY.DifferentialPrivacy(epsilon=1.0, delta=delta / rounds)
    return float(noise.get_privacy_spent(rounds)["epsilon_spent"])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise of all steps together."""
    each = math.sqrt(2.0 * math.log(1.25 / 1e-8))
    return {"spent": find_gaussian_epsilon(1e-4, 100.0 / each)}
