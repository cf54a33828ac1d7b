"""Parallel composition: the worst part, under conditions, and broken without each of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.theorems.parallel import parallel

SCOPE = Scope(
    unit=Unit.RATING,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)


def bound(epsilon: float, delta: float = 0.0, *, confidence: float = 1.0) -> Bound:
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.UPPER,
        scope=SCOPE,
        source=f"part {epsilon:g}",
        confidence=confidence,
        assumptions=("theirs",),
    )


def met(*bounds: Bound) -> Bound:
    return parallel(bounds, disjoint=True, fixed=True, differ_in_one=True)


def flips(epsilons: list[float], inputs: list[int]) -> np.ndarray:
    """The law of randomized responses, one a part, by enumeration."""
    law = np.ones(1)
    for epsilon, bit in zip(epsilons, inputs, strict=True):
        right = 1 / (1 + math.exp(-epsilon))
        law = np.outer(law, [right, 1 - right] if bit else [1 - right, right]).ravel()
    return law


@given(st.lists(st.floats(0.1, 2), min_size=1, max_size=4), st.data())
def test_a_change_of_one_part_costs_no_more_than_the_worst(
    epsilons: list[float], data: st.DataObject
) -> None:
    inputs = data.draw(st.lists(st.integers(0, 1), min_size=len(epsilons), max_size=len(epsilons)))
    at = data.draw(st.integers(0, len(epsilons) - 1))
    other = [bit ^ (k == at) for k, bit in enumerate(inputs)]
    ratios = np.log(flips(epsilons, inputs) / flips(epsilons, other))
    assert np.abs(ratios).max() <= met(*map(bound, epsilons)).epsilon + 1e-9


@given(st.lists(st.floats(0.1, 2), min_size=2, max_size=4))
def test_a_change_of_two_parts_costs_more_so_it_is_refused(epsilons: list[float]) -> None:
    """Replacement that moves a unit from one part to another."""
    inputs, other = [1] * len(epsilons), [0, 0] + [1] * (len(epsilons) - 2)
    ratio = np.abs(np.log(flips(epsilons, inputs) / flips(epsilons, other))).max()
    assert ratio == pytest.approx(epsilons[0] + epsilons[1])
    with pytest.raises(InputError, match="two largest"):
        parallel([bound(e) for e in epsilons], disjoint=True, fixed=True, differ_in_one=False)


def test_the_worst_part_and_the_conditions_are_told() -> None:
    found = met(bound(1.0, 1e-5), bound(2.0, 1e-7), bound(0.5))
    assert (found.epsilon, found.delta, found.scope) == (2.0, 1e-5, SCOPE)
    assert "3 parts" in found.source
    assert found.source.endswith("part 2")
    assert found.assumptions[0] == "theirs"
    assert sum("partition" in a or "parts" in a for a in found.assumptions) == 2
    assert met(bound(1, confidence=0.9), bound(1, confidence=0.95)).confidence == pytest.approx(
        0.85
    )


@pytest.mark.parametrize(("broken", "words"), [("disjoint", "add up"), ("fixed", "partition")])
def test_a_condition_that_fails_is_named(broken: str, words: str) -> None:
    conditions = {"disjoint": True, "fixed": True, "differ_in_one": True, broken: False}
    with pytest.raises(InputError, match=words) as failure:
        parallel([bound(1.0)], **conditions)
    assert f"{broken}=False" in str(failure.value)


def test_bounds_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        met()
    with pytest.raises(InputError, match="one scope"):
        met(bound(1.0), replace(bound(1.0), scope=replace(SCOPE, unit=Unit.USER)))
    with pytest.raises(InputError, match="upper"):
        met(replace(bound(1.0), side=Side.LOWER))
