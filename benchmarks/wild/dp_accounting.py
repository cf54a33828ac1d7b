"""dp-accounting 0.6.0: accountants, one of which miscounts a repeated randomized response."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons

N_RESPONSES, EPSILON, DELTA = 20, 0.5, 1e-3
P_KEEP = math.exp(EPSILON) / (1.0 + math.exp(EPSILON))


@cache
def compute_epsilon(*, one_by_one: bool) -> float:
    """Epsilon by dp-accounting of ``N_RESPONSES`` randomized responses.

    one_by_one: whether they are composed one by one; else as one event with a count.
    """
    event = dp_accounting.dp_event.RandomizedResponseDpEvent(2.0 * (1.0 - P_KEEP), 2)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    for count in [1] * N_RESPONSES if one_by_one else [N_RESPONSES]:
        accountant.compose(event, count)
    return float(accountant.get_epsilon(DELTA))


def responses(x: int, rng: np.random.Generator, size: int) -> Any:
    """The number of 1s among ``N_RESPONSES`` randomized responses to the bit x."""
    return rng.binomial(N_RESPONSES, P_KEEP if x else 1.0 - P_KEEP, size)


def _compose(accountant: Any, gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by ``accountant`` of Poisson-sampled Gaussian noise over several rounds."""
    noise = dp_accounting.GaussianDpEvent(gaussian)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, noise), rounds)
    return float(accountant.get_epsilon(delta))


def losses(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by dp-accounting's privacy loss distributions of Poisson-sampled Gaussian noise."""
    return _compose(pld.PLDAccountant(), gaussian, rate, rounds, delta)


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by dp-accounting's Renyi accountant of Poisson-sampled Gaussian noise."""
    return _compose(rdp.RdpAccountant(), gaussian, rate, rounds, delta)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from this project's accountant."""
    return {"responses": compose_pure_epsilons(((EPSILON, N_RESPONSES),), DELTA)}
