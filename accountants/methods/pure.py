"""Basic composition of pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import DpEvent

from fedrec_auditor.accountants.events.leaves import private_leaves, readable
from fedrec_auditor.accountants.losses.pure import PURE_EVENTS, pure_epsilon
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta

if TYPE_CHECKING:
    from fedrec_auditor.accountants.statements.scope import Scope


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure epsilons add up, under adaptive composition too (Dwork et al. 2006, Theorem 1).

    The sum holds at delta 0, hence at any delta; where reports may take their worst pair at once
    it is exact at delta 0. A shuffled report is charged as if it were not shuffled.
    """

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        return "basic composition of pure epsilons (Dwork, McSherry, Nissim, Smith 2006)"

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf has a pure epsilon that is known here."""
        return readable(event, PURE_EVENTS)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The sum of the leaves' epsilons; InputError names a leaf that cannot be read."""
        charged = private_leaves(event, PURE_EVENTS, scope=scope, reader="the pure accountant")
        return Bound(
            epsilon=math.inf
            if charged is None
            else math.fsum(count * pure_epsilon(leaf) for leaf, count in charged),
            delta=check_delta(delta),
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
        )
