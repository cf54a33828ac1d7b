"""Messages from one of their rows on, or some rows of each: the same numbers as the whole's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.targets.components import (
    Component,
    Dense,
    Kind,
    Overlaid,
    Randomized,
    Randomizer,
    RankOne,
    Reports,
    Rows,
    SomeRows,
)
from fedrec_auditor.targets.federated.noise import ClippedNoise
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import (
    Masked,
    PartTakenBack,
    Replacement,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Wire

CLIENTS, ITEMS, WIDTH = 5, 9, 3  # an odd width: noise is drawn in pairs
_RNG = np.random.default_rng(0)
_TABLE = Dense(_RNG.normal(size=(CLIENTS, ITEMS, WIDTH)).astype(np.float32), Kind.GRADIENT)
_ROWS = Rows(
    indptr=np.array([0, 2, 2, 5, 6, 8]),
    ids=np.array([0, 4, 1, 2, 8, 3, 4, 7]),
    values=_RNG.normal(size=(8, WIDTH)).astype(np.float32),
    count=ITEMS,
    kind=Kind.MODEL,
    rest=_RNG.normal(size=(ITEMS, WIDTH)).astype(np.float32),
)
_NOISES: dict[str, Randomizer] = {
    "masked": Masked(1.0),
    "replaced": Replacement(1.0, 0.5),
    "repaired": PartTakenBack(1.0, 0.5),
    "normal": ClippedNoise(0.5, 0.2, normal=True),
    "Laplace": ClippedNoise(0.5, 0.2),
}
MESSAGES: dict[str, Component] = {
    "dense": _TABLE,
    "rows": _ROWS,
    "overlaid": Overlaid(_TABLE, _ROWS),
    "rank one": RankOne(
        _RNG.normal(size=(CLIENTS, WIDTH)),
        _RNG.normal(size=(ITEMS, WIDTH)),
        sparse.csr_array(
            _RNG.normal(size=(CLIENTS, ITEMS)) * (_RNG.random((CLIENTS, ITEMS)) < 0.3)
        ),
    ),
    "reports": Reports(
        _RNG.integers(ITEMS * WIDTH, size=(CLIENTS, 4)),
        _RNG.random((CLIENTS, 4)) < 0.5,
        2.0,
        (ITEMS, WIDTH),
    ),
    **{
        name: Randomized(_TABLE, noise, Streams.spawn(_RNG, CLIENTS))
        for name, noise in _NOISES.items()
    },
}


@pytest.mark.parametrize("first", [1, 4, 8])
@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_a_tail_is_the_end_of_the_whole(name: str, on_the_wire: bool, first: int) -> None:
    whole = Wire(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    tail, everybody, some = whole.tail(first), np.arange(CLIENTS), np.array([3, 0])
    assert tail.shape == (ITEMS - first, WIDTH)
    assert (len(tail), tail.kind, tail.rate) == (CLIENTS, whole.kind, whole.rate)
    dense = whole.dense(everybody)[:, first:]
    np.testing.assert_allclose(tail.dense(everybody), dense, atol=1e-6)
    np.testing.assert_allclose(tail.take(some).dense(np.arange(2)), dense[some], atol=1e-6)
    np.testing.assert_array_equal(tail.sent(some), whole.sent(some)[:, first:])
    np.testing.assert_allclose(tail.total(), whole.total()[first:], atol=1e-5)


@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_picked_rows_are_those_of_the_whole(name: str, on_the_wire: bool) -> None:
    whole = Wire(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    clients = np.array([3, 0, 1])
    for rows in (
        np.array([[4, 0], [8, 4], [2, 7]]),
        np.array([[3], [4], [0]]),
        np.zeros((3, 0), int),
    ):
        picked = whole.picked(clients, rows)
        expected = whole.dense(clients)[np.arange(3)[:, None], rows]
        np.testing.assert_allclose(picked, expected, atol=1e-6)


@pytest.mark.parametrize("on_the_wire", [False, True])
@pytest.mark.parametrize("name", MESSAGES)
def test_no_number_is_larger_than_is_said(name: str, on_the_wire: bool) -> None:
    whole = Wire(MESSAGES[name]) if on_the_wire else MESSAGES[name]
    assert np.abs(whole.dense(np.arange(CLIENTS))).max() <= whole.largest()


READ = ("reports",)
"""Messages of which no number is told before they are read."""


@pytest.mark.parametrize(
    "made",
    [MESSAGES[name] for name in MESSAGES if name not in READ],
    ids=lambda made: type(getattr(made, "randomize", made)).__name__,
)
def test_a_limit_is_told_by_what_messages_are_made_of(made: Component) -> None:
    """Without reading any, so that it takes no longer the more items there are to a message."""
    for part in (made, SomeRows(made, np.array([2, 4]))):
        assert np.abs(part.dense(np.arange(CLIENTS))).max() <= part.largest() < 100


@pytest.mark.parametrize("broken", ["vectors", "items", "corrections"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_broken_factors_have_no_limit(broken: str, number: float) -> None:
    factors = {"vectors": np.eye(2), "items": np.zeros((3, 2)), "corrections": np.zeros((2, 3))}
    factors[broken][0, 1] = number
    corrections = sparse.csr_array(factors["corrections"])
    assert RankOne(factors["vectors"], factors["items"], corrections).largest() > 1e100


@pytest.mark.parametrize("noise", ["normal", "Laplace"])
def test_noise_has_a_limit_and_what_is_no_number_has_none(noise: str) -> None:
    """A device whose training broke down sends NaN through clipping and noise."""
    assert isinstance(sent := MESSAGES[noise], Randomized)
    assert sent.largest() < 10
    broken = _TABLE.values.copy()
    broken[2, 3, 1] = np.nan
    assert Randomized(Dense(broken, Kind.MODEL), sent.randomize, sent.streams).largest() == np.inf


@pytest.mark.parametrize("name", _NOISES)
def test_the_sum_of_noise_is_that_of_the_messages(name: str) -> None:
    sent = MESSAGES[name]
    total = sent.dense(np.arange(CLIENTS)).sum(axis=0)
    np.testing.assert_allclose(sent.total(), total, atol=1e-5)
