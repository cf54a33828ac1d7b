"""Tightness of bounds: upper bounds from above, lower bounds from below.

The contracts hold members to soundness; a member that is sound and useless fails here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import SelfComposedDpEvent
from scipy import optimize

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.accountants import _drawn
from fedrec_auditor.auditor.testing.estimators import estimate, response, worlds_of
from fedrec_auditor.auditor.testing.parts.events import SAMPLED, USES

# By how much of the truth a bound may exceed it, at delta 0 and above.
SLACK = {
    "optimal": (1e-6, 0.01),
    "pld": (1e-6, 1e-4),
    "pure": (1e-6, math.inf),
    "rdp": (math.inf, 1.3),  # its conversion, of which delta .01 and little noise have most
    "shuffle": (1e-6, 1e-4),
}
BOUNDED = ("fixed size", "responses of fixed size")  # by a pair that no data set has
SAMPLING = FAMILIES["estimators"].names()


def made(family: str, name: str) -> Any:
    return FAMILIES[family].member(name)()


@pytest.mark.parametrize("name", FAMILIES["accountants"].names())
def test_upper_bounds_are_near_the_truth_where_it_is_known(name: str) -> None:
    """Of Laplace noise the truth of one use is known; 0 stands where it is not."""
    accountant, tried = made("accountants", name), 0
    for use in USES.values():
        if use.exact is None or not accountant.supports(use.event):
            continue
        for n in (1, 5, 400) if use is not USES["laplace"] else (1,):
            for delta in (0.0, 1e-6, 0.01):
                truth, slack = use.exact(n, delta), SLACK[name][delta > 0]
                if truth in (0.0, math.inf) or math.isinf(slack):
                    continue
                event = SelfComposedDpEvent(use.event, n)
                found = accountant.bound(event, delta=delta, scope=use.scope).epsilon
                assert found <= truth * (1 + slack) + 1e-4, (use.event, n, delta, truth)
                tried += 1
    assert tried


@pytest.mark.parametrize("name", [name for name in SAMPLED if name not in BOUNDED])
def test_the_pld_accountant_is_near_what_draws_of_losses_show(name: str) -> None:
    """Within 3%, of which draws make up less than 0.5; a Gaussian's bound is 0.2% below."""
    case, delta = SAMPLED[name], 0.05

    def shown(losses: np.ndarray) -> float:
        def excess(epsilon: float) -> float:
            return float(-np.expm1(epsilon - np.maximum(losses, epsilon)).mean()) - delta

        return float(optimize.brentq(excess, 0.0, 50.0))

    truth = max(shown(_drawn(losses)) for losses in case.losses)
    found = made("accountants", "pld").bound(case.event, delta=delta, scope=case.scope).epsilon
    assert found <= 1.03 * truth


@pytest.mark.parametrize("name", SAMPLING)
def test_lower_bounds_show_most_of_what_randomized_response_spends(name: str) -> None:
    """Four thousand draws of each world, epsilon 2: by six standard errors at least 1.4."""
    world = response(2.0)
    worlds = worlds_of(world.a, world.b)
    bound = estimate(made("estimators", name), worlds, samples=4_000, seed=np.random.default_rng(0))
    assert 1.4 < bound.epsilon < 2.2
