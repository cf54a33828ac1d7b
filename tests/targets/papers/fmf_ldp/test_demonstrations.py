"""FMF-LDP: every report tells the two users apart as well as one can, in every round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.judging.demonstrations import claim_of
from fedrec_auditor.targets.papers.fmf_ldp.demonstrations import fmf_ldp_rounds

RUNS = 20_000


@pytest.mark.parametrize(("part", "reports"), [("violation", 40), ("control", 4)])
def test_reports_are_independent_and_of_the_rate_of_epsilon(part: str, reports: int) -> None:
    """Mean and variance of the count are the binomial's, within 5.5 standard deviations."""
    side = getattr(fmf_ldp_rounds(), part)
    for world, sign in ((0, 1), (1, -1)):
        rate = 1 / (1 + math.exp(-sign * 0.25))
        found = side.draw(world, RUNS, np.random.default_rng(world))
        variance = reports * rate * (1 - rate)
        assert found.max() <= reports
        assert abs(found.mean() - reports * rate) < 5.5 * math.sqrt(variance / RUNS)
        assert abs(found.var() / variance - 1) < 5.5 * math.sqrt(2 / RUNS)


def test_what_is_claimed_is_one_rounds_budget_for_a_training() -> None:
    shown = fmf_ldp_rounds()
    claims = [claim_of(side) for side in (shown.violation, shown.control)]
    assert [claim.epsilon for claim in claims] == [1.0, 1.0]
    assert [claim.scope.horizon for claim in claims] == ["training", "round"]
    assert (shown.violation.scope.horizon, shown.control.scope.horizon) == ("training", "round")
