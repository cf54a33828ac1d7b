"""DPLCF and LCF: the bit received follows the flip's law, and the violation shows at full size.

Rates are refused beyond 5.5 standard deviations (4e-8).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.demonstrations.dplcf_ap_zeros import DplcfApZeros
from fedrec_auditor.auditor.demonstrations.dplcf_sufficient import DplcfSufficient
from fedrec_auditor.auditor.demonstrations.lcf_ap_zeros import LcfApZeros
from fedrec_auditor.auditor.measure import measure

RUNS = 40_000
KEPT = math.e / (1 + math.e)


def rate(game: DistinguishingGame, world: int) -> float:
    return float(game.worlds.draw(world, RUNS, np.random.default_rng(world)).mean())


def measured(game: DistinguishingGame, seed: int) -> float:
    return measure(
        game.worlds,
        (game.claim,),
        game.estimator,
        delta=game.delta,
        confidence=0.95,
        samples=game.samples,
        rng=np.random.default_rng(seed),
    ).bound.epsilon


def near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 5.5 * math.sqrt(expected * (1 - expected) / RUNS)


@pytest.mark.parametrize("member", [DplcfApZeros(), LcfApZeros()])
def test_a_held_item_is_never_sent_as_a_zero(member: DplcfApZeros | LcfApZeros) -> None:
    game = member.violation()
    assert rate(game, 0) == 1.0
    assert near(rate(game, 1), math.exp(-1))
    control = member.control()
    assert near(rate(control, 0), KEPT)
    assert near(rate(control, 1), 1 - KEPT)
    assert game.claim.epsilon == control.claim.epsilon == 1.0


def test_eighty_uploads_a_world_refute_an_epsilon_of_1_twice() -> None:
    """Half of them choose the rule. Ten zeros are needed, and one upload in three shows one."""

    def bounds(samples: int) -> list[float]:
        game = DplcfApZeros(samples=samples).violation()
        return [measured(game, seed) for seed in range(20)]

    assert min(bounds(80)) > 1.0
    assert max(bounds(40)) > 1.0


def test_the_condition_holds_and_the_claim_does_not() -> None:
    member = DplcfSufficient()
    game = member.violation()
    p, q = rate(game, 0), rate(game, 1)
    assert near(p, 0.9)
    assert near(q, 0.9 / math.e)
    assert 1.8 < measured(game, 0) < math.log((1 - 0.9 / math.e) / 0.1)
    assert near(rate(member.control(), 0), KEPT)
