"""How often an attack beats its baseline on uploads that carry nothing, over many plays."""

from __future__ import annotations

import pytest
from scipy import stats

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.attacks import (
    P_VALUE,
    TARGETS,
    AttackCase,
    alarms,
    data,
    halves,
    training,
)

pytestmark = pytest.mark.calibration
PLAYS = 100


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FAMILIES["attacks"].names())
@pytest.mark.parametrize("vantage", Vantage)
def test_alarms_over_many_plays(name: str, target: str, vantage: Vantage) -> None:
    attack: Attack = FAMILIES["attacks"].member(name)()
    trainings = halves(target) if attack.family is AttackFamily.USER_MEMBERSHIP else None
    found = alarms(AttackCase(attack, training(target), data(), vantage, trainings, PLAYS))
    print(f"\n{name} on {target}, {vantage}: {dict(found)} of {PLAYS} plays beat a baseline")
    assert max(found.values()) <= stats.binom.isf(P_VALUE, PLAYS, 0.025)
