"""Basic composition of pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.pure import PURE_EVENTS, pure_epsilon
from fedrec_auditor.accountants.methods.parts.leaf_accountant import LeafAccountant


@dataclass(frozen=True, slots=True)
class Pure(LeafAccountant):
    """Pure epsilons add up, under adaptive composition too (Dwork et al. 2006, Theorem 1).

    The sum holds at delta 0, hence at any delta; where all reports may take their worst pair of
    inputs at once it is exact at delta 0. A shuffled report counts as if it were not shuffled.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> Pure().bound(event, delta=0.0, scope=scope).epsilon
    10.0
    """

    reference = "basic composition of pure epsilons (Dwork, McSherry, Nissim, Smith 2006)"
    name = "the pure accountant"
    reads = PURE_EVENTS

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The sum of all epsilons."""
        return math.fsum(count * pure_epsilon(leaf) for leaf, count in uses)
