"""DPLCF and LCF: the bit received follows the flip's law, and refutes what is claimed.

Rates are refused beyond 5.5 standard deviations (4e-8).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import (
    DplcfAp,
    DplcfSp,
    LcfAp,
    LcfSp,
)
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import FlippedKnn, first_bits
from tests.two_worlds import ReadUploads, shown

RUNS = 40_000
KEPT = math.e / (1 + math.e)
SCOPE = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)


def bit(system: FlippedKnn) -> ReadUploads:
    """The bit for item 0, which only the user of world 0 holds; both hold item 1."""
    return ReadUploads(
        system=system,
        histories=([1.0, 1.0], [0.0, 1.0]),
        read=lambda uploads: first_bits(uploads.components)[:, 0].astype(np.int64),
    )


def check_rates(system: FlippedKnn, held: float, missing: float) -> None:
    for world, rate in enumerate((held, missing)):
        mean = bit(system)(world, RUNS, np.random.default_rng(world)).mean()
        assert abs(mean - rate) <= 5.5 * math.sqrt(rate * (1 - rate) / RUNS)


@pytest.mark.parametrize(("asymmetric", "symmetric"), [(DplcfAp, DplcfSp), (LcfAp, LcfSp)])
def test_a_held_item_is_never_sent_as_a_zero(
    asymmetric: type[FlippedKnn], symmetric: type[FlippedKnn]
) -> None:
    """Entry 7: a 0 for item 0 has probability 1 - 1/e if it is not held, and 0 if it is."""
    check_rates(asymmetric(), 1.0, math.exp(-1))
    check_rates(symmetric(), KEPT, 1 - KEPT)


def test_eighty_uploads_a_world_refute_an_epsilon_of_1() -> None:
    """Half of them choose the rule. Ten zeros are needed, and one upload in three shows one."""
    assert min(shown(bit(DplcfAp()), SCOPE, 80, seed=seed) for seed in range(20)) > 1.0


def test_the_condition_holds_and_the_claim_does_not() -> None:
    """Entry 6: p = .9, q = p/e keeps p/q = e, yet epsilon is ln((1-q)/(1-p)) = 1.90."""
    system = DplcfAp(keep=0.9)
    check_rates(system, 0.9, 0.9 / math.e)
    assert 1.8 < shown(bit(system), SCOPE, 100_000) < math.log((1 - 0.9 / math.e) / 0.1)
