"""How often an attack beats its baseline on uploads that carry nothing, over many plays."""

from __future__ import annotations

import pytest
from scipy import stats

from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.attacks import (
    GAMES,
    P_VALUE,
    TARGETS,
    AttackCase,
    alarms,
    data,
    training,
)

pytestmark = pytest.mark.calibration
PLAYS = 100
ATTACKS = [n for n in FAMILIES["attacks"].names() if FAMILIES["attacks"].member(n).family in GAMES]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ATTACKS)
def test_alarms_over_many_plays(name: str, target: str) -> None:
    attack: Attack = FAMILIES["attacks"].member(name)()
    found = alarms(AttackCase(attack, training(target), data(), plays=PLAYS))
    print(f"\n{name} on {target}: {dict(found)} of {PLAYS} plays beat a baseline")
    assert max(found.values()) <= stats.binom.isf(P_VALUE, PLAYS, 0.025)
