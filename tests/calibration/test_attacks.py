"""How often an attack beats its baseline on uploads that carry nothing, over many plays."""

from __future__ import annotations

import pytest
from scipy import stats

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.auditor.plan.families import FAMILIES
from tests.contracts.attacks import P_VALUE, AttackCase, alarms
from tests.contracts.trainings import TARGETS, halves, training

pytestmark = pytest.mark.calibration
PLAYS = 100


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FAMILIES["attacks"].names())
@pytest.mark.parametrize("vantage", Vantage)
def test_alarms_over_many_plays(name: str, target: str, vantage: Vantage) -> None:
    attack: Attack = FAMILIES["attacks"].member(name)()
    trainings = halves(target) if attack.family is AttackFamily.USER_MEMBERSHIP else None
    case = AttackCase(attack, training(target), vantage, trainings, PLAYS)
    if not case.is_read:
        pytest.skip("it reads nothing there")
    found = alarms(case)
    print(f"\n{name} on {target}, {vantage}: {dict(found)} of {PLAYS} plays beat a baseline")
    assert max(found.values(), default=0) <= stats.binom.isf(P_VALUE, PLAYS, 0.025)
