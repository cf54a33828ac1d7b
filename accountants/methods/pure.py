"""Basic composition of pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import DpEvent, LaplaceDpEvent, RandomizedResponseDpEvent

from accountants.bound import Bound, Side, check_delta, check_epsilon
from accountants.events import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    private_leaves,
    readable,
)
from accountants.ternary import Ternary

if TYPE_CHECKING:
    from accountants.scope import Scope

_READS = (
    RandomizedResponseDpEvent,
    BitFlipDpEvent,
    PureDpEvent,
    LaplaceDpEvent,
    ShuffledDpEvent,
)


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
        return readable(event, _READS)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The sum of the leaves' epsilons; InputError names a leaf that cannot be read."""
        charged = private_leaves(event, _READS, scope=scope, reader="the pure accountant")
        return Bound(
            epsilon=math.inf
            if charged is None
            else math.fsum(count * _epsilon(leaf) for leaf, count in charged),
            delta=check_delta(delta),
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
        )


def _epsilon(leaf: DpEvent) -> float:
    if isinstance(leaf, LaplaceDpEvent):
        return 1.0 / leaf.noise_multiplier if leaf.noise_multiplier > 0 else math.inf
    if isinstance(leaf, (PureDpEvent, ShuffledDpEvent)):
        return check_epsilon(leaf.epsilon)
    return Ternary.of(leaf).loss
