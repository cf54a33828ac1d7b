"""Group privacy at a given delta: what several changes at once cost, if one is known at any."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fedrec_auditor.accountants.statements.bound import Bound, check_delta
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.theorems.conversions import Group

# The delta that is asked first, the most steps from there, and the share of epsilon that ends it.
_LEAST_DELTA, _STEPS, _SMALL = 1e-200, 10, 1e-3


def of_group(prove: Callable[[float], Bound], size: int, delta: float, scope: Scope) -> Bound:
    """An upper bound at ``delta`` on ``size`` changes at once, in ``scope``; infinite if none.

    ``prove`` gives the bound of one change at a delta. One that is (e, d) is (size e, d (1 + e^e +
    ... )) for the group (``conversions.Group``), and every d that keeps ``delta`` so is a proof. A
    larger d has a smaller e, so the search begins at a tiny d and takes again and again the one
    that ``delta`` has room for.
    """
    check_delta(delta)
    group = Group(size)
    if delta == 0.0 or size == 1:
        one = prove(delta)
        return _carried(one, group.forward(one.epsilon, 0.0)[0], delta, group, scope)
    best = _carried(prove(_LEAST_DELTA), math.inf, delta, group, scope)
    tried = _LEAST_DELTA
    for _ in range(_STEPS):
        one = prove(tried)
        if math.isinf(one.epsilon):
            break
        epsilon, spent = group.forward(one.epsilon, tried)
        if spent > delta or epsilon > best.epsilon * (1.0 - _SMALL):
            break
        best = _carried(one, epsilon, delta, group, scope)
        tried *= delta / spent
    return best


def _carried(one: Bound, epsilon: float, delta: float, group: Group, scope: Scope) -> Bound:
    source = f"{group}; from: {one.source}" if group.size > 1 else one.source
    return replace(one, epsilon=epsilon, delta=delta, scope=scope, source=source)
