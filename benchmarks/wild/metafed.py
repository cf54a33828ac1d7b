"""Mechanism of metafed-fl 1.0.0: noise on the average of clients."""

from __future__ import annotations

import logging
import math
from functools import cache
from typing import Any

from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load("metafed.privacy.differential_privacy", "metafed", "metafed.privacy")
DELTA = 1e-5


@cache
def _make_noise() -> Any:
    logging.disable(logging.CRITICAL)
    return PRIVACY.FederatedDifferentialPrivacy(epsilon=1.0, sampling_rate=1.0)


def turned() -> float:
    """The standard deviation of the noise on the average of two clients' weights."""
    import torch

    torch.manual_seed(0)
    update = {"w": torch.zeros(200_000)}
    return float(_make_noise().privatize_aggregation([update, update], 1)["w"].std())


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise if a client moves by twice the norm."""
    return {"turned": find_gaussian_epsilon(DELTA, 2.0 / math.sqrt(2.0 * math.log(1.25 / DELTA)))}
