"""Deliberately broken accountants: a contract that passes one of them is itself broken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent, NeighboringRelation, NonPrivateDpEvent, UnsupportedDpEvent
from dp_accounting.pld import PLDAccountant

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import leaves
from fedrec_auditor.accountants.methods.pure import Pure
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.testing.parts.events import SCOPE


@dataclass(frozen=True)
class _Sum:
    """Pure composition of what ``Pure`` reads, with one thing wrong in each heir."""

    reference: str = "none"

    def supports(self, event: DpEvent) -> bool:
        return Pure().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        true = Pure().bound(event, delta=delta, scope=scope).epsilon
        return self._bound(self._wrong(event, true, delta), delta, scope)

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true

    def _bound(self, epsilon: float, delta: float, scope: Scope) -> Bound:
        return Bound(
            epsilon=epsilon, delta=delta, side=Side.UPPER, scope=scope, source=self.reference
        )


class ForgetsCounts(_Sum):
    """Charges every leaf of the tree once."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        if not math.isfinite(true):
            return true
        return sum(_alone(leaf) for leaf, _ in leaves(event))


class AddsSquares(_Sum):
    """sqrt(sum eps^2), which is not a theorem."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        if not math.isfinite(true):
            return true
        return math.sqrt(sum(n * _alone(leaf) ** 2 for leaf, n in leaves(event)))


class PaysForDelta(_Sum):
    """Needs more epsilon at a larger delta."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true * (1 + delta)


class OptimisticTail(_Sum):
    """Drops a tail of the losses, a per cent of epsilon."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return 0.99 * true


class LowerSide(_Sum):
    """Says that its upper bound is a lower one."""

    def _bound(self, epsilon: float, delta: float, scope: Scope) -> Bound:
        return Bound(epsilon=epsilon, delta=delta, side=Side.LOWER, scope=scope, source="none")


class SkipsUnknown(_Sum):
    """Leaves out what it cannot read."""

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        known = [(leaf, n) for leaf, n in leaves(event) if type(leaf) is not UnsupportedDpEvent]
        private = not any(isinstance(leaf, NonPrivateDpEvent) for leaf, _ in known)
        total = sum(n * _alone(leaf) for leaf, n in known) if private else math.inf
        return self._bound(total, check_delta(delta), scope)


class CountsOneKind(_Sum):
    """Charges the costliest kind of leaf only: alike uses are right, unlike ones are not."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return max((n * _alone(leaf) for leaf, n in leaves(event)), default=0.0)


class FearsCrowds(_Sum):
    """Charges more where there are more users to hide among."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        crowd = max((getattr(leaf, "n_users", 1) for leaf, _ in leaves(event)), default=1)
        return true * (1 + math.log(crowd))


class PricesNonsense(_Sum):
    """Gives a price for parameters that make no sense."""

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        try:
            return super().bound(event, delta=delta, scope=scope)
        except InputError:
            if not self.supports(event) or not 0 <= delta < 1:
                raise
            return self._bound(1.0, delta, scope)


class RawLibrary(_Sum):
    """dp-accounting 0.6.0's own loss accountant, which ignores a repeated response's count."""

    def supports(self, event: DpEvent) -> bool:
        return self._accountant().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        check_delta(delta)
        leaves(event)
        if not self.supports(event):
            raise InputError(f"Expected an event that can be read, got {event}.")
        epsilon = self._accountant().compose(event).get_epsilon(delta)
        return self._bound(float(epsilon), delta, scope)

    def _accountant(self) -> Any:
        return PLDAccountant(NeighboringRelation.REPLACE_ONE)


def _alone(leaf: DpEvent) -> float:
    return Pure().bound(leaf, delta=0.0, scope=SCOPE).epsilon


# Each with the check that is made for its fault.
BROKEN_ACCOUNTANTS = {
    RawLibrary(): "fold",
    ForgetsCounts(): "sound",
    PaysForDelta(): "monotone",
    FearsCrowds(): "ladders",
    OptimisticTail(): "sound",
    CountsOneKind(): "enumerated",
    AddsSquares(): "sampled",
    SkipsUnknown(): "refusal",
    PricesNonsense(): "senseless",
    LowerSide(): "statement",
}
