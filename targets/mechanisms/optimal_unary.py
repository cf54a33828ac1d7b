"""Optimized unary encoding: the bits are flipped at unlike rates."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.mechanisms.parts.rates import flip_rate
from fedrec_auditor.targets.mechanisms.parts.unary import Unary


@dataclass(frozen=True, slots=True)
class OptimalUnary(Unary):
    """P(1 | 1) = 1/2 and P(1 | 0) = 1/(e^eps + 1) for the bits of a one-hot category.

    Exactly epsilon-private: two categories differ in two bits, and the worst output, one bit seen
    and the other not, has the ratio (1/2)/q (1 - q)/(1/2) = e^eps. One bit alone has ln((e^eps +
    1)/2), so charging the two bits apart costs more than the pair ever shows. Of all unary
    encodings it has the least variance for rare categories. q is rounded up, so that the epsilon
    of the number stored is never above ``epsilon``.
    Source: Wang, Blocki, Li and Jha 2017 (OUE).

    Inputs are whole numbers 0 ... k - 1, outputs (*size, k) bools.
    """

    @property
    def missed(self) -> float:
        """P(0 | 1) = 1/2."""
        return 0.5

    @property
    def invented(self) -> float:
        """P(1 | 0) = 1/(e^eps + 1)."""
        return flip_rate(self.epsilon)
