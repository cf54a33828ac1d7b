"""FMF-LDP: every report tells the two users apart as well as one can, in every round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.demonstrations.fmf_ldp_rounds import FmfLdpRounds

RUNS = 20_000


@pytest.mark.parametrize(("part", "reports"), [("violation", 40), ("control", 4)])
def test_reports_are_independent_and_of_the_rate_of_epsilon(part: str, reports: int) -> None:
    """Mean and variance of the count are the binomial's, within 5.5 standard deviations."""
    game = getattr(FmfLdpRounds(), part)()
    for world, sign in ((0, 1), (1, -1)):
        rate = 1 / (1 + math.exp(-sign * 0.25))
        found = game.worlds.draw(world, RUNS, np.random.default_rng(world))
        variance = reports * rate * (1 - rate)
        assert found.max() <= reports
        assert abs(found.mean() - reports * rate) < 5.5 * math.sqrt(variance / RUNS)
        assert abs(found.var() / variance - 1) < 5.5 * math.sqrt(2 / RUNS)


def test_what_is_claimed_is_one_rounds_budget_for_a_training() -> None:
    member = FmfLdpRounds()
    violation, control = member.violation(), member.control()
    assert violation.claim.epsilon == control.claim.epsilon == 1.0
    assert (violation.worlds.scope.horizon, control.worlds.scope.horizon) == ("training", "round")
    assert violation.claim.scope.horizon == "training"
