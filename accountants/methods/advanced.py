"""Advanced composition of pure differential privacy, as textbooks have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dp_accounting import DpEvent

from fedrec_auditor.accountants.events.leaves import private_leaves, readable
from fedrec_auditor.accountants.losses.pure import PURE_EVENTS, Kinds, pure_kinds
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta

if TYPE_CHECKING:
    from fedrec_auditor.accountants.statements.scope import Scope

_Form = Literal["kairouz-oh-viswanath-2015", "dwork-rothblum-vadhan-2010"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """k uses of epsilon cost about epsilon sqrt(2 k ln(1/delta)) at delta, not k epsilon.

    For teaching: ``Optimal`` reads the same events and never proves more. With V the sum of
    e_i^2 over all uses:

    - Kairouz, Oh and Viswanath 2015, Theorem 3.5, by default, for unlike epsilons too:
      sum of e_i tanh(e_i/2), plus sqrt(2 V ln(1/delta)) or sqrt(2 V ln(e + sqrt(V)/delta)),
      whichever is less. The loss of one use has the mean e tanh(e/2) at most and lies within
      +-e, so the first is Hoeffding's inequality for delta(eps) <= P(loss > eps); the second
      integrates it: delta(eps) = int_0^inf e^-u P(loss > eps + u) du.
    - Dwork, Rothblum and Vadhan 2010, Theorem III.3: sum of e_i (e^e_i - 1) plus
      sqrt(2 V ln(1/delta)); printed for like epsilons, its proof (Azuma) gives this for unlike
      ones. Never below the other.

    Neither is above the plain sum here, which is all that holds at delta 0.
    """

    headline: ClassVar[bool] = False
    form: _Form = "kairouz-oh-viswanath-2015"

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        if self.form == "dwork-rothblum-vadhan-2010":
            return "advanced composition (Dwork, Rothblum, Vadhan 2010), for teaching"
        return "advanced composition (Kairouz, Oh, Viswanath 2015, Theorem 3.5), for teaching"

    def supports(self, event: DpEvent) -> bool:
        """Whether every leaf has a pure epsilon that is known here."""
        return readable(event, PURE_EVENTS)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        """The formula's epsilon at ``delta``; InputError names a leaf that cannot be read."""
        charged = private_leaves(event, PURE_EVENTS, scope=scope, reader="advanced composition")
        check_delta(delta)
        return Bound(
            epsilon=math.inf
            if charged is None
            else _advanced(pure_kinds(charged), float(delta), self.form),
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
        )


def _advanced(kinds: Kinds, delta: float, form: _Form) -> float:
    total = math.fsum(n * e for e, n in kinds)
    if delta == 0 or math.isinf(total) or total == 0:
        return total
    norm = math.hypot(*(math.sqrt(n) * e for e, n in kinds))
    level = -math.log(delta)
    if form == "dwork-rothblum-vadhan-2010":
        mean = math.fsum(n * e * math.expm1(min(e, 700.0)) for e, n in kinds)
    else:
        mean = math.fsum(n * e * math.tanh(e / 2.0) for e, n in kinds)
        # ln(e + sqrt(V)/delta) without overflow at the smallest deltas.
        level = min(level, float(_log_add(1.0, math.log(norm) + level)))
    return min(total, mean + norm * math.sqrt(2.0 * level))


def _log_add(one: float, other: float) -> float:
    """ln(e^one + e^other)."""
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))
