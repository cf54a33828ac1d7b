"""Contract tests of every accountant, on the events of ``events.py`` that it supports.

Their true epsilons or samples are not computed by accountants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import list_leaves
from fedrec_auditor.accountants.methods.accounting_methods import Pure
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Bound, Scope, Side, check_delta
from tests.contracts.events import (
    DELTAS,
    KINDS,
    LADDERS,
    MILLIONS,
    REPORTS,
    SAMPLED,
    SCOPE,
    SENSELESS,
    USES,
    Losses,
    Use,
    enumerated_divergence,
    scope_of,
)
from tests.contracts.laws import BROKEN, catches, make_fixture, members, only

ACCOUNTANTS: dict[str, Accountant] = members("accountants")
# Draws for each sampled divergence, and probability that any of them is wrong.
DRAWS, ERROR = 400_000, 1e-6
# Largest relative excess of a bound over the truth, at delta 0 and above.
SLACK = {
    "optimal": (1e-6, 0.01),
    "pld": (1e-6, 1e-4),
    "pure": (1e-6, math.inf),
    "rdp": (math.inf, 1.3),  # its conversion is loosest at delta 0.01 and little noise
    "shuffle": (1e-6, 1e-4),
}
BOUNDED = ("fixed size", "responses of fixed size")  # no data set attains their pair


accountant = make_fixture(ACCOUNTANTS)


def who_read(events: Iterable[DpEvent]) -> Any:
    """Parametrizes a test by the accountants that support one of these events."""
    some = [*events]
    return only("accountant", ACCOUNTANTS, lambda each: any(map(each.supports, some)))


def read(accountant: Accountant) -> list[Use]:
    uses = [use for use in USES.values() if accountant.supports(use.event)]
    assert uses, "the accountant supports no event that is known here"
    return uses


def cost(accountant: Accountant, event: DpEvent, delta: float, scope: Scope | None = None) -> float:
    return accountant.bound(event, delta=delta, scope=scope or scope_of(event)).epsilon


def rising(numbers: Iterable[float], slack: float = 1e-9) -> bool:
    return all(a <= b * (1 + slack) + 1e-9 for a, b in itertools.pairwise(numbers))


def test_fold(accountant: Accountant) -> None:
    """Checks that n uses cost the same in every nesting and order of their composition."""
    for use, delta in itertools.product(read(accountant), DELTAS):
        six = [
            SelfComposedDpEvent(use.event, 6),
            ComposedDpEvent([use.event] * 6),
            SelfComposedDpEvent(SelfComposedDpEvent(use.event, 2), 3),
            SelfComposedDpEvent(ComposedDpEvent([use.event] * 3), 2),
            ComposedDpEvent([use.event, SelfComposedDpEvent(use.event, 5), NoOpDpEvent()]),
        ]
        found = [cost(accountant, event, delta) for event in six]
        assert found == pytest.approx([found[0]] * 5, rel=1e-6, abs=1e-6), use.event


def test_order(accountant: Accountant) -> None:
    """Checks that two events cost the same in either order, and at least as much as each alone."""
    for one, two in itertools.pairwise(read(accountant)):
        scopes = {one.scope, two.scope} - {SCOPE}
        if len(scopes) > 1:
            continue
        scope = next(iter(scopes), SCOPE)
        for delta in DELTAS[:2]:
            pairs = ([one.event, two.event], [two.event, one.event])
            both, swapped = (cost(accountant, ComposedDpEvent(p), delta, scope) for p in pairs)
            assert swapped == pytest.approx(both, rel=1e-6, abs=1e-6), pairs
            alone = max(cost(accountant, event, delta, scope) for event in pairs[0])
            assert both >= alone - 1e-6, pairs


def test_monotone(accountant: Accountant) -> None:
    """Checks that epsilon does not fall with more uses, nor rise with delta."""
    for use in read(accountant):
        counts = [cost(accountant, SelfComposedDpEvent(use.event, n), 1e-6) for n in (1, 2, 7, 30)]
        assert rising(counts), (use.event, counts)
        event = SelfComposedDpEvent(use.event, 7)
        deltas = [cost(accountant, event, delta) for delta in (0.5, 1e-3, 1e-6, 1e-9, 0.0)]
        assert rising(deltas), (use.event, deltas)


@who_read(event for ladder in LADDERS.values() for event in ladder)
def test_ladders(accountant: Accountant) -> None:
    """Checks that epsilon does not fall with less noise, more sampling or fewer users."""
    for (name, ladder), delta in itertools.product(LADDERS.items(), DELTAS[:2]):
        if all(map(accountant.supports, ladder)):
            costs = [cost(accountant, SelfComposedDpEvent(event, 5), delta) for event in ladder]
            assert rising(costs, 1e-6), f"{name} at delta {delta}: {costs}"


@who_read(use.event for use in USES.values() if use.exact)
def test_sound(accountant: Accountant) -> None:
    """Checks that no bound is below the true epsilon, where that is known."""
    for use, n, delta in itertools.product(read(accountant), (1, 5, 400), DELTAS):
        if use.exact is not None:
            bound = cost(accountant, SelfComposedDpEvent(use.event, n), delta)
            assert rising((use.exact(n, delta), bound)), (use.event, n, delta)


@who_read(KINDS)
def test_enumerated(accountant: Accountant) -> None:
    """Checks bounds of up to six different reports against their enumerated divergence."""

    @settings(max_examples=20, deadline=None, derandomize=True, database=None)
    @given(st.lists(REPORTS, min_size=1, max_size=6), st.floats(1e-9, 0.5))
    def never_below(reports: list[DpEvent], delta: float) -> None:
        some = [report for report in reports if accountant.supports(report)]
        bound = cost(accountant, ComposedDpEvent(some), delta)
        found = enumerated_divergence(some, bound)
        assert found <= delta * (1 + 1e-9) + 1e-15, f"{some} at {delta}: {bound}, {found}"

    never_below()


@cache
def drawn(losses: Losses) -> NDArray[np.float64]:
    """Samples of a privacy loss, equal for all accountants."""
    return losses(np.random.default_rng(20261121), DRAWS)


@who_read(case.event for case in SAMPLED.values())
def test_sampled(accountant: Accountant) -> None:
    """Checks bounds against samples of the privacy loss; fails wrongly once in 10^6 runs."""
    # Empirical Bernstein limit of Maurer and Pontil 2009, Theorem 4.
    delta, level = 0.05, math.log(2.0 / (ERROR / (2 * len(SAMPLED))))
    for name, case in SAMPLED.items():
        if not accountant.supports(case.event):
            continue
        bound = cost(accountant, case.event, delta)
        for losses in case.losses:
            spent = np.maximum(0.0, -np.expm1(bound - np.maximum(drawn(losses), bound)))
            least = spent.mean() - math.sqrt(2.0 * spent.var(ddof=1) * level / DRAWS)
            least -= 7.0 * level / (3.0 * (DRAWS - 1))
            assert least <= delta, f"{name}: {bound} at delta {delta}, where it is over {least}"


def test_refusal(accountant: Accountant) -> None:
    """Checks that unknown events, wrong counts and wrong deltas raise InputError."""
    # The error names the type of the unknown event, at any depth of a composition.
    known = read(accountant)[0].event
    for event in (
        UnsupportedDpEvent(),
        SelfComposedDpEvent(ComposedDpEvent([known, UnsupportedDpEvent()]), 3),
    ):
        assert not accountant.supports(event), "an unknown leaf is said to be supported"
        refuses(accountant, event, 0.01, named="UnsupportedDpEvent")
    for count in (0, -3):
        refuses(accountant, SelfComposedDpEvent(known, count), 0.01)
    for delta in (-0.1, 1.0, math.nan):
        refuses(accountant, known, delta)
    for use in read(accountant):
        if use.scope != SCOPE:
            refuses(accountant, use.event, 0.01, SCOPE, named="adjacency")


def test_senseless(accountant: Accountant) -> None:
    """Checks that values outside their range, such as negative noise, raise InputError."""
    for event, delta in itertools.product(SENSELESS, (0.0, 0.01)):
        refuses(accountant, ComposedDpEvent([event]), delta)


def refuses(
    accountant: Accountant,
    event: DpEvent,
    delta: float,
    scope: Scope | None = None,
    named: str | None = None,
) -> None:
    with pytest.raises(InputError, match=named):
        cost(accountant, event, delta, scope)


def test_extremes(accountant: Accountant) -> None:
    """Checks that an event without privacy has infinite epsilon, and an empty event 0."""
    event = ComposedDpEvent([read(accountant)[0].event, NonPrivateDpEvent()])
    assert accountant.supports(event), f"it does not read {event}"
    for delta in DELTAS:
        assert math.isinf(cost(accountant, event, delta)), "what is not private has a price"
        assert cost(accountant, NoOpDpEvent(), delta) == 0.0, "nothing has a price"


@who_read(MILLIONS)
def test_millions(accountant: Accountant) -> None:
    """Checks that large epsilons, from millions on, are numbers or infinite, and can be printed."""
    for event, delta in itertools.product(MILLIONS, (0.0, 1e-6)):
        if accountant.supports(event):
            epsilon = cost(accountant, event, delta)
            assert f"{epsilon:,.0f}" == "inf" or epsilon >= 1e5, f"{event}: {epsilon}"


def test_statement(accountant: Accountant) -> None:
    """Checks that a bound is a certain upper bound, with its scope, delta and source."""
    for use in read(accountant):
        bound = accountant.bound(use.event, delta=0.01, scope=use.scope)
        said = (bound.side, bound.confidence, bound.samples, bound.scope)
        assert said == (Side.UPPER, 1.0, None, use.scope)
        assert bound.delta <= 0.01, f"a bound at delta {bound.delta} for 0.01"
        assert bound.source, "the bound has no source"
    assert accountant.reference, "the accountant has no reference"


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_upper_bounds_are_near_the_truth_where_it_is_known(name: str) -> None:
    """Checks that bounds are not much above the true epsilon, if that is known."""
    # The exact epsilon of Laplace noise is known for one use only.
    tried = 0
    for use, n, delta in itertools.product(read(ACCOUNTANTS[name]), (1, 5, 400), DELTAS):
        if use.exact is None or (use is USES["laplace"] and n > 1):
            continue
        truth, slack = use.exact(n, delta), SLACK[name][delta > 0]
        if truth in (0.0, math.inf) or math.isinf(slack):
            continue
        found = cost(ACCOUNTANTS[name], SelfComposedDpEvent(use.event, n), delta)
        assert found <= truth * (1 + slack) + 1e-4, (use.event, n, delta, truth)
        tried += 1
    assert tried


@pytest.mark.parametrize("name", [name for name in SAMPLED if name not in BOUNDED])
def test_the_pld_accountant_is_near_sampled_losses(name: str) -> None:
    """Checks that the bound is at most 3% above the epsilon that sampled losses show."""
    case, delta = SAMPLED[name], 0.05

    def epsilon_of(losses: np.ndarray) -> float:
        def excess(epsilon: float) -> float:
            return float(-np.expm1(epsilon - np.maximum(losses, epsilon)).mean()) - delta

        return float(optimize.brentq(excess, 0.0, 50.0))

    truth = max(epsilon_of(drawn(losses)) for losses in case.losses)
    assert cost(ACCOUNTANTS["pld"], case.event, delta) <= 1.03 * truth


@dataclass(frozen=True)
class _Sum:
    """Pure composition, the sum of epsilons; each subclass makes one fault."""

    reference: str = "none"

    def supports(self, event: DpEvent) -> bool:
        return Pure().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        true = Pure().bound(event, delta=delta, scope=scope).epsilon
        wrong = self._wrong(event, true, delta) if math.isfinite(true) else true
        return self._bound(wrong, delta, scope)

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true

    def _bound(self, epsilon: float, delta: float, scope: Scope, side: Side = Side.UPPER) -> Bound:
        return Bound(epsilon=epsilon, delta=delta, side=side, scope=scope, source=self.reference)


class ForgetsCounts(_Sum):
    """Faulty accountant: counts repeated uses of a mechanism once."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return sum(_alone(leaf) for leaf, _ in list_leaves(event))


class AddsSquares(_Sum):
    """Faulty accountant: composes to sqrt(sum eps^2), which no theorem supports."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return math.sqrt(sum(n * _alone(leaf) ** 2 for leaf, n in list_leaves(event)))


class PaysForDelta(_Sum):
    """Faulty accountant: epsilon rises with delta."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true * (1 + delta)


class OptimisticTail(_Sum):
    """Faulty accountant: states 1% less than the true epsilon."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return 0.99 * true


class CountsOneKind(_Sum):
    """Faulty accountant: counts only the most expensive of several different mechanisms."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return max((n * _alone(leaf) for leaf, n in list_leaves(event)), default=0.0)


class FearsCrowds(_Sum):
    """Faulty accountant: epsilon of shuffling rises with the number of users."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        crowd = max((getattr(leaf, "n_users", 1) for leaf, _ in list_leaves(event)), default=1)
        return true * (1 + math.log(crowd))


class LowerSide(_Sum):
    """Faulty accountant: marks its upper bound as a lower bound."""

    def _bound(self, epsilon: float, delta: float, scope: Scope, side: Side = Side.LOWER) -> Bound:
        return super()._bound(epsilon, delta, scope, Side.LOWER)


class SkipsUnknown(_Sum):
    """Faulty accountant: ignores events that it does not support."""

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        known = [each for each in list_leaves(event) if type(each[0]) is not UnsupportedDpEvent]
        private = not any(isinstance(leaf, NonPrivateDpEvent) for leaf, _ in known)
        total = sum(n * _alone(leaf) for leaf, n in known) if private else math.inf
        return self._bound(total, check_delta(delta), scope)


class PricesNonsense(_Sum):
    """Faulty accountant: returns an epsilon for parameters outside their range."""

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        try:
            return super().bound(event, delta=delta, scope=scope)
        except InputError:
            if not self.supports(event) or not 0 <= delta < 1:
                raise
            return self._bound(1.0, delta, scope)


class RawLibrary(_Sum):
    """The PLD accountant of dp-accounting 0.6.0, which ignores a repeated response's count."""

    def supports(self, event: DpEvent) -> bool:
        return self._accountant().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        check_delta(delta)
        list_leaves(event)
        if not self.supports(event):
            raise InputError(f"Expected an event that can be read, got {event}.")
        epsilon = self._accountant().compose(event).get_epsilon(delta)
        return self._bound(float(epsilon), delta, scope)

    def _accountant(self) -> Any:
        return PLDAccountant(NeighboringRelation.REPLACE_ONE)


def _alone(leaf: DpEvent) -> float:
    return Pure().bound(leaf, delta=0.0, scope=SCOPE).epsilon


@catches(
    (test_fold, RawLibrary()),
    (test_sound, ForgetsCounts()),
    (test_monotone, PaysForDelta()),
    (test_ladders, FearsCrowds()),
    (test_sound, OptimisticTail()),
    (test_enumerated, CountsOneKind()),
    (test_sampled, AddsSquares()),
    (test_refusal, SkipsUnknown()),
    (test_senseless, PricesNonsense()),
    (test_statement, LowerSide()),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_law_catches(law: Callable[[Any], None], broken: _Sum) -> None:
    with pytest.raises(BROKEN):
        law(broken)
