"""dp-accounting 0.6.0: accountants, one of which miscounts a repeated randomized response."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons

USES, EPSILON, DELTA = 20, 0.5, 1e-3
KEPT = math.exp(EPSILON) / (1.0 + math.exp(EPSILON))


@cache
def accounted(*, one_by_one: bool) -> float:
    """Epsilon by dp-accounting of ``USES`` randomized responses.

    They are composed one by one, or as one event with a count.
    """
    event = dp_accounting.dp_event.RandomizedResponseDpEvent(2.0 * (1.0 - KEPT), 2)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    for count in [1] * USES if one_by_one else [USES]:
        accountant.compose(event, count)
    return float(accountant.get_epsilon(DELTA))


def responses(x: int, rng: np.random.Generator, size: int) -> Any:
    """The number of 1s among ``USES`` randomized responses to the bit x."""
    return rng.binomial(USES, KEPT if x else 1.0 - KEPT, size)


def _sampled(accountant: Any, gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by ``accountant`` of Poisson-sampled Gaussian noise over several rounds."""
    noise = dp_accounting.GaussianDpEvent(gaussian)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, noise), rounds)
    return float(accountant.get_epsilon(delta))


def losses(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    return _sampled(pld.PLDAccountant(), gaussian, rate, rounds, delta)


def renyi(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    return _sampled(rdp.RdpAccountant(), gaussian, rate, rounds, delta)


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from this project's accountant."""
    return {"responses": compose_pure_epsilons(((EPSILON, USES),), DELTA)}
