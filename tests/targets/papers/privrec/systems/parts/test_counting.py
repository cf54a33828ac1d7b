"""The accounting behind Tables 3 and 4 of the PrivRec paper, held to the printed figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import comb

from fedrec_auditor.targets.papers.privrec.systems.parts.claims import amplified, printed_epsilon

# Tables 3 (N = 4800) and 4 (N = 760): M, and epsilon at delta 1e-8, 1e-6, 1e-4
TABLES = {
    4800: {
        5: (1.7439, 1.3602, 0.9764),
        10: (3.2117, 2.7511, 2.2535),
        15: (5.9705, 5.2030, 4.3074),
        20: (9.4736, 8.3223, 6.9235),
        25: (13.7047, 12.1696, 10.2052),
        30: (18.9107, 16.6081, 14.3056),
    },
    760: {
        2: (2.2994, 1.8388, 1.3783),
        5: (7.4618, 6.5408, 5.3932),
        8: (16.2853, 14.3169, 12.0143),
        10: (23.7651, 21.4626, 18.6182),
        12: (34.5025, 30.0690, 25.4638),
        15: (50.1537, 45.5485, 40.9433),
    },
}


@pytest.mark.parametrize("n_users", TABLES)
def test_all_entries_of_both_tables_are_reproduced(n_users: int) -> None:
    for clients, row in TABLES[n_users].items():
        for delta, printed in zip((1e-8, 1e-6, 1e-4), row, strict=True):
            found = printed_epsilon(
                clients=clients, n_users=n_users, rounds=1000, multiplier=1.0, delta=delta
            )
            # The authors cut the fifth digit, they did not round.
            assert math.floor(found * 1e4) / 1e4 == printed


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
