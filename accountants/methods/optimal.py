"""Optimal composition of pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import DpEvent

from fedrec_auditor.accountants.events.leaves import private_leaves, readable
from fedrec_auditor.accountants.losses.pure import PURE_EVENTS, pure_kinds
from fedrec_auditor.accountants.losses.responses import least_epsilon_of
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta

if TYPE_CHECKING:
    from fedrec_auditor.accountants.statements.scope import Scope


@dataclass(frozen=True, slots=True)
class Optimal:
    """Composed pure epsilons cost what as many randomized responses cost, and no less.

    No better bound holds for all mechanisms of these epsilons, chosen adaptively too. Like ones:
    Kairouz, Oh and Viswanath 2015, Theorem 3.3, for any delta instead of theirs only. Unlike ones:
    Murtagh and Vadhan 2016, Theorem 1.5. Exact to 1e-9, or from above on a grid where unlike ones
    are too many to be enumerated: there it is off by 1e-6 relative; ``accountants/_responses.py``
    says how. Nothing but its epsilon is used of a leaf, so what knows more of a Laplace or of a
    five-sided response may prove less. A shuffled report is charged as if it were not shuffled.

    It shares no code with the loss accountant, whose numbers it confirms.
    """

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        return (
            "optimal composition of pure epsilons (Kairouz, Oh, Viswanath 2015; "
            "Murtagh, Vadhan 2016)"
        )

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf has a pure epsilon that is known here."""
        return readable(event, PURE_EVENTS)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The least epsilon at ``delta``; InputError names a leaf that cannot be read."""
        charged = private_leaves(event, PURE_EVENTS, scope=scope, reader="optimal composition")
        check_delta(delta)
        return Bound(
            epsilon=math.inf
            if charged is None
            else least_epsilon_of(pure_kinds(charged), float(delta)),
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
        )
