"""Demonstrations on DPLCF, one of them sound, and each other broken in one way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.demonstration import Demonstration, DistinguishingGame
from fedrec_auditor.targets.papers.dplcf.demonstrations import one_bit
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_ap import DplcfAp
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_sp import DplcfSp
from fedrec_auditor.targets.papers.dplcf.systems.lcf_ub import LcfUb

VIOLATED, HONEST = one_bit(DplcfAp(), 1_000), one_bit(DplcfSp(), 1_000)
SOUND = Demonstration(entries=("7",), violation=VIOLATED, control=HONEST)
OWN = np.random.default_rng(0)


def violating(side: DistinguishingGame) -> Demonstration:
    return replace(SOUND, violation=side)


def undecided(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    bits = VIOLATED.draw(world, size, rng)
    return np.where(bits > 0, bits, np.nan)


BROKEN_DEMONSTRATIONS = {
    "names no entry": replace(SOUND, entries=()),
    "names an entry that no paper has": replace(SOUND, entries=("99",)),
    "measures a user where one interaction is claimed": violating(
        replace(VIOLATED, scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING))
    ),
    "refutes a system that claims nothing": violating(replace(VIOLATED, system=LcfUb())),
    "has a statistic that is NaN now and then": violating(replace(VIOLATED, draw=undecided)),
    "gives a number less than it was asked for": violating(
        replace(VIOLATED, draw=lambda world, size, rng: VIOLATED.draw(world, size - 1, rng))
    ),
    "draws from a generator of its own": replace(
        SOUND,
        control=replace(HONEST, draw=lambda world, size, rng: HONEST.draw(world, size, OWN)),
    ),
    "depends on how many runs are drawn at once and does not say so": replace(
        SOUND,
        control=replace(
            HONEST, draw=lambda world, size, rng: HONEST.draw(world, size, rng) + size / 100
        ),
    ),
    "has one world twice": violating(replace(VIOLATED, worlds=("all", "all"))),
}
