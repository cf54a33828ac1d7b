"""Symmetric unary encoding, which is basic RAPPOR without its memory."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.parts.rates import flip_rate
from fedrec_auditor.targets.mechanisms.parts.unary import Unary


@dataclass(frozen=True, slots=True)
class SymmetricUnary(Unary):
    """Every bit of a one-hot category is flipped with 1/(e^(eps/2) + 1): epsilon in all, exactly.

    Two categories differ in two bits, and both may tell: half of epsilon a bit. The trap is a rate
    of 1/(e^eps + 1), which costs 2 eps. The rate is rounded up, so that the epsilon of the number
    stored is never above ``epsilon``.
    Source: Erlingsson, Pihur and Korolova 2014 (one report); Wang et al. 2017 (SUE).

    Inputs are whole numbers 0 ... k - 1, outputs (*size, k) bools.
    """

    @property
    def missed(self) -> float:
        """P(0 | 1) = 1/(e^(eps/2) + 1)."""
        return flip_rate(self.epsilon / 2.0)

    @property
    def invented(self) -> float:
        """P(1 | 0), the same."""
        return self.missed

    def event(self) -> dp.DpEvent:
        """Two randomized responses: the two bits in which any two inputs differ."""
        return dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(2.0 * self.missed, 2), 2)
