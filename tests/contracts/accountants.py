"""What every accountant must keep. Each check raises AssertionError naming what is broken.

``EVENTS`` are one use each; an accountant is tried on those that it supports. ``exact`` gives the
true least epsilon of n uses where a closed form or a sum is known, computed here without any of
the accountants' code: an upper bound below it is no bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
    ZCDpEvent,
)
from scipy import optimize, stats

from accountants.bound import Side
from accountants.errors import InputError
from accountants.events import BitFlipDpEvent, PureDpEvent, ShuffledDpEvent
from accountants.methods.base import Accountant
from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage

SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)
Exact = Callable[[int, float], float]


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a mechanism, and the true epsilon of n uses at delta where it is known."""

    event: DpEvent
    exact: Exact | None = None


def _root(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """Least epsilon by bisection on the curve delta(eps)."""
    if delta_at(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, high, xtol=1e-12))


def response(epsilon: float) -> Exact:
    """n randomized responses: a sum over the number of true answers."""

    def exact(n: int, delta: float) -> float:
        k = np.arange(n + 1)
        p = stats.binom.pmf(k, n, 1 / (1 + math.exp(-epsilon)))
        loss = (2 * k - n) * epsilon
        if delta == 0:
            return n * epsilon
        return _root(
            lambda eps: float(p @ -np.expm1(np.minimum(eps - loss, 0))), delta, n * epsilon
        )

    return exact


def gaussian(noise: float) -> Exact:
    """Balle and Wang 2018, Theorem 8, at mu = sqrt(n)/noise."""

    def exact(n: int, delta: float) -> float:
        mu, normal = math.sqrt(n) / noise, stats.norm.cdf
        if delta == 0:
            return math.inf
        return _root(
            lambda eps: float(
                normal(mu / 2 - eps / mu) - math.exp(eps) * normal(-mu / 2 - eps / mu)
            ),
            delta,
            mu**2 / 2 + 12 * mu,
        )

    return exact


def laplace(noise: float) -> Exact:
    """n uses at delta 0; elsewhere what one costs, delta(eps) = 1 - e^((eps - 1/noise)/2)."""

    def exact(n: int, delta: float) -> float:
        if delta == 0:
            return n / noise
        return max(0.0, 1 / noise + 2 * math.log1p(-delta))

    return exact


def response_event(epsilon: float) -> DpEvent:
    """Randomized response on a bit: flipped with probability 1/(e^eps + 1)."""
    return RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)


USES = {
    "response 0.25": Use(response_event(0.25), response(0.25)),
    "response 3": Use(response_event(3.0), response(3.0)),
    "five buckets": Use(RandomizedResponseDpEvent(0.4, 5)),
    "flip": Use(BitFlipDpEvent(0.7, 0.2)),
    "one-sided flip": Use(BitFlipDpEvent(1.0, 0.4), lambda n, delta: math.inf),
    "pure": Use(PureDpEvent(1.5), response(1.5)),
    "laplace": Use(LaplaceDpEvent(2.0), laplace(2.0)),
    "gaussian": Use(GaussianDpEvent(5.0), gaussian(5.0)),
    "zcdp": Use(ZCDpEvent(0.02)),
    "shuffled": Use(ShuffledDpEvent(1.0, 500)),
    "shuffled bits": Use(ShuffledDpEvent(1.0, 500, True)),
    "one in the shuffle": Use(ShuffledDpEvent(1.0, 1), response(1.0)),
}
DELTAS = (0.0, 1e-6, 0.01)


def _supported(accountant: Accountant) -> list[Use]:
    uses = [use for use in USES.values() if accountant.supports(use.event)]
    assert uses, "the accountant supports no event that is known here"
    return uses


def _epsilon(accountant: Accountant, event: DpEvent, delta: float) -> float:
    return accountant.bound(event, delta=delta, scope=SCOPE).epsilon


def _same(one: float, two: float, what: str) -> None:
    assert one == two or abs(one - two) <= 1e-6 * max(1.0, abs(one)), f"{what}: {one}, {two}"


def check_fold(accountant: Accountant) -> None:
    """n-fold is n times composed, however the composition is nested or ordered."""
    for use in _supported(accountant):
        for delta in DELTAS:
            folded = _epsilon(accountant, SelfComposedDpEvent(use.event, 6), delta)
            for other in (
                ComposedDpEvent([use.event] * 6),
                SelfComposedDpEvent(SelfComposedDpEvent(use.event, 2), 3),
                SelfComposedDpEvent(ComposedDpEvent([use.event] * 3), 2),
                ComposedDpEvent([use.event, SelfComposedDpEvent(use.event, 5), NoOpDpEvent()]),
            ):
                _same(folded, _epsilon(accountant, other, delta), f"{use.event} six times")


def check_order(accountant: Accountant) -> None:
    """Unlike events compose in any order, and cost no less than either alone."""
    uses = _supported(accountant)
    for one, two in itertools.pairwise(uses):
        for delta in DELTAS:
            both = _epsilon(accountant, ComposedDpEvent([one.event, two.event]), delta)
            swapped = _epsilon(accountant, ComposedDpEvent([two.event, one.event]), delta)
            _same(both, swapped, "order matters")
            for alone in (one, two):
                assert both >= _epsilon(accountant, alone.event, delta) - 1e-6, "composing is free"


def check_monotone(accountant: Accountant) -> None:
    """More uses never cost less; a larger delta never needs a larger epsilon."""
    for use in _supported(accountant):
        counts = [
            _epsilon(accountant, SelfComposedDpEvent(use.event, n), 1e-6) for n in (1, 2, 7, 30)
        ]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(counts)), counts
        event = SelfComposedDpEvent(use.event, 7)
        deltas = [_epsilon(accountant, event, delta) for delta in (0.0, 1e-9, 1e-6, 1e-3, 0.5)]
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(deltas)), deltas


def check_sound(accountant: Accountant) -> None:
    """Never below the truth, where it is known."""
    for use in _supported(accountant):
        for n in (1, 5, 400):
            for delta in DELTAS:
                if use.exact is None:
                    continue
                bound = _epsilon(accountant, SelfComposedDpEvent(use.event, n), delta)
                truth = use.exact(n, delta)
                assert bound * (1 + 1e-9) + 1e-9 >= truth, (
                    f"{n} x {use.event} at delta {delta}: {bound} is below the truth {truth}"
                )


def check_refusal(accountant: Accountant) -> None:
    """An unknown leaf is refused by name, wherever it hides; so are senseless counts and deltas."""
    known = _supported(accountant)[0].event
    for event in (
        UnsupportedDpEvent(),
        SelfComposedDpEvent(ComposedDpEvent([known, UnsupportedDpEvent()]), 3),
    ):
        assert not accountant.supports(event), "an unknown leaf is said to be supported"
        assert "UnsupportedDpEvent" in _refused(accountant, event, 0.01)
    for count in (0, -3):
        _refused(accountant, SelfComposedDpEvent(known, count), 0.01)
    for delta in (-0.1, 1.0, math.nan):
        _refused(accountant, known, delta)


def _refused(accountant: Accountant, event: DpEvent, delta: float) -> str:
    try:
        accountant.bound(event, delta=delta, scope=SCOPE)
    except InputError as error:
        return str(error)
    raise AssertionError(f"{event} at delta={delta} was not refused")


def check_extremes(accountant: Accountant) -> None:
    """What is not private is infinite, at any delta; nothing at all is free."""
    known = _supported(accountant)[0].event
    for delta in DELTAS:
        event = ComposedDpEvent([known, NonPrivateDpEvent()])
        assert accountant.supports(event)
        assert math.isinf(_epsilon(accountant, event, delta))
        assert _epsilon(accountant, NoOpDpEvent(), delta) == 0.0


def check_statement(accountant: Accountant) -> None:
    """The bound is an upper one, certain, in the scope and at the delta asked for, and sourced."""
    for use in _supported(accountant):
        bound = accountant.bound(use.event, delta=0.01, scope=SCOPE)
        assert bound.side is Side.UPPER
        assert bound.confidence == 1.0
        assert bound.samples is None
        assert bound.scope == SCOPE
        assert bound.delta <= 0.01
        assert bound.source
        assert accountant.reference


CHECKS = (
    check_fold,
    check_order,
    check_monotone,
    check_sound,
    check_refusal,
    check_extremes,
    check_statement,
)


def check_accountant(accountant: Accountant) -> None:
    """Run every check."""
    for check in CHECKS:
        check(accountant)
