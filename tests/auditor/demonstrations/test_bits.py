"""DPLCF and LCF: the bit received follows the flip's law, and the violation shows at full size.

Rates are refused beyond 5.5 standard deviations (4e-8).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.demonstrations.base import Contest
from fedrec_auditor.auditor.demonstrations.dplcf_ap_zeros import DplcfApZeros
from fedrec_auditor.auditor.demonstrations.dplcf_sufficient import DplcfSufficient
from fedrec_auditor.auditor.demonstrations.lcf_ap_zeros import LcfApZeros
from fedrec_auditor.auditor.games import neighbours

RUNS = 40_000
KEPT = math.e / (1 + math.e)


def rate(contest: Contest, world: int) -> float:
    return float(contest.sample(world, RUNS, np.random.default_rng(world)).mean())


def near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 5.5 * math.sqrt(expected * (1 - expected) / RUNS)


@pytest.mark.parametrize("member", [DplcfApZeros(), LcfApZeros()])
def test_a_held_item_is_never_sent_as_a_zero(member: DplcfApZeros | LcfApZeros) -> None:
    contest = member.violation()
    assert rate(contest, 0) == 1.0
    assert near(rate(contest, 1), math.exp(-1))
    control = member.control()
    assert near(rate(control, 0), KEPT)
    assert near(rate(control, 1), 1 - KEPT)
    assert contest.claim.epsilon == control.claim.epsilon == 1.0


def test_forty_uploads_a_world_refute_an_epsilon_of_1_twice() -> None:
    """24 do so once in about half of all draws; the default of 1,000 hardly ever fails."""

    def bounds(samples: int) -> list[float]:
        contest = DplcfApZeros(samples=samples).violation()
        return [
            neighbours.play(contest, confidence=0.95, rng=np.random.default_rng(s)).bound.epsilon
            for s in range(20)
        ]

    assert min(bounds(40)) > 1.0
    assert max(bounds(24)) > 1.0


def test_the_condition_holds_and_the_claim_does_not() -> None:
    member = DplcfSufficient()
    contest = member.violation()
    p, q = rate(contest, 0), rate(contest, 1)
    assert near(p, 0.9)
    assert near(q, 0.9 / math.e)
    duel = neighbours.play(contest, confidence=0.95, rng=np.random.default_rng(0))
    assert 1.8 < duel.bound.epsilon < math.log((1 - 0.9 / math.e) / 0.1)
    assert near(rate(member.control(), 0), KEPT)
