"""Draws of two worlds are half as many of each."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.worlds.power import Power, too_few_trainings

TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


@pytest.mark.parametrize(("times", "enough"), [(1.0, False), (1.5, False), (2.0, True)])
def test_power_asks_for_so_many_draws_of_each_world(times: float, enough: bool) -> None:
    needed = Power.of(2.0, delta=0.0, confidence=0.95).gaussian
    shown = Bound(
        epsilon=0.5,
        side=Side.LOWER,
        scope=TRAINING,
        source="a game",
        confidence=0.95,
        samples=round(times * needed),
    )
    claim = Claim(epsilon=2.0, scope=TRAINING, statement="ours", source="paper")
    assert (too_few_trainings(claim, [shown]) == "") is enough
