"""How (epsilon, delta) grows when changes or releases add up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_delta, check_epsilon


@dataclass(frozen=True, slots=True)
class Total:
    """``count`` mechanisms, each (epsilon, delta), are (count epsilon, count delta) together.

    Basic composition (Dwork, McSherry, Nissim, Smith 2006; Dwork et al. 2006, "Our data,
    ourselves", Theorem 1), adaptive too. Attained at delta 0. Pure epsilons cost less at a
    ``delta`` above 0: each is dominated by randomized response (Kairouz, Oh and Viswanath 2015), of
    which the composition is an exact sum; ``forward`` then gives the lesser of the two.
    """

    count: int
    delta: float = 0.0

    def __post_init__(self) -> None:
        _check_count(self.count)
        check_delta(self.delta)

    def forward(self, epsilon: float, delta: float) -> tuple[float, float]:
        """What all of them have, if each has no more."""
        check_epsilon(epsilon)
        check_delta(delta)
        if delta > 0.0 or self.delta == 0.0 or math.isinf(epsilon) or self.count == 1:
            return self.count * epsilon, self.count * delta
        from dp_accounting import SelfComposedDpEvent

        from fedrec_auditor.accountants.events.leaves import PureDpEvent
        from fedrec_auditor.accountants.methods.pld import Pld
        from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair

        event = SelfComposedDpEvent(PureDpEvent(epsilon), self.count)
        scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
        least = Pld().bound(event, delta=self.delta, scope=scope).epsilon
        return min(self.count * epsilon, least), self.delta

    def backward(self, epsilon: float, delta: float) -> tuple[float, float]:
        """What the worst of them has at least, if all together have no less."""
        return check_epsilon(epsilon) / self.count, check_delta(delta) / self.count

    def __str__(self) -> str:
        if self.delta > 0.0:
            return f"optimal composition of {self.count} pure epsilons at delta {self.delta:.3g}"
        return f"basic composition, {self.count} times"


@dataclass(frozen=True, slots=True)
class Group:
    """``size`` changes of one unit: (k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1)).

    Group privacy (Dwork and Roth 2014, Theorem 2.2, with the sum of the series): on the way from
    D_0 to D_k the probability of an event is P_0 <= e^eps P_1 + delta <= e^2eps P_2 + (1 + e^eps)
    delta <= ... For k = 2, removing and adding instead of replacing, delta grows by 1 + e^eps. It
    is not k delta, and both figures are attained at once.
    """

    size: int

    def __post_init__(self) -> None:
        _check_count(self.size)

    def forward(self, epsilon: float, delta: float) -> tuple[float, float]:
        """What a change of the whole group has, if one change has no more."""
        check_epsilon(epsilon)
        if check_delta(delta) == 0.0 or math.isinf(epsilon):
            return self.size * epsilon, delta
        log_delta = math.log(delta) + self._log_growth(epsilon)
        return self.size * epsilon, math.exp(log_delta) if log_delta < 0.0 else 1.0

    def backward(self, epsilon: float, delta: float) -> tuple[float, float]:
        """What some change of one unit has at least, if one of the whole group has no less."""
        one = check_epsilon(epsilon) / self.size
        if check_delta(delta) == 0.0 or math.isinf(one):
            return one, 0.0
        return one, math.exp(math.log(delta) - self._log_growth(one))

    def _log_growth(self, epsilon: float) -> float:
        """ln (1 + e^eps + ... + e^((k - 1) eps))."""
        if epsilon == 0.0:
            return math.log(self.size)
        shrink = math.log(math.expm1(-self.size * epsilon) / math.expm1(-epsilon))
        return (self.size - 1) * epsilon + shrink

    def __str__(self) -> str:
        return f"group privacy, {self.size} changes"


ConversionRule = Total | Group
"""How a bound changes on the way from a narrower scope to a wider one, and back."""


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"Expected a count of at least 1, got {count!r}. Give a whole number.")
