"""DPLCF and LCF: the bit received follows the flip's law, and the violation shows at full size.

Rates are refused beyond 5.5 standard deviations (4e-8).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.judging.demonstrations import claim_of, worlds
from fedrec_auditor.auditor.plan.demonstrations import demonstration
from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial
from fedrec_auditor.auditor.worlds.measure import measure
from fedrec_auditor.targets.declarations.demonstration import DistinguishingGame
from fedrec_auditor.targets.papers.dplcf.demonstrations import sufficient, zeros

RUNS = 40_000
KEPT = math.e / (1 + math.e)


def rate(side: DistinguishingGame, world: int) -> float:
    return float(side.draw(world, RUNS, np.random.default_rng(world)).mean())


def measured(side: DistinguishingGame, seed: int) -> float:
    return measure(
        worlds(side),
        (claim_of(side),),
        JointBinomial(),
        delta=side.delta,
        confidence=0.95,
        samples=side.samples,
        rng=np.random.default_rng(seed),
    ).bound.epsilon


def near(found: float, expected: float) -> bool:
    return abs(found - expected) <= 5.5 * math.sqrt(expected * (1 - expected) / RUNS)


@pytest.mark.parametrize("name", ["dplcf-ap-zeros", "lcf-ap-zeros"])
def test_a_held_item_is_never_sent_as_a_zero(name: str) -> None:
    shown = demonstration(name)
    assert rate(shown.violation, 0) == 1.0
    assert near(rate(shown.violation, 1), math.exp(-1))
    assert near(rate(shown.control, 0), KEPT)
    assert near(rate(shown.control, 1), 1 - KEPT)
    assert claim_of(shown.violation).epsilon == claim_of(shown.control).epsilon == 1.0


def test_eighty_uploads_a_world_refute_an_epsilon_of_1_twice() -> None:
    """Half of them choose the rule. Ten zeros are needed, and one upload in three shows one."""

    def bounds(samples: int) -> list[float]:
        side = zeros(samples=samples).violation
        return [measured(side, seed) for seed in range(20)]

    assert min(bounds(80)) > 1.0
    assert max(bounds(40)) > 1.0


def test_the_condition_holds_and_the_claim_does_not() -> None:
    shown = sufficient()
    p, q = rate(shown.violation, 0), rate(shown.violation, 1)
    assert near(p, 0.9)
    assert near(q, 0.9 / math.e)
    assert 1.8 < measured(shown.violation, 0) < math.log((1 - 0.9 / math.e) / 0.1)
    assert near(rate(shown.control, 0), KEPT)
