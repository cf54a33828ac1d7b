""""""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Claim,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
    compute_guess_probability,
)
from fedrec_auditor.auditor.exact import find_exact_bound
from fedrec_auditor.auditor.testing.targets import ALL_SCOPES
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace

WIDEST = Scope(
    unit=Unit.USER, adjacency=Adjacency.ANY_PAIR, vantage=Vantage.SERVER, horizon=Horizon.TRAINING
)


@pytest.fixture(scope="module")
def covers() -> np.ndarray:
    return np.array([[one.covers(two) for two in ALL_SCOPES] for one in ALL_SCOPES])


def test_covers_is_a_partial_order_over_all_scopes(covers: np.ndarray) -> None:
    assert len(ALL_SCOPES) == 7 * 3 * 5 * 3
    assert covers.diagonal().all(), "reflexive"
    assert not (covers & covers.T & ~np.eye(len(ALL_SCOPES), dtype=bool)).any(), "antisymmetric"
    through = (covers.astype(np.int64) @ covers.astype(np.int64)) > 0
    assert not (through & ~covers).any(), "transitive"


def test_the_widest_scope_covers_all_but_presence(covers: np.ndarray) -> None:
    position = ALL_SCOPES.index(WIDEST)
    presence = [s.unit is Unit.USER and s.adjacency is Adjacency.ADD_REMOVE for s in ALL_SCOPES]
    assert (covers[position] == ~np.array(presence)).all()
    assert covers[:, position].sum() == 1


# (wider, narrower): protection at the wider value implies protection at the narrower one.
PAIRS = [
    ("unit", Unit.USER, Unit.REPORT),
    ("unit", Unit.USER, Unit.ATTRIBUTE),
    ("unit", Unit.USER, Unit.RATING),
    ("unit", Unit.USER, Unit.INTERACTION),
    ("unit", Unit.USER, Unit.BIT),
    ("unit", Unit.INTERACTION, Unit.BIT),
    ("adjacency", Adjacency.ANY_PAIR, Adjacency.REPLACE),
    ("adjacency", Adjacency.ANY_PAIR, Adjacency.ADD_REMOVE),
    *(("vantage", a, b) for a, b in itertools.combinations(Vantage, 2)),
    ("horizon", Horizon.TRAINING, Horizon.ROUND),
    ("horizon", Horizon.TRAINING, Horizon.REPORT),
    ("horizon", Horizon.ROUND, Horizon.REPORT),
]


def narrowed_to_presence(wide: Scope, narrow: Scope) -> bool:
    return narrow.adjacency is Adjacency.ADD_REMOVE is not wide.adjacency


def _with(scope: Scope, name: str, value: object) -> Scope:
    values = {f: getattr(scope, f) for f in ("unit", "adjacency", "vantage", "horizon")}
    return Scope(**{**values, name: value})


@pytest.mark.parametrize(("name", "wider", "narrower"), PAIRS)
def test_a_narrower_scope_never_covers_a_wider_one(
    name: str, wider: object, narrower: object
) -> None:
    for scope in ALL_SCOPES:
        wide, narrow = _with(scope, name, wider), _with(scope, name, narrower)
        if wide.unit is Unit.USER != narrow.unit and wide.adjacency is Adjacency.ADD_REMOVE:
            continue  # see the test of present users
        if narrow.unit is Unit.USER and narrowed_to_presence(wide, narrow):
            continue  # see the test of participation
        assert wide.covers(narrow)
        assert not narrow.covers(wide)
        assert narrow.list_uncovered_fields(wide) == (name,)


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("unit", Unit.ATTRIBUTE, Unit.RATING),
        ("unit", Unit.REPORT, Unit.INTERACTION),
        ("unit", Unit.RATING, Unit.INTERACTION),
        ("adjacency", Adjacency.REPLACE, Adjacency.ADD_REMOVE),
    ],
)
def test_unrelated_values_are_not_covered(name: str, one: object, two: object) -> None:
    for a, b in ((one, two), (two, one)):
        assert not _with(WIDEST, name, a).covers(_with(WIDEST, name, b))


def test_add_remove_does_not_cover_changes_of_present_users() -> None:
    # A noisy sum of contributions in [-1, 1]: removing a user changes it by at most 1, but a user
    # of one item who swaps it may change it from -1 to 1.
    leaves = find_exact_bound(Laplace(scale=1.0, low=0.0, high=1.0), WIDEST)
    changes = find_exact_bound(Laplace(scale=1.0, low=-1.0, high=1.0), WIDEST)
    assert changes.epsilon == pytest.approx(2 * leaves.epsilon)
    there = _with(WIDEST, "adjacency", Adjacency.ADD_REMOVE)
    for unit in set(Unit) - {Unit.USER}:
        assert there.list_uncovered_fields(_with(there, "unit", unit)) == ("unit",)
    assert there.covers(_with(there, "horizon", Horizon.ROUND))


def test_any_pair_does_not_cover_participation() -> None:
    there = _with(WIDEST, "adjacency", Adjacency.ADD_REMOVE)
    assert WIDEST.list_uncovered_fields(there) == ("adjacency",)
    for unit in set(Unit) - {Unit.USER}:
        assert WIDEST.covers(_with(there, "unit", unit))


def test_a_scope_covers_field_by_field() -> None:
    for one, two in itertools.islice(itertools.product(ALL_SCOPES, ALL_SCOPES), 0, None, 37):
        fields = ("unit", "adjacency", "vantage", "horizon")
        base = dict.fromkeys(fields, WIDEST)
        base["adjacency"] = _with(WIDEST, "unit", Unit.INTERACTION)
        alone = [
            _with(base[f], f, getattr(one, f)).covers(_with(base[f], f, getattr(two, f)))
            for f in fields
        ]
        assert one.covers(two) == (not one.list_uncovered_fields(two))
        assert set(one.list_uncovered_fields(two)) <= set(fields)
        assert all(alone) or not one.covers(two)


def test_a_scope_is_printed_as_four_words() -> None:
    assert str(WIDEST) == "user / any pair / server / training"


SCOPE = Scope(
    unit=Unit.BIT, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.REPORT
)


def bound(**changes: object) -> Bound:
    settings = {"epsilon": 1.0, "side": Side.UPPER, "scope": SCOPE, "source": "test"} | changes
    return Bound(**settings)


@pytest.mark.parametrize(
    ("epsilon", "least", "most"),
    [
        (49.7093214, 49.7093, 49.7094),
        (1.63199567, 1.63199, 1.632),
        (7_124_530.4, 7_124_530.0, 7_124_531.0),
        (1.23456e-5, 1.23e-5, 1.24e-5),
        (2.5, 2.5, 2.5),
        (0.0, 0.0, 0.0),
        (math.inf, math.inf, math.inf),
    ],
)
def test_bounds_are_rounded_to_their_valid_side(epsilon: float, least: float, most: float) -> None:
    for side, expected in ((Side.LOWER, least), (Side.UPPER, most)):
        assert bound(epsilon=epsilon, side=side).rounded_epsilon == pytest.approx(
            expected, rel=1e-12
        )


@pytest.mark.parametrize("epsilon", [-1e-9, -1.0, -math.inf, math.nan, "1", None])
def test_epsilon_is_a_number_not_below_zero(epsilon: Any) -> None:
    with pytest.raises(InputError, match=r"Expected epsilon in \[0, inf\], got epsilon="):
        bound(epsilon=epsilon)
    with pytest.raises(InputError, match="epsilon"):
        Claim(epsilon=epsilon, scope=SCOPE, statement="s", source="p")


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan, math.inf, "0", None])
def test_delta_is_in_the_half_open_unit_interval(delta: Any) -> None:
    with pytest.raises(InputError, match=r"Expected delta in \[0, 1\), got delta="):
        bound(delta=delta)
    with pytest.raises(InputError, match="delta"):
        Claim(epsilon=1.0, delta=delta, scope=SCOPE, statement="s", source="p")


@pytest.mark.parametrize("confidence", [0.0, -0.5, 1.5, math.nan, "0.9", None])
def test_confidence_is_in_the_open_unit_interval_or_one(confidence: Any) -> None:
    with pytest.raises(InputError, match=r"Expected confidence in \(0, 1\), got confidence="):
        bound(confidence=confidence)


def test_errors_are_audit_errors() -> None:
    with pytest.raises(AuditError):
        bound(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        bound(epsilon=-1.0)


@given(st.floats(0, 30), st.floats(0, 0.999))
def test_both_errors_are_equal_at_the_guess_probability(epsilon: float, delta: float) -> None:
    """At error rate x = 1 - guess on both sides, x + e^eps x = 1 - delta (the region's corner)."""
    error = 1 - compute_guess_probability(epsilon, delta)
    rounding = 2.0**-51 * (1 + math.exp(epsilon))
    assert math.isclose(error * (1 + math.exp(epsilon)), 1 - delta, abs_tol=rounding)
    assert 0.5 <= compute_guess_probability(epsilon, delta) <= 1.0


@given(st.floats(0, 800), st.floats(0, 800))
def test_a_larger_epsilon_never_lowers_the_guess(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert compute_guess_probability(low) <= compute_guess_probability(high)
