"""Conversions of a bound from one scope to another by composition and group privacy, with their
assumptions.
"""

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
    check_delta,
    check_epsilon,
    make_local_scope,
)


@dataclass(frozen=True, slots=True)
class CompositionRule:
    """Composition theorem: n mechanisms that are each (epsilon, delta)-DP are together (n epsilon,
    n delta)-DP.

    - ``n_mechanisms``: number n of mechanisms.
    - ``delta``: delta at which the result is needed. Above 0, optimal composition of pure epsilons
      (Kairouz, Oh and Viswanath 2015) is used if its epsilon is smaller.

    The theorem also holds under adaptive composition. Sources: Dwork, McSherry, Nissim, Smith 2006;
    Dwork et al. 2006, "Our data, ourselves", Theorem 1.
    """

    n_mechanisms: int
    delta: float = 0.0

    def __post_init__(self) -> None:
        _check_count("n_mechanisms", self.n_mechanisms)
        check_delta(self.delta)

    def convert_to_whole(self, epsilon: float, delta: float) -> tuple[float, float]:
        """Computes (epsilon, delta) of the whole composition from (epsilon, delta) of each
        mechanism.
        """
        check_epsilon(epsilon)
        check_delta(delta)
        if delta > 0.0 or self.delta == 0.0 or math.isinf(epsilon) or self.n_mechanisms == 1:
            return self.n_mechanisms * epsilon, self.n_mechanisms * delta
        from fedrec_auditor.accountants.methods.accounting_methods import Pld

        event = dp.SelfComposedDpEvent(dp.PureDpEvent(epsilon), self.n_mechanisms)
        scope = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
        least = Pld().bound(event, delta=self.delta, scope=scope).epsilon
        return min(self.n_mechanisms * epsilon, least), self.delta

    def convert_to_single(self, epsilon: float, delta: float) -> tuple[float, float]:
        """Computes (epsilon, delta) of a lower bound for a single mechanism from a lower bound for
        the composition.

        The result holds for at least one of the mechanisms.
        """
        return check_epsilon(epsilon) / self.n_mechanisms, check_delta(delta) / self.n_mechanisms

    def __str__(self) -> str:
        if self.delta > 0.0:
            name = f"optimal composition of {self.n_mechanisms} pure epsilons"
            return f"{name} at delta {self.delta:.3g}"
        return f"basic composition, {self.n_mechanisms} times"


@dataclass(frozen=True, slots=True)
class GroupPrivacyRule:
    """Group privacy: converts a bound for a change of one unit to a bound for a change of k units
    at once.

    - ``group_size``: number k of units.

    For k units, epsilon becomes k epsilon, and delta becomes delta (e^(k epsilon) - 1)/(e^epsilon -
    1). Source: Dwork and Roth 2014, Theorem 2.2, with the sum of the series.
    """

    # Proof: let P_i be the probability of an event on input D_i, which differs from D_0 in i units.
    # Then P_0 <= e^eps P_1 + delta <= e^2eps P_2 + (1 + e^eps) delta <= ... Some mechanism attains
    # epsilon and delta at once.

    group_size: int

    def __post_init__(self) -> None:
        _check_count("group_size", self.group_size)

    def convert_to_whole(self, epsilon: float, delta: float) -> tuple[float, float]:
        """Computes (epsilon, delta) for a change of the whole group from (epsilon, delta) for one
        unit.
        """
        check_epsilon(epsilon)
        if check_delta(delta) == 0.0 or math.isinf(epsilon):
            return self.group_size * epsilon, delta
        log_delta = math.log(delta) + self._log_growth(epsilon)
        return self.group_size * epsilon, math.exp(log_delta) if log_delta < 0.0 else 1.0

    def convert_to_single(self, epsilon: float, delta: float) -> tuple[float, float]:
        """Computes (epsilon, delta) of a lower bound for a change of one unit from a lower bound
        for the whole group.

        The change of the group consists of changes of one unit each. The result holds for at least
        one of them.
        """
        one = check_epsilon(epsilon) / self.group_size
        if check_delta(delta) == 0.0 or math.isinf(one):
            return one, 0.0
        return one, math.exp(math.log(delta) - self._log_growth(one))

    def _log_growth(self, epsilon: float) -> float:
        """ln (1 + e^eps + ... + e^((k - 1) eps))."""
        if epsilon == 0.0:
            return math.log(self.group_size)
        shrink = math.log(math.expm1(-self.group_size * epsilon) / math.expm1(-epsilon))
        return (self.group_size - 1) * epsilon + shrink

    def __str__(self) -> str:
        return f"group privacy, {self.group_size} changes"


# Theorem that converts a bound between a narrower scope and a wider scope.
ConversionRule = CompositionRule | GroupPrivacyRule


def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"Expected {name} as a whole number >= 1, got {count!r}. Give 1 or more.")


@dataclass(frozen=True, slots=True)
class ConversionStep:
    """One step of the conversion of a bound between a narrower and a wider scope.

    - ``rule``: theorem of the step, or None if the bound does not change.
    - ``assumptions``: assumptions of the step, as sentences.
    """

    rule: ConversionRule | None
    assumptions: tuple[str, ...]


def convert_bound(
    bound: Bound, scope: Scope, sizes: Sizes | None = None, delta: float = 0.0
) -> Bound:
    """Converts ``bound`` to another ``scope`` by composition and group privacy.

    - ``sizes``: numbers of items, ratings, reports and rounds in the wider scope.
    - ``delta``: delta at which the result is needed. Above 0, a pure upper bound is converted over
      rounds by optimal composition.

    The result names the theorems used in its source, and includes their assumptions.

    - An upper bound keeps its epsilon in a narrower scope. In a wider scope (report to round,
      rating to user) the epsilon grows.
    - A lower bound keeps its epsilon in a wider scope. In a narrower scope the epsilon shrinks, and
      the result holds for at least one part (such as one report).

    Raises InputError, with the field and the reason, if no theorem converts the bound, for example
    to a stronger vantage.
    """
    # A lower bound in a narrower scope follows by contraposition: if all parts (such as all
    # reports) had an epsilon below the result, the epsilon of the wider scope would be below the
    # given bound.
    #
    # The conversion does not use the mechanism. An accountant that has the system's events proves a
    # smaller epsilon, for Gaussian noise a far smaller one. For the units COORDINATE, REPORT and
    # BIT, all parts sent within the horizon are counted.
    check_delta(delta)
    up = bound.side is Side.UPPER
    low, high = (bound.scope, scope) if up else (scope, bound.scope)
    steps = _list_steps(low, high, sizes or Sizes(), delta if up and bound.delta == 0.0 else 0.0)
    epsilon, delta_there = bound.epsilon, bound.delta
    for step in steps if up else steps[::-1]:
        if step.rule is not None:
            move = step.rule.convert_to_whole if up else step.rule.convert_to_single
            epsilon, delta_there = move(epsilon, delta_there)
    if not delta_there < 1.0:
        raise InputError(
            f"Expected a delta below 1 after conversion to [{scope}], got 1 or more from delta="
            f"{bound.delta:.3g}, epsilon={bound.epsilon:.6g}. Convert a bound at a smaller delta."
        )
    theorems = dict.fromkeys(str(step.rule) for step in steps if step.rule is not None)
    assumptions = dict.fromkeys(a for step in steps for a in step.assumptions)
    if not up and theorems:
        assumptions["it holds for the worst part, and which part that is, is not known"] = None
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


def _list_steps(low: Scope, high: Scope, sizes: Sizes, delta: float) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound in the scope ``low`` to the scope ``high``: first
    unit and adjacency, then horizon.
    """
    if not low.vantage.sees_all_of(high.vantage):
        raise InputError(
            f"Expected a bound for a vantage that sees all that {high.vantage} sees, got one for "
            f"{low.vantage}. Account the mechanism for the vantage {high.vantage}."
        )
    horizon = _convert_horizon(low, high, sizes, delta)
    # A unit that is wider than the data of one message is counted within the horizon of the bound.
    return [*_convert_unit(low, high, sizes), *horizon]


def _convert_horizon(low: Scope, high: Scope, sizes: Sizes, delta: float) -> list[ConversionStep]:
    order = list(Horizon)
    first, last = order.index(low.horizon), order.index(high.horizon)
    count, purpose = 1, f"{low.horizon} to {high.horizon}"
    if first == 0 < last:
        count *= sizes.require("reports", purpose)
    if first < 2 == last:
        count *= sizes.require("rounds", purpose)
    if first >= last:
        return []
    fresh = f"each {low.horizon} has fresh randomness and the same bound, whatever preceded it"
    return [ConversionStep(CompositionRule(count, delta), (fresh,))]


def _convert_unit(low: Scope, high: Scope, sizes: Sizes) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound from the unit and adjacency of ``low`` to those
    of ``high``, at one horizon.
    """
    same = replace(high, vantage=low.vantage, horizon=low.horizon)
    if low.covers(same):
        return []
    if low.protects_user_presence:
        stays = "a change by a user who stays is a removal and an addition"
        return [ConversionStep(GroupPrivacyRule(2), (stays,))]
    if low.unit is Unit.USER and not high.protects_user_presence:
        # The data of a user is replaced by the data of another user, of any length.
        if low.adjacency is Adjacency.REPLACE and high.unit is not Unit.USER:
            return [ConversionStep(None, ("another history may be longer or shorter",))]
        raise _refuse(low, high, reason=f"{high.adjacency} also covers users without data")
    if high.protects_user_presence and low.adjacency is not Adjacency.ADD_REMOVE:
        raise _refuse(low, high, reason="the bound hides what users send, not that they send")
    if low.unit in (Unit.REPORT, Unit.COORDINATE) and high.unit is Unit.USER:
        return _convert_messages(low, high, sizes)
    if low.unit is Unit.BIT and high.unit in (Unit.INTERACTION, Unit.USER):
        return _convert_bits(low, high, sizes)
    if low.unit is high.unit:
        return _convert_adjacency(low, same)
    if low.unit in (Unit.INTERACTION, Unit.RATING) and high.unit is Unit.USER:
        return _convert_entries(low, high, sizes)
    if low.unit is Unit.RATING and high.unit is Unit.INTERACTION:
        if low.adjacency is Adjacency.REPLACE:
            raise _refuse(low, high, reason="replacing hides a rating's value, not that it exists")
        return _convert_adjacency(low, replace(same, unit=low.unit))
    units = f"{low.unit}s change if one {high.unit} changes"
    raise _refuse(low, high, reason=f"it is unknown how many {units}")


def _convert_adjacency(low: Scope, high: Scope) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound in ``low`` to ``high``, a scope of another
    adjacency and the same unit.
    """
    if low.unit is Unit.BIT:
        return [ConversionStep(None, ("a bit has two values, so that every change is a flip",))]
    if low.covers(high):
        return []
    if low.adjacency is Adjacency.REPLACE:
        raise _refuse(low, high, reason=f"replacing does not hide how many {low.unit}s there are")
    if low.unit is Unit.INTERACTION and high.adjacency is Adjacency.ANY_PAIR:
        return [ConversionStep(None, ("an interaction is present or absent",))]
    return [ConversionStep(GroupPrivacyRule(2), ("a replacement is a removal and an addition",))]


def _convert_messages(low: Scope, high: Scope, sizes: Sizes) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound for one report or coordinate of a user to all
    reports or coordinates of the user.

    The reports or coordinates are composed as separate mechanisms.
    """
    if low.adjacency is not high.adjacency and not (
        low.adjacency is Adjacency.ANY_PAIR and high.adjacency is Adjacency.REPLACE
    ):
        raise _refuse(low, high, reason=f"{low.adjacency} does not cover {high.adjacency}")
    purpose = f"{low.unit} to user"
    name = "reports" if low.unit is Unit.REPORT else "coordinates"
    count = 1
    if low.unit is Unit.COORDINATE or low.horizon is not Horizon.REPORT:
        count = sizes.require(name, purpose)
    if low.horizon is Horizon.TRAINING:
        count *= sizes.require("rounds", purpose)
    independent = f"the {name} of a user have independent randomness"
    return [ConversionStep(CompositionRule(count), (independent,))] if count > 1 else []


def _convert_bits(low: Scope, high: Scope, sizes: Sizes) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound for one bit of an upload to an interaction or to
    a user.

    An interaction has one bit per upload. A user has one bit per item and upload.
    """
    purpose, count = f"bit to {high.unit}", 1
    if high.unit is Unit.USER:
        count = sizes.require("items", purpose)
    if low.horizon is Horizon.TRAINING:
        count *= sizes.require("rounds", purpose)
    assumed = ["an interaction is one bit of an upload, and a round has one upload"]
    if high.protects_user_presence:
        assumed.append("an absent user looks like a user without interactions")
    if high.unit is Unit.INTERACTION and high.adjacency is Adjacency.REPLACE:
        count *= 2
    return [ConversionStep(GroupPrivacyRule(count) if count > 1 else None, tuple(assumed))]


def _convert_entries(low: Scope, high: Scope, sizes: Sizes) -> list[ConversionStep]:
    """Lists the steps that convert an upper bound for one interaction or rating to all data of a
    user.

    The interactions or ratings of the user are changed one by one.
    """
    if low.adjacency is Adjacency.REPLACE:
        raise _refuse(low, high, reason=f"replacing does not hide how many {low.unit}s there are")
    name = "items" if low.unit is Unit.INTERACTION else "ratings"
    count = sizes.require(name, f"{low.unit} to user")
    if high.protects_user_presence:
        assumed = (f"an absent user looks like a user without {low.unit}s",)
    elif low.unit is Unit.RATING:
        # The ratings of one history are removed, and the ratings of the other are added.
        assumed, count = ("no user has more ratings than stated, before or after",), 2 * count
    else:
        assumed = ("two histories differ at most in all items",)
    return [ConversionStep(GroupPrivacyRule(count) if count > 1 else None, assumed)]


def _refuse(low: Scope, high: Scope, reason: str) -> InputError:
    field = "unit" if low.unit is not high.unit else "adjacency"
    return InputError(
        f"Expected a theorem that leads from an upper bound for {low.unit} / {low.adjacency} to "
        f"{high.unit} / {high.adjacency}, got none for the {field}: {reason}. Account the "
        "mechanism in the scope that you need."
    )
