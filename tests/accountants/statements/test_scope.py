from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.testing.targets import SCOPES
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace

WIDEST = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)


@pytest.fixture(scope="module")
def covers() -> np.ndarray:
    return np.array([[one.covers(two) for two in SCOPES] for one in SCOPES])


def test_covers_is_a_partial_order_over_all_scopes(covers: np.ndarray) -> None:
    assert len(SCOPES) == 7 * 3 * 5 * 3
    assert covers.diagonal().all(), "reflexive"
    assert not (covers & covers.T & ~np.eye(len(SCOPES), dtype=bool)).any(), "antisymmetric"
    through = (covers.astype(np.int64) @ covers.astype(np.int64)) > 0
    assert not (through & ~covers).any(), "transitive"


def test_one_scope_covers_all_but_presence_and_nothing_covers_it(covers: np.ndarray) -> None:
    position = SCOPES.index(WIDEST)
    presence = [s.unit is Unit.USER and s.adjacency is Adjacency.ADD_REMOVE for s in SCOPES]
    assert (covers[position] == ~np.array(presence)).all()
    assert covers[:, position].sum() == 1


# (wider, narrower), in the words of the field: whoever is protected wider is protected narrower.
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
    for scope in SCOPES:
        wide, narrow = _with(scope, name, wider), _with(scope, name, narrower)
        if wide.unit is Unit.USER != narrow.unit and wide.adjacency is Adjacency.ADD_REMOVE:
            continue  # see the test of users who stay
        if narrow.unit is Unit.USER and narrowed_to_presence(wide, narrow):
            continue  # see the test of who takes part
        assert wide.covers(narrow)
        assert not narrow.covers(wide)
        assert narrow.uncovered(wide) == (name,)


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("unit", Unit.ATTRIBUTE, Unit.RATING),
        ("unit", Unit.REPORT, Unit.INTERACTION),
        ("unit", Unit.RATING, Unit.INTERACTION),
        ("adjacency", Adjacency.REPLACE, Adjacency.ADD_REMOVE),
    ],
)
def test_unlike_things_are_not_compared(name: str, one: object, two: object) -> None:
    for a, b in ((one, two), (two, one)):
        assert not _with(WIDEST, name, a).covers(_with(WIDEST, name, b))


def test_hiding_whether_a_user_is_there_hides_half_of_what_a_user_who_stays_changes() -> None:
    # A noisy sum of contributions in [-1, 1]: a user who leaves takes away 1 at most, but a user
    # of one item who swaps it may go from -1 to 1.
    leaves = exact_lower_bound(Laplace(scale=1.0, low=0.0, high=1.0), WIDEST)
    changes = exact_lower_bound(Laplace(scale=1.0, low=-1.0, high=1.0), WIDEST)
    assert changes.epsilon == pytest.approx(2 * leaves.epsilon)
    there = _with(WIDEST, "adjacency", Adjacency.ADD_REMOVE)
    for unit in set(Unit) - {Unit.USER}:
        assert there.uncovered(_with(there, "unit", unit)) == ("unit",)
    assert there.covers(_with(there, "horizon", Horizon.ROUND))


def test_hiding_what_a_user_sends_does_not_hide_who_takes_part() -> None:
    there = _with(WIDEST, "adjacency", Adjacency.ADD_REMOVE)
    assert WIDEST.uncovered(there) == ("adjacency",)
    for unit in set(Unit) - {Unit.USER}:
        assert WIDEST.covers(_with(there, "unit", unit))


def test_a_scope_covers_field_by_field() -> None:
    for one, two in itertools.islice(itertools.product(SCOPES, SCOPES), 0, None, 37):
        fields = ("unit", "adjacency", "vantage", "horizon")
        base = dict.fromkeys(fields, WIDEST)
        base["adjacency"] = _with(WIDEST, "unit", Unit.INTERACTION)
        alone = [
            _with(base[f], f, getattr(one, f)).covers(_with(base[f], f, getattr(two, f)))
            for f in fields
        ]
        assert one.covers(two) == (not one.uncovered(two))
        assert set(one.uncovered(two)) <= set(fields)
        assert all(alone) or not one.covers(two)


def test_it_reads_as_the_four_words() -> None:
    assert str(WIDEST) == "user / any pair / server / training"
