"""Optimal composition of pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.pure import PURE_EVENTS, pure_kinds
from fedrec_auditor.accountants.losses.responses import least_epsilon_of
from fedrec_auditor.accountants.methods.parts.leaf_accountant import LeafAccountant


@dataclass(frozen=True, slots=True)
class Optimal(LeafAccountant):
    """Composed pure epsilons cost what as many randomized responses cost, and no less.

    No better bound holds for all mechanisms of these epsilons, chosen adaptively too. Equal ones:
    Kairouz, Oh and Viswanath 2015, Theorem 3.3, for any delta instead of theirs only. Unequal ones:
    Murtagh and Vadhan 2016, Theorem 1.5. Exact to 1e-9, or from above on a grid where unequal ones
    are too many to be enumerated: there it is off by 1e-6 relative; ``losses.responses`` says how.
    Only the epsilon of a leaf is used, so an accountant that knows more of a Laplace or of a
    response among five may prove less. A shuffled report counts as if it were not shuffled.

    It shares no code with the loss accountant, whose numbers it confirms.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import PureDpEvent
    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(PureDpEvent(0.5), 20)
    >>> round(Optimal().bound(event, delta=1e-6, scope=scope).epsilon, 3)
    9.987
    """

    reference = (
        "optimal composition of pure epsilons (Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016)"
    )
    name = "optimal composition"
    reads = PURE_EVENTS

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """The epsilon of the composed randomized responses."""
        return least_epsilon_of(pure_kinds(uses), delta)
