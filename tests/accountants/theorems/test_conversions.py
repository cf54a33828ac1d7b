"""Tests of bounds converted between scopes, against enumerated mechanisms, and of refusals."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Side,
    Sizes,
    Unit,
    UnknownSizeError,
    Vantage,
    Witness,
)
from fedrec_auditor.accountants.theorems.conversions import convert_bound
from fedrec_auditor.auditor.testing.targets import ALL_SCOPES

SIZES = Sizes(items=6, ratings=4, coordinates=5, reports=3, rounds=2)
USER, RATING, BIT, ITEM = Unit.USER, Unit.RATING, Unit.BIT, Unit.INTERACTION
REPORT, COORDINATE, ATTRIBUTE = Unit.REPORT, Unit.COORDINATE, Unit.ATTRIBUTE
REPLACE, PRESENCE, ANY = Adjacency.REPLACE, Adjacency.ADD_REMOVE, Adjacency.ANY_PAIR


def scope(
    unit: Unit = USER,
    adjacency: Adjacency = ANY,
    horizon: Horizon = Horizon.ROUND,
    vantage: Vantage = Vantage.SERVER,
) -> Scope:
    return Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=horizon)


def upper(epsilon: float, delta: float = 0.0, where: Scope | None = None) -> Bound:
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.UPPER,
        scope=where or scope(),
        source="paper",
        assumptions=("theirs",),
    )


def lower(epsilon: float, delta: float = 0.0, where: Scope | None = None) -> Bound:
    return replace(upper(epsilon, delta, where), side=Side.LOWER, confidence=0.95, samples=7)


E, D = 0.5, 1e-6


def grown(k: int) -> float:
    """Delta of a group of k, as a plain sum."""
    return D * sum(math.exp(j * E) for j in range(k))


# (unit, adjacency), (unit, adjacency), horizon, epsilon and delta at (0.5, 1e-6), an assumption
RULES = [
    ((BIT, REPLACE), (BIT, ANY), Horizon.ROUND, E, D, "flip"),
    ((BIT, ANY), (ITEM, ANY), Horizon.ROUND, E, D, "one bit of an upload"),
    ((BIT, ANY), (ITEM, PRESENCE), Horizon.TRAINING, 2 * E, grown(2), "one bit of an upload"),
    ((BIT, REPLACE), (USER, ANY), Horizon.ROUND, 6 * E, grown(6), "one bit of an upload"),
    ((BIT, REPLACE), (USER, REPLACE), Horizon.TRAINING, 12 * E, grown(12), "one bit"),
    ((ITEM, PRESENCE), (USER, REPLACE), Horizon.ROUND, 6 * E, grown(6), "all items"),
    ((ITEM, ANY), (USER, ANY), Horizon.TRAINING, 6 * E, grown(6), "all items"),
    ((ITEM, PRESENCE), (USER, PRESENCE), Horizon.ROUND, 6 * E, grown(6), "absent user"),
    ((ITEM, PRESENCE), (ITEM, ANY), Horizon.ROUND, E, D, "present or absent"),
    ((ITEM, PRESENCE), (ITEM, REPLACE), Horizon.ROUND, 2 * E, grown(2), "removal"),
    ((RATING, PRESENCE), (USER, PRESENCE), Horizon.TRAINING, 4 * E, grown(4), "absent user"),
    ((RATING, PRESENCE), (USER, REPLACE), Horizon.TRAINING, 8 * E, grown(8), "before or after"),
    ((RATING, PRESENCE), (RATING, REPLACE), Horizon.ROUND, 2 * E, grown(2), "removal"),
    ((RATING, PRESENCE), (ITEM, PRESENCE), Horizon.ROUND, E, D, ""),
    ((USER, PRESENCE), (USER, REPLACE), Horizon.ROUND, 2 * E, grown(2), "who stays"),
    ((USER, PRESENCE), (RATING, PRESENCE), Horizon.ROUND, 2 * E, grown(2), "who stays"),
    ((USER, REPLACE), (RATING, PRESENCE), Horizon.ROUND, E, D, "longer"),
    ((USER, ANY), (USER, REPLACE), Horizon.ROUND, E, D, ""),
    ((REPORT, ANY), (USER, ANY), Horizon.REPORT, E, D, ""),
    ((REPORT, ANY), (USER, ANY), Horizon.ROUND, 3 * E, 3 * D, "independent randomness"),
    ((REPORT, ANY), (USER, REPLACE), Horizon.TRAINING, 6 * E, 6 * D, "independent randomness"),
    ((COORDINATE, ANY), (USER, ANY), Horizon.ROUND, 5 * E, 5 * D, "independent randomness"),
    ((COORDINATE, ANY), (USER, ANY), Horizon.TRAINING, 10 * E, 10 * D, "independent randomness"),
]


@pytest.mark.parametrize(("low", "high", "horizon", "epsilon", "delta", "words"), RULES)
def test_the_table_of_units_and_adjacencies(
    low: tuple[Unit, Adjacency],
    high: tuple[Unit, Adjacency],
    horizon: Horizon,
    epsilon: float,
    delta: float,
    words: str,
) -> None:
    before, after = scope(*low, horizon), scope(*high, horizon)
    found = convert_bound(upper(E, D, before), after, SIZES)
    assert (found.epsilon, found.delta) == pytest.approx((epsilon, delta))
    assert found.scope == after
    assert words in " ".join(found.assumptions)
    assert found.assumptions[0] == "theirs"
    assert found.source.endswith("from: paper")
    # Conversely, a lower bound of the whole is a lower bound of the worst part.
    back = convert_bound(lower(epsilon, delta, after), before, SIZES)
    assert (back.epsilon, back.delta) == pytest.approx((E, D))
    assert back.side is Side.LOWER
    assert (back.confidence, back.samples) == (0.95, 7)
    assert ("worst part" in " ".join(back.assumptions)) is (epsilon > E)


@pytest.mark.parametrize(
    ("low", "high", "count"),
    [("REPORT", "ROUND", 3), ("ROUND", "TRAINING", 2), ("REPORT", "TRAINING", 6)],
)
def test_horizons_compose(low: str, high: str, count: int) -> None:
    before, after = scope(horizon=Horizon[low]), scope(horizon=Horizon[high])
    found = convert_bound(upper(E, D, before), after, SIZES)
    assert (found.epsilon, found.delta) == pytest.approx((count * E, count * D))
    assert "fresh randomness" in " ".join(found.assumptions)
    assert f"basic composition, {count} times" in found.source
    assert convert_bound(upper(E, D, after), before).epsilon == E
    assert convert_bound(lower(E, D, before), after).epsilon == E
    less = convert_bound(lower(count * E, count * D, after), before, SIZES)
    assert (less.epsilon, less.delta) == pytest.approx((E, D))


def test_pure_rounds_compose_optimally_at_a_delta() -> None:
    sizes, training = Sizes(rounds=200), scope(horizon=Horizon.TRAINING)
    found = convert_bound(upper(0.1), training, sizes, delta=1e-6)
    assert found.delta == 1e-6
    assert 0.1 * math.sqrt(200) < found.epsilon < 0.5 * 20
    assert "optimal composition" in found.source
    assert convert_bound(upper(0.1), training, sizes).epsilon == pytest.approx(20)
    assert convert_bound(upper(0.1, 1e-9), training, sizes, delta=1e-6).epsilon == pytest.approx(20)


@given(
    st.lists(st.floats(0.05, 2.0), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.floats(0.0, 1.0),
)
def test_a_bit_converted_to_a_user_covers_enumerated_flips(
    epsilons: list[float], rounds: int, extra: int, share: float
) -> None:
    """Bits differ in epsilon and are uploaded in every round; the exact delta is enumerated."""
    largest, items = max(epsilons), len(epsilons) + extra
    truth = [1 / (1 + math.exp(-e)) for e in epsilons] * rounds
    p = q = np.ones(1)
    for right in truth:
        p = np.outer(p, [right, 1 - right]).ravel()
        q = np.outer(q, [1 - right, right]).ravel()
    # One bit at its share of epsilon costs a positive delta.
    part = share * largest
    top = 1 / (1 + math.exp(-largest))
    delta = max(0.0, top - math.exp(part) * (1 - top))
    bound = upper(part, delta, scope(BIT, REPLACE, Horizon.TRAINING))
    sizes, asked = Sizes(items=items, rounds=rounds), scope(horizon=Horizon.TRAINING)
    try:
        carried = convert_bound(bound, asked, sizes)
    except InputError:
        assert delta > 0
        return
    exact = np.maximum(p - math.exp(carried.epsilon) * q, 0.0).sum()
    assert exact <= carried.delta + 1e-12
    # The worst bit has the lower bound converted from the user's exact ratio.
    total = rounds * sum(epsilons)
    shown = convert_bound(lower(total, where=asked), bound.scope, sizes)
    assert shown.epsilon <= largest + 1e-12


REFUSED = [
    ((USER, ANY), (USER, PRESENCE), "adjacency"),
    ((USER, REPLACE), (USER, PRESENCE), "adjacency"),
    ((USER, REPLACE), (USER, ANY), "users without data"),
    ((RATING, REPLACE), (RATING, PRESENCE), "does not hide how many"),
    ((RATING, REPLACE), (RATING, ANY), "does not hide how many"),
    ((RATING, REPLACE), (USER, REPLACE), "does not hide how many"),
    ((RATING, REPLACE), (ITEM, REPLACE), "not that it exists"),
    ((ITEM, REPLACE), (USER, ANY), "does not hide how many"),
    ((ITEM, ANY), (RATING, ANY), "it is unknown how many interactions change"),
    ((ATTRIBUTE, ANY), (USER, ANY), "it is unknown how many attributes change"),
    ((REPORT, REPLACE), (USER, ANY), "does not cover any pair"),
    ((REPORT, ANY), (USER, PRESENCE), "not that they send"),
    ((BIT, ANY), (USER, PRESENCE), "not that they send"),
    ((REPORT, ANY), (COORDINATE, ANY), "it is unknown how many reports change"),
]


@pytest.mark.parametrize(("low", "high", "words"), REFUSED)
def test_conversions_without_a_theorem_are_refused(
    low: tuple[Unit, Adjacency], high: tuple[Unit, Adjacency], words: str
) -> None:
    before, after = scope(*low), scope(*high)
    with pytest.raises(InputError, match=words):
        convert_bound(upper(E, D, before), after, SIZES)
    with pytest.raises(InputError, match=words):
        convert_bound(lower(E, D, after), before, SIZES)


def test_bounds_of_a_weaker_vantage_are_not_converted() -> None:
    server, sum_only = scope(), scope(vantage=Vantage.AGGREGATE)
    assert convert_bound(upper(E), sum_only).epsilon == E
    assert convert_bound(lower(E, where=sum_only), server).epsilon == E
    for bound, asked in ((upper(E, where=sum_only), server), (lower(E), sum_only)):
        with pytest.raises(InputError, match="vantage"):
            convert_bound(bound, asked)


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (scope(BIT), scope(), "items"),
        (scope(ITEM), scope(), "items"),
        (scope(RATING), scope(), "ratings"),
        (scope(COORDINATE), scope(), "coordinates"),
        (scope(REPORT), scope(), "reports"),
        (scope(), scope(horizon=Horizon.TRAINING), "rounds"),
        (scope(horizon=Horizon.REPORT), scope(), "reports"),
    ],
)
def test_a_missing_size_is_named(low: Scope, high: Scope, name: str) -> None:
    with pytest.raises(InputError, match=f"number of {name}"):
        convert_bound(upper(E, where=low), high)
    with pytest.raises(UnknownSizeError) as failure:
        convert_bound(upper(E, where=low), high)
    assert failure.value.size_name == copy(failure.value).size_name == name
    with pytest.raises(InputError, match=f"number of {name}"):
        convert_bound(upper(E, where=low), high, replace(SIZES, **{name: None}))


def test_a_delta_that_grows_beyond_one_is_refused() -> None:
    with pytest.raises(InputError, match="delta"):
        convert_bound(upper(3.0, 1e-3, scope(BIT)), scope(), SIZES)
    with pytest.raises(InputError, match="delta"):
        convert_bound(upper(1.0), scope(horizon=Horizon.TRAINING), SIZES, delta=1.0)


@given(st.sampled_from(ALL_SCOPES), st.sampled_from(ALL_SCOPES))
def test_covered_bounds_are_converted_unchanged(one: Scope, two: Scope) -> None:
    """Lower bounds convert to wider scopes, upper ones to narrower ones, without assumptions."""
    if one.covers(two):
        for bound, after in ((upper(E, D, one), two), (lower(E, D, two), one)):
            found = convert_bound(bound, after)
            assert (found.epsilon, found.delta) == (E, D)
            assert found.assumptions == ("theirs",)


@given(st.sampled_from(ALL_SCOPES), st.sampled_from(ALL_SCOPES))
def test_a_conversion_and_its_inverse_gain_nothing(one: Scope, two: Scope) -> None:
    try:
        there = convert_bound(upper(E, D, one), two, SIZES)
        back = convert_bound(there, one, SIZES)
    except InputError:
        return
    assert back.epsilon >= E
    assert back.delta >= D


def test_a_witness_stays_only_with_its_own_epsilon() -> None:
    witness = Witness(input_a="a", input_b="b", output="o", probability_a=1, probability_b=0)
    shown = replace(lower(E), witness=witness)
    assert convert_bound(shown, scope(horizon=Horizon.TRAINING)).witness is witness
    assert convert_bound(shown, scope(BIT), SIZES).witness is None
    assert convert_bound(shown, shown.scope) == shown
