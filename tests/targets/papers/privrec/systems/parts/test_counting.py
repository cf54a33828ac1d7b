"""The accounting behind Tables 3 and 4 of the PrivRec paper; test_numbers has all 36 figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import comb

from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import (
    amplified,
    printed_epsilon,
)


def test_nothing_is_promised_at_delta_0() -> None:
    assert math.isinf(
        printed_epsilon(clients=5, n_users=4800, rounds=1000, multiplier=1.0, delta=0.0)
    )


@pytest.mark.parametrize("order", [2, 3, 7])
@pytest.mark.parametrize("multiplier", [0.7, 1.0, 4.0])
@pytest.mark.parametrize("rate", [0.001, 0.3, 1.0])
def test_theorem_9_term_by_term(rate: float, order: int, multiplier: float) -> None:
    def curve(a: float) -> float:
        return a / (2 * multiplier**2)

    total = 1 + rate**2 * comb(order, 2) * min(4 * (math.exp(curve(2)) - 1), 2 * math.exp(curve(2)))
    for j in range(3, order + 1):
        total += 2 * rate**j * comb(order, j) * math.exp((j - 1) * curve(j))
    assert amplified(rate, order, multiplier) == pytest.approx(math.log(total) / (order - 1))


def test_tiny_noise_overflows_nowhere() -> None:
    assert np.isfinite(
        printed_epsilon(clients=5, n_users=10, rounds=3, multiplier=0.01, delta=1e-6)
    )
