"""What every accountant must keep. Each check raises AssertionError naming what is broken.

``parts/events.py`` holds the events; an accountant is tried on those that it supports.
An upper bound below what is computed there without any of the accountants' code is no bound.
"""

from __future__ import annotations

import itertools
import math
from functools import cache, partial
from unittest import SkipTest

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements.bound import Side
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.testing.parts.checks import Contract, check_refused
from fedrec_auditor.auditor.testing.parts.events import (
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

# Draws for each sampled divergence, and the chance that one of all of them is wrong.
_DRAWS, _ERROR = 400_000, 1e-6


def _supported(accountant: Accountant) -> list[Use]:
    uses = [use for use in USES.values() if accountant.supports(use.event)]
    assert uses, "the accountant supports no event that is known here"
    return uses


def _epsilon(accountant: Accountant, event: DpEvent, delta: float, scope: Scope = SCOPE) -> float:
    return accountant.bound(event, delta=delta, scope=scope).epsilon


def _same(one: float, two: float, what: str) -> None:
    assert math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-6), f"{what}: {one}, {two}"


def check_fold(accountant: Accountant) -> None:
    """n-fold is n times composed, however the composition is nested or ordered."""
    for use in _supported(accountant):
        for delta in DELTAS:
            folded = _epsilon(accountant, SelfComposedDpEvent(use.event, 6), delta, use.scope)
            for other in (
                ComposedDpEvent([use.event] * 6),
                SelfComposedDpEvent(SelfComposedDpEvent(use.event, 2), 3),
                SelfComposedDpEvent(ComposedDpEvent([use.event] * 3), 2),
                ComposedDpEvent([use.event, SelfComposedDpEvent(use.event, 5), NoOpDpEvent()]),
            ):
                again = _epsilon(accountant, other, delta, use.scope)
                _same(folded, again, f"{use.event} six times")


def check_order(accountant: Accountant) -> None:
    """Unlike events compose in any order, and cost no less than either alone."""
    uses = _supported(accountant)
    for one, two in itertools.pairwise(uses):
        scopes = {one.scope, two.scope} - {SCOPE}
        if len(scopes) > 1:
            continue
        scope = next(iter(scopes), SCOPE)
        for delta in DELTAS[:2]:
            both = _epsilon(accountant, ComposedDpEvent([one.event, two.event]), delta, scope)
            swapped = _epsilon(accountant, ComposedDpEvent([two.event, one.event]), delta, scope)
            _same(both, swapped, "order matters")
            for alone in (one, two):
                least = _epsilon(accountant, alone.event, delta, scope)
                assert both >= least - 1e-6, (
                    f"{one.event} makes {two.event} cheaper, or the reverse"
                )


def check_monotone(accountant: Accountant) -> None:
    """More uses never cost less; a larger delta never needs a larger epsilon."""
    for use in _supported(accountant):
        counts = [
            _epsilon(accountant, SelfComposedDpEvent(use.event, n), 1e-6, use.scope)
            for n in (1, 2, 7, 30)
        ]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(counts)), (use.event, counts)
        event = SelfComposedDpEvent(use.event, 7)
        deltas = [
            _epsilon(accountant, event, delta, use.scope) for delta in (0.0, 1e-9, 1e-6, 1e-3, 0.5)
        ]
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(deltas)), (use.event, deltas)


def check_ladders(accountant: Accountant) -> None:
    """Less noise, a higher rate, a larger epsilon, fewer to hide among: never cheaper."""
    ladders = {
        name: ladder
        for name, ladder in LADDERS.items()
        if all(accountant.supports(event) for event in ladder)
    }
    if not ladders:
        raise SkipTest("it reads no series of events whose order is known")
    for name, ladder in ladders.items():
        for delta in DELTAS[:2]:
            costs = [
                _epsilon(accountant, SelfComposedDpEvent(event, 5), delta, scope_of(event))
                for event in ladder
            ]
            assert all(a <= b * (1 + 1e-6) + 1e-9 for a, b in itertools.pairwise(costs)), (
                f"{name} at delta {delta}: {costs}"
            )


def check_sound(accountant: Accountant) -> None:
    """Never below the truth, where it is known."""
    known = [use for use in _supported(accountant) if use.exact is not None]
    if not known:
        raise SkipTest("it reads no event whose epsilon is known in closed form")
    for use in known:
        assert use.exact is not None
        for n in (1, 5, 400):
            for delta in DELTAS:
                event = SelfComposedDpEvent(use.event, n)
                bound = _epsilon(accountant, event, delta, use.scope)
                truth = use.exact(n, delta)
                assert bound * (1 + 1e-9) + 1e-9 >= truth, (
                    f"{n} x {use.event} at delta {delta}: {bound} is below the truth {truth}"
                )


def check_enumerated(accountant: Accountant) -> None:
    """Never below the divergence of up to six unlike reports, all outputs enumerated."""
    if not any(accountant.supports(kind) for kind in KINDS):
        raise SkipTest("it reads no report with two or three outputs")

    @settings(max_examples=20, deadline=None, derandomize=True, database=None)
    @given(st.lists(REPORTS, min_size=1, max_size=6), st.floats(1e-9, 0.5))
    def never_below(reports: list[DpEvent], delta: float) -> None:
        read = [report for report in reports if accountant.supports(report)]
        bound = _epsilon(accountant, ComposedDpEvent(read), delta)
        found = enumerated_divergence(read, bound)
        assert found <= delta * (1 + 1e-9) + 1e-15, (
            f"{read}: {bound} at delta {delta}, where the divergence is {found}"
        )

    never_below()


@cache
def _drawn(losses: Losses) -> NDArray[np.float64]:
    """The draws that all accountants are held to."""
    return losses(np.random.default_rng(20261121), _DRAWS)


def check_sampled(accountant: Accountant) -> None:
    """Never below what draws of the losses show, but once in 10^6 runs of the suite."""
    error = _ERROR / (2 * len(SAMPLED))
    cases = {name: case for name, case in SAMPLED.items() if accountant.supports(case.event)}
    if not cases:
        raise SkipTest("it reads no composition whose losses can be drawn")
    for name, case in cases.items():
        delta = 0.05
        bound = _epsilon(accountant, case.event, delta, case.scope)
        for losses in case.losses:
            spent = np.maximum(0.0, -np.expm1(bound - np.maximum(_drawn(losses), bound)))
            # Empirical Bernstein limit of Maurer and Pontil 2009, Theorem 4.
            level = math.log(2.0 / error)
            least = spent.mean() - math.sqrt(2.0 * spent.var(ddof=1) * level / _DRAWS)
            least -= 7.0 * level / (3.0 * (_DRAWS - 1))
            assert least <= delta, f"{name}: {bound} at delta {delta}, where it is over {least}"


def check_refusal(accountant: Accountant) -> None:
    """An unknown leaf is refused by name, wherever it hides; so are senseless counts and deltas."""
    known = _supported(accountant)[0].event
    for event in (
        UnsupportedDpEvent(),
        SelfComposedDpEvent(ComposedDpEvent([known, UnsupportedDpEvent()]), 3),
    ):
        assert not accountant.supports(event), "an unknown leaf is said to be supported"
        _refused(accountant, event, 0.01, named="UnsupportedDpEvent")
    for count in (0, -3):
        _refused(accountant, SelfComposedDpEvent(known, count), 0.01)
    for delta in (-0.1, 1.0, math.nan):
        _refused(accountant, known, delta)
    for use in _supported(accountant):
        if use.scope != SCOPE:
            _refused(accountant, use.event, 0.01, named="adjacency")


def check_senseless(accountant: Accountant) -> None:
    """Negative or missing noise, rates above 1, nobody to hide among: refused, never priced."""
    for event in SENSELESS:
        for delta in (0.0, 0.01):
            _refused(accountant, ComposedDpEvent([event]), delta, scope_of(event))


def _refused(
    accountant: Accountant, event: DpEvent, delta: float, scope: Scope = SCOPE, named: str = ""
) -> None:
    asked = partial(accountant.bound, event, delta=delta, scope=scope)
    check_refused(asked, f"{event} at delta={delta}", named)


def check_extremes(accountant: Accountant) -> None:
    """What is not private is infinite, at any delta; nothing at all is free."""
    known = _supported(accountant)[0].event
    for delta in DELTAS:
        event = ComposedDpEvent([known, NonPrivateDpEvent()])
        assert accountant.supports(event), f"it does not read {event}"
        lost, nothing = (_epsilon(accountant, e, delta) for e in (event, NoOpDpEvent()))
        assert math.isinf(lost), f"{lost} at delta {delta} for what is not private"
        assert nothing == 0.0, f"{nothing} at delta {delta} for nothing"


def check_millions(accountant: Accountant) -> None:
    """Epsilons of millions are numbers that print; too large ones are infinite."""
    events = [event for event in MILLIONS if accountant.supports(event)]
    if not events:
        raise SkipTest("it reads no event with an epsilon of millions")
    for event in events:
        for delta in (0.0, 1e-6):
            epsilon = _epsilon(accountant, event, delta)
            assert epsilon >= 0, f"{event}: {epsilon}"
            assert f"{epsilon:,.0f}" == "inf" or epsilon >= 1e5, f"{event}: {epsilon}"


def check_statement(accountant: Accountant) -> None:
    """The bound is an upper one, certain, in the scope and at the delta asked for, and sourced."""
    for use in _supported(accountant):
        bound = accountant.bound(use.event, delta=0.01, scope=use.scope)
        assert bound.side is Side.UPPER, f"a bound from the side {bound.side}"
        assert bound.confidence == 1.0, f"a bound at confidence {bound.confidence}"
        assert bound.samples is None, f"a bound from {bound.samples} samples"
        assert bound.scope == use.scope, f"a bound in [{bound.scope}] for [{use.scope}]"
        assert bound.delta <= 0.01, f"a bound at delta {bound.delta} for 0.01"
        assert bound.source, "the bound has no source"
        assert accountant.reference, "the accountant has no reference"


class AccountantContract(Contract, suite=__name__):
    """What every accountant must keep.

    >>> from fedrec_auditor.accountants.methods.pure import Pure
    >>> AccountantContract.check(Pure())
    ()
    """
