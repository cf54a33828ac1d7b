"""What a bound in one scope is worth in another, and what is assumed in saying so."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Side,
    Sizes,
    Unit,
    Vantage,
    any_pair,
    check_delta,
    check_epsilon,
)


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
        from fedrec_auditor.accountants.methods.accounting_methods import Pld

        event = dp.SelfComposedDpEvent(dp.PureDpEvent(epsilon), self.count)
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


@dataclass(frozen=True, slots=True)
class Step:
    """One theorem on the way from the narrower scope to the wider one, and what it assumes."""

    rule: ConversionRule | None
    assumptions: tuple[str, ...]


def convert(bound: Bound, scope: Scope, sizes: Sizes | None = None, delta: float = 0.0) -> Bound:
    """``bound`` carried into ``scope``, with the theorem in its source, and its assumptions.

    An upper bound goes up (report to round, rating to user) by composition and group privacy, and
    down unchanged. A lower bound goes up unchanged; it goes down by contraposition: had every part
    less, the whole would have less, so the worst part has that much, and only "some part", not each
    one, is known to. Where there is no theorem the field and the reason are named in an InputError:
    a weaker vantage for a stronger one, replacement for presence, an attribute for a user.

    ``delta`` is the delta in question: a pure upper bound is then carried over rounds by optimal
    composition. It knows nothing of the mechanism: an accountant that is given the target's events
    proves less, for Gaussian noise by far. ``Unit`` and ``Adjacency`` say what a unit is; for
    COORDINATE, REPORT and BIT all that are sent within the horizon are counted.
    """
    check_delta(delta)
    up = bound.side is Side.UPPER
    low, high = (bound.scope, scope) if up else (scope, bound.scope)
    steps = _path(low, high, sizes or Sizes(), delta if up and bound.delta == 0.0 else 0.0)
    epsilon, delta_there = bound.epsilon, bound.delta
    for step in steps if up else steps[::-1]:
        if step.rule is not None:
            move = step.rule.forward if up else step.rule.backward
            epsilon, delta_there = move(epsilon, delta_there)
    if not delta_there < 1.0:
        raise InputError(
            f"Expected a delta below 1 in [{scope}], got delta={bound.delta:.3g} at epsilon="
            f"{bound.epsilon:.6g}, which grows beyond it. Ask at a smaller delta."
        )
    theorems = dict.fromkeys(str(step.rule) for step in steps if step.rule is not None)
    assumptions = dict.fromkeys(a for step in steps for a in step.assumptions)
    if not up and theorems:
        assumptions["it holds for the worst part, which is not named"] = None
    how = ", then ".join(theorems if up else reversed(theorems)) or "the scope is covered"
    return replace(
        bound,
        epsilon=epsilon,
        delta=delta_there,
        scope=scope,
        source=bound.source if bound.scope == scope else f"{how}; from: {bound.source}",
        assumptions=(*bound.assumptions, *(a for a in assumptions if a not in bound.assumptions)),
        witness=None if theorems else bound.witness,
    )


def _path(low: Scope, high: Scope, sizes: Sizes, delta: float) -> list[Step]:
    """From an upper bound in ``low`` to one in ``high``: vantage, unit and adjacency, horizon."""
    if not low.vantage.shows(high.vantage):
        raise InputError(
            f"Expected a vantage that shows what [{high}] does, got {low.vantage}. What is seen "
            f"from {high.vantage} is no function of what is seen from {low.vantage}; account it."
        )
    horizon = _horizon(low, high, sizes, delta)
    # A unit that is wider than what one message holds is counted within the horizon of the bound.
    return [*_change(low, high, sizes), *horizon]


def _horizon(low: Scope, high: Scope, sizes: Sizes, delta: float) -> list[Step]:
    order = list(Horizon)
    first, last = order.index(low.horizon), order.index(high.horizon)
    count, purpose = 1, f"{low.horizon} to {high.horizon}"
    if first == 0 < last:
        count *= sizes.get("reports", purpose)
    if first < 2 == last:
        count *= sizes.get("rounds", purpose)
    if first >= last:
        return []
    coins = f"each {low.horizon} has fresh coins and the same bound, whatever was seen before"
    return [Step(Total(count, delta), (coins,))]


def _change(low: Scope, high: Scope, sizes: Sizes) -> list[Step]:
    """How many changes of the unit of ``low`` make one of ``high``, over the horizon of ``low``."""
    same = replace(high, vantage=low.vantage, horizon=low.horizon)
    if low.covers(same):
        return []
    if low.is_presence:
        stays = "what a user who stays changes is a removal and an addition"
        return [Step(Group(2), (stays,))]
    if low.unit is Unit.USER and not high.is_presence:
        # Of users' data, replaced by other users' data, of any length.
        if low.adjacency is Adjacency.REPLACE and high.unit is not Unit.USER:
            return [Step(None, ("another history may be longer or shorter",))]
        raise _no(low, high, "replacing a history does not speak of an empty one")
    if high.is_presence and low.adjacency is not Adjacency.ADD_REMOVE:
        raise _no(low, high, "what a user sends may be hidden while it is seen that one sends")
    if low.unit in (Unit.REPORT, Unit.COORDINATE) and high.unit is Unit.USER:
        return _sent(low, high, sizes)
    if low.unit is Unit.BIT and high.unit in (Unit.INTERACTION, Unit.USER):
        return _bits(low, high, sizes)
    if low.unit is high.unit:
        return _adjacency(low, same)
    if low.unit in (Unit.INTERACTION, Unit.RATING) and high.unit is Unit.USER:
        return _entries(low, high, sizes)
    if low.unit is Unit.RATING and high.unit is Unit.INTERACTION:
        if low.adjacency is Adjacency.REPLACE:
            raise _no(low, high, "which ratings there are is not hidden, only what they are")
        return _adjacency(low, replace(same, unit=low.unit))
    raise _no(
        low, high, f"no number of changes of one {low.unit} is known to make one of the other"
    )


def _adjacency(low: Scope, high: Scope) -> list[Step]:
    """Another adjacency of the same unit."""
    if low.unit is Unit.BIT:
        return [Step(None, ("a bit has two values, so that every change is a flip",))]
    if low.covers(high):
        return []
    if low.adjacency is Adjacency.REPLACE:
        raise _no(low, high, "replacing keeps how many there are, which may be published exactly")
    if low.unit is Unit.INTERACTION and high.adjacency is Adjacency.ANY_PAIR:
        return [Step(None, ("an interaction is there or not",))]
    return [Step(Group(2), ("a replacement is a removal and an addition",))]


def _sent(low: Scope, high: Scope, sizes: Sizes) -> list[Step]:
    """All reports or coordinates of a user: mechanisms of their own, which compose."""
    if low.adjacency is not high.adjacency and not (
        low.adjacency is Adjacency.ANY_PAIR and high.adjacency is Adjacency.REPLACE
    ):
        raise _no(low, high, f"{low.adjacency} of each part is no {high.adjacency} of the whole")
    purpose = f"{low.unit} to user"
    name = "reports" if low.unit is Unit.REPORT else "coordinates"
    count = 1
    if low.unit is Unit.COORDINATE or low.horizon is not Horizon.REPORT:
        count = sizes.get(name, purpose)
    if low.horizon is Horizon.TRAINING:
        count *= sizes.get("rounds", purpose)
    coins = f"the {name} of a user have independent coins"
    return [Step(Total(count), (coins,))] if count > 1 else []


def _bits(low: Scope, high: Scope, sizes: Sizes) -> list[Step]:
    """A bit an upload for an interaction, as many as there are items for a user."""
    purpose, count = f"bit to {high.unit}", 1
    if high.unit is Unit.USER:
        count = sizes.get("items", purpose)
    if low.horizon is Horizon.TRAINING:
        count *= sizes.get("rounds", purpose)
    assumed = ["an interaction is one bit of an upload, of which a round has one"]
    if high.is_presence:
        assumed.append("an absent user looks as one without interactions")
    if high.unit is Unit.INTERACTION and high.adjacency is Adjacency.REPLACE:
        count *= 2
    return [Step(Group(count) if count > 1 else None, tuple(assumed))]


def _entries(low: Scope, high: Scope, sizes: Sizes) -> list[Step]:
    """All interactions or ratings of a user, changed one by one."""
    if low.adjacency is Adjacency.REPLACE:
        raise _no(low, high, f"which {low.unit}s there are is not hidden, only what they are")
    name = "items" if low.unit is Unit.INTERACTION else "ratings"
    count = sizes.get(name, f"{low.unit} to user")
    if high.is_presence:
        assumed = (f"an absent user looks as one without {low.unit}s",)
    elif low.unit is Unit.RATING:
        # Those of the one history are removed, and those of the other added.
        assumed, count = ("no user has more ratings than that, before or after",), 2 * count
    else:
        assumed = ("two histories differ in all items at most",)
    return [Step(Group(count) if count > 1 else None, assumed)]


def _no(low: Scope, high: Scope, reason: str) -> InputError:
    field = "unit" if low.unit is not high.unit else "adjacency"
    return InputError(
        f"Expected another {field}, one that {low.unit} / {low.adjacency} speaks of, got "
        f"{high.unit} / {high.adjacency}: {reason}. Account the mechanism in that scope."
    )
